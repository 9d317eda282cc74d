"""A process that tries programs first, so that one that takes too long (or crashes) can be stopped.

A call into a backend cannot be interrupted, and one that goes on in the background disturbs what is timed beside it.
"""

import json
import os
import select
import subprocess
import sys
import time


def serve(programs, device, on_device):
  """The child: reads names, answers each with {"seconds"} of its second call or {"error"}."""
  answers = os.fdopen(os.dup(1), "w")
  os.dup2(2, 1)
  print(json.dumps({"ready": True}), file=answers, flush=True)
  for line in sys.stdin:
    program = programs[line.strip()]
    try:
      with program.context():
        call = on_device(program, device)
        call()
        begin = time.perf_counter()
        call()
        answer = {"seconds": time.perf_counter() - begin}
    except Exception as error:  # pylint: disable=broad-except
      answer = {"error": str(error).splitlines()[0][:200] if str(error) else type(error).__name__}
    print(json.dumps(answer), file=answers, flush=True)
  return 0


class Probe:
  """The parent's side: `ask` returns nothing where the program may be run here, else why not."""

  def __init__(self, platform, cap):
    self.platform = platform
    self.cap = cap
    self.process = None

  def start(self):
    self.process = subprocess.Popen([sys.executable, sys.argv[0], "--probe", self.platform], stdin=subprocess.PIPE,
                                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, bufsize=1)
    if not self.read(120):
      raise RuntimeError(f"no process could be started for the platform {self.platform}")

  def read(self, limit):
    ready, _, _ = select.select([self.process.stdout], [], [], limit)
    line = self.process.stdout.readline() if ready else ""
    return json.loads(line) if line else None

  def ask(self, name):
    if self.process is None:
      self.start()
    print(name, file=self.process.stdin, flush=True)
    answer = self.read(3 * self.cap)  # Compilation, the first call, the second.
    if answer is None:
      crashed = self.process.poll()
      self.close()
      return f"crashed: {crashed}" if crashed is not None else f"slow: over {self.cap:g} s"
    if "error" in answer:
      return f"failed: {answer['error']}"
    return f"slow: {answer['seconds']:.1f} s" if answer["seconds"] > self.cap else None

  def close(self):
    if self.process is not None:
      self.process.kill()
      self.process.wait()
      self.process = None
