"""JAX's persistent compilation cache, which is otherwise kept to a list of platforms."""

from weft import PLATFORM


class _AsCpu:
    """What is_cache_used looks at in a backend."""

    platform = "cpu"
    supports_executable_serialization = True


def install(library, c_api):
    del library, c_api
    from jax._src import compilation_cache

    original = compilation_cache.is_cache_used

    def is_cache_used(backend):
        return original(_AsCpu() if backend.platform == PLATFORM else backend)

    compilation_cache.is_cache_used = is_cache_used
