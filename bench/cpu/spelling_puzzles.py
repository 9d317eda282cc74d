"""Grids, games, stacks and search trees that nothing was tuned for, in several spellings each, as in spelling_programs.py."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from spelling_programs import integers, numbers, spelling

# The sandpile: cells of four grains or more topple, until none does.

PILE = 48


def pile():
  return (np.full((PILE, PILE), 4, np.int32),)


@spelling("sandpile")
def padded_slices():
  def f(grains):
    def topple(x):
      falls = (x >= 4).astype(jnp.int32)
      wide = jnp.pad(falls, 1)
      return x - 4 * falls + wide[:-2, 1:-1] + wide[2:, 1:-1] + wide[1:-1, :-2] + wide[1:-1, 2:]
    return lax.while_loop(lambda x: jnp.any(x >= 4), topple, grains)
  return f, pile()


@spelling("sandpile")
def added_at():
  def f(grains):
    def topple(s):
      x, _ = s
      falls = x // 4
      x = x - 4 * falls
      x = x.at[1:].add(falls[:-1]).at[:-1].add(falls[1:]).at[:, 1:].add(falls[:, :-1]).at[:, :-1].add(falls[:, 1:])
      return x, x.max()
    return lax.while_loop(lambda s: s[1] >= 4, topple, (grains, jnp.int32(4)))[0]
  return f, pile()


@spelling("sandpile")
def rolled_inside():
  def f(grains):
    i = jnp.arange(PILE)
    first, last = i > 0, i < PILE - 1
    def topple(x):
      falls = jnp.where(x >= 4, 1, 0)
      x = x - 4 * falls
      x = x + jnp.where(first[:, None], jnp.roll(falls, 1, 0), 0) + jnp.where(last[:, None], jnp.roll(falls, -1, 0), 0)
      return x + jnp.where(first[None], jnp.roll(falls, 1, 1), 0) + jnp.where(last[None], jnp.roll(falls, -1, 1), 0)
    return lax.while_loop(lambda x: (x >= 4).any(), topple, grains)
  return f, pile()


# Langton's ant on a torus.

FIELD, MOVES = 64, 4000


def field():
  return (np.zeros((FIELD, FIELD), bool),)


@spelling("ant")
def fori_at_set():
  def f(cells):
    dy, dx = jnp.array([-1, 0, 1, 0]), jnp.array([0, 1, 0, -1])
    def step(_, s):
      cells, y, x, d = s
      d = (d + jnp.where(cells[y, x], 3, 1)) % 4
      cells = cells.at[y, x].set(~cells[y, x])
      return cells, (y + dy[d]) % FIELD, (x + dx[d]) % FIELD, d
    return lax.fori_loop(0, MOVES, step, (cells, FIELD // 2, FIELD // 2, 0))[0]
  return f, field()


@spelling("ant")
def scan_switch():
  def f(cells):
    moves = [lambda y, x: (y - 1, x), lambda y, x: (y, x + 1), lambda y, x: (y + 1, x), lambda y, x: (y, x - 1)]
    def step(s, _):
      cells, y, x, d = s
      here = cells[y, x]
      d = jnp.where(here, d - 1, d + 1) & 3
      cells = lax.dynamic_update_slice(cells, ~here[None, None], (y, x))
      y, x = lax.switch(d, moves, y, x)
      return (cells, y & (FIELD - 1), x & (FIELD - 1), d), None
    return lax.scan(step, (cells, FIELD // 2, FIELD // 2, 0), None, length=MOVES)[0][0]
  return f, field()


@spelling("ant")
def while_flat_vector():
  def f(cells):
    def step(s):
      k, cells, at, move = s
      here = cells[at[0] * FIELD + at[1]]
      turn = jnp.where(here, -1, 1)
      move = jnp.stack([turn * move[1], -turn * move[0]])
      cells = cells.at[at[0] * FIELD + at[1]].set(~here)
      return k + 1, cells, (at + move) % FIELD, move
    start = (0, cells.reshape(-1), jnp.array([FIELD // 2, FIELD // 2]), jnp.array([-1, 0]))
    return lax.while_loop(lambda s: s[0] < MOVES, step, start)[1].reshape(FIELD, FIELD)
  return f, field()


# The median of three by three pixels.


def picture():
  return (integers(256, 96, 96, seed=51),)


def nine(x):
  return [x[i:i + 94, j:j + 94] for i in range(3) for j in range(3)]


@spelling("median_filter")
def sorted_stack():
  return lambda x: jnp.sort(jnp.stack(nine(x)), axis=0)[4], picture()


@spelling("median_filter")
def exchanges():
  def f(x):
    v = nine(x)
    for a, b in [(1, 2), (4, 5), (7, 8), (0, 1), (3, 4), (6, 7), (1, 2), (4, 5), (7, 8), (0, 3), (5, 8), (4, 7), (3, 6),
                 (1, 4), (2, 5), (4, 7), (4, 2), (6, 4), (4, 2)]:
      v[a], v[b] = jnp.minimum(v[a], v[b]), jnp.maximum(v[a], v[b])
    return v[4]
  return f, picture()


@spelling("median_filter")
def median_last_axis():
  return lambda x: jnp.median(jnp.stack(nine(x), -1), axis=-1).astype(jnp.int32), picture()


@spelling("median_filter")
def mapped_windows():
  def f(x):
    i, j = jnp.meshgrid(jnp.arange(94), jnp.arange(94), indexing="ij")
    window = lambda i, j: jnp.sort(lax.dynamic_slice(x, (i, j), (3, 3)).reshape(-1))[4]
    return jax.vmap(jax.vmap(window))(i, j)
  return f, picture()


# Eight queens: the number of ways, by a stack of bit masks.

QUEENS = 7
FULL = (1 << QUEENS) - 1


def nothing():
  return (np.int32(0),)


@spelling("queens")
def stack_of_rows():
  def f(start):
    n = QUEENS + 1
    zero = jnp.zeros(n, jnp.int32)
    def step(s):
      row, free, columns, left, right, ways = s
      bits = free[row]
      bit = bits & -bits
      empty, last = bits == 0, row == QUEENS - 1
      free = free.at[row].set(bits ^ bit)
      c, l, r = columns[row] | bit, (left[row] | bit) << 1, (right[row] | bit) >> 1
      down = ~empty & ~last
      k = jnp.where(down, row + 1, n - 1)
      columns, left, right = columns.at[k].set(c), left.at[k].set(l), right.at[k].set(r)
      free = free.at[k].set(FULL & ~(c | l | r))
      return jnp.where(empty, row - 1, jnp.where(down, row + 1, row)), free, columns, left, right, ways + (last & ~empty)
    first = (jnp.int32(0), zero.at[0].set(FULL), zero, zero, zero, start)
    return lax.while_loop(lambda s: s[0] >= 0, step, first)[5]
  return f, nothing()


@spelling("queens")
def stack_cond():
  def f(start):
    stack = jnp.zeros((64, 3), jnp.int32)
    def step(s):
      top, stack, ways = s
      c, l, r = stack[top]
      def push(_):
        def place(s):
          bits, top, stack = s
          bit = bits & -bits
          new = jnp.stack([c | bit, (l | bit) << 1, (r | bit) >> 1])
          return bits ^ bit, top + 1, stack.at[top].set(new)
        _, t, st = lax.while_loop(lambda s: s[0] != 0, place, (FULL & ~(c | l | r), top, stack))
        return t - 1, st, ways
      return lax.cond(c == FULL, lambda _: (top - 1, stack, ways + 1), push, None)
    return lax.while_loop(lambda s: s[0] >= 0, step, (jnp.int32(0), stack, start))[2]
  return f, nothing()


@spelling("queens")
def board_of_columns():
  def f(start):
    i = jnp.arange(QUEENS)
    def fits(board, row, column):
      other = (board == column) | (jnp.abs(board - column) == row - i)
      return ~jnp.any(other & (i < row))
    def step(s):
      row, board, ways = s
      column = lax.while_loop(lambda c: (c < QUEENS) & ~fits(board, row, c), lambda c: c + 1, board[row] + 1)
      found = column < QUEENS
      full = found & (row == QUEENS - 1)
      board = board.at[row].set(jnp.where(found, column, -1))
      return jnp.where(found, jnp.where(full, row, row + 1), row - 1), board, ways + full
    return lax.while_loop(lambda s: s[0] >= 0, step, (jnp.int32(0), jnp.full(QUEENS, -1), start))[2]
  return f, nothing()


# The upper convex hull of points sorted by x, on a stack.

POINTS = 400


def points():
  x = np.sort(np.random.default_rng(52).uniform(-1, 1, POINTS)).astype(np.float32)
  return x, numbers(POINTS, seed=53)


def turn(ax, ay, bx, by, cx, cy):
  return (bx - ax) * (cy - ay) - (by - ay) * (cx - ax)


@spelling("hull")
def pop_in_while():
  def f(x, y):
    def add(i, s):
      top, stack = s
      def bad(t):
        a, b = stack[jnp.maximum(t - 2, 0)], stack[jnp.maximum(t - 1, 0)]
        return (t >= 2) & (turn(x[a], y[a], x[b], y[b], x[i], y[i]) >= 0)
      top = lax.while_loop(bad, lambda t: t - 1, top)
      return top + 1, stack.at[top].set(i)
    return lax.fori_loop(0, POINTS, add, (jnp.int32(0), jnp.zeros(POINTS, jnp.int32)))[0]
  return f, points()


@spelling("hull")
def one_flat_loop():
  def f(x, y):
    def step(s):
      i, top, stack = s
      a, b = stack[jnp.maximum(top - 2, 0)], stack[jnp.maximum(top - 1, 0)]
      pop = (top >= 2) & (turn(x[a], y[a], x[b], y[b], x[i], y[i]) >= 0)
      stack = jnp.where(pop, stack, stack.at[top].set(i))
      return jnp.where(pop, i, i + 1), jnp.where(pop, top - 1, top + 1), stack
    return lax.while_loop(lambda s: s[0] < POINTS, step, (jnp.int32(0), jnp.int32(0), jnp.zeros(POINTS, jnp.int32)))[1]
  return f, points()


@spelling("hull")
def scan_of_coordinates():
  def f(x, y):
    def add(s, point):
      top, sx, sy = s
      px, py = point
      def bad(t):
        return (t >= 2) & (turn(sx[t - 2], sy[t - 2], sx[t - 1], sy[t - 1], px, py) >= 0)
      top = lax.while_loop(bad, lambda t: t - 1, top)
      return (top + 1, sx.at[top].set(px), sy.at[top].set(py)), None
    zero = jnp.zeros(POINTS)
    return lax.scan(add, (jnp.int32(0), zero, zero), (x, y))[0][0]
  return f, points()


# Stable matching (Gale and Shapley).

PAIRS = 60


def wishes():
  rng = np.random.default_rng(54)
  return (np.argsort(rng.random((PAIRS, PAIRS))).astype(np.int32), np.argsort(rng.random((PAIRS, PAIRS))).astype(np.int32))


@spelling("matching")
def one_proposal_a_round():
  def f(wish, rank):
    n = PAIRS
    def step(s):
      partner, asked, man, free = s
      woman = wish[man, asked[man]]
      asked = asked.at[man].add(1)
      other = partner[woman]
      yes = (other < 0) | (rank[woman, man] < rank[woman, jnp.maximum(other, 0)])
      partner = partner.at[woman].set(jnp.where(yes, man, other))
      left = jnp.where(yes, other, man)
      return partner, asked, jnp.where(left < 0, free, left), jnp.where(left < 0, free + 1, free)
    start = (jnp.full(n, -1), jnp.zeros(n, jnp.int32), jnp.int32(0), jnp.int32(1))
    return lax.while_loop(lambda s: s[2] < n, step, start)[0]
  return f, wishes()


@spelling("matching")
def nested_chains():
  def f(wish, rank):
    n = PAIRS
    def propose(first, s):
      def step(s):
        partner, asked, man = s
        woman = wish[man, asked[man]]
        other = partner[woman]
        def take(_):
          return partner.at[woman].set(man), asked.at[man].add(1), other
        def refuse(_):
          return partner, asked.at[man].add(1), man
        yes = (other < 0) | (rank[woman, man] < rank[woman, other])
        return lax.cond(yes, take, refuse, None)
      partner, asked, _ = lax.while_loop(lambda s: s[2] >= 0, step, (*s, first))
      return partner, asked
    return lax.fori_loop(0, n, propose, (jnp.full(n, -1), jnp.zeros(n, jnp.int32)))[0]
  return f, wishes()


@spelling("matching")
def first_free_man():
  def f(wish, rank):
    n = PAIRS
    def step(s):
      partner, wife, asked = s
      man = jnp.argmin(wife >= 0)
      woman = wish[man, asked[man]]
      other = partner[woman]
      yes = (other < 0) | (rank[woman, man] < rank[woman, other])
      wife = jnp.where(yes, wife.at[jnp.where(other < 0, n, other)].set(-1, mode="drop").at[man].set(woman), wife)
      return jnp.where(yes, partner.at[woman].set(man), partner), wife, asked.at[man].add(1)
    start = (jnp.full(n, -1), jnp.full(n, -1), jnp.zeros(n, jnp.int32))
    return lax.while_loop(lambda s: jnp.any(s[1] < 0), step, start)[0]
  return f, wishes()


# Newton's iteration for the cube root, until it is exact enough for each number.

ROOTS = 3000


def radicands():
  return (np.random.default_rng(55).uniform(0.5, 1000, ROOTS).astype(np.float32),)


def cube_root(a):
  def step(s):
    x, _ = s
    y = (2 * x + a / (x * x)) / 3
    return y, jnp.abs(y - x)
  return lax.while_loop(lambda s: s[1] > 1e-5 * s[0], step, (a, a))[0]


@spelling("cube_roots", tolerance=1e-6)
def vmapped():
  return lambda a: jax.vmap(cube_root)(a), radicands()


@spelling("cube_roots", tolerance=1e-6)
def mapped():
  return lambda a: lax.map(cube_root, a), radicands()


@spelling("cube_roots", tolerance=1e-6)
def fori_at_set():
  return lambda a: lax.fori_loop(0, ROOTS, lambda i, y: y.at[i].set(cube_root(a[i])), jnp.zeros_like(a)), radicands()


@spelling("cube_roots", tolerance=1e-6)
def whole_until_all():
  def f(a):
    def step(s):
      x, moved = s
      y = jnp.where(moved > 1e-5 * x, (2 * x + a / (x * x)) / 3, x)
      return y, jnp.abs(y - x)
    return lax.while_loop(lambda s: jnp.any(s[1] > 1e-5 * s[0]), step, (a, a))[0]
  return f, radicands()


# Digits: how many steps of summing squares of digits lead a number to 1 or 89.

HAPPY = 2000


def square_digits(n):
  return lax.while_loop(lambda s: s[0] > 0, lambda s: (s[0] // 10, s[1] + (s[0] % 10) ** 2), (n, 0))[1]


def digit_steps(n):
  return lax.while_loop(lambda s: (s[0] != 1) & (s[0] != 89), lambda s: (square_digits(s[0]), s[1] + 1), (n, 0))[1]


def first_number():
  return (np.int32(1),)


@spelling("digit_squares")
def vmapped_loops():
  return lambda first: jax.vmap(digit_steps)(first + jnp.arange(HAPPY)), first_number()


@spelling("digit_squares")
def mapped_loops():
  return lambda first: lax.map(digit_steps, first + jnp.arange(HAPPY)), first_number()


@spelling("digit_squares")
def fori_four_digits():
  def f(first):
    def steps(n):
      def step(s):
        n, k = s
        total = lax.fori_loop(0, 4, lambda _, s: (s[0] // 10, s[1] + (s[0] % 10) ** 2), (n, 0))[1]
        return total, k + 1
      return lax.while_loop(lambda s: (s[0] != 1) & (s[0] != 89), step, (n, 0))[1]
    return lax.fori_loop(0, HAPPY, lambda i, out: out.at[i].set(steps(first + i)), jnp.zeros(HAPPY, jnp.int32))
  return f, first_number()
