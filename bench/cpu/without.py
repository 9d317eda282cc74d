"""What compile options gain: programs of the suites with and without them, in two processes that take turns, by CPU time.

  without.py OPTIONS [--only NAME]... [--turns N] [--weft FILE]
  without.py --base BUILD [...]   the same for another commit's build folder rather than options

OPTIONS is what WEFT_OPTIONS takes, such as pipeline.disable=fuse, lower.disable=interchanged-loop, cpu.disable=weft-guard-widening.
Programs whose machine code is the same either way (`weft program --digest --emit=asm`) are left out; that looks
at programs as text, in which chlo ops are still there, while PJRT takes them decomposed: a pass that undoes that shows nothing. A line is a program and
its time with the options over its time without them: more than 1 is what the thing disabled gains. Least of the turns on either
side; user time of all threads, so that other work on the machine matters little.
"""

import argparse
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# What clients of JAX compile with.
USUAL = "optimize.select_by_masks=true,optimize.cancel_exponentials=true,cpu.flush_subnormals=true"


def programs():
  import fused_programs
  import loop_programs
  import spellings
  import unseen_programs

  every = [*loop_programs.PROGRAMS, *fused_programs.PROGRAMS, *spellings.PROGRAMS, *unseen_programs.PROGRAMS]
  return {program.name: program for program in every}


def work():
  """Reads "NAME SECONDS", runs the program for about so long, writes its CPU seconds a call, or "error"."""
  import harness
  import jax

  known, calls = programs(), {}
  device = jax.devices("weft")[0]
  answers = os.fdopen(os.dup(1), "w")
  os.dup2(2, 1)
  for line in sys.stdin:
    name, budget = line.split()
    try:
      if name not in calls:
        with known[name].context():
          calls[name] = harness.on_device(known[name], device)
          calls[name]()
    except Exception as error:
      print(f"{name}: {error}", file=sys.stderr)
      print("error", file=answers, flush=True)
      continue
    with known[name].context():
      count, begin, used = 0, time.process_time(), 0.0
      while used < float(budget):
        calls[name]()
        count += 1
        used = time.process_time() - begin
    print(used / count, file=answers, flush=True)


class Worker:
  def __init__(self, options, library=None):
    environment = {**os.environ, "WEFT_OPTIONS": options, "JAX_PLATFORMS": "weft", "WEFT_CACHE": "0",
                   "PYTHONPATH": os.pathsep.join([str(ROOT / "python"), os.environ.get("PYTHONPATH", "")])}
    environment.setdefault("WEFT_LIBRARY", str(ROOT / "build" / "libpjrt_weft.so"))
    if library is not None:
      environment["WEFT_LIBRARY"] = str(library)
    self.process = subprocess.Popen([sys.executable, __file__, "--work"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                    env=environment, text=True, cwd=ROOT / "bench" / "cpu")

  def ask(self, name, budget):
    print(name, budget, file=self.process.stdin, flush=True)
    answer = self.process.stdout.readline().strip()
    return float(answer) if answer and answer != "error" else None

  def end(self):
    self.process.stdin.close()
    self.process.wait()


def digests(weft, options, folder, names):
  files = "\n".join(str(folder / f"{name}.mlir") for name in names)
  every = ",".join(part for part in (USUAL, options) if part)
  lines = subprocess.run([weft, "program", "--digest", "--emit=asm", f"--options={every}", "--files-from", "-"], input=files,
                         text=True, stdout=subprocess.PIPE, check=True).stdout.splitlines()
  return {pathlib.Path(line.split()[0]).stem: line.split()[-1] for line in lines}


def changed(weft, other_weft, options, names, folder):
  """The programs whose machine code the options, or another compiler, change."""
  kept = folder / "usual.txt"
  if kept.exists():
    usual = dict(line.split() for line in kept.read_text().splitlines())
  else:
    usual = digests(weft, "", folder, names)
    kept.write_text("".join(f"{name} {code}\n" for name, code in usual.items()))
  other = digests(other_weft, options, folder, names)
  return [name for name in names if usual.get(name) != other.get(name)]


def main():
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("options", nargs="?", default="")
  parser.add_argument("--base", type=lambda text: pathlib.Path(text).resolve(), help="a build folder of another commit")
  parser.add_argument("--only", action="append", default=[], help="programs whose name contains this")
  parser.add_argument("--turns", type=int, default=7)
  parser.add_argument("--seconds", type=float, default=0.02, help="of CPU time a turn, about")
  parser.add_argument("--weft", default=str(ROOT / "build" / "weft"))
  parser.add_argument("--programs", help="a folder that trace_programs.py wrote; written where there is none")
  parser.add_argument("--count", action="store_true", help="only which programs change")
  args = parser.parse_args()
  temporary = None if args.programs else tempfile.TemporaryDirectory()
  folder = pathlib.Path(args.programs or temporary.name)
  if not any(folder.glob("*.mlir")):
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, ROOT / "bench" / "cpu" / "trace_programs.py", folder],
                   env={**os.environ, "JAX_PLATFORMS": "cpu"}, check=True)
  os.environ["JAX_PLATFORMS"] = "cpu"
  names = [name for name in programs() if (folder / f"{name}.mlir").exists()]
  names = [name for name in names if not args.only or any(part in name for part in args.only)]
  different = changed(args.weft, args.base / "weft" if args.base else args.weft, args.options, names, folder)
  print(f"{args.options or args.base}: other machine code in {len(different)} of {len(names)} programs", flush=True)
  if args.count:
    print("\n".join(different))
    return
  sides = [Worker(""), Worker(args.options, args.base and args.base / "libpjrt_weft.so")]
  ratios = []
  for name in different:
    times = [[], []]
    for turn in range(args.turns):
      for side in ((0, 1) if turn % 2 == 0 else (1, 0)):
        seconds = sides[side].ask(name, args.seconds)
        if seconds is not None:
          times[side].append(seconds)
    if not times[0] or not times[1]:
      print(f"{name:40} failed", flush=True)
      continue
    ratios.append(min(times[1]) / min(times[0]))
    print(f"{name:40}{1e3 * min(times[0]):10.4f}{1e3 * min(times[1]):10.4f} ms {ratios[-1]:8.3f}", flush=True)
  for side in sides:
    side.end()
  if ratios:
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"geometric mean {mean:.3f}; {sum(r > 1.05 for r in ratios)} gain more than 5 %, "
          f"{sum(r < 0.95 for r in ratios)} lose more than that", flush=True)


if __name__ == "__main__":
  sys.exit(work() if sys.argv[1:] == ["--work"] else main())
