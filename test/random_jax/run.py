"""Random JAX programs on Weft beside XLA:CPU: `./dev random-jax`. The same seed is the same program.

Programs run in worker processes, so that a crash or one that does not end is that of a program and the others go on. What fails is
kept as a script that stands alone in build/random-jax; status 1.
"""

import argparse
import collections
import functools
import json
import os
import pathlib
import queue
import select
import signal
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
OUT = HERE.parent.parent / "build" / "random-jax"
PROGRAMS_A_PROCESS = 400
WALL_FACTOR = 10
ENDS = ("crash", "timeout")


def work():
  """A worker: a seed a line in, with the only platform it shall run on or none; a result a line out."""
  import check
  import generate
  import jax
  out = os.fdopen(os.dup(1), "w")
  os.dup2(2, 1)
  for count, line in enumerate(sys.stdin):
    seed, *platform = line.split()
    program = generate.make(int(seed))
    outcome, why = check.alone(program, *platform) if platform else check.check(program)
    text = ""
    if outcome in ("differs", "error"):
      text = check.script(check.reduced(program) if outcome == "differs" else program, why)
    print(json.dumps(dict(outcome=outcome, why=why, script=text)), file=out, flush=True)
    if count % 40 == 39:
      jax.clear_caches()


class Worker:
  """One process of `work`, replaced when it dies."""

  def __init__(self, limit, platform=""):
    self._limit, self._platform, self._child, self._done = limit, platform, None, 0

  def _start(self):
    env = dict(os.environ, JAX_PLATFORMS=self._platform or "weft,cpu", WEFT_CACHE=os.environ.get("WEFT_CACHE", "0"))
    # XLA:CPU is the oracle: quickly compiled rather than fast.
    env.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true")
    self._log = open(OUT / f"worker.{os.getpid()}.{id(self)}.log", "w+")  # pylint: disable=consider-using-with
    self._child = subprocess.Popen([sys.executable, str(HERE / "run.py"), "--worker"], env=env, text=True,  # pylint: disable=consider-using-with
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log)
    self._done = 0

  def stop(self):
    if self._child:
      self._child.kill()
      self._child.wait()
      self._log.close()
      os.unlink(self._log.name)
      self._child = None

  def _cpu(self):
    """Seconds of processor time so far: a busy machine shall not make a program one that does not end."""
    fields = pathlib.Path(f"/proc/{self._child.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

  def _answers(self):
    begin, cpu = time.monotonic(), self._cpu()
    while not select.select([self._child.stdout], [], [], min(1, self._limit))[0]:
      if self._cpu() - cpu > self._limit or time.monotonic() - begin > WALL_FACTOR * self._limit:
        return False
    return True

  def run(self, seed):
    if self._child is None or self._done >= PROGRAMS_A_PROCESS:
      self.stop()
      self._start()
    self._done += 1
    self._child.stdin.write(f"{seed} {self._platform}\n")
    self._child.stdin.flush()
    if not self._answers():
      self.stop()
      return dict(outcome="timeout", why=f"over {self._limit:g} s", script="")
    line = self._child.stdout.readline()
    if line:
      return json.loads(line)
    status = self._child.wait()
    self._log.seek(0)
    words = self._log.read().strip().splitlines()
    self.stop()
    name = signal.Signals(-status).name if status < 0 else f"status {status}"
    return dict(outcome="crash", why=f"{name}: {words[-1][:200] if words else ''}", script="")


def is_ended(seed, limit, platform):
  """Whether a program ends a process that has this platform alone, or does not end itself."""
  worker = Worker(limit, platform)
  outcome = worker.run(seed)["outcome"]
  worker.stop()
  return outcome in ENDS


def blamed(result, is_ended_by):
  """A crash, or a program that does not end, as whose it is: `is_ended_by` tells whether it is so with one platform alone."""
  if result["outcome"] not in ENDS or is_ended_by("weft"):
    return result
  if is_ended_by("cpu"):
    return dict(result, outcome=f"{result['outcome']} of XLA:CPU")
  return dict(result, why=f"{result['why']} (on neither platform alone)")


def report(seed, result):
  """Keeps the script of a failure; two lines about it."""
  text = result["script"]
  if not text:  # Of a crash: written by a process that does not run it.
    import check
    import generate
    text = check.script(generate.make(seed), result["why"])
  path = OUT / f"seed_{seed}.py"
  path.write_text(text)
  print(f"seed {seed}: {result['outcome']}: {result['why']}\n  {path}", flush=True)


def run_seeds(options, seeds):
  """Counter of outcomes, and the seeds that failed."""
  pending, counts, failed, lock, stop = queue.SimpleQueue(), collections.Counter(), [], threading.Lock(), threading.Event()
  deadline = time.monotonic() + 60 * options.minutes if options.minutes else float("inf")
  for seed in seeds:
    pending.put(seed)

  def serve():
    worker = Worker(options.limit)
    while time.monotonic() < deadline and not stop.is_set():
      try:
        seed = pending.get_nowait()
      except queue.Empty:
        break
      result = worker.run(seed)
      result = blamed(result, functools.partial(is_ended, seed, options.limit))
      with lock:
        counts[result["outcome"]] += 1
        if result["outcome"] == "rejected" and options.verbose:
          print(f"seed {seed}: rejected: {result['why']}", flush=True)
        if result["outcome"].endswith("of XLA:CPU"):
          print(f"seed {seed}: {result['outcome']}: {result['why']}", flush=True)
        elif result["outcome"] not in ("ok", "rejected"):
          failed.append(seed)
          report(seed, result)
    worker.stop()

  threads = [threading.Thread(target=serve) for _ in range(options.jobs)]
  for thread in threads:
    thread.start()
  try:
    for thread in threads:
      thread.join()
  except KeyboardInterrupt:  # What runs is finished first.
    stop.set()
    for thread in threads:
      thread.join()
  return counts, failed


def kept_seeds():
  """Those that found something once."""
  lines = (HERE / "seeds.txt").read_text().splitlines()
  return [int(line.split("#")[0]) for line in lines if line.split("#")[0].strip()]


def main():
  if sys.argv[1:] == ["--worker"]:
    work()
    return
  parser = argparse.ArgumentParser(prog="./dev random-jax", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--count", type=int, default=300, metavar="N", help="programs (300)")
  parser.add_argument("--seed", type=int, default=1, metavar="S", help="of the first; the next have the next numbers (1)")
  parser.add_argument("--minutes", type=float, default=0, metavar="M", help="stop after so long (no limit)")
  parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="J", help="worker processes (one a core)")
  parser.add_argument("--limit", type=float, default=90, metavar="S", help="seconds of processor time for one program (90)")
  parser.add_argument("--kept", action="store_true", help="the programs of seeds.txt, which found something once")
  parser.add_argument("--show", action="store_true", help="print the program of --seed as a script, and run nothing")
  parser.add_argument("--verbose", action="store_true", help="also why programs were refused by JAX itself")
  options = parser.parse_args()
  if options.show:
    import check
    import generate
    print(check.script(generate.make(options.seed), "shown"))
    return
  OUT.mkdir(parents=True, exist_ok=True)
  begin = time.monotonic()
  seeds = kept_seeds() if options.kept else range(options.seed, options.seed + options.count)
  counts, failed = run_seeds(options, seeds)
  seconds, total = time.monotonic() - begin, sum(counts.values())
  print(f"{total} programs, " + ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
        + f"; {seconds:.0f} s, {total / seconds:.1f} a second")
  if failed:
    print("failed: " + " ".join(map(str, sorted(failed))))
  sys.exit(1 if failed else 0)


if __name__ == "__main__":
  main()
