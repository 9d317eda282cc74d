"""Libraries from PyPI on Weft, compared with XLA:CPU, where they are installed (`./dev libraries` installs them beside)."""

import argparse
import importlib.util
import json
import pathlib
import re
import subprocess
import sys
import tarfile

import pytest
import weft_jax

pytest.importorskip("jax")

FOLDER = weft_jax.ROOT / "test" / "libraries"
EXAMPLES = sorted(path.stem for path in FOLDER.glob("*_*.py") if not path.stem.startswith("suite"))
sys.path.insert(0, str(FOLDER))

import suite_jobs  # pylint: disable=wrong-import-position
import suite_report  # pylint: disable=wrong-import-position
import suite_results  # pylint: disable=wrong-import-position
import suite_run  # pylint: disable=wrong-import-position
import suite_sources  # pylint: disable=wrong-import-position
import suites  # pylint: disable=wrong-import-position

LIBRARIES = ("blackjax", "diffrax", "equinox", "flax", "haiku", "numpyro", "optax")

CASES = '''
import os, time
import jax, pytest

def test_passes(): assert float(jax.numpy.ones(3).sum()) == 3
def test_fails_on_both(): assert float(jax.numpy.ones(3).sum()) == 4
def test_is_for_cpu(): assert jax.default_backend() == "cpu"
def test_skips(): pytest.skip("for a reason")
def test_crashes(): os._exit(3)
def test_hangs(): time.sleep(1000)
def test_after(): pass
'''


def missing(name):
    text = (FOLDER / f"{name}.py").read_text()
    used = [library for library in LIBRARIES if re.search(rf"^(from|import) {library}\b", text, re.MULTILINE)]
    return [library for library in used if importlib.util.find_spec(library) is None]


@pytest.mark.skipif(not weft_jax.LIBRARY.exists(), reason="the plugin is not built")
@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name):
    if absent := missing(name):
        pytest.skip(f"{', '.join(absent)}: not installed here; ./dev libraries {name} installs and runs it")
    done = subprocess.run([sys.executable, str(FOLDER / "run.py"), name], env=weft_jax.environment(),
                          capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr


def test_many_results_reach_the_runner(tmp_path):
    """Ids of 10^5 cases that are done: more than one environment variable may hold."""
    options = argparse.Namespace(out=tmp_path, name="large", job=0, env=[])
    env = suite_run.environment(options, "weft", dict(done=[f"tests/some_test.py::test_case[{k}]" for k in range(10**5)]))
    assert subprocess.run([sys.executable, "-c", ""], env=env, check=False).returncode == 0
    assert len(json.loads(pathlib.Path(env["LIBRARY_SUITE"]).read_text())["done"]) == 10**5


@pytest.mark.skipif(not weft_jax.LIBRARY.exists(), reason="the plugin is not built")
def test_runner_of_suites(tmp_path):
    """Outcomes, a crash, a time limit, and which failures are Weft's alone, on a small made-up library."""
    (tmp_path / "checkout").mkdir()
    (tmp_path / "checkout" / "small_test.py").write_text(CASES)

    def suites(*arguments):
        return subprocess.run(
            [sys.executable, str(FOLDER / "suites.py"), "--out", str(tmp_path / "out"), *arguments],
            env=weft_jax.environment(), capture_output=True, text=True, timeout=600)

    done = suites("run", "small", str(tmp_path / "checkout"), "*_test.py", "--limit", "20")
    assert done.returncode == 1, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == ("small: 7 cases in 1 files, 7 run, 1 crash, 2 fail, 2 pass, 1 skip, 1 timeout; "
                        "3 fail on XLA:CPU too"), done.stdout
    assert [line.split(":")[2].strip() for line in lines if "ONLY HERE" in line] == ["test_is_for_cpu"]
    assert "3 fail on XLA:CPU too" in suites("report").stdout
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- table -->\n<!-- end of table -->\nafter\n")
    assert suites("table", str(page)).returncode == 0
    assert re.search(r"\| small \| .* \| 7 \| 7 \| 2 \| 1 \| 4 \| 3 \| 1 \|", page.read_text()), page.read_text()
    assert page.read_text().startswith("before") and page.read_text().endswith("after\n")


def test_pytest_that_cannot_begin(tmp_path):
    """It ends with 1, as it does when cases fail: files that no process collected are not done."""
    (tmp_path / "small_test.py").write_text("def test_passes(): pass\n")
    done = subprocess.run(
        [sys.executable, str(FOLDER / "suites.py"), "--out", str(tmp_path / "out"), "run", "small", str(tmp_path), "*_test.py"],
        env=weft_jax.environment(PYTEST_PLUGINS="a_plugin_that_is_not_there"), capture_output=True, text=True, timeout=600)
    assert done.stdout.startswith("small: 0 cases in 0 files, 1 run, 1 uncollected"), done.stdout + done.stderr


@pytest.mark.skipif(not weft_jax.LIBRARY.exists(), reason="the plugin is not built")
def test_jobs_share_cases(tmp_path):
    """Two jobs on one file: each case once, a crash included, although both collect all of them; a conftest that asks for `cpu` is not heard."""
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "conftest.py").write_text("import jax; jax.config.update('jax_platform_name', 'cpu')\n")
    (tmp_path / "small" / "small_test.py").write_text(
        "import os, time, jax, pytest\n"
        "ONE = jax.numpy.ones(())\n"
        "@pytest.fixture(scope='module', params=[1, 2])\n"
        "def held(request): yield request.param\n"
        "@pytest.mark.parametrize('k', range(8))\n"
        "def test_case(held, k):\n"
        "  time.sleep(0.5)\n"
        "  if k == 3: os._exit(3)\n"
        "  assert jax.default_backend() == os.environ['JAX_PLATFORMS'].split(',')[0]\n")
    driver = ("import suites\n"
              "suites.LIBRARIES = {'small': {'requires': ['small==1'], 'tests': ['*_test.py']}}\n"
              "suites.main()\n")
    done = subprocess.run([sys.executable, "-c", driver, "--out", str(tmp_path / "out"), "all", "--installed", "--jobs", "2", "--sources", str(tmp_path)],
                          env=weft_jax.environment(PYTHONPATH=f"{FOLDER}:{weft_jax.ROOT / 'python'}"), capture_output=True, text=True, timeout=600)
    assert done.stdout.startswith("small: 16 cases in 1 files, 16 run, 2 crash, 14 pass; 2 fail on XLA:CPU too"), done.stdout + done.stderr
    lines = (tmp_path / "out" / "small.weft.jsonl").read_text().splitlines()
    assert len([line for line in lines if '"id"' in line]) == 16, lines


def test_queue_of_units():
    """Units in their order, then the one with the fewest jobs, until no case of it is left."""
    first, second = suite_jobs.Unit(None, ["a"]), suite_jobs.Unit(None, ["b"])
    queue = suite_jobs.Queue([first, second])
    assert [queue.take() for _ in range(4)] == [first, second, first, second]
    queue.all_begun(first)
    assert queue.take() is second
    assert not queue.leave(first, True) and queue.leave(first, True)
    assert not queue.leave(second, False) and queue.take() is None


def test_table_of_libraries():
    for name, entry in suites.LIBRARIES.items():
        package, version = suite_sources.pinned(entry)
        assert package and version, name
        assert entry["tests"] and set(entry) <= {"requires", "tests", "prefer", "devices", "env", "pytest", "environment", "version"}, name
    for entry in suite_results.KNOWN:
        assert entry["library"] in suites.LIBRARIES and entry["case"] and entry["reason"], entry


def test_sources_of_tests(tmp_path, monkeypatch):
    """The archive where it has tests, else the checkout, else why there are none."""
    entry = dict(requires=["small==1.0"], tests=["tests/test_*.py"])
    (tmp_path / "small-1.0" / "tests").mkdir(parents=True)

    def download(name, version, folder):
        with tarfile.open(folder / "small.tar", "w") as archive:
            archive.add(tmp_path / "small-1.0", f"{name}-{version}")
        return folder / "small.tar"

    monkeypatch.setattr(suite_sources, "download", download)
    folder, why = suite_sources.find("small", entry, None, tmp_path / "archives1")
    assert folder is None and "no tests in its source archive" in why
    (tmp_path / "small" / "tests").mkdir(parents=True)
    (tmp_path / "small" / "tests" / "test_a.py").touch()
    assert suite_sources.find("small", entry, tmp_path, tmp_path / "archives1")[0] == tmp_path / "small"
    (tmp_path / "small-1.0" / "tests" / "test_b.py").touch()
    assert suite_sources.find("small", entry, tmp_path, tmp_path / "archives2")[0].parent == tmp_path / "archives2" / "small-1.0"
    assert suite_sources.find("small", dict(entry, prefer="checkout"), tmp_path, tmp_path / "archives2")[0] == tmp_path / "small"


def test_a_second_run_goes_on(tmp_path):
    options = argparse.Namespace(name="small", platform="weft", sample=10, slice="1/1", out=tmp_path, jobs=1)
    entry, files = dict(devices={"b_*": 4}), ["a_test.py", "b_test.py", "c_test.py"]
    assert list(suites.batches(options, entry, files)) == [(1, ["a_test.py", "c_test.py"]), (4, ["b_test.py"])]
    suite_results.Results(tmp_path, "small", "weft").add(dict(file="a_test.py", finished=10))
    assert sorted(suites.batches(options, entry, files)) == [(1, ["c_test.py"]), (4, ["b_test.py"])]
    options.sample = 20
    assert (1, ["a_test.py", "c_test.py"]) in list(suites.batches(options, entry, files))
    options.slice = "2/2"
    assert list(suites.batches(options, entry, files)) == [(4, ["b_test.py"])]
    results = suite_results.Results(tmp_path, "small", "weft")
    for file, outcome in (("b_test.py", "pass"), ("c_test.py", "crash")):
        results.add(dict(id=f"{file}::test", outcome=outcome, reason=""))
        results.add(dict(file=file, finished=20))
    results.forget(suite_results.BAD)  # Only the file with what failed is taken up again.
    assert list(results.cases) == ["b_test.py::test"] and list(results.finished) == ["a_test.py", "b_test.py"]


def test_judgement(tmp_path, monkeypatch):
    """Worse than XLA:CPU, as bad, skipped only here; and a difference that is explained."""
    ours, theirs = (suite_results.Results(tmp_path, "small", platform) for platform in ("weft", "cpu"))
    for name, here, there in (("a[1]", "fail", "pass"), ("b", "crash", "timeout"), ("c", "skip", "pass"), ("d", "pass", "pass")):
        ours.add(dict(id=name, outcome=here, cpu=1, reason=""))
        theirs.add(dict(id=name, outcome=there, cpu=1, reason=""))
    verdict = suite_results.judge(ours, suite_results.Results(tmp_path, "small", "cpu"))
    assert [[case for case, *_ in kind] for kind in verdict] == [["a[1]"], ["b"], [], [], ["c"]]
    monkeypatch.setattr(suite_results, "KNOWN", json.loads('[{"library": "small", "case": "a[*", "reason": "of old"}]'))
    assert suite_results.known_reason("small", "a[1]") == "of old" and suite_results.known_reason("small", "c") is None
    ours.add(dict(id="a[2]", outcome="timeout", cpu=1, reason="over 60 s"))  # Known, and not compared.
    ours.add(dict(id="e", outcome="timeout", cpu=1, reason="over 60 s"))
    rows = suite_report.summary(tmp_path, ["small"], "weft", {}, 300)
    assert rows[-4:-2] == ["| small: `a[1]` | 1 | of old |", "| small: `a[2]` | 1 | of old |"]
    assert rows[-1] == "| small: `e` | 1 | not compared yet: timeout: over 60 s |"
