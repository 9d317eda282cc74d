"""Sums of equal f32 terms stay within 1e-6 of exact however many there are, in every spelling of sum_cases.py, and have
the same bits for any number of threads. WEFT_LONG_SUMS=1 goes on to 10^8 terms and, one at a time, to 10^9."""

import os
import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("jax", reason="jax is not installed: run ./dev test")

from weft_jax import LIBRARY, environment  # noqa: E402

if not LIBRARY.exists():
    pytest.skip("the plugin is not built", allow_module_level=True)

LONG = os.environ.get("WEFT_LONG_SUMS") == "1"
MOST = ["sum", "sum of squares", "cumsum", "columns of three", "dot", "scatter 10 in one"]


def cases(*words, threads=2, timeout=900):
    script = pathlib.Path(__file__).parent / "sum_cases.py"
    env = environment(JAX_PLATFORMS="weft", WEFT_CACHE="0", WEFT_THREADS=threads)
    done = subprocess.run([sys.executable, str(script), *words], env=env, capture_output=True, text=True,
                          timeout=timeout, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


def check(lines):
    off = [line for line in lines if line.startswith("off")]
    assert not off, "\n".join(off[:20])
    assert lines[-1].startswith("worst"), lines[-1]


def test_every_spelling_of_few_terms():
    check(cases("1000"))


def test_every_spelling_with_the_same_bits_for_any_number_of_threads():
    """So many terms that loops are cut for threads."""
    three, one = (cases("400009", threads=threads) for threads in (3, 1))
    check(three)
    assert three == one


def test_many_terms():
    check(cases("3000000", "--exact", *MOST))


@pytest.mark.skipif(not LONG, reason="takes minutes and 12 GB: WEFT_LONG_SUMS=1")
@pytest.mark.parametrize("name", MOST)
@pytest.mark.parametrize("size", ["100000000", "1000000000"])
def test_very_many_terms(size, name):
    check(cases(size, "--exact", name, timeout=3600))
