"""Checksums, ciphers and codes, byte by byte, in several spellings each."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from spelling_programs import integers, spelling

BYTES = 6000


def text(seed=1, size=BYTES):
  return integers(256, size, seed=seed).astype(np.uint8)


# Adler-32: two running sums modulo a prime.

PRIME = 65521


@spelling("adler")
def scan_pair():
  def f(data):
    def step(state, byte):
      a, b = state
      a = (a + byte.astype(jnp.uint32)) % PRIME
      return (a, (b + a) % PRIME), None
    a, b = lax.scan(step, (jnp.uint32(1), jnp.uint32(0)), data)[0]
    return (b << 16) | a
  return f, (text(),)


@spelling("adler")
def fori_array_of_two():
  def f(data):
    def step(i, s):
      s = s.at[0].set((s[0] + data[i]) % PRIME)
      return s.at[1].set((s[1] + s[0]) % PRIME)
    s = lax.fori_loop(0, BYTES, step, jnp.array([1, 0], jnp.uint32))
    return (s[1] << 16) | s[0]
  return f, (text(),)


@spelling("adler")
def while_with_conditional_subtraction():
  def f(data):
    def step(state):
      i, a, b = state
      a = a + data[i]
      a = lax.select(a >= PRIME, a - PRIME, a)
      b = b + a
      return i + 1, a, lax.select(b >= PRIME, b - PRIME, b)
    _, a, b = lax.while_loop(lambda s: s[0] < BYTES, step, (0, jnp.uint32(1), jnp.uint32(0)))
    return (b << 16) | a
  return f, (text(),)


@spelling("adler")
def cumulative_sums():
  def f(data):
    a = (1 + jnp.cumsum(data.astype(jnp.uint32))) % PRIME
    return ((jnp.sum(a) % PRIME) << 16) | a[-1]
  return f, (text(),)


# XTEA: 32 rounds on pairs of words, many blocks.

BLOCKS = 4000
DELTA = 0x9E3779B9
KEY = np.array([0x01234567, 0x89ABCDEF, 0xFEDCBA98, 0x76543210], np.uint32)


def blocks():
  return (np.random.default_rng(3).integers(0, 1 << 32, (BLOCKS, 2), dtype=np.uint32),)


def half(v, s, key):
  return (((v << 4) ^ (v >> 5)) + v) ^ (s + key)


@spelling("xtea")
def fori_halves():
  def f(v):
    key = jnp.asarray(KEY)

    def round_(_, state):
      a, b, s = state
      a = a + half(b, s, key[s & 3])
      s = s + jnp.uint32(DELTA)
      return a, b + half(a, s, key[(s >> 11) & 3]), s
    a, b, _ = lax.fori_loop(0, 32, round_, (v[:, 0], v[:, 1], jnp.uint32(0)))
    return jnp.stack([a, b], axis=1)
  return f, blocks()


@spelling("xtea")
def vmapped_while():
  def f(v):
    key = jnp.asarray(KEY)

    def one(v):
      def round_(state):
        i, a, b, s = state
        a = a + half(b, s, key[s & 3])
        s = s + jnp.uint32(DELTA)
        return i + 1, a, b + half(a, s, key[(s >> 11) & 3]), s
      _, a, b, _ = lax.while_loop(lambda s: s[0] < 32, round_, (0, v[0], v[1], jnp.uint32(0)))
      return jnp.array([a, b])
    return jax.vmap(one)(v)
  return f, blocks()


@spelling("xtea")
def columns_at_add():
  def f(v):
    key = jnp.asarray(KEY)

    def round_(state, _):
      v, s = state
      v = v.at[:, 0].add(half(v[:, 1], s, key[s & 3]))
      s = s + jnp.uint32(DELTA)
      return (v.at[:, 1].add(half(v[:, 0], s, key[(s >> 11) & 3])), s), None
    return lax.scan(round_, (v, jnp.uint32(0)), None, length=32)[0][0]
  return f, blocks()


@spelling("xtea")
def mapped_blocks():
  def f(v):
    key = jnp.asarray(KEY)

    def one(v):
      def round_(i, state):
        v, s = state
        v = v.at[0].add(half(v[1], s, key[s & 3]))
        s = s + jnp.uint32(DELTA)
        return v.at[1].add(half(v[0], s, key[(s >> 11) & 3])), s
      return lax.fori_loop(0, 32, round_, (v, jnp.uint32(0)))[0]
    return lax.map(one, v)
  return f, blocks()


@spelling("xtea")
def unrolled_schedule():
  def f(v):
    a, b = v[:, 0], v[:, 1]
    s = 0
    for _ in range(32):
      a = a + half(b, jnp.uint32(s), KEY[s & 3])
      s = (s + DELTA) & 0xFFFFFFFF
      b = b + half(a, jnp.uint32(s), KEY[(s >> 11) & 3])
    return jnp.stack([a, b], axis=1)
  return f, blocks()


# Base 64: three bytes to four letters.

ALPHABET = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)


@spelling("base64")
def reshaped():
  def f(data):
    x = data.reshape(-1, 3).astype(jnp.int32)
    word = (x[:, 0] << 16) | (x[:, 1] << 8) | x[:, 2]
    sixes = jnp.stack([(word >> s) & 63 for s in (18, 12, 6, 0)], axis=1)
    return jnp.asarray(ALPHABET)[sixes].reshape(-1)
  return f, (text(),)


@spelling("base64")
def fori_slices():
  def f(data):
    table = jnp.asarray(ALPHABET)

    def step(i, out):
      a, b, c = (lax.dynamic_slice(data, (3 * i,), (3,)).astype(jnp.uint32)[k] for k in range(3))
      word = (a << 16) | (b << 8) | c
      four = jnp.stack([table[(word >> 18) & 63], table[(word >> 12) & 63], table[(word >> 6) & 63], table[word & 63]])
      return lax.dynamic_update_slice(out, four, (4 * i,))
    return lax.fori_loop(0, BYTES // 3, step, jnp.zeros(BYTES // 3 * 4, jnp.uint8))
  return f, (text(),)


@spelling("base64")
def scan_rows():
  def f(data):
    table = jnp.asarray(ALPHABET)

    def step(_, three):
      a, b, c = three[0], three[1], three[2]
      return None, jnp.array([table[a >> 2], table[((a & 3) << 4) | (b >> 4)], table[((b & 15) << 2) | (c >> 6)], table[c & 63]])
    return lax.scan(step, None, data.reshape(-1, 3))[1].reshape(-1)
  return f, (text(),)


@spelling("base64")
def letter_by_letter():
  def f(data):
    table = jnp.asarray(ALPHABET)

    def letter(i):
      group, k = i // 4, i % 4
      low = data[3 * group + jnp.minimum(k, 2)].astype(jnp.int32)
      high = data[3 * group + jnp.maximum(k - 1, 0)].astype(jnp.int32)
      return table[jnp.select([k == 0, k == 1, k == 2], [low >> 2, ((high & 3) << 4) | (low >> 4), ((high & 15) << 2) | (low >> 6)], low & 63)]
    return jax.vmap(letter)(jnp.arange(BYTES // 3 * 4))
  return f, (text(),)


@spelling("base64")
def letters_by_classes():
  def f(data):
    a, b, c = data[0::3], data[1::3], data[2::3]
    sixes = jnp.concatenate([(a >> 2)[:, None], (((a & 3) << 4) | (b >> 4))[:, None], (((b & 15) << 2) | (c >> 6))[:, None], (c & 63)[:, None]], axis=1)
    v = sixes.reshape(-1)
    return jnp.where(v < 26, v + 65, jnp.where(v < 52, v + 71, jnp.where(v < 62, v - 4, jnp.where(v == 62, 43, 47)))).astype(jnp.uint8)
  return f, (text(),)


# Varints: seven bits a byte, the eighth says that more follow; the numbers in the order they come.

NUMBERS = 3000


def varints():
  values = np.random.default_rng(5).integers(0, 1 << 20, NUMBERS)
  out = []
  for v in values:
    while v > 127:
      out.append(128 | (v & 127))
      v >>= 7
    out.append(v)
  data = np.zeros(3 * NUMBERS, np.uint8)
  data[:len(out)] = out
  return data, np.int32(len(out))


@spelling("varint")
def while_bytes():
  def f(data, size):
    def step(state):
      i, n, shift, value, out = state
      byte = data[i].astype(jnp.int32)
      value = value | ((byte & 127) << shift)
      done = byte < 128
      out = out.at[n].set(jnp.where(done, value, out[n]))
      return i + 1, n + done, jnp.where(done, 0, shift + 7), jnp.where(done, 0, value), out
    return lax.while_loop(lambda s: s[0] < size, step, (0, 0, 0, 0, jnp.zeros(NUMBERS, jnp.int32)))[4]
  return f, varints()


@spelling("varint")
def cond_emits():
  def f(data, size):
    def step(i, state):
      n, shift, value, out = state
      byte = data[i].astype(jnp.int32)
      value = value + lax.shift_left(byte & 127, shift)
      return lax.cond(byte < 128, lambda: (n + 1, 0, 0, out.at[n].set(value)), lambda: (n, shift + 7, value, out))
    return lax.fori_loop(0, size, step, (0, 0, 0, jnp.zeros(NUMBERS, jnp.int32)))[3]
  return f, varints()


@spelling("varint")
def number_by_number():
  def f(data, size):
    def step(n, state):
      i, out = state

      def more(state):
        i, shift, value = state
        return i + 1, shift + 7, value | ((data[i].astype(jnp.int32) & 127) << shift)
      i, shift, value = lax.while_loop(lambda s: data[s[0]] >= 128, more, (i, 0, 0))
      return i + 1, out.at[n].set(value | (data[i].astype(jnp.int32) << shift))
    return lax.fori_loop(0, NUMBERS, step, (0, jnp.zeros(NUMBERS, jnp.int32)))[1]
  return f, varints()


@spelling("varint")
def added_at_numbers():
  def f(data, size):
    place = jnp.arange(data.shape[0])
    ends = (data < 128) & (place < size)
    number = jnp.cumsum(ends) - ends
    starts = lax.cummax(jnp.where(jnp.concatenate([jnp.array([True]), ends[:-1]]), place, 0))
    part = jnp.where(place < size, (data.astype(jnp.int32) & 127) << (7 * (place - starts)), 0)
    return jnp.zeros(NUMBERS, jnp.int32).at[number].add(part, mode="drop")
  return f, varints()


# Hamming (7, 4): four bits to seven, one of them flipped, corrected again.

NIBBLES = 8000


def noisy():
  return integers(16, NIBBLES, seed=1), integers(7, NIBBLES, seed=2)


def encoded(d):
  d1, d2, d3, d4 = d & 1, (d >> 1) & 1, (d >> 2) & 1, (d >> 3) & 1
  return (d1 ^ d2 ^ d4) | ((d1 ^ d3 ^ d4) << 1) | (d1 << 2) | ((d2 ^ d3 ^ d4) << 3) | (d2 << 4) | (d3 << 5) | (d4 << 6)


def corrected(w):
  bit = lambda k: (w >> k) & 1
  where = (bit(0) ^ bit(2) ^ bit(4) ^ bit(6)) | ((bit(1) ^ bit(2) ^ bit(5) ^ bit(6)) << 1) | ((bit(3) ^ bit(4) ^ bit(5) ^ bit(6)) << 2)
  w = jnp.where(where > 0, w ^ (1 << (where - 1)), w)
  return ((w >> 2) & 1) | (((w >> 4) & 7) << 1)


@spelling("hamming")
def words():
  def f(d, flips):
    return corrected(encoded(d) ^ (1 << flips))
  return f, noisy()


@spelling("hamming")
def scanned():
  def f(d, flips):
    def step(count, pair):
      got = corrected(encoded(pair[0]) ^ (1 << pair[1]))
      return count + (got == pair[0]), got
    return lax.scan(step, 0, (d, flips))[1]
  return f, noisy()


@spelling("hamming")
def tables():
  def f(d, flips):
    table = encoded(jnp.arange(16))
    back = corrected(jnp.arange(128))
    return back[table[d] ^ (1 << flips)]
  return f, noisy()


@spelling("hamming")
def matrices_of_bits():
  def f(d, flips):
    generator = jnp.array([[1, 1, 1, 0, 0, 0, 0], [1, 0, 0, 1, 1, 0, 0], [0, 1, 0, 1, 0, 1, 0], [1, 1, 0, 1, 0, 0, 1]])
    check = jnp.array([[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1], [1, 0, 1], [0, 1, 1], [1, 1, 1]])
    bits = (d[:, None] >> jnp.arange(4)) & 1
    sent = (bits @ generator) % 2
    received = sent.at[jnp.arange(NIBBLES), flips].set(1 - sent[jnp.arange(NIBBLES), flips])
    syndrome = (received @ check) % 2
    where = syndrome @ jnp.array([1, 2, 4])
    fixed = jnp.where(jnp.arange(1, 8) == where[:, None], 1 - received, received)
    return fixed[:, jnp.array([2, 4, 5, 6])] @ jnp.array([1, 2, 4, 8])
  return f, noisy()
