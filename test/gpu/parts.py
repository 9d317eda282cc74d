"""The parts of gpu-check: commands, their time limits, and what their output says."""

import collections
import concurrent.futures
import json
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

  def together(self, name, commands, read, seconds=None):
    """One row of several commands, as many at once as --jobs says."""
    with concurrent.futures.ThreadPoolExecutor(max(1, self.options.jobs)) as pool:
      rows = list(pool.map(lambda command: self.command(name, command, read, seconds=seconds), commands))
    worst = next((o for o in ("failed", "timeout", "ok") if any(row.outcome == o for row in rows)), "ok")
    detail = "\n".join(row.detail for row in rows if row.outcome != "ok")
    return Row(name, detail[-DETAIL:], worst, sum(r.passed for r in rows), sum(r.failed for r in rows), max(r.seconds for r in rows))

  def command(self, name, command, read, env=None, seconds=None, show=False):
    """A row: what `read(output, status)` makes of (passed, failed). A command over its time is ended with its children.
    `show`: what it prints is of interest whatever comes out."""
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
    if show:
      print(output, file=sys.stderr, flush=True)
    return Row(name, output[-DETAIL:] if show or outcome != "ok" else "", outcome, passed, failed, time.monotonic() - begin)


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
    tests = [("gpu_test", "*Cuda*:*Routine*-*NearlyAllMemory/Cuda"), ("runtime_test", "*")]
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


class Runtime(Part):
  """no hidden waits, copies beside programs, Ctrl-C, memory of the first op, speed of transfers"""
  name, dry, seconds = "runtime", True, 90

  def run(self, s):
    if subprocess.run([s.python, "-c", "import jax"], capture_output=True).returncode != 0:
      return [Row("runtime.py", "no JAX for " + s.python, "skipped")]
    env = {"JAX_PLATFORMS": "weft", "WEFT_PLATFORM": s.device}
    cases = [] if s.device == "gpu" else ["chain", "overlap"]  # the others are in test/python too, or times
    return [s.command("runtime.py", [s.python, "test/gpu/runtime.py", *cases], read_text_tests, env, show=s.device == "gpu")]


class Soak(Part):
  """10,000 allocations of up to 95 % of memory, what the first program takes, programs and clients by the thousand"""
  name, seconds = "soak", 200

  def run(self, s):
    rows = []
    if (s.options.build / "gpu_test").exists() and s.device == "gpu":
      pattern = "Gpu/*NearlyAllMemory/Cuda:CudaGpu.TheFirst*"
      rows.append(s.command("memory", [s.options.build / "gpu_test", f"--gtest_filter={pattern}"], read_gtest, seconds=60, show=True))
    if (s.options.build / "pjrt_stress").exists():
      # Each cycle compiles.
      numbers = ["--cycles", 10_000, "--clients", 40, "--rounds", 10, "--endless", 100_000]
      if s.device != "gpu":
        numbers = ["--cycles", 100, "--clients", 8, "--rounds", 1]
      rows.append(s.command("pjrt_stress", [s.options.build / "pjrt_stress", *numbers],
                            read_status, {"WEFT_PLATFORM": s.device}, show=True))
    return rows or [Row("soak", "not built", "skipped")]


class Training(Part):
  """examples/train_transformer.py: the GPU beside XLA:GPU and beside a CPU"""
  name, seconds = "train", 120

  def run(self, s):
    if s.device != "gpu":
      return [Row("train_transformer.py", "not on this machine", "skipped")]
    env = {"JAX_PLATFORMS": "weft,cuda,cpu", "WEFT_PLATFORM": "gpu", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    return [s.command(f"weft and {other}", [s.python, "examples/train_transformer.py", "--platforms", f"weft,{other}", "--seconds", "40"],
                      read_status, env, show=True) for other in ("cuda", "cpu")]


class Baseline(Part):
  """JAX's own tests on XLA:GPU, recorded in test/jax/baseline-gpu.json (--jax PATH, --part I/N, --sample N)"""
  name, usual, seconds = "baseline", False, 540

  def run(self, s):
    return [jax_suite(s, "cuda", ["--write-baseline"])]


class JaxTests(Part):
  """JAX's own tests (--jax PATH, --part I/N)"""
  name, usual, seconds = "suite", False, 540

  def run(self, s):
    return [jax_suite(s, f"weft-{s.device}", [])]


def jax_suite(s, platform, more):
  index, of = map(int, s.options.part.split("/"))
  name = f"{platform} part {index}/{of}"
  if not s.options.jax:
    return Row(name, "--jax PATH names a checkout", "skipped")
  groups = json.loads((s.root / "test" / "jax" / "groups.json").read_text())
  files = sorted(file for some in groups.values() for file in some)[index - 1::of]
  command = [sys.executable, "test/jax/suite.py", "--platform", platform, "--jax", s.options.jax, "--any-version", "--minutes",
             f"{s.left() / 60 - 0.5:.1f}", "--workers", s.options.jobs, "--sample", s.options.sample, "--out", s.root / "jax-suite", "--resume",
             *more, *files]

  def read(output, _):
    return count(r"(\d+) passed", output), count(r"(\d+) failed", output)

  return s.command(name, command, read)


class Sanitizers(Part):
  """compute-sanitizer: memcheck, initcheck, synccheck, racecheck on text tests and 200 random modules, several processes at once"""
  name, seconds, checks = "sanitize", 400, ("memcheck", "initcheck", "synccheck", "racecheck")

  def run(self, s):
    tool = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
    if tool is None or s.device != "gpu":
      return [Row("compute-sanitizer", "not on this machine", "skipped")]
    rows = []
    files = sorted(str(path.relative_to(s.root)) for path in (s.root / "test" / "run").rglob("*.hlo"))
    jobs = max(1, s.options.jobs)
    for check in self.checks:
      watched = [tool, "--tool", check, "--target-processes", "all", "--print-limit", "5"]
      share = s.left() / (2 * len(self.checks) - len(rows))
      slices = [files[i::jobs] for i in range(jobs) if files[i::jobs]]
      rows.append(s.together(f"{check} test/run", [[*watched, s.weft, "test", "--device=gpu", *some] for some in slices], read_sanitizer, share))
      each = -(-200 // jobs)
      seeds = [[*watched, s.weft, "random", "--device=gpu", "--count", min(each, 200 - first), "--seed", 1 + first, "--jobs", 1]
               for first in range(0, 200, each)]
      rows.append(s.together(f"{check} random", seeds, read_sanitizer, share))
    return rows


class Races(Sanitizers):
  """compute-sanitizer's racecheck alone, which takes longest"""
  name, usual, seconds, checks = "races", False, 400, ("racecheck",)


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


ALL = [part() for part in (DeviceTests, TextTests, RandomModules, KernelsAsCpp, SameBits, Smoke, Runtime, Soak, Training, Compiled, Sanitizers, Races, Benches,
                              JaxTests, Baseline)]
