"""Lets JAX find Weft in the source tree: with python/ and test/tree/ on PYTHONPATH no package needs to be installed."""


def initialize():
  from weft import jax_plugin
  jax_plugin.initialize()
