"""JAX on Weft in a few lines: `JAX_PLATFORMS=weft python first_steps.py`."""

import jax
import jax.numpy as jnp


@jax.jit
def loss(weights, x, y):
    return jnp.mean((jnp.tanh(x @ weights["w1"]) @ weights["w2"] - y) ** 2)


@jax.jit
def step(weights, x, y):
    return jax.tree.map(lambda w, g: w - 0.1 * g, weights, jax.grad(loss)(weights, x, y))


k1, k2, k3 = jax.random.split(jax.random.key(0), 3)
x = jax.random.normal(k1, (256, 8))
y = jnp.sin(x.sum(1, keepdims=True))
weights = {"w1": jax.random.normal(k2, (8, 64)) / 3, "w2": jax.random.normal(k3, (64, 1)) / 8}
first = loss(weights, x, y)
for _ in range(300):
    weights = step(weights, x, y)

print(f"{jax.devices()[0].platform}: loss {first:.3f} -> {loss(weights, x, y):.3f}")
