#!/usr/bin/env python3
"""What the runtime of a GPU promises, by way of JAX: no hidden waits, copies beside programs, Ctrl-C, memory, speed of transfers.

    python3 test/gpu/runtime.py [CASE]...

WEFT_PLATFORM says which GPU; on the pretend one times are printed and not judged. The last line is `N passed, M failed`.
"""

import ctypes
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import traceback

REAL = os.environ.get("WEFT_PLATFORM", "") != "pretend"


class Driver:
  """What the GPU itself says of its memory."""

  def __init__(self):
    self.cuda = ctypes.CDLL("libcuda.so.1")
    context, device = ctypes.c_void_p(), ctypes.c_int()
    for code in (self.cuda.cuInit(0), self.cuda.cuDeviceGet(ctypes.byref(device), 0),
                 self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), self.cuda.cuCtxSetCurrent(context)):
      assert code == 0, code

  def free(self):
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    assert self.cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
    return free.value


DRIVER = Driver() if REAL else None
BEFORE = DRIVER.free() if REAL else 0  # the context and nothing else

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

import weft  # noqa: E402

CASES = []


def case(function):
  CASES.append(function)
  return function


def counted(*names):
  metrics = weft.metrics()
  return [metrics[name] for name in names]


def timeline(function):
  """Events of what the function does, by track."""
  with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "trace.json")
    with weft.trace(path):
      function()
    with open(path) as file:
      events = json.load(file)["traceEvents"]
  names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
  tracks = {}
  for event in events:
    if event["ph"] == "X":
      tracks.setdefault(names.get(event["tid"], ""), []).append(event)
  return tracks


def on_tracks(tracks, kind):
  return [e for name, events in tracks.items() for e in events if f" {kind}" in name and name.split(":")[0] in ("cuda", "pretend")]


@case
def first_op():
  """Memory beyond the context after the first operation."""
  (jnp.ones(8) + 1).block_until_ready()
  if not REAL:
    return
  taken = (BEFORE - DRIVER.free()) / 2**20
  print(f"first op: {taken:.1f} MiB beyond the context")
  assert taken <= 64, taken


@case
def chain():
  """A thousand donated steps: nobody waits for the device on the way."""
  step = jax.jit(lambda x: x + 1, donate_argnums=0)
  x = step(jnp.zeros(1024))
  x.block_until_ready()
  names = ("weft_device_syncs_total", "weft_waits_total")
  before = counted(*names)
  begin = time.perf_counter()
  for _ in range(1000):
    x = step(x)
  seconds = time.perf_counter() - begin
  after = counted(*names)
  print(f"chain: 1000 donated steps enqueued in {seconds * 1e3:.1f} ms, syncs and waits {[b - a for a, b in zip(before, after)]}")
  assert before == after
  assert float(x[0]) == 1001


@case
def overlap():
  """A copy to the host lies inside a program that works on another array."""
  rounds = 20_000

  @jax.jit
  def long(x):
    return jax.lax.fori_loop(0, rounds, lambda i, x: jnp.sin(x) + 1e-3, x)

  x, other = jnp.ones(1 << 16 if REAL else 16), jnp.ones(1 << 20 if REAL else 1 << 10)
  long(x).block_until_ready()

  def attempt():
    fresh = [other + i for i in range(8)]  # NumPy's copy is kept, so that each is fetched once
    jax.block_until_ready(fresh)

    def both():
      result = long(x)
      for array in fresh:
        np.asarray(array)
      result.block_until_ready()

    tracks = timeline(both)
    runs = [e for e in on_tracks(tracks, "compute") if e["cat"] == "execute"]
    copies = [e for e in on_tracks(tracks, "to host") if e["name"] == "copy to host"]
    inside = [c for c in copies for r in runs if c["ts"] >= r["ts"] and c["ts"] + c["dur"] <= r["ts"] + r["dur"]]
    print(f"overlap: {len(inside)} of {len(copies)} copies to the host inside a program of {max(r['dur'] for r in runs) / 1e3:.1f} ms")
    return inside

  # The pretend device's threads may begin the program when all copies are done, on a busy machine.
  assert any(attempt() for _ in range(1 if REAL else 10))


INTERRUPTED = """
import faulthandler, os, signal, threading, time
faulthandler.enable()
import jax, jax.numpy as jnp
big = {big}

@jax.jit
def forever(x):
  return jax.lax.while_loop(lambda c: c[0] >= 0, lambda c: ((c[0] + 1) % 1000, jnp.tanh(c[1] * 0.5) + c[1][::-1]), (0, x))[1]

forever = forever.lower(jnp.zeros(big)).compile()
x = jnp.arange(big, dtype=jnp.float32)
float((x + 1)[5])
sent = []

def send():
  time.sleep(0.3)
  sent.append(time.monotonic())
  os.kill(os.getpid(), signal.SIGINT)

print("handler", signal.getsignal(signal.SIGINT), flush=True)
threading.Thread(target=send).start()
try:
  result = forever(x)
  print("enqueued", flush=True)
  result.block_until_ready()
  print("the loop has ended by itself", flush=True)
except KeyboardInterrupt:
  late = time.monotonic() - sent[0]
  begin = time.monotonic()
  assert float((x + 1)[5]) == 6
  print(f"ended {{late * 1e3:.0f}} ms after Ctrl-C, the next program was done {{(time.monotonic() - begin) * 1e3:.0f}} ms later", flush=True)
"""


@case
def interrupt():
  """Ctrl-C ends a loop that the host takes part in; its argument is there, and the next program runs."""
  big = 1 << 22 if REAL else 64  # more than one kernel of one block
  done = subprocess.run([sys.executable, "-c", INTERRUPTED.format(big=big)], capture_output=True, text=True, timeout=60)
  found = re.search(r"ended (\d+) ms", done.stdout)
  print("interrupt:", done.stdout.strip().splitlines()[-1] if found else (done.returncode, done.stdout, done.stderr[-2000:]))
  assert done.returncode == 0 and found
  assert int(found[1]) < 200 or not REAL


def best(function, times):
  function()
  taken = []
  for _ in range(times):
    begin = time.perf_counter()
    function()
    taken.append(time.perf_counter() - begin)
  return min(taken), statistics.median(taken)


def spans_of(function):
  """Where the time of the function goes, as the timeline has it: {name: [microseconds]}."""
  spans = {}
  for name, events in timeline(function).items():
    for e in events:
      if e["cat"] in ("transfer", "wait", "enqueue", "execute"):
        spans.setdefault(f"{name}: {e['name']}", []).append(round(e["dur"]))
  return spans


def beside(platform):
  """A device of XLA's, where JAX_PLATFORMS names it too."""
  try:
    return [jax.devices(platform)[0]]
  except RuntimeError:
    return []


@case
def scalars():
  """Calls of a program that does next to nothing: one behind the other, each waited for, each result fetched."""
  add, wanted = jax.jit(lambda x: x + 1), (20, 60, 100)
  for device in [*jax.devices(), *beside("cuda")] if REAL else jax.devices():
    x = jax.device_put(np.float32(0), device)

    def chained(x=x):
      y = x
      for _ in range(1000):
        y = add(y)
      y.block_until_ready()

    times = (best(chained, 5)[1] / 1000, best(lambda x=x: add(x).block_until_ready(), 1000)[1],
             best(lambda x=x: np.asarray(add(x)), 1000)[1])
    print(f"scalars: {device}: chained {times[0] * 1e6:.1f} us a call, waited for {times[1] * 1e6:.1f}, fetched {times[2] * 1e6:.1f} (asked: {wanted})")
    if REAL and device == jax.devices()[0]:
      assert all(took * 1e6 <= most for took, most in zip(times, wanted)), times


@case
def transfers():
  """Times of copies between NumPy and the GPU."""
  sizes = (1 << 12, 1 << 20, 1 << 24, 1 << 26) if REAL else (1 << 12, 1 << 20)
  for size in sizes:
    host = np.ones(size // 4, np.float32)
    times = 50 if size <= 1 << 20 else 8
    there = lambda: jax.device_put(host).block_until_ready()  # noqa: E731
    add = jax.jit(lambda x: x + 1)
    x = jax.device_put(host)

    def back():
      y = add(x)
      y.block_until_ready()
      begin = time.perf_counter()
      np.asarray(y)
      return time.perf_counter() - begin

    def round_trip():
      np.asarray(jax.device_put(host))

    back()
    down = sorted(back() for _ in range(times))
    up, trip = best(there, times), best(round_trip, times)
    print(f"transfers: {size:9} bytes: to the device {up[1] * 1e6:8.0f} us (best {up[0] * 1e6:.0f}), to the host {down[times // 2] * 1e6:8.0f} us "
          f"(best {down[0] * 1e6:.0f}), there and back {trip[1] * 1e6:8.0f} us (best {trip[0] * 1e6:.0f})")
    if "--spans" in sys.argv:
      for name, took in spans_of(round_trip).items():
        print(f"  {name}: {took[:12]}{' ...' if len(took) > 12 else ''} us")


@case
def exhausted():
  """More than there is: an error that says what is in use and by whom, and all goes on."""
  limit = jax.devices()[0].memory_stats()["bytes_limit"]
  held = jnp.ones(1 << 20, jnp.uint8)
  try:
    jnp.zeros(limit + (1 << 20), jnp.uint8).block_until_ready()
    raise AssertionError("there was room")
  except Exception as error:  # of jaxlib, whose class differs between releases
    text = str(error)
  assert "RESOURCE_EXHAUSTED" in text and "in use" in text, text
  assert int((held + 1)[0]) == 2


def main():
  print("devices:", jax.devices())
  wanted = [name for name in sys.argv[1:] if not name.startswith("--")]
  failed = passed = 0
  for function in CASES:
    if wanted and function.__name__ not in wanted:
      continue
    try:
      function()
      passed += 1
    except Exception:  # each one is a finding; the others run on
      failed += 1
      print(f"{function.__name__}: failed")
      traceback.print_exc(limit=-3)
    sys.stdout.flush()
  print(f"{passed} passed, {failed} failed")
  return 1 if failed else 0


if __name__ == "__main__":
  sys.exit(main())
