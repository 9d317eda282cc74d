"""How far is far? NUTS (blackjax) draws from the posterior of a Gaussian process: its length, its height, its noise."""

import show  # first: it chooses the platform

import blackjax
import jax
import jax.numpy as jnp
import numpy as np


# ---- the program


def kernel(a, b, parameters):
    length, height = jnp.exp(parameters[0]), jnp.exp(parameters[1])
    return height**2 * jnp.exp(-((a[:, None] - b[None, :]) ** 2) / (2 * length**2))


def log_density(parameters, x, y):
    """Of log length, log height and log noise: standard normal priors (the noise's around -1), the marginal likelihood of the data."""
    noise = jnp.exp(2 * parameters[2])
    factor = jnp.linalg.cholesky(kernel(x, x, parameters) + noise * jnp.eye(x.size))
    white = jax.scipy.linalg.solve_triangular(factor, y, lower=True)
    away = parameters - jnp.array([0.0, 0.0, -1.0])
    return -0.5 * white @ white - jnp.log(jnp.diag(factor)).sum() - 0.5 * away @ away


def sample(x, y, grid, keys, warmup):
    """Each chain adapts its step size and mass matrix by windows, then draws; with the mean of the process for each draw."""
    density = lambda parameters: log_density(parameters, x, y)

    def chain(key):
        start, adapt, draw = jax.random.split(key, 3)
        adaptation = blackjax.window_adaptation(blackjax.nuts, density)
        (state, tuned), _ = adaptation.run(adapt, 0.3 * jax.random.normal(start, (3,)), num_steps=warmup)
        step = blackjax.nuts(density, **tuned).step

        def one(state, key):
            state, _ = step(key, state)
            return state, state.position

        return jax.lax.scan(one, state, jax.random.split(draw, warmup))[1]

    def curve(parameters):
        covariance = kernel(x, x, parameters) + jnp.exp(2 * parameters[2]) * jnp.eye(x.size)
        return kernel(grid, x, parameters) @ jax.scipy.linalg.solve(covariance, y, assume_a="pos")

    draws = jax.lax.map(chain, jax.vmap(jax.random.key)(keys))
    flat = draws.reshape(-1, 3)
    return dict(draws=flat, mean=flat.mean(0), deviation=flat.std(0), curves=jax.lax.map(curve, flat[::20]))


# ---- the picture


def data():
    rng = np.random.default_rng(3)
    x = np.sort(rng.uniform(0, 8, 32)).astype(np.float32)
    return x, (np.sin(1.3 * x) * np.exp(-0.1 * x) + 0.15 * rng.standard_normal(x.size)).astype(np.float32)


def draw(result):
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.6), width_ratios=(1.3, 1), layout="constrained")
    left.plot(np.linspace(-1, 10, 100), result["curves"][::4].T, color="tab:blue", lw=0.7, alpha=0.25)
    left.plot(*data(), "k.", ms=6)
    left.set_title("means of the process, one for each of some draws", fontsize=9)
    right.scatter(*result["draws"][:, :2].T, s=4, c=result["draws"][:, 2], cmap="viridis", lw=0)
    right.set_xlabel("log length")
    right.set_ylabel("log height (colour: log noise)")
    return figure


def program(quick):
    chains, steps = (1, 20) if quick else (4, 500)
    grid = np.linspace(-1, 10, 100, dtype=np.float32)
    return lambda x, y, grid, keys: sample(x, y, grid, keys, steps), (*data(), grid, np.arange(chains, dtype=np.uint32))


if __name__ == "__main__":
    # Rounding sends chains other ways: what they estimate is compared.
    show.main(program, draw, compared=["mean", "deviation"], tolerance=0.1)
