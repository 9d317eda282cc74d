"""Report pages in a browser: weft report, weft run --html, WEFT_REPORT, dumps. Screenshots go to build/artefacts."""

import json
import pathlib
import re
import subprocess

import pytest

import browser as browsers
from weft_eval import WEFT
from weft_jax import LIBRARY, environment, run

if not WEFT.exists():
    pytest.skip("the command weft is not built", allow_module_level=True)

ARTEFACTS = LIBRARY.parent / "artefacts"
SECTIONS = ["overview", "lines", "steps", "memory", "timeline", "passes", "fusions", "copies", "compile", "code"]

MODULE = """HloModule jit_step
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}
ENTRY main {
  x = f32[256,128] parameter(0)
  w = f32[128,256] parameter(1)
  d = f32[256,256] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(step)/mlp/dot_general" source_file="/home/me/model.py" source_line=5}
  y = f32[256,256] tanh(d), metadata={op_name="jit(step)/mlp/tanh" source_file="/home/me/model.py" source_line=5}
  zero = f32[] constant(0)
  twice = f32[256,256] add(y, y)
  s = f32[256] reduce(y, zero), dimensions={1}, to_apply=sum, metadata={op_name="jit(step)/mean" source_file="/home/me/model.py" source_line=6}
  bs = f32[256,256] broadcast(s), dimensions={0}
  o = f32[256,256] subtract(y, bs), metadata={op_name="jit(step)/sub" source_file="/home/me/model.py" source_line=6}
  d2 = f32[256,256] dot(o, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(step)/dot2" source_file="/home/me/model.py" source_line=7}
  ROOT t = (f32[256,256], f32[256], f32[256,256]) tuple(d2, s, x2)
}
""".replace(", x2)", ", o)")

PROGRAM = """
import jax, jax.numpy as jnp
@jax.jit
def step(w, x):
    with jax.named_scope("mlp"):
        y = jnp.tanh(x @ w)
    def body(i, c):
        return jnp.cos(c) * 0.5
    y = jax.lax.fori_loop(0, 10, body, y)
    return jnp.sum(y * y)
@jax.jit
def other(x):
    return jnp.sort(x, axis=0)[:3] + 1
w, x = jnp.ones((64, 128)), jnp.ones((32, 64))
for _ in range(5):
    step(w, x).block_until_ready()
other(x).block_until_ready()
"""


def weft(*arguments, **variables):
    done = subprocess.run([str(WEFT), *map(str, arguments)], capture_output=True, text=True, timeout=300, env=environment(**variables))
    assert done.returncode == 0, done.stderr
    return done


def data(path, name):
    """One of the facts in a page."""
    text = pathlib.Path(path).read_text()
    return json.loads(re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', text, re.S)[1])


@pytest.fixture(scope="module")
def browser():
    if browsers.find() is None:
        pytest.skip(browsers.HINT)
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    with browsers.Browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    path = tmp_path_factory.mktemp("module") / "model.hlo"
    path.write_text(MODULE)
    return path


@pytest.fixture(scope="module")
def page(module):
    path = module.with_name("page.html")
    weft("report", "-o", path, module)
    return path


def visit(opened, name, number=0):
    """Every section, with a picture; each has a title and nothing went wrong."""
    for section in SECTIONS:
        opened.go(f"{number}/{section}")
        assert opened.run(f"document.querySelectorAll('#section-{section} h2').length") == 1, section
        opened.screenshot(ARTEFACTS / f"report-{name}-{section}.png")
    assert opened.problems() == []


def test_sections_are_there(browser, page):
    opened = browser.open(page)
    assert opened.run("[...document.querySelectorAll('#side a')].length") == len(SECTIONS)
    visit(opened, "module")
    opened.go("0/steps")
    assert opened.run("document.querySelectorAll('.table .rows .row').length") == len(data(page, "program-0")["steps"])
    opened.go("0/overview")
    assert "model.py:7" in opened.run("document.querySelector('main').innerText")


def test_search_finds_an_instruction(browser, page):
    opened = browser.open(page)
    opened.key("/")
    assert opened.run("document.activeElement.id") == "search"
    opened.type("tanh(d)")
    opened.run("new Promise(done => setTimeout(done, 200))")
    assert "tanh(d)" in opened.run("document.querySelector('#found a.on').innerText")
    opened.screenshot(ARTEFACTS / "report-search.png")
    opened.key("Enter")
    opened.run("new Promise(done => setTimeout(done, 200))")
    assert opened.run("location.hash").startswith("#0/passes/0/")
    assert "tanh(d)" in opened.run("document.querySelector('main .hit').innerText")
    for text, place in (("model.py:6", "lines"), ("subtract", "steps")):
        opened.run(f"document.getElementById('search').value = {json.dumps(text)}; document.getElementById('search').dispatchEvent(new Event('input'))")
        opened.run("new Promise(done => setTimeout(done, 200))")
        assert opened.run(f"[...document.querySelectorAll('#found a')].some(a => a.hash.includes('/{place}/'))"), text
    assert opened.problems() == []


def test_keys(browser, page):
    opened = browser.open(page)
    for digit, section in zip("1234567890", SECTIONS):
        opened.key(digit)
        opened.run("new Promise(done => setTimeout(done, 60))")
        assert opened.run("document.querySelector('main section').id") == f"section-{section}"
    opened.key("t")
    assert opened.run("document.documentElement.dataset.theme") == "dark"
    opened.key("?")
    assert opened.run("document.getElementById('help').open")
    assert opened.problems() == []


def test_a_diff_unfolds(browser, page):
    passes = data(page, "program-0")["passes"]
    number = next(i for i, p in enumerate(passes) if i > 0 and "changes" in p)
    opened = browser.open(page)
    opened.go("0/passes")
    assert opened.run("document.querySelectorAll('.diff').length") == 0  # folded
    opened.run(f"document.querySelector('#pass-{number} > summary').click()")
    opened.run("new Promise(done => setTimeout(done, 100))")
    opened.run(f"document.querySelectorAll('#pass-{number} details:not([open]) > summary').forEach(s => s.click())")
    opened.run("new Promise(done => setTimeout(done, 100))")
    assert opened.run("document.querySelectorAll('.diff .del').length") >= 1
    assert "twice" in opened.run("[...document.querySelectorAll('.diff .del')].map(e => e.innerText).join()")
    opened.screenshot(ARTEFACTS / "report-diff.png")
    assert opened.problems() == []


# A diff of any two lists gives both of them back, in order.
DIFFS = """
(() => {
  let seed = 7;
  const random = (n) => (seed = (seed * 1103515245 + 12345) % 2147483648) % n;
  for (let round = 0; round < 300; ++round) {
    const a = Array.from({length: random(30)}, () => random(12)), b = Array.from({length: random(30)}, () => random(12));
    const rows = diffRows(a, b, (id) => id % 5);
    const left = rows.map(r => r[0]).filter(i => i >= 0), right = rows.map(r => r[1]).filter(i => i >= 0);
    if (left.some((v, i) => v !== i) || left.length !== a.length || right.some((v, i) => v !== i) || right.length !== b.length) return [a, b, rows];
  }
  return matchLines([1, 2, 3, 4, 5, 6], [1, 2, 9, 4, 5, 6]).length;
})()
"""


def test_diffs_lose_nothing(browser, page):
    assert browser.open(page).run(DIFFS) == 5


def test_code_of_a_kernel(browser, page):
    program = data(page, "program-0")
    kernel = next(i for i, k in enumerate(program["kernels"]) if "subtract" in program["words"][k[0]])
    opened = browser.open(page)
    opened.go(f"0/code/{kernel}")
    texts = {}
    for number, title in enumerate(("Program", "LLVM IR", "assembly")):
        opened.run(f"document.querySelectorAll('.code .tools button')[{number}].click()")
        texts[title] = opened.run("document.querySelector('.code .text').innerText")
        opened.screenshot(ARTEFACTS / f"report-code-{number}.png")
    assert texts["Program"].startswith("kernel ")
    assert texts["LLVM IR"].startswith("define ") and f"@weft_task_{kernel}(" in texts["LLVM IR"]
    assert f"weft_task_{kernel}:" in texts["assembly"]
    assert opened.problems() == []


def test_names_are_inert(browser, tmp_path):
    jax = pytest.importorskip("jax", reason="jax is not installed: run ./dev test")
    name = b"<script>alert(1)</script>"
    lowered = jax.jit(lambda x: jax.numpy.tanh(x)).lower(jax.ShapeDtypeStruct((4,), "float32"))
    proto = lowered.compiler_ir("hlo").as_serialized_hlo_module_proto()
    assert proto[0] == 0x0A and proto[1] < 0x80  # the name comes first
    bad = tmp_path / "bad.pb"
    bad.write_bytes(bytes([0x0A, len(name)]) + name + proto[2 + proto[1]:])
    text = MODULE.replace("/home/me/model.py", "</script><img src=x onerror=alert(1)>").replace("jit(step)/mean", "<b onclick=alert(1)>")
    worse = tmp_path / "worse.hlo"
    worse.write_text(text)
    for path in (bad, worse):
        out = path.with_suffix(".html")
        weft("report", "-o", out, path)
        opened = browser.open(out)
        visit(opened, "names-" + path.stem)
        assert opened.run("document.querySelectorAll('img, b[onclick], script:not([type])').length") == 1  # the page's own
        opened.go("0/passes/0")
        assert opened.problems() == []
    assert "alert(1)" in browser.open(bad.with_suffix(".html")).run("document.body.innerText")


def test_a_dump(browser, module, tmp_path):
    dump = tmp_path / "dump"
    weft("run", module, WEFT_DUMP=dump)
    page = tmp_path / "page.html"
    weft("report", "-o", page, dump)
    opened = browser.open(page)
    visit(opened, "dump")
    for section, hint in (("timeline", "WEFT_REPORT"), ("steps", "WEFT_REPORT"), ("compile", "weft report FILE")):
        opened.go(f"0/{section}")
        assert hint in opened.run("document.querySelector('.empty').innerText"), section
    assert data(page, "program-0")["kernels"]
    assert [p["name"] for p in data(page, "program-0")["passes"]][:2] == ["input", "recognize-composites"]


def test_run_with_html(browser, module, tmp_path):
    page = tmp_path / "page.html"
    weft("run", "--bench", "5", "--html", page, module)
    opened = browser.open(page)
    visit(opened, "run")
    assert data(page, "program-0")["measured"] == 1
    assert data(page, "program-0")["sources"] == {}  # of a module of anybody: nothing is read
    phases = dict(data(page, "program-0")["phases"])
    assert {"passes", "lower", "codegen"} <= phases.keys()


def test_nothing_compiled(browser, tmp_path):
    pytest.importorskip("jax", reason="jax is not installed: run ./dev test")
    page = tmp_path / "page.html"
    done = run("import jax; jax.devices()", WEFT_REPORT=page, JAX_PLATFORMS="weft")
    assert done.returncode == 0, done.stderr
    opened = browser.open(page)
    assert "No programs" in opened.run("document.querySelector('main').innerText")
    opened.screenshot(ARTEFACTS / "report-nothing.png")
    assert opened.problems() == []


def test_a_jax_run(browser, tmp_path):
    pytest.importorskip("jax", reason="jax is not installed: run ./dev test")
    page, script = tmp_path / "page.html", tmp_path / "train.py"
    script.write_text(PROGRAM)
    page.write_text("what was there before")
    code = f"import runpy; runpy.run_path({str(script)!r})"
    done = run(code, WEFT_REPORT=page, JAX_PLATFORMS="weft", WEFT_CACHE="0")
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.glob("*.tmp")) == []
    names = [p["name"] for p in data(page, "index")["programs"]]
    assert "jit_step" in names and "jit_other" in names
    number = names.index("jit_step")
    assert data(page, "index")["programs"][number]["runs"] == 5
    program = data(page, f"program-{number}")
    assert any("train.py:" in word for word in program["words"])
    assert any(len(step) > 9 and step[9] > 0 for step in program["steps"])
    assert all(step[10] == 1 for step in program["steps"] if len(step) > 9 and step[5] == 0)  # once in a run
    assert any("jnp.tanh(x @ w)" in text for text in program["sources"].values())
    assert {"import", "passes", "lower", "codegen"} <= dict(program["phases"]).keys()
    opened = browser.open(page)
    visit(opened, "jax", number)
    opened.key("j")
    assert opened.problems() == []


def test_dark(page):
    if browsers.find() is None:
        pytest.skip(browsers.HINT)
    with browsers.Browser(dark=True) as browser:
        opened = browser.open(page)
        for section in ("overview", "steps", "memory"):
            opened.go(f"0/{section}")
            opened.screenshot(ARTEFACTS / f"report-dark-{section}.png")
        assert opened.run("getComputedStyle(document.body).backgroundColor") == "rgb(22, 24, 27)"
        assert opened.problems() == []


def test_ten_thousand_steps(browser, tmp_path):
    """How long such a page takes to open is written down; the bound is for machines that are busy."""
    lines = ["HloModule long", "ENTRY main {", "  p0 = f32[8,8] parameter(0)"]
    before = "p0"
    for i in range(10_000):
        place = f'metadata={{op_name="jit(long)/layer{i // 100}/dot" source_file="/home/me/long.py" source_line={i % 997 + 1}}}'
        lines.append(f"  d{i} = f32[8,8] dot({before}, p0), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, {place}")
        before = f"d{i}"
    path, page = tmp_path / "long.hlo", tmp_path / "long.html"
    path.write_text("\n".join(lines) + f"\n  ROOT r = f32[8,8] negate({before})\n}}\n")
    weft("report", "--runs", "3", "-o", page, path)
    assert len(data(page, "program-0")["steps"]) >= 10_000
    opened = browser.open(page)
    times = {"page_bytes": page.stat().st_size, "ready_ms": float(opened.run("document.documentElement.dataset.ready"))}
    for section in SECTIONS:
        times[section + "_ms"] = opened.run(f"(() => {{ const begin = performance.now(); location.hash = '0/{section}'; show(); document.body.offsetHeight; return performance.now() - begin; }})()")
    times["search_ms"] = opened.run("(() => { const begin = performance.now(); search('d9999', 0); return performance.now() - begin; })()")
    (ARTEFACTS / "report-ten-thousand-steps.json").write_text(json.dumps(times, indent=1))
    visit(opened, "long")
    assert times["ready_ms"] < 20_000


def test_errors(tmp_path):
    def fails(*arguments):
        done = subprocess.run([str(WEFT), "report", *map(str, arguments)], capture_output=True, text=True, timeout=60, env=environment())
        return done.returncode, done.stderr

    code, text = fails(tmp_path, "-o", tmp_path / "page.html")
    assert code == 1 and "WEFT_DUMP" in text
    code, text = fails(tmp_path / "nothing.hlo")
    assert code == 1 and "nothing.hlo" in text
    assert fails()[0] == 2
    path = tmp_path / "model.hlo"
    path.write_text(MODULE)
    code, text = fails(path, "-o", tmp_path / "no" / "such" / "page.html")
    assert code == 1 and "page.html" in text
