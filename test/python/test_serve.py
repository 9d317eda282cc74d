"""weft.serve.export and weft-serve: from a JAX function to answers over HTTP."""

import json
import pathlib
import signal
import threading

import numpy as np
import pytest
import serve_process
import weft_jax

jax = pytest.importorskip("jax")
jnp = jax.numpy

import sys  # noqa: E402

sys.path.insert(0, str(weft_jax.ROOT / "python"))
import weft.serve  # noqa: E402

needs_server = pytest.mark.skipif(not serve_process.BINARY.exists(), reason="weft-serve is not built: its packages are missing")


def linear(params, x):
    return {"y": x @ params["w"] + params["b"], "sum": x.sum(-1)}


PARAMS = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.float32(0.5) * np.ones(3, np.float32)}


def test_export_writes_a_folder_that_reads_back(tmp_path):
    path = weft.serve.export(linear, PARAMS, np.ones((1, 2), np.float32), tmp_path / "m", buckets=(1, 4))
    assert path == tmp_path / "m" / "1"
    signature = json.loads((path / "signature.json").read_text())
    graph, = signature["graphs"]
    assert graph["inputs"] == [{"name": "x", "dtype": "f32", "shape": ["b", 2]}]
    assert graph["outputs"] == [{"name": "sum", "dtype": "f32", "shape": ["b"]},
                                {"name": "y", "dtype": "f32", "shape": ["b", 3]}]
    assert [p["sizes"] for p in graph["programs"]] == [{"b": 1}, {"b": 4}]
    stored = weft.serve.load_safetensors(path / "weights.safetensors")
    np.testing.assert_array_equal(stored["w"], PARAMS["w"])
    # The next version is one more; a version that is there is not written over.
    assert weft.serve.export(linear, PARAMS, np.ones((1, 2), np.float32), tmp_path / "m").name == "2"
    with pytest.raises(FileExistsError):
        weft.serve.export(linear, PARAMS, np.ones((1, 2), np.float32), tmp_path / "m", version=2)
    assert sorted(p.name for p in (tmp_path / "m").iterdir()) == ["1", "2"]


def test_export_says_what_is_wrong(tmp_path):
    x = np.ones((1, 2), np.float32)
    with pytest.raises(ValueError, match="goes from 2 to 4 as b goes from 1 to 2"):
        weft.serve.export(lambda p, x: jnp.concatenate([x, x]), {}, x, tmp_path, buckets=(1, 2))
    with pytest.raises(ValueError, match="no input z"):
        weft.serve.export(linear, PARAMS, x, tmp_path, buckets=(1,), shapes={"z": ("b",)})
    with pytest.raises(ValueError, match="s: a size that varies has buckets"):
        weft.serve.export(linear, PARAMS, x, tmp_path, buckets={"b": (1,), "s": (1,)})
    assert list(tmp_path.iterdir()) == []  # nothing is left behind


def test_safetensors_are_aligned_and_keep_types(tmp_path):
    import ml_dtypes

    arrays = {"a": np.ones(3, np.int8), "b": np.arange(64, dtype=np.float32).reshape(4, 16),
              "c": np.ones((2, 2), ml_dtypes.bfloat16), "d": np.array(True), "e": np.zeros((0, 3), np.float64)}
    weft.serve.save_safetensors(tmp_path / "w", arrays)
    data = (tmp_path / "w").read_bytes()
    length = int.from_bytes(data[:8], "little")
    assert (8 + length) % 64 == 0
    assert json.loads(data[8:8 + length])["b"]["data_offsets"][0] % 64 == 0
    back = weft.serve.load_safetensors(tmp_path / "w")
    assert {n: (a.dtype, a.shape, a.tobytes()) for n, a in back.items()} == \
        {n: (a.dtype, a.shape, a.tobytes()) for n, a in arrays.items()}


@needs_server
def test_answers_over_http(tmp_path):
    weft.serve.export(linear, PARAMS, np.ones((1, 2), np.float32), tmp_path / "m", buckets=(1, 4))
    x = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
    y = x @ PARAMS["w"] + PARAMS["b"]
    with serve_process.serving(f"--model_base_path={tmp_path}/m", "--model_name=m") as server:
        status, answer = server.ask("/v1/models/m:predict", {"instances": x.tolist()})
        assert status == 200
        np.testing.assert_array_equal([p["y"] for p in answer["predictions"]], y)
        status, answer = server.ask("/v1/models/m:predict", {"inputs": x.tolist()})
        np.testing.assert_array_equal(answer["outputs"]["sum"], x.sum(-1))
        body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [3, 2], "data": x.ravel().tolist()}],
                "outputs": [{"name": "y"}]}
        status, answer = server.ask("/v2/models/m/infer", body)
        np.testing.assert_array_equal(answer["outputs"][0]["data"], y.ravel())
        assert server.ask("/v2/health/ready") == (200, {})
        assert server.ask("/v1/models/m")[1]["model_version_status"][0]["state"] == "AVAILABLE"
        assert server.ask("/v1/models/nobody")[0] == 404
        assert server.ask("/v1/models/m:predict", b"{]")[1] == {"error": "json: line 1, column 2: expected a string"}
        status, text = server.ask("/metrics")
        assert 'weft_serve_requests_total{model="m",priority="normal",outcome="ok"} 3' in text


@needs_server
def test_several_graphs_sizes_and_types(tmp_path):
    def encode(p, tokens, mask):
        return jnp.where(mask[..., None], p["table"][tokens], 0).sum(1)

    def score(p, a, b):
        return (a * b).sum(-1) > p["limit"]

    params = {"table": np.random.default_rng(0).normal(size=(10, 4)).astype(np.float32), "limit": np.float32(1)}
    examples = {"encode": {"tokens": np.zeros((1, 8), np.int32), "mask": np.zeros((1, 8), bool)},
                "score": (np.zeros((1, 4), np.float32), np.zeros((1, 4), np.float32))}
    weft.serve.export({"encode": encode, "score": score}, params, examples, tmp_path / "m",
                      buckets={"encode": {"b": (1, 4), "s": (8, 16)}, "score": (2,)},
                      shapes={"encode": {"tokens": ("b", "s"), "mask": ("b", "s")}, "score": None})
    with serve_process.serving(f"--model=m={tmp_path}/m") as server:
        for rows, length in ((1, 3), (3, 8), (2, 11), (9, 16)):
            tokens = np.arange(rows * length).reshape(rows, length) % 10
            body = {"signature_name": "encode", "inputs": {"tokens": tokens.tolist(),
                                                           "mask": np.ones((rows, length), bool).tolist()}}
            status, answer = server.ask("/v1/models/m:predict", body)
            assert status == 200, answer
            np.testing.assert_allclose(answer["outputs"], params["table"][tokens].sum(1), rtol=1e-5, atol=1e-5)
        status, answer = server.ask("/v1/models/m:predict", dict(body, inputs={
            "tokens": np.zeros((1, 17)).tolist(), "mask": np.ones((1, 17), bool).tolist()}))
        assert status == 400 and "no program is large enough for b=1, s=17; there are: encode(pred[1,8]" in answer["error"]
        status, answer = server.ask("/v1/models/m:predict", {"signature_name": "score", "instances": [
            {"a": [1, 2, 3, 4], "b": [1, 1, 1, 1]}, {"a": [0, 0, 0, 0], "b": [1, 1, 1, 1]}]})
        assert answer == {"predictions": [True, False]}


@needs_server
def test_a_shape_polymorphic_export_is_refined_by_bucket(tmp_path):
    def mean(params, x):
        return jnp.tanh(x @ params["w"]) - jnp.arange(x.shape[0])[:, None] * 0 + x.shape[1]

    params = {"w": np.arange(12, dtype=np.float32).reshape(4, 3) / 8}
    import jax.export

    rows, = jax.export.symbolic_shape("b")
    abstract = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), params)
    exported = jax.export.export(jax.jit(mean))(abstract, jax.ShapeDtypeStruct((rows, 4), np.float32))
    path = weft.serve.export(exported, params, {"x": np.ones((1, 4), np.float32)}, tmp_path / "m", buckets=(1, 8))
    assert "tensor<8x4xf32>" in (path / "model-serving_default-b8.mlir").read_text()
    x = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    with serve_process.serving(f"--model=m={tmp_path}/m") as server:
        answer = server.ask("/v1/models/m:predict", {"instances": x.tolist()})[1]
        np.testing.assert_allclose(answer["predictions"], mean(params, x), rtol=1e-5, atol=1e-5)


@needs_server
def test_a_program_alone_and_other_formats(tmp_path):
    text = jax.jit(lambda x: x * 2 + 1).lower(jnp.ones((2,), jnp.float32)).as_text()
    folder = tmp_path / "m" / "3"
    folder.mkdir(parents=True)
    (folder / "model.mlir").write_text(text)
    with serve_process.serving(f"--model_base_path={tmp_path}/m") as server:
        assert server.ask("/v1/models/default:predict", {"inputs": [1, 2]}) == (200, {"outputs": [3.0, 5.0]})


@needs_server
def test_weights_as_npz(tmp_path):
    path = weft.serve.export(linear, PARAMS, np.ones((1, 2), np.float32), tmp_path / "m", buckets=(2,))
    np.savez(path / "weights.npz", **weft.serve.load_safetensors(path / "weights.safetensors"))
    (path / "weights.safetensors").unlink()
    signature = (path / "signature.json").read_text()
    (path / "signature.json").write_text(signature.replace("weights.safetensors", "weights.npz"))
    (tmp_path / "models.config").write_text(f"""model_config_list {{
  config {{ name: "m" base_path: "{tmp_path}/m" model_platform: "jax" model_version_policy {{ all {{}} }} }} }}""")
    with serve_process.serving(f"--model_config_file={tmp_path}/models.config") as server:
        answer = server.ask("/v1/models/m:predict", {"inputs": [[1, 2]]})[1]
        np.testing.assert_array_equal(answer["outputs"]["y"], np.array([[1, 2]]) @ PARAMS["w"] + PARAMS["b"])


@needs_server
def test_reload_and_drain(tmp_path):
    def times(version):
        return lambda p, x: p * x

    for version in (1,):
        weft.serve.export(times(version), np.float32(version), np.ones((1,), np.float32), tmp_path / "m", buckets=(1, 4))
    wrong, answers, stop = [], [0], threading.Event()

    def client():
        while not stop.is_set():
            status, answer = server.ask("/v2/models/m/infer", {
                "inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [1]}]})
            if status != 200 or answer["outputs"][0]["data"] != [float(answer["model_version"])]:
                wrong.append((status, answer))
            answers[0] += 1

    with serve_process.serving(f"--model=m={tmp_path}/m") as server:
        threads = [threading.Thread(target=client) for _ in range(2)]
        for thread in threads:
            thread.start()
        for version in range(2, 6):
            weft.serve.export(times(version), np.float32(version), np.ones((1,), np.float32), tmp_path / "m", buckets=(1, 4))
            while server.ask(f"/v2/models/m/versions/{version}/ready")[0] != 200:
                pass
        stop.set()
        for thread in threads:
            thread.join()
        assert not wrong and answers[0] > 0, wrong[:3]
        # A version that cannot be loaded is said, and the one before goes on.
        (tmp_path / "m" / "9").mkdir()
        (tmp_path / "m" / "9" / "signature.json").write_text("{}")
        while len(server.ask("/v1/models/m")[1]["model_version_status"]) < 6:
            pass
        state = server.ask("/v1/models/m")[1]["model_version_status"][0]
        while state["state"] != "END":
            state = server.ask("/v1/models/m")[1]["model_version_status"][0]
        assert "signature.json: format is ''" in state["status"]["error_message"]
        assert server.ask("/v2/health/ready")[0] == 200
        assert server.stop(signal.SIGTERM) == 0
        assert "all requests are done" in server.log


@needs_server
def test_idle_and_slow_connections_harm_nobody(tmp_path):
    import socket

    weft.serve.export(linear, PARAMS, np.ones((1, 2), np.float32), tmp_path / "m", buckets=(1,))
    with serve_process.serving(f"--model=m={tmp_path}/m", "--max_request_bytes=1000") as server:
        idle = [socket.create_connection(("127.0.0.1", server.http)) for _ in range(500)]
        for connection in idle[::2]:
            connection.send(b"POST /v1/models/m:predict HT")  # and no more
        for _ in range(20):
            assert server.ask("/v1/models/m:predict", {"inputs": [[1, 2]]})[0] == 200
        status, answer = server.ask("/v1/models/m:predict", b" " * 2000)
        assert (status, answer) == (413, {"error": "the request is larger than 1000 bytes"})
        with socket.create_connection(("127.0.0.1", server.http)) as connection:
            connection.send(b"garbage\r\n\r\n")
            assert connection.recv(1000).startswith(b"HTTP/1.1 400 ")
        for connection in idle:
            connection.close()


@needs_server
def test_connections_beyond_the_soft_limit_of_descriptors(tmp_path):
    import resource
    import socket

    weft.serve.export(linear, PARAMS, np.ones((1, 2), np.float32), tmp_path / "m", buckets=(1,))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, hard))  # as the server's shell has it
    try:
        serving = serve_process.serving(f"--model=m={tmp_path}/m")
        server = serving.__enter__()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    try:
        idle = [socket.create_connection(("127.0.0.1", server.http)) for _ in range(200)]
        assert server.ask("/v1/models/m:predict", {"inputs": [[1, 2]]})[0] == 200
        for connection in idle:
            connection.close()
    finally:
        serving.__exit__(None, None, None)


@needs_server
def test_wrong_flags_and_missing_folders(tmp_path):
    import subprocess

    def run(*flags):
        result = subprocess.run([str(serve_process.BINARY), *flags], capture_output=True, text=True, timeout=60, check=False)
        return result.returncode, result.stderr

    assert run("--modle=a=b") == (2, "weft-serve: unknown flag: --modle; did you mean `model`?\n`weft-serve --help` lists the flags\n")
    status, text = run()
    assert status == 2 and "no model: give --model_base_path" in text
    flags = ("--file_system_poll_wait_seconds=0", "--port=-1", "--rest_api_port=0", "--host=127.0.0.1")
    status, text = run(f"--model_base_path={tmp_path}/none", *flags)
    assert status == 1 and f"{tmp_path}/none: cannot be opened: No such file or directory" in text
    (tmp_path / "models.config").write_text("model_config_list {\n  config { name: 3 }\n}\n")
    status, text = run(f"--model_config_file={tmp_path}/models.config", *flags)
    assert status == 2 and f"{tmp_path}/models.config:2:18: Expected string" in text
    (tmp_path / "1").mkdir()
    (tmp_path / "01").mkdir()
    status, text = run(f"--model_base_path={tmp_path}", *flags)
    assert status == 1 and "version 1 is there twice" in text


@needs_server
def test_the_five_commands_of_the_guide(tmp_path):
    import os
    import re
    import subprocess
    import textwrap

    page = (weft_jax.ROOT / "docs" / "serving.md").read_text().split("## From a function to a server")[1].split("\n## ")[0]
    blocks = [(kind, textwrap.dedent(body)) for kind, body in re.findall(r"(?s)   ```(\w+)\n(.*?)   ```", page)]
    assert [kind for kind, _ in blocks] == ["python"] + ["bash"] * 5
    (tmp_path / "export_model.py").write_text(blocks[0][1])
    commands = [body for kind, body in blocks if kind == "bash"]
    env = weft_jax.environment(PATH=f"{serve_process.BUILD}:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}",
                               WEFT_CACHE=tmp_path / "cache", JAX_PLATFORMS="cpu")

    def run(command):
        done = subprocess.run(["bash", "-ec", command], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, command + done.stdout + done.stderr
        return done.stdout

    assert run(commands[0]).strip() == "models/linear/1"
    assert "program model-serving_default-b32" in run(commands[1])
    assert "compiled into" in run(commands[2])
    # Ports that are free instead of those on the page; the cache is full, so nothing is compiled.
    served = commands[3].replace("8501", "0").replace("8500", "0").strip()
    server = subprocess.Popen(["bash", "-ec", f"exec {served}"], cwd=tmp_path, env=dict(env, WEFT_DEBUG="compile=1"),
                              stderr=subprocess.PIPE, text=True)
    try:
        log = []
        for line in server.stderr:
            log.append(line)
            if "HTTP at port" in line:
                break
        port = re.search(r"HTTP at port (\d+)", log[-1])[1]
        assert not [line for line in log if re.search(r" [1-9]\d* compiled", line)], log
        answer = run(commands[4].replace("8501", port).replace("curl", "curl -s"))
        assert f"answers `{answer}`" in page
    finally:
        server.terminate()
        server.stderr.read()
        assert server.wait(60) == 0


@needs_server
@pytest.mark.skipif(not serve_process.has_clients(), reason="no clients of model servers: ./dev test installs them into .venv-serve")
@pytest.mark.parametrize("script", sorted(p.name for p in (pathlib.Path(__file__).parent / "serve_clients").glob("*.py")))
def test_real_clients(tmp_path, script):
    """Each script exports models, starts the server and asks it with a client from PyPI, in .venv-serve."""
    import os
    import subprocess

    path = pathlib.Path(__file__).parent / "serve_clients" / script
    env = dict(os.environ, PYTHONPATH=f"{weft_jax.ROOT}/python:{path.parent.parent}", JAX_PLATFORMS="cpu",
               WEFT_LIBRARY=str(weft_jax.LIBRARY))
    result = subprocess.run([str(serve_process.CLIENTS), str(path), str(tmp_path)], env=env, capture_output=True,
                            text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
