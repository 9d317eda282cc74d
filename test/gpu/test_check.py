#!/usr/bin/env python3
"""gpu-check itself: what it reads out of outputs, time limits, merged rows."""

import json
import pathlib
import sys
import tempfile
import time
import types
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import check
import parts
import resources


def setting(seconds=30):
  options = types.SimpleNamespace(build=pathlib.Path("build"), device="pretend")
  return parts.Setting(pathlib.Path(__file__).resolve().parent, options, time.monotonic() + seconds)


class CheckTest(unittest.TestCase):
  def test_outputs(self):
    self.assertEqual(parts.read_gtest("[  PASSED  ] 7 tests.\n[  FAILED  ] 2 tests, listed below:\n", 1), (7, 2))
    self.assertEqual(parts.read_text_tests("178 passed, 3 failed\n", 1), (178, 3))
    self.assertEqual(parts.read_random("seed 4: round 0\nweft: random: 5 of 9 modules, 5 s\n9 modules: failures\n", 1), (8, 1))
    self.assertEqual(parts.read_sanitizer("========= ERROR SUMMARY: 0 errors\n========= ERROR SUMMARY: 2 errors\n", 0), (0, 2))
    self.assertEqual(parts.read_sanitizer("========= RACECHECK SUMMARY: 3 hazards displayed (1 errors, 2 warnings)\n", 0), (0, 1))
    self.assertEqual(parts.read_bench("a_b   weft   1.0 us  cuda  2.0 us  2.00x\nc   weft failed  c: failed\ngeometric mean over kinds: 1\n", 0), (1, 1))

  def test_commands(self):
    self.assertEqual(setting().command("fine", ["true"], parts.read_status)[2:5], ("ok", 1, 0))
    self.assertEqual(setting().command("bad", ["sh", "-c", "echo 3 passed, 0 failed; exit 1"], parts.read_text_tests)[2:5], ("failed", 3, 1))
    self.assertEqual(setting().command("missing", ["/nowhere/weft"], parts.read_status).outcome, "failed")
    # Over its time: with its children, and no matter that they hold the pipe.
    begin = time.monotonic()
    row = setting(1).command("slow", ["sh", "-c", "sleep 60 & sleep 60"], lambda output, status: (0, 0))
    self.assertEqual(row.outcome, "timeout")
    self.assertLess(time.monotonic() - begin, 20)

  def test_rows_of_a_part_replace_those_it_had(self):
    with tempfile.TemporaryDirectory() as folder:
      path = pathlib.Path(folder) / "rows.json"
      row = {"part": "run", "detail": "x" * 100, "outcome": "failed", "passed": 0, "failed": 1, "seconds": 1.0, "commit": "a"}
      check.merge(path, [{**row, "name": "one"}, {**row, "name": "two"}])
      merged = check.merge(path, [{**row, "name": "two", "outcome": "ok", "commit": "b"}])
      self.assertEqual([(r["name"], r["outcome"], r["commit"]) for r in merged], [("one", "failed", "a"), ("two", "ok", "b")])
      self.assertEqual(json.loads(path.read_text()), merged)

  def test_resources(self):
    log = ("ptxas info    : Compiling entry function 'k0' for 'sm_90a'\nptxas info    : Function properties for k0\n"
           "    8 bytes stack frame, 16 bytes spill stores, 24 bytes spill loads\nptxas info    : Used 40 registers, used 0 barriers\n")
    self.assertEqual(resources.used(log), {"k0": (40, 40)})
    self.assertEqual(resources.worse({"m k0": (40, 0)}, {"m k0": (36, 0)}), [])
    self.assertEqual(len(resources.worse({"m k0": (60, 0), "m k1": (10, 8)}, {"m k0": (36, 0)})), 2)

  def test_arguments(self):
    self.assertEqual(check.arguments(["--parts", "run,jax"]).names, ["run", "jax"])
    self.assertNotIn("sanitize", check.arguments(["--dry"]).names)
    self.assertIn("compile", check.arguments(["--dry"]).names)


if __name__ == "__main__":
  unittest.main()
