"""Collectives that run beside compute: sharded training steps give the same, with a simulated link and without."""

import pathlib
import re

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
sizes = link.Sizes(width=64, hidden=128, heads=8, layers=2, batch=8, tokens=8)
found = {{}}
for kind in {kinds!r}:
    step, arguments = link.make(kind, sizes)
    for _ in range(2):
        arguments = (step(*arguments)[0], arguments[1])
    for k, leaf in enumerate(jax.tree.leaves(step(*arguments))):
        found[f"{{kind}} {{k}}"] = np.asarray(leaf)
np.savez({out!r}, **found)
"""


def steps(tmp_path, name, options, kinds):
    out, dumps = tmp_path / f"{name}.npz", tmp_path / name
    done = weft_jax.run(CODE.format(bench=str(BENCH), kinds=kinds, out=str(out)), JAX_PLATFORMS="weft", WEFT_CPU_DEVICES=8,
                        WEFT_CACHE="0", WEFT_OPTIONS=options, WEFT_DUMP=dumps, WEFT_DEBUG="compile=1")  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    assert "the evaluator runs it" not in done.stderr, done.stderr[-4000:]
    programs = [p.read_text() for p in dumps.rglob("program.txt")]
    assert len(programs) >= len(kinds)
    return np.load(out), sum(len(re.findall(r"^ *async .*collective", text, re.M)) for text in programs)


def test_training_steps(tmp_path):
    """In the order of the list, hidden behind compute, and with loops that are pipelined."""
    expected, started = steps(tmp_path, "sync", "collectives.async=false,collectives.link=20000", KINDS)
    assert started == 0
    # A link on which every transfer is longer than its latency.
    link, scanned = "collectives.link=500", [k for k in KINDS if k.endswith("_scan")]
    for name, options, kinds in [("unrolled", link, KINDS), ("pipelined", f"{link},pipeline.disable=unroll-collective-loops", scanned)]:
        got, started = steps(tmp_path, name, options, kinds)
        assert started >= 3 * len(kinds), started
        for key in got.files:
            np.testing.assert_allclose(got[key], expected[key], rtol=2e-4, atol=2e-5, err_msg=f"{name} {key}")


PEAK = """
import sys
sys.path.insert(0, {bench!r})
import jax, link, pathlib, re
step, arguments = link.make({kind!r}, link.Sizes(layers=4, tokens=96))
compiled = step.lower(*arguments).compile()
process = lambda field: int(re.search(rf"{{field}}:\\s+(\\d+) kB", pathlib.Path("/proc/self/status").read_text())[1]) * 1024
pathlib.Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
before = process("VmRSS")
jax.block_until_ready(compiled(*arguments))
sizes = compiled.memory_analysis()
print(process("VmHWM") - before, len(jax.devices()) * (sizes.temp_size_in_bytes + sizes.output_size_in_bytes - sizes.alias_size_in_bytes))
"""


@pytest.mark.skipif(not pathlib.Path("/proc/self/clear_refs").exists(), reason="the system does not count a process's peak anew")
@pytest.mark.parametrize("kind", ["fsdp", "tp"])
def test_peak_memory(kind):
    """What the compiler says that a step takes is what the process takes, transfers in flight and all."""
    done = weft_jax.run(PEAK.format(bench=str(BENCH), kind=kind), JAX_PLATFORMS="weft", WEFT_CPU_DEVICES=8, WEFT_CACHE="0",
                        WEFT_OPTIONS="collectives.link=4000")  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    measured, predicted = map(int, done.stdout.split())
    assert predicted == pytest.approx(measured, rel=0.02)
