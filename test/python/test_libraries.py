"""Libraries from PyPI on Weft, compared with XLA:CPU, where they are installed (`./dev libraries` installs them beside)."""

import importlib.util
import re
import subprocess
import sys

import pytest
import weft_jax

pytest.importorskip("jax")

FOLDER = weft_jax.ROOT / "test" / "libraries"
EXAMPLES = sorted(path.stem for path in FOLDER.glob("*_*.py") if not path.stem.startswith("suite"))
LIBRARIES = ("blackjax", "diffrax", "equinox", "flax", "haiku", "numpyro", "optax")

CASES = '''
import os, time
import jax, pytest

def test_passes(): assert float(jax.numpy.ones(3).sum()) == 3
def test_fails_on_both(): assert float(jax.numpy.ones(3).sum()) == 4
def test_is_for_cpu(): assert jax.default_backend() == "cpu"
def test_skips(): pytest.skip("for a reason")
def test_crashes(): os._exit(3)
def test_hangs(): time.sleep(1000)
def test_after(): pass
'''


def missing(name):
    text = (FOLDER / f"{name}.py").read_text()
    used = [library for library in LIBRARIES if re.search(rf"^(from|import) {library}\b", text, re.MULTILINE)]
    return [library for library in used if importlib.util.find_spec(library) is None]


@pytest.mark.skipif(not weft_jax.LIBRARY.exists(), reason="the plugin is not built")
@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name):
    if absent := missing(name):
        pytest.skip(f"{', '.join(absent)}: not installed here; ./dev libraries {name} installs and runs it")
    done = subprocess.run([sys.executable, str(FOLDER / "run.py"), name], env=weft_jax.environment(),
                          capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(not weft_jax.LIBRARY.exists(), reason="the plugin is not built")
def test_runner_of_suites(tmp_path):
    """Outcomes, a crash, a time limit, and which failures are Weft's alone, on a small made-up library."""
    (tmp_path / "checkout").mkdir()
    (tmp_path / "checkout" / "small_test.py").write_text(CASES)

    def suites(*arguments):
        return subprocess.run(
            [sys.executable, str(FOLDER / "suites.py"), "--out", str(tmp_path / "out"), *arguments],
            env=weft_jax.environment(), capture_output=True, text=True, timeout=600)

    done = suites("run", "small", str(tmp_path / "checkout"), "*_test.py", "--limit", "20")
    assert done.returncode == 1, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == ("small: 7 cases in 1 files, 7 run, 1 crash, 2 fail, 2 pass, 1 skip, 1 timeout; "
                        "3 fail on XLA:CPU too"), done.stdout
    assert [line.split(":")[2].strip() for line in lines if "ONLY HERE" in line] == ["test_is_for_cpu"]
    assert "3 fail on XLA:CPU too" in suites("report").stdout
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- table -->\n<!-- end of table -->\nafter\n")
    assert suites("table", str(page)).returncode == 0
    assert re.search(r"\| small \| .* \| 7 \| 7 \| 2 \| 1 \| 4 \| 3 \| 1 \|", page.read_text()), page.read_text()
    assert page.read_text().startswith("before") and page.read_text().endswith("after\n")
