"""Loops in loops and branches, as libraries that differentiate loops build them, compared with NumPy."""

import os
import sys

import pytest
import weft_jax

if not weft_jax.LIBRARY.exists():
    pytest.skip("the plugin is not built", allow_module_level=True)
os.environ.update(JAX_PLATFORMS="weft", WEFT_LIBRARY=str(weft_jax.LIBRARY))
sys.path.insert(0, str(weft_jax.ROOT / "python"))
pytest.importorskip("jax")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402


@pytest.fixture(autouse=True, scope="module")
def on_weft():
    assert jax.default_backend() == "weft"


def step(x, a):
    return jnp.sin(x) * a + jnp.roll(x, 1) * 0.25


def checkpointed(slots, most):
    """x after n steps, n known at run time. The gradient keeps `slots` states and computes the others anew.

    The backward loop stands at a step, with a stack of states before it. Where the top is one step before, that step is
    differentiated; else the inner loop goes on from the top, to the middle while there is room for one more state.
    """

    def forward(x, a, n):
        return lax.while_loop(lambda s: s[0] < jnp.minimum(n, most), lambda s: (s[0] + 1, step(s[1], a)), (0, x))[1]

    @jax.custom_vjp
    def loop(x, a, n):
        return forward(x, a, n)

    def save(x, a, n):
        return forward(x, a, n), (x, a, n)

    def back(saved, given):
        x, a, n = saved
        n = jnp.minimum(n, most)
        places = jnp.full(slots, 2**31 - 1, jnp.int32).at[0].set(0)
        kept = jnp.zeros((slots,) + x.shape, x.dtype).at[0].set(x)

        def advance(state):
            at, slot, places, kept, d_x, d_a = state
            top = places[slot]
            distance = at - top
            is_last = slot + 1 == slots
            middle = jnp.where(distance < 3, top + 1, top + (distance >> 1))
            target = jnp.where(is_last | (middle >= at), at - 1, middle)
            target = jnp.where(target < top, top, jnp.where(is_last, jnp.maximum(target, at - 1), target))
            _, y = lax.while_loop(lambda s: s[0] < target, lambda s: (s[0] + 1, step(s[1], a)), (top, kept[slot]))

            def differentiate(_):
                more_x, more_a = jax.vjp(step, y, a)[1](d_x)
                down = jnp.where((target == top) & (slot > 0), slot - 1, slot)
                return at - 1, down, places, kept, more_x, d_a + more_a

            def push(_):
                return at, slot + 1, places.at[slot + 1].set(target), kept.at[slot + 1].set(y), d_x, d_a

            return lax.cond(target + 1 == at, differentiate, push, None)

        state = (n, jnp.int32(0), places, kept, given, jnp.zeros_like(a))
        state = lax.while_loop(lambda s: s[0] > 0, advance, state)
        return state[4], state[5], np.zeros((), jax.dtypes.float0)

    loop.defvjp(save, back)
    return loop


def reference(x, a, n):
    """The sum of the last state, and its gradient, in float64."""
    states = [np.asarray(x, np.float64)]
    for _ in range(n):
        states.append(np.sin(states[-1]) * a + np.roll(states[-1], 1) * 0.25)
    d_x, d_a = np.ones_like(states[-1]), 0.0
    for y in reversed(states[:-1]):
        d_a += np.sum(d_x * np.sin(y))
        d_x = d_x * np.cos(y) * a + np.roll(d_x, -1) * 0.25
    return np.sum(states[-1]), d_x, d_a


@pytest.mark.parametrize("slots", [1, 2, 5])
def test_gradient_of_a_checkpointed_loop(slots):
    loop = checkpointed(slots, most=20)
    gradient = jax.jit(jax.value_and_grad(lambda x, a, n: jnp.sum(loop(x, a, n)), argnums=(0, 1)))
    x, a = np.linspace(-1, 1, 3, dtype=np.float32), np.float32(0.9)
    for n in (0, 1, 2, 7, 20):
        value, (d_x, d_a) = gradient(x, a, n)
        expected = reference(x, a, n)
        for actual, right in zip((value, d_x, d_a), expected):
            np.testing.assert_allclose(actual, right, rtol=2e-5, atol=2e-6, err_msg=f"{n} steps")


def test_gradient_of_checkpointed_loops_in_a_scan():
    """Of several lengths, in a scan that is differentiated in turn; and all of them at once."""
    loop = checkpointed(3, most=9)
    lengths = np.array([0, 4, 1, 9], np.int32)
    x, a = np.linspace(-1, 1, 3, dtype=np.float32), np.float32(0.9)

    @jax.jit
    def scanned(x, a):
        def total(x, a):
            return jnp.sum(lax.scan(lambda x, n: (loop(x, a, n), None), x, lengths)[0])
        return jax.grad(total, argnums=(0, 1))(x, a)

    _, d_x, d_a = reference(x, a, int(lengths.sum()))
    actual = scanned(x, a)
    np.testing.assert_allclose(actual[0], d_x, rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(actual[1], d_a, rtol=2e-5, atol=2e-6)

    at_once = jax.jit(jax.vmap(jax.grad(lambda a, n: jnp.sum(loop(x, a, n))), in_axes=(None, 0)))(a, lengths)
    np.testing.assert_allclose(at_once, [reference(x, a, n)[2] for n in lengths], rtol=2e-5, atol=2e-6)


def test_bounds_and_places_depend_on_the_outer_counter():
    """A triangle filled row by row, upwards and downwards; loops of no round among them."""

    def fill(n):
        def row(i, table):
            def up(s):
                j, t = s
                return j + 1, t.at[i, jnp.where(j < 0, j + 6, j)].add(i * 10 + j)

            def down(s):
                j, t = s
                return j - 1, t.at[i - 1 - j, 5 - j].multiply(2)

            table = lax.while_loop(lambda s: s[0] < i, up, (0, table))[1]
            return lax.while_loop(lambda s: (s[0] >= 0) & (i % 2 == 1), down, (i - 1, table))[1]
        return lax.fori_loop(0, n, row, jnp.ones((6, 6), jnp.int32))

    for n in (0, 1, 6):
        expected = np.ones((6, 6), np.int32)
        for i in range(n):
            for j in range(i):
                expected[i, j] += i * 10 + j
            for j in range(i - 1, -1, -1):
                if i % 2 == 1:
                    expected[i - 1 - j, 5 - j] *= 2
        np.testing.assert_array_equal(jax.jit(fill)(n), expected)


def test_loops_in_branches_in_loops():
    """What a branch hands on as it is, what only the other one reads, and elements that are the same."""

    def run(x, n):
        def body(s):
            i, p, q, same, fixed, log = s

            def even(s):
                p, q, same, log = s
                k, p = lax.while_loop(lambda t: t[0] < i, lambda t: (t[0] + 2, t[1] + fixed[t[0]]), (0, p))
                return p, q, same, log.at[i].set(k)

            def odd(s):
                p, q, same, log = s
                return q, p, same + 1, log.at[-1 - i].add(same)

            p, q, same, log = lax.cond(i % 2 == 0, even, odd, (p, q, same, log))
            return i + 1, p, q, same, fixed, log
        same = jnp.int32(3)
        return lax.while_loop(lambda s: (s[0] < n) & (s[3] < 6), body,
                              (0, x[0], x[0], same, x, jnp.zeros(8, jnp.int32)))

    def reference(x, n):
        i, p, q, same, log = 0, x[0], x[0], 3, np.zeros(8, np.int32)
        while i < n and same < 6:
            if i % 2 == 0:
                k = 0
                while k < i:
                    p, k = p + x[k], k + 2
                log[i] = k
            else:
                p, q, same = q, p, same + 1
                log[-1 - i] += same - 1
            i += 1
        return i, p, q, same, x, log

    x = np.arange(8, dtype=np.float32) - 2
    for n in (0, 1, 5, 8):
        for actual, expected in zip(jax.jit(run)(x, n), reference(x, n)):
            np.testing.assert_array_equal(actual, expected)


def test_numbers_that_choose_each_other():
    """Selects of sums whose conditions are made of selects: what holds in one holds in those inside it."""

    def run(first, last, slots):
        def body(s):
            i, low, high, table = s
            before = jnp.where(low < high, low, high)
            near = jnp.where(before < i, jnp.where(low <= high, high - low, i), i - before)
            step = jnp.where(near == last, 2**31 - 1, jnp.where(near >= 0, near, -near))
            place = jnp.clip(jnp.where(step < slots, step, slots - 1), 0, slots - 1)
            return i + 1, jnp.where(step > i, low + 1, low), jnp.where(near > 2, high - 1, high), table.at[place].add(1)
        return lax.while_loop(lambda s: s[0] < last, body, (first, first, last, jnp.zeros(slots, jnp.int32)))[3]

    def reference(first, last, slots):
        low, high, table = first, last, np.zeros(slots, np.int32)
        for i in range(first, last):
            before = min(low, high)
            near = (high - low if low <= high else i) if before < i else i - before
            step = 2**31 - 1 if near == last else abs(near)
            table[min(max(step, 0), slots - 1)] += 1
            low, high = low + (step > i), high - (near > 2)
        return table

    for first, last in ((0, 0), (0, 1), (0, 9), (3, 12)):
        np.testing.assert_array_equal(jax.jit(run, static_argnums=2)(first, last, 5), reference(first, last, 5))
