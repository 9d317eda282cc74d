"""Runs libraries' own tests on Weft, then those that did not pass on XLA:CPU as well, and says which failures are Weft's.

  suites.py all [LIBRARY...] --sources ..                  # the libraries of libraries.json
  suites.py run optax ../optax 'optax/**/*_test.py' --sample 40
  suites.py report [NAME...]
  suites.py table docs/libraries.md

Results are JSON lines in build/libraries/NAME.PLATFORM.jsonl; a run goes on where the last one ended (`--fresh` begins
anew, `--failed` repeats what failed). A case over its limit or a crash ends the process, is recorded,
and another process takes the rest.
"""

import argparse
import fnmatch
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import suite_report
import suite_results
import suite_sources

HERE = pathlib.Path(__file__).resolve().parent
OUT = HERE.parent.parent / "build" / "libraries"  # Another with --out.
LIBRARIES = json.loads((HERE / "libraries.json").read_text())
CASES_A_FILE = 300
FILES_A_PROCESS = 8
PYTEST_RAN = (0, 1, 5)  # Its statuses when all passed, some failed, there was nothing to run.


def environment(options, platform, settings):
  env = dict(os.environ, LIBRARY_SUITE=json.dumps(settings))
  env["JAX_PLATFORMS"] = "cpu" if platform == "cpu" else f"{platform},cpu"
  env["PYTHONPATH"] = os.pathsep.join([str(HERE), *filter(None, [env.get("PYTHONPATH")])])
  for assignment in options.env:
    key, _, value = assignment.partition("=")
    env[key] = value
  return env


def run_files(options, platform, files, only=None, again=False):
  """Runs the cases of these files that have no result yet, or, `again`, those of `only`; False when the time is over first."""
  results = suite_results.Results(OUT, options.name, platform)
  done = set() if again else set(results.cases)
  log_path = OUT / "logs" / f"{options.name}.{platform}.log"
  log_path.parent.mkdir(parents=True, exist_ok=True)
  part = OUT / f"{options.name}.{platform}.{options.slice.replace('/', '_of_')}.part"
  take_results(results, part, done, False)  # Of a run that was interrupted.
  while True:  # A process for each case that kills one.
    settings = dict(out=str(part), platform=platform, limit=options.limit, total=options.total, deadline=options.deadline,
                    sample=options.sample, only=only, done=sorted(done))
    command = [options.python, "-m", "pytest", "-p", "suite_plugin", "-p", "no:cacheprovider", "-p", "no:faulthandler",
               "--rootdir", str(options.checkout), "-q", "--tb=short", "--no-header", "--continue-on-collection-errors", *options.pytest.split(), *files]
    with open(log_path, "a") as log:
      code = subprocess.run(command, cwd=options.checkout, env=environment(options, platform, settings),
                            stdout=log, stderr=log, stdin=subprocess.DEVNULL).returncode
    started = take_results(results, part, done, again)
    over = time.time() > options.deadline
    if started is None:
      if code not in PYTEST_RAN and not over:
        for file in files:
          results.add(dict(id=file, outcome="uncollected", seconds=0, cpu=0, reason=f"pytest: status {code}, see {log_path.name}"))
      return not over
    reason = f"over {options.limit:g} s" if code == 1 else signal.Signals(-code).name if code < 0 else f"status {code}"
    results.add(dict(id=started, outcome="timeout" if code == 1 else "crash", seconds=options.limit, cpu=options.limit, reason=reason))
    done.add(started)


def take_results(results, part, done, again):
  """Moves the lines of one process into the results; returns the case at which it died."""
  started = None
  for line in part.read_text().splitlines() if part.exists() else []:
    result = json.loads(line)
    if "start" in result:
      started = result["start"]
      continue
    if "id" in result:
      started = None
      result["again"] = again
      done.add(result["id"])
    results.add(result)
  part.unlink(missing_ok=True)
  return started


def compare_files(options, files):
  """Both platforms on some files; False when the time was over first."""
  if not run_files(options, options.platform, files):
    return False

  def ours():
    cases = suite_results.Results(OUT, options.name, options.platform).cases
    return {case: result for case, result in cases.items() if case.split("::")[0] in files}

  again = [case for case, result in ours().items() if result["outcome"] == "fail" and not result.get("again")]
  # Away from the others: some tests disturb those that follow.
  if again and not run_files(options, options.platform, sorted({case.split("::")[0] for case in again}), only=again, again=True):
    return False
  compared = suite_results.Results(OUT, options.name, "cpu").cases

  def wanted(result):
    return (options.xla == "all" or result["outcome"] in (*suite_results.BAD, "skip")
            or options.xla == "slow" and result["cpu"] > suite_results.SLOW_SECONDS)

  cases = [case for case, result in ours().items() if case not in compared and wanted(result)]
  return not cases or run_files(options, "cpu", sorted({case.split("::")[0] for case in cases}), only=cases)


def prepare(options):
  """Makes the folder of results; drops what `--fresh` and `--failed` ask for."""
  OUT.mkdir(parents=True, exist_ok=True)
  for platform in (options.platform, "cpu"):
    if options.fresh:
      suite_results.Results(OUT, options.name, platform).forget()
  if options.failed:
    suite_results.Results(OUT, options.name, options.platform).forget(suite_results.BAD)


def run(options):
  options.checkout, options.python = options.checkout.resolve(), sys.executable
  prepare(options)
  files = suite_sources.files_of(dict(tests=options.patterns), options.checkout)
  if not files:
    sys.exit(f"no file in {options.checkout} fits {' '.join(options.patterns)}")
  compare_files(options, files)
  return suite_report.report(OUT, [options.name], options.platform)


def batches(options, entry, files):
  """Files that may share a process: of one folder, with as many devices; without those that are done."""
  results = suite_results.Results(OUT, options.name, options.platform)
  index, _, count = options.slice.partition("/")
  groups = {}
  for k, file in enumerate(files):
    devices = next((n for pattern, n in entry.get("devices", {}).items() if fnmatch.fnmatchcase(file, pattern)), 1)
    if not results.is_finished(file, options.sample) and k % int(count) == int(index) - 1:
      groups.setdefault((devices, os.path.dirname(file)), []).append(file)
  for (devices, _), group in groups.items():
    for k in range(0, len(group), FILES_A_PROCESS):
      yield devices, group[k:k + FILES_A_PROCESS]


def run_library(options, library):
  """The tests of one library; a line when there is nothing to run."""
  entry = LIBRARIES[library]
  options.name, options.pytest = library, entry.get("pytest", "")
  prepare(options)
  options.checkout, why = suite_sources.find(library, entry, options.sources, OUT / "archives")
  if options.checkout is None:
    print(f"{library}: missing: {why}", flush=True)
    return
  try:
    options.python = suite_sources.install(library, entry)
  except (subprocess.CalledProcessError, OSError) as error:
    print(f"{library}: missing: {error}", flush=True)
    return
  for devices, files in batches(options, entry, suite_sources.files_of(entry, options.checkout)):
    if time.time() > options.deadline:
      return
    options.env = [f"{key}={value}" for key, value in entry.get("env", {}).items()]
    options.env += [f"XLA_FLAGS=--xla_force_host_platform_device_count={devices}"] * (devices > 1)
    print(f"{library}: {' '.join(files)}", file=sys.stderr, flush=True)
    if compare_files(options, files):
      results = suite_results.Results(OUT, library, options.platform)
      for file in files:
        results.add(dict(file=file, finished=options.sample))


def run_all(options):
  options.deadline = time.time() + 60 * options.minutes if options.minutes else float("inf")
  options.sources = options.sources.resolve() if options.sources else None
  if unknown := set(options.names) - set(LIBRARIES):
    sys.exit(f"no such library: {' '.join(sorted(unknown))}; there are {' '.join(LIBRARIES)}")
  names = options.names or list(LIBRARIES)
  for library in names:
    if time.time() < options.deadline:
      run_library(options, library)
  if time.time() > options.deadline:
    print("the time is over; run it again to go on")
  return suite_report.report(OUT, names, options.platform)


def arguments():
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--platform", default="weft")
  parser.add_argument("--out", type=pathlib.Path, default=OUT, help="where results are kept (build/libraries)")
  verbs = parser.add_subparsers(dest="verb", required=True)
  runs = verbs.add_parser("run", help="the tests of one checkout")
  runs.add_argument("name")
  runs.add_argument("checkout", type=pathlib.Path)
  runs.add_argument("patterns", nargs="+", help="test files, relative to the checkout")
  runs.add_argument("--pytest", default="", help="more arguments for pytest")
  runs.add_argument("--env", action="append", default=[], metavar="K=V")
  runs.add_argument("--total", type=float, default=0, metavar="S", help="seconds of processor time for one platform")
  runs.set_defaults(sample=0, slice="1/1", deadline=float("inf"))
  every = verbs.add_parser("all", help="the tests of the libraries of libraries.json")
  every.add_argument("names", nargs="*", metavar="LIBRARY", help=" ".join(LIBRARIES))
  every.add_argument("--sources", type=pathlib.Path, metavar="DIR", help="DIR/LIBRARY is a checkout, for those without tests in their source archive")
  every.add_argument("--minutes", type=float, default=0, metavar="N", help="stop after so long; the next run goes on (no limit)")
  every.add_argument("--slice", default="1/1", metavar="I/N", help="every Nth file, from the Ith on")
  every.set_defaults(sample=CASES_A_FILE, total=0)
  for verb in (runs, every):
    verb.add_argument("--sample", type=int, metavar="N", help="N cases of each file, chosen by the hash of their id; 0: all")
    verb.add_argument("--limit", type=float, default=120, metavar="S", help="seconds for one case (120)")
    verb.add_argument("--xla", choices=("failed", "slow", "all"), default="failed", help="which cases run on XLA:CPU as well (failed)")
    verb.add_argument("--fresh", action="store_true", help="forget results first")
    verb.add_argument("--failed", action="store_true", help="forget what failed first")
  reports = verbs.add_parser("report")
  reports.add_argument("names", nargs="*")
  tables = verbs.add_parser("table")
  tables.add_argument("file", type=pathlib.Path)
  return parser.parse_args()


def main():
  global OUT
  options = arguments()
  OUT = options.out.resolve()
  if options.verb in ("run", "all"):
    sys.exit(run(options) if options.verb == "run" else run_all(options))
  there = {path.name.split(".")[0] for path in OUT.glob(f"*.{options.platform}.jsonl")}
  names = [name for name in LIBRARIES if name in there] + sorted(there - set(LIBRARIES))
  if options.verb == "table":
    suite_report.table(OUT, options.file, names, options.platform, LIBRARIES, CASES_A_FILE)
  else:
    sys.exit(suite_report.report(OUT, options.names or names, options.platform))


if __name__ == "__main__":
  main()
