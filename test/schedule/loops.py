#!/usr/bin/env python3
"""Random loops with collectives: passes that move collectives across iterations leave results, attributes and control edges as they were.

    loops.py [--loops N] [--seed K] [--devices 4|8] [--passes A;B,C;...] [--facts N]

A loop counts up or down, by one or more, and holds any number of collectives of any kind: of weights that are read row by row (carried backward), in front of
rows that are written (forward, sunk), on sums that are carried on, on what the iteration before sent. Between them stand formatting ops, barriers, control
edges, scheduling groups, a loop within the loop, a branch or a call. Every module is evaluated on 4 or 8 devices, then run through each list of passes and compared;
of the first --facts also what a pass has to leave: keys of frontend attributes, control edges, channels that are apart.
"""

import argparse
import collections
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
WEFT = pathlib.Path(os.environ.get("WEFT_BUILD_DIR", ROOT / "build")).resolve() / "weft"
PASSES = ["pipeline-collectives", "sink-all-reduces", "sink-collectives", "double-buffer-loops", "unroll-collective-loops",
          "sink-collectives,simplify-while,sink-all-reduces,pipeline-collectives,simplify-while,double-buffer-loops,make-collectives-async"]  # fmt: skip
HEADER = "// test: run devices=%d inputs=random tolerance=1e-4\n// tolerance: sums over devices and rounds in another order\n"
GROUPS = {4: ["{{0,1,2,3}}", "{{0,1},{2,3}}", "{{0,2},{1,3}}", "{{3,2,1,0}}"],
          8: ["{{0,1,2,3,4,5,6,7}}", "{{0,1},{2,3},{4,5},{6,7}}", "{{0,2,4,6},{1,3,5,7}}", "{{7,6,5,4,3,2,1,0}}"]}  # fmt: skip
PAIRS = {4: ["{{0,1},{1,2},{2,3},{3,0}}", "{{0,1},{1,0}}", "{{3,2},{2,1},{1,0}}"],
         8: ["{{0,1},{1,2},{2,3},{3,4},{4,5},{5,6},{6,7},{7,0}}", "{{0,4},{4,0},{1,5},{5,1}}", "{{7,6},{6,5},{5,4},{4,3},{3,2},{2,1},{1,0}}"]}  # fmt: skip
SUM = """sum { a = f64[] parameter(0)
  b = f64[] parameter(1)
  ROOT c = f64[] add(a, b) }
most { a = f64[] parameter(0)
  b = f64[] parameter(1)
  ROOT c = f64[] maximum(a, b) }
"""


def text(dims):
    return f"f64[{','.join(map(str, dims))}]"


class Body:
    """One computation that is written: values by name with their dimensions, all of them f64, so that what a pass rounds elsewhere does not show."""

    def __init__(self, module, depth):
        self.rng, self.names, self.devices, self.depth = module.rng, module.names, module.devices, depth
        self.lines, self.values, self.made = [], [], []
        self.edges = []  # where a control edge may come from

    def add(self, dims, call, more="", prefix="v", plain=False):
        name = f"{prefix}{next(self.names)}"
        if not plain and self.edges and self.rng.random() < 0.06:
            more += f", control-predecessors={{{self.rng.choice(self.edges)}}}"
        if not plain and self.rng.random() < 0.06:
            more += ', frontend_attributes={%s="%d"}' % (self.rng.choice(["note", "_xla_other", "owner"]), self.rng.randint(0, 9))
        self.lines.append(f"{name} = {text(dims)} {call}{more}")
        if "constant(" not in call:
            self.made.append((name, dims))
            self.edges.append(name)
        return name, dims

    def index(self, call, prefix="n"):
        name = f"{prefix}{next(self.names)}"
        self.lines.append(f"{name} = s32[] {call}")
        return name

    def collective(self, value):
        """Any kind that the shape allows."""
        rng, (name, dims) = self.rng, value
        groups = rng.choice(GROUPS[self.devices])
        size = len(groups.split("}")[0].split(","))
        attributes = f", channel_id={next(self.names)}, replica_groups={groups}, use_global_device_ids=true"
        if rng.random() < 0.1:
            attributes += ', frontend_attributes={_scheduling_group_id="%d",note="c"}' % rng.randint(1, 3)
        d = rng.randrange(len(dims)) if dims else None
        kind = rng.choice(["all-reduce", "all-reduce", "all-gather", "reduce-scatter", "collective-permute", "all-to-all"])
        if kind == "all-gather" and dims and dims[d] * size <= 16:
            out = [*dims[:d], dims[d] * size, *dims[d + 1 :]]
            return self.add(out, f"all-gather({name})", f"{attributes}, dimensions={{{d}}}", "g", True)
        if kind == "reduce-scatter" and dims and dims[d] % size == 0 and dims[d] > size:
            out = [*dims[:d], dims[d] // size, *dims[d + 1 :]]
            return self.small(self.add(out, f"reduce-scatter({name})", f"{attributes}, dimensions={{{d}}}, to_apply=sum", "s", True))
        if kind == "all-to-all" and dims and dims[d] % size == 0:
            plain = attributes.replace(", use_global_device_ids=true", "")
            return self.add(dims, f"all-to-all({name})", f"{plain}, dimensions={{{d}}}", "t", True)
        if kind == "collective-permute":
            pairs = rng.choice(PAIRS[self.devices])
            more = attributes.split(", replica_groups")[0] + f", source_target_pairs={pairs}"
            return self.add(dims, f"collective-permute({name})", more, "p", True)
        to_apply = rng.choice(["sum", "sum", "sum", "most"])
        return self.small(self.add(dims, f"all-reduce({name})", f"{attributes}, to_apply={to_apply}", "r", True))

    def small(self, value):
        """Sums over devices do not grow from iteration to iteration."""
        if self.rng.random() < 0.5:
            return value
        return self.add(value[1], f"{self.rng.choice(['tanh', 'logistic'])}({value[0]})")

    def format(self, value):
        rng, (name, dims) = self.rng, value
        way = rng.choice(["reshape", "transpose", "slice", "reverse", "negate", "broadcast", "copy", "barrier", "none", "none"])
        if way == "reshape" and dims:
            out = rng.choice([[1, *dims], [*dims, 1], [x for x in dims if x != 1], [max(1, dims[0] // 2), 2, *dims[1:]] if dims[0] % 2 == 0 else dims])
            return self.add(out, f"reshape({name})")
        if way == "transpose" and len(dims) > 1:
            order = rng.sample(range(len(dims)), len(dims))
            return self.add([dims[k] for k in order], f"transpose({name})", f", dimensions={{{','.join(map(str, order))}}}")
        if way == "slice" and dims and dims[0] > 2:
            cut = ",".join(["[1:%d]" % dims[0]] + [f"[0:{x}]" for x in dims[1:]])
            return self.add([dims[0] - 1, *dims[1:]], f"slice({name})", f", slice={{{cut}}}")
        if way == "reverse" and dims:
            return self.add(dims, f"reverse({name})", ", dimensions={0}")
        if way == "broadcast" and len(dims) < 3:
            return self.add([2, *dims], f"broadcast({name})", f", dimensions={{{','.join(str(k + 1) for k in range(len(dims)))}}}")
        if way in ("negate", "copy"):
            return self.add(dims, f"{way}({name})")
        if way == "barrier":
            return self.add(dims, f"opt-barrier({name})")
        return value

    def compute(self, value):
        rng, (name, dims) = self.rng, value
        way = rng.choice(["tanh", "logistic", "multiply", "add", "dot"])
        same = [v for v in self.values if v[1] == dims]
        if way in ("multiply", "add") and same:
            return self.add(dims, f"tanh({self.add(dims, f'{way}({name}, {rng.choice(same)[0]})')[0]})")
        if way == "dot" and len(dims) == 2 and dims[0] == dims[1] and same:
            product = self.add(dims, f"dot({name}, {rng.choice(same)[0]})", ", lhs_contracting_dims={1}, rhs_contracting_dims={0}")
            return self.add(dims, f"tanh({product[0]})")
        return self.add(dims, f"{way if way in ('tanh', 'logistic') else 'tanh'}({name})")

    def shape_to(self, value, dims, plain=False):
        """Some value of these dimensions that depends on it. Plain: it may become dead, so that nothing stands on it."""
        name, have = value
        if have == dims:
            return value
        size = 1
        for x in have:
            size *= x
        want = 1
        for x in dims:
            want *= x
        if size == want:
            return self.add(dims, f"reshape({name})", plain=plain)
        if have:
            zero = self.add([], "constant(0)", plain=True)
            name = self.add([], f"reduce({name}, {zero[0]})", f", dimensions={{{','.join(map(str, range(len(have))))}}}, to_apply=sum", plain=plain)[0]
            name = self.add([], f"tanh({name})", plain=plain)[0]
        return self.add(dims, f"broadcast({name})", ", dimensions={}", plain=plain)

    def chain(self, value, least=0, is_private=False):
        """Collectives, formatting ops and compute, one on the other. Private: nothing else reads what is between them."""
        for _ in range(self.rng.randint(least, 4)):
            value = self.rng.choice([self.collective, self.format, self.format, self.compute])(value)
            if len(value[1]) > 4:
                value = self.shape_to(value, [8])
            if not is_private:
                self.values.append(value)
        return value

    def unread(self, results):
        """The sum of what nothing reads but `results`, so that all of it counts; None where there is no such value."""
        read = set(re.findall(r"\w+", " ".join(line.split("(", 1)[1] for line in self.lines if "parameter(" not in line and "constant(" not in line)))
        total = None
        for name, dims in [v for v in self.made if v[0] not in read and v not in results]:
            value = self.shape_to((name, dims), [])
            total = value if total is None else self.add([], f"add({total[0]}, {value[0]})", plain=True)
        return total


class Module:
    def __init__(self, rng, devices):
        self.rng, self.devices, self.names, self.computations = rng, devices, iter(range(10, 10**9)), []

    def counter(self, trips):
        """Where it begins, the step, the bound and the comparison."""
        begin, step = self.rng.choice([0, 0, 0, 1, 5, -3]), self.rng.choice([1, 1, 1, 2, -1, 3])
        end = begin + trips * step
        way = ("GT" if step < 0 else "LT") if self.rng.random() < 0.8 else ("GE" if step < 0 else "LE")
        if way in ("GE", "LE"):
            end -= step
        return begin, step, end, way

    def row_index(self, body, begin, step, trips, i):
        """The iteration as 0, 1, ..., and an index made of it."""
        rng = body.rng
        k = i if begin == 0 and step == 1 else body.index(f"subtract({i}, {body.index(f'constant({begin})')})")
        if step != 1:
            k = body.index(f"divide({k}, {body.index(f'constant({step})')})")
        way = rng.random()
        if way < 0.5:
            return k
        if way < 0.7:
            return body.index(f"subtract({body.index(f'constant({trips - 1})')}, {k})")
        if way < 0.8:
            return body.index(f"add({k}, {body.index('constant(1)')})")  # the last is clamped
        if way < 0.9:
            return body.index(f"remainder({k}, {body.index('constant(2)')})")
        return body.index("constant(0)")

    def loop(self, parent, state_values, depth):
        """A loop over values of the parent; its results, by element."""
        rng = self.rng
        trips = rng.choice([1, 2, 2, 3, 3, 4, 5]) if depth == 0 else rng.choice([1, 2, 3])
        begin, step, end, way = self.counter(trips)
        elements = []  # kind, dims, the initial value
        for _ in range(rng.randint(1, 2)):
            elements.append(("carried", rng.choice([[8, 8], [8], [4, 8]])))
        for _ in range(rng.randint(0, 2)):
            elements.append(("weights", [trips, *rng.choice([[2, 8], [8], [4, 4]])]))
        for _ in range(rng.randint(0, 2)):
            elements.append(("rows", [trips + rng.choice([0, 0, 0, 0, 0, 1]), *rng.choice([[8], [2, 4], [8, 2]])]))
        for _ in range(rng.randint(0, 2)):
            elements.append(("sums", rng.choice([[8], [4, 4]])))
        if rng.random() < 0.3:
            elements.append(("sent", [8]))
        rng.shuffle(elements)
        known = parent.edges.copy()
        inits = [parent.shape_to(rng.choice(state_values), dims, plain=True) for _, dims in elements]
        parent.edges = known
        at = rng.randint(0, len(elements))  # where the counter stands
        shapes = [text(d) for _, d in elements]
        shape = f"({', '.join([*shapes[:at], 's32[]', *shapes[at:]])})"
        where = lambda k: k if k < at else k + 1  # noqa: E731
        body = Body(self, depth + 1)
        reads = []
        body.lines.append(f"state = {shape} parameter(0)")
        body.lines.append(f"i = s32[] get-tuple-element(state), index={at}")
        for k, (_, dims) in enumerate(elements):
            reads.append(body.add(dims, "get-tuple-element(state)", f", index={where(k)}", "e", True))
        body.edges.clear()
        body.made.clear()
        kinds = ("carried", "sent") if rng.random() < 0.7 else ("carried", "sums", "sent")  # sums that are read stay
        body.values += [reads[k] for k, e in enumerate(elements) if e[0] in kinds]
        results = self.fill(body, elements, reads, (begin, step, trips))
        following = body.index(f"add(i, {body.index(f'constant({step})')})")
        names = [r[0] for r in results]
        root = f"ROOT o = {shape} tuple({', '.join([*names[:at], following, *names[at:]])})"
        tag = next(self.names)
        self.computations.append(f"b{tag} {{ " + "\n  ".join([*body.lines, root]) + " }\n")
        self.computations.append(f"""c{tag} {{ state = {shape} parameter(0)
  i = s32[] get-tuple-element(state), index={at}
  n = s32[] constant({end})
  ROOT r = pred[] compare(i, n), direction={way} }}
""")
        start = parent.index(f"constant({begin})")
        init = [v[0] for v in inits]
        parent.lines.append(f"t{tag} = {shape} tuple({', '.join([*init[:at], start, *init[at:]])})")
        known = f', backend_config={{"known_trip_count":{{"n":"{trips}"}}}}' if rng.random() < 0.4 else ""
        parent.lines.append(f"w{tag} = {shape} while(t{tag}), condition=c{tag}, body=b{tag}{known}")
        out = []
        for k, (_, dims) in enumerate(elements):
            out.append(parent.add(dims, f"get-tuple-element(w{tag})", f", index={where(k)}", "x", True))
        return out

    def fill(self, body, elements, reads, counter):
        rng, (begin, step, trips) = body.rng, counter
        zero = body.index("constant(0)")

        def row(k):
            dims = elements[k][1][1:]
            index = self.row_index(body, begin, step, trips, "i")
            indices = ", ".join([index] + [zero] * len(dims))
            return indices, dims

        for k, (kind, _) in enumerate(elements):  # weights, row by row
            if kind == "weights":
                indices, dims = row(k)
                sizes = ",".join(map(str, [1, *dims]))
                value = body.add([1, *dims], f"dynamic-slice({reads[k][0]}, {indices})", f", dynamic_slice_sizes={{{sizes}}}")
                if rng.random() < 0.8:
                    value = body.add(dims, f"reshape({value[0]})")
                body.values.append(body.chain(value, 1))
        for _ in range(rng.randint(0, 2)):
            body.chain(rng.choice(body.values))
        if body.depth == 1 and rng.random() < 0.2:
            body.values += self.loop(body, body.values, body.depth)
        if rng.random() < 0.1:
            body.values.append(self.called(body, rng.choice(body.values)))
        # The last that is carried on takes what nothing else reads.
        order = sorted(range(len(elements)), key=lambda k: elements[k][0] == "carried")
        last, results = order[-1], {}
        for k in order:
            kind, dims = elements[k]
            source = rng.choice(body.values)
            if kind == "weights":
                results[k] = reads[k]
            elif kind == "carried":
                value = body.shape_to(body.compute(body.chain(source)), dims)
                rest = body.unread(results.values()) if k == last else None
                if rest:
                    value = body.add(dims, f"add({value[0]}, {body.shape_to(rest, dims, plain=True)[0]})", plain=True)
                value = body.add(dims, f"add({reads[k][0]}, {value[0]})")  # so that the old one counts
                results[k] = body.add(dims, f"tanh({value[0]})")
            elif kind == "sent":  # by the iteration before
                results[k] = body.shape_to(body.collective(rng.choice([source, reads[k]])), dims)
            elif kind == "sums":
                value = body.shape_to(body.compute(source), dims)
                value = body.shape_to(body.collective(value), dims)
                results[k] = body.add(dims, f"{rng.choice(['add', 'add', 'add', 'subtract', 'maximum'])}({reads[k][0]}, {value[0]})")
            else:
                indices, inner = row(k)
                value = body.chain(body.collective(source), is_private=rng.random() < 0.7)
                value = body.shape_to(value, [1, *inner])
                result = body.add(dims, f"dynamic-update-slice({reads[k][0]}, {value[0]}, {indices})")
                if rng.random() < 0.1:  # a second row
                    indices, _ = row(k)
                    other = body.shape_to(body.compute(rng.choice(body.values)), [1, *inner])
                    result = body.add(dims, f"dynamic-update-slice({result[0]}, {other[0]}, {indices})")
                results[k] = result
        return [results[k] for k in range(len(elements))]

    def called(self, body, value):
        """The same behind a call, or in one branch of a conditional that all devices take alike."""
        inside = Body(self, 9)
        inside.lines.append(f"q = {text(value[1])} parameter(0)")
        inside.values.append(("q", value[1]))
        out = inside.shape_to(inside.chain(inside.collective(("q", value[1]))), [8])
        tag = next(self.names)
        end = inside.add([8], f"negate({out[0]})", plain=True)
        self.computations.append(f"f{tag} {{ " + "\n  ".join([*inside.lines[:-1], "ROOT " + inside.lines[-1]]) + " }\n")
        if self.rng.random() < 0.5:
            return body.add(end[1], f"call({value[0]})", f", to_apply=f{tag}", "k", True)
        self.computations.append(f"h{tag} {{ q = {text(value[1])} parameter(0)\n  z = f64[] constant(0.5)\n  ROOT r = f64[8] broadcast(z), dimensions={{}} }}\n")
        name = f"y{tag}"
        body.lines.append(f"l{tag} = s32[] constant(2)")
        body.lines.append(f"{name} = pred[] compare(i, l{tag}), direction=LT")
        return body.add(end[1], f"conditional({name}, {value[0]}, {value[0]})", f", true_computation=f{tag}, false_computation=h{tag}", "k", True)

    def write(self):
        entry = Body(self, 0)
        entry.lines += ["p0 = f64[8,8] parameter(0)", "p1 = f64[4,8] parameter(1)", "p2 = f64[8] parameter(2)"]
        entry.values += [("p0", [8, 8]), ("p1", [4, 8]), ("p2", [8])]
        out = self.loop(entry, entry.values, 0)
        if self.rng.random() < 0.15:
            out += self.loop(entry, out, 0)
        if self.rng.random() < 0.3:
            out.append(entry.chain(self.rng.choice(out)))
        entry.lines.append(f"ROOT end = ({', '.join(text(d) for _, d in out)}) tuple({', '.join(n for n, _ in out)})")
        return f"HloModule loops, num_partitions={self.devices}\n" + SUM + "".join(self.computations) + "ENTRY e { " + "\n  ".join(entry.lines) + " }\n"


def random_loops(seed, devices):
    """The text of a module."""
    return Module(random.Random(f"loops {seed}"), devices).write()


def weft(*arguments):
    return subprocess.run([WEFT, *map(str, arguments)], capture_output=True, text=True, check=False)


def facts(module):
    """Keys of frontend attributes, how many control edges there are, how often each channel is named."""
    keys = {key for attributes in re.findall(r"frontend_attributes=\{(.*?)\}", module) for key in re.findall(r'([\w.-]+)="', attributes)}
    edges = sum(len(names.split(",")) for names in re.findall(r"control-predecessors=\{(.+?)\}", module))
    return keys, edges, collections.Counter(re.findall(r"channel_id=(\d+)", module))


def lost(path, passes):
    """What a pass took away that it has to leave; whether it changed anything."""
    before, after = (weft("opt", f"--passes={p}", path) for p in ("separate-computations,eliminate-dead-code", f"separate-computations,eliminate-dead-code,{passes},eliminate-dead-code"))
    if before.returncode or after.returncode:
        return (before.stderr + after.stderr)[:400], False
    old, new = facts(before.stdout), facts(after.stdout)
    if old[0] - new[0]:
        return f"frontend attributes are gone: {', '.join(sorted(old[0] - new[0]))}", True
    if new[1] < old[1]:
        return f"control edges: {old[1]} before, {new[1]} after", True
    shared = [c for c, n in new[2].items() if n > 1 and old[2][c] <= 1]
    return (f"channels that several collectives have: {', '.join(shared)}" if shared else None), before.stdout != after.stdout


def write_loops(path, seeds, devices):
    """All of them in one file."""
    path.write_text(HEADER % devices + "// -----\n".join(random_loops(s, devices) for s in seeds))


def failures(path, lists):
    """What does not run as it is or differs after one of the lists of passes; all in one process."""
    for arguments in [], ["--passes=" + ";".join(f"separate-computations,{passes}" for passes in lists)]:
        done = weft("test", *arguments, path)
        if done.returncode:
            return done.stdout[-6000:] + done.stderr[-2000:]
    return None


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--loops", type=int, default=1000)
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--devices", type=int, default=4, choices=sorted(GROUPS))
    ap.add_argument("--facts", type=int, default=100, help="modules whose attributes, edges and channels are looked at")
    ap.add_argument("--passes", default=";".join(PASSES))
    a = ap.parse_args()
    wrong, changed = 0, collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for first in range(a.seed, a.seed + a.loops, 250):
            path = folder / "loops.hlo"
            seeds = range(first, min(first + 250, a.seed + a.loops))
            write_loops(path, seeds, a.devices)
            if found := failures(path, a.passes.split(";")):
                wrong += 1
                print(f"seeds from {first}: {found}", flush=True)
        for seed in range(a.seed, a.seed + a.facts):
            path = folder / "loop.hlo"
            path.write_text(random_loops(seed, a.devices))
            for passes in a.passes.split(";"):
                gone, is_changed = lost(path, passes)
                changed[passes] += is_changed
                if gone:
                    wrong += 1
                    print(f"seed {seed}, {passes}: {gone}", flush=True)
    for passes in a.passes.split(";"):
        print(f"{passes}: {changed[passes]} of {a.facts} changed")
    print(f"{a.loops} loops, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
