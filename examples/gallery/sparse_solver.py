"""A drum of an odd shape: a sparse Laplacian (BCOO) and conjugate gradients give its height under load, and its lowest tone."""

import show  # first: it chooses the platform

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import sparse


# ---- the program


def solve(values, indices, load):
    """Solves A x = load, then finds the smallest eigenvalue by inverse iteration, each step of which solves once more."""
    matrix = sparse.BCOO((values, indices), shape=(load.size, load.size), indices_sorted=True, unique_indices=True)

    def solved(b):
        return jax.scipy.sparse.linalg.cg(lambda x: matrix @ x, b, tol=1e-5, maxiter=500)[0]

    def inverse_step(_, x):
        x = solved(x)
        return x / jnp.linalg.norm(x)

    height = solved(load)
    mode = jax.lax.fori_loop(0, 6, inverse_step, height / jnp.linalg.norm(height))
    return dict(height=height, mode=mode, eigenvalue=mode @ (matrix @ mode))


# ---- the drum


def drum(size):
    """Which points of the square belong to the drum."""
    y, x = np.mgrid[-1:1:size * 1j, -1:1:size * 1j]
    radius, angle = np.hypot(x, y), np.arctan2(y, x)
    return (radius < 0.75 + 0.2 * np.cos(5 * angle)) & (np.hypot(x - 0.3, y + 0.1) > 0.13)


def five_points(inside):
    """The negative Laplacian on the points inside, 0 outside: values and their (row, column), sorted."""
    number = np.cumsum(inside).reshape(inside.shape) - 1
    i, j = np.nonzero(inside)
    entries = [(number[i, j], number[i, j], np.full(i.size, 4.0))]
    for di, dj in ((0, 1), (0, -1), (1, 0), (-1, 0)):
        near = inside[i + di, j + dj]
        entries.append((number[i, j][near], number[i + di, j + dj][near], np.full(near.sum(), -1.0)))
    rows, columns, values = (np.concatenate(part) for part in zip(*entries))
    order = np.lexsort((columns, rows))
    return values[order].astype(np.float32), np.stack([rows, columns], -1)[order].astype(np.int32)


# ---- the picture


def draw(result):
    import matplotlib.pyplot as plt

    size = next(n for n in (40, 160) if drum(n).sum() == result["height"].size)
    figure, both = plt.subplots(1, 2, figsize=(7, 3.6), layout="constrained")
    for axes, name, title in zip(both, ("height", "mode"), ("under load", f"lowest mode, λ = {result['eigenvalue']:.2e}")):
        surface = np.full((size, size), np.nan)
        surface[drum(size)] = np.abs(result[name])
        axes.contourf(surface, 14, cmap="viridis")
        axes.set_title(title, fontsize=10)
        axes.set_aspect("equal")
        axes.axis("off")
    return figure


def program(quick):
    inside = drum(40 if quick else 160)
    load = np.ones(inside.sum(), np.float32)
    return solve, (*five_points(inside), load)


if __name__ == "__main__":
    show.main(program, draw, tolerance=1e-3)
