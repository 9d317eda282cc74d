#!/usr/bin/env python3
"""weft-serve under load, on this machine: latency, batching, overload. One JSON object on standard output.

    ./dev bench serve [--seconds N]

The server and the load share the cores, so that figures are of the pair; they are compared within one run only.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "test" / "python")]
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax  # noqa: E402
import numpy as np  # noqa: E402
import serve_process  # noqa: E402

import weft.serve  # noqa: E402

LOAD = serve_process.BUILD / "serve_load"


def load(**flags):
    command = [str(LOAD)] + [f"--{name}={value}" for name, value in flags.items()]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=dict(os.environ, WEFT_CACHE="0"))
    return json.loads(done.stdout)


def export(base):
    random = np.random.default_rng(0)

    def mlp(p, x):
        for w in p:
            x = jax.numpy.tanh(x @ w)
        return x

    def weights(*sizes):
        return [random.normal(size=s).astype(np.float32) / 16 for s in zip(sizes, sizes[1:])]

    models = {"small": (weights(64, 64, 64), 64, (1, 8, 32)), "medium": (weights(512, 1024, 1024, 512), 512, (1, 8, 32))}
    for name, (params, width, buckets) in models.items():
        weft.serve.export(mlp, params, {"x": np.ones((1, width), np.float32)}, f"{base}/{name}", buckets=buckets)
    return {name: width for name, (_, width, _) in models.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5)
    seconds = parser.parse_args().seconds
    results = {}
    with tempfile.TemporaryDirectory() as base:
        widths = export(base)
        for name, width in widths.items():
            facts = dict(model=name, shape=f"1,{width}", seconds=seconds)
            results[f"{name}: in process, 1 client"] = load(in_process=f"{base}/{name}", clients=1, **facts)
            with serve_process.serving(f"--model={name}={base}/{name}") as server:
                facts["target"] = f"127.0.0.1:{server.grpc}"
                results[f"{name}: gRPC, 1 client"] = load(clients=1, **facts)
                many = results[f"{name}: gRPC, 32 clients"] = load(clients=32, **facts)
                best = many["normal"]["rate"]
                results[f"{name}: 50 % load"] = load(rate=best / 2, threads=1, high=0.1, **facts)
                results[f"{name}: 200 % load"] = load(rate=best * 2, threads=1, high=0.1, timeout_ms=200, **facts)
            with serve_process.serving(f"--model={name}={base}/{name}", "--enable_batching=false") as server:
                facts["target"] = f"127.0.0.1:{server.grpc}"
                results[f"{name}: gRPC, 32 clients, no batching"] = load(clients=32, **facts)
    for name, result in results.items():
        print(f"{name:40s}", json.dumps(result), file=sys.stderr)
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
