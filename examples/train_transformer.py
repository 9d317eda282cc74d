"""Trains a small character-level transformer with plain JAX, on Weft and on XLA:CPU in one process, and compares the two.

Both start from the same weights and see the same batches of examples/text.txt. The losses are printed side by side with the
time of a step; at the end the trained model continues a sentence. Status 1: the losses differ, or they do not fall.
"""

import argparse
import os
import pathlib
import statistics
import sys
import time

os.environ.setdefault("JAX_PLATFORMS", "weft,cpu")

import jax
import jax.numpy as jnp
import numpy as np


def parse_arguments():
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
  parser.add_argument("--text", type=pathlib.Path, default=pathlib.Path(__file__).with_name("text.txt"))
  parser.add_argument("--width", type=int, default=64, help="of the residual stream")
  parser.add_argument("--layers", type=int, default=2)
  parser.add_argument("--heads", type=int, default=4)
  parser.add_argument("--context", type=int, default=64, help="characters the model sees")
  parser.add_argument("--batch", type=int, default=8)
  parser.add_argument("--steps", type=int, default=200)
  parser.add_argument("--rate", type=float, default=3e-3, help="learning rate")
  parser.add_argument("--seconds", type=float, default=120, help="take fewer steps when these would be passed")
  parser.add_argument("--platforms", default="weft,cpu", help="the two to compare")
  return parser.parse_args()


def init_params(options, vocabulary):
  """Weights from NumPy, so that both platforms start from the same bits."""
  rng = np.random.default_rng(0)
  width = options.width

  def normal(*shape, scale=None):
    return (rng.standard_normal(shape) * (scale or shape[0] ** -0.5)).astype(np.float32)

  def layer():
    return dict(
        norm1=np.ones(width, np.float32), qkv=normal(width, 3 * width), out=normal(width, width),
        norm2=np.ones(width, np.float32), up=normal(width, 4 * width), down=normal(4 * width, width))

  return dict(
      embed=normal(vocabulary, width, scale=0.5), position=normal(options.context, width, scale=0.1),
      layers=[layer() for _ in range(options.layers)], norm=np.ones(width, np.float32), head=normal(width, vocabulary))


def rms_norm(x, scale):
  return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * scale


def attention(x, weights, heads):
  batch, length, width = x.shape
  q, k, v = jnp.split(x @ weights["qkv"], 3, axis=-1)
  q, k, v = (t.reshape(batch, length, heads, width // heads).transpose(0, 2, 1, 3) for t in (q, k, v))
  scores = q @ k.transpose(0, 1, 3, 2) * (width // heads) ** -0.5
  mask = jnp.tril(jnp.ones((length, length), bool))
  mixed = jax.nn.softmax(jnp.where(mask, scores, -1e9), axis=-1) @ v
  return mixed.transpose(0, 2, 1, 3).reshape(batch, length, width) @ weights["out"]


def logits_of(params, tokens, heads):
  x = params["embed"][tokens] + params["position"][:tokens.shape[1]]
  for weights in params["layers"]:
    x = x + attention(rms_norm(x, weights["norm1"]), weights, heads)
    x = x + jax.nn.gelu(rms_norm(x, weights["norm2"]) @ weights["up"]) @ weights["down"]
  return rms_norm(x, params["norm"]) @ params["head"]


def loss_of(params, batch, heads):
  log_probabilities = jax.nn.log_softmax(logits_of(params, batch[:, :-1], heads))
  return -jnp.mean(jnp.take_along_axis(log_probabilities, batch[:, 1:, None], axis=-1))


def make_step(options):
  """One step of Adam. The state is donated: its memory becomes that of the new state."""

  def step(state, batch):
    loss, grads = jax.value_and_grad(loss_of)(state["params"], batch, options.heads)
    count = state["count"] + 1
    mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state["mean"], grads)
    square = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, state["square"], grads)
    rate = options.rate * jnp.minimum(1.0, count / 20) * jnp.sqrt(1 - 0.99**count) / (1 - 0.9**count)
    params = jax.tree.map(lambda p, m, v: p - rate * m / (jnp.sqrt(v) + 1e-6), state["params"], mean, square)
    return dict(params=params, mean=mean, square=square, count=count), loss

  return jax.jit(step, donate_argnums=0)


class Trainer:
  """The model on one device."""

  def __init__(self, platform, options, params):
    self.device = jax.devices(platform)[0]
    zeros = jax.tree.map(np.zeros_like, params)
    state = dict(params=params, mean=zeros, square=zeros, count=np.float32(0))
    self.state = jax.device_put(state, self.device)
    self.losses, self.times = [], []
    self.step = make_step(options)

  def train(self, batches):
    for batch in batches:
      begin = time.perf_counter()
      self.state, loss = self.step(self.state, jax.device_put(batch, self.device))
      self.losses.append(float(loss))
      self.times.append(time.perf_counter() - begin)

  def milliseconds(self):
    return 1e3 * statistics.median(self.times[1:] or self.times)


def continue_text(trainer, options, characters, prompt, length):
  """Draws characters one after another from the trained model."""
  forward = jax.jit(lambda params, tokens: logits_of(params, tokens, options.heads))
  rng = np.random.default_rng(1)
  tokens = [characters.index(c) for c in prompt]
  for _ in range(length):
    window = tokens[-options.context:]
    padded = np.array([window + [0] * (options.context - len(window))], np.int32)
    logits = np.asarray(forward(trainer.state["params"], jax.device_put(padded, trainer.device)))[0, len(window) - 1]
    weights = np.exp((logits - logits.max()) / 0.7)
    tokens.append(int(rng.choice(len(characters), p=weights / weights.sum())))
  return "".join(characters[t] for t in tokens)


def tolerance(step):
  """Rounding differs between compilers, and training amplifies it: exact at first, near later."""
  return 1e-4 if step < 20 else 2e-3


def main():
  options = parse_arguments()
  names = options.platforms.split(",")
  labels = ["XLA:CPU" if name == "cpu" else name.capitalize() for name in names]
  text = options.text.read_text()
  characters = sorted(set(text))
  data = np.array([characters.index(c) for c in text], np.int32)
  rng = np.random.default_rng(2)
  starts = rng.integers(0, len(data) - options.context - 1, (options.steps, options.batch))
  batches = data[starts[..., None] + np.arange(options.context + 1)]
  params = init_params(options, len(characters))
  size = sum(leaf.size for leaf in jax.tree.leaves(params))
  print(f"{len(text)} characters of {len(characters)} kinds, {options.layers} layers of width {options.width}, {size} parameters, "
        f"batches of {options.batch} × {options.context}\n")

  begin = time.perf_counter()
  trainers = [Trainer(name, options, params) for name in names]
  for trainer in trainers:
    trainer.train(batches[:2])
  for label, trainer in zip(labels, trainers):
    print(f"{label}: {trainer.device}, first step with compilation {trainer.times[0]:.2f} s")
  print("\n" + " step" + "".join(f"{'loss ' + label:>16}" for label in labels) + "  difference" +
        "".join(f"{label + ' ms':>14}" for label in labels))

  steps, done, chunk = options.steps, 2, 20
  while done < steps:
    per_step = sum(trainer.milliseconds() for trainer in trainers) / 1e3
    left = options.seconds - (time.perf_counter() - begin)
    if (steps - done) * per_step > left:
      steps = max(done + int(left / per_step), 40)
      if done >= steps:
        break
    end = min(steps, (done // chunk + 1) * chunk)
    for trainer in trainers:
      trainer.train(batches[done:end])
    done = end
    losses = [trainer.losses[-1] for trainer in trainers]
    print(f"{done:5}" + "".join(f"{loss:16.5f}" for loss in losses) + f"{abs(losses[0] - losses[1]):12.1e}" +
          "".join(f"{1e3 * statistics.median(trainer.times[-chunk:]):14.2f}" for trainer in trainers), flush=True)

  if done < options.steps:
    print(f"stopped after {done} of {options.steps} steps to end in time (--seconds)")
  sample = continue_text(trainers[0], options, characters, "The weaver ", 120)
  print(f"\n{labels[0]} continues: {sample!r}\n")

  pairs = list(zip(trainers[0].losses, trainers[1].losses))
  worst = max(range(len(pairs)), key=lambda k: abs(pairs[k][0] - pairs[k][1]) / abs(pairs[k][1]) / tolerance(k))
  relative = abs(pairs[worst][0] - pairs[worst][1]) / abs(pairs[worst][1])
  agree = bool(relative <= tolerance(worst))
  falls = bool(np.mean(trainers[0].losses[-10:]) < 0.9 * trainers[0].losses[0])
  times = [trainer.milliseconds() for trainer in trainers]
  print(f"loss: {trainers[0].losses[0]:.3f} → {np.mean(trainers[0].losses[-10:]):.3f} (last 10)"
        f"{'' if falls else ': DOES NOT FALL'}")
  print(f"agreement: {'equal within tolerance' if agree else 'THE LOSSES DIFFER'}; furthest at step {worst + 1}: "
        f"{relative:.1e} relative, allowed {tolerance(worst):.0e}")
  print(f"step: {labels[0]} {times[0]:.2f} ms, {labels[1]} {times[1]:.2f} ms, ratio {times[0] / times[1]:.2f}")
  print(f"speed: {labels[0]} {options.batch * options.context / times[0] * 1e3:.0f} characters/s, "
        f"{labels[1]} {options.batch * options.context / times[1] * 1e3:.0f}")
  print("""
where to look next:
  WEFT_DEBUG=1 ./dev run        what is compiled, what comes from the cache
  ./dev run --width 128         other sizes (--help lists them)
  ./dev jax-suite --help        JAX's own tests on Weft; results in docs/jax-suite.md
  ./dev libraries               flax, optax, equinox, diffrax, numpyro, haiku, blackjax on Weft
  ./dev bench cpu               what a call costs beside XLA:CPU
  examples/train_mlp.hlo        the same idea without JAX: build/weft eval examples/train_mlp.hlo""")
  sys.exit(0 if agree and falls else 1)


if __name__ == "__main__":
  main()
