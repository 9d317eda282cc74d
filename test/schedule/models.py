#!/usr/bin/env python3
"""Large partitioned modules for the scheduler: unrolled transformer steps, sharded as FSDP, with tensor parallelism or without.

models.py --instructions 10000 [--kind fsdp|fsdp_tp|layered] [--seed N] > step.hlo
"""

import argparse
import random
import sys

GROUPS = "{{0,1,2,3,4,5,6,7}}"
HEADER = """HloModule step, num_partitions=8
sum { a = bf16[] parameter(0)
  b = bf16[] parameter(1)
  ROOT c = bf16[] add(a, b) }
"""


class Text:
    """Instructions of an entry computation, named as they come."""

    def __init__(self):
        self.lines, self.shapes, self.parameters, self.channel = [], {}, 0, 0

    def op(self, op, shape, *operands, attributes=""):
        name = f"{op.replace('-', '_')}.{len(self.lines)}"
        self.lines.append(f"  {name} = {shape} {op}({', '.join(operands)}){attributes}")
        self.shapes[name] = shape
        return name

    def parameter(self, shape):
        self.parameters += 1
        return self.op("parameter", shape, str(self.parameters - 1))

    def dot(self, shape, a, b, over=(1, 0)):
        return self.op("dot", shape, a, b, attributes=f", lhs_contracting_dims={{{over[0]}}}, rhs_contracting_dims={{{over[1]}}}")

    def collective(self, op, shape, operand, attributes=""):
        self.channel += 1
        attributes += f", channel_id={self.channel}, replica_groups={GROUPS}, use_global_device_ids=true"
        return self.op(op, shape, operand, attributes=attributes)

    def gather(self, rows, columns, shard):
        return self.collective("all-gather", f"bf16[{rows},{columns}]", shard, ", dimensions={0}")

    def reduce(self, value):
        return self.collective("all-reduce", self.shapes[value], value, ", to_apply=sum")

    def scatter(self, rows, columns, value):
        return self.collective("reduce-scatter", f"bf16[{rows // 8},{columns}]", value, ", dimensions={0}, to_apply=sum")

    def module(self, results):
        shapes = ", ".join(self.shapes[r] for r in results)
        return HEADER + "ENTRY main {\n" + "\n".join(self.lines) + f"\n  ROOT out = ({shapes}) tuple({', '.join(results)})\n}}\n"


def norm(t, x):
    shape = t.shapes[x]
    return t.op("multiply", shape, t.op("tanh", shape, x), x)


def forward(t, x, weights, shapes, tensor_parallel):
    """One layer: attention-like and feed-forward products; what backward needs beside the result."""
    kept = []
    for first, second in ((0, 1), (2, 3)):
        gathered = [t.gather(*shapes[k], weights[k]) for k in (first, second)]
        h = norm(t, x)
        tokens = t.shapes[x][5:].split(",")[0]
        a = t.dot(f"bf16[{tokens},{shapes[first][1]}]", h, gathered[0])
        b = t.op("tanh", t.shapes[a], a)
        y = t.dot(t.shapes[x], b, gathered[1])
        if tensor_parallel:
            y = t.reduce(y)
        kept.append((x, h, a, b))
        x = t.op("add", t.shapes[x], x, y)
    return x, kept


def backward(t, g, kept, weights, shapes, tensor_parallel):
    gradients = {}
    for (first, second), (x, h, a, b) in reversed(list(zip(((0, 1), (2, 3)), kept))):
        gathered = [t.gather(*shapes[k], weights[k]) for k in (first, second)]
        w2 = t.dot(f"bf16[{shapes[second][0]},{shapes[second][1]}]", b, g, over=(0, 0))
        db = t.dot(t.shapes[b], g, gathered[1], over=(1, 1))
        da = t.op("multiply", t.shapes[a], db, t.op("tanh", t.shapes[a], a))
        w1 = t.dot(f"bf16[{shapes[first][0]},{shapes[first][1]}]", h, da, over=(0, 0))
        dh = t.dot(t.shapes[h], da, gathered[0], over=(1, 1))
        if tensor_parallel:
            dh = t.reduce(dh)
        gradients[first], gradients[second] = t.scatter(*shapes[first], w1), t.scatter(*shapes[second], w2)
        g = t.op("add", t.shapes[g], g, t.op("multiply", t.shapes[h], dh, t.op("tanh", t.shapes[x], x)))
    return g, [gradients[k] for k in range(4)]


def transformer(layers, tensor_parallel=False, width=2048, tokens=4096):
    t = Text()
    inner = width * 4 // (4 if tensor_parallel else 1)
    shapes = [(width, width), (width, width), (width, inner), (inner, width)]
    x = t.parameter(f"bf16[{tokens},{width}]")
    every = [[t.parameter(f"bf16[{r // 8},{c}]") for r, c in shapes] for _ in range(layers)]
    kept = []
    for weights in every:
        x, k = forward(t, x, weights, shapes, tensor_parallel)
        kept.append(k)
    g, results = norm(t, x), []
    for weights, k in reversed(list(zip(every, kept))):
        g, gradients = backward(t, g, k, weights, shapes, tensor_parallel)
        for w, d in zip(weights, gradients):  # a step of an optimizer with momentum
            s = t.shapes[w]
            results.append(t.op("subtract", s, w, t.op("multiply", s, d, t.op("tanh", s, d))))
    return t.module([g, *results])


def layered(rng, instructions):
    """Random layers: gathers, products of what there is, reductions; some values live for long."""
    t = Text()
    live = [t.parameter("bf16[512,1024]") for _ in range(4)]
    while len(t.lines) < instructions:
        shards = [t.parameter("bf16[128,1024]") for _ in range(rng.randint(1, 3))]
        weights = [t.gather(1024, 1024, s) for s in shards]
        for w in weights:
            y = t.dot("bf16[512,1024]", rng.choice(live), w)
            for _ in range(rng.randint(1, 6)):
                y = t.op(rng.choice(["add", "multiply", "subtract"]), t.shapes[y], y, rng.choice(live))
            live.append(t.reduce(y) if rng.random() < 0.3 else y)
        if len(live) > 12:
            live = rng.sample(live, 6) + live[-2:]
    return t.module(live)


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--instructions", type=int, default=10000)
    ap.add_argument("--kind", choices=["fsdp", "fsdp_tp", "layered"], default="fsdp")
    ap.add_argument("--seed", type=int, default=1)
    a = ap.parse_args()
    if a.kind == "layered":
        text = layered(random.Random(a.seed), a.instructions)
    else:
        layer = transformer(2, a.kind == "fsdp_tp").count("\n") - transformer(1, a.kind == "fsdp_tp").count("\n")
        text = transformer(a.instructions // layer, a.kind == "fsdp_tp")
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
