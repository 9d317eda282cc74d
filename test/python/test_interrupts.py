"""Ctrl-C while JAX waits for a program or for the compiler: KeyboardInterrupt soon, and everything goes on afterwards."""

import re
import signal
import subprocess
import time

import pytest

pytest.importorskip("jax", reason="jax is not installed: run ./dev test")

from weft_jax import LIBRARY, run  # noqa: E402

if not LIBRARY.exists():
    pytest.skip("the plugin is not built", allow_module_level=True)

WEFT = LIBRARY.parent / "weft"
# A quiet machine takes 0.05 s.
LIMIT = 1.0

HEAD = """
import os, signal, sys, threading, time
import jax, jax.numpy as jnp, numpy as np
from jax import lax

sent = []
def press(after):
    def send():
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)
    threading.Timer(after, send).start()

def interrupted(work, after=0.3):
    press(after)
    try:
        work()
    except KeyboardInterrupt:
        print("took", time.monotonic() - sent[-1], flush=True)
        return
    sys.exit("no KeyboardInterrupt")

def go_round(rounds, x):
    # Without end where rounds < 0.
    def more(s):
        return (s[0] != rounds)
    def step(s):
        return jnp.where(s[0] == 1 << 20, 0, s[0] + 1), s[1] * 0.5 + 1
    return lax.while_loop(more, step, (jnp.int32(0), x))[1]

go_round = jax.jit(go_round)
plus = jax.jit(lambda v: v + 1)
def check_that_all_works(x):
    np.testing.assert_array_equal(np.asarray(x), np.arange(8, dtype=np.float32))
    got = np.asarray(go_round(50, x))
    np.testing.assert_allclose(got, np.full(8, 2), rtol=1e-6)
    np.testing.assert_array_equal(np.asarray(plus(x)), np.arange(8) + 1)

x = jnp.arange(8.)
check_that_all_works(x)  # and all is compiled
"""


def interrupt(code, times=1, **variables):
    variables = {"JAX_PLATFORMS": "weft,cpu", "WEFT_CACHE": "0", **variables}
    done = run(HEAD + code + "\nprint('done')", **variables)
    assert done.returncode == 0 and done.stdout.endswith("done\n"), done.stdout + done.stderr
    took = [float(t) for t in re.findall(r"took (\S+)", done.stdout)]
    print(took)
    assert len(took) == times and max(took, default=0) < LIMIT, took
    return done


def test_a_loop_on_a_gpu():
    """Undonated arguments stay, what waits for the loop is cancelled with it, and the stream goes on."""
    interrupt("""
for _ in range(2):
    interrupted(lambda: go_round(-1, x).block_until_ready())
    check_that_all_works(x)
interrupted(lambda: np.asarray(plus(go_round(-1, x))))
check_that_all_works(x)
""", times=3, WEFT_PLATFORM="pretend", JAX_PLATFORMS="weft")


@pytest.mark.parametrize("options", ["", "cpu.native=false"])
def test_waiting_for_a_result(options):
    interrupt("""
interrupted(lambda: go_round(-1, x).block_until_ready())
check_that_all_works(x)
interrupted(lambda: np.asarray(go_round(-1, x)))
check_that_all_works(x)
interrupted(lambda: float(go_round(-1, x)[0]))
check_that_all_works(x)
""", times=3, WEFT_OPTIONS=options)


def test_results_that_depend_on_it_fail_and_others_do_not():
    # What took long so far is queued.
    interrupt("""
rounds = jax.jit(lambda n, x: lax.fori_loop(0, n, lambda i, v: v * 0.5 + 1, x))
rounds(10_000_000, x).block_until_ready()
first = rounds(2**31 - 1, x)
second = first + 1
other = jax.jit(lambda v: v @ v.T)(jnp.ones((64, 64)))
interrupted(lambda: second.block_until_ready())
for array in (first, second):
    try:
        array.block_until_ready()
        sys.exit("no error")
    except jax.errors.JaxRuntimeError as error:
        assert "CANCELLED" in str(error), error
assert other[0, 0] == 64
check_that_all_works(x)
""")


def test_a_program_that_runs_on_the_main_thread():
    # What was short so far runs where it is called.
    done = interrupt("""
for _ in range(50):
    go_round(10, x).block_until_ready()
def here():
    y = go_round(-1, x)
    print("not here", flush=True)
    y.block_until_ready()
interrupted(here)
check_that_all_works(x)
""")
    assert "not here" not in done.stdout


def test_a_handler_that_was_set_again():
    interrupt("""
go_round(10, x).block_until_ready()
signal.signal(signal.SIGINT, signal.default_int_handler)
interrupted(lambda: go_round(-1, x).block_until_ready())
signal.signal(signal.SIGINT, signal.default_int_handler)
interrupted(lambda: go_round(-1, x).block_until_ready())
check_that_all_works(x)
""", times=2)


@pytest.mark.parametrize("body", [
    "jnp.tanh(s @ s) * 0.01 + 1",                                      # library calls, several threads
    "jnp.sort(s, axis=0)[::-1] + s",
    "lax.fori_loop(0, 50000, lambda i, v: v * 0.999 + 1e-3, s)",       # none of the loops is long in rounds
    "lax.scan(lambda c, v: (c * 0.5 + v, c), jnp.float32(0), s.ravel())[1].reshape(s.shape)",
])
def test_long_rounds(body):
    interrupt(f"""
s0 = jnp.ones((512, 512)) if "lax" not in {body!r} else jnp.ones((32, 32))
@jax.jit
def loops(s):
    return lax.fori_loop(0, 50000, lambda j, s: lax.fori_loop(0, 50000, lambda i, s: {body}, s), s)
compiled = loops.lower(s0).compile()
interrupted(lambda: compiled(s0).block_until_ready())
check_that_all_works(x)
start = time.monotonic()
np.asarray(jnp.ones((256, 256)) @ jnp.ones((256, 256)))
assert time.monotonic() - start < 2  # the threads are free
""")


# Each takes seconds: routines, kernels on several threads, a call of LAPACK's.
LONG = {
    "sort": "jnp.sort, a(60_000_000)",
    "argsort": "jnp.argsort, a(20_000_000)",
    "sort of columns": "lambda x: jnp.sort(x, axis=0), a(8000, 4000)",
    "sort by two keys": "lambda x: jnp.lexsort((x[0], x[1])), a(2, 8_000_000)",
    "gemm": "lambda x: x @ x, a(7000, 7000)",
    "batched gemm": "lambda x: x @ x, a(120, 900, 900)",
    "fft": "jnp.fft.fft, a(1 << 25)",
    "cholesky": "lambda x: jnp.linalg.cholesky(x @ x.T + 9e3 * jnp.eye(4000)), a(4000, 4000)",
    "lu": "jax.scipy.linalg.lu_factor, a(6000, 6000)",
    "qr": "jnp.linalg.qr, a(1500, 1500)",
    "triangular solve": "lambda x: lax.linalg.triangular_solve(x, x, left_side=True, lower=True), a(5000, 5000)",
    "convolution": "lambda x: lax.conv(x[None, :, :, None] * jnp.ones((8, 1, 1, 128)), jnp.ones((256, 256, 5, 5)), (1, 1), 'SAME'), a(256, 128)",
    "top_k": "lambda x: lax.top_k(x, 3000), a(1500, 30_000)",
    "elementwise": "lambda x: jnp.sin(jnp.exp(jnp.cos(jnp.tanh(x)))) ** x, a(60_000_000)",
    "eigh": "jnp.linalg.eigh, a(3500, 3500)",
    "svd": "jnp.linalg.svd, a(2500, 2500)",
}


@pytest.mark.parametrize("name", LONG)
def test_the_next_program_does_not_wait(name):
    """Nor does the end of the process: whoever looked at the flag has ended, and LAPACK is left behind."""
    done = interrupt(f"""
def a(*dims):
    return jnp.asarray(np.random.default_rng(0).standard_normal(dims, dtype=np.float32))
f, argument = {LONG[name]}
compiled = jax.jit(f).lower(argument).compile()
argument.block_until_ready()
def again_and_again():
    while True:
        jax.block_until_ready(compiled(argument))
interrupted(again_and_again, after=0.2)
start = time.monotonic()
go_round(50, x).block_until_ready()
print("next", time.monotonic() - start)
check_that_all_works(x)
print("left", time.time())
""")
    assert float(re.search(r"next (\S+)", done.stdout)[1]) < LIMIT
    assert time.time() - float(re.search(r"left (\S+)", done.stdout)[1]) < 8 * LIMIT  # LAPACK's take 30


def test_compiling():
    interrupt("""
def f(x):
    for i in range(1500):
        x = jnp.sin(x * (i + 1)) + jnp.cos(x) @ jnp.tanh(x.T) if i % 2 else jnp.cumsum(x, axis=i % 3 % 2)
    return x
lowered = jax.jit(f).lower(jnp.ones((16, 16)))
interrupted(lowered.compile, after=0.2)
check_that_all_works(x)
""")


def test_several_devices():
    interrupt("""
from functools import partial
n = jax.device_count()
assert n == 8
def round_and_round(v):
    def step(s):
        return s[0] + 1, lax.psum(s[1], "d") / n
    return lax.while_loop(lambda s: s[0] >= 0, step, (jnp.int32(0), v))[1]
v = jnp.arange(8.)
compiled = jax.pmap(round_and_round, axis_name="d").lower(v).compile()
interrupted(lambda: compiled(v).block_until_ready())
check_that_all_works(x)
total = jax.pmap(lambda a: lax.psum(a, "d"), axis_name="d")(v)
np.testing.assert_array_equal(np.asarray(total), np.full(8, 28))
""", WEFT_CPU_DEVICES=8)


def test_a_host_callback_that_takes_long():
    interrupt("""
ended = threading.Event()
def slow(v):
    time.sleep(3)
    ended.set()
    return v
@jax.jit
def call(v):
    return jax.pure_callback(slow, jax.ShapeDtypeStruct(v.shape, v.dtype), v) + 1
compiled = call.lower(x).compile()
interrupted(lambda: compiled(x).block_until_ready())
check_that_all_works(x)
assert ended.wait(10)
check_that_all_works(x)
""")


def test_donated_arguments_are_deleted_and_others_are_not():
    interrupt("""
endless = jax.jit(lambda a, b: go_round(-1, a + b), donate_argnums=0)
a = jnp.arange(8.) + 1
a.block_until_ready()
compiled = endless.lower(a, x).compile()
interrupted(lambda: compiled(a, x).block_until_ready())
assert a.is_deleted()
check_that_all_works(x)
""")


def test_a_handler_of_the_users_own_decides():
    interrupt("""
seen = []
signal.signal(signal.SIGINT, lambda *_: seen.append(time.monotonic()))
press(0.3)
start = time.monotonic()
@jax.jit
def long(v):
    return lax.fori_loop(0, 400, lambda i, s: jnp.tanh(s @ s) * 0.01 + 1, v)
y = np.asarray(long(jnp.ones((400, 400))))
while not seen:
    time.sleep(0.01)
assert np.isfinite(y).all() and len(seen) == 1
check_that_all_works(x)
""", times=0)


def test_what_other_threads_wait_for_goes_on():
    interrupt("""
results = []
def other():
    many = jax.jit(lambda v: lax.fori_loop(0, 300, lambda i, s: jnp.tanh(s @ s) * 0.01 + 1, v))
    results.append(np.asarray(many(jnp.ones((300, 300)))))
thread = threading.Thread(target=other)
thread.start()
interrupted(lambda: go_round(-1, x).block_until_ready(), after=0.5)
thread.join()
assert len(results) == 1 and np.isfinite(results[0]).all()
check_that_all_works(x)
""")


def test_python_code_is_interrupted_as_always():
    interrupt("""
y = jax.jit(lambda v: lax.fori_loop(0, 100, lambda i, s: jnp.tanh(s @ s) * 0.01 + 1, v))(jnp.ones((300, 300)))
def spin():
    while True:
        pass
interrupted(spin)
assert np.isfinite(np.asarray(y)).all()  # nobody waited for it
""")


def test_the_command_ends_quietly(tmp_path):
    (tmp_path / "endless.hlo").write_text("""HloModule endless
cond {
  s = (s32[], f32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  zero = s32[] constant(0)
  ROOT r = pred[] compare(i, zero), direction=GE
}
body {
  s = (s32[], f32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  v = f32[] get-tuple-element(s), index=1
  mask = s32[] constant(1023)
  one = s32[] constant(1)
  more = s32[] add(i, one)
  next = s32[] and(more, mask)
  half = f32[] constant(0.5)
  w = f32[] multiply(v, half)
  ROOT r = (s32[], f32[]) tuple(next, w)
}
ENTRY main {
  v = f32[] parameter(0)
  zero = s32[] constant(0)
  s = (s32[], f32[]) tuple(zero, v)
  ROOT w = (s32[], f32[]) while(s), condition=cond, body=body
}
""")
    for command in ("run", "eval"):
        process = subprocess.Popen([WEFT, command, "endless.hlo"], cwd=tmp_path, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(1)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=10)
        assert process.returncode == -signal.SIGINT  # 130 to a shell
        assert not out and not err
