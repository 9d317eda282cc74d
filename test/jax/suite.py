#!/usr/bin/env python3
"""Runs JAX's own tests on Weft (or on XLA, for comparison) and says how many pass: `./dev jax-suite --help`."""

import argparse
import collections
import fnmatch
import hashlib
import json
import os
import pathlib
import re
import sys
import time

import report
import workers

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# Where tests run: whose backend, the environment it wants, what tests see as device under test and, beside it, as the kind of
# a GPU (`cuda`, which XLA's own says by its name: a test that asks for it wants what an NVIDIA GPU can do), and with whose
# results it is compared.
PLATFORMS = {
    "weft": dict(ours=True, jax="weft,cpu", weft="cpu", dut="cpu", compare="cpu"),
    "weft-gpu": dict(ours=True, jax="weft,cpu", weft="gpu", dut="gpu", tag="cuda", compare="gpu"),
    "weft-pretend": dict(ours=True, jax="weft,cpu", weft="pretend", dut="gpu", tag="cuda", compare="gpu"),
    "cpu": dict(ours=False, jax="cpu", dut="", compare="cpu"),
    "cuda": dict(ours=False, jax="cuda,cpu", dut="", compare="gpu"),
}
BASELINES = {"cpu": HERE / "baseline.json", "gpu": HERE / "baseline-gpu.json"}
KNOWN = {"cpu": HERE / "known", "gpu": HERE / "known-gpu"}


def parse_arguments():
  parser = argparse.ArgumentParser(
      prog="./dev jax-suite", description=__doc__,
      epilog="Logs and results are in build/jax-suite. Status 1: a case that is not in test/jax/known broke.")
  parser.add_argument("files", nargs="*", help="test files (lax_test) or groups (lax numpy scipy …); all when none is named")
  parser.add_argument("--jax", default=os.environ.get("JAX_SUITE_CHECKOUT"), metavar="PATH",
                      help="a checkout of jax at the installed version (also JAX_SUITE_CHECKOUT)")
  parser.add_argument("--sample", type=int, default=0, metavar="N", help="only N cases a file, chosen by the hash of their id")
  parser.add_argument("-k", dest="match", default="", metavar="TEXT", help="only cases whose id contains TEXT or matches it as a pattern")
  parser.add_argument("--failed", action="store_true", help="only cases that did not pass the last time")
  parser.add_argument("--resume", action="store_true", help="keep the results there are, run what is missing")
  parser.add_argument("--workers", type=int, default=os.cpu_count(), metavar="N")
  parser.add_argument("--platform", choices=list(PLATFORMS), default="weft", help="cpu, cuda: XLA's own (the baselines)")
  parser.add_argument("--dut", choices=["cpu", "gpu", "weft"],
                      help="the name tests see as device under test; with weft many skip themselves for the name alone")
  parser.add_argument("--failed-on", choices=list(PLATFORMS), metavar="PLATFORM", help="only cases that did not pass there the last time")
  parser.add_argument("--minutes", type=float, default=0, metavar="M", help="begin no case after so long; --resume goes on")
  parser.add_argument("--any-version", action="store_true", help="tests of another release than the installed one")
  parser.add_argument("--x64", choices=["0", "1", "both"], default="0", help="JAX_ENABLE_X64")
  parser.add_argument("--timeout", type=float, default=120, metavar="S", help="a case over so many seconds has failed (120)")
  parser.add_argument("--memory", type=int, default=4096, metavar="MB", help="replace a worker that holds more (4096)")
  parser.add_argument("--report", action="store_true", help="run nothing: the table of the results there are")
  parser.add_argument("--write-docs", action="store_true", help="write the table to docs/jax-suite.md")
  parser.add_argument("--write-known", action="store_true", help="write what failed to test/jax/known")
  parser.add_argument("--write-baseline", action="store_true", help="with --platform cpu or cuda: write test/jax/baseline*.json")
  parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "jax-suite", metavar="DIR", help="where results and logs go")
  parser.add_argument("--verbose", action="store_true", help="print every case that fails as it does")
  options = parser.parse_args()
  options.dut = options.dut or PLATFORMS[options.platform]["dut"]
  if options.write_baseline and (PLATFORMS[options.platform]["ours"] or options.match or options.failed or options.failed_on):
    parser.error("--write-baseline wants --platform cpu or cuda and whole samples")
  if not options.report:
    if not options.jax:
      parser.error("say where JAX's tests are: --jax PATH or JAX_SUITE_CHECKOUT\n"
                   "  git clone --depth 1 --branch jax-v0.10.2 https://github.com/jax-ml/jax")
    if not (pathlib.Path(options.jax) / "tests" / "lax_test.py").exists():
      parser.error(f"{options.jax} has no tests/lax_test.py")
  return options


def chosen_files(names):
  """The groups and files that were asked for: {group: [file]}."""
  groups = json.loads((HERE / "groups.json").read_text())
  if not names:
    return groups
  chosen = collections.defaultdict(list)
  for name in names:
    name = pathlib.Path(name).stem
    if name in groups:
      chosen[name] += [file for file in groups[name] if file not in chosen[name]]
      continue
    owner = next((g for g, files in groups.items() if name in files or name + "_test" in files), "other")
    file = name if owner == "other" or name in groups[owner] else name + "_test"
    if file not in chosen[owner]:
      chosen[owner].append(file)
  return dict(chosen)


def by_hash(ids):
  """Ids in the order in which samples take them: the same on every machine, and a smaller sample is part of a larger."""
  return sorted(ids, key=lambda name: hashlib.sha256(name.encode()).digest())


def check_version(options):
  """The tests use JAX's internals: a checkout of another version is refused."""
  from importlib.metadata import version
  file = pathlib.Path(options.jax) / "jax" / "version.py"
  found = re.search(r'^_version = "([^"]+)"', file.read_text(), re.MULTILINE) if file.exists() else None
  if found and found[1] != version("jax") and not options.any_version:
    sys.exit(f"{options.jax} is jax {found[1]}, installed is {version('jax')}")


class Store:
  """Results as JSON lines, one file for each test file and setting of x64. A later line wins."""

  def __init__(self, folder):
    self.folder = folder
    folder.mkdir(parents=True, exist_ok=True)

  def _path(self, file, x64):
    return self.folder / f"{file}.x64_{x64}.jsonl"

  def load(self, file, x64):
    path = self._path(file, x64)
    if not path.exists():
      return None, {}
    total, results = None, {}
    for line in path.read_text().splitlines():
      try:
        row = json.loads(line)
      except ValueError:
        continue  # Cut short when a run was killed.
      if "cases" in row:
        total = row["cases"]
      else:
        results[row.pop("id")] = row
    return total, results

  def clear(self, file, x64):
    self._path(file, x64).unlink(missing_ok=True)

  def append(self, file, x64, row):
    with open(self._path(file, x64), "a") as out:
      out.write(json.dumps(row) + "\n")


def environment(options):
  """The environment of a worker."""
  tree = [str(ROOT / "python")]

  def make(job):
    env = dict(os.environ)
    platform = PLATFORMS[options.platform]
    env["JAX_PLATFORMS"] = platform["jax"]
    env["JAX_ENABLE_X64"] = str(job.x64)
    env["JAX_NUM_GENERATED_CASES"] = "4"
    env["JAX_SKIP_SLOW_TESTS"] = "true"
    env.setdefault("OPENBLAS_NUM_THREADS", "1")  # LAPACK: workers share the cores already
    env.setdefault("WEFT_CACHE", "0")
    env["PYTHONDONTWRITEBYTECODE"] = "1"
    if platform["compare"] == "gpu":
      env["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # workers share the GPU
    if platform["ours"]:
      env["WEFT_PLATFORM"] = platform["weft"]
      env["WEFT_CPU_DEVICES"] = str(device_count(options, job.file))
      env["PYTHONPATH"] = os.pathsep.join(filter(None, [*tree, env.get("PYTHONPATH")]))
      env.setdefault("WEFT_LIBRARY", str(ROOT / "build" / "libpjrt_weft.so"))
    else:
      env.pop("WEFT_AS", None)
    return env
  return make


def device_count(options, file):
  """As many devices as the file asks XLA:CPU for."""
  text = (pathlib.Path(options.jax) / "tests" / (file + ".py")).read_text()
  found = re.search(r"^jtu\.request_cpu_devices\((\d+)\)", text, re.MULTILINE)
  return int(found[1]) if found else 1


class Run:
  """One call of the command."""

  def __init__(self, options):
    self.options = options
    self.groups = chosen_files(options.files)
    self.settings_x64 = [0, 1] if options.x64 == "both" else [int(options.x64)]
    usual = options.dut == PLATFORMS[options.platform]["dut"]
    name = options.platform if usual else f"{options.platform}-dut-{options.dut}"
    self.folder = options.out.resolve() / name
    self.store = Store(self.folder)
    self.elsewhere = Store(options.out.resolve() / options.failed_on) if options.failed_on else None
    self.ran = {}  # (file, x64) -> {id: result} of this run, with those resumed.
    self.totals = {}
    self.errors = {}

  def wanted(self, job):
    """The ids of a job that shall run now; with --resume those done are put into `ran` instead."""
    ids = job.ids
    options = self.options
    _, old = self.old[job.file, job.x64]
    if options.match:
      ids = [name for name in ids if options.match in name or fnmatch.fnmatch(name, options.match)]
    if options.sample:
      ids = by_hash(ids)[:options.sample]
    if options.failed_on:
      bad = self.elsewhere.load(job.file, job.x64)[1]
      ids = [name for name in ids if bad.get(name, {}).get("outcome") in report.BAD]
    if options.failed:
      ids = [name for name in ids if old.get(name, {}).get("outcome") in report.BAD]
    done = self.ran.setdefault((job.file, job.x64), {})
    if options.resume:
      done.update({name: old[name] for name in ids if name in old})
    self.totals[job.file, job.x64] = len(job.ids)
    self.store.append(job.file, job.x64, {"cases": len(job.ids)})
    return set(ids) - done.keys()

  def on_result(self, job, name, result):
    self.ran[job.file, job.x64][name] = result
    self.store.append(job.file, job.x64, {"id": name, **result})
    self.count += 1
    if result["outcome"] in report.BAD and self.options.verbose:
      print(f"{result['outcome']:8}{job.file}::{name}: {result['reason'][:160]}", flush=True)

  def on_job(self, job):
    self.jobs_done += 1
    if job.error:
      self.errors[job.file, job.x64] = job.error
    counts = report.count(self.ran.get((job.file, job.x64), {}).values())
    words = " ".join(f"{counts[key]} {key}" for key in report.OUTCOMES if counts[key])
    note = f"  {job.error[:200]}" if job.error else ""
    x64 = f" x64={job.x64}" if len(self.settings_x64) > 1 or job.x64 else ""
    print(f"[{time.monotonic() - self.begin:6.0f} s {self.jobs_done:3}/{self.jobs_all}] {job.file}{x64}: {words}{note}", flush=True)

  def execute(self):
    options = self.options
    jobs = []
    self.old = {}
    for files in self.groups.values():
      for file in files:
        for x64 in self.settings_x64:
          if not (pathlib.Path(options.jax) / "tests" / (file + ".py")).exists():
            self.errors[file, x64] = "not in this checkout"
            continue
          self.old[file, x64] = self.store.load(file, x64)
          if not (options.resume or options.failed or options.match):
            self.store.clear(file, x64)
          if options.resume and self.complete(file, x64):
            continue
          if options.failed_on and not any(
              row["outcome"] in report.BAD for row in self.elsewhere.load(file, x64)[1].values()):
            continue
          if options.failed and not any(row["outcome"] in report.BAD for row in self.old[file, x64][1].values()):
            continue
          jobs.append(workers.Job(file, x64, self.wanted))
    # Long files first, so that the end of the run is not one of them alone.
    if not options.sample:
      jobs.sort(key=lambda job: -(pathlib.Path(options.jax) / "tests" / (job.file + ".py")).stat().st_size)
    logs = self.folder / "logs"
    logs.mkdir(exist_ok=True)
    for job in jobs:
      for log in logs.glob(f"{job.file}.x64_{job.x64}.*.log"):
        log.unlink()
    settings = workers.Settings(
        sys.executable, pathlib.Path(options.jax).resolve(), logs, options.platform, options.dut,
        PLATFORMS[options.platform].get("tag", ""), environment(options), options.timeout, options.memory)
    self.begin, self.count, self.jobs_done, self.jobs_all = time.monotonic(), 0, 0, len(jobs)
    try:
      workers.Pool(settings, jobs, options.workers, self.on_result, self.on_job, options.minutes * 60).run()
    except KeyboardInterrupt:
      print("stopped; --resume goes on", file=sys.stderr)
    print(f"{self.count} cases in {time.monotonic() - self.begin:.0f} s")

  def complete(self, file, x64):
    """Whether a resumed file has nothing left to do; known without collecting it only for whole runs and samples."""
    total, old = self.old[file, x64]
    options = self.options
    if total is None or options.match or options.failed or options.failed_on:
      return False
    if len(old) < min(total, options.sample or total):
      return False
    self.ran[file, x64] = {name: old[name] for name in (by_hash(old)[:options.sample] if options.sample else old)}
    self.totals[file, x64] = total
    return True

  def load(self):
    """For --report: all results there are."""
    for files in self.groups.values():
      for file in files:
        for x64 in self.settings_x64:
          total, results = self.store.load(file, x64)
          if total is not None:
            self.totals[file, x64] = total
            self.ran[file, x64] = results


def main():
  options = parse_arguments()
  run = Run(options)
  if options.report:
    run.load()
  else:
    check_version(options)
    run.execute()
  platform = PLATFORMS[options.platform]
  baseline = report.Baseline(BASELINES[platform["compare"]], by_hash)
  known = report.Known(KNOWN[platform["compare"]])
  summary = report.Summary(run.groups, run.ran, run.totals, run.errors, baseline, known, platform["ours"])
  summary.print_table()
  summary.print_times()
  if platform["ours"]:
    summary.print_fallbacks()
  summary.print_failures()
  if options.write_baseline:
    baseline.write(run.ran, run.totals, options.sample)
  if options.write_known:
    whole = not (options.sample or options.match or options.failed or options.failed_on or options.minutes)
    known.write(run.ran, run.groups, whole)
  if options.write_docs:
    summary.write_docs(ROOT / "docs" / ("jax-suite.md" if platform["compare"] == "cpu" else "jax-suite-gpu.md"), options)
  sys.exit(summary.status())


if __name__ == "__main__":
  main()
