"""weft-serve in operation: TLS, tokens, the access log, the status page in a browser, traces, TF Serving's flags, faults."""

import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import time

import browser
import numpy as np
import pytest
import serve_process
import weft_jax

pytest.importorskip("jax")

import sys  # noqa: E402

sys.path.insert(0, str(weft_jax.ROOT / "python"))
import weft.serve  # noqa: E402

pytestmark = pytest.mark.skipif(not serve_process.BINARY.exists(), reason="weft-serve is not built: its packages are not installed")
PREDICT = {"instances": [[1, 2]]}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    base = tmp_path_factory.mktemp("models")
    weft.serve.export(lambda p, x: x * p, np.float32(2), {"x": np.ones((1, 2), np.float32)}, base / "double", buckets=(1, 4))
    return base


def certificate(folder, name):
    key, cert = folder / f"{name}.key", folder / f"{name}.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", key, "-out", cert, "-subj",
                    f"/CN={name}", "-addext", "subjectAltName=DNS:localhost"], check=True, capture_output=True)
    return key, cert


def ask(server, context, path="/v1/models/double:predict"):
    connection = http.client.HTTPSConnection("localhost", server.http, context=context, timeout=30)
    connection.request("POST", path, json.dumps(PREDICT))
    return json.load(connection.getresponse())


@pytest.mark.skipif(not shutil.which("openssl"), reason="no openssl to make certificates with")
def test_tls_and_mutual_tls(models, tmp_path):
    key, cert = certificate(tmp_path, "server")
    own_key, own = certificate(tmp_path, "client")
    trusting = ssl.create_default_context(cafile=str(cert))
    flags = (f"--model=double={models}/double", f"--tls_cert={cert}", f"--tls_key={key}")
    with serve_process.serving(*flags) as server:
        assert ask(server, trusting) == {"predictions": [[2.0, 4.0]]}
        with pytest.raises(ssl.SSLError):
            ask(server, ssl.create_default_context())
        with socket.create_connection(("127.0.0.1", server.http)) as plain:  # not TLS: closed, nothing else
            plain.send(b"GET / HTTP/1.1\r\n\r\n")
            plain.settimeout(10)
            assert not plain.recv(100).startswith(b"HTTP")
        assert ask(server, trusting) == {"predictions": [[2.0, 4.0]]}
    with serve_process.serving(*flags, f"--tls_client_ca={own}") as server:
        with pytest.raises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
            ask(server, trusting)
        trusting.load_cert_chain(own, own_key)
        assert ask(server, trusting) == {"predictions": [[2.0, 4.0]]}
    (tmp_path / "ssl.config").write_text(f"server_key: {json.dumps(key.read_text())} server_cert: {json.dumps(cert.read_text())}")
    with serve_process.serving(flags[0], f"--ssl_config_file={tmp_path}/ssl.config") as server:
        assert ask(server, ssl.create_default_context(cafile=str(cert))) == {"predictions": [[2.0, 4.0]]}


def test_tokens_and_the_access_log(models, tmp_path):
    (tmp_path / "tokens").write_text("secret\n")
    log = tmp_path / "access.log"
    with serve_process.serving(f"--model=double={models}/double", f"--bearer_token_file={tmp_path}/tokens", f"--access_log={log}") as server:
        assert server.ask("/v1/models/double:predict", PREDICT)[0] == 401
        assert server.ask("/v1/models/double:predict", PREDICT, Authorization="Bearer wrong")[0] == 401
        assert server.ask("/v1/models/double:predict", PREDICT, Authorization="Bearer secret") == (200, {"predictions": [[2.0, 4.0]]})
        assert server.ask("/v2/health/ready")[0] == 200
        os.rename(log, tmp_path / "old.log")
        server.process.send_signal(signal.SIGHUP)
        time.sleep(0.5)
        assert server.ask("/metrics", Authorization="Bearer secret")[0] == 200
    lines = [json.loads(line) for line in (tmp_path / "old.log").read_text().splitlines()]
    assert [line["status"] for line in lines] == [401, 401, 200, 200]
    assert lines[0]["target"] == "/v1/models/double:predict" and lines[0]["peer"] == "127.0.0.1"
    assert [json.loads(line)["target"] for line in log.read_text().splitlines()] == ["/metrics"]


@pytest.mark.skipif(browser.find() is None, reason=browser.HINT)
def test_status_page_moves(models):
    with serve_process.serving(f"--model=double={models}/double") as server, browser.Browser() as chromium:
        page = chromium.open(f"http://127.0.0.1:{server.http}/")

        def until(script, seconds=20):
            end = time.monotonic() + seconds
            while not page.run(script):
                assert time.monotonic() < end, (script, page.run("document.body.innerText"))
                server.ask("/v1/models/double:predict", PREDICT)

        until("document.getElementById('state').textContent === 'ready'")
        until("points.rate.length > 2 && points.rate.at(-1) > 0 && points.p99.at(-1) > 0")
        until("document.querySelector('#models tbody').innerText.includes('double')")
        until("[...document.querySelectorAll('#phases tbody tr')].some(r => r.cells[2].textContent === 'run' && +r.cells[3].textContent > 0)")
        # Something is drawn.
        assert page.run("[...document.getElementById('rate').getContext('2d').getImageData(0, 0, 300, 150).data].some(v => v)")
        moments = page.run("points.rate.length")
        until(f"points.rate.length > {moments}")
        assert page.problems() == []


def test_a_trace_of_requests_by_phase(models):
    import threading

    with serve_process.serving(f"--model=double={models}/double") as server:
        answers = []
        thread = threading.Thread(target=lambda: answers.append(server.ask("/v2/debug/trace?seconds=1")))
        thread.start()
        while thread.is_alive():
            trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
            assert server.ask("/v1/models/double:predict", PREDICT, traceparent=trace)[0] == 200
        status, trace = answers[0]
        assert status == 200
        events = trace["traceEvents"]
        requests = [e for e in events if e.get("cat") == "request"]
        assert {"request double", "admission", "run"} <= {e["name"] for e in requests}
        notes = [e["args"]["note"] for e in requests if e["name"] == "request double" and e["ph"] == "b"]
        assert any("0af7651916cd43dd8448eb211c80319c" in note for note in notes)
        # Every span ends, inner ones first; steps of programs are there beside.
        depth = {}
        for event in requests:
            depth[event["id"]] = depth.get(event["id"], 0) + (1 if event["ph"] == "b" else -1)
        assert not any(depth.values())
        assert any(e.get("cat") in ("step", "execute") for e in events)


def test_flags_of_tf_serving(models, tmp_path):
    (tmp_path / "batching").write_text("max_batch_size { value: 4 } batch_timeout_micros { value: 100 } num_batch_threads { value: 2 }")
    config = tmp_path / "models.config"

    def write(*names):
        text = "".join(f'config {{ name: "{name}" base_path: "{models}/double" }} ' for name in names)
        (tmp_path / "new").write_text(f"model_config_list {{ {text} }}")
        os.rename(tmp_path / "new", config)

    write("a")
    flags = (f"--model_config_file={config}", "--model_config_file_poll_wait_seconds=0.1", f"--batching_parameters_file={tmp_path}/batching",
             "--enable_batching", "--tensorflow_session_parallelism=2", "--rest_api_timeout_in_ms=60000", "--grpc_max_threads=4",
             f"--grpc_socket_path={tmp_path}/socket")
    with serve_process.serving(*flags) as server:
        assert "--tensorflow_session_parallelism: of TF Serving, means nothing here" in server.log
        assert server.ask("/v1/models/a:predict", PREDICT)[0] == 200
        assert (tmp_path / "socket").exists()
        write("a", "b")
        while server.ask("/v1/models/b")[0] != 200:
            pass
        write("b")
        while server.ask("/v1/models/a")[0] != 404:
            pass


def test_a_start_with_a_filled_cache_is_soon_ready(models, tmp_path):
    """By processor time, which other programs do not change much: half a second of one core."""
    def start():
        with serve_process.serving(f"--model=double={models}/double", WEFT_CACHE=str(tmp_path / "cache")) as server:
            fields = pathlib.Path(f"/proc/{server.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
            return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")

    first, second = start(), start()
    assert second <= 0.5, (first, second)


@pytest.mark.parametrize("moment", ["loading", "serving", "reloading"])
def test_killed_at_any_moment_the_next_start_is_fine(models, tmp_path, moment):
    """Also while the cache of programs is written: it is filled by every start."""
    base, cache = tmp_path / "double", tmp_path / "cache"
    shutil.copytree(models / "double", base)
    command = [str(serve_process.BINARY), "--host=127.0.0.1", "--port=-1", "--rest_api_port=0", f"--model=double={base}",
               "--file_system_poll_wait_seconds=0.05"]
    for wait in (0.05, 0.2, 0.4):
        process = subprocess.Popen(command, env=dict(os.environ, WEFT_CACHE=str(cache)), stderr=subprocess.PIPE, text=True)
        if moment != "loading":
            process.stderr.readline()
        if moment == "reloading":
            version = max(int(p.name) for p in base.iterdir()) + 1
            shutil.copytree(base / "1", tmp_path / "new")
            os.rename(tmp_path / "new", base / str(version))
        time.sleep(wait)
        process.kill()
        process.wait()
        process.stderr.close()
    with serve_process.serving(f"--model=double={base}", WEFT_CACHE=str(cache)) as server:
        assert server.ask("/v1/models/double:predict", PREDICT) == (200, {"predictions": [[2.0, 4.0]]})


def test_faults_are_said_and_others_served(models, tmp_path):
    bad = tmp_path / "bad"
    shutil.copytree(models / "double", bad)
    weights = bad / "1" / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-2])
    (tmp_path / "empty").mkdir()
    (tmp_path / "gone").mkdir()
    shutil.copytree(models / "double" / "1", tmp_path / "gone" / "1")
    next((tmp_path / "gone" / "1").glob("*-b4*")).unlink()
    flags = (f"--model=double={models}/double", f"--model=bad={bad}", f"--model=gone={tmp_path}/gone", f"--model=empty={tmp_path}/empty",
             f"--model=missing={tmp_path}/none")
    process = subprocess.Popen([str(serve_process.BINARY), "--host=127.0.0.1", "--port=-1", "--rest_api_port=0", *flags],
                               stderr=subprocess.PIPE, text=True)
    try:
        for line in process.stderr:
            if "HTTP at port" in line:
                break
        port = int(line.rsplit(" ", 1)[1])
        assert "not ready" in line  # one of the models has no version

        def status(path):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            connection.request("GET" if "predict" not in path else "POST", path, json.dumps(PREDICT))
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

        assert status("/v1/models/double:predict") == (200, '{"predictions":[[2.0,4.0]]}')
        assert "weights.safetensors" in status("/v1/models/bad")[1]
        assert "model-serving_default-b4" in status("/v1/models/gone")[1]
        assert status("/v2/health/live")[0] == 200 and status("/v2/health/ready")[0] == 503
        assert status("/v1/models/empty:predict")[0] == 503
    finally:
        process.terminate()
        process.stderr.read()
        assert process.wait(30) == 0


@pytest.mark.skipif(not pathlib.Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk_stops_no_request(models):
    """Neither the access log nor the cache is worth a request."""
    with serve_process.serving(f"--model=double={models}/double", "--access_log=/dev/full") as server:
        for _ in range(5):
            assert server.ask("/v1/models/double:predict", PREDICT)[0] == 200


def test_slow_requests_are_ended(models):
    """Clients that send a byte now and then hold a connection for a while, not for ever, and no thread."""
    with serve_process.serving(f"--model=double={models}/double", "--rest_api_num_threads=1") as server:
        slow = [socket.create_connection(("127.0.0.1", server.http)) for _ in range(200)]
        for connection in slow:
            connection.send(b"POST /v1/models/double:predict HTTP/1.1\r\nContent-Length: 100000\r\n")
        times = []
        for _ in range(50):
            begin = time.monotonic()
            assert server.ask("/v1/models/double:predict", PREDICT)[0] == 200
            times.append(time.monotonic() - begin)
            for connection in slow[::20]:
                connection.send(b"X")
        assert sorted(times)[25] < 0.5
        for connection in slow:
            connection.close()


def test_examples_use_flags_that_exist():
    folder = weft_jax.ROOT / "examples" / "serving"
    known = subprocess.run([str(serve_process.BINARY), "--help"], capture_output=True, text=True, check=True).stdout
    import re

    for name in ("weft-serve.service", "Containerfile", "kubernetes.yaml"):
        text = (folder / name).read_text()
        flags = re.findall(r"--([a-z]+_[a-z_]+)", text)
        assert flags or name == "Containerfile", name
        assert not [flag for flag in flags if f"--{flag}" not in known], name


def test_the_port_of_grpc_withstands_what_is_not_grpc(models):
    """Garbage, half a greeting, frames that are wrong, connections that say nothing: each ends or waits, and others are served."""
    greeting = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    settings = b"\0\0\0\4\0\0\0\0\0"
    with serve_process.serving(f"--model=double={models}/double", "--grpc_max_threads=1") as server:
        def connect(sent):
            connection = socket.create_connection(("127.0.0.1", server.grpc), timeout=20)
            connection.sendall(sent)
            return connection

        idle = [connect(greeting[:i % len(greeting)]) for i in range(300)]
        for wrong in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01" * 100, greeting + b"\xff" * 100, greeting + settings + b"\0\0\1\0\0\0\0\0\0x"):
            with connect(wrong) as connection:
                while connection.recv(1000):  # until the server has had enough
                    pass
        with connect(greeting + settings) as connection:
            assert connection.recv(1000)[3:4] == b"\4"  # its settings
        assert server.ask("/v1/models/double:predict", PREDICT)[0] == 200
        for connection in idle:
            connection.close()
