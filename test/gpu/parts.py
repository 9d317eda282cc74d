"""The parts of gpu-check: commands, their time limits, and what their output says."""

import collections
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

DETAIL = 4000  # characters of output that are kept of a row

# outcome: "ok", "failed", "timeout", "skipped" (the machine lacks something) or "none" (no time).
Row = collections.namedtuple("Row", "name detail outcome passed failed seconds", defaults=("none", 0, 0, 0.0))
Row.__doc__ = "One line of the table."


class Setting:
  """Where things are, and how long a part may take."""

  def __init__(self, root, options, end):
    self.root, self.options, self.end = root, options, end
    self.weft = str(options.build / "weft")
    self.device = options.device
    own = root / ".venv" / "bin" / "python"  # of a checkout; bundles take the one that runs
    self.python = str(own) if own.exists() else sys.executable

  def left(self):
    return max(1.0, self.end - time.monotonic())

  def environment(self, **more):
    python = os.pathsep.join(filter(None, [str(self.root / "python"), os.environ.get("PYTHONPATH", "")]))
    return {**os.environ, "PYTHONPATH": python, "WEFT_LIBRARY": str(self.options.build / "libpjrt_weft.so"), "WEFT_CACHE": "0", **more}

  def command(self, name, command, read, env=None, seconds=None):
    """A row: what `read(output, status)` makes of (passed, failed). A command over its time is ended with its children."""
    begin = time.monotonic()
    try:
      child = subprocess.Popen([str(word) for word in command], cwd=self.root, env=self.environment(**(env or {})), text=True, errors="replace",
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    except OSError as error:
      return Row(name, str(error), "failed", 0, 1)
    try:
      output, _ = child.communicate(timeout=min(self.left(), seconds or 1e9))
      timeout = False
    except subprocess.TimeoutExpired:
      os.killpg(child.pid, signal.SIGKILL)
      output, _ = child.communicate()
      timeout = True
    passed, failed = read(output, 0 if timeout else child.returncode)
    if not timeout and child.returncode != 0:
      failed = max(failed, 1)
    outcome = "failed" if failed else "timeout" if timeout else "ok"
    return Row(name, output[-DETAIL:] if outcome != "ok" else "", outcome, passed, failed, time.monotonic() - begin)


# What programs print.


def count(pattern, output):
  return sum(int(number) for number in re.findall(pattern, output))


def read_gtest(output, _):
  return count(r"\[  PASSED  \] (\d+) tests?", output), count(r"\[  FAILED  \] (\d+) tests?, listed", output)


def read_text_tests(output, _):
  return count(r"(?m)^(\d+) passed", output), count(r"(?m)^\d+ passed, (\d+) failed", output)


def read_random(output, _):
  failed = len(re.findall(r"(?m)^seed \d+:", output))
  return max(0, count(r"(?m)^(\d+) modules:", output) - failed), failed


def read_status(_, status):
  return int(status == 0), int(status != 0)


def read_bench(output, _):
  """Rows that were compared, and those with something wrong: what was not reached is in neither."""
  rows = re.findall(r"(?m)^\w+ {2,}\w+ .*$", output)
  wrong = [row for row in rows if re.search(r": failed|against NumPy|platforms differ", row)]
  return len(rows) - len(wrong), len(wrong)


def read_sanitizer(output, _):
  return 0, count(r"ERROR SUMMARY: (\d+) error", output) + count(r"RACECHECK SUMMARY: \d+ hazards? displayed \((\d+) error", output)


# The parts, most telling first.


class Part:
  usual, dry, seconds = True, False, 120


class DeviceTests(Part):
  """tests of the CUDA device and of library routines"""
  name = "device"

  def run(self, s):
    tests = [("gpu_test", "*Cuda*:*Routine*"), ("runtime_test", "*")]
    return [s.command(name, [s.options.build / name, f"--gtest_filter={pattern}", "--gtest_brief=1"], read_gtest)
            for name, pattern in tests if (s.options.build / name).exists()]


class TextTests(Part):
  """text tests, on the device"""
  name, dry, seconds = "run", True, 150

  def run(self, s):
    return [s.command(f"test/{folder}", [s.weft, "test", f"--device={s.device}", f"test/{folder}"], read_text_tests)
            for folder in ("run", "render", "lower")]


class RandomModules(Part):
  """random modules against the evaluator, in several processes"""
  name, dry, seconds = "random", True, 150

  def run(self, s):
    number = s.options.count or (2000 if s.device == "gpu" else 60)
    return [s.command("modules", [s.weft, "random", f"--device={s.device}", "--seed", s.options.seed, "--count", number, "--jobs", s.options.jobs], read_random)]


class KernelsAsCpp(Part):
  """the kernels' CUDA C compiled as C++, threads as fibers: what the printer gets wrong"""
  name, usual, dry, seconds = "host-cuda", False, True, 240

  def run(self, s):
    return [s.command("test/render", [s.weft, "test", "--device=host-cuda", "test/render"], read_text_tests),
            s.command("modules", [s.weft, "random", "--device=host-cuda", "--seed", s.options.seed, "--count", s.options.count or 16, "--jobs",
                                  s.options.jobs], read_random)]


class SameBits(Part):
  """the same bits on repeated runs and in another process"""
  name, dry, seconds = "repeat", True, 60

  def run(self, s):
    rows = []
    for path in sorted((s.root / "test" / "gpu").glob("*.hlo")):
      seen = []

      def read(output, status):
        seen.extend(re.findall(r"same bits: ([0-9a-f]{64})", output))
        return int(status == 0), int(status != 0 or len(set(seen)) != 1)

      for process in ("first", "again"):
        rows.append(s.command(f"{path.name} {process}", [s.weft, "run", f"--device={s.device}", "--repeat", "20", path], read))
    return rows


class Smoke(Part):
  """small JAX programs against NumPy"""
  name, dry, seconds = "jax", True, 120

  def run(self, s):
    if not (s.options.build / "libpjrt_weft.so").exists():
      return [Row("smoke.py", "no plugin in the build", "skipped")]
    if subprocess.run([s.python, "-c", "import jax"], capture_output=True).returncode != 0:
      return [Row("smoke.py", "no JAX for " + s.python, "skipped")]
    env = {"JAX_PLATFORMS": "weft", "WEFT_PLATFORM": s.device}
    return [s.command("smoke.py", [s.python, "test/gpu/smoke.py"], read_text_tests, env)]


class JaxTests(Part):
  """JAX's own tests (--jax PATH, --part I/N)"""
  name, usual, seconds = "suite", False, 540

  def run(self, s):
    index, of = map(int, s.options.part.split("/"))
    if not s.options.jax:
      return [Row(f"part {index}/{of}", "--jax PATH names a checkout", "skipped")]
    files = sorted(path.stem for path in pathlib.Path(s.options.jax, "tests").glob("*_test.py"))[index - 1::of]
    command = [sys.executable, "test/jax/suite.py", "--platform", f"weft-{s.device}", "--jax", s.options.jax, "--any-version", "--minutes",
               f"{s.left() / 60 - 0.5:.1f}", "--workers", s.options.jobs, "--out", s.root / "jax-suite", "--resume", *files]

    def read(output, _):
      return count(r"(\d+) passed", output), count(r"(\d+) failed", output)

    return [s.command(f"part {index}/{of}", command, read)]


class Sanitizers(Part):
  """compute-sanitizer: memcheck, racecheck, initcheck, synccheck on text tests and random modules"""
  name, seconds = "sanitize", 240

  def run(self, s):
    tool = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
    if tool is None or s.device != "gpu":
      return [Row("compute-sanitizer", "not on this machine", "skipped")]
    rows = []
    for check in ("memcheck", "racecheck", "initcheck", "synccheck"):
      watched = [tool, "--tool", check, "--target-processes", "all", "--print-limit", "5"]
      share = s.left() / (8 - len(rows))
      # Libraries store by ways that it does not see.
      options = ["--options=gpu.clear_outputs=true"] if check == "initcheck" else []
      rows.append(s.command(f"{check} test/run", [*watched, s.weft, "test", "--device=gpu", *options, "test/run"], read_sanitizer, seconds=share))
      rows.append(s.command(f"{check} random", [*watched, s.weft, "random", "--device=gpu", *options, "--count", "200", "--seed", "1", "--jobs", "4"],
                            read_sanitizer, seconds=share))
    return rows


class Benches(Part):
  """bench/gpu beside JAX's CUDA backend, the quick ones"""
  name, seconds = "bench", 180

  def run(self, s):
    if s.device != "gpu":
      return [Row("bench/gpu", "not on this machine", "skipped")]
    minutes = max(0.1, s.left() / 60 - 0.25)  # the last program may take longer
    return [s.command("run.py", [s.python, "bench/gpu/run.py", "--quick", "--minutes", f"{minutes:.2f}", "--out", s.root / "gpu-bench.json"],
                      read_bench)]


class Compiled(Part):
  """NVRTC accepts the kernels for every machine it knows; registers and spills are those of resources.txt"""
  name, usual, dry, seconds = "compile", False, True, 90

  def run(self, s):
    import resources
    return resources.rows(s)


ALL = [part() for part in (DeviceTests, TextTests, RandomModules, KernelsAsCpp, SameBits, Smoke, Compiled, Sanitizers, Benches, JaxTests)]
