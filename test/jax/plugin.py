"""The worker of `./dev jax-suite`: one process that collects one of JAX's test files and runs the cases it is told to.

It speaks JSON lines with the runner over two file descriptors: it sends `collected`, then for each case `start` and
`done`; it reads `[index, next index or null]` and ends at end of file. Everything it prints goes to the log of the file.
"""

import importlib.util
import json
import os
import resource
import sys
import time

import pytest


class Channel:

  def __init__(self, read_fd, write_fd):
    self._in = os.fdopen(read_fd, "r")
    self._out = os.fdopen(write_fd, "w")

  def send(self, **message):
    self._out.write(json.dumps(message) + "\n")
    self._out.flush()

  def receive(self):
    line = self._in.readline()
    return json.loads(line) if line else None


def first_line(text):
  """The first line that says something, of an error as pytest reports it."""
  for line in str(text).splitlines():
    line = line.strip()
    if line:
      return line[:300]
  return ""


def reason_of(report):
  """Why a phase failed or was skipped, in one line."""
  longrepr = report.longrepr
  if isinstance(longrepr, tuple):
    return first_line(longrepr[2].removeprefix("Skipped: "))
  crash = getattr(longrepr, "reprcrash", None)
  return first_line(crash.message if crash is not None else longrepr)


def memory_mb():
  with open("/proc/self/statm") as file:
    return int(file.read().split()[1]) * resource.getpagesize() // 2**20


def lend_module(checkout, name):
  """Takes a module of jax._src that only tests use, and that the wheel leaves out, from the checkout."""
  import jax._src
  path = os.path.join(checkout, "jax", "_src", name + ".py")
  if importlib.util.find_spec("jax._src." + name) is None and os.path.exists(path):
    spec = importlib.util.spec_from_file_location("jax._src." + name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    setattr(jax._src, name, module)


def answer_tag(tag):
  """Tests ask for a kind of device by tags, which JAX reads off the name of a platform. These answer what the device is."""
  import jax
  from jax._src import test_util

  def capability():
    return tuple(int(x) for x in jax.local_devices()[0].compute_capability.split("."))

  def wanted(text):
    return tuple(int(x) for x in text.split("."))

  test_util._get_device_tags = lambda: {test_util.device_under_test(), tag}
  test_util.is_cuda_compute_capability_at_least = lambda text: capability() >= wanted(text)
  test_util.is_cuda_compute_capability_equal = lambda text: capability() == wanted(text)


class SuitePlugin:
  """Runs the cases the runner asks for, in place of pytest's own loop."""

  def __init__(self, channel, platform, dut, tag, checkout):
    self.checkout = checkout
    self.tag = tag
    self.channel = channel
    self.platform = platform
    self.dut = dut
    self.reports = []
    self.collect_errors = []

  def pytest_configure(self, config):
    if self.dut:
      import jax
      from jax._src import test_util  # Defines the flag.
      del test_util
      jax.config.update("jax_test_dut", self.dut)
    if self.tag:
      answer_tag(self.tag)
    lend_module(self.checkout, "hypothesis_test_util")

  def pytest_collectreport(self, report):
    if report.failed:
      self.collect_errors.append(reason_of(report))

  @pytest.hookimpl(tryfirst=True)
  def pytest_runtest_logreport(self, report):
    self.reports.append(report)

  def check_backend(self):
    import jax
    backend = jax.devices()[0].client
    ours = "weft" in backend.platform_version  # its platform is `cpu` with WEFT_AS=cpu
    if ours != self.platform.startswith("weft"):
      raise RuntimeError(f"the backend is {backend.platform}, not {self.platform}")
    return f"{backend.platform} × {len(jax.devices())}: {backend.platform_version}"

  @pytest.hookimpl(tryfirst=True)
  def pytest_runtestloop(self, session):
    try:
      backend = self.check_backend()
    except Exception as error:  # The runner reports it.
      self.channel.send(collected=None, error=first_line(f"{type(error).__name__}: {error}"))
      return True
    ids = [item.nodeid.split("::", 1)[-1] for item in session.items]
    self.channel.send(collected=ids, error="; ".join(self.collect_errors), backend=backend)
    while (order := self.channel.receive()) is not None:
      index, following = order
      self.run(session, session.items[index], None if following is None else session.items[following])
    return True

  def fallbacks(self):
    """Programs that Weft has left to the evaluator so far."""
    if not self.platform.startswith("weft"):
      return 0
    import weft
    return weft.metrics().get("weft_fallbacks_total", 0)

  def run(self, session, item, following):
    del session
    before = self.fallbacks()
    self.reports = []
    self.channel.send(start=item.nodeid.split("::", 1)[-1])
    begin, cpu = time.monotonic(), time.process_time()
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
    outcome, reason = "pass", ""
    for report in self.reports:
      if report.failed:
        outcome, reason = "fail", reason_of(report)
        break
      if report.skipped:
        outcome, reason = "skip", reason_of(report)
    self.channel.send(
        done=outcome, reason=reason, seconds=round(time.monotonic() - begin, 3), cpu=round(time.process_time() - cpu, 3),
        memory_mb=memory_mb(), fallbacks=self.fallbacks() - before)


def main():
  read_fd, write_fd, checkout, file, platform, dut, tag = sys.argv[1:]
  channel = Channel(int(read_fd), int(write_fd))
  sys.argv = ["jax-suite"]  # JAX's tests parse flags.
  plugin = SuitePlugin(channel, platform, dut, tag, checkout)
  arguments = [
      os.path.join(checkout, "tests", file + ".py"), "-c", os.path.join(checkout, "pyproject.toml"), "--rootdir", checkout,
      "--capture=no", "--tb=short", "-q", "-p", "no:cacheprovider",
      "--continue-on-collection-errors",
  ]
  status = pytest.main(arguments, plugins=[plugin])
  # Native threads of a backend under test may not end cleanly; the results are out already.
  sys.stdout.flush()
  sys.stderr.flush()
  os._exit(int(status))


if __name__ == "__main__":
  main()
