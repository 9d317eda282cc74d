"""Chances, trees of intervals, matrices step by step and cells of bits, in several spellings each, as in spelling_programs.py."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from spelling_programs import integers, numbers, program, spelling

# A knight that wanders: the chance that it is still on the board, after moves.

SQUARE, MOVES = 32, 40
KNIGHT = [(a, b) for a in (-2, -1, 1, 2) for b in (-2, -1, 1, 2) if abs(a) != abs(b)]


def corner():
  return (np.eye(1, SQUARE * SQUARE, dtype=np.float32).reshape(SQUARE, SQUARE),)


@spelling("knight", tolerance=1e-5)
def eight_slices_of_padded():
  def f(p):
    def step(_, p):
      q = jnp.pad(p, 2)
      return sum(q[2 + a:2 + a + SQUARE, 2 + b:2 + b + SQUARE] for a, b in KNIGHT) / 8
    return lax.fori_loop(0, MOVES, step, p)
  return f, corner()


@spelling("knight", tolerance=1e-5)
def moves_carried_off():
  def f(p):
    def step(p, _):
      new = jnp.zeros_like(p)
      for a, b in KNIGHT:
        to = (slice(max(a, 0), SQUARE + min(a, 0)), slice(max(b, 0), SQUARE + min(b, 0)))
        of = (slice(max(-a, 0), SQUARE + min(-a, 0)), slice(max(-b, 0), SQUARE + min(-b, 0)))
        new = new.at[to].add(p[of] / 8)
      return new, None
    return lax.scan(step, p, None, length=MOVES)[0]
  return f, corner()


@spelling("knight", tolerance=1e-5)
def squares_mapped():
  def f(p):
    at = jnp.arange(SQUARE)
    def step(_, p):
      def square(i, j):
        total = 0.0
        for a, b in KNIGHT:
          inside = (i + a >= 0) & (i + a < SQUARE) & (j + b >= 0) & (j + b < SQUARE)
          total += jnp.where(inside, p[jnp.clip(i + a, 0, SQUARE - 1), jnp.clip(j + b, 0, SQUARE - 1)], 0)
        return total / 8
      return jax.vmap(lambda i: jax.vmap(lambda j: square(i, j))(at))(at)
    return lax.fori_loop(0, MOVES, step, p)
  return f, corner()


@spelling("knight", tolerance=1e-5)
def convolved_by_moves():
  def f(p):
    taps = np.zeros((5, 5), np.float32)
    for a, b in KNIGHT:
      taps[a + 2, b + 2] = 0.125
    def step(s):
      k, p = s
      return k + 1, lax.conv(p[None, None], jnp.asarray(taps)[None, None], (1, 1), "SAME")[0, 0]
    return lax.while_loop(lambda s: s[0] < MOVES, step, (0, p))[1]
  return f, corner()


# The most pairs that a strand can fold into (Nussinov): of all intervals, by their lengths.

STRAND = 96


def strand():
  return (integers(4, STRAND),)


def fits(s):
  return (s[:, None] + s[None, :] == 3).astype(jnp.int32)


@spelling("folding")
def intervals_at_set():
  def f(s):
    pairs = fits(s)
    def of_length(d, n):
      def of_start(i, n):
        j = i + d
        k = jnp.arange(STRAND)
        split = jnp.max(jnp.where((k >= i) & (k < j), n[i, :] + n[jnp.minimum(k + 1, STRAND - 1), j], 0))
        return n.at[i, j].set(jnp.maximum(n[i + 1, j - 1] * (d > 1) + pairs[i, j], split))
      return lax.fori_loop(0, STRAND - d, of_start, n)
    return lax.fori_loop(1, STRAND, of_length, jnp.zeros((STRAND, STRAND), jnp.int32))[0, -1]
  return f, strand()


@spelling("folding")
def rows_from_the_end():
  def f(s):
    pairs = fits(s)
    def row(n, i):
      def cell(j, n):
        k = jnp.arange(STRAND)
        inside = jnp.where(j - 1 >= i + 1, n[i + 1, j - 1], 0)
        split = jnp.max(jnp.where((k >= i) & (k < j), n[i] + jnp.roll(n[:, j], -1), 0))
        return n.at[i, j].set(jnp.maximum(inside + pairs[i, j], split))
      return lax.fori_loop(i + 1, STRAND, cell, n), None
    return lax.scan(row, jnp.zeros((STRAND, STRAND), jnp.int32), jnp.arange(STRAND - 2, -1, -1))[0][0, -1]
  return f, strand()


@spelling("folding")
def three_loops_of_numbers():
  def f(s):
    pairs = fits(s)
    def of_length(d, n):
      def of_start(i, n):
        j = i + d
        best = jnp.where(d > 1, n[i + 1, j - 1], 0) + pairs[i, j]
        best = lax.fori_loop(i, j, lambda k, best: jnp.maximum(best, n[i, k] + n[k + 1, j]), best)
        return lax.dynamic_update_slice(n, best[None, None], (i, j))
      return lax.fori_loop(0, STRAND - d, of_start, n)
    return lax.fori_loop(1, STRAND, of_length, jnp.zeros((STRAND, STRAND), jnp.int32))[0, -1]
  return f, strand()


# A tree of sums in an array: changes and questions, one after the other.

LEAVES, ASKED = 1024, 2000


def changes():
  return integers(1000, LEAVES), integers(LEAVES, ASKED), integers(1000, ASKED, seed=2)


@spelling("segment_tree")
def fori_levels_at_add():
  def f(x, places, values):
    tree = built(x)
    def ask(tree, pair):
      at, value = pair
      change = value - tree[at + LEAVES]
      tree = lax.fori_loop(0, 11, lambda l, t: t.at[(at + LEAVES) >> l].add(change), tree)
      return tree, prefix(tree, at)
    return lax.scan(ask, tree, (places, values))[1]
  return f, changes()


def built(x):
  levels = [x]
  while levels[0].size > 1:
    levels.insert(0, levels[0][::2] + levels[0][1::2])
  return jnp.concatenate([jnp.zeros(1, x.dtype)] + levels)


def prefix(tree, at):
  def step(l, s):
    node = (at + LEAVES) >> l
    return s + jnp.where(node & 1 == 1, tree[node - 1], 0)
  return lax.fori_loop(0, 10, step, jnp.int32(0))


@spelling("segment_tree")
def while_up_to_the_root():
  def f(x, places, values):
    def ask(i, s):
      tree, out = s
      at = places[i] + LEAVES
      tree = tree.at[at].set(values[i])
      def up(s):
        k, t = s
        return k // 2, t.at[k].set(t[2 * k] + t[2 * k + 1])
      _, tree = lax.while_loop(lambda s: s[0] >= 1, up, (at // 2, tree))
      def sums(s):
        k, total = s
        return k // 2, lax.cond(k % 2 == 1, lambda: total + tree[k - 1], lambda: total)
      _, total = lax.while_loop(lambda s: s[0] > 1, sums, (at, jnp.int32(0)))
      return tree, out.at[i].set(total)
    return lax.fori_loop(0, ASKED, ask, (built(x), jnp.zeros(ASKED, jnp.int32)))[1]
  return f, changes()


@spelling("segment_tree")
def path_at_once():
  def f(x, places, values):
    up = jnp.arange(11)
    def ask(tree, pair):
      at, value = pair
      path = (at + LEAVES) >> up
      tree = tree.at[path].add(value - tree[at + LEAVES])
      before = jnp.where((path & 1 == 1) & (path > 1), tree[path - 1], 0)
      return tree, jnp.sum(before)
    return lax.scan(ask, built(x), (places, values))[1]
  return f, changes()


# Cells that fire, rest and wait (Brian's brain), as bits.

BRAIN, TICKS = 96, 60


def brain():
  return integers(3, BRAIN, BRAIN) == 0, integers(3, BRAIN, BRAIN, seed=2) == 0


@spelling("brain")
def counts_of_rolls():
  def f(on, dying):
    def step(_, s):
      on, dying = s
      count = sum(jnp.roll(on, (a, b), (0, 1)).astype(jnp.int32) for a in (-1, 0, 1) for b in (-1, 0, 1) if a or b)
      return ~on & ~dying & (count == 2), on
    return lax.fori_loop(0, TICKS, step, (on, dying))[0]
  return f, brain()


@spelling("brain")
def one_grid_of_bytes():
  def f(on, dying):
    def step(g, _):
      p = jnp.pad((g == 2).astype(jnp.uint8), 1, mode="wrap")
      rows = p[:-2] + p[1:-1] + p[2:]
      count = rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:]
      return jnp.where(g > 0, g - 1, jnp.where(count == 2, 2, 0)).astype(jnp.uint8), None
    start = jnp.where(on, 2, jnp.where(dying, 1, 0)).astype(jnp.uint8)
    return lax.scan(step, start, None, length=TICKS)[0] == 2
  return f, brain()


@spelling("brain")
def cells_mapped():
  def f(on, dying):
    at = jnp.arange(BRAIN)
    def step(s):
      k, on, dying = s
      def cell(i, j):
        count = jnp.int32(0)
        for a in (-1, 0, 1):
          for b in (-1, 0, 1):
            if a or b:
              count += on[(i + a) % BRAIN, (j + b) % BRAIN]
        return ~on[i, j] & ~dying[i, j] & (count == 2)
      return k + 1, jax.vmap(lambda i: jax.vmap(lambda j: cell(i, j))(at))(at), on
    return lax.while_loop(lambda s: s[0] < TICKS, step, (0, on, dying))[1]
  return f, brain()


# Lanczos' three-term recurrence in f64: a symmetric matrix as two diagonals.

SIDE, BASIS = 96, 32


def symmetric():
  a = numbers(SIDE, SIDE, dtype=np.float64)
  return (a + a.T) / 2, np.ones(SIDE) / np.sqrt(SIDE)


@program("lanczos", tolerance=1e-6, x64=True)
def lanczos__scan_of_three():
  def f(a, v):
    def step(s, _):
      before, v, beta = s
      w = a @ v - beta * before
      alpha = w @ v
      w = w - alpha * v
      beta = jnp.sqrt(w @ w)
      return (v, w / beta, beta), (alpha, beta)
    return lax.scan(step, (jnp.zeros_like(v), v, jnp.float64(0)), None, length=BASIS)[1]
  return f, symmetric()


@program("lanczos", tolerance=1e-6, x64=True)
def lanczos__basis_at_set():
  def f(a, v):
    def step(j, s):
      q, alphas, betas = s
      w = a @ q[j] - jnp.where(j > 0, betas[j - 1], 0) * q[jnp.maximum(j - 1, 0)]
      alphas = alphas.at[j].set(jnp.dot(w, q[j]))
      w = w - alphas[j] * q[j]
      betas = betas.at[j].set(jnp.linalg.norm(w))
      return q.at[j + 1].set(w / betas[j]), alphas, betas
    q = jnp.zeros((BASIS + 1, SIDE)).at[0].set(v)
    return lax.fori_loop(0, BASIS, step, (q, jnp.zeros(BASIS), jnp.zeros(BASIS)))[1:]
  return f, symmetric()


@program("lanczos", tolerance=1e-6, x64=True)
def lanczos__columns_of_basis():
  def f(a, v):
    def step(s):
      j, q, t = s
      now = lax.dynamic_slice(q, (0, j), (SIDE, 1))
      past = lax.dynamic_slice(q, (0, jnp.maximum(j - 1, 0)), (SIDE, 1))
      w = a.T @ now - jnp.where(j > 0, t[1, jnp.maximum(j - 1, 0)], 0) * past
      alpha = jnp.sum(w * now)
      w = w - alpha * now
      beta = jnp.sqrt(jnp.sum(w * w))
      q = lax.dynamic_update_slice(q, w / beta, (0, j + 1))
      return j + 1, q, lax.dynamic_update_slice(t, jnp.stack([alpha, beta])[:, None], (0, j))
    q = jnp.zeros((SIDE, BASIS + 1)).at[:, 0].set(v)
    t = lax.while_loop(lambda s: s[0] < BASIS, step, (0, q, jnp.zeros((2, BASIS))))[2]
    return t[0], t[1]
  return f, symmetric()


# Throws of a gambler, each until ruin or wealth, with cheap dice: how many throws each one lasted.

GAMBLERS, LIMIT = 2000, 400


def purses():
  return integers(40, GAMBLERS), integers(1 << 30, GAMBLERS, seed=2)


def thrown(seed):
  return (seed * 1103515245 + 12345) & 0x7FFFFFFF


@spelling("gamblers")
def vmapped_until_done():
  def f(money, seed):
    def one(money, seed):
      def step(s):
        n, money, seed = s
        seed = thrown(seed)
        return n + 1, money + jnp.where((seed >> 16) & 1 == 1, 1, -1), seed
      return lax.while_loop(lambda s: (s[1] > 0) & (s[1] < 40) & (s[0] < LIMIT), step, (0, money, seed))[0]
    return jax.vmap(one)(money, seed)
  return f, purses()


@spelling("gamblers")
def all_masked():
  def f(money, seed):
    def step(_, s):
      n, money, seed = s
      plays = (money > 0) & (money < 40)
      seed = thrown(seed)
      money = jnp.where(plays, money + jnp.where((seed >> 16) & 1 == 1, 1, -1), money)
      return n + plays, money, seed
    return lax.fori_loop(0, LIMIT, step, (jnp.zeros_like(money), money, seed))[0]
  return f, purses()


@spelling("gamblers")
def mapped_with_cond():
  def f(money, seed):
    def one(pair):
      def step(s):
        n, money, seed = s
        seed = thrown(seed)
        money = lax.cond((seed >> 16) & 1 == 1, lambda m: m + 1, lambda m: m - 1, money)
        return n + 1, money, seed
      return lax.while_loop(lambda s: (s[1] > 0) & (s[1] < 40) & (s[0] < LIMIT), step, (0, *pair))[0]
    return lax.map(one, (money, seed))
  return f, purses()


@spelling("gamblers")
def one_after_the_other_at_set():
  def f(money, seed):
    def one(i, out):
      def step(s):
        s = s.at[2].set(thrown(s[2]))
        s = s.at[1].add(jnp.where((s[2] >> 16) & 1 == 1, 1, -1))
        return s.at[0].add(1)
      go = lambda s: (s[1] > 0) & (s[1] < 40) & (s[0] < LIMIT)
      return out.at[i].set(lax.while_loop(go, step, jnp.stack([0, money[i], seed[i]]))[0])
    return lax.fori_loop(0, GAMBLERS, one, jnp.zeros_like(money))
  return f, purses()
