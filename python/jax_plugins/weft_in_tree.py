"""For work in the source tree: with `python/` on PYTHONPATH, JAX finds Weft without installing it."""

from weft.jax_plugin import initialize

__all__ = ["initialize"]
