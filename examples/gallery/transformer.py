"""A transformer that learns to write: characters of text.txt, two layers, Adam, the whole training in one program."""

import show  # first: it chooses the platform

import pathlib

import jax
import jax.numpy as jnp
import numpy as np

HEADS, CONTEXT, BATCH, RATE = 4, 64, 16, 3e-3
TEXT = (pathlib.Path(__file__).parent.parent / "text.txt").read_text()
CHARACTERS = sorted(set(TEXT))


# ---- the program


def norm(x):
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6)


def attention(x, layer):
    """The new values, and how much each character looked at each before it."""
    batch, length, width = x.shape
    q, k, v = (t.reshape(batch, length, HEADS, -1) for t in jnp.split(x @ layer["qkv"], 3, axis=-1))
    scores = jnp.einsum("bihd,bjhd->bhij", q, k) * (width // HEADS) ** -0.5
    weights = jax.nn.softmax(jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9))
    return jnp.einsum("bhij,bjhd->bihd", weights, v).reshape(x.shape) @ layer["out"], weights


def forward(params, tokens):
    x, seen = params["embed"][tokens] + params["place"], []
    for layer in params["layers"]:
        mixed, weights = attention(norm(x), layer)
        x = x + mixed
        x = x + jax.nn.gelu(norm(x) @ layer["up"]) @ layer["down"]
        seen.append(weights)
    return norm(x) @ params["embed"].T, seen


def loss_of(params, batch):
    logits, _ = forward(params, batch[:, :-1])
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), batch[:, 1:, None], axis=-1))


def train(params, batches):
    """One step of Adam for each batch; then what the heads look at."""

    def step(state, batch):
        params, mean, square, count = state
        loss, grads = jax.value_and_grad(loss_of)(params, batch)
        count = count + 1
        mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, grads)
        square = jax.tree.map(lambda s, g: 0.99 * s + 0.01 * g * g, square, grads)
        rate = RATE * jnp.sqrt(1 - 0.99**count) / (1 - 0.9**count)
        params = jax.tree.map(lambda p, m, s: p - rate * m / (jnp.sqrt(s) + 1e-6), params, mean, square)
        return (params, mean, square, count), loss

    zeros = jax.tree.map(jnp.zeros_like, params)
    (params, *_), losses = jax.lax.scan(step, (params, zeros, zeros, 0.0), batches)
    _, seen = forward(params, batches[-1, :1, :-1])
    return dict(losses=losses, attention=jnp.stack(seen)[:, 0])


# ---- the picture


def weights(width, layers):
    rng = np.random.default_rng(0)
    normal = lambda *shape: (rng.standard_normal(shape) * shape[-2] ** -0.5).astype(np.float32)
    return dict(embed=0.5 * normal(len(CHARACTERS), width), place=0.5 * normal(CONTEXT, width), layers=[
        dict(qkv=normal(width, 3 * width), out=normal(width, width), up=normal(width, 4 * width), down=normal(4 * width, width))
        for _ in range(layers)])


def text_batches(steps):
    data = np.array([CHARACTERS.index(c) for c in TEXT], np.int32)
    starts = np.random.default_rng(1).integers(0, len(data) - CONTEXT, (steps, BATCH, 1))
    return data[starts + np.arange(CONTEXT + 1)]


def draw(result):
    import matplotlib.pyplot as plt

    batches = text_batches(len(result["losses"]))
    letters = [CHARACTERS[t].replace("\n", "↵") for t in batches[-1, 0, :-1]]
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.9), width_ratios=(1, 1.15), layout="constrained")
    left.plot(result["losses"], lw=1)
    left.set_xlabel("step")
    left.set_ylabel("loss (nats a character)")
    first, last = 24, 56
    right.imshow(result["attention"][0].max(0)[first:last, first:last], cmap="Blues")
    right.set_xticks(range(last - first), letters[first:last], fontsize=7)
    right.set_yticks(range(last - first), letters[first:last], fontsize=7)
    right.set_title("what each character looks at, layer 1", fontsize=9)
    return figure


def program(quick):
    width, layers, steps = (32, 1, 5) if quick else (64, 2, 400)
    return train, (weights(width, layers), text_batches(steps))


if __name__ == "__main__":
    show.main(program, draw, compared=["losses"], tolerance=0.05)
