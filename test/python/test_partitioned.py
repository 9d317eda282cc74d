"""What one device has of a training step that is split over 8: its share of the products, and memory for little more than its parts."""

import json
import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("jax", reason="jax is not installed: run ./dev test")

from weft_jax import LIBRARY, ROOT, environment, run  # noqa: E402

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


STEPS = """
import sys
sys.path.insert(0, {folder!r})
import jax, numpy as np, partitioned

sizes = partitioned.Sizes(width=64, hidden=128, layers=2, tokens=8)
whole, _ = partitioned.make({kind!r}, sizes, whole=True)
split, shapes = partitioned.make({kind!r}, sizes, whole=False)
random = np.random.default_rng(0)
# So little that steps are not at the edge of stability, where the last bit of a sum decides on what comes after fifty of them.
weights, x = jax.tree.map(lambda s: 0.5 * random.standard_normal(s.shape).astype(np.float32) / np.sqrt(s.shape[-2]), shapes)
first = jax.tree.leaves(weights)[0]
parts, x_parts = jax.tree.map(lambda v, s: jax.device_put(v, s.sharding), (weights, x), shapes)
losses = []
for _ in range(100):
    weights, loss = whole(weights, x)
    parts, same = split(parts, x_parts)
    losses.append((float(loss), float(same)))
np.testing.assert_allclose(*np.transpose(losses), rtol=1e-5)
assert losses[-1][0] < 0.9 * losses[0][0] and np.abs(np.asarray(jax.tree.leaves(weights)[0]) - first).max() > 1e-3  # it learns
for a, b in zip(jax.tree.leaves(weights), jax.tree.leaves(parts)):
    assert len(b.addressable_shards) == 8
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-4, atol=1e-5)
print(losses[0], losses[-1])
"""


@pytest.mark.parametrize("kind", ["fsdp", "fsdp_scan", "tp", "tp_scan", "fsdp_tp", "fsdp_tp_scan"])
def test_100_steps_as_on_one_device(kind):
    done = run(STEPS.format(folder=str(BENCH.parent), kind=kind), JAX_PLATFORMS="weft", WEFT_CPU_DEVICES=8)
    assert done.returncode == 0, done.stderr[-3000:]
    print(done.stdout)
