"""Hashes, codes, lists that move and random numbers by words, in several spellings each, as in spelling_programs.py."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from spelling_programs import integers, numbers, spelling

# SHA-256 of a message of many blocks.

BLOCKS = 64


def primes(count):
  found = [2]
  while len(found) < count:
    n = found[-1] + 1
    while any(n % p == 0 for p in found):
      n += 1
    found.append(n)
  return found


def fraction(root):
  return np.array([int((p**root % 1) * 2**32) for p in np.array(primes(64), np.float64)], np.uint32)


ROUND, FIRST = fraction(1 / 3), fraction(1 / 2)[:8]


def message():
  return (np.random.default_rng(5).integers(0, 2**32, size=(BLOCKS, 16), dtype=np.uint32),)


def turned(x, n):
  return (x >> n) | (x << (32 - n))


def small_sigmas(a, b):
  return (turned(a, 7) ^ turned(a, 18) ^ (a >> 3)), (turned(b, 17) ^ turned(b, 19) ^ (b >> 10))


def mixed(s, k, w):
  a, b, c, d, e, f, g, h = s
  one = h + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + ((e & f) ^ (~e & g)) + k + w
  two = (turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))
  return one + two, a, b, c, d + one, e, f, g


@spelling("sha256")
def schedule_at_set():
  def f(blocks):
    k = jnp.array(ROUND)
    def block(s, m):
      def extend(i, w):
        a, b = small_sigmas(w[i - 15], w[i - 2])
        return w.at[i].set(w[i - 16] + a + w[i - 7] + b)
      w = lax.fori_loop(16, 64, extend, jnp.zeros(64, jnp.uint32).at[:16].set(m))
      t = lax.fori_loop(0, 64, lambda i, t: mixed(t, k[i], w[i]), s)
      return tuple(p + q for p, q in zip(s, t)), None
    return jnp.stack(lax.scan(block, tuple(jnp.array(FIRST)), blocks)[0])
  return f, message()


@spelling("sha256")
def window_of_sixteen():
  def f(blocks):
    def block(n, s):
      def one(t, k):
        state, w = t
        state = jnp.stack(mixed(state, k, w[0]))
        a, b = small_sigmas(w[1], w[14])
        return (state, jnp.concatenate([w[1:], (w[0] + a + w[9] + b)[None]])), None
      return s + lax.scan(one, (s, blocks[n]), jnp.array(ROUND))[0][0]
    return lax.fori_loop(0, BLOCKS, block, jnp.array(FIRST))
  return f, message()


@spelling("sha256")
def rolled_state():
  def f(blocks):
    k = jnp.array(ROUND)
    def block(s, m):
      def extend(i, w):
        a, b = small_sigmas(w[i - 15], w[i - 2])
        return lax.dynamic_update_slice(w, (w[i - 16] + a + w[i - 7] + b)[None], (i,))
      w = lax.fori_loop(16, 64, extend, jnp.concatenate([m, jnp.zeros(48, jnp.uint32)]))
      def one(t):
        i, s = t
        new = mixed(s, k[i], w[i])
        return i + 1, jnp.roll(s, 1).at[0].set(new[0]).at[4].set(new[4])
      return s + lax.while_loop(lambda t: t[0] < 64, one, (0, s))[1], None
    return lax.scan(block, jnp.array(FIRST), blocks)[0]
  return f, message()


@spelling("sha256")
def ring_of_sixteen():
  def f(blocks):
    k = jnp.array(ROUND)
    def block(s, w):
      def one(i, t):
        s, w = t
        s = mixed(s, k[i], w[i % 16])
        a, b = small_sigmas(w[(i + 1) % 16], w[(i + 14) % 16])
        return s, w.at[i % 16].add(a + w[(i + 9) % 16] + b)
      t, _ = lax.fori_loop(0, 64, one, (s, w))
      return tuple(p + q for p, q in zip(s, t)), None
    return jnp.stack(lax.scan(block, tuple(jnp.array(FIRST)), blocks)[0])
  return f, message()


# Symbols by their places in a list where the last used is first (move to front).

LETTERS, WRITTEN = 64, 3000


def letters():
  return (np.minimum(np.random.default_rng(6).geometric(0.1, WRITTEN) - 1, LETTERS - 1).astype(np.int32),)


@spelling("move_to_front")
def where_before():
  def f(text):
    i = jnp.arange(LETTERS)
    def step(order, c):
      p = jnp.argmax(order == c)
      return jnp.where(i == 0, c, jnp.where(i <= p, jnp.roll(order, 1), order)), p
    return lax.scan(step, i, text)[1].astype(jnp.int32)
  return f, letters()


@spelling("move_to_front")
def shifted_one_by_one():
  def f(text):
    def step(k, s):
      order, out = s
      p = lax.while_loop(lambda p: order[p] != text[k], lambda p: p + 1, 0)
      order = lax.fori_loop(0, p, lambda j, o: o.at[p - j].set(o[p - j - 1]), order)
      return order.at[0].set(text[k]), out.at[k].set(p)
    return lax.fori_loop(0, WRITTEN, step, (jnp.arange(LETTERS), jnp.zeros_like(text)))[1]
  return f, letters()


@spelling("move_to_front")
def places_of_letters():
  def f(text):
    def step(place, c):
      p = place[c]
      return jnp.where(place < p, place + 1, place).at[c].set(0), p
    return lax.scan(step, jnp.arange(LETTERS), text)[1]
  return f, letters()


@spelling("move_to_front")
def gathered_order():
  def f(text):
    i = jnp.arange(LETTERS)
    def step(t):
      k, order, out = t
      p = jnp.sum(jnp.where(order == text[k], i, 0))
      order = order[jnp.where(i == 0, p, jnp.where(i <= p, i - 1, i))]
      return k + 1, order, lax.dynamic_update_slice(out, p[None], (k,))
    return lax.while_loop(lambda t: t[0] < WRITTEN, step, (0, i, jnp.zeros_like(text)))[2]
  return f, letters()


# The words of a Mersenne twister.

WORDS, SHIFT, TWISTS = 624, 397, 20


def twister():
  return (np.random.default_rng(7).integers(0, 2**32, size=WORDS, dtype=np.uint32),)


def twisted(a, b, c):
  y = (a & np.uint32(0x80000000)) | (b & np.uint32(0x7FFFFFFF))
  return c ^ (y >> 1) ^ jnp.where(y & 1 == 1, np.uint32(0x9908B0DF), np.uint32(0))


@spelling("twister")
def words_at_set():
  def f(mt):
    def word(i, mt):
      return mt.at[i].set(twisted(mt[i], mt[(i + 1) % WORDS], mt[(i + SHIFT) % WORDS]))
    return lax.fori_loop(0, TWISTS, lambda _, mt: lax.fori_loop(0, WORDS, word, mt), mt)
  return f, twister()


@spelling("twister")
def flat_while():
  def f(mt):
    def word(t):
      k, i, mt = t
      new = twisted(mt[i], mt[lax.select(i == WORDS - 1, 0, i + 1)], mt[lax.select(i >= WORDS - SHIFT, i + SHIFT - WORDS, i + SHIFT)])
      return k + 1, lax.select(i == WORDS - 1, 0, i + 1), lax.dynamic_update_slice(mt, new[None], (i,))
    return lax.while_loop(lambda t: t[0] < TWISTS * WORDS, word, (0, 0, mt))[2]
  return f, twister()


@spelling("twister")
def in_three_slices():
  def f(mt):
    def twist(mt, _):
      cut = WORDS - SHIFT
      mt = mt.at[:cut].set(twisted(mt[:cut], mt[1:cut + 1], mt[SHIFT:]))
      mt = mt.at[cut:2 * cut].set(twisted(mt[cut:2 * cut], mt[cut + 1:2 * cut + 1], mt[:cut]))
      mt = mt.at[2 * cut:-1].set(twisted(mt[2 * cut:-1], mt[2 * cut + 1:], mt[cut:SHIFT - 1]))
      return mt.at[-1].set(twisted(mt[-1], mt[0], mt[SHIFT - 1])), None
    return lax.scan(twist, mt, None, length=TWISTS)[0]
  return f, twister()


@spelling("twister")
def scan_of_queue():
  def f(mt):
    def word(mt, _):
      new = twisted(mt[0], mt[1], mt[SHIFT])
      return jnp.concatenate([mt[1:], new[None]]), None
    return lax.scan(word, mt, None, length=TWISTS * WORDS)[0]
  return f, twister()


# Where each bracket has its partner.

BRACKETS = 8000


def brackets():
  random, depth, text = np.random.default_rng(8), 0, []
  for k in range(BRACKETS):
    opened = depth == 0 or (depth < BRACKETS - k and random.random() < 0.5)
    depth += 1 if opened else -1
    text.append(1 if opened else -1)
  return (np.array(text, np.int32),)


@spelling("brackets")
def stack_at_set():
  def f(text):
    def step(k, s):
      stack, top, out = s
      def opened():
        return stack.at[top].set(k), top + 1, out
      def closed():
        other = stack[top - 1]
        return stack, top - 1, out.at[k].set(other).at[other].set(k)
      return lax.cond(text[k] > 0, opened, closed)
    return lax.fori_loop(0, BRACKETS, step, (jnp.zeros(BRACKETS, jnp.int32), 0, jnp.zeros_like(text)))[2]
  return f, brackets()


@spelling("brackets")
def scan_of_selects():
  def f(text):
    def step(s, item):
      stack, top = s
      k, c = item
      other = jnp.where(c < 0, stack[top - 1], -1)
      return (stack.at[top].set(jnp.where(c > 0, k, stack[top])), top + c), other
    k = jnp.arange(BRACKETS)
    _, other = lax.scan(step, (jnp.zeros(BRACKETS + 1, jnp.int32), 0), (k, text))
    return other.at[jnp.where(text < 0, other, BRACKETS)].set(k, mode="drop")
  return f, brackets()


@spelling("brackets")
def linked_stack():
  def f(text):
    def step(t):
      k, top, below, out = t
      opened = text[k] > 0
      out = lax.dynamic_update_slice(out, jnp.where(opened, 0, top)[None], (k,))
      out = jnp.where(opened, out, lax.dynamic_update_slice(out, k[None], (jnp.maximum(top, 0),)))
      below = lax.dynamic_update_slice(below, jnp.where(opened, top, below[k])[None], (k,))
      return k + 1, lax.select(opened, k, below[jnp.maximum(top, 0)]), below, out
    return lax.while_loop(lambda t: t[0] < BRACKETS, step, (0, -1, jnp.zeros_like(text), jnp.zeros_like(text)))[3]
  return f, brackets()


@spelling("brackets")
def last_of_depth():
  def f(text):
    depth = jnp.cumsum(text) - (text > 0)
    def step(s, item):
      last, out = s
      k, d, c = item
      other = last[d]
      out = out.at[jnp.where(c < 0, other, k)].set(jnp.where(c < 0, k, 0))
      return (last.at[d].set(k), out.at[k].set(jnp.where(c < 0, other, 0))), None
    k = jnp.arange(BRACKETS)
    return lax.scan(step, (jnp.zeros(BRACKETS, jnp.int32), jnp.zeros_like(text)), (k, depth, text))[0][1]
  return f, brackets()


# A cache that gives up what was used longest ago: which requests it answers.

HELD, REQUESTS = 32, 4000


def requests():
  return (np.minimum(np.random.default_rng(9).geometric(0.02, REQUESTS), 200).astype(np.int32),)


@spelling("lru")
def ages_argmin():
  def f(keys):
    def step(s, item):
      held, used = s
      k, key = item
      hit = held == key
      place = jnp.where(jnp.any(hit), jnp.argmax(hit), jnp.argmin(used))
      return (held.at[place].set(key), used.at[place].set(k)), jnp.any(hit)
    first = (jnp.full(HELD, -1), jnp.arange(HELD) - HELD)
    return lax.scan(step, first, (jnp.arange(REQUESTS), keys))[1]
  return f, requests()


@spelling("lru")
def moved_to_the_front():
  def f(keys):
    i = jnp.arange(HELD)
    def step(k, s):
      held, out = s
      hit = held == keys[k]
      place = jnp.where(hit.any(), jnp.argmax(hit), HELD - 1)
      held = jnp.where(i == 0, keys[k], jnp.where(i <= place, jnp.roll(held, 1), held))
      return held, out.at[k].set(hit.any())
    return lax.fori_loop(0, REQUESTS, step, (jnp.full(HELD, -1), jnp.zeros(REQUESTS, bool)))[1]
  return f, requests()


@spelling("lru")
def last_use_of_keys():
  def f(keys):
    def step(t):
      k, last, out = t
      key = keys[k]
      later = jnp.sum(last > last[key])
      return k + 1, last.at[key].set(k), out.at[k].set((last[key] >= 0) & (later < HELD))
    return lax.while_loop(lambda t: t[0] < REQUESTS, step, (0, jnp.full(256, -1), jnp.zeros(REQUESTS, bool)))[2]
  return f, requests()


@spelling("lru")
def loops_over_places():
  def f(keys):
    def step(s, key):
      held, n = s
      def look(j, best):
        place, hit, age = best
        same = held[j, 0] == key
        older = (held[j, 1] < age) & ~hit
        return jnp.where(same | older, j, place), hit | same, jnp.where(older, held[j, 1], age)
      place, hit, _ = lax.fori_loop(0, HELD, look, (0, False, jnp.int32(2**30)))
      return (lax.dynamic_update_slice(held, jnp.stack([key, n])[None], (place, 0)), n + 1), hit
    held = jnp.stack([jnp.full(HELD, -1), jnp.arange(HELD) - HELD], axis=1)
    return lax.scan(step, (held, 0), keys)[1]
  return f, requests()


# A sample of a stream of numbers, each as likely as the others (reservoir).

SAMPLED, STREAM = 64, 8000


def stream():
  random = np.random.default_rng(10)
  return numbers(STREAM), (random.random(STREAM) * np.maximum(np.arange(STREAM) + 1, 1)).astype(np.int32)


@spelling("reservoir")
def dropped_at_set():
  def f(x, place):
    def step(s, item):
      v, k, p = item
      return s.at[jnp.where(k < SAMPLED, k, p)].set(v, mode="drop"), None
    return lax.scan(step, jnp.zeros(SAMPLED), (x, jnp.arange(STREAM), place))[0]
  return f, stream()


@spelling("reservoir")
def cond_at_set():
  def f(x, place):
    def step(k, s):
      return lax.cond(place[k] < SAMPLED, lambda: s.at[place[k]].set(x[k]), lambda: s)
    return lax.fori_loop(SAMPLED, STREAM, step, x[:SAMPLED])
  return f, stream()


@spelling("reservoir")
def where_iota():
  def f(x, place):
    i = jnp.arange(SAMPLED)
    def step(k, s):
      return jnp.where(i == jnp.where(k < SAMPLED, k, place[k]), x[k], s)
    return lax.fori_loop(0, STREAM, step, jnp.zeros(SAMPLED))
  return f, stream()


@spelling("reservoir")
def selected_update():
  def f(x, place):
    def step(t):
      k, s = t
      p = jnp.minimum(place[k], SAMPLED - 1)
      old = lax.dynamic_slice(s, (p,), (1,))
      new = lax.select(place[k] < SAMPLED, lax.dynamic_slice(x, (k,), (1,)), old)
      return k + 1, lax.dynamic_update_slice(s, new, (p,))
    return lax.while_loop(lambda t: t[0] < STREAM, step, (SAMPLED, x[:SAMPLED]))[1]
  return f, stream()


# Comb sort, and a gnome's.

COMBED, GNOME = 512, 128


@spelling("comb_sort")
def pairs_at_set():
  def f(x):
    def sweep(t):
      x, gap, _ = t
      gap = jnp.maximum(gap * 10 // 13, 1)
      def swap(i, s):
        x, moved = s
        a, b = x[i], x[i + gap]
        return x.at[i].set(jnp.minimum(a, b)).at[i + gap].set(jnp.maximum(a, b)), moved | (a > b)
      x, moved = lax.fori_loop(0, COMBED - gap, swap, (x, False))
      return x, gap, moved
    return lax.while_loop(lambda t: (t[1] > 1) | t[2], sweep, (x, COMBED, True))[0]
  return f, (numbers(COMBED),)


@spelling("comb_sort")
def cond_of_swap():
  def f(x):
    def sweep(t):
      x, gap, _ = t
      gap = jnp.maximum(gap * 10 // 13, 1)
      def swap(s):
        i, x, moved = s
        def swapped():
          return x.at[i].set(x[i + gap]).at[i + gap].set(x[i]), True
        x, moved = lax.cond(x[i] > x[i + gap], swapped, lambda: (x, moved))
        return i + 1, x, moved
      _, x, moved = lax.while_loop(lambda s: s[0] + gap < COMBED, swap, (0, x, False))
      return x, gap, moved
    return lax.while_loop(lambda t: (t[1] > 1) | t[2], sweep, (x, COMBED, True))[0]
  return f, (numbers(COMBED),)


@spelling("comb_sort")
def scatter_of_two():
  def f(x):
    def sweep(t):
      x, gap, _ = t
      gap = jnp.maximum(gap * 10 // 13, 1)
      def swap(i, s):
        x, swaps = s
        both = jnp.array([i, i + gap])
        pair = x[both]
        return x.at[both].set(jnp.where(pair[0] > pair[1], pair[::-1], pair)), swaps + (pair[0] > pair[1])
      x, swaps = lax.fori_loop(0, COMBED - gap, swap, (x, 0))
      return x, gap, swaps
    return lax.while_loop(lambda t: (t[1] > 1) | (t[2] > 0), sweep, (x, COMBED, 1))[0]
  return f, (numbers(COMBED),)


@spelling("comb_sort")
def updates_of_one():
  def f(x):
    def sweep(t):
      x, gap, _ = t
      gap = jnp.maximum(gap * 10 // 13, 1)
      def swap(i, s):
        x, moved = s
        a, b = lax.dynamic_slice(x, (i,), (1,)), lax.dynamic_slice(x, (i + gap,), (1,))
        more = a > b
        x = lax.dynamic_update_slice(x, lax.select(more, b, a), (i,))
        return lax.dynamic_update_slice(x, lax.select(more, a, b), (i + gap,)), moved | more[0]
      x, moved = lax.fori_loop(0, COMBED - gap, swap, (x, False))
      return x, gap, moved
    return lax.while_loop(lambda t: (t[1] > 1) | t[2], sweep, (x, COMBED, True))[0]
  return f, (numbers(COMBED),)


@spelling("gnome_sort")
def while_cond_at_set():
  def f(x):
    def step(s):
      i, x = s
      def back():
        return jnp.maximum(i - 1, 1), x.at[i - 1].set(x[i]).at[i].set(x[i - 1])
      return lax.cond(x[i - 1] <= x[i], lambda: (i + 1, x), back)
    return lax.while_loop(lambda s: s[0] < GNOME, step, (1, x))[1]
  return f, (numbers(GNOME),)


@spelling("gnome_sort")
def minimum_and_maximum():
  def f(x):
    def step(s):
      i, x = s
      a, b = x[i - 1], x[i]
      x = x.at[i - 1].set(jnp.minimum(a, b)).at[i].set(jnp.maximum(a, b))
      return jnp.where(a <= b, i + 1, jnp.maximum(i - 1, 1)), x
    return lax.while_loop(lambda s: s[0] < GNOME, step, (1, x))[1]
  return f, (numbers(GNOME),)


@spelling("gnome_sort")
def slice_of_neighbours():
  def f(x):
    def step(s):
      i, x = s
      pair = lax.dynamic_slice(x, (i - 1,), (2,))
      right = pair[0] <= pair[1]
      x = lax.dynamic_update_slice(x, jnp.where(right, pair, jnp.flip(pair)), (i - 1,))
      return lax.select(right, i + 1, jnp.maximum(i - 1, 1)), x
    return lax.while_loop(lambda s: s[0] < GNOME, step, (1, x))[1]
  return f, (numbers(GNOME),)


@spelling("gnome_sort")
def where_over_iota():
  def f(x):
    n = jnp.arange(GNOME)
    def step(s):
      i, x = s
      a, b = x[i - 1], x[i]
      swapped = jnp.where(n == i - 1, b, jnp.where(n == i, a, x))
      return jnp.where(a <= b, i + 1, jnp.maximum(i - 1, 1)), jnp.where(a <= b, x, swapped)
    return lax.while_loop(lambda s: s[0] < GNOME, step, (1, x))[1]
  return f, (numbers(GNOME),)
