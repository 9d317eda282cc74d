"""Sums of equal f32 terms in many spellings, each against the exact result: prints what is off by more than 1e-6, and a
hash of all bits. `sum_cases.py SIZE... [NAME...] [--exact] [--all]`: of cases whose names hold, or are, the given ones;
`--all` prints what is fine, too. A process of its own for test_sums.py."""

import hashlib
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

BOUND = 1e-6
VALUES = (0.1, 0.3, 1.9999)
CASES = []


def case(f):
    CASES.append(f)
    return f


def near_square(n):
    rows = max(1, int(n**0.5) // 4)
    return rows, n // rows


# Arguments are made when they are needed: of many terms there is room for one case at a time.
def full(value, *shape, dtype=jnp.float32):
    return lambda: jnp.full(shape, value, dtype)


def one(*shape):
    return full(1, *shape)


class Steps:
    """v, 2v, ... nv, or backwards, a piece at a time."""

    def __init__(self, v, n, reverse=False):
        self.v, self.n, self.reverse = v, n, reverse

    def __getitem__(self, piece):
        steps = np.arange(piece.start + 1, min(piece.stop, self.n) + 1)
        return self.v * (self.n + 1 - steps if self.reverse else steps)


def how_far_off(got, exact):
    got, worst, piece = got.reshape(-1), 0.0, 10_000_000
    for at in range(0, got.size, piece):
        want = exact[at:at + piece] if isinstance(exact, Steps) or exact.ndim else exact
        off = np.abs(got[at:at + piece] - want) / np.where(want == 0, np.inf, np.abs(want))
        worst = max(worst, float(np.max(off)) if not np.isnan(off).any() else np.inf)
    return worst


# Every case gives (name, function, arguments, exact result) for n terms of a value; v is the f32 as an f64.


@case
def sums(n, x, v):
    yield "sum", jnp.sum, (full(x, n),), n * v
    yield "mean", jnp.mean, (full(x, n),), v
    yield "sum of squares", lambda a: jnp.sum(a * a), (full(x, n),), n * v * v
    yield "norm", jnp.linalg.norm, (full(x, n),), (n * v * v) ** 0.5
    yield "sum of every other", lambda a: jnp.sum(a[::2]), (full(x, n),), (n + 1) // 2 * v
    yield "sum backwards", lambda a: jnp.sum(a[::-1] * 2), (full(x, n),), 2 * n * v
    yield "sum and greatest", lambda a: jnp.sum(a) + jnp.max(a) * 0, (full(x, n),), n * v
    yield "two sums", lambda a: jnp.stack([jnp.sum(a), jnp.sum(a * 2)]), (full(x, n),), np.array([n * v, 2 * n * v])
    yield "sum from a value", lambda a: lax.reduce(a, jnp.float32(5), lax.add, (0,)), (full(x, n),), 5 + n * v
    yield "average", lambda a: jnp.average(a, weights=a), (full(x, n),), v
    yield "sum of f64", jnp.sum, (full(v, n, dtype=jnp.float64),), n * v
    yield "logsumexp", lambda a: jax.nn.logsumexp(a) - a[0], (full(x, n),), np.log(n)
    yield "softmax", lambda a: jax.nn.softmax(a), (full(x, n),), 1 / n
    yield "standard deviation", lambda a: jnp.std(a * jnp.array([1, -1], jnp.float32)[jnp.arange(a.size) % 2]), (full(x, n // 2 * 2),), v
    yield "complex", lambda a: jnp.real(jnp.sum(lax.complex(a, -a))), (full(x, n),), n * v


@case
def rows_and_columns(n, x, v):
    r, c = near_square(n)
    for rows, columns in ((r, c), (c, r), (3, n // 3), (n // 3, 3), (n // 7, 7), (8, n // 8), (n // 40, 40)):
        a = (full(x, rows, columns),)
        shape = f" {rows}x{columns}"
        yield ("columns of three" if columns == 3 else "columns" + shape), lambda a: jnp.sum(a, 0), a, np.full(columns, rows * v)
        yield "rows" + shape, lambda a: jnp.sum(a, 1), a, np.full(rows, columns * v)
        yield "all" + shape, jnp.sum, a, rows * columns * v
        yield "rows of the transpose" + shape, lambda a: jnp.sum(a.T * 2, 1), a, np.full(columns, 2 * rows * v)
        yield "columns, two" + shape, lambda a: jnp.sum(a, 0) + jnp.max(a, 0) * 0, a, np.full(columns, rows * v)
        yield "columns of complex" + shape, lambda a: jnp.imag(jnp.sum(lax.complex(a, a), 0)), a, np.full(columns, rows * v)
        yield "softmax of rows" + shape, lambda a: jax.nn.softmax(a, -1), a, np.full((rows, columns), 1 / columns)
        yield "centred rows" + shape, lambda a: jnp.mean(a, 1, keepdims=True) + 0 * a, a, np.full((rows, columns), v)
        yield "centred columns" + shape, lambda a: jnp.mean(a, 0, keepdims=True) + 0 * a, a, np.full((rows, columns), v)


@case
def several_dimensions(n, x, v):
    for shape in ((n // 35, 5, 7), (5, n // 35, 7), (5, 7, n // 35), (n // 64, 8, 8), (8, n // 640, 80)):
        a = (full(x, *shape),)
        for axes in ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)):
            terms = int(np.prod([shape[d] for d in axes]))
            kept = tuple(s for d, s in enumerate(shape) if d not in axes)
            yield f"{axes} of {shape}", lambda a, axes=axes: jnp.sum(a, axes), a, np.full(kept, terms * v)


@case
def running_sums(n, x, v):
    r, c = near_square(n)
    steps = lambda k: v * np.arange(1, k + 1)
    all_steps = Steps(v, n)
    yield "cumsum", jnp.cumsum, (full(x, n),), all_steps
    yield "cumsum backwards", lambda a: lax.cumsum(a, reverse=True), (full(x, n),), Steps(v, n, reverse=True)
    yield "cumsum of a product", lambda a: jnp.cumsum(a * 2) * 0.5, (full(x, n),), all_steps
    yield "cumsum of complex", lambda a: jnp.real(jnp.cumsum(lax.complex(a, a))), (full(x, n),), all_steps
    yield "associative scan", lambda a: lax.associative_scan(jnp.add, a), (full(x, n),), all_steps
    for rows, columns in ((r, c), (c, r), (n // 3, 3), (3, n // 3)):
        a = (full(x, rows, columns),)
        shape = f" {rows}x{columns}"
        for reverse in (False, True):
            turn = lambda s, reverse=reverse: s[::-1] if reverse else s
            name = " backwards" if reverse else ""
            yield f"cumsum of columns{name}{shape}", lambda a, b=reverse: lax.cumsum(a, 0, reverse=b), a, np.broadcast_to(turn(steps(rows))[:, None], (rows, columns))
            yield f"cumsum of rows{name}{shape}", lambda a, b=reverse: lax.cumsum(a, 1, reverse=b), a, np.broadcast_to(turn(steps(columns)), (rows, columns))


@case
def windows(n, x, v):
    k = min(n // 2, 20_001)
    a = (full(x, k + 9),)
    yield "window", lambda a: lax.reduce_window(a, 0.0, lax.add, (k,), (1,), "valid"), a, np.full(10, k * v)
    yield "window of columns", lambda a: lax.reduce_window(a, 0.0, lax.add, (k, 1), (3, 1), "valid"), (full(x, k + 9, 5),), np.full((4, 5), k * v)
    yield "stretches", lambda a: jnp.sum(a.reshape(-1, 100), 1), (full(x, n // 100 * 100),), np.full(n // 100, 100 * v)


@case
def products(n, x, v):
    yield "dot", jnp.dot, (full(x, n), one(n)), n * v
    yield "vdot", jnp.vdot, (one(n), full(x, n)), n * v
    yield "square", lambda a: jnp.dot(a, a), (full(x, n),), n * v * v
    yield "dot of complex", lambda a, b: jnp.real(jnp.vdot(lax.complex(a, a), lax.complex(b, b))), (full(x, n), one(n)), 2 * n * v
    yield "einsum", lambda a, b: jnp.einsum("i,i->", a, b), (full(x, n), one(n)), n * v
    yield "dot of bf16", lambda a, b: jnp.dot(a.astype(jnp.bfloat16), b.astype(jnp.bfloat16), preferred_element_type=jnp.float32), (full(0.75, n), one(n)), n * 0.75
    for m, k in ((3, n // 3), (8, n // 8), (33, n // 33), near_square(n), near_square(n)[::-1]):
        exact = np.full(m, k * v)
        yield f"matrix by vector {m}x{k}", jnp.matmul, (full(x, m, k), one(k)), exact
        yield f"vector by matrix {k}x{m}", jnp.matmul, (one(k), full(x, k, m)), exact
        yield f"transpose by vector {k}x{m}", lambda a, b: a.T @ b, (full(x, k, m), one(k)), exact
    for m, k, c in ((2, n // 5, 3), (4, n // 20, 16), (20, n // 40, 20), (40, n // 200, 160), (70, n // 150, 80), (1, n // 40, 39), (130, n // 400, 270)):
        exact = np.full((m, c), k * v)
        size = f" {m}x{k}x{c}"
        yield "product" + size, jnp.matmul, (full(x, m, k), one(k, c)), exact
        yield "product of transposes" + size, lambda a, b: a.T @ b.T, (full(x, k, m), one(c, k)), exact
        yield "tall product" + size, lambda a, b: a.T @ b, (full(x, k, m), one(k, c)), exact
        yield "wide product" + size, lambda a, b: a @ b.T, (full(x, m, k), one(c, k)), exact
        yield "product and bias" + size, lambda a, b: jax.nn.relu(a @ b + 1), (full(x, m, k), one(k, c)), exact + 1
    k = n // 60
    yield "batch of products", lambda a, b: jnp.einsum("bik,bkj->bij", a, b), (full(x, 3, 4, k), one(3, k, 5)), np.full((3, 4, 5), k * v)
    yield "batch of dots", lambda a, b: jnp.einsum("bk,bk->b", a, b), (full(x, 30, k), one(30, k)), np.full(30, k * v)
    yield "product of complex", lambda a, b: jnp.real(lax.complex(a, a) @ lax.complex(b, 0 * b)), (full(x, 4, k), one(k, 6)), np.full((4, 6), k * v)


@case
def convolutions(n, x, v):
    k = min(n // 8, 50_000)
    yield "convolution", lambda a, w: jnp.convolve(a, w, "valid"), (full(x, k + 20), one(k)), np.full(21, k * v)
    nhwc = lambda a, w, g=1: lax.conv_general_dilated(a, w, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=g)
    side = int((k / 8) ** 0.5) + 1
    terms = side * side
    yield "convolution of images", nhwc, (full(x, 1, side + 2, side + 2, 8), one(side, side, 8, 4)), np.full((1, 3, 3, 4), 8 * terms * v)
    yield "convolution by features", lambda a, w: nhwc(a, w, 8), (full(x, 1, side + 2, side + 2, 8), one(side, side, 1, 8)), np.full((1, 3, 3, 8), terms * v)
    images = max(1, n // (64 * 64 * 4))
    loss = lambda w, a: jnp.sum(nhwc(a, w))
    yield "gradient of filters", jax.grad(loss), (one(3, 3, 4, 4), full(x, images, 64, 64, 4)), np.full((3, 3, 4, 4), images * 62 * 62 * v)


@case
def scatters(n, x, v):
    for bins in (1, 10, 300, 4096):
        turns = lambda k, b=bins: lambda: jnp.arange(k, dtype=jnp.int32) % b
        count = lambda k, b=bins: k // b + (np.arange(b) < k % b)
        first = full(0, n, dtype=jnp.int32)
        for index, exact, name in ((turns(n), count(n) * v, ""), (first, np.eye(1, bins)[0] * n * v, " in one")):
            yield f"scatter {bins}{name}", lambda a, i, b=bins: jnp.zeros(b, jnp.float32).at[i].add(a), (full(x, n), index), exact
            yield f"segment_sum {bins}{name}", lambda a, i, b=bins: jax.ops.segment_sum(a, i, b), (full(x, n), index), exact
            yield f"bincount {bins}{name}", lambda a, i, b=bins: jnp.bincount(i, weights=a, length=b), (full(x, n), index), exact
        rows = n // 8
        yield f"scatter of rows {bins}", lambda a, i, b=bins: jnp.zeros((b, 8), jnp.float32).at[i].add(a), (full(x, rows, 8), turns(rows)), count(rows)[:, None] * np.full((1, 8), v)
        if bins <= 300:
            rows = n // 128
            yield f"scatter of long rows {bins}", lambda a, i, b=bins: jnp.ones((b, 128), jnp.float32).at[i].add(a), (full(x, rows, 128), turns(rows)), 1 + count(rows)[:, None] * np.full((1, 128), v)
    yield "histogram", lambda a: jnp.histogram(a, bins=10, range=(0.0, 2.0), weights=a)[0].sum(), (full(x, n),), n * v


@case
def in_loops(n, x, v):
    k = min(n, 100_003)
    yield "sum in a loop", lambda a: lax.fori_loop(0, 3, lambda i, s: jnp.sum(a) + s * 0, 0.0), (full(x, k),), k * v
    yield "sum in a scan", lambda a: lax.scan(lambda s, r: (s, jnp.sum(r)), 0.0, a)[1], (full(x, 8, k // 8),), np.full(8, k // 8 * v)
    yield "column sum in a scan", lambda a: lax.scan(lambda s, r: (s, jnp.sum(r, 0)), 0.0, a)[1], (full(x, 4, k // 16, 4),), np.full((4, 4), k // 16 * v)
    yield "cumsum in a scan", lambda a: lax.scan(lambda s, r: (s, jnp.cumsum(r)), 0.0, a)[1], (full(x, 4, k // 4),), np.broadcast_to(v * np.arange(1, k // 4 + 1), (4, k // 4))
    yield "vmap of a sum", jax.vmap(jnp.sum), (full(x, 5, k // 5),), np.full(5, k // 5 * v)
    yield "dot in a loop", lambda a, b: lax.fori_loop(0, 2, lambda i, s: jnp.dot(a, b) + s * 0, 0.0), (full(x, k), one(k)), k * v


def check(f, arguments, exact):
    """The result and how far it is off."""
    got = np.asarray(f(*[make() for make in arguments]))
    if not isinstance(exact, Steps):
        exact = np.asarray(exact, np.float64)
        assert not exact.ndim or got.shape == exact.shape, (got.shape, exact.shape)
        exact = exact.reshape(-1) if exact.ndim else exact
    return got, how_far_off(got, exact)


def run(size, wanted, everything):
    digest, worst = hashlib.sha256(), 0.0
    for group in CASES:
        # The terms are arguments: a case is compiled once for all values.
        for cases in zip(*(group(size, value, float(np.float32(value))) for value in VALUES)):
            if not wanted(cases[0][0]):
                continue
            f = jax.jit(cases[0][1])
            for value, (name, _, arguments, exact) in zip(VALUES, cases):
                got, off = check(f, arguments, exact)
                digest.update(np.ascontiguousarray(got))
                worst = max(worst, off)
                if not off <= BOUND or everything:
                    print(f"{'off' if not off <= BOUND else 'fine'} {off:.1e} {name}, {size} of {value}", flush=True)
    print(f"worst {worst:.1e} bits {digest.hexdigest()[:16]} size {size}", flush=True)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    words = sys.argv[1:]
    names = [w for w in words if not w.isdigit() and not w.startswith("--")]

    def wanted(name):
        return not names or any(w == name if "--exact" in words else w in name for w in names)

    for word in words:
        if word.isdigit():
            run(int(word), wanted, "--all" in words)
