"""JAX's persistent compilation cache, which is otherwise kept to a list of platforms."""

from weft import PLATFORMS, _patched


class _AsCpu:
    """What is_cache_used looks at in a backend."""

    platform = "cpu"
    supports_executable_serialization = True


def _allow(library):
    del library
    from jax._src import compilation_cache

    original = compilation_cache.is_cache_used
    _patched.check_unary(original)

    def is_cache_used(backend):
        return original(_AsCpu() if backend.platform in PLATFORMS else backend)

    compilation_cache.is_cache_used = is_cache_used


FEATURES = {"the persistent compilation cache": _allow}
