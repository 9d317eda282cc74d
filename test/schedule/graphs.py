#!/usr/bin/env python3
"""Random graphs of compute and collectives: how far `weft schedule` is from the optimum.

    graphs.py [--graphs N] [--seed K] [--most NODES] [--limits 1,2] [--write FILE | --read FILE]

Queues are compared with OR-tools' CP-SAT (PyPI ortools), XLA's in-flight walk with exhaustive search on small graphs. Exits with
77 where ortools is missing. --write notes lengths alone, on a machine without OR-tools, and --read compares what was noted.
"""

import argparse
import itertools
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
WEFT = pathlib.Path(os.environ.get("WEFT_BUILD_DIR", ROOT / "build")).resolve() / "weft"


class Graph:
    """Nodes in topological order: (is_wire, microseconds, earlier nodes it needs). A transfer needs compute alone."""

    def __init__(self, nodes):
        self.nodes = nodes

    def module(self):
        lines, read = [], set()
        for n, (is_wire, _, needs) in enumerate(self.nodes):
            read |= set(needs)
            names = [f"n{k}" for k in needs]
            if is_wire:
                more = f", control-predecessors={{{', '.join(names[1:])}}}" if names[1:] else ""
                lines.append(f"s{n} = (f32[8], f32[64]) all-gather-start({(names or ['p'])[0]}), replica_groups={{}}, dimensions={{0}}{more}")
                lines.append(f"n{n} = f32[64] all-gather-done(s{n})")
            else:
                lines.append(f'n{n} = f32[8] custom-call({", ".join(names or ["p"])}), custom_call_target="work"')
        ends = [n for n in range(len(self.nodes)) if n not in read]
        shapes = ", ".join("f32[64]" if self.nodes[n][0] else "f32[8]" for n in ends)
        lines.append(f"ROOT r = ({shapes}) tuple({', '.join(f'n{n}' for n in ends)})")
        return "HloModule graph, num_partitions=8\nENTRY e {\n  p = f32[8] parameter(0)\n  " + "\n  ".join(lines) + "\n}\n"

    def profile(self):
        return "".join(f"{'s' if w else 'n'}{n} {t}\n" for n, (w, t, _) in enumerate(self.nodes))


def layered(rng, size):
    """Gather, compute, reduce; layer upon layer."""
    nodes, last = [], None
    while len(nodes) < size:
        mine = []
        for _ in range(rng.randint(1, 2)):
            nodes.append((True, time(rng), [rng.choice(computes(nodes))] if computes(nodes) and rng.random() < 0.3 else []))
            mine.append(len(nodes) - 1)
        for _ in range(rng.randint(1, 3)):
            needs = set(rng.sample(mine, rng.randint(1, len(mine)))) | ({last} if last is not None else set())
            nodes.append((False, time(rng), sorted(needs)))
            last = len(nodes) - 1
            if rng.random() < 0.4:
                nodes.append((True, time(rng), [last]))
                if rng.random() < 0.5:
                    nodes.append((False, time(rng), [len(nodes) - 1]))
    return Graph(nodes)


def irregular(rng, size):
    nodes = []
    for n in range(size):
        earlier = range(max(0, n - 20), n)
        if rng.random() < 0.35 and n:
            sources = [k for k in earlier if not nodes[k][0]]
            needs = rng.sample(sources, min(len(sources), rng.choice([0, 1, 1, 1, 2])))
            nodes.append((True, time(rng), sorted(needs)))
        else:
            needs = rng.sample(list(earlier), min(len(earlier), rng.choice([0, 1, 1, 2, 2, 3])))
            nodes.append((False, time(rng), sorted(needs)))
    return Graph(nodes)


def computes(nodes):
    return [k for k, n in enumerate(nodes) if not n[0]]


def time(rng):
    return max(1, round(rng.lognormvariate(3, 0.8)))


def weft(graph, overlap, metric):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "graph.hlo").write_text(graph.module())
        (folder / "times").write_text(graph.profile())
        command = [WEFT, "schedule", f"--target=h200x8,overlap={overlap}", f"--metric={metric}", "--profile", folder / "times",
                   "--emit=certificate", folder / "graph.hlo"]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    line = "length" if metric == "queues" else "length by the in-flight walk"
    return round(float(re.search(rf"// {line} ([\d.]+) ms", done.stdout)[1]) * 1e3)


def least(graph, overlap):
    """A lower bound under queues: of each stream the work between the heads and the tails of its jobs, of all the critical path."""
    nodes = graph.nodes
    head, tail = [0] * len(nodes), [0] * len(nodes)
    for n, (_, _, needs) in enumerate(nodes):
        head[n] = max([head[k] + nodes[k][1] for k in needs], default=0)
    for n in reversed(range(len(nodes))):
        for k in nodes[n][2]:
            tail[k] = max(tail[k], nodes[n][1] + tail[n])
    bound = max(head[n] + nodes[n][1] + tail[n] for n in range(len(nodes)))
    for stream, lanes in ((False, 1), (True, overlap)):
        mine = [n for n in range(len(nodes)) if nodes[n][0] == stream]
        for begin, end in itertools.product({head[n] for n in mine}, {tail[n] for n in mine}):
            work = sum(nodes[n][1] for n in mine if head[n] >= begin and tail[n] >= end)
            if work:
                bound = max(bound, begin + -(-work // lanes) + end)
    return bound


def optimum(graph, overlap, found, seconds=20):
    """The least length under queues, at most `found`; None where that is not proven in time."""
    from ortools.sat.python import cp_model

    bound = least(graph, overlap)
    if found == bound:
        return found
    model, most = cp_model.CpModel(), sum(t for _, t, _ in graph.nodes)
    begin = [model.new_int_var(0, most, "") for _ in graph.nodes]
    spans = [model.new_fixed_size_interval_var(b, t, "") for b, (_, t, _) in zip(begin, graph.nodes)]
    for n, (_, _, needs) in enumerate(graph.nodes):
        for k in needs:
            model.add(begin[n] >= begin[k] + graph.nodes[k][1])
    model.add_no_overlap([s for s, n in zip(spans, graph.nodes) if not n[0]])
    wires = [s for s, n in zip(spans, graph.nodes) if n[0]]
    model.add_no_overlap(wires) if overlap == 1 else model.add_cumulative(wires, [1] * len(wires), overlap)
    length = model.new_int_var(bound, max(bound, found), "")  # an order as long as that is known
    for b, (_, t, _) in zip(begin, graph.nodes):
        model.add(length >= b + t)
    model.minimize(length)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers, solver.parameters.max_time_in_seconds = 1, seconds
    status = solver.solve(model)
    assert status != cp_model.INFEASIBLE, "shorter than every order"
    return round(solver.objective_value) if status == cp_model.OPTIMAL else None


def walk_optimum(graph, overlap):
    """The least length under the in-flight walk, by exhaustion with dominance."""
    nodes, best = graph.nodes, {}
    result = [sum(t for _, t, _ in nodes) + 1]

    def go(placed, now, ends):
        if now >= result[0]:
            return
        ends = tuple(sorted((n, e) for n, e in ends))
        key = placed
        for other_now, other in best.setdefault(key, []):
            if other_now <= now and all(dict(other).get(n, 0) <= max(e, now) for n, e in ends) and sorted(
                    max(e, now) for _, e in other) <= sorted(max(e, now) for _, e in ends):
                return
        best[key].append((now, ends))
        if placed == (1 << len(nodes)) - 1:
            result[0] = min(result[0], max([now] + [e for _, e in ends]))
            return
        for n, (is_wire, t, needs) in enumerate(nodes):
            if placed >> n & 1 or any(not placed >> k & 1 for k in needs):
                continue
            at = max([now] + [e for k, e in ends if k in needs])
            if is_wire:
                flying = sorted(e for _, e in ends if e > at)
                if len(flying) >= overlap:
                    at = max(at, flying[len(flying) - overlap])
                go(placed | 1 << n, at, [*ends, (n, at + t)])
            else:
                go(placed | 1 << n, at + t, [(k, e) for k, e in ends if k not in needs or e > at + t])

    go(0, 0, ())
    return result[0]


def every_graph(a):
    for n, kind, overlap, metric in itertools.product(range(a.graphs), (layered, irregular), map(int, a.limits.split(",")), ("queues", "in-flight")):
        rng = random.Random(f"{a.seed} {n} {kind.__name__} {overlap}")
        yield kind(rng, rng.randint(8, a.most) if metric == "queues" else rng.randint(6, 9)), overlap, metric, (n, kind.__name__)


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--graphs", type=int, default=48)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--most", type=int, default=150)
    ap.add_argument("--limits", default="1,2", help="transfers at once")
    ap.add_argument("--write", help="what was found, as JSON, instead of comparing it")
    ap.add_argument("--read", help="what --write noted, of the same graphs")
    a = ap.parse_args()
    if a.write:
        noted = [weft(graph, overlap, metric) for graph, overlap, metric, _ in every_graph(a)]
        pathlib.Path(a.write).write_text(json.dumps(noted))
        return 0
    noted = iter(json.loads(pathlib.Path(a.read).read_text())) if a.read else None
    try:
        import ortools  # noqa: F401
    except ImportError:
        print("SKIPPED: no ortools")
        return 77
    rows = {}
    for graph, overlap, metric, (n, kind) in every_graph(a):
        found = weft(graph, overlap, metric) if noted is None else next(noted)
        best = optimum(graph, overlap, found) if metric == "queues" else walk_optimum(graph, overlap)
        rows.setdefault((metric, kind, overlap), []).append(None if best is None else found / best - 1)
        if best is not None and found > 1.005 * best:
            print(f"seed {a.seed}, number {n}, {kind}, limit {overlap}, {metric}: {len(graph.nodes)} nodes, {found} us, best {best}", flush=True)
    every = []
    for key, gaps in rows.items():
        proven = [g for g in gaps if g is not None]
        every += proven
        print(f"{key[0]:10} {key[1]:10} limit {key[2]}: {len(gaps)} graphs, {len(gaps) - len(proven)} not proven, optimal "
              f"{sum(g < 1e-9 for g in proven) / max(1, len(proven)):.1%}, mean gap {sum(proven) / max(1, len(proven)):.3%}, "
              f"max {max(proven, default=0):.2%}, below the optimum {sum(g < -1e-9 for g in proven)}")  # fmt: skip
    print(f"all: {len(every)} graphs, optimal {sum(g < 1e-9 for g in every) / len(every):.1%}, "
          f"mean gap {sum(every) / len(every):.3%}, max {max(every):.2%}")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
