"""What the library tests share: made-up data, and the line in which a test says what it computed."""

import json
import os

import jax
import numpy as np


def points(count=128, seed=0):
  """Points of the plane and the class of each: inside or outside of a ring."""
  rng = np.random.default_rng(seed)
  x = rng.uniform(-1, 1, (count, 2)).astype(np.float32)
  radius = np.hypot(x[:, 0], x[:, 1])
  return x, ((radius > 0.4) & (radius < 0.9)).astype(np.int32)


def stripes(count=32, size=12, seed=0):
  """Noisy pictures of horizontal and vertical stripes, and which of the two each is."""
  rng = np.random.default_rng(seed)
  labels = rng.integers(0, 2, count).astype(np.int32)
  wave = np.sin(np.arange(size) * 1.5)
  rows = np.broadcast_to(wave[:, None], (size, size))
  images = np.where(labels[:, None, None] == 0, rows, rows.T) + 0.3 * rng.standard_normal((count, size, size))
  return images[..., None].astype(np.float32), labels


def line(count=40, seed=0):
  """x, y of a noisy line y = 1.5 x - 0.5."""
  rng = np.random.default_rng(seed)
  x = rng.uniform(-2, 2, count).astype(np.float32)
  return x, (1.5 * x - 0.5 + 0.3 * rng.standard_normal(count)).astype(np.float32)


def report(*, exact=None, near=None):
  """`exact`: values that must agree up to rounding; `near`: {name: (value, allowed difference)} of random processes."""
  wanted = os.environ["JAX_PLATFORMS"].split(",")[0]
  assert jax.default_backend() == wanted, f"the backend is {jax.default_backend()}, not {wanted}"
  flat = {name: np.asarray(value, np.float64).ravel().tolist() for name, value in (exact or {}).items()}
  loose = {name: [np.asarray(value, np.float64).ravel().tolist(), allowed] for name, (value, allowed) in (near or {}).items()}
  print("RESULT " + json.dumps({"exact": flat, "near": loose}))
