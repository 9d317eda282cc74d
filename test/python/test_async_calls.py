"""Calls that jax.experimental.compute_on gives to the host: they run beside what follows, on a thread of their own, and results are those of the same functions
in place."""

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

host = compute_on("device_host")
x, y = (jnp.asarray(np.random.default_rng(k).standard_normal((200, 200)) / 14, jnp.float32) for k in range(2))
away = jax.jit(lambda x, y: (step(x, y, host(jax.jit(chain)), host(jax.jit(scanned))), looped(x, host(jax.jit(chain)))))
here = jax.jit(lambda x, y: (step(x, y, chain, scanned), looped(x, chain)))
worst = 0
for _ in range(10):
    for a, b in zip(jax.tree.leaves(away(x, y)), jax.tree.leaves(here(x, y))):
        worst = max(worst, float(jnp.abs(a - b).max()))
print(json.dumps({"worst": worst}))
"""


@pytest.mark.parametrize("threads", [1, 3])
def test_compute_on_the_host(tmp_path, threads):
    done = weft_jax.run(CODE, JAX_PLATFORMS="weft", WEFT_CACHE="0", WEFT_THREADS=threads, WEFT_DUMP=tmp_path)
    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads(done.stdout)["worst"] < 1e-5
    programs = [p.read_text() for p in tmp_path.rglob("program.txt")]
    lists = sum(p.count(': steps thread "host"') for p in programs)
    assert lists == sum(p.count(": wait ") for p in programs) == 3
