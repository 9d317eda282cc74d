"""The gallery: every program runs small on Weft beside XLA:CPU, every page has its picture and its table."""

import ast
import importlib.util
import json
import re
import subprocess
import sys

import pytest
import weft_jax
from weft_jax import ROOT

PROGRAMS, PAGES = ROOT / "examples" / "gallery", ROOT / "docs" / "gallery"
NAMES = sorted(path.stem for path in PROGRAMS.glob("*.py") if path.stem != "show")
needs_build = pytest.mark.skipif(not weft_jax.LIBRARY.exists(), reason="the plugin is not built")
sys.path.insert(0, str(ROOT / "tools"))
import gallery


def imported(path):
    """The modules that a program imports, in functions too; matplotlib is asked for by --picture only."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module.split(".")[0])
    return found - {"show", "matplotlib"}


def run(name, *arguments, **variables):
    return subprocess.run([sys.executable, PROGRAMS / f"{name}.py", *arguments], env=weft_jax.environment(WEFT_CACHE="0", **variables),
                          capture_output=True, text=True, timeout=600, check=False)


def test_there_are_ten():
    assert len(NAMES) == 10
    without = [name for name in NAMES if imported(PROGRAMS / f"{name}.py") <= {"jax", "numpy", "pathlib"}]
    assert len(without) >= 6, "most of the gallery needs nothing but JAX"


@needs_build
@pytest.mark.parametrize("name", NAMES)
def test_small_beside_xla(name, tmp_path):
    pytest.importorskip("jax")
    missing = sorted(module for module in imported(PROGRAMS / f"{name}.py") if importlib.util.find_spec(module) is None)
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)} (./dev gallery installs it into .venv-gallery)")
    done = run(name, "--quick", "--compare", "--json", str(tmp_path / "times.json"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "times as fast to compile" in done.stdout and "largest difference" in done.stdout
    row = json.loads((tmp_path / "times.json").read_text())
    assert len(row["compile"]) == len(row["run"]) == 2 and min(row["run"]) > 0


@needs_build
def test_on_weft_alone(tmp_path):
    pytest.importorskip("jax")
    done = run("kalman", "--quick")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.fullmatch(r"Weft: compiled in [\d.]+ s, ran in [\d.]+ s\n", done.stdout)
    if importlib.util.find_spec("matplotlib"):
        done = run("kalman", "--quick", "--picture", str(tmp_path / "kalman.png"))
        assert done.returncode == 0 and (tmp_path / "kalman.png").read_bytes().startswith(b"\x89PNG"), done.stderr


@needs_build
def test_differences_are_found():
    """Results that are apart end a comparison with another status than 0."""
    pytest.importorskip("jax")
    done = weft_jax.run(f"""
import sys; sys.path.insert(0, {str(PROGRAMS)!r}); sys.argv = ["x", "--quick", "--compare"]
import show, numpy as np
prepare = show.prepare
show.prepare = lambda function, arguments, platform: prepare(lambda x: dict(y=(2 if platform == "cpu" else 1) * x), arguments, platform)
show.main(lambda quick: (None, (np.ones(3, np.float32),)), None)
""")
    assert done.returncode == 1 and "too far apart" in done.stderr, done.stdout + done.stderr


# ---- Pages


@pytest.mark.parametrize("name", NAMES)
def test_page(name):
    text = (PAGES / f"{name}.md").read_text()
    picture = PAGES / f"{name}.png"
    assert f"]({name}.png)" in text and picture.stat().st_size <= 60_000
    source = (PROGRAMS / f"{name}.py").read_text()
    for mark in re.findall(r'^:(?:start-after|end-before): "(.*)"$', text, re.M):
        assert source.count(mark) == 1, mark
    assert text.count("```{literalinclude}") == 1
    assert f"]({name}.md)" in (PAGES / "index.md").read_text() and f"](gallery/{name}.md)" in (ROOT / "docs" / "index.md").read_text()


def test_tables_are_current():
    rows = json.loads(gallery.TIMES.read_text())
    assert set(rows) <= set(NAMES)
    for name, row in rows.items():
        assert gallery.page_table(row) in (PAGES / f"{name}.md").read_text(), "run tools/gallery.py --pages"
    assert gallery.overview(rows) in (PAGES / "index.md").read_text(), "run tools/gallery.py --pages"
