"""What runs inside pytest for suites.py: chooses cases, limits their time and writes one JSON line for each.

The variable LIBRARY_SUITE names a JSON file of settings: `out` (the file of results), `platform`, `limit` (seconds for one
case), `total` (seconds of processor time for the process, 0: no limit), `deadline` (no case begins after that time),
`sample` (cases of a file, chosen by the hash of their id; 0: all), `only` (ids, or null), `done` (ids that have a result), `again` (kept
in the results) and `claims` (a folder in which processes with the same files claim cases, or null).
A case over its limit ends the process, with the stacks of all threads on stderr.
"""

import collections
import faulthandler
import hashlib
import json
import os
import pathlib
import platform
import time

SETTINGS = json.loads(pathlib.Path(os.environ["LIBRARY_SUITE"]).read_text())


def write(**message):
  with open(SETTINGS["out"], "a") as file:
    file.write(json.dumps(message) + "\n")


def reason_of(report):
  """Why a phase failed or was skipped, in one line."""
  longrepr = report.longrepr
  if isinstance(longrepr, tuple):
    return longrepr[2].removeprefix("Skipped: ")[:300]
  crash = getattr(longrepr, "reprcrash", None)
  text = str(crash.message if crash is not None else longrepr)
  return " ".join(text.split())[:300]


def pytest_collectstart(collector):
  """Some suites ask for `cpu` in their conftest.py; the first array of a test file would then decide for all."""
  del collector
  import jax
  jax.config.update("jax_platform_name", SETTINGS["platform"])


def other_platform():
  """The platform that is in use in place of the one under test; empty: none. Does not set JAX up."""
  import jax
  from jax._src import xla_bridge
  used = jax.default_backend() if xla_bridge._backends else SETTINGS["platform"]
  return "" if used == SETTINGS["platform"] else used


def file_of(item):
  return item.nodeid.split("::")[0]


def pytest_collection_modifyitems(session, config, items):
  del session, config
  import jax
  write(environment=f"jax {jax.__version__}, Python {platform.python_version()}, {platform.machine()}")
  for file, total in collections.Counter(map(file_of, items)).items():
    write(file=file, total=total)
  if SETTINGS["only"] is not None:
    chosen = set(SETTINGS["only"])
  else:
    chosen, taken = set(), collections.Counter()
    for item in sorted(items, key=lambda item: hashlib.sha256(item.nodeid.encode()).digest()):
      if not SETTINGS["sample"] or taken[file_of(item)] < SETTINGS["sample"]:
        taken[file_of(item)] += 1
        chosen.add(item.nodeid)
  chosen -= set(SETTINGS["done"])
  items[:] = [item for item in items if item.nodeid in chosen]


def pytest_collectreport(report):
  if report.failed:
    errors = [line[2:].strip() for line in str(report.longrepr).splitlines() if line.startswith("E ")]
    write(id=report.nodeid, outcome="uncollected", seconds=0, cpu=0, reason=errors[-1][:300] if errors else reason_of(report))


class Case:
  """The case that runs."""
  begin = 0.0
  cpu = 0.0
  outcome = "pass"
  reason = ""


def pytest_runtest_logstart(nodeid, location):
  del location
  write(start=nodeid)
  Case.begin, Case.cpu, Case.outcome, Case.reason = time.monotonic(), time.process_time(), "pass", ""
  faulthandler.dump_traceback_later(SETTINGS["limit"], exit=True)


def pytest_runtest_logreport(report):
  if report.failed:
    Case.outcome, Case.reason = "fail", Case.reason or reason_of(report)
  elif report.skipped and Case.outcome == "pass":
    Case.outcome = "xfail" if hasattr(report, "wasxfail") else "skip"
    Case.reason = report.wasxfail if hasattr(report, "wasxfail") else reason_of(report)


def pytest_runtest_logfinish(nodeid, location):
  del location
  faulthandler.cancel_dump_traceback_later()
  if Case.outcome == "pass" and (used := other_platform()):
    Case.outcome, Case.reason = "fail", f"it ran on {used}"
  write(id=nodeid, outcome=Case.outcome, seconds=round(time.monotonic() - Case.begin, 3),
        cpu=round(time.process_time() - Case.cpu, 3), reason=Case.reason, again=SETTINGS["again"])


def is_claimed(nodeid):
  """Whether another process has this case."""
  name = hashlib.sha256(f"{SETTINGS['platform']} {SETTINGS['again']} {nodeid}".encode()).hexdigest()
  try:
    os.close(os.open(os.path.join(SETTINGS["claims"], name), os.O_CREAT | os.O_EXCL))
    return False
  except FileExistsError:
    return True


def pytest_runtest_protocol(item, nextitem):
  if SETTINGS["total"] and time.process_time() > SETTINGS["total"] or time.time() > SETTINGS["deadline"]:
    item.session.shouldstop = "the time is over"
    return True
  if SETTINGS["claims"] and is_claimed(item.nodeid):
    item.session._setupstate.teardown_exact(nextitem)  # Fixtures that it would have been the last to use.
    return True
  return None
