"""Files of suites side by side: a queue of units, and processes that help with those that take long.

A unit is some files of one library. While the queue has units each job takes the next; then it joins the one with the fewest jobs, and
they share its cases by claiming them one by one (suite_plugin.py).
"""

import copy
import tempfile
import threading

import suite_run


class Unit:
  """Some files of a library, and the jobs that run them."""

  def __init__(self, options, files):
    self.options, self.files = options, files
    self.jobs, self.begun, self.complete = 0, False, True


class Queue:
  """Which unit a job takes next."""

  def __init__(self, units):
    self._waiting, self._taken, self._lock = list(units), [], threading.Lock()

  def take(self):
    with self._lock:
      if self._waiting:
        unit = self._waiting.pop(0)
        self._taken.append(unit)
      else:
        unit = min((unit for unit in self._taken if not unit.begun), key=lambda unit: unit.jobs, default=None)
      if unit is not None:
        unit.jobs += 1
      return unit

  def all_begun(self, unit):
    with self._lock:
      unit.begun = True

  def leave(self, unit, complete):
    """True when this was the unit's last job and all its cases have results."""
    with self._lock:
      unit.jobs -= 1
      unit.complete &= complete
      unit.begun |= not complete  # The time is over.
      return unit.jobs == 0 and unit.complete


def run_units(units, jobs, finish):
  """Runs all units; `finish` is called for each that has become complete."""
  queue = Queue(units)

  def serve(job, claims):
    while unit := queue.take():
      options = copy.copy(unit.options)
      options.job, options.claims = job, claims
      complete = suite_run.compare_files(options, unit.files, lambda unit=unit: queue.all_begun(unit))
      if queue.leave(unit, complete):
        finish(unit)

  with tempfile.TemporaryDirectory() as claims:
    threads = [threading.Thread(target=serve, args=(job, claims if jobs > 1 else None)) for job in range(jobs)]
    for thread in threads:
      thread.start()
    for thread in threads:
      thread.join()
