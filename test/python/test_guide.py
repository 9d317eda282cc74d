"""The guide: marked blocks run and print what it says, links lead somewhere, the generated page is current, the pages build."""

import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import guide_blocks
import pytest
import weft_jax
from guide_blocks import ROOT

WEFT = weft_jax.LIBRARY.parent / "weft"
needs_build = pytest.mark.skipif(not weft_jax.LIBRARY.exists() or not WEFT.exists(), reason="the plugin is not built")
PAGES = guide_blocks.pages()
TEXTS = [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "ARCHITECTURE.md", ROOT / "python/weft/README.md"]

# Runs blocks, each with what it prints; stops at the first that fails.
RUNNER = """
import contextlib, io, json, sys, traceback
results, space = [], {"__name__": "__main__"}
for text in json.load(open(sys.argv[1])):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            exec(compile(text, "<guide>", "exec"), space)
        except BaseException:
            traceback.print_exc()
            results.append([1, out.getvalue()])
            break
    results.append([0, out.getvalue()])
json.dump(results, open(sys.argv[2], "w"))
"""


def environment(folder, **variables):
    """As that of somebody who has installed the wheel: `weft` and `python` are on the path."""
    env = weft_jax.environment(WEFT_CACHE=folder / "cache", **variables)
    if "WEFT_CACHE" in variables:
        env["WEFT_CACHE"] = variables["WEFT_CACHE"]
    env["PATH"] = os.pathsep.join([str(folder / "bin"), str(pathlib.Path(sys.executable).parent), os.environ["PATH"]])
    return env


def run_bash(block, folder):
    done = subprocess.run(["bash", "-e", "-c", block.text], cwd=folder, env=environment(folder, **block.variables), text=True,
                          timeout=120, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT if block.fails else subprocess.PIPE)
    assert (done.returncode != 0) == block.fails, f"{block}: status {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def run_python(blocks, folder):
    """Blocks in one process; what each printed."""
    (folder / "blocks.json").write_text(json.dumps([block.text for block in blocks]))
    env = environment(folder, **{"JAX_PLATFORMS": "weft", **blocks[0].variables})
    done = subprocess.run([sys.executable, "-c", RUNNER, "blocks.json", "results.json"], cwd=folder, env=env, text=True, timeout=120, check=False,
                          capture_output=True)
    assert done.returncode == 0, f"{blocks[0]}: {done.stderr}"
    results = json.loads((folder / "results.json").read_text())
    for block, (status, out) in zip(blocks, results):
        assert (status != 0) == block.fails, f"{block}: {out}{done.stderr}"
    return [out for _, out in results]


def compare(block, got):
    if block.output is not None:
        assert guide_blocks.same_output(block.output, got), f"{block}: the guide shows\n{block.output}\nit prints\n{got}"


@needs_build
@pytest.mark.parametrize("page", [page for page in PAGES if guide_blocks.blocks_of(page)], ids=lambda page: page.stem)
def test_blocks_of(page, tmp_path):
    pytest.importorskip("jax")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "weft").symlink_to(WEFT)
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    blocks = guide_blocks.blocks_of(page)
    for (kind, _), group in itertools.groupby(blocks, key=lambda block: (block.kind, tuple(block.variables.items()))):
        group = list(group)
        if kind == "file":
            for block in group:
                (tmp_path / block.name).write_text(block.text)
            continue
        outputs = run_python(group, tmp_path) if kind == "python" else (run_bash(block, tmp_path) for block in group)
        for block, got in zip(group, outputs):
            compare(block, got)


def test_blocks_are_found():
    blocks = [block for page in PAGES for block in guide_blocks.blocks_of(page)]
    assert len(blocks) > 30
    marked = sum(len(re.findall(r"^<!-- (?:run|file)\b", page.read_text(), re.M)) for page in PAGES)
    assert len(blocks) == marked, "a marker without a block behind it"


@pytest.mark.parametrize("expected, got, same", [
    ("a\nb", "a\nb\n", True), ("a\nb", "a\nc", False), ("a ... 3 ms", "a 17 of  3 ms", True), ("...\nb", "x\ny\nb", True), ("a", "a\nb", False),
    ("(x.y)", "(x.y)", True), ("(x.y)", "(xzy)", False)])
def test_output_is_compared(expected, got, same):
    assert guide_blocks.same_output(expected, got) == same


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    assert not guide_blocks.broken_links(page)


def test_a_broken_link_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# One two\n[a](#one-two) [b](#three) [c](page.md#one-two) [d](none.md) `[e](none.md)`\n")
    assert guide_blocks.broken_links(page) == ["#three", "none.md"]


@needs_build
def test_settings_page_is_current():
    done = subprocess.run([sys.executable, ROOT / "tools/guide.py", WEFT, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_pages_build(tmp_path):
    python = ROOT / ".venv-guide" / "bin" / "python"
    if not python.exists():
        pytest.skip("the generator is not installed: ./dev guide installs it into .venv-guide")
    build = [python, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html"]
    done = subprocess.run([*build, "-d", tmp_path / "trees", ROOT / "docs", tmp_path / "guide"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for page in (ROOT / "docs").glob("**/*.md"):
        made = (tmp_path / "guide" / page.relative_to(ROOT / "docs")).with_suffix(".html")
        text = made.read_text()
        assert not re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="https?://', text), f"{made.name} loads from elsewhere"
        assert f'href="{page.stem}.html"' in (tmp_path / "guide" / "index.html").read_text() or page.stem == "index" or page.parent.name != "docs"
    # A page with a dead link does not build.
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(ROOT / "python", tmp_path / "python")
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    with open(tmp_path / "docs" / "faq.md", "a") as page:
        page.write("\n[nowhere](nowhere.md)\n")
    build[build.index("html")] = "dummy"
    done = subprocess.run([*build, tmp_path / "docs", tmp_path / "broken"], capture_output=True, text=True, check=False)
    assert done.returncode != 0 and "nowhere" in done.stderr


# ---- What PyPI shows


def test_metadata():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert len(project["description"]) <= 120
    readme = (ROOT / project["readme"]).read_text()
    # Relative links and pictures are dead there.
    links = guide_blocks.LINK.findall(guide_blocks.CODE.sub("", readme))
    assert not [link for link in links if not link.startswith(("https://", "#"))]
    assert not re.findall(r"<(?!!--)\w+", guide_blocks.CODE.sub("", readme)), "HTML"
    changes = (ROOT / "CHANGELOG.md").read_text()
    assert f"## {project['version']}" in changes
    assert (ROOT / "python/weft/py.typed").exists() and "Typing :: Typed" in project["classifiers"]
    assert project["classifiers"] == sorted(project["classifiers"])
    pythons = {c.rsplit(" ", 1)[1] for c in project["classifiers"] if c.startswith("Programming Language :: Python :: 3.")}
    assert project["requires-python"] == ">=" + min(pythons, key=lambda v: int(v.split(".")[1]))
