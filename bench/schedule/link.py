#!/usr/bin/env python3
"""Training steps on 8 CPU devices of one process, with a link simulated between them: what asynchronous collectives hide.

    link.py [--link MBIT | --balance R] [--kinds fsdp,fsdp_tp,...] [--tokens N] [--layers N] [--out FILE] [--model]

A small transformer of f32 (each block under jax.checkpoint, gradient descent), its weights cut over 8 devices (fsdp), over heads and hidden units (tp) or
both ways (fsdp_tp); layers unrolled or scanned (fsdp_scan). Each way has a process of its own: without a link, which is what computing takes, and with one,
collectives asynchronous and not. The processes step in turns, one at a time, so that what else runs on the machine meets all of them; printed are medians,
and processor time over cores (cpu): of an asynchronous step what it computes, however it waits and whoever else runs.
What the wire takes are the bytes of the program by the link, as its order has it. The simulated link sleeps and computes nothing (`weft help options`:
collectives.link). --balance R: the link at which the wire takes R times as long as computing, as measured.

--model: nothing is run. Printed is what the order takes on the model that it was made for (rates of this machine, devices that share it), beside its lower
bound, what computing and wire take, and both one after the other; then the same with the link at which computing and wire take equally long.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


@dataclasses.dataclass(frozen=True)
class Sizes:
    width: int = 256
    hidden: int = 1024
    heads: int = 8
    layers: int = 8
    batch: int = 8
    tokens: int = 192


def make(kind, sizes):
    """The step and its arguments, on 8 devices."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

    scan, ways = kind.endswith("_scan"), kind.removesuffix("_scan")
    shape = {"fsdp": (8, 1), "tp": (1, 8), "fsdp_tp": (2, 4)}[ways]
    mesh = Mesh(np.array(jax.devices()[:8]).reshape(shape), ("d", "m"))
    d, f, heads = sizes.width, sizes.hidden, sizes.heads
    shapes = dict(q=(d, d), k=(d, d), v=(d, d), o=(d, d), up=(d, f), down=(f, d))
    spec = {n: P("m", "d") if n in ("o", "down") else P("d", "m") for n in shapes}
    rng = np.random.default_rng(0)

    def weight(name):
        value = rng.standard_normal((sizes.layers, *shapes[name]), np.float32) / np.sqrt(shapes[name][0])
        put = lambda x, s: jax.device_put(x, NamedSharding(mesh, s))  # noqa: E731
        return put(value, P(None, *spec[name])) if scan else [put(x, spec[name]) for x in value]

    weights = {n: weight(n) for n in shapes}
    if not scan:
        weights = [{n: weights[n][k] for n in shapes} for k in range(sizes.layers)]
    x = rng.standard_normal((sizes.batch, sizes.tokens, d), np.float32)
    x = jax.device_put(x, NamedSharding(mesh, P("d")))

    @jax.checkpoint
    def block(x, w):
        b, s, _ = x.shape
        h = x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5)
        q, k, v = [(h @ w[n]).reshape(b, s, heads, d // heads) for n in "qkv"]
        a = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k) / (d // heads) ** 0.5)
        x = x + jnp.einsum("bhqk,bkhd->bqhd", a, v).reshape(b, s, d) @ w["o"]
        h = x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5)
        return x + jax.nn.silu(h @ w["up"]) @ w["down"]

    def loss(weights, x):
        if scan:
            x = jax.lax.scan(lambda x, w: (block(x, w), None), x, weights)[0]
        else:
            for w in weights:
                x = block(x, w)
        return (x * x).mean()

    def step(weights, x):
        value, gradients = jax.value_and_grad(loss)(weights, x)
        return jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradients), value

    out = jax.tree.map(lambda w: w.sharding, weights)
    return jax.jit(step, out_shardings=(out, None)), (weights, x)


def serve(kind, sizes):
    """In a process of its own: compiles, then a step for each line that comes in; prints seconds, and at the end what came out."""
    import jax
    import numpy as np

    step, arguments = make(kind, sizes)
    begin = time.perf_counter()
    compiled = step.lower(*arguments).compile()
    print(json.dumps({"compile": time.perf_counter() - begin}), flush=True)
    out = None
    for line in sys.stdin:
        if line.strip() == "end":
            break
        at, worked = time.perf_counter(), time.process_time()
        out = jax.block_until_ready(compiled(*arguments))
        print(json.dumps([time.perf_counter() - at, time.process_time() - worked]), flush=True)
    sums = [float(np.abs(np.asarray(leaf, np.float64)).sum()) for leaf in jax.tree.leaves(out)]
    print(json.dumps({"sums": sums, "temp": getattr(compiled.memory_analysis(), "temp_size_in_bytes", None)}), flush=True)


def environment(options):
    env = dict(os.environ, JAX_PLATFORMS="weft", WEFT_CPU_DEVICES="8", WEFT_CACHE="0", PYTHONPATH=str(ROOT / "python"),
               WEFT_OPTIONS=",".join(f"collectives.{k}={v}" for k, v in options.items()))  # fmt: skip
    env.setdefault("WEFT_LIBRARY", str(ROOT / "build" / "libpjrt_weft.so"))
    return env


class Way:
    """A process that steps when it is asked to."""

    def __init__(self, kind, a, **options):
        env = environment(options) | {"WEFT_DEBUG": "schedule=1"}
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([sys.executable, __file__, "--one", kind, "--tokens", str(a.tokens), "--layers", str(a.layers)], env=env,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True)  # fmt: skip
        self.times, self.worked = [], []

    def said(self):
        self.errors.seek(0)
        return self.errors.read()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(self.said())
        return json.loads(line)

    def step(self):
        self.process.stdin.write("step\n")
        self.process.stdin.flush()
        seconds, worked = self.read()
        self.times.append(seconds)
        self.worked.append(worked / len(os.sched_getaffinity(0)))

    def median(self):
        return statistics.median(self.times)

    def cpu(self):
        return statistics.median(self.worked)

    def end(self):
        self.process.stdin.write("end\n")
        self.process.stdin.flush()
        found = self.read()
        self.process.wait()
        return found


def wire_seconds(said):
    """Of the program that was ordered: its bytes by the link."""
    found = re.findall(r"schedule: .* jobs, .* compute ([\d.]+) ms, wire ([\d.]+) ms", said)
    return sum(float(wire) for _, wire in found) / 1e3


def measure(kind, a):
    """Seconds of a step: computing, bytes by link, collectives in place, asynchronous."""
    ways = {"alone": Way(kind, a, **{"async": "false"})}
    link = a.link
    if a.balance:
        probe = Way(kind, a, link=1000)
        for way in (ways["alone"], probe):
            way.read()
        for _ in range(3):
            ways["alone"].step()
        link = max(1, round(1000 * wire_seconds(probe.said()) / (a.balance * min(ways["alone"].times))))
        probe.step()
        probe.end()
    ways |= {"sync": Way(kind, a, link=link, **{"async": "false"}), "async": Way(kind, a, link=link)}
    for name, way in ways.items():
        if name != "alone" or not a.balance:
            way.read()
        way.step()
        way.times.clear()
        way.worked.clear()
    begin = time.perf_counter()
    while len(ways["async"].times) < 5 or (time.perf_counter() - begin < a.seconds and len(ways["async"].times) < 50):
        for way in ways.values():
            way.step()
    ends = {name: way.end() for name, way in ways.items()}
    compute, wire, sync, overlapped = ways["alone"].median(), wire_seconds(ways["async"].said()), ways["sync"].median(), ways["async"].median()
    worst = max(abs(x - y) / max(abs(x), 1e-30) for x, y in zip(ends["sync"]["sums"], ends["async"]["sums"]))
    return {"step": kind, "link_mbit": link, "compute": compute, "wire": wire, "sync": sync, "async": overlapped, "of_larger": overlapped / max(compute, wire),
            "faster": sync / overlapped, "best_async": min(ways["async"].times), "compute_cpu": ways["alone"].cpu(), "async_cpu": ways["async"].cpu(),
            "rounds": len(ways["async"].times), "temp_sync": ends["sync"]["temp"],
            "temp_async": ends["async"]["temp"], "differ": worst}  # fmt: skip


def model(kind, a, link):
    """Milliseconds of the order by the model: length, bound, compute, wire."""
    env = environment({"link": link}) | {"WEFT_DEBUG": "schedule=1"}
    done = subprocess.run([sys.executable, __file__, "--one", kind, "--tokens", str(a.tokens), "--layers", str(a.layers)], env=env, capture_output=True,
                          text=True, input="end\n", check=False)  # fmt: skip
    found = re.findall(r"schedule: .* jobs, ([\d.]+) ms by .*?, bound ([\d.]+) ms, compute ([\d.]+) ms, wire ([\d.]+) ms", done.stderr)
    if done.returncode != 0 or not found:
        sys.exit(done.stderr or f"{kind}: nothing was ordered")
    return max([*map(float, row)] for row in found)


def models(a):
    print(f"{'step':14} {'Mbit/s':>7} {'compute':>8} {'wire':>8} {'bound':>8} {'async':>8}  {'x larger':>8} {'x faster':>8} {'x bound':>8}   (ms, on the model)")
    for kind in a.kinds.split(","):
        link, rows = a.link, []
        for _ in range(2):
            length, bound, compute, wire = model(kind, a, link)
            rows.append((link, compute, wire, bound, length))
            link = max(1, round(link * wire / compute))
        for link, compute, wire, bound, length in rows:
            print(f"{kind:14} {link:7} {compute:8.1f} {wire:8.1f} {bound:8.1f} {length:8.1f}  {length / max(compute, wire):8.2f} "
                  f"{(compute + wire) / length:8.2f} {length / bound:8.3f}", flush=True)  # fmt: skip


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--link", type=int, default=1000, help="Mbit/s")
    ap.add_argument("--kinds", default="fsdp,fsdp_scan,tp,fsdp_tp,fsdp_tp_scan")
    ap.add_argument("--tokens", type=int, default=Sizes.tokens)
    ap.add_argument("--layers", type=int, default=Sizes.layers)
    ap.add_argument("--balance", type=float, default=0, help="wire over computing")
    ap.add_argument("--seconds", type=float, default=6, help="of each step's measurement")
    ap.add_argument("--out")
    ap.add_argument("--model", action="store_true", help="the figures of the model alone")
    ap.add_argument("--one", help=argparse.SUPPRESS)
    a = ap.parse_args()
    if a.one:
        return serve(a.one, Sizes(tokens=a.tokens, layers=a.layers))
    if a.model:
        return models(a)
    rows = []
    print(f"{'step':14} {'Mbit/s':>7} {'compute':>8} {'wire':>8} {'sync':>8} {'async':>8}  {'x larger':>8} {'x faster':>8} {'cpu':>7} {'async cpu':>9}  (ms, medians)")
    for kind in a.kinds.split(","):
        row = measure(kind, a)
        rows.append(row)
        print(f"{kind:14} {row['link_mbit']:7} {row['compute'] * 1e3:8.1f} {row['wire'] * 1e3:8.1f} {row['sync'] * 1e3:8.1f} {row['async'] * 1e3:8.1f}  "
              f"{row['of_larger']:8.2f} {row['faster']:8.2f} {row['compute_cpu'] * 1e3:7.1f} {row['async_cpu'] * 1e3:9.1f}  {row['rounds']} rounds, results differ by {row['differ']:.1e}", flush=True)  # fmt: skip
        if row["differ"] > 1e-4:
            sys.exit(f"{kind}: asynchronous collectives change the results")
    if a.out:
        pathlib.Path(a.out).write_text(json.dumps({"tokens": a.tokens, "layers": a.layers, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
