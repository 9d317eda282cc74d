"""The benchmarks' own machinery, and that the suites agree with XLA:CPU where that is quick to find out."""

import json
import os
import pathlib
import sys

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import numpy as np
import pytest

pytest.importorskip("jax", reason="jax is not installed: run ./dev test")

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/cpu"))

import browser as browsers  # noqa: E402
import c_versions  # noqa: E402
import fused_programs  # noqa: E402
import harness  # noqa: E402
import loop_programs  # noqa: E402
import plot  # noqa: E402
import report  # noqa: E402
import scaling  # noqa: E402


def test_difference():
    one = np.array([1.0, -4.0, np.nan, np.inf])
    assert harness.difference([one], [one]) == 0
    assert harness.difference([np.array([1.0, 2.0])], [np.array([1.5, 2.0])]) == 0.25
    assert harness.difference([np.array([1.0, np.nan])], [np.array([1.0, 2.0])]) == np.inf
    assert harness.difference([np.float32(1)], [np.float64(1)]) == np.inf
    assert harness.difference([], [np.float32(1)]) == np.inf


def test_mean_takes_two_programs_of_a_kind():
    programs = [harness.Program(name=n, kind=k, make=None) for n, k in [("a", "x"), ("b", "x"), ("c", "x"), ("d", "y")]]
    assert harness.by_kind(programs, {"a": 1, "b": 4, "c": 1000, "d": 8}) == pytest.approx(4)
    assert harness.by_kind(programs, {"c": 3, "d": 12}) == pytest.approx(6)


def test_ratios_are_of_neighbours():
    assert harness.ratio_of([2, 20, 200], [1, 10, 100]) == [2, 2, 2]


def test_charts(tmp_path):
    plot.write_bars(tmp_path / "bars.svg", "a < b", {"x": 0.5, "y": 20.0})
    plot.write_lines(tmp_path / "lines.svg", "t", "n", "s", {"x": [(100, 0.1), (1000, 2.0)], "none": []})
    for name in ("bars.svg", "lines.svg"):
        text = (tmp_path / name).read_text()
        assert text.startswith("<svg") and text.rstrip().endswith("</svg>") and "a < b" not in text
    assert "20" in plot.text_bars("t", {"x": 0.5, "y": 20.0})


def test_suites_are_what_they_say():
    for programs, count, kinds in ((loop_programs.PROGRAMS, 28, 18), (fused_programs.PROGRAMS, 34, 25)):
        assert len({p.name for p in programs}) == len(programs) >= count
        assert len({p.kind for p in programs}) >= kinds
        assert any(p.quick for p in programs)
    assert sum(p.c is not None for p in loop_programs.PROGRAMS) >= (15 if c_versions.compiler() else 0)


@pytest.mark.skipif(c_versions.compiler() is None, reason="no C compiler")
@pytest.mark.parametrize("name", ["newton", "gcd", "fill", "heat", "knapsack", "kalman_solve", "viterbi", "issue_36799"])
def test_c_version_computes_the_same(name):
    import jax
    program = next(p for p in loop_programs.PROGRAMS if p.name == name)
    with program.context():
        call = harness.on_device(program, jax.devices("cpu")[0])
        assert harness.difference(program.c(*program.make()[1]), call()) <= program.tolerance


def results_in(folder):
    """A file of each sort that the page has a part for."""
    row = {"kind": "x", "bytes": 1e6, "flops": 1e9, "weft": [1e-3, 1e-3, 1e-3], "cpu": [2e-3, 2e-3, 2e-3], "cpu:weft": [2, 2, 2]}
    slow = {**row, "flops": 1e7, "cpu:weft": [0.5, 0.5, 0.5]}
    content = {"date": "2026-01-02", "copy GB/s": 10.0, "rows": {"fast": row, "behind <&>": slow}}
    threads = {"rows": {"product": {"bound by": "compute", "threads": {"1": 8.0, "2": 7.0}, "speedup": 1.14}}}
    for name, what in (("matrix", content), ("compile", content), ("scaling", threads), ("other", content)):
        (folder / f"2026-01-02-{name}-aarch64-2core.json").write_text(json.dumps(what))
    (folder / "2026-01-01-matrix-aarch64-2core.json").write_text(json.dumps({"rows": {}}))


def test_page_of_results(tmp_path):
    results_in(tmp_path)
    found = report.newest(tmp_path, "")
    assert set(found) == {(suite, "aarch64-2core") for suite in ("matrix", "compile", "scaling")}
    assert report.newest(tmp_path, "x86_64-16core") == {}
    (tmp_path / "page.html").write_text(report.page(found))
    if browsers.find() is None:
        pytest.skip(browsers.HINT)
    with browsers.Browser() as browser:
        opened = browser.open(tmp_path / "page.html")
        count = lambda selector: opened.run(f"document.querySelectorAll({selector!r}).length")
        assert [count(f"section.{name} svg") for name in ("ratios", "roofline", "scaling", "compile")] == [1, 2, 1, 1]
        assert count("tr.behind") == 1 and "behind <&>" in opened.run("document.body.textContent")
        assert opened.problems() == []


def test_scaling_has_twenty_programs():
    assert len(scaling.programs()) == 20
