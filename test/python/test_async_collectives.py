"""Collectives that run beside compute: sharded training steps give the same, with a simulated link and without."""

import pathlib
import sys

import pytest
import weft_jax

if not weft_jax.LIBRARY.exists():
    pytest.skip("the plugin is not built", allow_module_level=True)
pytest.importorskip("jax")
np = pytest.importorskip("numpy")

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench" / "schedule"
KINDS = ("fsdp", "fsdp_scan", "tp", "tp_scan", "fsdp_tp", "fsdp_tp_scan")

CODE = """
import sys
sys.path.insert(0, {bench!r})
import jax, link, numpy as np
sizes = link.Sizes(width=64, hidden=128, heads=8, layers=3, batch=8, tokens=16)
found = {{}}
for kind in {kinds!r}:
    step, arguments = link.make(kind, sizes)
    for _ in range(2):
        arguments = (step(*arguments)[0], arguments[1])
    for k, leaf in enumerate(jax.tree.leaves(step(*arguments))):
        found[f"{{kind}} {{k}}"] = np.asarray(leaf)
np.savez({out!r}, **found)
"""


def steps(tmp_path, name, options):
    out, dumps = tmp_path / f"{name}.npz", tmp_path / name
    done = weft_jax.run(CODE.format(bench=str(BENCH), kinds=KINDS, out=str(out)), JAX_PLATFORMS="weft", WEFT_CPU_DEVICES=8,
                        WEFT_CACHE="0", WEFT_OPTIONS=options, WEFT_DUMP=dumps, WEFT_DEBUG="compile=1")  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    assert "the evaluator runs it" not in done.stderr, done.stderr[-4000:]
    programs = "".join(p.read_text() for p in dumps.rglob("*program*") if p.is_file())
    return np.load(out), programs.count("\n  async ") + programs.count("    async ")


@pytest.mark.skipif(sys.platform != "linux", reason="the plugin is for Linux")
def test_training_steps(tmp_path):
    expected, started = steps(tmp_path, "sync", "collectives.async=false")
    assert started == 0
    # A link on which every transfer is longer than its latency.
    for name, options in [("link", "collectives.link=2000"), ("sync_link", "collectives.link=2000,collectives.async=false")]:
        got, started = steps(tmp_path, name, options)
        assert (started >= 40) == (name == "link"), started
        assert set(got.files) == set(expected.files)
        for key in expected.files:
            np.testing.assert_allclose(got[key], expected[key], rtol=2e-4, atol=2e-5, err_msg=f"{name} {key}")
