"""Training steps of three small networks, written out in plain JAX: what their compilation costs is measured by compile.py."""

import jax
from jax import lax
import jax.numpy as jnp
import numpy as np


def zeros_like_shapes(tree):
  """Weights: values do not matter for compilation."""
  is_shape = lambda node: isinstance(node, tuple) and all(isinstance(size, int) for size in node)
  return jax.tree.map(lambda shape: np.zeros(shape, np.float32), tree, is_leaf=is_shape)


def descend(loss):
  """One step of gradient descent with momentum, the usual training step."""
  def step(weights, momentum, *batch):
    value, gradient = jax.value_and_grad(loss)(weights, *batch)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, gradient)
    return value, jax.tree.map(lambda w, m: w - 0.01 * m, weights, momentum), momentum
  return step


def cross_entropy(logits, labels):
  return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], axis=-1))


def mlp():
  shapes = [((784, 512), (512,)), ((512, 512), (512,)), ((512, 10), (10,))]

  def loss(layers, x, labels):
    for k, (w, b) in enumerate(layers):
      x = x @ w + b
      x = jax.nn.relu(x) if k < 2 else x
    return cross_entropy(x, labels)
  weights = zeros_like_shapes(shapes)
  return descend(loss), (weights, weights, np.zeros((128, 784), np.float32), np.zeros(128, np.int32))


def transformer(layers=12, width=256, heads=4, length=64, batch=4, words=1000):
  shapes = {"embedding": (words, width), "place": (length, width), "out": (width, words),
            "layers": [{"n1": (width,), "n2": (width,), "qkv": (width, 3 * width), "mix": (width, width),
                        "up": (width, 4 * width), "b_up": (4 * width,), "down": (4 * width, width), "b_down": (width,)}
                       for _ in range(layers)]}

  def normalise(x, scale):
    x = x - jnp.mean(x, axis=-1, keepdims=True)
    return x * lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-5) * scale

  def attend(x, layer):
    split = lambda t: t.reshape(*t.shape[:-1], heads, width // heads)
    q, k, v = map(split, jnp.split(x @ layer["qkv"], 3, axis=-1))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(width // heads)
    scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)
    return mixed.reshape(x.shape) @ layer["mix"]

  def loss(weights, tokens, labels):
    x = weights["embedding"][tokens] + weights["place"]
    for layer in weights["layers"]:
      x = x + attend(normalise(x, layer["n1"]), layer)
      hidden = jax.nn.gelu(normalise(x, layer["n2"]) @ layer["up"] + layer["b_up"])
      x = x + hidden @ layer["down"] + layer["b_down"]
    return cross_entropy(x @ weights["out"], labels)
  weights = zeros_like_shapes(shapes)
  tokens = np.zeros((batch, length), np.int32)
  return descend(loss), (weights, weights, tokens, tokens)


def resnet18(batch=8, size=64, classes=100):
  widths = [64, 64, 128, 128, 256, 256, 512, 512]
  block = lambda a, b: {"c1": (3, 3, a, b), "n1": [(b,), (b,)], "c2": (3, 3, b, b), "n2": [(b,), (b,)],
                        **({"skip": (1, 1, a, b)} if a != b else {})}
  shapes = {"stem": (7, 7, 3, 64), "norm": [(64,), (64,)], "out": (512, classes),
            "blocks": [block(a, b) for a, b in zip([64, *widths], widths)]}

  def convolve(x, w, stride=1):
    return lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

  def normalise(x, parameters):
    mean, variance = jnp.mean(x, (0, 1, 2)), jnp.var(x, (0, 1, 2))
    return (x - mean) * lax.rsqrt(variance + 1e-5) * parameters[0] + parameters[1]

  def loss(weights, x, labels):
    x = jax.nn.relu(normalise(convolve(x, weights["stem"], 2), weights["norm"]))
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
    for w in weights["blocks"]:
      stride = 2 if "skip" in w else 1
      y = jax.nn.relu(normalise(convolve(x, w["c1"], stride), w["n1"]))
      y = normalise(convolve(y, w["c2"]), w["n2"])
      x = jax.nn.relu(y + (convolve(x, w["skip"], stride) if "skip" in w else x))
    return cross_entropy(jnp.mean(x, (1, 2)) @ weights["out"], labels)
  weights = zeros_like_shapes(shapes)
  return descend(loss), (weights, weights, np.zeros((batch, size, size, 3), np.float32), np.zeros(batch, np.int32))
