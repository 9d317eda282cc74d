"""Results of suites: JSON lines in NAME.PLATFORM.jsonl, and how the two platforms compare.

A line is one case (`id`, `outcome`, `seconds`, `cpu`, `reason`), the number of cases of a file (`file`, `total`), that a
file is done with so many cases (`file`, `finished`; 0: all of them), or where they ran (`environment`).
"""

import collections
import fnmatch
import json
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
BAD = ("fail", "timeout", "crash", "uncollected")
SLOW_SECONDS = 3.0
KNOWN = json.loads((HERE / "known.json").read_text())


class Results:
  """The results of one suite on one platform, appended to as they come."""

  def __init__(self, folder, name, platform):
    self.path = folder / f"{name}.{platform}.jsonl"
    self.cases, self.totals, self.finished, self.environments = {}, {}, {}, set()
    if self.path.exists():
      for line in self.path.read_text().splitlines():
        self._take(json.loads(line))

  def _take(self, result):
    if "id" in result:
      self.cases[result["id"]] = result
    elif "total" in result:
      self.totals[result["file"]] = result["total"]
    elif "finished" in result:
      self.finished[result["file"]] = result["finished"]
    elif "environment" in result:
      self.environments.add(result["environment"])

  def add(self, result):
    self._take(result)
    with open(self.path, "a") as file:
      file.write(json.dumps(result) + "\n")

  def forget(self, outcomes=None):
    """Drops all results, or those with these outcomes, so that they run again."""
    kept = []
    if outcomes is not None:
      kept = [result for result in self.cases.values() if result["outcome"] not in outcomes]
      again = {case.split("::")[0] for case, result in self.cases.items() if result["outcome"] in outcomes}
      kept += [dict(file=file, total=total) for file, total in self.totals.items()]
      kept += [dict(file=file, finished=count) for file, count in self.finished.items() if file not in again]
      kept += [dict(environment=environment) for environment in self.environments]
    self.path.write_text("".join(json.dumps(result) + "\n" for result in kept))
    self.__init__(self.path.parent, *self.path.name.removesuffix(".jsonl").rsplit(".", 1))

  def is_finished(self, file, sample):
    done = self.finished.get(file)
    if done is None:
      return False
    return done == 0 or bool(sample) and done >= sample or done >= self.totals.get(file, done + 1)

  def chosen(self, sample):
    """How many cases `sample` of each file are."""
    return sum(min(total, sample) if sample else total for total in self.totals.values())


def take_part(results, part, done):
  """Moves the lines that a process wrote into the results; returns the case at which it died."""
  started = None
  for line in part.read_text().splitlines() if part.exists() else []:
    result = json.loads(line)
    if "start" in result:
      started = result["start"]
      continue
    if "id" in result:
      started = None
      done.add(result["id"])
    results.add(result)
  part.unlink(missing_ok=True)
  return started


def known_reason(name, case):
  for entry in KNOWN:
    if entry["library"] == name and fnmatch.fnmatchcase(case, entry["case"].replace("[", "[[]")):
      return entry["reason"]
  return None


Verdict = collections.namedtuple("Verdict", "worse both unknown slow skipped")


def judge(ours, theirs):
  """Cases (id, result, result of XLA:CPU): worse here, bad on both, not compared, slow here, skipped only here."""
  verdict = Verdict([], [], [], [], [])
  for case, result in ours.cases.items():
    other = theirs.cases.get(case)
    if result["outcome"] == "uncollected" and other is None:
      # On both alike, or the test wants a package that is not installed.
      if "ModuleNotFoundError" in result["reason"] or "ImportError" in result["reason"]:
        continue
    if result["outcome"] in BAD:
      kind = verdict.unknown if other is None else verdict.both if other["outcome"] in BAD else verdict.worse
      kind.append((case, result, other))
    elif result["outcome"] == "skip" and other and other["outcome"] == "pass":
      verdict.skipped.append((case, result, other))
    elif other and result["cpu"] > SLOW_SECONDS and result["cpu"] > 2 * other["cpu"]:
      verdict.slow.append((case, result, other))
  return verdict
