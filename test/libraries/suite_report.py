"""What suites gave: lines for the terminal, and the tables of docs/libraries.md."""

import collections
import datetime
import importlib.metadata

import suite_results
import suite_sources


def report(folder, names, platform):
  """Prints a summary of each suite and every difference; 1 when one has no reason in known.json."""
  status = 0
  for name in names:
    ours = suite_results.Results(folder, name, platform)
    verdict = suite_results.judge(ours, suite_results.Results(folder, name, "cpu"))
    counts = collections.Counter(result["outcome"] for result in ours.cases.values())
    print(f"{name}: {sum(ours.totals.values())} cases in {len(ours.totals)} files, {len(ours.cases)} run, "
          + ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
          + f"; {len(verdict.both)} fail on XLA:CPU too")
    for word, cases in (("ONLY HERE", verdict.worse), ("SKIPPED HERE", verdict.skipped)):
      for case, result, other in cases:
        reason = suite_results.known_reason(name, case)
        status |= reason is None
        print(f"  {word} {case}: {result['outcome']}: {result['reason'][:200]} (XLA:CPU: {other['outcome']})"
              + (f"; known: {reason}" if reason else ""))
    for case, result, _ in verdict.unknown:
      reason = suite_results.known_reason(name, case)
      print(f"  NOT COMPARED {case}: {result['outcome']}: {result['reason'][:200]}" + (f"; known: {reason}" if reason else ""))
    for case, result, other in verdict.slow:
      print(f"  SLOW {case}: {result['cpu']:.1f} s of processor time, XLA:CPU {other['cpu']:.1f} s")
  return int(status)


def version(name, libraries):
  """That of the table; of a suite that is not in it, of the installed package before the name's first dash."""
  if name in libraries:
    return suite_sources.pinned(libraries[name])[1]
  try:
    return importlib.metadata.version(name.split("-")[0])
  except importlib.metadata.PackageNotFoundError:
    return "?"


def summary(folder, names, platform, libraries, limit):
  """Rows of the table, and of the table of differences."""
  rows = [f"| library | version | cases | at most {limit} a file | run | pass | skip | fail | on XLA:CPU too | only here | skipped only here |",
          "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"]
  sums, differences = [0] * 9, collections.Counter()
  for name in names:
    ours = suite_results.Results(folder, name, platform)
    verdict = suite_results.judge(ours, suite_results.Results(folder, name, "cpu"))
    counts = collections.Counter(result["outcome"] for result in ours.cases.values())
    bad = len(verdict.worse) + len(verdict.both) + len(verdict.unknown)
    numbers = [sum(ours.totals.values()), ours.chosen(limit), len(ours.cases) - counts["uncollected"], counts["pass"],
               counts["skip"] + counts["xfail"], bad, len(verdict.both), bad - len(verdict.both), len(verdict.skipped)]
    sums = [a + b for a, b in zip(sums, numbers)]
    rows.append(f"| {name} | {version(name, libraries)} | " + " | ".join(map(str, numbers)) + " |")
    for word, cases in (("not explained", verdict.worse + verdict.skipped), ("not compared yet", verdict.unknown)):
      for case, result, _ in cases:
        reason = suite_results.known_reason(name, case) or f"{word}: {result['outcome']}: {result['reason'][:120]}"
        differences[name, case.split("::")[0], reason.replace("|", "\\|").replace("\n", " ")] += 1
  rows.append("| together | | " + " | ".join(map(str, sums)) + " |")
  rows += ["", "| failures or skips on Weft only | cases | why |", "|---|--:|---|"]
  rows += [f"| {name}: `{file}` | {count} | {reason} |" for (name, file, reason), count in sorted(differences.items())]
  if not differences:
    rows.append("| none | | |")
  return rows


def table(folder, path, names, platform, libraries, limit):
  """Writes both tables into a Markdown file, between its two marks."""
  begin, end = "<!-- table -->\n", "<!-- end of table -->"
  text = path.read_text()
  head, tail = text.split(begin)[0], text.split(end)[1]
  environments = set().union(*(suite_results.Results(folder, name, platform).environments for name in names))
  date = f"{datetime.date.today()}, {'; '.join(sorted(environments))}, platform `{platform}`.\n\n"
  path.write_text(head + begin + date + "\n".join(summary(folder, names, platform, libraries, limit)) + "\n" + end + tail)
