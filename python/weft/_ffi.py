"""jax.ffi: handlers registered for `cpu` (jaxlib's LAPACK among them) serve this platform too."""

import ctypes
import logging
import threading

from weft import CPU, HAS_GPU, NAME, _native, _patched

_logger = logging.getLogger("weft")
_lock = threading.Lock()
_STAGES = ("instantiate", "prepare", "initialize", "execute")
_TYPED = 4  # HLO's number for the typed interface
_UNTYPED = 2  # the untyped one with a status, which suits functions that do not know it too


class Forwarder:
    """Registers with the plugin what jaxlib is given."""

    def __init__(self, library):
        self._library = library
        self._kept = []  # the capsules, which may own what they point to

    def target(self, name, function, platform=NAME, api_version=1, traits=0):
        del platform, traits
        name = name.decode() if isinstance(name, bytes) else name
        stages = function if isinstance(function, dict) else {"execute": function}
        capsules = [stages.get(stage) for stage in _STAGES]
        addresses = [capsule and _native.capsule_pointer(capsule) for capsule in capsules]
        with _lock:
            self._kept.append(capsules)
            self._library.register_target(name, _TYPED if api_version else _UNTYPED, addresses)

    def type(self, name, registration):
        """After jaxlib gave the type its number."""
        number = ctypes.c_int64.from_address(_native.capsule_pointer(registration["type_id"])).value
        info = registration.get("type_info")
        deleter = info and _XlaTypeInfo.from_address(_native.capsule_pointer(info)).deleter
        self._library.register_ffi_type(name, number, deleter)


class _XlaTypeInfo(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("extension_start", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p)]


def _serve(library):
    from jax._src.lib import _jax, xla_client

    original = xla_client.register_custom_call_target
    _patched.check_parameters(original, "name", "fn", "platform", "api_version")
    forward = Forwarder(library)
    names = (NAME, CPU) if HAS_GPU else (NAME,)
    # As XLA's CPU client would on its start, so that what waits for it is registered now.
    xla_client.register_custom_call_handler("cpu", _jax.register_custom_call_target)
    if hasattr(xla_client, "register_custom_type_handler"):

        def register_type(name, registration):
            _jax.register_custom_type(name, registration)
            forward.type(name, registration)

        xla_client.register_custom_type_handler("cpu", register_type)
        for name in names:
            xla_client.register_custom_type_handler(name, register_type)
    for name, stages in xla_client.custom_call_targets("Host").items():
        if not name.startswith("xla_"):  # XLA's own callbacks look for XLA's own context
            forward.target(name, stages)

    for name in names:
        xla_client.register_custom_call_handler(name, forward.target)

    def register_custom_call_target(name, fn, platform="cpu", api_version=0, *args, **kwargs):
        original(name, fn, platform, api_version, *args, **kwargs)
        if platform in ("cpu", "Host"):
            forward.target(name, fn, NAME, api_version)

    xla_client.register_custom_call_target = register_custom_call_target


FEATURES = {"the FFI": _serve}
