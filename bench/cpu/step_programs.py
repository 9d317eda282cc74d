"""Sequences as users write them: recurrences, transformers, mixtures of experts, their training, decode steps."""

import jax
from jax import lax
import jax.numpy as jnp
import numpy as np

import architecture_programs
from architecture_programs import BF16, F32, gelu, layer_norm, numbers, relu, silu, weights_of
import harness

PROGRAMS = []


def network(*args, **options):
  before = len(architecture_programs.PROGRAMS)
  architecture_programs.network(*args, **options)
  PROGRAMS.extend(architecture_programs.PROGRAMS[before:])
  del architecture_programs.PROGRAMS[before:]


def tokens(seed, words, *shape):
  return np.random.default_rng(seed).integers(0, words, shape, np.int32)


# Recurrences.


def scanned(cell, features):
  """The last state of the cell over (time, batch, features), a state of zeros before."""
  def run(w, x):
    state = jnp.zeros((x.shape[1], features), x.dtype)
    (h, _), _ = lax.scan(lambda s, x: (cell(w, s, x), None), (state, state), x)
    return h @ w["out"]
  return run


def lstm(w, state, x):
  h, c = state
  i, f, g, o = jnp.split(x @ w["x"] + h @ w["h"] + w["b"], 4, -1)
  c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
  return jax.nn.sigmoid(o) * jnp.tanh(c), c


def gru(w, state, x):
  h, c = state
  a, b = jnp.split(x @ w["x"] + w["b"], [256], -1), h @ w["h"]
  z, r = jnp.split(jax.nn.sigmoid(a[0] + b[:, :256]), 2, -1)
  n = jnp.tanh(a[1] + r * b[:, 256:])
  return z * h + (1 - z) * n, c


network("lstm", "recurrent", {"x": (50, 512), "h": (128, 512), "b": (512,), "out": (128, 10)}, scanned(lstm, 128),
        lambda: numbers(1, 60, 32, 50))
network("gru", "recurrent", {"x": (70, 384), "h": (128, 384), "b": (384,), "out": (128, 10)}, scanned(gru, 128),
        lambda: numbers(2, 80, 16, 70))


def minimal(w, x):
  """A gated recurrence without products in it, by an associative scan."""
  z, h = jax.nn.sigmoid(x @ w["z"]), x @ w["h"]
  _, y = lax.associative_scan(lambda a, b: (a[0] * b[0], b[0] * a[1] + b[1]), (1 - z, z * h), axis=1)
  return y @ w["out"]


network("minimal_gated", "recurrent", {"z": (96, 192), "h": (96, 192), "out": (192, 96)}, minimal, lambda: numbers(3, 4, 300, 96))

# Transformers.


def split(x, heads):
  return x.reshape(*x.shape[:-1], heads, -1)


def attend(q, k, v, bias):
  scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1]).astype(q.dtype) + bias
  return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, axis=-1), v).reshape(*q.shape[:2], -1)


def encoder(w, x, bias=0.0):
  for layer in w:
    y = layer_norm(x, *layer["n"])
    q, k, v = (split(part, 6) for part in jnp.split(y @ layer["qkv"], 3, -1))
    x = x + attend(q, k, v, bias) @ layer["o"]
    x = x + gelu(layer_norm(x, *layer["m"]) @ layer["up"] + layer["b"]) @ layer["down"]
  return x


LAYER = {"n": [(192,), (192,)], "m": [(192,), (192,)], "qkv": (192, 576), "o": (192, 192), "up": (192, 768), "b": (768,), "down": (768, 192)}


def bert(w, words, length):
  mask = jnp.arange(words.shape[1])[None] < length[:, None]
  x = encoder(w["layers"], w["table"][words] + w["place"][: words.shape[1]], jnp.where(mask, 0, -1e9)[:, None, None].astype(w["table"].dtype))
  logits = x @ w["table"].T
  return jax.nn.logsumexp(logits, -1) - jnp.take_along_axis(logits, words[..., None], -1)[..., 0]


def vit(w, image):
  patches = image.reshape(-1, 14, 16, 14, 16, 3).transpose(0, 1, 3, 2, 4, 5).reshape(-1, 196, 768)
  x = jnp.concatenate([jnp.broadcast_to(w["class"], (patches.shape[0], 1, 192)), patches @ w["in"]], 1) + w["place"]
  return encoder(w["layers"], x)[:, 0] @ w["out"]


BERT = {"table": (1500, 192), "place": (128, 192), "layers": [LAYER] * 2}
VIT = {"in": (768, 192), "class": (1, 192), "place": (197, 192), "out": (192, 1000), "layers": [LAYER] * 2}
for ending, dtype in (("", F32), ("_bf16", BF16)):
  network("bert" + ending, "transformer", BERT, bert, lambda: tokens(4, 1500, 4, 120), lambda: np.array([120, 77, 103, 31], np.int32), dtype=dtype)
  network("vit" + ending, "transformer", VIT, vit, lambda: numbers(5, 2, 224, 224, 3), dtype=dtype)


def alibi(w, x):
  distance = jnp.arange(x.shape[1])[None] - jnp.arange(x.shape[1])[:, None]
  bias = jnp.where(distance <= 0, distance * 2.0 ** -jnp.arange(1, 7)[:, None, None], -jnp.inf)
  return encoder(w, x, bias[None].astype(x.dtype))


network("alibi", "transformer", [LAYER], alibi, lambda: numbers(6, 2, 251, 192))


def cross(w, x, memory):
  q, (k, v) = split(x @ w["q"], 8), (split(part, 8) for part in jnp.split(memory @ w["kv"], 2, -1))
  return x + attend(q, k, v, 0.0) @ w["o"]


network("cross_attention", "transformer", {"q": (256, 256), "kv": (320, 512), "o": (256, 256)}, cross, lambda: numbers(7, 4, 65, 256),
        lambda: numbers(8, 4, 300, 320))


def experts(w, x):
  """The two best of eight, dispatched by one-hot products as in papers."""
  gates = jax.nn.softmax(x @ w["gate"])
  best, which = lax.top_k(gates, 2)
  combine = jnp.sum(jax.nn.one_hot(which, 8, dtype=x.dtype) * (best / best.sum(-1, keepdims=True))[..., None], 1)
  hidden = relu(jnp.einsum("td,edf->etf", x, w["up"]))
  return jnp.einsum("etf,efd,te->td", hidden, w["down"], combine)


network("experts", "transformer", {"gate": (128, 8), "up": (8, 128, 256), "down": (8, 256, 128)}, experts, lambda: numbers(9, 200, 128))


def mixer(w, x):
  for layer in w:
    y = layer_norm(x, *layer["n"]).swapaxes(1, 2)
    x = x + (gelu(y @ layer["a"]) @ layer["b"]).swapaxes(1, 2)
    x = x + gelu(layer_norm(x, *layer["m"]) @ layer["c"]) @ layer["d"]
  return x.mean(1)


network("mixer", "transformer", [{"n": [(128,), (128,)], "m": [(128,), (128,)], "a": (196, 98), "b": (98, 196), "c": (128, 512), "d": (512, 128)}] * 2,
        mixer, lambda: numbers(10, 4, 196, 128))

# Decode steps: rotary places, grouped heads, a cache.


def rotate(x, place):
  angle = place / 10000 ** (jnp.arange(0, x.shape[-1], 2) / x.shape[-1])
  a, b = jnp.split(x.astype(F32), 2, -1)
  return jnp.concatenate([a * jnp.cos(angle) - b * jnp.sin(angle), b * jnp.cos(angle) + a * jnp.sin(angle)], -1).astype(x.dtype)


def rms(x, scale):
  y = x.astype(F32)
  return (y * lax.rsqrt(jnp.mean(y * y, -1, keepdims=True) + 1e-6)).astype(x.dtype) * scale


def llama(w, cache, token, place):
  """One token of each of a batch: 8 heads, 2 of keys and values."""
  x, kept = w["table"][token], []
  for layer, (keys, values) in zip(w["layers"], cache):
    y = rms(x, layer["n"])
    q = rotate((y @ layer["q"]).reshape(-1, 2, 4, 64), place)
    k = rotate((y @ layer["k"]).reshape(-1, 1, 2, 64), place)
    keys = lax.dynamic_update_slice(keys, k, (0, place, 0, 0))
    values = lax.dynamic_update_slice(values, (y @ layer["v"]).reshape(-1, 1, 2, 64), (0, place, 0, 0))
    scores = jnp.einsum("bghd,bkgd->bghk", q, keys) * 0.125
    scores = jnp.where(jnp.arange(keys.shape[1]) <= place, scores, jnp.finfo(scores.dtype).min)
    mixed = jnp.einsum("bghk,bkgd->bghd", jax.nn.softmax(scores.astype(F32)).astype(x.dtype), values)
    x = x + mixed.reshape(x.shape) @ layer["o"]
    y = rms(x, layer["m"])
    x = x + (silu(y @ layer["gate"]) * (y @ layer["up"])) @ layer["down"]
    kept.append((keys, values))
  return jnp.argmax(x @ w["out"], -1), kept


LLAMA = {"table": (4000, 512), "out": (512, 4000),
         "layers": [{"n": (512,), "m": (512,), "q": (512, 512), "k": (512, 128), "v": (512, 128), "o": (512, 512), "gate": (512, 1376),
                     "up": (512, 1376), "down": (1376, 512)}] * 3}


def decoding(name, batch, length, dtype, tolerance):
  def make():
    cache = [tuple(numbers(k, batch, length, 2, 64, dtype=dtype) for k in (i, i + 9)) for i in range(3)]
    return llama, (weights_of(LLAMA, dtype), cache, tokens(11, 4000, batch), np.int32(length * 2 // 3))
  PROGRAMS.append(harness.Program(name=name, kind="decode step", make=make, tolerance=tolerance))


decoding("llama_decode_1", 1, 700, F32, 1e-3)
decoding("llama_decode_5", 5, 333, F32, 1e-3)
decoding("llama_decode_1_bf16", 1, 700, BF16, 3e-2)
decoding("llama_decode_8_bf16", 8, 256, BF16, 3e-2)


def greedy(w, h):
  """Forty tokens in a scan, each the likeliest by logits of the last state."""
  def one(carry, _):
    h, token = carry
    h = jnp.tanh(w["table"][token] + h @ w["h"])
    token = jnp.argmax(h @ w["table"].T, -1)
    return (h, token), token
  return lax.scan(one, (h, jnp.zeros(h.shape[0], jnp.int32)), None, length=40)[1]


network("greedy", "decode step", {"table": (3000, 160), "h": (160, 160)}, greedy, lambda: numbers(12, 4, 160), forms=("forward",))
