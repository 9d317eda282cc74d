"""Which copies compiled programs make: how many arrays of a kilobyte or more are copied in each of these programs, and
whether the results are those that JAX's own CPU backend has op by op.

A copy is a step of the program that moves a value from one buffer to another; WEFT_DEBUG=copies=3 prints a line for each.
"""

import json

import pytest

pytest.importorskip("jax", reason="jax is not installed: run ./dev test")

from weft_jax import LIBRARY, run  # noqa: E402

if not LIBRARY.exists():
    pytest.skip("the plugin is not built", allow_module_level=True)

# Name: (copies of a kilobyte and more, donated arguments, arguments, function).
# X: f32[192,192]; V: f32[192]; I: 100 as an s32; P: 50 arrays.
CASES = """
update_one                0 [0]     [X]     lambda x: x.at[0, 0].add(1.)
update_and_read           0 [0]     [X]     lambda x: (x.at[0, 0].add(1.), x[0, 0])
update_and_read_later     0 [0]     [X]     lambda x: (x.at[0, 0].add(1.), x[3, 3] * 2)
update_in_loop            0 [0]     [X]     lambda x: lax.fori_loop(0, 100, lambda i, x: x.at[i, 0].add(1.), x)
update_in_while           0 [0]     [X, I]  lambda x, n: lax.fori_loop(0, n, lambda i, x: x.at[i, 0].add(1.), x)
update_kept_argument      1 []      [X]     lambda x: x.at[0, 0].add(1.)
while_where               0 [0]     [X, I]  lambda x, n: lax.fori_loop(0, n, lambda i, x: jnp.where(i % 2 == 0, x.at[i, 0].add(1.), x), x)
while_where_slice         0 [0]     [X, I]  lambda x, n: lax.fori_loop(0, n, lambda i, x: jnp.where(i % 2 == 0, lax.dynamic_update_slice(x, jnp.sin(x[:1]), (i, 0)), x), x)
while_cond                0 [0]     [X, I]  lambda x, n: lax.fori_loop(0, n, lambda i, x: lax.cond(i % 2 == 0, lambda x: x.at[i, 0].add(1.), lambda x: x, x), x)
while_cond_both           0 [0]     [X, I]  lambda x, n: lax.fori_loop(0, n, lambda i, x: lax.cond(i % 2 == 0, lambda x: x.at[i, 0].add(1.), lambda x: x.at[i].set(jnp.sin(x[i])), x), x)
cond_alone                0 [0]     [X, I]  lambda x, n: lax.cond(n > 3, lambda x: x.at[n, 0].add(1.), lambda x: x, x)
cond_read_later           0 [0]     [X, I]  lambda x, n: (lax.cond(n > 3, lambda x: x.at[n, 0].add(1.), lambda x: x, x), x * 2)
switch                    0 [0]     [X, I]  lambda x, n: lax.switch(n % 3, [lambda x: x.at[n, 0].add(1.), lambda x: jnp.sin(x), lambda x: x], x)
cond_in_cond              0 [0]     [X, I]  lambda x, n: lax.cond(n > 3, lambda x: lax.cond(n > 5, lambda x: x.at[n].set(0.), lambda x: x.at[1, n].add(3.), x), lambda x: x.at[2].set(9.), x)
nested_while              0 [0]     [X, I]  lambda x, n: lax.fori_loop(0, n, lambda i, x: lax.fori_loop(0, n, lambda j, x: x.at[i, j].add(1.), x), x)
while_in_cond             0 [0]     [X, I]  lambda x, n: lax.cond(n > 3, lambda x: lax.fori_loop(0, n, lambda j, x: x.at[j, j].add(1.), x), lambda x: x, x)
trade_places              0 [0, 1]  [X, X]  lambda a, b: (b, a)
go_round                  0 [0,1,2] [X, X, X] lambda a, b, c: (b, c, a)
trade_and_change          0 [0, 1]  [X, X]  lambda a, b: (b + 1, a * 2)
trade_in_loop             0 [0, 1]  [X, X]  lambda a, b: lax.fori_loop(0, 10, lambda i, c: (c[1], c[0] + 1), (a, b))
trade_in_odd_loop         0 [0, 1]  [X, X]  lambda a, b: lax.fori_loop(0, 11, lambda i, c: (c[1], c[0] + 1), (a, b))
leapfrog                  0 [0, 1]  [X, X]  lambda a, b: lax.fori_loop(0, 10, lambda i, c: (c[1], c[1] * 1.5 - c[0] * .5 + .1 * jnp.roll(c[1], 1, 0)), (a, b))
scan                      0 []      [X]     lambda x: lax.scan(lambda c, v: (c * .5 + v, c + v), x[0], x)
scan_of_matrices          1 []      [X]     lambda x: lax.scan(lambda c, v: (c @ x * .01, c[0] + v), x, x)
scan_gradient             0 []      [X]     jax.grad(lambda x: lax.scan(lambda c, v: (jnp.sin(c) * .5 + v, jnp.cos(c)), x[0], x)[1].sum())
scan_gradient_matmul      0 []      [X]     jax.grad(lambda w: lax.scan(lambda c, v: (jnp.tanh(c @ w * .01) + v, c), w[0], w)[1].sum())
scan_remat                0 []      [X]     jax.grad(lambda x: lax.scan(jax.checkpoint(lambda c, v: (jnp.sin(c) * v, None)), x[0], x)[0].sum())
map                       0 []      [X]     lambda x: lax.map(lambda r: jnp.sin(r) * r.sum(), x)
chain_of_updates          0 [0]     [X]     lambda x: functools.reduce(lambda x, i: x.at[i].set(float(i)).at[:, i].multiply(2.), range(6), x)
scatters                  0 [0]     [X, I]  lambda x, n: x.at[jnp.arange(16) * 3 + n % 5].add(1.).at[jnp.arange(7) + n % 5, 0].set(3.)
two_arrays                0 [0]     [X, I]  lambda x, n: lax.fori_loop(0, n, lambda i, c: (c[0].at[i].set(c[1][i]), c[1].at[i].add(c[0][i])), (x, x * 2))
cache_of_rows             0 [0]     [X]     lambda x: lax.scan(lambda x, i: ((y := lax.dynamic_update_slice(x, (x[i] * 2)[None], (i, 0))), y.sum()), x, jnp.arange(16))
row_from_row              0 [0]     [X, I]  lambda x, n: x.at[n].set(jnp.sin(x[n - 1]))
exp_then_loop             0 [0]     [X]     lambda x: (lambda y: y + lax.fori_loop(0, 8, lambda i, s: s + y[i * 8, 0], 0.))(jnp.exp(x))
shifted_rows              0 [0]     [X]     lambda x: x.at[1:].set(x[:-1])
shifted_rows_kept         0 []      [X]     lambda x: x.at[1:].set(x[:-1])
shifted_sum               0 []      [X]     lambda x: (lambda b: b.at[1:].set(b[:-1]).reshape((1,) + b.shape))(x + 1)
shifted_in_loop           0 [0]     [X]     lambda x: lax.fori_loop(0, 6, lambda i, x: x.at[1:].set(x[:-1]), x)
rolled_in_loop            0 [0]     [X]     lambda x: lax.fori_loop(0, 6, lambda i, x: jnp.roll(x, 1, 0), x)
sorted_in_loop            0 [0]     [X]     lambda x: lax.fori_loop(0, 4, lambda i, x: jnp.sort(x + jnp.float32(i), axis=0)[::-1], x)
products_dynamic          0 [0]     [X, I]  lambda x, n: lax.fori_loop(0, n // 30, lambda i, y: jnp.sort(y @ (y * .01), 1), x)
matrix_power              0 []      [X]     lambda x: lax.fori_loop(0, 4, lambda i, y: y @ x * .1, x + 1)
matrix_power_dynamic      0 []      [X, I]  lambda x, n: lax.fori_loop(0, n // 20, lambda i, y: y @ x * .1, x + 1)
matrix_power_odd          0 []      [X, I]  lambda x, n: lax.fori_loop(0, n // 30, lambda i, y: y @ x * .1, x + 1)
adam                      0 [0,1,2] [P, P, P, P] adam
twice_the_same_result     1 [0]     [X]     lambda x: (x + 1, x + 1)
"""

CODE = """
import functools, json, sys
import jax, jax.numpy as jnp, numpy as np
from jax import lax
def adam(p, m, v, g):
    m = [.9 * a + .1 * b for a, b in zip(m, g)]
    v = [.99 * a + .01 * b * b for a, b in zip(v, g)]
    return [a - 1e-3 * b / (jnp.sqrt(abs(c)) + 1e-8) for a, b, c in zip(p, m, v)], m, v
random = np.random.default_rng(0)
def arguments(names):
    make = {'X': lambda: random.standard_normal((192, 192), np.float32), 'I': lambda: np.int32(100),
            'P': lambda: [random.standard_normal((16, 64), np.float32) for _ in range(50)]}
    return [make[n]() for n in names]
weft, cpu = jax.devices()[0], jax.devices('cpu')[0]
assert weft.platform != 'cpu'
for name, donated, names, text in json.loads(sys.stdin.readline() if CASES is None else CASES):
    function = eval(text)
    values = arguments(names)
    print('case', name, file=sys.stderr, flush=True)
    got = jax.jit(function, donate_argnums=donated)(*jax.device_put(values, weft))
    jax.block_until_ready(got)
    print('case -', file=sys.stderr, flush=True)
    want = function(*jax.device_put(values, cpu))  # op by op
    close = jax.tree.map(lambda a, b: bool(np.allclose(a, b, rtol=2e-4, atol=2e-4)), jax.device_get(got), jax.device_get(want))
    print(json.dumps([name, all(jax.tree.leaves(close))]), flush=True)
"""


def cases():
    for line in CASES.strip().splitlines():
        name, copies, rest = line.split(None, 2)
        donated, rest = rest[: rest.index("]") + 1], rest[rest.index("]") + 1:].strip()
        names, text = rest[1: rest.index("]")], rest[rest.index("]") + 1:].strip()
        yield name, int(copies), json.loads(donated), [n.strip() for n in names.split(",")], text


@pytest.fixture(scope="module")
def found():
    """By name: the copies' lines, and whether the results are right."""
    text = json.dumps([(name, donated, names, code) for name, _, donated, names, code in cases()])
    done = run(f"CASES = {text!r}\n" + CODE, timeout=900, JAX_PLATFORMS="weft,cpu", WEFT_CACHE="0", WEFT_DEBUG="copies=3")
    right = {name: ok for name, ok in map(json.loads, done.stdout.splitlines())}
    lines, now = {}, None
    for line in done.stderr.splitlines():
        if line.startswith("case "):
            now = line.split()[1]
            lines.setdefault(now, [])
        elif "copy of " in line and now:
            lines[now].append(line)
    assert done.returncode == 0, done.stderr[-3000:]
    return lines, right


@pytest.mark.parametrize("name,copies", [(c[0], c[1]) for c in cases()])
def test_copies(found, name, copies):
    lines, right = found
    large = [line for line in lines[name] if int(line.split("copy of ")[1].split()[0]) >= 1024]
    assert right[name], "wrong results"
    assert len(large) == copies, "\n".join(large)


def test_every_copy_has_a_reason(found):
    for lines in found[0].values():
        for line in lines:
            where, reason = line.split("copy of ")[1].split(": ", 1)
            assert " at " in where and len(reason) > 10, line


def test_an_update_from_the_array_itself():
    """Updates whose values are slices of the array that they go into, by NumPy."""
    code = """
import jax, jax.numpy as jnp, numpy as np
from jax import lax
x = np.arange(4, dtype=np.int32).reshape(4, 1, 1)
f = lambda x: lax.dynamic_update_slice(x + 1, (x + 1)[:3], (1, 0, 0)).reshape((1, 4, 1))
assert np.asarray(jax.jit(f)(x)).ravel().tolist() == [1, 1, 2, 3]
for shape in ((8, 16), (300, 33)):
    x = np.random.default_rng(0).integers(0, 99, shape, np.int32)
    for donate in ((), 0):
        for step in (1, 3):
            down = jax.jit(lambda x: x.at[step:].set(x[:-step]), donate_argnums=donate)(jnp.array(x))
            assert (np.asarray(down) == np.concatenate([x[:step], x[:-step]])).all()
            up = jax.jit(lambda x: x.at[:-step].set(x[step:]).reshape((1,) + x.shape), donate_argnums=donate)(jnp.array(x))
            assert (np.asarray(up)[0] == np.concatenate([x[step:], x[-step:]])).all()
            few = jax.jit(lambda x: x.at[2:4].set(x[2 - step:4 - step] if step < 3 else x[5:7]), donate_argnums=donate)(jnp.array(x))
            want = x.copy()
            want[2:4] = x[2 - step:4 - step] if step < 3 else x[5:7]
            assert (np.asarray(few) == want).all()
            turned = jax.jit(lambda x: x.at[:3, :3].set(x[:3, :3].T), donate_argnums=donate)(jnp.array(x))
            want = x.copy()
            want[:3, :3] = x[:3, :3].T
            assert (np.asarray(turned) == want).all()
            rolled = jax.jit(lambda x: lax.fori_loop(0, 5, lambda i, y: y.at[1:].set(y[:-1]), x), donate_argnums=donate)(jnp.array(x))
            assert (np.asarray(rolled) == np.concatenate([x[:1]] * 5 + [x[:-5]])).all()
"""
    done = run(code, timeout=600, JAX_PLATFORMS="weft,cpu", WEFT_CACHE="0")
    assert done.returncode == 0, done.stderr
