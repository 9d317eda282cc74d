"""Random JAX programs on Weft beside XLA:CPU, a few of them; `./dev random-jax` runs more."""

import subprocess
import sys

import pytest
import weft_jax

pytest.importorskip("jax")

FOLDER = weft_jax.ROOT / "test" / "random_jax"
sys.path.insert(0, str(FOLDER))

import check  # pylint: disable=wrong-import-position
import generate  # pylint: disable=wrong-import-position
import run as run_command  # pylint: disable=wrong-import-position


def random_jax(*arguments):
    return subprocess.run([sys.executable, str(FOLDER / "run.py"), "--jobs", "1", *arguments], env=weft_jax.environment(),
                          capture_output=True, text=True, timeout=600)


def test_a_seed_is_a_program():
    first, second = generate.make(7), generate.make(7)
    assert first.function() == second.function() and first.inputs == second.inputs
    assert generate.make(8).function() != first.function()
    for seed in range(100):
        compile(generate.make(seed).function(), f"seed {seed}", "exec")


def test_slices_keep_what_they_need():
    program = generate.make(3)
    part = program.sliced([program.defines[0]])
    assert part.defines == program.defines[:1] and len(part.function()) < len(program.function())
    compile(check.script(part, "why"), "script", "exec")


@pytest.mark.skipif(not weft_jax.LIBRARY.exists(), reason="the plugin is not built")
@pytest.mark.parametrize("arguments", [("--count", "40", "--seed", "10000"), ("--kept",)])
def test_programs(arguments):
    done = random_jax(*arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " ok" in done.stdout or arguments == ("--kept",), done.stdout


def test_wrong_results_are_found(monkeypatch):
    """XLA:CPU in Weft's place: as it is, and with something added to the first element of every result."""
    plain, added = check.run, [0.0]

    def run(function, inputs, platform, x64):
        results = plain(function, inputs, "cpu", x64)
        if platform == "weft":
            results = [result.copy() for result in results]
            for result in results:
                result.flat[0] += result.dtype.type(added[0])
        return results

    monkeypatch.setattr(check, "run", run)
    program = generate.Program(
        seed=1, x64=False, specials=False, inputs=[("x0", (3,), "f32"), ("x1", (2,), "s32")],
        statements=[["v1 = jnp.sin(x0)"], ["v2 = x1 * 2"], ["v3 = v1 * 2"]], defines=["v1", "v2", "v3"], outputs=["v2", "v3"],
        dtypes=("f32", "s32"))
    assert check.check(program) == ("ok", "")
    added[0] = 1e-3  # Nothing to an integer.
    outcome, why = check.check(program)
    assert outcome == "differs" and why.startswith("v3: error 0.001"), why
    assert check.reduced(program).outputs == ["v1"]
    added[0] = 1.0
    assert check.check(program)[1].startswith("v2: 1 of 2 differ, first at (0,)"), check.check(program)


def test_whose_a_crash_is():
    crash, ok = dict(outcome="crash", why="SIGABRT: double free", script=""), dict(outcome="ok", why="", script="")
    assert run_command.blamed(ok, None) == ok
    assert run_command.blamed(crash, lambda platform: platform == "weft") == crash
    assert run_command.blamed(crash, lambda platform: True) == crash
    assert run_command.blamed(crash, lambda platform: platform == "cpu")["outcome"] == "crash of XLA:CPU"
    alone = run_command.blamed(crash, lambda platform: False)
    assert alone["outcome"] == "crash" and "neither" in alone["why"]


@pytest.mark.skipif(not weft_jax.LIBRARY.exists(), reason="the plugin is not built")
def test_a_program_on_one_platform(monkeypatch, tmp_path):
    monkeypatch.setattr(run_command, "OUT", tmp_path)
    for key, value in weft_jax.environment().items():
        monkeypatch.setenv(key, value)
    assert not run_command.is_ended(10000, 90, "weft") and not run_command.is_ended(10000, 90, "cpu")
    assert run_command.is_ended(10000, 0, "cpu")  # It takes longer than no time.


def test_what_cancels_in_double_precision_is_allowed(monkeypatch):
    """The last bit of 3 in differences of 1e-10, and no more."""
    plain, added = check.run, [2.0**-51]

    def run(function, inputs, platform, x64):
        results = plain(function, inputs, "cpu", x64)
        return [result + added[0] for result in results] if platform == "weft" else results

    monkeypatch.setattr(check, "run", run)
    program = generate.Program(
        seed=1, x64=True, specials=False, inputs=[("x0", (5,), "f64")],
        statements=[["v1 = 3 + x0 * 1e-10"], ["v2 = v1[1:] - v1[:-1]"]], defines=["v1", "v2"], outputs=["v2"], dtypes=("f64",))
    assert check.check(program) == ("ok", "")
    added[0] = 2.0**-44
    assert check.check(program)[0] == "differs"
