#!/usr/bin/env python3
"""The gallery of the guide: runs the programs of examples/gallery beside XLA:CPU, draws docs/gallery/NAME.png, writes the tables.

gallery.py [NAME]... [--no-picture] [--prefix COMMAND]     all programs, or those named; COMMAND goes in front of each run

Each run is a process of its own. Times are kept in docs/gallery/times.json; the tables of the pages are made of them.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAMS, PAGES = ROOT / "examples" / "gallery", ROOT / "docs" / "gallery"
TIMES = PAGES / "times.json"
TABLE = re.compile(r"<!-- table -->\n.*?<!-- end of table -->", re.S)


def names():
    return sorted(path.stem for path in PROGRAMS.glob("*.py") if path.stem != "show")


def machine():
    """The processor in words: what the tables are true of."""
    text = pathlib.Path("/proc/cpuinfo").read_text()
    found = re.search(r"^model name\s*: (.*)$", text, re.M)
    vectors = " with AVX-512" if "avx512f" in text else ""
    return f"{found[1] if found else platform.machine()}{vectors}, {len(os.sched_getaffinity(0))} cores"


def measure(name, picture, prefix):
    """Runs one program on both platforms: its row of the tables, or None where it failed."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [*prefix, sys.executable, str(PROGRAMS / f"{name}.py"), "--compare", "--json", file.name]
        if picture:
            command += ["--picture", str(PAGES / f"{name}.png")]
        if subprocess.run(command, check=False).returncode != 0:
            return None
        row = json.loads(pathlib.Path(file.name).read_text())
    return {**row, "machine": machine(), "date": str(datetime.date.today()), "load": round(os.getloadavg()[0], 1)}


def digits(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def busy(row):
    """Other work on the machine, which slows both."""
    if "load" not in row:
        return "; the load of the machine was not recorded"
    cores = int(re.search(r"(\d+) cores", row["machine"])[1])
    return f"; load average {row['load']:.1f}: other work ran beside it" if row["load"] > 1.5 * cores else ""


def page_table(row):
    (weft, xla), (weft_run, xla_run) = row["compile"], row["run"]
    return "\n".join([
        "| | Weft | XLA:CPU | Weft is |", "|---|--:|--:|--:|",
        f"| compile | {digits(weft)} s | {digits(xla)} s | {digits(xla / weft)} times as fast |",
        f"| run | {digits(1e3 * weft_run)} ms | {digits(1e3 * xla_run)} ms | {digits(xla_run / weft_run)} times as fast |", "",
        f"{row['machine']}; {row['date']}; medians, both in one process{busy(row)}. Largest difference of {', '.join(f'`{key}`' for key in row['compared'])}: "
        f"{row['difference']:.0e} of the largest value."])


def overview(rows):
    lines = ["| program | compile: Weft | XLA:CPU | run: Weft | XLA:CPU | run: times as fast |", "|---|--:|--:|--:|--:|--:|"]
    for name, row in sorted(rows.items()):
        (weft, xla), (weft_run, xla_run) = row["compile"], row["run"]
        lines.append(f"| [{name.replace('_', ' ')}]({name}.md) | {digits(weft)} s | {digits(xla)} s | {digits(1e3 * weft_run)} ms | "
                     f"{digits(1e3 * xla_run)} ms | {digits(xla_run / weft_run)} |")
    return "\n".join(lines)


def write_table(page, table):
    text = page.read_text()
    page.write_text(TABLE.sub(lambda _: f"<!-- table -->\n{table}\n<!-- end of table -->", text))


def write_pages(rows):
    for name, row in rows.items():
        if (PAGES / f"{name}.md").exists():
            write_table(PAGES / f"{name}.md", page_table(row))
    if (PAGES / "index.md").exists():
        write_table(PAGES / "index.md", overview(rows))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="programs")
    parser.add_argument("--no-picture", action="store_true")
    parser.add_argument("--prefix", default="", help="a command in front of each run")
    parser.add_argument("--pages", action="store_true", help="run nothing, write the tables from the times that are kept")
    options = parser.parse_args()
    unknown = set(options.names) - set(names())
    if unknown:
        parser.error(f"no such program: {', '.join(sorted(unknown))}; there are {', '.join(names())}")
    failed = []
    for name in [] if options.pages else options.names or names():
        print(f"==> {name}", flush=True)
        row = measure(name, not options.no_picture, shlex.split(options.prefix))
        if row is None:
            failed.append(name)
            continue
        rows = json.loads(TIMES.read_text()) if TIMES.exists() else {}
        TIMES.write_text(json.dumps({**rows, name: row}, indent=1, sort_keys=True) + "\n")
    write_pages(json.loads(TIMES.read_text()) if TIMES.exists() else {})
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
