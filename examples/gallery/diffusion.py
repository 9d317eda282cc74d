"""Digits out of noise: a diffusion model (equinox, optax) of the 8 x 8 digits of scikit-learn, trained and drawn from in one program."""

import show  # first: it chooses the platform

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

LEVELS, BATCH = 100, 128  # levels of noise
KEPT = np.cumprod(1 - np.linspace(1e-3, 0.08, LEVELS)).astype(np.float32)  # how much of the picture is left at each


# ---- the program


class Denoiser(eqx.Module):
    """Guesses the noise in a picture from the picture, the level of noise and the digit."""

    layers: list
    levels: eqx.nn.Embedding
    digits: eqx.nn.Embedding

    def __init__(self, width, key):
        keys = jax.random.split(key, 6)
        sizes = (64, width, width, width, 64)
        self.layers = [eqx.nn.Linear(m, n, key=k) for m, n, k in zip(sizes, sizes[1:], keys)]
        self.levels = eqx.nn.Embedding(LEVELS, width, key=keys[4])
        self.digits = eqx.nn.Embedding(10, width, key=keys[5])

    def __call__(self, x, level, digit):
        told = self.levels(level) + self.digits(digit)
        x = self.layers[0](x) + told
        for layer in self.layers[1:-1]:
            x = x + layer(jax.nn.gelu(x) + told)
        return self.layers[-1](jax.nn.gelu(x))


def train(weights, structure, pictures, digits, steps, key):
    optimiser = optax.adam(optax.cosine_decay_schedule(2e-3, steps))

    def loss_of(weights, key):
        which, how, what = jax.random.split(key, 3)
        rows = jax.random.randint(which, (BATCH,), 0, len(pictures))
        level = jax.random.randint(how, (BATCH,), 0, LEVELS)
        noise = jax.random.normal(what, (BATCH, 64))
        kept = jnp.asarray(KEPT)[level, None]
        noisy = jnp.sqrt(kept) * pictures[rows] + jnp.sqrt(1 - kept) * noise
        guess = jax.vmap(eqx.combine(weights, structure))(noisy, level, digits[rows])
        return jnp.mean((guess - noise) ** 2)

    def step(state, key):
        weights, moments = state
        loss, grads = jax.value_and_grad(loss_of)(weights, key)
        updates, moments = optimiser.update(grads, moments)
        return (eqx.apply_updates(weights, updates), moments), loss

    (weights, _), losses = jax.lax.scan(step, (weights, optimiser.init(weights)), jax.random.split(key, steps))
    return weights, losses


def sample(denoiser, digits, key):
    """From noise to digits, level by level (Ho, Jain and Abbeel, 2020)."""
    kept = jnp.asarray(KEPT)
    alpha = kept / jnp.concatenate([jnp.ones(1), kept[:-1]])

    def step(x, inputs):
        level, key = inputs
        guess = jax.vmap(denoiser, (0, None, 0))(x, level, digits)
        x = (x - (1 - alpha[level]) / jnp.sqrt(1 - kept[level]) * guess) / jnp.sqrt(alpha[level])
        return x + jnp.where(level > 0, jnp.sqrt(1 - alpha[level]), 0) * jax.random.normal(key, x.shape), x

    first, *keys = jax.random.split(key, LEVELS + 1)
    start = jax.random.normal(first, (len(digits), 64))
    return jax.lax.scan(step, start, (jnp.arange(LEVELS)[::-1], jnp.stack(keys)))[1]


# ---- the picture


def draw(result):
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(8, 4), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1.7, 1))
    shown = [0, 50, 75, 90, 99]
    grid = np.full((10 * len(shown), 100), -1.0)
    for i, k in enumerate(shown):
        for j, picture in enumerate(result["path"][k].reshape(10, 8, 8)):
            grid[10 * i + 1:10 * i + 9, 10 * j + 1:10 * j + 9] = picture
    axes = left.subplots()
    axes.imshow(grid, cmap="gray_r", vmin=-1, vmax=1)
    axes.set_title("from noise (top) to digits (bottom)", fontsize=9)
    axes.axis("off")
    axes = right.subplots()
    axes.semilogy(np.convolve(result["losses"], np.ones(20) / 20, "valid"), lw=1)
    axes.set_xlabel("step")
    axes.set_ylabel("squared error of the noise")
    return figure


def program(quick):
    from sklearn.datasets import load_digits

    steps, width = (5, 32) if quick else (3000, 192)
    pictures, digits = load_digits(return_X_y=True)
    weights, structure = eqx.partition(Denoiser(width, jax.random.key(0)), eqx.is_array)

    def run(weights, pictures, digits):
        trained, losses = train(weights, structure, pictures, digits, steps, jax.random.key(1))
        return dict(losses=losses, path=sample(eqx.combine(trained, structure), jnp.arange(10), jax.random.key(2)))

    return run, (jax.tree.map(np.asarray, weights), (pictures / 8 - 1).astype(np.float32), digits.astype(np.int32))


if __name__ == "__main__":
    show.main(program, draw, tolerance=5e-2)
