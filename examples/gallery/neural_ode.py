"""A network learns a law of motion: a neural ODE (diffrax, equinox, optax) fitted to the tracks of a damped pendulum."""

import show  # first: it chooses the platform

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax


# ---- the program


def solve(field, start, times, step=0.05):
    """The track of one starting point, by Tsitouras' method of order 5."""
    term = diffrax.ODETerm(lambda t, y, args: field(y))
    return diffrax.diffeqsolve(term, diffrax.Tsit5(), times[0], times[-1], step, start, saveat=diffrax.SaveAt(ts=times),
                               stepsize_controller=diffrax.PIDController(rtol=1e-4, atol=1e-6)).ys


def train(weights, structure, times, tracks, steps):
    """Adam on the distance between tracks; the gradient goes back through the solver."""
    optimiser = optax.adam(optax.cosine_decay_schedule(1e-2, steps))

    def loss_of(weights):
        field = eqx.combine(weights, structure)
        return jnp.mean((jax.vmap(solve, (None, 0, None))(field, tracks[:, 0], times) - tracks) ** 2)

    def step(state, _):
        weights, moments = state
        loss, grads = jax.value_and_grad(loss_of)(weights)
        updates, moments = optimiser.update(grads, moments)
        return (eqx.apply_updates(weights, updates), moments), loss

    (weights, _), losses = jax.lax.scan(step, (weights, optimiser.init(weights)), length=steps)
    field = eqx.combine(weights, structure)
    longer = jnp.linspace(times[0], 2 * times[-1], 120)  # twice as long as what it has seen
    arrows = jnp.stack(jnp.meshgrid(jnp.linspace(-1.8, 1.8, 15), jnp.linspace(-1.8, 1.8, 15)), -1)
    return dict(losses=losses, tracks=jax.vmap(solve, (None, 0, None))(field, tracks[:4, 0], longer), arrows=arrows,
                field=jax.vmap(jax.vmap(field))(arrows))


# ---- the picture


def pendulum(starts, times, substeps=20):
    """The truth, by Runge and Kutta's method in NumPy."""
    law = lambda y: np.stack([y[..., 1], -np.sin(y[..., 0]) - 0.15 * y[..., 1]], -1)
    y, rows = starts, [starts]
    for step in np.diff(times):
        for _ in range(substeps):
            h = step / substeps
            a = law(y)
            b = law(y + h / 2 * a)
            c = law(y + h / 2 * b)
            y = y + h / 6 * (a + 2 * b + 2 * c + law(y + h * c))
        rows.append(y)
    return np.stack(rows, 1).astype(np.float32)


def data(count):
    times = np.linspace(0, 6, 40, dtype=np.float32)
    starts = np.random.default_rng(0).uniform(-1.3, 1.3, (count, 2))
    return times, pendulum(starts, times)


def draw(result):
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.8), width_ratios=(1.2, 1), layout="constrained")
    left.quiver(*np.moveaxis(result["arrows"], -1, 0), *np.moveaxis(result["field"], -1, 0), color="#999999", width=0.004)
    for k, (seen, track) in enumerate(zip(data(4)[1], result["tracks"])):
        left.plot(*track.T, color=f"C{k}")
        left.plot(*seen.T, ".", color=f"C{k}", ms=5)
    left.set_xlabel("angle")
    left.set_ylabel("its speed")
    left.set_title("dots: seen; lines: the network, twice as long", fontsize=9)
    right.semilogy(result["losses"], lw=1)
    right.set_xlabel("step")
    right.set_ylabel("mean squared distance")
    return figure


def program(quick):
    steps, count = (3, 4) if quick else (400, 32)
    network = eqx.nn.MLP(2, 2, 32, 2, activation=jnp.tanh, key=jax.random.key(0))
    weights, structure = eqx.partition(network, eqx.is_array)
    weights = jax.tree.map(np.asarray, weights)
    return lambda weights, times, tracks: train(weights, structure, times, tracks, steps), (weights, *data(count))


if __name__ == "__main__":
    show.main(program, draw, compared=["losses", "tracks"], tolerance=2e-2)
