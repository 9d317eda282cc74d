"""Kinds of models behind weft-serve: many small inputs, random numbers from a key, weights that two models share, large weights."""

import os
import pathlib
import re
import sys

import numpy as np
import pytest
import serve_process
import weft_jax

jax = pytest.importorskip("jax")
jnp = jax.numpy

sys.path.insert(0, str(weft_jax.ROOT / "python"))
import weft.serve  # noqa: E402

pytestmark = pytest.mark.skipif(not serve_process.BINARY.exists(), reason="weft-serve is not built: its packages are missing")


def test_64_small_inputs(tmp_path):
    names = [f"f{i:02}" for i in range(64)]

    def score(p, features):
        return sum(p["w"][i] * features[name] for i, name in enumerate(names))

    weights = np.linspace(-1, 1, 64).astype(np.float32)
    examples = {"features": {name: np.zeros((1, 3), np.float32) for name in names}}
    weft.serve.export(score, {"w": weights}, examples, tmp_path / "m", buckets=(1, 4))
    values = np.random.default_rng(0).normal(size=(64, 3, 3)).astype(np.float32)  # a row is 3 wide, three of them
    want = np.einsum("i,irk->rk", weights, values)
    with serve_process.serving(f"--model=m={tmp_path}/m") as server:
        graph = server.ask("/v2/models/m")[1]
        given = [tensor["name"] for tensor in graph["inputs"]]
        assert len(given) == 64 and all(name[-3:] in names for name in given), given
        # In an order of the client's own.
        body = {"inputs": [{"name": name, "datatype": "FP32", "shape": [3, 3], "data": values[names.index(name[-3:])].ravel().tolist()}
                           for name in reversed(given)]}
        status, answer = server.ask("/v2/models/m/infer", body)
        assert status == 200, answer
        np.testing.assert_allclose(np.reshape(answer["outputs"][0]["data"], (3, 3)), want, rtol=1e-4, atol=1e-5)
        status, answer = server.ask("/v2/models/m/infer", {"inputs": body["inputs"][1:]})
        assert status == 400 and f"input {given[-1]}: missing" in answer["error"], answer


def test_random_numbers_from_a_key_of_the_request(tmp_path):
    def sample(p, seed, mean):
        draw = jax.vmap(lambda s: jax.random.normal(jax.random.key(s), (4,)))
        return mean + p["scale"] * draw(seed)

    weft.serve.export(sample, {"scale": np.float32(2)}, {"seed": np.zeros((1,), np.uint32), "mean": np.zeros((1, 1), np.float32)},
                      tmp_path / "m", buckets=(1, 8))
    seeds, means = [7, 11, 7], [[0.0], [1.0], [0.0]]
    want = jax.jit(sample)({"scale": np.float32(2)}, np.array(seeds, np.uint32), np.array(means, np.float32))
    with serve_process.serving(f"--model=m={tmp_path}/m") as server:
        answers = [server.ask("/v1/models/m:predict", {"inputs": {"seed": seeds, "mean": means}})[1]["outputs"] for _ in range(2)]
        assert answers[0] == answers[1]  # the same key, the same numbers
        assert answers[0][0] == answers[0][2] != answers[0][1]
        np.testing.assert_allclose(answers[0], want, rtol=1e-5, atol=1e-5)


def test_two_models_share_the_weights_that_are_equal(tmp_path):
    table = np.random.default_rng(0).normal(size=(64, 16)).astype(np.float32)
    for name, function in (("first", lambda p, x: p["table"][x]), ("second", lambda p, x: p["table"][x] + p["bias"])):
        params = {"table": table} if name == "first" else {"table": table, "bias": np.ones(16, np.float32)}
        weft.serve.export(function, params, {"x": np.zeros((1,), np.int32)}, tmp_path / name, buckets=(4,))
    with serve_process.serving(f"--model_repository={tmp_path}") as server:
        for name, add in (("first", 0), ("second", 1)):
            status, answer = server.ask(f"/v1/models/{name}:predict", {"instances": [3, 5]})
            assert status == 200, answer
            np.testing.assert_allclose(answer["predictions"], table[[3, 5]] + add, rtol=1e-6)
        shared = re.search(r"\nweft_serve_shared_weights_total (\d+)", server.ask("/metrics")[1])
        assert shared and int(shared[1]) == 1
        # The one that goes does not take them along.
        assert server.ask("/v2/repository/models/first/unload", b"{}")[0] == 200
        np.testing.assert_allclose(server.ask("/v1/models/second:predict", {"instances": [9]})[1]["predictions"], [table[9] + 1], rtol=1e-6)


@pytest.mark.parametrize("kind", ["safetensors", "npz"])
def test_loading_takes_no_more_memory_than_stays(tmp_path, kind):
    """And no more processor time than half a second and a second for each gigabyte."""
    weights = {f"w{i}": np.full(1 << 20, i, np.float32) for i in range(16)}
    made = weft.serve.export(lambda p, x: x * sum(w.sum() for w in p.values()), weights, np.ones((1, 2), np.float32), tmp_path / "m", buckets=(1,))
    if kind == "npz":
        np.savez(made / "weights.npz", **weft.serve.load_safetensors(made / "weights.safetensors"))
        (made / "weights.safetensors").unlink()
        signature = made / "signature.json"
        signature.write_text(signature.read_text().replace("weights.safetensors", "weights.npz"))
    environment = {"WEFT_CACHE": str(tmp_path / "cache")}
    with serve_process.serving(f"--model=m={tmp_path}/m", **environment):
        pass  # the cache is filled
    with serve_process.serving(f"--model=m={tmp_path}/m", **environment) as server:
        process = pathlib.Path(f"/proc/{server.process.pid}")
        peak, stays = (int(re.search(rf"{name}:\s+(\d+)", (process / "status").read_text())[1]) for name in ("VmHWM", "VmRSS"))
        spent = sum(map(int, (process / "stat").read_text().rsplit(")", 1)[1].split()[11:13])) / os.sysconf("SC_CLK_TCK")
        assert server.ask("/v1/models/m:predict", {"instances": [[1, 2]]})[1] == {"predictions": [[120 * 2.0**20, 240 * 2.0**20]]}
    assert peak <= 1.1 * stays and stays > 64 * 1024, (peak, stays)
    assert spent <= 0.5 + 16 * 4 / 1024, spent
