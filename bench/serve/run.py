#!/usr/bin/env python3
"""weft-serve under load, on this machine: latency, throughput, batching, overload. A table on standard error, one JSON object on standard output.

    ./dev bench serve [--quick] [--seconds N] [--server-cores 0-7 --load-cores 8-15] [--placement both] [--only echo,mixed,...]
                      [--server-flags=--slots=6,--reserved_slots=2]

Server and load get half of the physical cores each where there are eight or more; otherwise they share all of them, and figures are of the pair.
The figures are of CPUs; WEFT_PLATFORM=gpu asks for those of a GPU. They are compared within one run only. --placement off leaves --dedicated_cores out, both runs each step that it concerns with it and without.
--export DIR writes the models and ends; --models DIR takes them from there, which needs neither JAX nor Weft's Python package, only the two
binaries weft-serve and serve_load in --bin.
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WIDTHS = {"small": 64, "wide": 256, "medium": 512, "flat": 128, "long": 128, "bulky": 524288}
MIXED = ("small", "wide", "medium", "flat")


def target(*names):
    return ";".join(f"{name}:x:1,{WIDTHS[name]}" for name in names)


class Bench:
    def __init__(self, options, models, cache):
        self.options, self.models, self.placement = options, models, True
        # Each program is compiled once a run. On a machine with a GPU that would be the default.
        self.environment = {"WEFT_PLATFORM": "cpu", **os.environ, "WEFT_CACHE": cache}
        self.results, self.rows = {}, []

    def _pinned(self, cores, command):
        return (["taskset", "-c", cores] if cores else []) + [str(c) for c in command]

    def load(self, label, *names, cores=None, seconds=None, **flags):
        flags = dict(models=target(*names), seconds=seconds or self.options.seconds, client=self.options.client,
                     spin_us=60 if self.options.load_cores else 0, **flags)
        command = [self.options.bin / "serve_load"] + [f"--{name}={value}" for name, value in flags.items()]
        done = subprocess.run(self._pinned(cores or self.options.load_cores, command), stdout=subprocess.PIPE, text=True, check=True,
                              env=self.environment)
        self.results[label if self.placement else f"{label} (no placement)"] = json.loads(done.stdout)
        return json.loads(done.stdout)

    def in_process(self, label, *names, **flags):
        return self.load(label, *names, cores=self.options.server_cores, folder=self.models, **flags)

    @contextlib.contextmanager
    def serving(self, *names, flags=(), models=None):
        command = [self.options.bin / "weft-serve", "--host=127.0.0.1", "--port=0", "--rest_api_port=0", "--file_system_poll_wait_seconds=0.1",
                   *(f"--model={name}={models or self.models}/{name}" for name in names), *flags]
        command += [flag for flag in self.options.server_flags.split(",") if flag]
        if self.options.server_cores and self.placement:
            command.append("--dedicated_cores")
        process = subprocess.Popen(self._pinned(self.options.server_cores, command), stderr=subprocess.PIPE, text=True, env=self.environment)
        try:
            for line in process.stderr:
                ports = re.search(r"ready: .*gRPC at port (\d+), HTTP at port (\d+)", line)
                if ports:
                    self.results["device"] = line.split("ready: ")[1].split(", gRPC")[0]
                    break
            else:
                raise RuntimeError("weft-serve did not start")
            threading.Thread(target=process.stderr.read, daemon=True).start()
            self.pid, before = process.pid, self.compiles(int(ports[2]))
            yield f"127.0.0.1:{ports[1]}", int(ports[2])
            self.compiled_late += 0 if models else self.compiles(int(ports[2])) - before
        finally:
            process.terminate()
            process.wait()

    compiled_late = 0

    @staticmethod
    def metrics(port):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as metrics:
            return metrics.read().decode()

    @classmethod
    def compiles(cls, port):
        found = re.search(r"^weft_compiles_total ([0-9.e+]+)", cls.metrics(port), re.M)
        return int(float(found[1])) if found else 0

    def inside(self, port):
        """Of the server by now: requests by model and phase, up to each time; of its threads by kind seconds that they ran, seconds that they
        waited for a core, how often they were displaced."""
        counts, threads = {}, {}
        pattern = r'_bucket\{model="([^"]*)",priority="normal",phase="([^"]*)",le="([^"]*)"\} (\d+)'
        for model, phase, end, count in re.findall(pattern, self.metrics(port)):
            counts[model, phase, float(end)] = int(count)
        for task in pathlib.Path(f"/proc/{self.pid}/task").iterdir():
            with contextlib.suppress(OSError):
                kind = (task / "comm").read_text().strip().rstrip("0123456789 ")
                ran, waited, _ = map(int, (task / "schedstat").read_text().split())
                displaced = int(re.search(r"nonvoluntary_ctxt_switches:\s+(\d+)", (task / "status").read_text())[1])
                was = threads.get(kind, (0, 0, 0))
                threads[kind] = (was[0] + ran / 1e9, was[1] + waited / 1e9, was[2] + displaced)
        return counts, threads

    def say_inside(self, label, before, after):
        """What happened between two looks, as lines: p50 and p99 of each phase in microseconds."""
        phases, lines = {}, []
        for (model, phase, end), count in after[0].items():
            phases.setdefault((model, phase), []).append((end, count - before[0].get((model, phase, end), 0)))
        for (model, phase), ends in sorted(phases.items()):
            ends.sort()
            if ends[-1][1] > 0:
                at = [next(end for end, count in ends if count >= q * ends[-1][1]) for q in (0.5, 0.99)]
                lines.append(f"{model} {phase} {at[0] * 1e6:.0f}/{at[1] * 1e6:.0f} us")
        for kind, now in sorted(after[1].items()):
            ran, waited, displaced = (a - b for a, b in zip(now, before[1].get(kind, (0, 0, 0))))
            lines.append(f"{kind}: ran {ran:.2f} s, waited {waited:.2f} s, displaced {displaced}")
        self.results[f"{label}: inside"] = lines
        print("\n".join("    " + line for line in lines), file=sys.stderr, flush=True)

    @contextlib.contextmanager
    def echo(self):
        command = [self.options.bin / "serve_load", "--echo=1", f"--client={self.options.client}"]
        process = subprocess.Popen(self._pinned(self.options.server_cores, command),
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            yield f"127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.stdin.close()
            process.wait()

    def row(self, what, value, unit, wanted=None, at_most=True):
        what += "" if self.placement else " (no placement)"
        good = wanted is None or (value <= wanted if at_most else value >= wanted)
        sign = "" if wanted is None else f"{'<=' if at_most else '>='} {wanted:g}"
        self.rows.append({"what": what, "value": value, "unit": unit, "wanted": sign, "good": good})
        print(f"{what:62s} {value:10.1f} {unit:5s} {sign:10s} {'' if good else '(not met)'}", file=sys.stderr, flush=True)


def added_latency(bench):
    """What the server adds to a call, beside what the wire alone costs: interleaved, medians of rounds. A client whose reader sleeps is one more
    wake-up; `polls` is one that does not."""
    local = bench.in_process("small: in process, 1 client", "small")["normal"]
    bench.row("small: in process, median", local["p50_us"], "us")
    with bench.serving("small") as (grpc, _), bench.echo() as echo:
        for kind, poll in (("", 0), (", client polls", 500)):
            if poll and (bench.options.client == "grpc" or not bench.options.load_cores):
                continue
            rounds = [[], [], [], []]
            for i in range(bench.options.rounds):
                bare = bench.load(f"small: echo {i}{kind}", "small", target=echo, poll_us=poll)["normal"]
                full = bench.load(f"small: gRPC {i}{kind}", "small", target=grpc, poll_us=poll)["normal"]
                for to, value in zip(rounds, (bare["p50_us"], bare["p99_us"], full["p50_us"], full["p99_us"])):
                    to.append(value)
            bare50, bare99, full50, full99 = map(statistics.median, rounds)
            bench.row(f"bare gRPC echo, median{kind}", bare50, "us")
            bench.row(f"bare gRPC echo, p99{kind}", bare99, "us")
            bench.row(f"small: gRPC, median{kind}", full50, "us")
            bench.row(f"small: added beyond the echo, median{kind}", full50 - bare50 - local["p50_us"], "us", 30)
            bench.row(f"small: added by server and wire, median{kind}", full50 - local["p50_us"], "us", 60)
            bench.row(f"small: added by server and wire, p99{kind}", full99 - local["p99_us"], "us", 150)


def throughput(bench):
    """Over gRPC and in process, the same cores; batching off, so that both run the same programs. What is shorter than 100 us, or is copied
    for longer than it runs, is shown without a bound."""
    for name in ("wide", "medium", "flat", "long", "bulky"):
        clients = 8 * bench.options.cores  # enough for all slots while others are on the wire
        alone = bench.in_process(f"{name}: in process, 1 client", name, clients=1, batching=0, seconds=bench.options.seconds / 2)["normal"]
        local = bench.in_process(f"{name}: in process, {clients} clients", name, clients=clients, batching=0)["normal"]
        with bench.serving(name, flags=["--enable_batching=false"]) as (grpc, _):
            remote = bench.load(f"{name}: gRPC, {clients} clients", name, target=grpc, clients=clients, channels=2 * bench.options.cores)["normal"]
        bench.row(f"{name}: in process, one client, median", alone["p50_us"], "us")
        bench.row(f"{name}: calls a second in process", local["rate"], "/s")
        wanted = 90 if alone["p50_us"] >= 100 and name != "bulky" else None
        bench.row(f"{name}: over gRPC, of that", 100 * remote["rate"] / local["rate"], "%", wanted, False)


def mixed(bench):
    """Four shapes at once, at half of what the server reaches: the tail of each."""
    names = MIXED
    with bench.serving(*names) as (grpc, rest):
        best = bench.load("mixed: closed loop", *names, target=grpc, clients=4 * bench.options.cores)["normal"]["rate"]
        before = bench.inside(rest)
        half = bench.load("mixed: 50 % load", *names, target=grpc, rate=best / 2, threads=bench.options.connections)
        after = bench.inside(rest)
    bench.say_inside("mixed: 50 % load", before, after)
    bench.row("mixed: best closed loop", best, "/s")
    for name in names:
        bench.row(f"mixed at 50 %: {name}: median", half[name]["p50_us"], "us")
        bench.row(f"mixed at 50 %: {name}: p99 of p50", half[name]["p99_us"] / half[name]["p50_us"], "x", 1.5)


def batching(bench):
    clients = 64 * bench.options.cores  # two batches for each core
    many = dict(clients=clients, channels=2 * bench.options.cores)
    with bench.serving("flat", flags=["--enable_batching=false"]) as (grpc, _):
        alone = bench.load("flat: no batching, closed loop", "flat", target=grpc, **many)["normal"]["rate"]
        low = alone / 10
        calm_alone = bench.load("flat: no batching, 10 % load", "flat", target=grpc, rate=low)["normal"]
    with bench.serving("flat") as (grpc, _):
        joined = bench.load("flat: batching, closed loop", "flat", target=grpc, **many)["normal"]["rate"]
        calm = bench.load("flat: batching, 10 % load", "flat", target=grpc, rate=low)["normal"]
    bench.row("flat: batching against none", joined / alone, "x", 5, False)
    bench.row("flat: median at low load, batching against none", calm["p50_us"] / calm_alone["p50_us"], "x", 1.1)


def overload(bench):
    """Twice the load that it can take, a tenth of high priority, without joining: work does not get cheaper by waiting.
    Requests of some milliseconds: of shorter ones half of the machine's time goes into receiving what is turned away."""
    name, deadline = "long", 100
    with bench.serving(name, flags=["--enable_batching=false"]) as (grpc, _):
        best = bench.load(f"{name}: closed loop", name, target=grpc, clients=4 * bench.options.cores)["normal"]["rate"]
        calm = bench.load(f"{name}: unloaded", name, target=grpc, rate=best / 20, high=1, threads=1)["high"]
        storm = bench.load(f"{name}: 200 % load", name, target=grpc, rate=2 * best, high=0.1, threads=2, timeout_ms=deadline,
                           seconds=bench.options.overload_seconds)
    high, rest = storm["high"], storm["normal"]
    bench.row("overload: best closed loop", best, "/s")
    bench.row("overload: high, p99 unloaded", calm["p99_us"], "us")
    bench.row("overload: high, p99 of unloaded", high["p99_us"] / max(calm["p99_us"], 1), "x", 1.5)
    bench.row("overload: the rest, of spare capacity", 100 * rest["rate"] / (best - high["rate"]), "%", 90, False)
    bench.row("overload: turned away in, median", rest["shed_p50_us"], "us")
    bench.row("overload: turned away in, p99", rest["shed_p99_us"], "us", 1000)
    bench.row("overload: the rest, longest without an answer", rest["gap_us"] / 1e3, "ms", 200)
    bench.row("overload: the rest, answered too late", 100 * rest["codes"].get("4", 0) / sum(rest["codes"].values()), "%")
    asked = sum(high["codes"].values())
    bench.row("overload: high, answered", 100 * high["codes"].get("0", 0) / asked, "%", 99.9, False)


def reload(bench):
    """The tail of one model while versions of another come and go."""
    with tempfile.TemporaryDirectory() as base:
        shutil.copytree(f"{bench.models}/wide", f"{base}/wide")
        shutil.copytree(f"{bench.models}/medium", f"{base}/medium")
        with bench.serving("wide", "medium", models=base) as (grpc, _):
            best = bench.load("wide: closed loop", "wide", target=grpc, clients=2 * bench.options.cores)["normal"]["rate"]
            calm = bench.load("wide: nothing loads", "wide", target=grpc, rate=best / 4)["normal"]
            stop = threading.Event()

            def versions():
                number = 1
                while not stop.is_set():
                    number += 1
                    shutil.copytree(f"{bench.models}/medium/1", f"{base}/new")
                    os.rename(f"{base}/new", f"{base}/medium/{number}")
                    time.sleep(0.3)

            thread = threading.Thread(target=versions)
            thread.start()
            busy = bench.load("wide: another model loads", "wide", target=grpc, rate=best / 4)["normal"]
            stop.set()
            thread.join()
    bench.row("wide: p99 while another model loads, of calm", busy["p99_us"] / calm["p99_us"], "x", 1.2)
    bench.row("wide: answers other than OK meanwhile", sum(busy["codes"].values()) - busy["codes"].get("0", 0), "", 0)


def export(base):
    sys.path[:0] = [str(ROOT / "python"), str(ROOT / "bench" / "serve")]
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import models

    models.write(base)


STEPS = {"echo": added_latency, "throughput": throughput, "mixed": mixed, "batching": batching, "overload": overload, "reload": reload}
PLACED = ("echo", "mixed", "overload")  # that placement concerns


def expand(text):
    """0-3,8 to [0, 1, 2, 3, 8]."""
    parts = [part.partition("-") for part in text.split(",") if part]
    return [core for first, _, last in parts for core in range(int(first), int(last or first) + 1)]


def halves():
    """Of the physical cores, each with all of its threads; none where there are few."""
    cores, seen = [], set()
    for core in sorted(os.sched_getaffinity(0)):
        try:
            siblings = pathlib.Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list").read_text().strip()
        except OSError:
            siblings = str(core)
        if siblings not in seen:
            seen.add(siblings)
            cores.append([c for c in expand(siblings) if c in os.sched_getaffinity(0)])
    if len(os.sched_getaffinity(0)) < 8 or len(cores) < 2:
        return "", ""
    half = len(cores) // 2
    return tuple(",".join(str(c) for group in groups for c in group) for groups in (cores[:half], cores[half:]))


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--overload-seconds", type=float, default=20)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="half a second a figure: whether it runs, not what it gives")
    parser.add_argument("--server-cores", default="")
    parser.add_argument("--load-cores", default="")
    parser.add_argument("--placement", choices=("on", "off", "both"), default="on")
    parser.add_argument("--client", choices=("wire", "grpc"), default="wire", help="by nghttp2, or by gRPC's own library")
    parser.add_argument("--only", default="")
    parser.add_argument("--connections", type=int, default=2, help="of the mixed load, each with a thread: requests of one are read one after the other")
    parser.add_argument("--server-flags", default="", help="more flags of weft-serve, by commas")
    parser.add_argument("--bin", type=pathlib.Path, default=os.environ.get("WEFT_BUILD_DIR", ROOT / "build"))
    parser.add_argument("--models", default="")
    parser.add_argument("--export", default="")
    parser.add_argument("--cache", default="", help="of compiled programs, for several runs; else each run compiles")
    options = parser.parse_args()
    if options.quick:
        options.seconds, options.overload_seconds, options.rounds = 0.5, 2, 1
    if not options.server_cores:
        options.server_cores, options.load_cores = halves()
    options.cores = len(expand(options.server_cores)) or len(os.sched_getaffinity(0))
    return options


def main():
    options = parse()
    if options.export:
        return export(options.export)
    began = time.monotonic()
    only = options.only.split(",") if options.only else STEPS
    print(f"server on {options.server_cores or 'all cores'}, load on {options.load_cores or 'all cores'}, Linux {os.uname().release}", file=sys.stderr)
    with tempfile.TemporaryDirectory() as base, tempfile.TemporaryDirectory() as cache:
        if not options.models:
            export(base)
        bench = Bench(options, options.models or base, options.cache or cache)
        for name in only:
            for bench.placement in {"on": (True,), "off": (False,), "both": (True, False) if name in PLACED else (True,)}[options.placement]:
                STEPS[name](bench)
    bench.placement = True
    bench.row("programs compiled after ready", bench.compiled_late, "", 0)
    print(f"{time.monotonic() - began:.0f} s", file=sys.stderr)
    print(json.dumps({"figures": bench.rows, "runs": bench.results}, indent=1))


if __name__ == "__main__":
    main()
