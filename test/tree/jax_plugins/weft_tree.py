"""Lets JAX find Weft in the source tree: with python/ and test/tree/ on PYTHONPATH no package needs to be installed."""

from importlib.metadata import entry_points


def initialize():
  # An installed package is found by its entry point, and comes first.
  if not any(entry.value.split(":")[0] == "weft" for entry in entry_points(group="jax_plugins")):
    import weft
    weft.initialize()
