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
import copy
import fnmatch
import itertools
import json
import os
import pathlib
import subprocess
import sys
import time

import suite_jobs
import suite_report
import suite_results
import suite_run
import suite_sources

HERE = pathlib.Path(__file__).resolve().parent
OUT = HERE.parent.parent / "build" / "libraries"
LIBRARIES = json.loads((HERE / "libraries.json").read_text())
CASES_A_FILE = 300
FILES_A_PROCESS = 8
FILES_A_JOB = 3  # Where several run side by side.
COMPARISON_SHARE = 0.15  # Of the time, to repeat what failed.


def prepare(options):
  """Makes the folder of results; drops what `--fresh` and `--failed` ask for."""
  options.out.mkdir(parents=True, exist_ok=True)
  for platform in (options.platform, "cpu"):
    results = suite_results.Results(options.out, options.name, platform)
    for part in options.out.glob(f"{options.name}.{platform}.*.part"):  # Of a run that was interrupted.
      suite_results.take_part(results, part, set())
    if options.fresh:
      results.forget()
  if options.failed:
    suite_results.Results(options.out, options.name, options.platform).forget(suite_results.BAD)


def check_platform(python, platform):
  """Ends the run where JAX does not find the platform: every case would fail."""
  result = subprocess.run([python, "-c", "import jax; jax.devices()"], env=dict(os.environ, JAX_PLATFORMS=platform), capture_output=True, text=True)
  if result.returncode:
    why = (result.stderr.strip().splitlines() or ["no message"])[-1]
    sys.exit(f"JAX does not find the platform {platform} ({why}); install the plugin, or set WEFT_LIBRARY and PYTHONPATH as ./dev libraries does")


def run(options):
  options.checkout, options.python = options.checkout.resolve(), sys.executable
  check_platform(options.python, options.platform)
  prepare(options)
  files = suite_sources.files_of(dict(tests=options.patterns), options.checkout)
  if not files:
    sys.exit(f"no file in {options.checkout} fits {' '.join(options.patterns)}")
  suite_run.compare_files(options, files)
  return suite_report.report(options.out, [options.name], options.platform)


def batches(options, entry, files):
  """Files that may share a process: of one folder, with as many devices; without those that are done."""
  results = suite_results.Results(options.out, options.name, options.platform)
  index, _, count = options.slice.partition("/")
  groups = {}
  for k, file in enumerate(files):
    devices = next((n for pattern, n in entry.get("devices", {}).items() if fnmatch.fnmatchcase(file, pattern)), 1)
    if not results.is_finished(file, options.sample) and k % int(count) == int(index) - 1:
      groups.setdefault((devices, os.path.dirname(file)), []).append(file)
  size = FILES_A_PROCESS if options.jobs == 1 else FILES_A_JOB
  for (devices, _), group in groups.items():
    for k in range(0, len(group), size):
      yield devices, group[k:k + size]


def units_of(options, library):
  """What there is to run of one library; a line when there is nothing."""
  entry = LIBRARIES[library]
  options = copy.copy(options)
  options.name, options.pytest = library, entry.get("pytest", "")
  prepare(options)
  places = entry if options.install else dict(entry, prefer="checkout")
  options.checkout, why = suite_sources.find(library, places, options.sources, options.out / "archives")
  if options.checkout is None:
    print(f"{library}: missing: {why}", flush=True)
    return
  try:
    options.python = suite_sources.install(library, entry) if options.install else sys.executable
  except (subprocess.CalledProcessError, OSError) as error:
    print(f"{library}: missing: {error}", flush=True)
    return
  for devices, files in batches(options, entry, suite_sources.files_of(entry, options.checkout)):
    unit = suite_jobs.Unit(copy.copy(options), files)
    unit.options.env = [f"{key}={value}" for key, value in entry.get("env", {}).items()]
    unit.options.env += [f"XLA_FLAGS=--xla_force_host_platform_device_count={devices}"] * (devices > 1)
    yield unit


def finish(unit):
  results = suite_results.Results(unit.options.out, unit.options.name, unit.options.platform)
  for file in unit.files:
    results.add(dict(file=file, finished=unit.options.sample))
  print(f"{unit.options.name}: {' '.join(unit.files)}", file=sys.stderr, flush=True)


def run_all(options):
  begin, seconds = time.time(), 60 * options.minutes
  options.deadline = begin + seconds if seconds else float("inf")
  options.first_deadline = begin + seconds * (1 - COMPARISON_SHARE) if seconds else float("inf")
  options.sources = options.sources.resolve() if options.sources else None
  if unknown := set(options.names) - set(LIBRARIES):
    sys.exit(f"no such library: {' '.join(sorted(unknown))}; there are {' '.join(LIBRARIES)}")
  names = options.names or list(LIBRARIES)
  if options.jobs == 1:  # One library after another, each installed when its turn comes.
    for library in names:
      if time.time() < options.first_deadline:
        suite_jobs.run_units(units_of(options, library), 1, finish)
  else:
    queues = [list(units_of(options, library)) for library in names]
    units = [unit for row in itertools.zip_longest(*queues) for unit in row if unit]  # Some of each library first.
    suite_jobs.run_units(units, options.jobs, finish)
  if time.time() > options.first_deadline:
    print("the time is over; run it again to go on")
  return suite_report.report(options.out, names, options.platform)


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
  runs.set_defaults(sample=0, first_deadline=float("inf"), deadline=float("inf"))
  every = verbs.add_parser("all", help="the tests of the libraries of libraries.json")
  every.add_argument("names", nargs="*", metavar="LIBRARY", help=" ".join(LIBRARIES))
  every.add_argument("--sources", type=pathlib.Path, metavar="DIR", help="DIR/LIBRARY is a checkout, for those without tests in their source archive")
  every.add_argument("--minutes", type=float, default=0, metavar="N", help="stop after so long; the next run goes on (no limit)")
  every.add_argument("--slice", default="1/1", metavar="I/N", help="every Nth file, from the Ith on")
  every.add_argument("--jobs", type=int, default=1, metavar="N", help="processes side by side, two cores for each (1)")
  every.add_argument("--installed", dest="install", action="store_false", help="run in this Python, with what it has")
  every.set_defaults(sample=CASES_A_FILE, total=0)
  parser.set_defaults(job=0, claims=None)
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
  options = arguments()
  options.out = options.out.resolve()
  if options.verb in ("run", "all"):
    sys.exit(run(options) if options.verb == "run" else run_all(options))
  there = {path.name.split(".")[0] for path in options.out.glob(f"*.{options.platform}.jsonl")}
  names = [name for name in LIBRARIES if name in there] + sorted(there - set(LIBRARIES))
  if options.verb == "table":
    suite_report.table(options.out, options.file, names, options.platform, LIBRARIES, CASES_A_FILE)
  else:
    sys.exit(suite_report.report(options.out, options.names or names, options.platform))


if __name__ == "__main__":
  main()
