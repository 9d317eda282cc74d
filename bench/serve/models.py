"""The models that bench/serve/run.py puts load on; written by weft.serve.export, once."""

import jax
import jax.numpy as jnp
import numpy as np

import weft.serve


def mlp(p, x):
    for w in p:
        x = jnp.tanh(x @ w)
    return x


def flat(p, x, steps=400):
    """What a batch costs hardly depends on its rows: the largest singular value of the weights is found in every call."""
    def step(_, v):
        u = p @ v
        u = u / jnp.sqrt((u * u).sum())
        v = u @ p
        return v / jnp.sqrt((v * v).sum())
    v = jax.lax.fori_loop(0, steps, step, jnp.ones(p.shape[1], p.dtype))
    return x @ (p / jnp.sqrt(((p @ v) ** 2).sum()))


def long(p, x):
    """Some milliseconds of work that one thread does."""
    return flat(p, x, 2000)


def bulky(p, x):
    """Two megabytes in and out, little to compute."""
    return jnp.tanh(x * p[0]) + p[0]


def write(base):
    random = np.random.default_rng(0)

    def weights(*sizes):
        return [random.normal(size=s).astype(np.float32) / 16 for s in zip(sizes, sizes[1:])]

    buckets = (1, 2, 4, 8, 16, 32)
    models = {
        "small": (mlp, weights(64, 64, 64), 64),
        "wide": (mlp, weights(256, 512, 256), 256),
        "medium": (mlp, weights(512, 1024, 1024, 512), 512),
        "flat": (flat, weights(128, 128)[0], 128),
        "long": (long, weights(128, 128)[0], 128),
    }
    for name, (function, params, width) in models.items():
        weft.serve.export(function, params, {"x": np.ones((1, width), np.float32)}, f"{base}/{name}", buckets=buckets)
    weft.serve.export(bulky, weights(1, 524288), {"x": np.ones((1, 524288), np.float32)}, f"{base}/bulky", buckets=(1,))
