"""What the programs of the gallery share: their command line, times beside XLA:CPU, the picture.

    python kalman.py                     on Weft
    python kalman.py --picture file.png  and draw what came out (needs matplotlib)
    python kalman.py --compare           on Weft and on XLA:CPU in one process: times, and how far the results are apart
    python kalman.py --quick             a small size, for tests

A program is a function that returns a function of JAX and its arguments, NumPy arrays, so that each platform starts from the same bits.
"""

import argparse
import inspect
import io
import json
import os
import pathlib
import statistics
import sys
import time

# Before anything uses JAX: some libraries do when they are imported.
COMPARING = "--compare" in sys.argv
os.environ.setdefault("JAX_PLATFORMS", "weft,cpu" if COMPARING else "weft")
if COMPARING:
    os.environ.setdefault("WEFT_CACHE", "0")  # compile times are those of a first start

import jax
import numpy as np

NAMES = {"weft": "Weft", "cpu": "XLA:CPU"}
REPEATS, BUDGET = 9, 20.0  # at most so many runs of each platform, as long as all of them together take fewer seconds


def parse_arguments(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="a small size")
    parser.add_argument("--compare", action="store_true", help="on Weft and on XLA:CPU, with times and the difference of results")
    parser.add_argument("--picture", type=pathlib.Path, help="draw the result into this file")
    parser.add_argument("--json", type=pathlib.Path, help="write the times into this file")
    return parser.parse_args()


def seconds(call):
    begin = time.perf_counter()
    result = jax.block_until_ready(call())
    return time.perf_counter() - begin, result


def prepare(function, arguments, platform):
    """Compiles for a platform and runs once: (seconds to compile, a call without arguments, the result)."""
    device = jax.devices(platform)[0]
    with jax.default_device(device):
        placed = jax.device_put(arguments, device)
        lowered = jax.jit(function).lower(*placed)
        begin = time.perf_counter()
        compiled = lowered.compile()
        spent = time.perf_counter() - begin
    call = lambda: compiled(*placed)
    return spent, call, jax.tree.map(np.asarray, call())


def interleaved(calls):
    """The median seconds of each call, taken turn by turn."""
    times, begin = [[] for _ in calls], time.perf_counter()
    for turn in range(REPEATS):
        for row, call in zip(times, calls):
            row.append(seconds(call)[0])
        spent = time.perf_counter() - begin
        if spent + spent / (turn + 1) > BUDGET:
            break
    return [statistics.median(row) for row in times]


def difference(got, want):
    """The largest difference, relative to the largest magnitude of each array."""
    worst = 0.0
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
        worst = max(worst, float(np.max(np.abs(a - b)) / (np.max(np.abs(b)) or 1.0)))
    return worst


def compare(function, arguments, compared, tolerance):
    platforms = ["weft", "cpu"]
    compiled, calls, results = zip(*(prepare(function, arguments, name) for name in platforms))
    runs = interleaved(calls)
    print(f"{'':10}{'compile s':>12}{'run ms':>12}")
    for name, spent, run in zip(platforms, compiled, runs):
        print(f"{NAMES[name]:10}{spent:12.2f}{1e3 * run:12.2f}")
    apart = difference(*({key: result[key] for key in compared or result} for result in results))
    print(f"Weft is {compiled[1] / compiled[0]:.2f} times as fast to compile, {runs[1] / runs[0]:.2f} times to run")
    print(f"largest difference of {', '.join(compared or results[0])}: {apart:.1e} (allowed {tolerance:.0e})")
    row = {"compile": compiled, "run": runs, "difference": apart, "compared": list(compared or results[0])}
    return results[0], row, apart <= tolerance


def save(figure, path, colours):
    """As a PNG of few colours, which takes a fraction of the bytes."""
    from PIL import Image

    data = io.BytesIO()
    figure.savefig(data, dpi=100)
    Image.open(data).convert("RGB").quantize(colours, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path}: {path.stat().st_size / 1e3:.0f} kB")


def main(program, draw, *, compared=None, tolerance=1e-4, colours=64):
    """Runs a program as the command line says. `compared` names what of the result is compared (default: all of it); `colours` are those of the picture."""
    options = parse_arguments(inspect.getdoc(inspect.getmodule(program)))
    function, arguments = program(options.quick)
    agree = True
    if options.compare:
        result, row, agree = compare(function, arguments, compared, tolerance)
        if options.json:
            options.json.write_text(json.dumps(row))
    else:
        platform = jax.default_backend()
        spent, call, result = prepare(function, arguments, platform)
        print(f"{NAMES.get(platform, platform)}: compiled in {spent:.2f} s, ran in {seconds(call)[0]:.3f} s")
    if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(result)):
        sys.exit("the result has values that are not finite")
    if options.picture:
        import matplotlib

        matplotlib.use("Agg")
        save(draw(result), options.picture, colours)
    if not agree:
        sys.exit("the results of Weft and XLA:CPU are too far apart")
