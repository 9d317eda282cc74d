"""jax.ffi: handlers registered for `cpu` (jaxlib's LAPACK among them) serve this platform too."""

import logging
import threading

from weft import PLATFORM, _native

_logger = logging.getLogger("weft")
_lock = threading.Lock()
# Stages of a handler that comes as a dictionary, besides `execute`.
_EARLIER_STAGES = ("instantiate", "prepare", "initialize")


class Forwarder:
    """Registers with the plugin what jaxlib is given."""

    def __init__(self, library):
        self._library = library
        self._kept = []  # the capsules, which may own what they point to

    def __call__(self, name, function, platform=PLATFORM, api_version=1, traits=0):
        del platform
        name = name.decode() if isinstance(name, bytes) else name
        stages = function if isinstance(function, dict) else {"execute": function}
        if api_version == 0:
            _logger.debug("weft: custom call %s has the untyped interface and is left out", name)
            return
        capsules = {stage: stages.get(stage) for stage in (*_EARLIER_STAGES, "execute")}
        if capsules["execute"] is None:
            return
        addresses = {stage: _native.capsule_pointer(capsule) if capsule is not None else None
                     for stage, capsule in capsules.items()}
        with _lock:
            self._kept.append(capsules)
            self._library.register_ffi_handler(
                name, addresses["execute"], PLATFORM, int(getattr(traits, "value", traits) or 0))


def install(library, c_api):
    del c_api
    from jax._src.lib import _jax, xla_client

    forward = Forwarder(library)
    # As XLA's CPU client would on its start, so that what waits for it is registered now.
    xla_client.register_custom_call_handler("cpu", _jax.register_custom_call_target)
    if hasattr(xla_client, "register_custom_type_handler"):
        xla_client.register_custom_type_handler("cpu", _jax.register_custom_type)
    for name, stages in xla_client.custom_call_targets("Host").items():
        if not name.startswith("xla_"):  # XLA's own callbacks look for XLA's own context
            forward(name, stages)

    xla_client.register_custom_call_handler(PLATFORM, forward)
    original = xla_client.register_custom_call_target

    def register_custom_call_target(name, fn, platform="cpu", api_version=0, *args, **kwargs):
        original(name, fn, platform, api_version, *args, **kwargs)
        if platform in ("cpu", "Host"):
            original(name, fn, PLATFORM, api_version, *args, **kwargs)

    xla_client.register_custom_call_target = register_custom_call_target
