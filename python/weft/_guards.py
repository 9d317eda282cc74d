"""jax.transfer_guard: fetching an array is a transfer while a guard is set.

An array's memory is the host's, and NumPy looks at it without a copy, past the guards. A program
that sets one wants to hear of every fetch, as on a device with memory of its own, which is what
arrays behave like meanwhile. Arrays that become constants of a program are not fetched by it.
"""

import threading

from weft import _patched


class Guards:
    """How many threads have a guard, and whether the process has one."""

    def __init__(self, changed):
        self._changed = changed  # called with: is there any
        self._lock = threading.Lock()
        self._here = threading.local()
        self._threads = 0
        self._everywhere = False

    def of_thread(self, level):
        active = level is not None
        with self._lock:
            self._threads += active - getattr(self._here, "active", False)
            self._here.active = active
            self._changed(self._everywhere or self._threads > 0)

    def of_process(self, level):
        with self._lock:
            self._everywhere = level is not None
            self._changed(self._everywhere or self._threads > 0)


def _watch(library):
    from jax._src import array, config
    from jax._src.interpreters import mlir

    library.allow_host_views(True)  # an older plugin cannot: then nothing is changed
    guard = config.transfer_guard_device_to_host
    _patched.check_parameters(guard._add_hooks, "update_global_hook", "update_thread_local_hook")
    guards = Guards(lambda any_set: library.allow_host_views(not any_set))

    def both(*hooks):
        def update(level):
            for hook in hooks:
                hook(level)

        return update

    everywhere, here = guard._update_global_hook, guard._update_thread_local_hook
    constant = mlir.get_constant_handler(array.ArrayImpl)
    guard._add_hooks(both(everywhere, guards.of_process), both(here, guards.of_thread))

    def unguarded_constant(*args, **kwargs):
        if guard.value is None:
            return constant(*args, **kwargs)
        with guard("allow"):
            return constant(*args, **kwargs)

    mlir.register_constant_handler(array.ArrayImpl, unguarded_constant)


FEATURES = {"transfer guards": _watch}
