"""Spots that divide: the Gray-Scott equations, two chemicals that react and diffuse, by finite differences."""

import show  # first: it chooses the platform

import jax
import jax.numpy as jnp
import numpy as np

FEED, KILL, RATES = 0.055, 0.062, (1.0, 0.5)  # the last: how fast each chemical diffuses


# ---- the program


def laplacian(c):
    """Nine points on a torus."""
    sides = sum(jnp.roll(c, shift, axis) for axis in (0, 1) for shift in (1, -1))
    corners = sum(jnp.roll(c, (i, j), (0, 1)) for i in (1, -1) for j in (1, -1))
    return 0.2 * sides + 0.05 * corners - c


def simulate(u, v, steps):
    """Explicit Euler; `steps` is a value of the program, so that one compilation serves any number of steps."""

    def step(_, state):
        u, v = state
        made = u * v * v
        u, v = (u + RATES[0] * laplacian(u) - made + FEED * (1 - u),
                v + RATES[1] * laplacian(v) + made - (FEED + KILL) * v)
        return u, v

    u, v = jax.lax.fori_loop(0, steps, step, (u, v))
    return dict(u=u, v=v)


# ---- the picture


def draw(result):
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(4, 4))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.imshow(result["v"], cmap="magma", interpolation="bilinear")
    axes.axis("off")
    return figure


def program(quick):
    size, steps = (48, 100) if quick else (200, 6000)
    rng = np.random.default_rng(0)
    u, v = np.ones((size, size), np.float32), np.zeros((size, size), np.float32)
    for i, j in rng.integers(0, size - 6, (size // 10, 2)):
        u[i:i + 6, j:j + 6], v[i:i + 6, j:j + 6] = 0.5, 0.25
    v += 0.02 * rng.random(v.shape, np.float32)
    return simulate, (u, v, np.int32(steps))


if __name__ == "__main__":
    show.main(program, draw, tolerance=1e-2)
