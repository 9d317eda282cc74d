"""Factorisations and products of matrices, whole and by elements, in several spellings each, as in spelling_programs.py."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from spelling_programs import integers, numbers, spelling

# Cholesky's factor, column by column.

CHOLESKY = 96


def definite(n=CHOLESKY):
  a = numbers(n, n)
  return ((a @ a.T / n + np.eye(n, dtype=np.float32)).astype(np.float32),)


@spelling("cholesky", tolerance=1e-4)
def columns_at_set():
  def f(a):
    n = a.shape[0]
    rows = jnp.arange(n)
    def column(j, l):
      s = a[:, j] - l @ l[j]
      return l.at[:, j].set(jnp.where(rows >= j, s / jnp.sqrt(s[j]), 0.0))
    return lax.fori_loop(0, n, column, jnp.zeros_like(a))
  return f, definite()


@spelling("cholesky", tolerance=1e-4)
def outer_products():
  def f(a):
    n = a.shape[0]
    rows = jnp.arange(n)
    def column(a, j):
      c = jnp.where(rows >= j, a[:, j] / jnp.sqrt(a[j, j]), 0.0)
      return a - jnp.outer(c, c), c
    return lax.scan(column, a, rows)[1].T
  return f, definite()


@spelling("cholesky", tolerance=1e-4)
def elements_in_place():
  def f(a):
    n = a.shape[0]
    def element(i, j, l):
      s = a[i, j] - lax.fori_loop(0, j, lambda k, s: s + l[i, k] * l[j, k], jnp.float32(0))
      return l.at[i, j].set(jnp.where(i == j, jnp.sqrt(s), s / l[j, j]))
    def row(i, l):
      return lax.fori_loop(0, i + 1, lambda j, l: element(i, j, l), l)
    return lax.fori_loop(0, n, row, jnp.zeros_like(a))
  return f, definite()


@spelling("cholesky", tolerance=1e-4)
def rows_updated():
  def f(a):
    n = a.shape[0]
    def row(i, l):
      def element(j, r):
        lj = lax.dynamic_index_in_dim(l, j, keepdims=False)
        s = a[i, j] - jnp.sum(r * lj)
        return lax.dynamic_update_slice(r, (s / lj[j])[None], (j,))
      r = lax.fori_loop(0, i, element, jnp.zeros(n))
      r = r.at[i].set(jnp.sqrt(a[i, i] - jnp.sum(r * r)))
      return lax.dynamic_update_slice(l, r[None], (i, 0))
    return lax.fori_loop(0, n, row, jnp.zeros_like(a))
  return f, definite()


# Triangles by rotations of pairs of rows (Givens).

GIVENS = 40


def rotation(a, b):
  r = jnp.sqrt(a * a + b * b)
  return a / r, b / r


@spelling("givens", tolerance=1e-4)
def two_rows_at_set():
  def f(a):
    n = a.shape[0]
    def below(j, a):
      def one(k, a):
        i = n - 1 - k
        c, s = rotation(a[i - 1, j], a[i, j])
        p, q = a[i - 1], a[i]
        return a.at[i - 1].set(c * p + s * q).at[i].set(c * q - s * p)
      return lax.fori_loop(0, n - 1 - j, one, a)
    return lax.fori_loop(0, n - 1, below, a)
  return f, (numbers(GIVENS, GIVENS),)


@spelling("givens", tolerance=1e-4)
def slices_of_two_rows():
  def f(a):
    n = a.shape[0]
    def below(j, a):
      def one(t):
        a, i = t
        pair = lax.dynamic_slice(a, (i - 1, 0), (2, n))
        c, s = rotation(pair[0, j], pair[1, j])
        turned = jnp.array([[1, 0], [0, 1]]) * c + jnp.array([[0, 1], [-1, 0]]) * s
        return lax.dynamic_update_slice(a, turned @ pair, (i - 1, 0)), i - 1
      return lax.while_loop(lambda t: t[1] > j, one, (a, n - 1))[0]
    return lax.fori_loop(0, n - 1, below, a)
  return f, (numbers(GIVENS, GIVENS),)


@spelling("givens", tolerance=1e-4)
def scan_of_pairs():
  def f(a):
    n = a.shape[0]
    pairs = [(j, i) for j in range(n - 1) for i in range(n - 1, j, -1)]
    def one(a, pair):
      j, i = pair
      p, q = a[i - 1], a[i]
      c, s = rotation(p[j], q[j])
      a = lax.dynamic_update_index_in_dim(a, c * p + s * q, i - 1, 0)
      return lax.dynamic_update_index_in_dim(a, c * q - s * p, i, 0), None
    return lax.scan(one, a, tuple(jnp.array(p, jnp.int32) for p in zip(*pairs)))[0]
  return f, (numbers(GIVENS, GIVENS),)


@spelling("givens", tolerance=1e-4)
def rows_by_where():
  def f(a):
    n = a.shape[0]
    row = jnp.arange(n)[:, None]
    def below(j, a):
      def one(k, a):
        i = n - 1 - k
        p, q = a[i - 1], a[i]
        c, s = rotation(p[j], q[j])
        return jnp.where(row == i - 1, c * p + s * q, jnp.where(row == i, c * q - s * p, a))
      return lax.fori_loop(0, n - 1 - j, one, a)
    return lax.fori_loop(0, n - 1, below, a)
  return f, (numbers(GIVENS, GIVENS),)


# A sparse matrix by rows (CSR) times a vector, again and again.

SPARSE, ENTRIES, PRODUCTS = 512, 8, 40


def sparse():
  random = np.random.default_rng(3)
  lengths = random.integers(1, 2 * ENTRIES, size=SPARSE)
  starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
  columns = random.integers(0, SPARSE, size=starts[-1]).astype(np.int32)
  values = (random.normal(size=starts[-1]) / 4).astype(np.float32)
  return starts, columns, values, numbers(SPARSE)


def bounded(x):
  return x / jnp.max(jnp.abs(x))


@spelling("sparse_rows", tolerance=1e-4)
def segment_sums():
  def f(starts, columns, values, x):
    rows = jnp.repeat(jnp.arange(SPARSE), jnp.diff(starts), total_repeat_length=columns.shape[0])
    def step(_, x):
      return bounded(jax.ops.segment_sum(values * x[columns], rows, SPARSE, indices_are_sorted=True))
    return lax.fori_loop(0, PRODUCTS, step, x)
  return f, sparse()


@spelling("sparse_rows", tolerance=1e-4)
def added_at_rows():
  def f(starts, columns, values, x):
    rows = jnp.searchsorted(starts, jnp.arange(columns.shape[0]), side="right") - 1
    def step(x, _):
      return bounded(jnp.zeros_like(x).at[rows].add(values * x[columns])), None
    return lax.scan(step, x, None, length=PRODUCTS)[0]
  return f, sparse()


@spelling("sparse_rows", tolerance=1e-4)
def row_by_row_loops():
  def f(starts, columns, values, x):
    def step(_, x):
      def row(i, y):
        total = lax.fori_loop(starts[i], starts[i + 1], lambda k, s: s + values[k] * x[columns[k]], jnp.float32(0))
        return y.at[i].set(total)
      return bounded(lax.fori_loop(0, SPARSE, row, jnp.zeros_like(x)))
    return lax.fori_loop(0, PRODUCTS, step, x)
  return f, sparse()


@spelling("sparse_rows", tolerance=1e-4)
def mapped_while():
  def f(starts, columns, values, x):
    def row(begin, end, x):
      def entry(t):
        k, s = t
        return k + 1, s + values[k] * x[columns[k]]
      return lax.while_loop(lambda t: t[0] < end, entry, (begin, jnp.float32(0)))[1]
    def step(x, _):
      return bounded(jax.vmap(row, (0, 0, None))(starts[:-1], starts[1:], x)), None
    return lax.scan(step, x, None, length=PRODUCTS)[0]
  return f, sparse()


# Pseudoinverses by Newton and Schulz.

INVERTED = 24


def tall():
  return (numbers(16, 32, INVERTED) / 6,)


def newton_schulz(a, x):
  return 2 * x - x @ (a @ x)


def first_inverse(a):
  return a.T / (jnp.max(jnp.sum(jnp.abs(a), 0)) * jnp.max(jnp.sum(jnp.abs(a), 1)))


@spelling("pseudoinverse", tolerance=1e-3)
def vmapped_fori():
  def f(batch):
    def one(a):
      return lax.fori_loop(0, 20, lambda _, x: newton_schulz(a, x), first_inverse(a))
    return jax.vmap(one)(batch)
  return f, tall()


@spelling("pseudoinverse", tolerance=1e-3)
def mapped_scan():
  def f(batch):
    def one(a):
      return lax.scan(lambda x, _: (newton_schulz(a, x), None), first_inverse(a), None, length=20)[0]
    return lax.map(one, batch)
  return f, tall()


@spelling("pseudoinverse", tolerance=1e-3)
def scan_of_while():
  def f(batch):
    def one(_, a):
      return None, lax.while_loop(lambda t: t[1] < 20, lambda t: (newton_schulz(a, t[0]), t[1] + 1), (first_inverse(a), 0))[0]
    return lax.scan(one, None, batch)[1]
  return f, tall()


@spelling("pseudoinverse", tolerance=1e-3)
def einsum_of_batch():
  def f(batch):
    first = jax.vmap(first_inverse)(batch)
    def step(_, x):
      return 2 * x - jnp.einsum("bij,bjk,bkl->bil", x, batch, x)
    return lax.fori_loop(0, 20, step, first)
  return f, tall()


# Exponentials of small matrices: a series, then squares.

EXPONENTS = 200


@spelling("exponential", tolerance=1e-4)
def fori_of_terms():
  def f(batch):
    def one(a):
      a = a / 16
      def term(k, s):
        power, total = s
        power = power @ a / k
        return power, total + power
      e = lax.fori_loop(1, 9, term, (jnp.eye(4), jnp.eye(4)))[1]
      return lax.fori_loop(0, 4, lambda _, e: e @ e, e)
    return lax.map(one, batch)
  return f, (numbers(EXPONENTS, 4, 4),)


@spelling("exponential", tolerance=1e-4)
def horner_vmapped():
  def f(batch):
    def one(a):
      a = a / 16
      e = jnp.eye(4)
      for k in range(8, 0, -1):
        e = jnp.eye(4) + a @ e / k
      for _ in range(4):
        e = e @ e
      return e
    return jax.vmap(one)(batch)
  return f, (numbers(EXPONENTS, 4, 4),)


@spelling("exponential", tolerance=1e-4)
def scan_at_set():
  def f(batch):
    def one(out, k):
      a = batch[k] / 16
      e, _ = lax.scan(lambda e, d: (jnp.eye(4) + (a @ e) / d, None), jnp.eye(4), jnp.arange(8, 0, -1, dtype=jnp.float32))
      e = lax.fori_loop(0, 4, lambda _, e: e @ e, e)
      return out.at[k].set(e), None
    return lax.scan(one, jnp.zeros_like(batch), jnp.arange(EXPONENTS))[0]
  return f, (numbers(EXPONENTS, 4, 4),)


@spelling("exponential", tolerance=1e-4)
def broadcast_products():
  def f(batch):
    product = lambda p, q: jnp.sum(p[:, :, :, None] * q[:, None, :, :], axis=2)
    a, eye = batch / 16, jnp.broadcast_to(jnp.eye(4), batch.shape)
    e = lax.fori_loop(0, 8, lambda k, e: eye + product(a, e) / (8.0 - k), eye)
    return lax.fori_loop(0, 4, lambda _, e: product(e, e), e)
  return f, (numbers(EXPONENTS, 4, 4),)


# An orthogonal basis of powers of a matrix on a vector (Arnoldi).

ARNOLDI, POWERS = 256, 24


def square():
  return numbers(ARNOLDI, ARNOLDI) / 16, numbers(ARNOLDI, seed=2)


def unit(v):
  return v / jnp.sqrt(jnp.sum(v * v))


@spelling("arnoldi", tolerance=2e-3)
def whole_basis_twice():
  def f(a, v):
    def step(k, q):
      w = a @ q[k]
      w = w - q.T @ (q @ w)
      w = w - q.T @ (q @ w)
      return q.at[k + 1].set(unit(w))
    q = jnp.zeros((POWERS + 1, ARNOLDI)).at[0].set(unit(v))
    return lax.fori_loop(0, POWERS, step, q)
  return f, square()


@spelling("arnoldi", tolerance=2e-3)
def one_vector_after_another():
  def f(a, v):
    def step(k, q):
      w = lax.fori_loop(0, k + 1, lambda j, w: w - jnp.vdot(q[j], w) * q[j], a @ q[k])
      return lax.dynamic_update_slice(q, unit(w)[None], (k + 1, 0))
    q = jnp.zeros((POWERS + 1, ARNOLDI)).at[0].set(unit(v))
    return lax.fori_loop(0, POWERS, step, q)
  return f, square()


@spelling("arnoldi", tolerance=2e-3)
def basis_in_columns():
  def f(a, v):
    def step(s, k):
      q, u = s
      w = a @ u
      def off(w, j):
        return w - jnp.sum(q[:, j] * w) * q[:, j], None
      u = unit(lax.scan(off, w, jnp.arange(POWERS + 1))[0])
      return (q.at[:, k + 1].set(u), u), None
    q = jnp.zeros((ARNOLDI, POWERS + 1)).at[:, 0].set(unit(v))
    return lax.scan(step, (q, unit(v)), jnp.arange(POWERS))[0][0].T
  return f, square()


@spelling("arnoldi", tolerance=2e-3)
def masked_rows():
  def f(a, v):
    rows = jnp.arange(POWERS + 1)[:, None]
    def step(s):
      k, q = s
      w = a @ jnp.sum(jnp.where(rows == k, q, 0.0), axis=0)
      for _ in range(2):
        w = w - jnp.einsum("ki,k->i", q, jnp.einsum("ki,i->k", q, w))
      return k + 1, jnp.where(rows == k + 1, unit(w), q)
    q = jnp.where(rows == 0, unit(v), 0.0)
    return lax.while_loop(lambda s: s[0] < POWERS, step, (0, q))[1]
  return f, square()


# Which places lead to which others (Warshall).

PLACES = 96


def roads():
  return ((np.random.default_rng(4).random((PLACES, PLACES)) < 0.02),)


@spelling("closure")
def outer_of_masks():
  def f(r):
    return lax.fori_loop(0, PLACES, lambda k, r: r | (r[:, k][:, None] & r[k][None]), r)
  return f, roads()


@spelling("closure")
def rows_selected():
  def f(r):
    def by(r, k):
      row = lax.dynamic_slice(r, (k, 0), (1, PLACES))
      column = lax.dynamic_slice(r, (0, k), (PLACES, 1))
      return lax.select(jnp.broadcast_to(column, r.shape), r | row, r), None
    return lax.scan(by, r, jnp.arange(PLACES))[0]
  return f, roads()


@spelling("closure")
def row_by_row():
  def f(r):
    def by(k, r):
      def one(i, r):
        return r.at[i].set(jnp.where(r[i, k], r[i] | r[k], r[i]))
      return lax.fori_loop(0, PLACES, one, r)
    return lax.fori_loop(0, PLACES, by, r)
  return f, roads()


@spelling("closure")
def integers_in_while():
  def f(r):
    def by(s):
      k, r = s
      return k + 1, jnp.maximum(r, jnp.outer(r[:, k], r[k]))
    return lax.while_loop(lambda s: s[0] < PLACES, by, (0, r.astype(jnp.int32)))[1] > 0
  return f, roads()
