"""Runs some files of a suite in pytest on Weft, and what did not pass there on XLA:CPU.

`options` has the library's `name`, `checkout`, `python`, `pytest` and `env`, and of the command line `out`, `platform`, `limit`, `sample`,
`total`, `xla`, `first_deadline` (no case begins on Weft after it), `deadline` (nor a comparison), `job` (a number) and `claims` (a folder, or None).
"""

import json
import os
import pathlib
import signal
import subprocess
import time

import suite_results

HERE = pathlib.Path(__file__).resolve().parent
PYTEST_RAN = (0, 1, 5)  # Its statuses when all passed, some failed, there was nothing to run.
PYTEST_STOPPED = 2  # As suite_plugin does when the processor time is used up.
GRACE_SECONDS = 20  # For a case that runs when the time is over.


def environment(options, platform, settings):
  path = options.out / f"{options.name}.{platform}.{options.job}.settings"  # One variable cannot hold the ids of a large suite.
  path.write_text(json.dumps(settings))
  env = dict(os.environ, LIBRARY_SUITE=str(path))
  env["JAX_PLATFORMS"] = "cpu" if platform == "cpu" else f"{platform},cpu"
  env["PYTHONPATH"] = os.pathsep.join([str(HERE), *filter(None, [env.get("PYTHONPATH")])])
  for assignment in options.env:
    key, _, value = assignment.partition("=")
    env[key] = value
  return env


def pin(job):
  """Two cores for a job: as many threads in each process, and none that wait for a callback on the only one."""
  cores = sorted(os.sched_getaffinity(0))
  return lambda: os.sched_setaffinity(0, {cores[job % len(cores)], cores[(job + 1) % len(cores)]})


def pytest_status(options, platform, settings, files):
  """Of one process; None when it was stopped because the time is over."""
  # A library that makes errors of warnings would fail for those of other packages.
  command = [options.python, "-m", "pytest", "-p", "suite_plugin", "-p", "no:cacheprovider", "-p", "no:faulthandler", "-W", "ignore",
             "--rootdir", str(options.checkout), "-q", "--tb=short", "--no-header", "--continue-on-collection-errors",
             *options.pytest.split(), *files]
  log_path = options.out / "logs" / f"{options.name}.{platform}.{options.job}.log"
  log_path.parent.mkdir(parents=True, exist_ok=True)
  wait = None if settings["deadline"] == float("inf") else max(0, settings["deadline"] - time.time()) + GRACE_SECONDS
  with open(log_path, "a") as log:
    try:
      return subprocess.run(command, cwd=options.checkout, env=environment(options, platform, settings), stdout=log, stderr=log,
                            stdin=subprocess.DEVNULL, timeout=wait, preexec_fn=pin(options.job) if options.claims else None).returncode
    except subprocess.TimeoutExpired:
      return None


def run_files(options, platform, files, only=None, again=False):
  """Runs the cases of these files that have no result yet, or, `again`, those of `only`; False when the time is over first."""
  results = suite_results.Results(options.out, options.name, platform)
  done = set() if again else set(results.cases)
  deadline = options.first_deadline if only is None else options.deadline
  part = options.out / f"{options.name}.{platform}.{options.job}.part"
  while time.time() < deadline:  # A process for each case that kills one.
    settings = dict(out=str(part), platform=platform, limit=options.limit, total=options.total, deadline=deadline,
                    sample=options.sample, only=only, done=sorted(done), again=again, claims=options.claims)
    code = pytest_status(options, platform, settings, files)
    began = part.exists()
    started = suite_results.take_part(results, part, done)
    over = time.time() > deadline
    if started is None or code is None:
      stopped = options.total and code == PYTEST_STOPPED
      if code is not None and not (began and code in PYTEST_RAN) and not over and not stopped:
        for file in files:
          results.add(dict(id=file, outcome="uncollected", seconds=0, cpu=0, reason=f"pytest: status {code}, see the log"))
      return not over
    reason = f"over {options.limit:g} s" if code == 1 else signal.Signals(-code).name if code < 0 else f"status {code}"
    results.add(dict(id=started, outcome="timeout" if code == 1 else "crash", seconds=options.limit, cpu=options.limit, reason=reason))
    done.add(started)
  return False


def compare_files(options, files, all_begun=lambda: None):
  """Both platforms on some files; False when the time was over first. `all_begun`: called when no case is left to begin on Weft."""
  if not run_files(options, options.platform, files):
    return False
  all_begun()

  def ours():
    cases = suite_results.Results(options.out, options.name, options.platform).cases
    return {case: result for case, result in cases.items() if case.split("::")[0] in files}

  again = [case for case, result in ours().items() if result["outcome"] == "fail" and not result.get("again")]
  # Away from the others: some tests disturb those that follow.
  if again and not run_files(options, options.platform, sorted({case.split("::")[0] for case in again}), only=again, again=True):
    return False
  compared = suite_results.Results(options.out, options.name, "cpu").cases

  def wanted(result):
    return (options.xla == "all" or result["outcome"] in (*suite_results.BAD, "skip")
            or options.xla == "slow" and result["cpu"] > suite_results.SLOW_SECONDS)

  cases = [case for case, result in ours().items() if case not in compared and wanted(result)]
  return not cases or run_files(options, "cpu", sorted({case.split("::")[0] for case in cases}), only=cases)
