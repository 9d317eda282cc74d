"""One page of what was measured: ratios by program, roofline, scaling, compile time, from the JSON of bench/results.

    ./dev bench cpu --report FILE.html [--results DIR] [--machine aarch64-2core]

The newest file of each suite and machine is taken; charts are SVG inside the page, which needs nothing else.
"""

import argparse
import html
import json
import math
import pathlib
import re
import sys

import plot

RESULTS = pathlib.Path(__file__).resolve().parent.parent / "results"
SUITES = "dispatch loops fused matrix conv attention scaled spellings compile-scaling compile scaling".split()
STYLE = """body { font: 15px/1.45 sans-serif; max-width: 1000px; margin: 2em auto; padding: 0 1em; color: #222 }
h1 { font-size: 1.5em } h2 { font-size: 1.2em; margin-top: 2em } section { overflow-x: auto }
table { border-collapse: collapse } td, th { padding: .15em .8em; text-align: right } td:first-child, th:first-child { text-align: left }
tr:nth-child(even) { background: #f4f4f4 } .behind { color: #b3401a }"""


def newest(folder, machine):
  """(suite, machine): the content of its newest file."""
  found = {}
  for path in sorted(folder.glob("*.json")):
    match = re.fullmatch(r"(\d{4}-\d\d-\d\d)-(.+)-((?:x86_64|aarch64|arm64)-\d+core)", path.stem)
    if match and match[2] in SUITES and (not machine or match[3] == machine):
      found[match[2], match[3]] = json.loads(path.read_text())
  return found


def ratios(content):
  """cpu:weft of every program, or of every row of a suite that has one number for it."""
  found = {}
  for name, row in content.get("rows", {}).items():
    if not isinstance(row, dict):
      continue
    value = row.get("cpu:weft")
    value = value[1] if isinstance(value, list) else value
    if value is None and isinstance(row.get("weft"), (int, float)) and isinstance(row.get("cpu"), (int, float)):
      value = row["cpu"] / row["weft"]
    if isinstance(value, (int, float)) and value > 0:
      found[name] = value
  return found


def mean_of(values):
  return math.exp(sum(map(math.log, values)) / len(values))


def chart(write, *arguments):
  """The SVG that a function of plot.py writes."""
  class Text:
    def write_text(self, text):
      self.text = text
  target = Text()
  write(target, *arguments)
  return target.text


def ratio_section(suite, machine, content):
  values = ratios(content)
  if not values:
    return ""
  behind = sum(value < 0.95 for value in values.values())
  note = f"{len(values)} programs, geometric mean {mean_of(values.values()):.2f}, {behind} under 0.95; {html.escape(content.get('date', ''))}"
  return f"<section class='ratios'><h2>{suite} on {machine}: XLA:CPU over Weft</h2><p>{note}</p>{chart(plot.write_bars, 'above 1: Weft is faster', values)}</section>"


def roofline_section(found):
  """GFLOP/s by FLOP a byte, beside what copying and the fastest program allow."""
  parts = []
  for (suite, machine), content in found.items():
    points = []
    for row in content.get("rows", {}).values():
      if isinstance(row, dict) and row.get("flops") and row.get("bytes") and isinstance(row.get("weft"), list):
        points.append((row["flops"] / row["bytes"], row["flops"] / row["weft"][1] / 1e9))
    copy = content.get("copy GB/s")
    if len(points) < 2 or not copy:
      continue
    top = max(y for _, y in points)
    low, high = min(x for x, _ in points), max(x for x, _ in points)
    roof = sorted({low, max(low, min(high, top / copy)), high})
    series = {"programs": sorted(points), "roof": [(x, min(top, x * copy)) for x in roof]}
    parts.append(chart(plot.write_lines, f"{suite} on {machine}", "FLOP a byte", "GFLOP/s", series))
  return f"<section class='roofline'><h2>Roofline</h2>{''.join(parts)}</section>" if parts else ""


def scaling_section(machine, content):
  rows = content["rows"]
  counts = list(next(iter(rows.values()))["threads"])
  lines = [f"<tr><th>ms a call</th><th>bound by</th>{''.join(f'<th>{n}</th>' for n in counts)}<th>speedup</th></tr>"]
  for name, row in rows.items():
    behind = row["bound by"] == "compute" and row["speedup"] < 0.7 * int(counts[-1])
    cells = "".join(f"<td>{row['threads'][n]:.2f}</td>" for n in counts)
    mark = " class='behind'" if behind else ""
    lines.append(f"<tr{mark}><td>{html.escape(name)}</td><td>{row['bound by']}</td>{cells}<td>{row['speedup']:.2f}</td></tr>")
  bars = chart(plot.write_bars, f"speedup on {counts[-1]} threads", {name: row["speedup"] for name, row in rows.items()})
  return f"<section class='scaling'><h2>Threads on {machine}</h2><table>{''.join(lines)}</table>{bars}</section>"


def page(found):
  parts = [ratio_section(suite, machine, content) for (suite, machine), content in found.items() if not suite.startswith(("scaling", "compile"))]
  parts.append(roofline_section({key: content for key, content in found.items() if key[0] != "scaling"}))
  parts += [scaling_section(machine, content) for (suite, machine), content in found.items() if suite == "scaling"]
  for (suite, machine), content in found.items():
    if suite == "compile":
      parts.append(ratio_section("compile time", machine, content).replace("class='ratios'", "class='compile'"))
  return (f"<!doctype html><html lang='en'><meta charset='utf-8'><title>Weft on CPUs</title><style>{STYLE}</style>"
          f"<h1>Weft beside XLA:CPU</h1>{''.join(parts)}</html>\n")


def main():
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--report", required=True, type=pathlib.Path, metavar="FILE.html")
  parser.add_argument("--results", type=pathlib.Path, default=RESULTS)
  parser.add_argument("--machine", default="", help="results of this one alone, such as x86_64-16core")
  options = parser.parse_args()
  found = newest(options.results, options.machine)
  if not found:
    print(f"no results in {options.results}: run ./dev bench cpu first", file=sys.stderr)
    return 1
  options.report.write_text(page(found))
  print(f"wrote {options.report}: {len(found)} suites")
  return 0


if __name__ == "__main__":
  sys.exit(main())
