"""Attention as people write it on Weft and on XLA:CPU in one process, interleaved; medians, in milliseconds.

Scores in f32, one batch of 8 heads of 64: whole, causal, with a bias, by jax.nn.dot_product_attention; one token against a long cache; with the gradients of all operands.
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np

import harness

HEADS, DEPTH = 8, 64


def operands(dtype, queries, keys, heads=HEADS):
  random = np.random.default_rng(0)
  shapes = (1, queries, HEADS, DEPTH), (1, keys, heads, DEPTH), (1, keys, heads, DEPTH)
  return tuple(random.standard_normal(shape, np.float32).astype(dtype) for shape in shapes)


def plainly(causal=False, bias=False):
  def attend(q, k, v, *more):
    scores = jnp.einsum("bthd,bshd->bhts", q, k, preferred_element_type=jnp.float32) * DEPTH**-0.5
    if bias:
      scores = scores + more[0]
    if causal:
      scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -1e30)
    weights = jax.nn.softmax(scores, axis=-1).astype(v.dtype)
    return jnp.einsum("bhts,bshd->bthd", weights, v)
  return attend


def gradients(function):
  """The forward step and the gradients of all operands, by a sum of squares."""
  def step(q, k, v):
    return jax.value_and_grad(lambda *x: (function(*x).astype(jnp.float32) ** 2).sum() / x[0].size, (0, 1, 2))(q, k, v)
  return step


def program(name, kind, dtype, queries, keys, function, heads=HEADS, bias=False, quick=False, products=2):
  def make():
    more = (np.random.default_rng(1).standard_normal((HEADS, queries, keys), np.float32),) if bias else ()
    return function, (*operands(dtype, queries, keys, heads), *more)
  return harness.Program(name=name, kind=kind, make=make, flops=2 * products * HEADS * queries * keys * DEPTH, quick=quick,
                         tolerance=1e-5 if dtype == np.float32 else 2e-2)


def programs():
  for type_name, dtype in (("f32", np.float32), ("bf16", jnp.bfloat16)):
    for n in (1024, 4096):
      quick = n == 1024
      yield program(f"{type_name}_{n}", f"{type_name} whole", dtype, n, n, plainly(), quick=quick)
      yield program(f"{type_name}_causal_{n}", f"{type_name} causal", dtype, n, n, plainly(causal=True), quick=quick)
    yield program(f"{type_name}_bias_1024", f"{type_name} bias", dtype, 1024, 1024, plainly(bias=True), bias=True)
    yield program(f"{type_name}_jax_1024", f"{type_name} jax.nn", dtype, 1024, 1024,
                  lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True))
    yield program(f"{type_name}_grouped_1024", f"{type_name} grouped", dtype, 1024, 1024,
                  lambda q, k, v: jax.nn.dot_product_attention(q, k, v), heads=2)
    for n in (1024, 4096):
      yield program(f"{type_name}_grad_causal_{n}", f"{type_name} gradient", dtype, n, n, gradients(plainly(causal=True)),
                    quick=n == 1024, products=7)
    yield program(f"{type_name}_grad_jax_1024", f"{type_name} gradient", dtype, 1024, 1024,
                  gradients(lambda q, k, v: jax.nn.dot_product_attention(q, k, v)), products=7)
    yield program(f"{type_name}_decode_8192", f"{type_name} decode", dtype, 1, 8192, plainly(), quick=True)


if __name__ == "__main__":
  sys.exit(harness.run("attention", list(programs()), __doc__))
