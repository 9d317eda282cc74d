"""What a run of JAX's tests amounts to: against XLA's results, against the known failures, as tables."""

import collections
import datetime
import fnmatch
import hashlib
import json
import platform as machine
import re

OUTCOMES = ("pass", "fail", "skip", "crash", "timeout")
BAD = ("fail", "crash", "timeout")


def count(results):
  counter = collections.Counter(result["outcome"] for result in results)
  return {key: counter[key] for key in OUTCOMES}


def digest(name):
  return hashlib.sha256(name.encode()).hexdigest()[:16]


class Baseline:
  """XLA:CPU's results: counts, and the ids that it fails or skips. A sampled file says up to which hash it was run."""

  def __init__(self, path, by_hash):
    self._path = path
    self._by_hash = by_hash
    self.files = json.loads(path.read_text()) if path.exists() else {}
    self._bad = {}
    for key, entry in self.files.items():
      self._bad[key] = {
          f"{owner}::{name}" if owner else name: outcome
          for outcome in ("skip", "fail")
          for owner, names in entry.get(outcome, {}).items()
          for name in names
      }

  @staticmethod
  def key(file, x64):
    return f"{file} x64={x64}"

  def outcome(self, file, x64, name):
    """pass, skip or fail; None when XLA:CPU was not asked."""
    key = self.key(file, x64)
    entry = self.files.get(key)
    if entry is None or ("up_to" in entry and digest(name) > entry["up_to"]):
      return None
    return self._bad[key].get(name, "pass")

  def write(self, ran, totals, sample):
    for (file, x64), results in ran.items():
      if len(results) < min(sample or totals[file, x64], totals[file, x64]):
        continue  # Not finished.
      entry = {"cases": totals[file, x64], "ran": len(results)}
      entry["pass"] = sum(result["outcome"] == "pass" for result in results.values())
      if sample and len(results) < totals[file, x64]:
        entry["up_to"] = max(digest(name) for name in results)
      for outcome, kinds in (("skip", ("skip",)), ("fail", BAD)):
        owners = collections.defaultdict(list)
        for name, result in results.items():
          if result["outcome"] in kinds:
            owner, _, case = name.rpartition("::")
            owners[owner].append(case)
        if owners:
          entry[outcome] = {owner: sorted(names) for owner, names in sorted(owners.items())}
      old = self.files.get(self.key(file, x64))
      if old is None or old["ran"] <= entry["ran"]:
        self.files[self.key(file, x64)] = entry
    rows = (f"{json.dumps(key)}: {json.dumps(self.files[key], separators=(',', ':'))}" for key in sorted(self.files))
    self._path.write_text("{\n" + ",\n".join(rows) + "\n}\n")


class Known:
  """Known failures: for each test file a text file of `Class::case  [x64=0|1]  # reason`; the id may be a pattern."""

  def __init__(self, folder):
    self._folder = folder
    self._rules = {}
    for path in sorted(folder.glob("*.txt")):
      self._rules[path.stem] = [rule for rule in map(self._parse, path.read_text().splitlines()) if rule]

  @staticmethod
  def _parse(line):
    body, _, reason = line.partition("#")
    words = body.split()
    if not words:
      return None
    x64 = int(words[1].removeprefix("x64=")) if len(words) > 1 else None
    return words[0], x64, reason.strip()

  def reason(self, file, x64, name):
    """Why a case is known to fail, or None."""
    for pattern, setting, reason in self._rules.get(file, ()):
      if setting in (None, x64) and (pattern == name or fnmatch.fnmatchcase(name, pattern)):
        return reason or "known"
    return None

  def write(self, ran, groups, whole):
    """Adds what failed; after a whole run also drops what passed."""
    self._folder.mkdir(exist_ok=True)
    for file in (file for files in groups.values() for file in files):
      runs = {x64: ran[file, x64] for x64 in (0, 1) if (file, x64) in ran}
      if not runs:
        continue
      rules = []
      for pattern, setting, reason in self._rules.get(file, ()):
        hits = [result["outcome"] for x64, results in runs.items() for name, result in results.items()
                if setting in (None, x64) and (pattern == name or fnmatch.fnmatchcase(name, pattern))]
        if not hits or not whole or any(outcome in BAD for outcome in hits):
          rules.append((pattern, setting, reason))
      self._rules[file] = rules
      for x64, results in runs.items():
        for name, result in results.items():
          if result["outcome"] in BAD and self.reason(file, x64, name) is None:
            bad_in_all = all(other.get(name, {}).get("outcome", "fail") in BAD for other in runs.values())
            setting = None if bad_in_all and len(runs) > 1 else x64
            reason = result["reason"] if result["outcome"] == "fail" else f"{result['outcome']}: {result['reason']}"
            self._rules[file].append((name, setting, reason[:160]))
      path = self._folder / f"{file}.txt"
      if self._rules[file]:
        lines = (f"{name}{'' if x64 is None else f' x64={x64}'}  # {reason}" for name, x64, reason in sorted(
            self._rules[file], key=lambda rule: (rule[0], rule[1] is not None, rule[1])))
        path.write_text("\n".join(lines) + "\n")
      else:
        path.unlink(missing_ok=True)


def pattern_of(reason):
  """An error's first line without what differs from case to case."""
  reason = re.sub(r"0x[0-9a-f]+", "0x…", reason)
  reason = re.sub(r"/[\w./-]*/", "", reason)
  reason = re.sub(r"\b[a-z]+\d*\[[\d,]*\](\{[\d,]*\})?", "shape", reason)
  reason = re.sub(r"(?<![\w.])-?\d+(\.\d+)?(e[-+]?\d+)?(?!\w)", "N", reason)
  reason = re.sub(r"\blapack_[sdcz]\w+", "lapack_…", reason)
  return reason[:150]


class Row:
  """Counts of one file, one group, or all."""

  def __init__(self):
    self.counts = dict.fromkeys(OUTCOMES, 0)
    self.cases = 0
    self.comparable = 0  # Cases of this run that XLA:CPU passes,
    self.matched = 0     # and those of them that pass here.

  def add(self, other):
    for key in OUTCOMES:
      self.counts[key] += other.counts[key]
    self.cases += other.cases
    self.comparable += other.comparable
    self.matched += other.matched

  def percent(self):
    return 100 * self.matched / self.comparable if self.comparable else None

  def cells(self):
    percent = self.percent()
    return [self.cases, sum(self.counts.values()), *(self.counts[key] for key in OUTCOMES),
            "–" if percent is None else f"{percent:.1f}"]


HEADER = ["", "cases", "run", *OUTCOMES, "% of XLA"]


class Summary:

  def __init__(self, groups, ran, totals, errors, baseline, known, ours):
    self.complete = all(len(results) >= totals[key] for key, results in ran.items())
    self.ran, self.errors, self.ours = ran, errors, ours
    self.rows, self.group_rows, self.all = {}, {}, Row()
    self.broken, self.fixed = [], []
    self.failures = collections.defaultdict(list)
    self.reasons = {}  # Of known failures, by the same key.
    self.x64 = sorted({x64 for _, x64 in ran})
    for group, files in groups.items():
      total = Row()
      for file in files:
        row = Row()
        for x64 in (0, 1):
          if (file, x64) in ran:
            self._add(row, file, x64, ran[file, x64], baseline, known)
            row.cases += totals.get((file, x64), 0)
        self.rows[group, file] = row
        total.add(row)
      self.group_rows[group] = total
      self.all.add(total)

  def _add(self, row, file, x64, results, baseline, known):
    for name, result in results.items():
      outcome = result["outcome"]
      row.counts[outcome] += 1
      expected = baseline.outcome(file, x64, name)
      if expected is None:  # XLA passes everything it does not skip.
        expected = "skip" if outcome == "skip" else "pass"
      if expected == "pass":
        row.comparable += 1
        row.matched += outcome == "pass"
      reason = known.reason(file, x64, name) if self.ours else None
      if outcome in BAD:
        key = outcome, pattern_of(result["reason"])
        self.failures[key].append(f"{file}::{name}" + (" x64" if x64 else ""))
        self.reasons.setdefault(key, reason or ("XLA fails too" if expected == "fail" else ""))
        if reason is None and expected != "fail":
          self.broken.append((file, x64, name, result))
      elif outcome == "pass" and reason is not None:
        self.fixed.append((file, x64, name))

  def table(self):
    """Rows of the table: (is group, cells)."""
    for group, total in self.group_rows.items():
      files = [file for owner, file in self.rows if owner == group]
      for file in files:
        yield False, [file, *self.rows[group, file].cells()]
      yield True, [group, *total.cells()]
    if len(self.group_rows) > 1:
      yield True, ["all", *self.all.cells()]

  def print_table(self):
    line = "{:42}" + "{:>8}" * (len(HEADER) - 2) + "{:>10}"
    print("\n" + line.format(*HEADER))
    for is_group, cells in self.table():
      cells[0] = cells[0] if is_group else "  " + cells[0]
      print(line.format(*map(str, cells)))
      if is_group:
        print()
    for (file, x64), error in sorted(self.errors.items()):
      print(f"{file} x64={x64}: {error}")

  def print_times(self):
    """CPU time of the cases themselves, start of the processes left out: the same on a busy machine."""
    spent = [result["cpu"] for results in self.ran.values() for result in results.values() if "cpu" in result]
    if spent:
      print(f"{sum(spent):.0f} s of CPU time in {len(spent)} cases, {sum(spent) / len(spent):.2f} s a case\n")

  def print_fallbacks(self):
    """Cases with programs that the evaluator ran, since native code cannot."""
    found = [f"{file}::{name}" for (file, _), results in self.ran.items() for name, result in results.items() if result.get("fallbacks")]
    cases = sum(len(results) for results in self.ran.values())
    if cases:
      print(f"{len(found)} of {cases} cases ({len(found) / cases:.2%}) have programs that the evaluator ran{':' if found else ''}", *found, sep="\n  ")
      print()

  def print_failures(self, limit=40):
    groups = sorted(self.failures.items(), key=lambda item: -len(item[1]))
    if groups:
      print(f"failures by the first line of their error ({sum(len(ids) for _, ids in groups)}):")
    for (outcome, reason), ids in groups[:limit]:
      print(f"{len(ids):6} {'' if outcome == 'fail' else outcome + ': '}{reason}\n         {ids[0]}")
    if len(groups) > limit:
      print(f"       and {len(groups) - limit} other kinds")
    if self.fixed:
      print(f"{len(self.fixed)} known failures pass now, e.g. {self.fixed[0][0]}::{self.fixed[0][2]}")
    if self.broken:
      print(f"\n{len(self.broken)} cases that should pass do not:")
      for file, x64, name, result in self.broken[:30]:
        print(f"  {file}::{name}{' x64' if x64 else ''}: {result['outcome']}: {result['reason'][:120]}")
      if len(self.broken) > 30:
        print(f"  and {len(self.broken) - 30} more (build/jax-suite has all)")

  def status(self):
    return 1 if self.broken or self.errors else 0

  def write_docs(self, path, options):
    from importlib.metadata import version
    path.parent.mkdir(exist_ok=True)
    sample = f"a sample of {options.sample} cases a file" if options.sample else "all cases" if self.complete else "of all cases those that ended in time"
    x64 = " and ".join(str(value) for value in self.x64)
    lines = [
        "# JAX's own tests on Weft", "",
        f"Written by `./dev jax-suite --write-docs` on {datetime.date.today()}: jax {version('jax')}, {machine.machine()}, {sample},",
        f"JAX_ENABLE_X64={x64}, JAX_NUM_GENERATED_CASES=4, JAX_SKIP_SLOW_TESTS=true; platform `{options.platform}`, the tests see `{options.dut}` as",
        "device under test. The last column is the share of what XLA:CPU passes (test/jax/baseline.json) that passes here; a case over",
        f"{options.timeout:g} s has failed. Known failures and their reasons are in test/jax/known.", "",
        "| group | cases | run | pass | fail | skip | crash | timeout | % of XLA |", "|---|" + "--:|" * 8]
    for is_group, cells in self.table():
      if is_group:
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    lines += ["", "| file | cases | run | pass | fail | skip | crash | timeout | % of XLA |", "|---|" + "--:|" * 8]
    for is_group, cells in self.table():
      if not is_group:
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    groups = sorted(self.failures.items(), key=lambda item: -len(item[1]))
    if groups:
      lines += ["", "## Failures by the first line of their error", "", "| cases | error | for example | why |", "|--:|---|---|---|"]
      for (outcome, reason), ids in groups[:60]:
        text = reason.replace("|", "\\|").replace("`", "'")
        why = self.reasons[outcome, reason].replace("|", "\\|")
        lines.append(f"| {len(ids)} | {'' if outcome == 'fail' else outcome + ': '}`{text}` | {ids[0]} | {why} |")
    path.write_text("\n".join(lines) + "\n")
    print(f"wrote {path}")
