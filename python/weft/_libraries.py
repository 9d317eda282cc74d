"""Libraries that know platforms by a fixed list and refuse the rest, where one function decides.

WEFT_AS=cpu is the way for all others.
"""

import importlib.util
import logging
import sys

from weft import NAME, PLATFORM, _patched

_logger = logging.getLogger("weft")


def _mjx_io(module):
    """mujoco.mjx: the implementation in JAX, which works on any device, is put_model's default."""
    original, jax_implementation = module._resolve_impl, module.types.Impl.JAX
    _patched.check_unary(original)

    def resolve_impl(device):
        return jax_implementation if device.platform == NAME else original(device)

    module._resolve_impl = resolve_impl


_PATCHES = {"mujoco.mjx._src.io": _mjx_io}


def _apply(name, module):
    try:
        _PATCHES[name](module)
    except Exception as error:  # pylint: disable=broad-except
        _logger.warning("weft: %s is not as it was: %s: %s\n  hint: WEFT_AS=cpu may help", name,
                        type(error).__name__, error)


class _AfterImport:
    """A finder that leaves modules to the others and patches them when they have been imported."""

    def __init__(self):
        self._looking = set()

    def find_spec(self, name, path=None, target=None):
        del path, target
        if name not in _PATCHES or name in self._looking:
            return None
        self._looking.add(name)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._looking.discard(name)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            run = spec.loader.exec_module

            def exec_module(module):
                run(module)
                _apply(name, module)

            spec.loader.exec_module = exec_module
        return spec


def _watch_imports(library):
    del library
    if PLATFORM != NAME:
        return
    for name in _PATCHES:
        if name in sys.modules:
            _apply(name, sys.modules[name])
    sys.meta_path.insert(0, _AfterImport())


FEATURES = {"libraries that list platforms": _watch_imports}
