"""Calls that jax.experimental.compute_on gives to the host or to a GPU's stream: they run beside what follows, on a thread or a stream of their own, and results are
those of the same functions in place."""

import json

import pytest
import weft_jax

if not weft_jax.LIBRARY.exists():
    pytest.skip("the plugin is not built", allow_module_level=True)
pytest.importorskip("jax")

CODE = """
import json
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.compute_on import compute_on

def chain(x):
    for _ in range(4):
        x = jnp.tanh(x @ x)
    return x, x.sum(0)

def scanned(x):
    return jax.lax.scan(lambda c, _: (jnp.sin(c @ x), c[0]), x, length=5)

def step(x, y, chain, scanned):
    a, sums = chain(x)
    c, rows = scanned(y)
    b = y
    for _ in range(4):
        b = jnp.cos(b @ y)
    return a + b, sums, c * b, rows

def looped(x, chain):
    return jax.lax.fori_loop(0, 3, lambda i, s: (chain(s[1])[0] + s[0], jnp.tanh(s[0] @ s[1])), (x, x.T))

host = compute_on("KIND")
x, y = (jnp.asarray(np.random.default_rng(k).standard_normal((200, 200)) / 14, jnp.float32) for k in range(2))
away = jax.jit(lambda x, y: (step(x, y, host(jax.jit(chain)), host(jax.jit(scanned))), looped(x, host(jax.jit(chain)))))
here = jax.jit(lambda x, y: (step(x, y, chain, scanned), looped(x, chain)))
worst = 0
for _ in range(10):
    for a, b in zip(jax.tree.leaves(away(x, y)), jax.tree.leaves(here(x, y))):
        worst = max(worst, float(jnp.abs(a - b).max()))
print(json.dumps({"worst": worst}))
"""


def worst_and_lists(tmp_path, kind, thread, **variables):
    done = weft_jax.run(CODE.replace("KIND", kind), JAX_PLATFORMS="weft", WEFT_CACHE="0", WEFT_DUMP=tmp_path, **variables)
    assert done.returncode == 0, done.stderr[-4000:]
    programs = [p.read_text() for p in tmp_path.rglob("program.txt")]
    lists = sum(p.count(f': steps thread "{thread}"') for p in programs)
    assert lists == sum(p.count(": wait ") for p in programs)
    return json.loads(done.stdout)["worst"], lists


@pytest.mark.parametrize("threads", [1, 3])
def test_compute_on_the_host(tmp_path, threads):
    worst, lists = worst_and_lists(tmp_path, "device_host", "host", WEFT_THREADS=threads)
    assert worst < 1e-5
    assert lists == 3


@pytest.mark.parametrize("kind, thread", [("device_host", "host"), ("gpu_stream:1", "parallel")])
def test_compute_on_a_stream(tmp_path, kind, thread):
    worst, lists = worst_and_lists(tmp_path, kind, thread, WEFT_PLATFORM="pretend")
    assert worst < 1e-5
    assert lists == 3
