"""What one device has of a training step that is split over 8: its share of the products, and memory for little more than its parts."""

import json
import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("jax", reason="jax is not installed: run ./dev test")

from weft_jax import LIBRARY, ROOT, environment  # noqa: E402

if not LIBRARY.exists():
    pytest.skip("the plugin is not built", allow_module_level=True)

BENCH = pathlib.Path(ROOT) / "bench" / "partitioned.py"


@pytest.mark.parametrize("kind", ["fsdp", "fsdp_tp_scan"])
def test_share_of_a_device(kind):
    done = subprocess.run([sys.executable, str(BENCH), "--quick", "--json", "--kinds", kind], env=environment(), capture_output=True,
                          text=True, timeout=300, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout.splitlines()[-1])
    assert 0.999 <= row["work"] <= 1.001, row
    assert row["temp"] <= row["allowed"], row
    assert row["measured"] <= 1.1 * row["predicted"], row
