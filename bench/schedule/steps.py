#!/usr/bin/env python3
"""Sharded training steps from the JAX program to a schedule, on the model of 8 x H200.

    steps.py [--programs FOLDER] [--schedules FOLDER] [--out FILE] [--robust]

Each step of FOLDER/training_steps.py is lowered by JAX for 8 devices and goes through `weft schedule`, which partitions, fuses and orders it. Printed are
length, lower bound and gap by the certificate, which `weft schedule --check` computes again and, where it is there, the scorer that XLA's schedules were
scored with too; beside them the length of XLA's best schedule of the same step. --robust: the same order where link and latency are 30 % off, and with
times that jitter by 30 %.
"""

import argparse
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
WEFT = pathlib.Path(os.environ.get("WEFT_BUILD_DIR", ROOT / "build")).resolve() / "weft"
SHARED = ROOT.parent / "shared"
# Milliseconds and bytes of the best schedule that XLA:GPU (jax 0.11.2) made of each, on the same model.
XLA = {("fsdp", True): (33.9, 2.19e9), ("fsdp", False): (30.1, 3.1 * 2**30), ("fsdp_tp", True): (34.4, 2.6 * 2**30),
       ("fsdp_tp", False): (34.2, 3.27e9)}  # fmt: skip
OFF = ["link=259e9", "link=481e9", "latency=7e-6", "latency=13e-6", "link=259e9,latency=13e-6"]


def lower(programs, kind, scan, small=False):
    """The step as StableHLO text; needs 8 devices of any platform."""
    sys.path.insert(0, str(programs))
    import jax
    import training_steps

    sizes = training_steps.SMALL if small else training_steps.Sizes()
    return training_steps.make(kind, scan, jax.devices(), sizes=sizes)[0].as_text()


def weft(*arguments):
    done = subprocess.run([WEFT, *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return done.stdout


def figures(text):
    """Milliseconds and bytes of a certificate."""
    number = lambda what: float(re.search(rf"{what} ([\d.]+) ms", text)[1])  # noqa: E731
    return {"length": number("// length"), "bound": number("lower bound"), "which": re.search(r"lower bound [\d.]+ ms \(([^)]*)\)", text)[1],
            "compute": number("busy: compute"), "wire": number(r"busy: compute [\d.]+ ms, wire"), "exposed": number("exposed wire"),
            "peak": int(re.search(r"peak memory (\d+) bytes", text)[1])}  # fmt: skip


def jitter(path, seed):
    """A profile of the scheduled module with every time off by up to 30 %."""
    rng, lines = random.Random(seed), []
    for line in weft("schedule", "--as-is", "--emit=timeline", path).splitlines():
        begin, end, _, stream, name = line.split(None, 4)
        if stream != "wait":
            lines.append(f"{name} {(float(end) - float(begin)) * rng.uniform(0.7, 1.3):.3f}")
    return "\n".join(lines) + "\n"


def robust(path, folder):
    """Of the same order elsewhere: milliseconds by what is off."""
    found = {}
    for off in OFF:
        found[off] = figures(weft("schedule", "--as-is", "--emit=certificate", f"--target=h200x8,{off}", path))["length"]
    lengths = []
    for seed in range(3):
        (folder / "jitter").write_text(jitter(path, seed))
        lengths.append(figures(weft("schedule", "--as-is", "--emit=certificate", "--profile", folder / "jitter", path))["length"])
    return found | {"jitter 30 %": max(lengths)}


def step(a, kind, scan, folder):
    source, out = folder / "step.mlir", folder / "out.hlo"
    source.write_text(lower(a.programs, kind, scan))
    xla, memory = XLA[kind, scan]
    before = time.monotonic()
    weft("schedule", "--target=h200x8", f"--memory={int(1.1 * memory)}", "--out", out, source)
    row = figures(out.read_text()) | {"seconds": round(time.monotonic() - before, 1), "xla": xla, "memory_limit": int(1.1 * memory)}
    weft("schedule", "--check", out)
    scorer = a.schedules / "score.py"
    if scorer.exists():
        subprocess.run([sys.executable, scorer, out, "--json", folder / "score"], check=True, capture_output=True)
        (scored,) = json.loads((folder / "score").read_text()).values()
        row["scored"] = scored["step"] * 1e3
    row["gap"], row["shorter"] = row["length"] / row["bound"] - 1, 1 - row["length"] / xla
    if a.robust:
        row["robust"] = robust(out, folder)
    return row


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--programs", type=pathlib.Path, default=SHARED / "programs")
    ap.add_argument("--schedules", type=pathlib.Path, default=SHARED / "schedules")
    ap.add_argument("--out", type=pathlib.Path)
    ap.add_argument("--robust", action="store_true")
    a = ap.parse_args()
    if not (a.programs / "training_steps.py").exists():
        sys.exit(f"steps.py: no training_steps.py in {a.programs}")
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"
    rows = {}
    print("step                 length    bound    gap      wire  exposed   peak GB   XLA  shorter  seconds")
    for kind, scan in XLA:
        with tempfile.TemporaryDirectory() as folder:
            r = rows[f"{kind} {'scanned' if scan else 'unrolled'}"] = step(a, kind, scan, pathlib.Path(folder))
        name = f"{kind} {'scanned' if scan else 'unrolled'}"
        print(f"{name:18} {r['length']:8.3f} {r['bound']:8.3f} {r['gap']:6.2%} {r['wire']:9.3f} {r['exposed']:8.3f} {r['peak'] / 1e9:9.3f}"
              f" {r['xla']:6.1f} {r['shorter']:7.1%} {r['seconds']:8.1f}", flush=True)  # fmt: skip
        for off, length in r.get("robust", {}).items():
            print(f"    {off:26} {length:8.3f}")
    if a.out:
        a.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
