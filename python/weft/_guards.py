"""jax.transfer_guard: fetching an array is a transfer once a guard was asked for.

An array's memory is the host's, and NumPy looks at it without a copy, past the guards. A program
that sets one wants to hear of every fetch, as on a device with memory of its own, which is what
arrays behave like from then on.
"""


def install(library, c_api):
    del c_api
    from jax._src import config

    guard = config.transfer_guard_device_to_host

    def watched(hook):
        def update(level):
            hook(level)
            if level is not None:
                library.forbid_host_views()

        return update

    guard._add_hooks(watched(guard._update_global_hook), watched(guard._update_thread_local_hook))
