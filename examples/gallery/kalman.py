"""Where was the ball? A Kalman filter and a Rauch-Tung-Striebel smoother follow a track through noisy measurements."""

import show  # first: it chooses the platform

import jax
import jax.numpy as jnp
import numpy as np

DT, NOISE = 0.1, 0.8  # seconds between measurements; their standard deviation


# ---- the program


def smoother(measurements):
    """Positions and velocities: filtered forwards, smoothed backwards, each with its covariance."""
    eye, zero = jnp.eye(2), jnp.zeros((2, 2))
    move = jnp.block([[eye, DT * eye], [zero, eye]])
    shake = 0.3 * jnp.block([[DT**3 / 3 * eye, DT**2 / 2 * eye], [DT**2 / 2 * eye, DT * eye]])
    look, noise = jnp.hstack([eye, zero]), NOISE**2 * eye

    def forwards(state, measured):
        mean, cov = move @ state[0], move @ state[1] @ move.T + shake
        gain = jnp.linalg.solve(look @ cov @ look.T + noise, look @ cov).T
        new = mean + gain @ (measured - look @ mean), (jnp.eye(4) - gain @ look) @ cov
        return new, (*new, mean, cov)

    def backwards(later, step):
        (mean, cov), (filtered, filtered_cov, predicted, predicted_cov) = later, step
        gain = jnp.linalg.solve(predicted_cov, move @ filtered_cov).T
        new = filtered + gain @ (mean - predicted), filtered_cov + gain @ (cov - predicted_cov) @ gain.T
        return new, (filtered, *new)

    start = jnp.concatenate([measurements[0], jnp.zeros(2)]), 10 * jnp.eye(4)
    end, steps = jax.lax.scan(forwards, start, measurements)
    first = jax.tree.map(lambda leaf: leaf[1:], steps[2:])  # what step k+1 predicted stands beside step k
    _, (filtered, means, covs) = jax.lax.scan(backwards, end, (*jax.tree.map(lambda leaf: leaf[:-1], steps[:2]), *first), reverse=True)
    return dict(filtered=filtered[:, :2], smoothed=means[:, :2], covariance=covs[:, :2, :2])


# ---- the picture


def track(steps):
    t = np.linspace(0, 2 * np.pi * steps / 400, steps)
    return np.stack([10 * np.sin(t) + 2 * np.cos(3 * t), 6 * np.sin(2 * t)], -1)


def measure(steps):
    return (track(steps) + NOISE * np.random.default_rng(0).standard_normal((steps, 2))).astype(np.float32)


def draw(result):
    import matplotlib.pyplot as plt

    steps = len(result["smoothed"]) + 1
    shown = slice(0, min(400, steps))
    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    axes.plot(*measure(steps)[shown].T, ".", color="#bbbbbb", ms=4, label="measured")
    axes.plot(*track(steps)[shown].T, color="black", lw=1, ls=":", label="true")
    axes.plot(*result["filtered"][shown].T, color="tab:orange", lw=1, label="filtered")
    axes.plot(*result["smoothed"][shown].T, color="tab:blue", lw=2, label="smoothed")
    circle = np.stack([np.cos(np.linspace(0, 2 * np.pi, 40)), np.sin(np.linspace(0, 2 * np.pi, 40))])
    for k in range(0, shown.stop - 1, 20):  # two standard deviations
        ellipse = result["smoothed"][k][:, None] + 2 * np.linalg.cholesky(result["covariance"][k]) @ circle
        axes.fill(*ellipse, color="tab:blue", alpha=0.15, lw=0)
    axes.legend(loc="upper right", fontsize=8)
    axes.set_aspect("equal")
    return figure


def program(quick):
    return smoother, (measure(200 if quick else 20_000),)


if __name__ == "__main__":
    show.main(program, draw)
