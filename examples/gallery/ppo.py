"""A pole learns to stand: PPO on a cart-pole, environment, rollout and training in one program."""

import show  # first: it chooses the platform

import jax
import jax.numpy as jnp
import numpy as np

ENVIRONMENTS, LENGTH, EPOCHS, MINIBATCHES = 64, 64, 4, 4
DISCOUNT, TRACE, CLIP, RATE = 0.99, 0.95, 0.2, 1e-3


# ---- the program


def move(state, push):
    """Barto, Sutton and Anderson's cart-pole: position, speed, angle and its speed after 0.02 s."""
    x, v, angle, spin = state
    sin, cos = jnp.sin(angle), jnp.cos(angle)
    force = (10.0 * (2 * push - 1) + 0.05 * spin**2 * sin) / 1.1
    turn = (9.8 * sin - cos * force) / (0.5 * (4 / 3 - 0.1 * cos**2 / 1.1))
    return jnp.stack([x + 0.02 * v, v + 0.02 * (force - 0.05 * turn * cos / 1.1), angle + 0.02 * spin, spin + 0.02 * turn])


def network(params, state):
    """Logits of a push to the left or right, and the value of the state."""
    for w, b in params[:-1]:
        state = jnp.tanh(state @ w + b)
    w, b = params[-1]
    out = state @ w + b
    return out[..., :2], out[..., 2]


def rollout(params, states, age, key):
    """LENGTH steps of every environment; those that fall, or stood for 500 steps, begin anew."""

    def step(carry, key):
        states, age = carry
        logits, value = network(params, states)
        choose, again = jax.random.split(key)
        action = jax.random.categorical(choose, logits)
        new = jax.vmap(move)(states, action)
        fell = (jnp.abs(new[:, 0]) > 2.4) | (jnp.abs(new[:, 2]) > 0.21)
        done = fell | (age >= 500)
        fresh = jax.random.uniform(again, new.shape, minval=-0.05, maxval=0.05)
        out = dict(state=states, action=action, value=value, done=done, age=age + 1,
                   log_probability=jnp.take_along_axis(jax.nn.log_softmax(logits), action[:, None], 1)[:, 0])
        return (jnp.where(done[:, None], fresh, new), jnp.where(done, 0, age + 1)), out

    return jax.lax.scan(step, (states, age), jax.random.split(key, LENGTH))


def advantages(steps, last_value):
    """Generalised advantage estimation; every step that stands gives 1."""

    def backwards(carry, step):
        advantage, next_value = carry
        alive = 1.0 - step["done"]
        advantage = 1.0 + DISCOUNT * next_value * alive - step["value"] + DISCOUNT * TRACE * alive * advantage
        return (advantage, step["value"]), advantage

    return jax.lax.scan(backwards, (jnp.zeros_like(last_value), last_value), steps, reverse=True)[1]


def loss_of(params, part):
    logits, value = network(params, part["state"])
    log = jax.nn.log_softmax(logits)
    ratio = jnp.exp(jnp.take_along_axis(log, part["action"][:, None], 1)[:, 0] - part["log_probability"])
    gain = (part["advantage"] - part["advantage"].mean()) / (part["advantage"].std() + 1e-8)
    policy = -jnp.minimum(ratio * gain, jnp.clip(ratio, 1 - CLIP, 1 + CLIP) * gain).mean()
    entropy = -(jnp.exp(log) * log).sum(-1).mean()
    return policy + 0.5 * jnp.mean((value - part["target"]) ** 2) / 100 - 0.01 * entropy


def adam(params, moments, part):
    grads = jax.grad(loss_of)(params, part)
    mean, square, count = moments[0], moments[1], moments[2] + 1
    mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, grads)
    square = jax.tree.map(lambda s, g: 0.999 * s + 0.001 * g * g, square, grads)
    rate = RATE * jnp.sqrt(1 - 0.999**count) / (1 - 0.9**count)
    return jax.tree.map(lambda p, m, s: p - rate * m / (jnp.sqrt(s) + 1e-6), params, mean, square), (mean, square, count)


def train(params, keys):
    """One update for each key: how long episodes lasted, then the trained policy on a grid of angles and their speeds."""

    def update(carry, key):
        params, moments, states, age = carry
        roll, *shuffles = jax.random.split(key, 1 + EPOCHS)
        (states, age), steps = rollout(params, states, age, roll)
        advantage = advantages(steps, network(params, states)[1])
        data = dict(steps, advantage=advantage, target=advantage + steps["value"])
        flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), data)
        for shuffle in shuffles:
            order = jax.random.permutation(shuffle, ENVIRONMENTS * LENGTH).reshape(MINIBATCHES, -1)
            (params, moments), _ = jax.lax.scan(
                lambda state, rows: (adam(*state, jax.tree.map(lambda leaf: leaf[rows], flat)), None), (params, moments), order)
        lived = jnp.where(steps["done"], steps["age"], 0).sum() / jnp.maximum(steps["done"].sum(), 1)
        return (params, moments, states, age), lived

    zeros = jax.tree.map(jnp.zeros_like, params)
    start = params, (zeros, zeros, 0.0), jnp.zeros((ENVIRONMENTS, 4)), jnp.zeros(ENVIRONMENTS, jnp.int32)
    (params, *_), lived = jax.lax.scan(update, start, jax.vmap(jax.random.key)(keys))
    angle, spin = jnp.meshgrid(jnp.linspace(-0.21, 0.21, 60), jnp.linspace(-2, 2, 60))
    logits, value = network(params, jnp.stack([0 * angle, 0 * angle, angle, spin], -1))
    return dict(lived=lived, first=lived[:3], push=jax.nn.softmax(logits)[..., 1], value=value)


# ---- the picture


def draw(result):
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.5), layout="constrained")
    stood = result["lived"] > 0
    left.plot(np.arange(len(stood))[stood], result["lived"][stood], lw=1.5)
    left.set_xlabel("update")
    left.set_ylabel("steps until an episode ends")
    shown = right.imshow(result["push"], origin="lower", extent=(-12, 12, -2, 2), aspect="auto", cmap="coolwarm")
    right.set_xlabel("angle (degrees)")
    right.set_ylabel("its speed (radians/s)")
    figure.colorbar(shown, label="probability of a push to the right")
    return figure


def program(quick):
    rng = np.random.default_rng(0)
    sizes = (4, 64, 64, 3)
    params = [((rng.standard_normal((m, n)) * m**-0.5 * (0.1 if n == 3 else 1)).astype(np.float32), np.zeros(n, np.float32))
              for m, n in zip(sizes, sizes[1:])]
    return train, (params, np.arange(2 if quick else 150, dtype=np.uint32))


if __name__ == "__main__":
    # Training amplifies rounding, and a fall is a fall: the first updates are compared.
    show.main(program, draw, compared=["first"], tolerance=1e-3)
