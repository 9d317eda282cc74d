"""Seeing what the compiler does, through JAX: WEFT_DEBUG, WEFT_DUMP, WEFT_CHECK, memory, threads, fork."""

import os
import pathlib
import re
import subprocess

import pytest

pytest.importorskip("jax", reason="jax is not installed: run ./dev test")

from weft_jax import LIBRARY, run  # noqa: E402

if not LIBRARY.exists():
    pytest.skip("the plugin is not built", allow_module_level=True)

WEFT = LIBRARY.parent / "weft"
STEP = """
import jax, jax.numpy as jnp
def step(x, w):
    return jnp.tanh(x @ w) + 1
step = jax.jit(step)
"""


def weft(code, **variables):
    variables = {"JAX_PLATFORMS": "weft,cpu", "WEFT_CACHE": "0", **variables}
    return run(code, **variables)


def lines(done, start):
    assert done.returncode == 0, done.stderr
    return [line for line in done.stderr.splitlines() if line.startswith("weft: " + start)]


def test_one_line_for_each_compile(tmp_path):
    code = STEP + "step(jnp.ones((4, 8)), jnp.ones((8, 2)))\n"
    cold = lines(weft(code, WEFT_DEBUG=1, WEFT_CACHE=tmp_path / "c"), "compile jit_step")
    assert len(cold) == 1 and re.fullmatch(r"weft: compile jit_step: [1-9]\d* compiled, 0 from cache, \d+ ms", cold[0]), cold
    warm = lines(weft(code, WEFT_DEBUG=1, WEFT_CACHE=tmp_path / "c"), "compile jit_step")
    assert len(warm) == 1 and re.fullmatch(r"weft: compile jit_step: 0 compiled, [1-9]\d* from cache, \d+ ms", warm[0]), warm


def test_says_why_it_compiles_again(tmp_path):
    code = """
import jax, jax.numpy as jnp
from functools import partial
@partial(jax.jit, static_argnums=2)
def f(x, y, n):
    return x * n + y
a, b = jnp.ones(2), jnp.ones(2)
f(a, b, 1)
f(jnp.ones(3), jnp.ones(3), 1)
f(jnp.ones(3, jnp.int32), jnp.ones(3, jnp.int32), 1)
f(jnp.ones(3), 1.0, 1)
f(jnp.ones(3), 1.0, 2)
"""
    why = lines(weft(code, WEFT_DEBUG="cache=1", WEFT_CACHE=tmp_path), "cache jit_f")
    assert len(why) == 5
    for line, reason in zip(why, ["no program of the name jit_f", "argument 0 is f32[3], was f32[2]",
                                  "argument 0 is s32[3], was f32[3]", "argument 0 is f32[3], was s32[3]",
                                  "the number of operations is "]):
        assert reason in line, line
    again = lines(weft(code, WEFT_DEBUG="cache=1", WEFT_CACHE=tmp_path), "cache jit_f")
    assert all("hit" in line for line in again), again


def test_fallback_is_shown():
    code = """
import jax, jax.numpy as jnp
print(jax.jit(lambda x: x + 1)(jnp.ones(3)))
"""
    shown = lines(weft(code, WEFT_DEBUG=1, WEFT_OPTIONS="cpu.native=false"), "compile jit__lambda")
    assert len(shown) == 1 and "the evaluator runs it: cpu.native=false" in shown[0]


def test_a_line_for_each_step():
    code = STEP + "step(jnp.ones((64, 64)), jnp.ones((64, 64))).block_until_ready()\n"
    shown = lines(weft(code, WEFT_DEBUG="step=2"), "step jit_step")
    assert shown
    for line in shown:
        assert re.search(r"\d us .*GFLOP/s .*GB/s .*(%|-)", line), line
    assert any("<string>:4" in line for line in shown), shown
    assert lines(weft(code, WEFT_DEBUG="step=2"), "this machine: ")


def test_levels_three_and_four():
    code = STEP + "step(jnp.ones((4, 8)), jnp.ones((8, 2)))\n"
    done = weft(code, WEFT_DEBUG="pass=3,code=4")
    passes = lines(done, "pass ")
    assert any(re.fullmatch(r"weft: pass fuse jit_step: \d+ -> \d+ instructions, [\d.]+ ms", line) for line in passes), passes
    assert "weft: code jit_step program.txt:\nprogram jit_step" in done.stderr
    assert "define" in done.stderr


def test_dump_can_be_run_again(tmp_path):
    code = STEP + "step(jnp.ones((4, 8)), jnp.ones((8, 2)))\n"
    done = weft(code, WEFT_DUMP=tmp_path)
    assert done.returncode == 0, done.stderr
    folders = sorted(tmp_path.glob("*.jit_step"))
    assert len(folders) == 1
    names = sorted(p.name for p in folders[0].iterdir())
    assert "0000.input.hlo" in names and "program.txt" in names and "REPRO" in names
    assert any(n.endswith(".ll") for n in names) and any(n.endswith(".s") for n in names)
    assert any(re.fullmatch(r"00\d\d\.fuse\.hlo", n) for n in names), names
    if not WEFT.exists():
        return
    command = (folders[0] / "REPRO").read_text().split()
    assert command[0] == "weft"
    done = subprocess.run([str(WEFT), *command[1:]], cwd=folders[0], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "same as the evaluator" in done.stdout, done.stderr
    for name in names:
        if name.endswith(".hlo"):
            subprocess.run([str(WEFT), "verify", name], cwd=folders[0], check=True, timeout=60)


def test_check_passes_on_good_programs():
    code = STEP + """
print(step(jnp.ones((4, 8)), jnp.ones((8, 2)))[0, 0])
print(jax.jit(lambda x: jax.lax.fori_loop(0, 10, lambda i, c: jnp.sin(c) + i, x))(jnp.ones(5))[0])
"""
    done = weft(code, WEFT_CHECK=1, WEFT_DEBUG="check=1")
    assert lines(done, "check jit_step: "), done.stderr
    assert "results as the evaluator" in done.stderr


def test_memory_analysis_is_that_of_the_program():
    code = """
import jax, jax.numpy as jnp
f = jax.jit(lambda x: jnp.sort(x * 2) + jnp.sort(x))
m = f.lower(jnp.ones(1 << 16)).compile().memory_analysis()
assert m.argument_size_in_bytes == m.output_size_in_bytes == 4 << 16, m
assert 4 << 16 <= m.temp_size_in_bytes <= 4 << 18, m
g = jax.jit(lambda x: x + 1, donate_argnums=0)
m = g.lower(jnp.ones(1 << 16)).compile().memory_analysis()
assert m.alias_size_in_bytes == 4 << 16 and m.temp_size_in_bytes == 0, m
"""
    done = weft(code)
    assert done.returncode == 0, done.stderr


def test_too_large_is_said_before_it_runs():
    code = """
import jax, jax.numpy as jnp
def big(x):
    y = jnp.sort(x * 2)
    return (jnp.sort(y[None, :] * x[:, None], axis=0) + y).sum()
try:
    jax.jit(big)(jnp.ones(8192)).block_until_ready()
except Exception as error:
    print(error)
"""
    done = weft(code, WEFT_MEMORY_LIMIT=64 << 20)
    assert done.returncode == 0, done.stderr
    for part in ("RESOURCE_EXHAUSTED", "out of memory", "67.1 MB", "the largest buffers", "temporary f32[8192,8192]", "<string>:"):
        assert part in done.stdout, done.stdout


def test_what_a_routine_takes_for_itself_is_among_the_buffers():
    code = """
import jax, jax.numpy as jnp
try:
    jax.jit(jnp.sort)(jnp.ones((2, 1 << 20))).block_until_ready()
except Exception as error:
    print(error)
"""
    done = weft(code, WEFT_MEMORY_LIMIT=20 << 20)
    assert done.returncode == 0, done.stderr
    assert "8.4 MB scratch of sort, in sort" in done.stdout, done.stdout


def test_fork_before_first_use():
    code = """
import os, jax, jax.numpy as jnp
child = os.fork()
if child == 0:
    value = float(jax.jit(lambda x: (x @ x).sum())(jnp.ones((300, 300))))
    os._exit(0 if value == 300.0 ** 3 else 1)
assert os.waitpid(child, 0)[1] == 0
assert float(jnp.ones(1000).sum()) == 1000
"""
    done = weft(code)
    assert done.returncode == 0, done.stderr


def test_threads():
    code = """
import os, threading, time
import jax, jax.numpy as jnp, weft
f = jax.jit(lambda x: jnp.tanh(x @ x).sum())
x = jnp.ones((700, 700))
def busy(count=None):
    if count: weft.set_threads(count)
    def times():
        out = {}
        for task in os.listdir('/proc/self/task'):
            fields = open(f'/proc/self/task/{task}/stat').read().rsplit(')', 1)[1].split()
            out[task] = int(fields[11]) + int(fields[12])
        return out
    result = f(x)
    time.sleep(0.001)
    result.block_until_ready()
    before = times()
    for _ in range(20):
        result = f(x)
        time.sleep(0.001)  # who waits at once may run it, so that two threads would take turns
        result.block_until_ready()
    after = times()
    spent = [after[t] - before.get(t, 0) for t in after]
    return sum(1 for s in spent if s > max(spent) / 4)
print(busy())
print(busy(os.cpu_count()) if os.cpu_count() > 1 else 2)
"""
    done = weft(code, WEFT_THREADS=1)
    assert done.returncode == 0, done.stderr
    one, more = map(int, done.stdout.split())
    assert one == 1
    assert more >= 1  # how many are busy depends on what else the machine does
