#!/usr/bin/env python3
"""What takes too long for every test run: hot reloads under load, and idle and slow connections. One JSON object on standard output.

    python bench/serve/soak.py [--reloads 1000] [--connections 10000]

Reloads: each answer must be that of a version which was served, memory must come back. Connections: how long others take.
"""

import argparse
import http.client
import json
import pathlib
import resource
import shutil
import socket
import statistics
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "test" / "python")]

import numpy as np  # noqa: E402
import serve_process  # noqa: E402

import weft.serve  # noqa: E402


def resident(server):
    fields = pathlib.Path(f"/proc/{server.process.pid}/statm").read_text().split()
    return int(fields[1]) * resource.getpagesize()


class Client:
    """Asks over one connection, again and again."""

    def __init__(self, port, body):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.body = json.dumps(body)

    def ask(self, path):
        self.connection.request("POST", path, self.body)
        answer = self.connection.getresponse()
        return answer.status, json.loads(answer.read())


def reloads(base, count):
    """Version v multiplies by v. The folder of a version that was replaced is removed."""
    def version(number):
        return weft.serve.export(lambda p, x: p.max() * x, np.full((64, 1024), number, np.float32), np.ones((1, 4), np.float32),
                                 base / "m", buckets=(1,), version=number)

    first = version(1)
    text = (first / "weights.safetensors").read_bytes()
    header = 8 + int.from_bytes(text[:8], "little")
    wrong, answers, stop = [], [0], threading.Event()
    body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1] * 4}], "outputs": [{"name": "output_0"}]}

    def client(port):
        own = Client(port, body)
        while not stop.is_set():
            status, answer = own.ask("/v2/models/m/infer")
            if status != 200 or answer["outputs"][0]["data"][0] != float(answer["model_version"]):
                wrong.append((status, str(answer)[:200]))
            answers[0] += 1

    with serve_process.serving(f"--model=m={base}/m", "--file_system_poll_wait_seconds=0.02") as server:
        threads = [threading.Thread(target=client, args=(server.http,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        memory, begin = [], time.monotonic()
        for number in range(2, count + 2):
            folder = base / "new"
            shutil.copytree(first, folder)
            (folder / "weights.safetensors").write_bytes(text[:header] + np.full(65536, number, np.float32).tobytes())
            folder.rename(base / "m" / str(number))
            while server.ask(f"/v2/models/m/versions/{number}/ready")[0] != 200:
                time.sleep(0.002)
            if number > 2:
                shutil.rmtree(base / "m" / str(number - 1))
            memory.append(resident(server))
        seconds = time.monotonic() - begin
        stop.set()
        for thread in threads:
            thread.join()
    tenth = max(len(memory) // 10, 1)
    early, late = statistics.median(memory[tenth:2 * tenth] or memory), statistics.median(memory[-tenth:])
    return {"reloads": count, "seconds": seconds, "answers": answers[0], "wrong": len(wrong), "examples": wrong[:3],
            "memory_early_bytes": early, "memory_late_bytes": late, "memory_growth_percent": 100 * (late / early - 1)}


def latencies(port, count=300):
    client, times = Client(port, {"instances": [[1, 2]]}), []
    for _ in range(count):
        begin = time.perf_counter()
        assert client.ask("/v1/models/m:predict")[0] == 200
        times.append(time.perf_counter() - begin)
    times.sort()
    return {"p50_us": times[count // 2] * 1e6, "p99_us": times[count * 99 // 100] * 1e6}


def connections(base, count):
    """Idle ones, and as many that send a byte now and then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    count = min(count, hard - 200)
    weft.serve.export(lambda p, x: p * x, np.float32(2), np.ones((1, 2), np.float32), base / "m", buckets=(1,))
    with serve_process.serving(f"--model=m={base}/m") as server:
        alone = latencies(server.http)
        idle = [socket.create_connection(("127.0.0.1", server.http)) for _ in range(count // 2)]
        slow = [socket.create_connection(("127.0.0.1", server.http)) for _ in range(count - count // 2)]
        stop = threading.Event()

        def trickle():
            text, at = b"POST /v1/models/m:predict HTTP/1.1\r\nX-Slow: " + b"x" * 10000, 0
            while not stop.is_set():
                for connection in slow:
                    try:
                        connection.send(text[at:at + 1])
                    except OSError:
                        pass  # ended by the server: its header took too long
                at += 1
                stop.wait(1)

        thread = threading.Thread(target=trickle)
        thread.start()
        time.sleep(1)
        among = latencies(server.http)
        stop.set()
        thread.join()
        held = resident(server)
        for connection in idle + slow:
            connection.close()
    return {"connections": count, "alone": alone, "among_them": among, "p99_ratio": among["p99_us"] / alone["p99_us"], "resident_bytes": held}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reloads", type=int, default=1000)
    parser.add_argument("--connections", type=int, default=10_000)
    options = parser.parse_args()
    results = {}
    for name, work, count in (("reloads", reloads, options.reloads), ("connections", connections, options.connections)):
        if count:
            with tempfile.TemporaryDirectory() as base:
                results[name] = work(pathlib.Path(base), count)
                print(name, json.dumps(results[name]), file=sys.stderr, flush=True)
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
