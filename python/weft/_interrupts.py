"""Ctrl-C while the main thread waits for a program or for the compiler.

Python looks at signals between its own instructions, and there are none while the main thread waits
in C++. The plugin therefore asks here, from a thread of its own, whether SIGINT raises
KeyboardInterrupt. If so, and if the main thread does not get to it by itself, the plugin ends what
that thread waits for. JAX then makes a JaxRuntimeError of it; making one runs a line of Python, where
the interpreter sees the signal and raises KeyboardInterrupt in its place. A handler of the user's own
is left alone: it runs when the program is done, as with any other call into C++.

JAX compiles on a thread of its own, which an interrupt does not end: it may not even have sent the
program yet. A process that leaves then waits for that thread, which would otherwise use a client that
is gone.
"""

import atexit
import ctypes
import signal
import threading
import time

# (what the main thread shall call, with what) -> 1 where SIGINT raises KeyboardInterrupt, else 0.
_Ask = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
_add_pending_call = ctypes.pythonapi.Py_AddPendingCall
_add_pending_call.argtypes = [ctypes.c_void_p, ctypes.c_void_p]


@_Ask
def _ask(seen, turn):
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return 0
    return 1 if _add_pending_call(seen, turn) == 0 else 0


def _watch_errors(error):
    """Gives JAX's error, which is made in C++, a constructor in Python."""
    make = error.__init__

    def __init__(self, *args):  # the interpreter looks at signals here
        make(self, *args)

    error.__init__ = __init__


class _Compilations:
    """Calls of JAX's client that compile, and how many of them were left by an interrupt."""

    PATIENCE, LOOK, UNWIND = 20.0, 0.002, 0.05  # seconds

    def __init__(self, library, client):
        self.library, self.asked, self.left = library, 0, 0
        inner = client.compile_and_load

        def compile_and_load(client, *args, **kwargs):
            if "\nweft " not in client.platform_version:
                return inner(client, *args, **kwargs)
            self.asked += 1
            try:
                return inner(client, *args, **kwargs)
            except KeyboardInterrupt:
                self.left += 1
                raise

        client.compile_and_load = compile_and_load

    def leave(self):
        stop = time.monotonic() + self.PATIENCE
        while self.left and self.library.compilations_asked() < self.asked and time.monotonic() < stop:
            time.sleep(self.LOOK)
        self.library.set_interrupts(0, None)  # cancels them
        if self.left:
            time.sleep(self.UNWIND)


def _watch(library):
    import jax
    from jax._src.lib import _jax

    main = threading.main_thread().native_id
    if main is None:
        return
    compilations = _Compilations(library, _jax.Client)
    _watch_errors(jax.errors.JaxRuntimeError)
    library.set_interrupts(main, _ask)
    atexit.register(compilations.leave)


FEATURES = {"Ctrl-C": _watch}
