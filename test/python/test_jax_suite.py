"""The runner of JAX's tests, on a small made-up checkout: outcomes, crashes, time limits, samples, resuming."""

import json
import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("jax")

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CASES = '''
import os, time, unittest
import jax.numpy as jnp

class SmallTest(unittest.TestCase):
  def test_a_passes(self): self.assertEqual(float(jnp.ones(3).sum()), 3)
  def test_b_fails(self): self.assertEqual(float(jnp.ones(3).sum()), 4)
  def test_c_crashes(self): os.abort()
  def test_d_skips(self): self.skipTest("for a reason")
  def test_e_hangs(self): time.sleep(1000)
  def test_f_passes(self): pass
'''


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
  path = tmp_path_factory.mktemp("checkout")
  (path / "tests").mkdir()
  (path / "pyproject.toml").write_text("[tool.pytest.ini_options]\naddopts = '--import-mode=importlib'\n")
  (path / "tests" / "lax_test.py").write_text(CASES)
  return path


def suite(checkout, out, *arguments):
  command = [
      sys.executable, str(ROOT / "test" / "jax" / "suite.py"), "--jax", str(checkout), "--platform", "cpu", "--out", str(out),
      "--timeout", "5", "--workers", "1", *arguments, "lax_test"]
  done = subprocess.run(command, capture_output=True, text=True, timeout=300)
  rows = {}
  for line in (out / "cpu" / "lax_test.x64_0.jsonl").read_text().splitlines():
    row = json.loads(line)
    if "id" in row:
      rows[row["id"].split("_", 1)[1]] = row
  return done, rows


def test_every_outcome_is_recorded(checkout, tmp_path):
  done, rows = suite(checkout, tmp_path)
  outcomes = {name: row["outcome"] for name, row in rows.items()}
  assert outcomes == {
      "a_passes": "pass", "b_fails": "fail", "c_crashes": "crash", "d_skips": "skip", "e_hangs": "timeout", "f_passes": "pass"}
  assert "AssertionError: 3.0 != 4" in rows["b_fails"]["reason"]
  assert "SIGABRT" in rows["c_crashes"]["reason"]
  assert rows["d_skips"]["reason"] == "for a reason"
  assert done.returncode == 1
  assert "3 cases that should pass do not" in done.stdout


def test_samples_nest_and_runs_resume(checkout, tmp_path):
  _, two = suite(checkout, tmp_path, "-k", "passes", "--sample", "1")
  assert len(two) == 1
  done, rows = suite(checkout, tmp_path, "-k", "passes", "--resume")
  assert set(rows) == {"a_passes", "f_passes"}
  assert set(two) < set(rows)
  assert done.stdout.count("1 cases in") == 1
  assert done.returncode == 0
