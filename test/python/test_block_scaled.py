"""Products of block-scaled numbers on Weft: the cases of block_scaled_cases.py in a process of their own."""

import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("jax", reason="jax is not installed: run ./dev test")

from weft_jax import LIBRARY, environment  # noqa: E402

if not LIBRARY.exists():
    pytest.skip("the plugin is not built", allow_module_level=True)


def test_block_scaled():
    cases = pathlib.Path(__file__).parent / "block_scaled_cases.py"
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(cases)],
                          env=environment(JAX_PLATFORMS="weft", WEFT_CACHE="0"), capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-4000:]
    assert " passed" in done.stdout
