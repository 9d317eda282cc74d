"""Ctrl-C while the main thread waits for a program or for the compiler.

Python looks at signals between its own instructions, and there are none while the main thread waits
in C++. The plugin therefore asks here, from a thread of its own, whether SIGINT raises
KeyboardInterrupt. If so, and if the main thread does not get to it by itself, the plugin ends what
that thread waits for. JAX then makes a JaxRuntimeError of it; making one runs a line of Python, where
the interpreter sees the signal and raises KeyboardInterrupt in its place. A handler of the user's own
is left alone: it runs when the program is done, as with any other call into C++.
"""

import atexit
import ctypes
import signal
import threading

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


def _watch(library):
    import jax

    main = threading.main_thread().native_id
    if main is None:
        return
    _watch_errors(jax.errors.JaxRuntimeError)
    library.set_interrupts(main, _ask)
    atexit.register(library.set_interrupts, 0, None)


FEATURES = {"Ctrl-C": _watch}
