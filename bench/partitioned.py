#!/usr/bin/env python3
"""What one device has of a training step that is split over 8: work, temporaries, the predicted peak beside the measured one, compile time.

    partitioned.py [--quick] [--kinds fsdp,tp,...]

A transformer of f32 (each block under jax.checkpoint, gradient descent) in whole on one device and split: weights cut over 8 devices (fsdp), over heads and
hidden units (tp), both ways (fsdp_tp), or layers in stages by jax.shard_map (pipeline); layers unrolled or scanned (_scan). Each row says what is wanted of
it. FLOPs of dots are those of cost_analysis(), which counts the body of a loop once. Each row is a process of its own.
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

ROOT = pathlib.Path(__file__).resolve().parents[1]
KINDS = ("fsdp", "fsdp_scan", "tp", "tp_scan", "fsdp_tp", "fsdp_tp_scan", "pipeline", "pipeline_scan")
DEVICES = 8
MICROBATCHES = 8  # of a pipeline: a stage is idle for DEVICES - 1 ticks besides
MEGABYTE = 1e6


@dataclasses.dataclass(frozen=True)
class Sizes:
    width: int = 512
    hidden: int = 2048
    heads: int = 8
    layers: int = 12
    batch: int = 8
    tokens: int = 64


QUICK = Sizes(width=256, hidden=512, layers=4, tokens=16)


def layer_shapes(sizes):
    d, f = sizes.width, sizes.hidden
    return dict(q=(d, d), k=(d, d), v=(d, d), o=(d, d), up=(d, f), down=(f, d))


def make_block(sizes):
    import jax
    import jax.numpy as jnp

    @jax.checkpoint
    def block(x, w):
        b, s, d = x.shape
        h = x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5)
        q, k, v = [(h @ w[n]).reshape(b, s, sizes.heads, d // sizes.heads) for n in "qkv"]
        a = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k) / (d // sizes.heads) ** 0.5)
        x = x + jnp.einsum("bhqk,bkhd->bqhd", a, v).reshape(b, s, d) @ w["o"]
        h = x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5)
        return x + jax.nn.silu(h @ w["up"]) @ w["down"]

    return block


def through_layers(block, scan):
    """All layers of `weights`, stacked along the first dimension where they are scanned."""
    import jax

    def run(weights, x):
        if scan:
            return jax.lax.scan(lambda x, w: (block(x, w), None), x, weights)[0]
        for w in weights:
            x = block(x, w)
        return x

    return run


def in_stages(layers, mesh, scan):
    """A pipeline: each device has its layers; what a stage gives goes to the next with every tick."""
    import jax
    import jax.numpy as jnp
    from jax.sharding import PartitionSpec as P

    def stage(weights, x):  # one device's layers, all microbatches
        mine = jax.lax.axis_index("d")
        ring = [(k, (k + 1) % DEVICES) for k in range(DEVICES)]

        def tick(state, t):
            held, out = state
            held = jnp.where(mine == 0, x[jnp.minimum(t, MICROBATCHES - 1)], held)
            held = layers(weights if scan else [jax.tree.map(lambda w: w[k], weights) for k in range(weights["q"].shape[0])], held)
            at = t - (DEVICES - 1)
            out = jnp.where((mine == DEVICES - 1) & (at >= 0), out.at[jnp.maximum(at, 0)].set(held), out)
            return (jax.lax.ppermute(held, "d", ring), out), None

        state = jax.lax.pcast((jnp.zeros_like(x[0]), jnp.zeros_like(x)), ("d",), to="varying")
        return jax.lax.psum(jax.lax.scan(tick, state, jnp.arange(MICROBATCHES + DEVICES - 1))[0][1], "d")

    return jax.shard_map(stage, mesh=mesh, in_specs=(P("d"), P()), out_specs=P())


def make(kind, sizes, whole):
    """The jitted step and its arguments' shapes, on all devices or whole on one."""
    import jax
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

    scan, ways = kind.endswith("_scan"), kind.removesuffix("_scan")
    pipeline = ways == "pipeline"
    grid = {"fsdp": (8, 1), "tp": (1, 8), "fsdp_tp": (2, 4), "pipeline": (8, 1)}[ways]
    mesh = Mesh(np.array(jax.devices()[:DEVICES]).reshape(grid), ("d", "m"))
    stacked = scan or pipeline
    layers = -(-sizes.layers // DEVICES) * DEVICES if pipeline else sizes.layers

    def array(shape, spec):
        return jax.ShapeDtypeStruct(shape, np.float32, sharding=None if whole else NamedSharding(mesh, spec))

    def weight(name, shape):
        spec = P("m", "d") if name in ("o", "down") else P("d", "m")
        if pipeline:
            return array((layers, *shape), P("d"))
        return array((layers, *shape), P(None, *spec)) if scan else array(shape, spec)

    one = {name: weight(name, shape) for name, shape in layer_shapes(sizes).items()}
    weights = one if stacked else [one] * layers
    x = (sizes.batch, sizes.tokens, sizes.width)
    x = array((MICROBATCHES, *x), P()) if pipeline else array(x, P("d"))
    run = through_layers(make_block(sizes), scan)
    if pipeline and not whole:
        run = in_stages(run, mesh, scan)
    elif pipeline:
        many = through_layers(make_block(sizes), scan)
        run = lambda w, x: jax.lax.map(  # noqa: E731
            lambda one: many(w if scan else [jax.tree.map(lambda v: v[k], w) for k in range(layers)], one), x)

    def step(weights, x):
        loss = lambda w: (run(w, x) ** 2).mean()  # noqa: E731
        value, gradients = jax.value_and_grad(loss)(weights)
        return jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradients), value

    out = None if whole else (jax.tree.map(lambda w: w.sharding, weights), None)
    return jax.jit(step, out_shardings=out), (weights, x)


def status(what):
    for line in open("/proc/self/status"):
        if line.startswith(what):
            return int(line.split()[1]) * 1024
    return 0


def dot_flops(compiled):
    costs = compiled.cost_analysis()
    return (costs if isinstance(costs, dict) else costs[0])["dot flops"]


def measure(kind, sizes):
    """In a process of its own: prints the figures of a kind as JSON."""
    import jax
    import numpy as np

    step, arguments = make(kind, sizes, whole=True)
    whole = step.lower(*arguments).compile()
    step, arguments = make(kind, sizes, whole=False)
    lowered = step.lower(*arguments)
    print("begin", file=sys.stderr, flush=True)
    begin = time.perf_counter()
    split = lowered.compile()
    seconds = time.perf_counter() - begin
    print("end", file=sys.stderr, flush=True)
    cut = jax.tree.leaves(arguments)[0].sharding
    jax.device_put(np.zeros((DEVICES,) * len(cut.spec), np.float32), cut).block_until_ready()
    before = status("VmRSS")
    # Each device's own memory, also of what is replicated: make_array_from_callback would lend one array to all of them.
    part = lambda s: np.full(s.sharding.shard_shape(s.shape), 0.01, np.float32)  # noqa: E731
    value = lambda s: jax.make_array_from_single_device_arrays(  # noqa: E731
        s.shape, s.sharding, [jax.device_put(part(s), d) for d in s.sharding.mesh.devices.flat])
    values = jax.block_until_ready(jax.tree.map(value, arguments))
    results = jax.block_until_ready(split(*values))
    measured = status("VmHWM") - before
    del results
    m, w = split.memory_analysis(), whole.memory_analysis()
    each = m.argument_size_in_bytes + m.output_size_in_bytes - m.alias_size_in_bytes + m.temp_size_in_bytes
    print(json.dumps(dict(
        dots=dot_flops(split), whole_dots=dot_flops(whole),
        temp=m.temp_size_in_bytes, whole_temp=w.temp_size_in_bytes, predicted=DEVICES * each, measured=measured, seconds=seconds)))  # fmt: skip


def pass_seconds(log):
    """What the passes that split took, between the two marks."""
    log = log.split("begin\n")[-1].split("end\n")[0]
    return sum(float(ms) for name, ms in re.findall(r"pass (\S+) .*?([\d.]+) ms", log) if name in ("propagate-shardings", "partition")) / 1e3


def row(kind, sizes, quick):
    env = dict(os.environ, JAX_PLATFORMS="weft", WEFT_CPU_DEVICES=str(DEVICES), WEFT_CACHE="0", WEFT_DEBUG="pass=3")
    env.setdefault("PYTHONPATH", str(ROOT / "python"))
    env.setdefault("WEFT_LIBRARY", str(ROOT / "build" / "libpjrt_weft.so"))
    command = [sys.executable, __file__, "--one", kind] + (["--quick"] if quick else [])
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{kind}: {done.stderr[-3000:]}")
    r = json.loads(done.stdout.splitlines()[-1])
    layer = sum(4 * a * b for a, b in layer_shapes(sizes).values())
    # Of a pipeline a tick is compared with a microbatch; where layers are scanned, one layer with one.
    devices = 1 if kind == "pipeline_scan" else DEVICES
    r |= dict(kind=kind, work=devices * r["dots"] / r["whole_dots"], allowed=r["whole_temp"] / DEVICES + 2 * layer,
              peak=r["measured"] / r["predicted"] - 1, share=pass_seconds(done.stderr) / r["seconds"])  # fmt: skip
    print(f"{kind:14} dots {r['work']:.3f}× of an eighth (wanted: 1.00), temporaries {r['temp'] / MEGABYTE:7.2f} MB a device (an eighth of "
          f"{r['whole_temp'] / MEGABYTE:.2f} and two layers: {r['allowed'] / MEGABYTE:.2f}), predicted peak {r['predicted'] / MEGABYTE:.1f} MB, measured "
          f"{100 * r['peak']:+.1f} % (wanted: 2), splitting {100 * r['share']:.1f} % of {r['seconds']:.2f} s of compiling (wanted: 20)", flush=True)  # fmt: skip
    return r


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a small model")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--json", action="store_true", help="the rows as JSON, last")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    sizes = QUICK if options.quick else Sizes()
    if options.one:
        return measure(options.one, sizes)
    rows = [row(kind, sizes, options.quick) for kind in options.kinds.split(",")]
    if options.json:
        print(json.dumps(rows))
    return None


if __name__ == "__main__":
    sys.exit(main())
