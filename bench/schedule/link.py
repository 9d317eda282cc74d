#!/usr/bin/env python3
"""Training steps on 8 CPU devices of one process, with a link simulated between them: what asynchronous collectives hide.

    link.py [--link MBIT] [--kinds fsdp,fsdp_tp,...] [--tokens N] [--out FILE] [--model]

A small transformer of f32 (each block under jax.checkpoint, gradient descent), its weights cut over 8 devices (fsdp), over heads and hidden units (tp) or
both ways (fsdp_tp); layers unrolled or scanned (fsdp_scan). Each way runs in a process of its own: without a link, which is what computing takes, and with
one, collectives asynchronous and not. What the wire takes is the difference of two synchronous runs, one with a link half as fast. Printed is the step
beside the larger of computing and wire. The simulated link sleeps and computes nothing (`weft help options`: collectives.link).

--model: nothing is run. Printed is what the order takes on the model that it was made for (rates of this machine, devices that share it), beside its lower
bound, what computing and wire take, and both one after the other; then the same with the link at which computing and wire take equally long.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
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


def measure(kind, sizes, seconds):
    """In a process of its own: prints the fastest and the median step, and what came out."""
    import jax
    import numpy as np

    step, arguments = make(kind, sizes)
    begin = time.perf_counter()
    compiled = step.lower(*arguments).compile()
    compile_s = time.perf_counter() - begin
    if seconds < 0:  # what was said while it was compiled is all that is asked for
        return
    out, times, begin = jax.block_until_ready(compiled(*arguments)), [], time.perf_counter()
    while len(times) < 3 or (time.perf_counter() - begin < seconds and len(times) < 50):
        at = time.perf_counter()
        jax.block_until_ready(compiled(*arguments))
        times.append(time.perf_counter() - at)
    sums = [float(np.abs(np.asarray(leaf, np.float64)).sum()) for leaf in jax.tree.leaves(out)]
    analysis = compiled.memory_analysis()
    print(json.dumps({"best": min(times), "median": float(np.median(times)), "compile": compile_s, "sums": sums,
                      "temp": getattr(analysis, "temp_size_in_bytes", None)}))  # fmt: skip


def environment(options):
    env = dict(os.environ, JAX_PLATFORMS="weft", WEFT_CPU_DEVICES="8", WEFT_CACHE="0", PYTHONPATH=str(ROOT / "python"),
               WEFT_OPTIONS=",".join(f"collectives.{k}={v}" for k, v in options.items()))  # fmt: skip
    env.setdefault("WEFT_LIBRARY", str(ROOT / "build" / "libpjrt_weft.so"))
    return env


def run(kind, a, **options):
    env = environment(options)
    done = subprocess.run([sys.executable, __file__, "--one", kind, "--tokens", str(a.tokens), "--seconds", str(a.seconds)], env=env,
                          capture_output=True, text=True, check=False)  # fmt: skip
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def model(kind, a, link):
    """Milliseconds of the order by the model: length, bound, compute, wire."""
    env = environment({"link": link}) | {"WEFT_DEBUG": "schedule=1"}
    done = subprocess.run([sys.executable, __file__, "--one", kind, "--tokens", str(a.tokens), "--seconds", "-1"], env=env, capture_output=True, text=True,
                          check=False)  # fmt: skip
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
    ap.add_argument("--seconds", type=float, default=3, help="of each measurement")
    ap.add_argument("--out")
    ap.add_argument("--model", action="store_true", help="the figures of the model alone")
    ap.add_argument("--one", help=argparse.SUPPRESS)
    a = ap.parse_args()
    if a.one:
        return measure(a.one, Sizes(tokens=a.tokens), a.seconds)
    if a.model:
        return models(a)
    rows = []
    print(f"{'step':14} {'compute':>8} {'wire':>8} {'sync':>8} {'async':>8}  {'x larger':>8} {'x faster':>8}   (ms, link {a.link} Mbit/s)")
    for kind in a.kinds.split(","):
        alone, sync = run(kind, a, **{"async": "false"}), run(kind, a, **{"async": "false", "link": a.link})
        slower, overlapped = run(kind, a, **{"async": "false", "link": a.link // 2}), run(kind, a, link=a.link)
        compute, wire = alone["best"], slower["best"] - sync["best"]
        row = {"step": kind, "compute": compute, "wire": wire, "sync": sync["best"], "async": overlapped["best"],
               "of_larger": overlapped["best"] / max(compute, wire), "faster": sync["best"] / overlapped["best"],
               "temp_sync": sync["temp"], "temp_async": overlapped["temp"], "compile_sync": sync["compile"], "compile_async": overlapped["compile"]}  # fmt: skip
        rows.append(row)
        worst = max(abs(x - y) / max(abs(x), 1e-30) for x, y in zip(sync["sums"], overlapped["sums"]))
        print(f"{kind:14} {compute * 1e3:8.1f} {wire * 1e3:8.1f} {sync['best'] * 1e3:8.1f} {overlapped['best'] * 1e3:8.1f}  "
              f"{row['of_larger']:8.2f} {row['faster']:8.2f}   results differ by {worst:.1e}", flush=True)  # fmt: skip
        if worst > 1e-4:
            sys.exit(f"{kind}: asynchronous collectives change the results")
    if a.out:
        pathlib.Path(a.out).write_text(json.dumps({"link_mbit": a.link, "tokens": a.tokens, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
