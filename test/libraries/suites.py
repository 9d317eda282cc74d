"""Runs a library's own tests on Weft, then those that did not pass on XLA:CPU as well, and says which failures are Weft's.

  suites.py run optax ../optax 'optax/**/*_test.py' --sample 40
  suites.py run diffrax ../diffrax 'test/test_*.py' --xla all
  suites.py report [NAME...]
  suites.py table docs/libraries.md

Results are JSON lines in build/libraries/NAME.PLATFORM.jsonl; a run goes on where the last one ended (`--fresh` begins
anew, `--failed` repeats what failed). A case over its limit or a crash ends the process, is recorded,
and another process takes the rest.
"""

import argparse
import collections
import datetime
import importlib.metadata
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
OUT = HERE.parent.parent / "build" / "libraries"  # Another with --out.
BAD = ("fail", "timeout", "crash", "uncollected")
SLOW_SECONDS = 3.0


def results_file(name, platform):
  return OUT / f"{name}.{platform}.jsonl"


def load(name, platform):
  """{id: result} and the number of cases collected in each file."""
  cases, collected = {}, {}
  path = results_file(name, platform)
  if path.exists():
    for line in path.read_text().splitlines():
      result = json.loads(line)
      if "id" in result:
        cases[result["id"]] = result
      elif "total" in result:
        collected[result["file"]] = result["total"]
  return cases, collected


def save(name, platform, *results):
  with open(results_file(name, platform), "a") as file:
    for result in results:
      file.write(json.dumps(result) + "\n")


def environment(options, platform, settings):
  env = dict(os.environ, LIBRARY_SUITE=json.dumps(settings))
  env["JAX_PLATFORMS"] = "cpu" if platform == "cpu" else f"{platform},cpu"
  env["PYTHONPATH"] = os.pathsep.join([str(HERE), *filter(None, [env.get("PYTHONPATH")])])
  for assignment in options.env:
    key, _, value = assignment.partition("=")
    env[key] = value
  return env


def run_files(options, platform, files, only=None, again=False):
  """Runs the cases of these files that have no result yet, or, `again`, those of `only`."""
  done = {} if again else load(options.name, platform)[0]
  log_path = OUT / "logs" / f"{options.name}.{platform}.log"
  log_path.parent.mkdir(parents=True, exist_ok=True)
  part = OUT / f"{options.name}.{platform}.part"
  take_results(options.name, platform, part, done, again)  # Of a run that was interrupted.
  for _ in range(40):
    settings = dict(out=str(part), platform=platform, limit=options.limit, total=options.total, sample=options.sample, only=only, done=list(done))
    command = [sys.executable, "-m", "pytest", "-p", "suite_plugin", "-p", "no:cacheprovider", "-p", "no:faulthandler",
               "-q", "--tb=short", "--no-header", "--continue-on-collection-errors", *options.pytest.split(), *files]
    with open(log_path, "a") as log:
      code = subprocess.run(command, cwd=options.checkout, env=environment(options, platform, settings),
                            stdout=log, stderr=log, stdin=subprocess.DEVNULL).returncode
    started = take_results(options.name, platform, part, done, again)
    if started is None:
      return
    reason = f"over {options.limit:g} s" if code == 1 else f"status {code}"
    done[started] = dict(id=started, outcome="timeout" if code == 1 else "crash", seconds=options.limit, cpu=options.limit, reason=reason)
    save(options.name, platform, done[started])


def take_results(name, platform, part, done, again):
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
      done[result["id"]] = result
    save(name, platform, result)
  part.unlink(missing_ok=True)
  return started


def judge(name, platform):
  """Lines on the cases where the platform is worse than XLA:CPU."""
  ours, _ = load(name, platform)
  theirs, _ = load(name, "cpu")
  worse, both, unknown, slow = [], [], [], []
  for case, result in ours.items():
    other = theirs.get(case)
    if result["outcome"] == "uncollected" and ("ModuleNotFoundError" in result["reason"] or "ImportError" in result["reason"]):
      continue  # The test wants a package that is not installed.
    if result["outcome"] in BAD:
      kind = unknown if other is None else both if other["outcome"] in BAD else worse
      kind.append((case, result, other))
    elif other and result["cpu"] > SLOW_SECONDS and result["cpu"] > 2 * other["cpu"]:
      slow.append((case, result, other))
  return worse, both, unknown, slow


def report(names, platform):
  status = 0
  for name in names:
    ours, collected = load(name, platform)
    counts = collections.Counter(result["outcome"] for result in ours.values())
    worse, both, unknown, slow = judge(name, platform)
    print(f"{name}: {sum(collected.values())} cases in {len(collected)} files, {len(ours)} run, "
          + ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
          + f"; {len(both)} fail on XLA:CPU too")
    for case, result, other in worse:
      print(f"  ONLY HERE {case}: {result['outcome']}: {result['reason'][:200]} (XLA:CPU: {other['outcome']})")
    for case, result, _ in unknown:
      print(f"  NOT COMPARED {case}: {result['outcome']}: {result['reason'][:200]}")
    for case, result, other in slow:
      print(f"  SLOW {case}: {result['cpu']:.1f} s of processor time, XLA:CPU {other['cpu']:.1f} s")
    status |= bool(worse)
  return status


def run(options):
  options.checkout = options.checkout.resolve()
  OUT.mkdir(parents=True, exist_ok=True)
  if options.fresh:
    for platform in (options.platform, "cpu"):
      results_file(options.name, platform).unlink(missing_ok=True)
  if options.failed:
    cases, collected = load(options.name, options.platform)
    kept = [result for result in cases.values() if result["outcome"] not in BAD]
    kept += [dict(file=file, total=total) for file, total in collected.items()]
    results_file(options.name, options.platform).write_text("".join(json.dumps(result) + "\n" for result in kept))
  files = sorted({str(path.relative_to(options.checkout)) for pattern in options.patterns for path in options.checkout.glob(pattern)})
  if not files:
    sys.exit(f"no file in {options.checkout} fits {' '.join(options.patterns)}")
  run_files(options, options.platform, files)
  ours, _ = load(options.name, options.platform)
  again = [case for case, result in ours.items() if result["outcome"] == "fail" and not result.get("again")]
  if again:  # Away from the others: some tests disturb those that follow.
    run_files(options, options.platform, sorted({case.split("::")[0] for case in again}), only=again, again=True)
    ours, _ = load(options.name, options.platform)
  theirs, _ = load(options.name, "cpu")
  wanted = [case for case, result in ours.items() if case not in theirs and result["outcome"] != "uncollected"
            and (options.xla == "all" or result["outcome"] in BAD or options.xla == "slow" and result["cpu"] > SLOW_SECONDS)]
  if wanted:
    run_files(options, "cpu", sorted({case.split("::")[0] for case in wanted}), only=wanted)
  return report([options.name], options.platform)


def version(name):
  """That of the package: the part of a suite's name before its first dash."""
  try:
    return importlib.metadata.version({"haiku": "dm-haiku"}.get(name.split("-")[0], name.split("-")[0]))
  except importlib.metadata.PackageNotFoundError:
    return "?"


def table(path, names, platform):
  """Writes a row for each suite into a Markdown file, between its two marks."""
  rows = ["| library | version | cases | run | pass | skip | fail | on XLA:CPU too | only here |",
          "|---|---|--:|--:|--:|--:|--:|--:|--:|"]
  for name in names:
    ours, collected = load(name, platform)
    counts = collections.Counter(result["outcome"] for result in ours.values())
    worse, both, unknown, _ = judge(name, platform)
    bad = len(worse) + len(both) + len(unknown)
    numbers = [sum(collected.values()), len(ours) - counts["uncollected"], counts["pass"], counts["skip"] + counts["xfail"],
               bad, len(both), bad - len(both)]
    rows.append(f"| {name} | {version(name)} | " + " | ".join(map(str, numbers)) + " |")
  begin, end = "<!-- table -->\n", "<!-- end of table -->"
  text = path.read_text()
  head, tail = text.split(begin)[0], text.split(end)[1]
  date = f"{datetime.date.today()}, jax {importlib.metadata.version('jax')}, {os.uname().machine}, platform `{platform}`.\n\n"
  path.write_text(head + begin + date + "\n".join(rows) + "\n" + end + tail)


def main():
  global OUT
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--platform", default="weft")
  parser.add_argument("--out", type=pathlib.Path, default=OUT, help="where results are kept (build/libraries)")
  verbs = parser.add_subparsers(dest="verb", required=True)
  runs = verbs.add_parser("run")
  runs.add_argument("name")
  runs.add_argument("checkout", type=pathlib.Path)
  runs.add_argument("patterns", nargs="+", help="test files, relative to the checkout")
  runs.add_argument("--sample", type=int, default=0, metavar="N", help="N cases of each file, chosen by the hash of their id")
  runs.add_argument("--limit", type=float, default=120, metavar="S", help="seconds for one case (120)")
  runs.add_argument("--total", type=float, default=0, metavar="S", help="seconds of processor time for one platform")
  runs.add_argument("--pytest", default="", help="more arguments for pytest")
  runs.add_argument("--env", action="append", default=[], metavar="K=V")
  runs.add_argument("--xla", choices=("failed", "slow", "all"), default="failed", help="which cases run on XLA:CPU as well (failed)")
  runs.add_argument("--fresh", action="store_true")
  runs.add_argument("--failed", action="store_true")
  reports = verbs.add_parser("report")
  reports.add_argument("names", nargs="*")
  tables = verbs.add_parser("table")
  tables.add_argument("file", type=pathlib.Path)
  options = parser.parse_args()
  OUT = options.out.resolve()
  if options.verb == "run":
    sys.exit(run(options))
  names = sorted(path.name.split(".")[0] for path in OUT.glob(f"*.{options.platform}.jsonl"))
  if options.verb == "table":
    table(options.file, names, options.platform)
  else:
    sys.exit(report(options.names or names, options.platform))


if __name__ == "__main__":
  main()
