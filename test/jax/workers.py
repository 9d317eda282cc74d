"""Processes that run cases: a pool of threads, each with one worker process at a time (see plugin.py).

A job is one test file under one setting of x64. Its cases are known once a worker has collected the file; several workers
may share a long job. A case that kills its process or passes its time limit is recorded, and a new process goes on.
"""

import collections
import dataclasses
import json
import os
import pathlib
import select
import signal
import subprocess
import sys
import threading
import time

PLUGIN = pathlib.Path(__file__).with_name("plugin.py")
COLLECT_SECONDS = 900
SHARE_ABOVE = 12  # Cases still to do for a second worker to join a job.


@dataclasses.dataclass
class Job:
  """One file to run; `select` maps its collected ids to those that shall run."""
  file: str
  x64: int
  select: object
  ids: list | None = None
  pending: collections.deque | None = None
  workers: int = 0
  running: int = 0
  failed_starts: int = 0
  error: str = ""


@dataclasses.dataclass
class Settings:
  python: str
  checkout: pathlib.Path
  log_dir: pathlib.Path
  platform: str
  dut: str
  tag: str
  environment: object  # (job) -> dict
  case_seconds: float = 120
  memory_mb: int = 4096
  cases_per_process: int = 1500


class Process:
  """One worker process and the two pipes to it."""

  def __init__(self, settings, job, log):
    to_child, self._orders = os.pipe()
    self._messages, from_child = os.pipe()
    self._buffer = b""
    self.log = log
    self.log_start = log.tell()
    command = [
        settings.python, "-P", str(PLUGIN), str(to_child), str(from_child), str(settings.checkout), job.file,
        settings.platform, settings.dut, settings.tag]
    self._child = subprocess.Popen(
        command, env=settings.environment(job), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        pass_fds=(to_child, from_child), start_new_session=True, cwd=settings.log_dir)
    os.close(to_child)
    os.close(from_child)

  def send(self, order):
    try:
      os.write(self._orders, (json.dumps(order) + "\n").encode())
    except BrokenPipeError:
      pass

  def receive(self, seconds):
    """The next message; "timeout" or "closed" when there is none."""
    limit = time.monotonic() + seconds
    while b"\n" not in self._buffer:
      left = limit - time.monotonic()
      if left <= 0 or not select.select([self._messages], [], [], left)[0]:
        return "timeout"
      data = os.read(self._messages, 1 << 20)
      if not data:
        return "closed"
      self._buffer += data
    line, self._buffer = self._buffer.split(b"\n", 1)
    return json.loads(line)

  def end(self, kill):
    """Ends the process; returns its status in words."""
    os.close(self._orders)
    if not kill:
      try:
        self._child.wait(20)
      except subprocess.TimeoutExpired:
        kill = True
    if kill:
      try:
        os.killpg(self._child.pid, signal.SIGKILL)
      except ProcessLookupError:
        pass
    status = self._child.wait()
    os.close(self._messages)
    return signal.Signals(-status).name if status < 0 else f"exit status {status}"

  def last_words(self):
    """The line of the log that best says why the process died."""
    self.log.flush()
    with open(self.log.name, errors="replace") as file:
      file.seek(max(self.log_start, os.path.getsize(self.log.name) - 20000))
      lines = [line.strip() for line in file.read().splitlines() if line.strip()]
    for line in lines:
      if any(word in line for word in ("CHECK", "Check failed", "ERROR: AddressSanitizer", "terminate called", "F0000")):
        return line[:200]
    for index, line in enumerate(lines):
      if line.startswith("Fatal Python error"):
        return line[:200]
    return lines[-1][:200] if lines else ""


class Pool:
  """Runs jobs with so many workers; `on_result(job, id, result)` is called under a lock. `seconds`: no case begins after."""

  def __init__(self, settings, jobs, workers, on_result, on_job, seconds=0):
    self._settings = settings
    self._jobs = jobs
    self._count = workers
    self._on_result = on_result
    self._on_job = on_job
    self._lock = threading.Lock()
    self._stop = False
    self._seconds = seconds

  def _end(self):
    self._stop = True

  def run(self):
    threads = [threading.Thread(target=self._work, args=(k,), daemon=True) for k in range(self._count)]
    for thread in threads:
      thread.start()
    timer = threading.Timer(self._seconds, self._end)
    timer.daemon = True
    if self._seconds:
      timer.start()
    try:
      for thread in threads:
        thread.join()
    except KeyboardInterrupt:
      self._stop = True
      print("stopping: cases that run are finished first (Ctrl-C again to leave them)", file=sys.stderr)
      for thread in threads:
        thread.join()
      raise

  def _pick(self):
    """A job nobody works on yet, else the one with most cases left; None when there is nothing to do for this thread."""
    with self._lock:
      fresh = [job for job in self._jobs if job.pending is None and job.workers == 0 and not job.error]
      left = [job for job in self._jobs if job.pending]
      orphans = [job for job in left if job.workers == 0]
      shared = [job for job in left if len(job.pending) > SHARE_ABOVE * job.workers]
      for job in (*orphans[:1], *fresh[:1], *sorted(shared, key=lambda job: -len(job.pending))[:1]):
        job.workers += 1
        return job
      return None

  def _work(self, number):
    while not self._stop:
      job = self._pick()
      if job is None:
        with self._lock:
          # A job that is still collecting may have work to share later.
          waiting = any(job.pending is None and job.workers and not job.error for job in self._jobs)
        if not waiting:
          return
        time.sleep(0.5)
        continue
      try:
        self._serve(job, number)
      finally:
        with self._lock:
          job.workers -= 1
          if job.workers == 0 and not job.pending and not self._stop:
            self._on_job(job)

  def _serve(self, job, number):
    name = f"{job.file}.x64_{job.x64}.{number}.log"
    with open(self._settings.log_dir / name, "ab") as log:
      following = None
      while not self._stop:
        process = Process(self._settings, job, log)
        if not self._collect(process, job):
          return
        index = following if following is not None else self._pop(job)
        following = self._cases(process, job, index)
        if following is None:
          return

  def _pop(self, job):
    with self._lock:
      return job.pending.popleft() if job.pending else None

  def _collect(self, process, job):
    message = process.receive(COLLECT_SECONDS)
    if isinstance(message, str) or message["collected"] is None:
      status = process.end(kill=True)
      why = message["error"] if isinstance(message, dict) else f"{message} while collecting: {status}: {process.last_words()}"
      with self._lock:
        job.error = why
        job.pending = collections.deque()
      return False
    with self._lock:
      if job.pending is None:
        job.ids = message["collected"]
        wanted = job.select(job)
        job.pending = collections.deque(k for k, name in enumerate(job.ids) if name in wanted)
        job.error = message["error"]
    return True

  def _cases(self, process, job, index):
    """Runs cases from `index` on until none is left (None) or the process must be replaced (the next index)."""
    done = 0
    while index is not None:
      following = None if self._stop else self._pop(job)
      process.send([index, following])
      begin = time.monotonic()
      message = process.receive(self._settings.case_seconds)
      if isinstance(message, dict):  # The start of the case.
        message = process.receive(max(1, begin + self._settings.case_seconds - time.monotonic()))
      if isinstance(message, dict):
        result = dict(
            outcome=message["done"], reason=message["reason"], seconds=message["seconds"], cpu=message["cpu"])
        if message["fallbacks"]:
          result["fallbacks"] = message["fallbacks"]
      elif message == "timeout":
        process.end(kill=True)
        result = dict(outcome="timeout", reason=f"over {self._settings.case_seconds:g} s",
                      seconds=round(time.monotonic() - begin, 3))
      else:
        status = process.end(kill=False)
        result = dict(outcome="crash", reason=f"{status}: {process.last_words()}",
                      seconds=round(time.monotonic() - begin, 3))
      with self._lock:
        self._on_result(job, job.ids[index], result)
      if isinstance(message, str):
        return following
      done += 1
      if following is not None and (done >= self._settings.cases_per_process or
                                    message["memory_mb"] > self._settings.memory_mb):
        process.end(kill=False)
        return following
      index = following
    process.end(kill=False)
    return None
