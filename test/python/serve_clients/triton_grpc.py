"""tritonclient over gRPC: raw tensors, an equinox model, 64 small inputs, a random model, deadlines, cancelling."""

import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import serve_process
import tritonclient.grpc as client

import weft.serve


def many(params, **inputs):
    return sum(inputs[f"i{k:02d}"] * (k + 1) for k in range(64)) + params


def sample(params, seed):
    return jax.vmap(lambda s: jax.random.normal(jax.random.key(s), (4,)))(seed) * params


def inputs_of(**arrays):
    names = {np.dtype(np.float32): "FP32", np.dtype(np.int32): "INT32", np.dtype(np.uint32): "UINT32"}
    result = []
    for name, array in arrays.items():
        result.append(client.InferInput(name, array.shape, names[array.dtype]))
        result[-1].set_data_from_numpy(array)
    return result


def main(folder):
    mlp = eqx.nn.MLP(4, 3, 16, 2, key=jax.random.key(0))
    weft.serve.export(lambda m, x: jax.vmap(m)(x), mlp, {"x": np.ones((1, 4), np.float32)}, f"{folder}/equinox", buckets=(1, 8))
    small = {f"i{k:02d}": np.ones((1, 2), np.float32) for k in range(64)}
    weft.serve.export(many, np.float32(1), small, f"{folder}/many", buckets=(1, 4))
    weft.serve.export(sample, np.float32(2), {"seed": np.zeros((1,), np.uint32)}, f"{folder}/random", buckets=(1, 4))
    weft.serve.export(lambda p, x: x * p, np.float32(2), {"x": np.ones((1, 1 << 18), np.float32)}, f"{folder}/large", buckets=(1, 4))
    with serve_process.serving(f"--model_repository={folder}") as server:
        triton = client.InferenceServerClient(f"127.0.0.1:{server.grpc}")
        assert triton.is_server_live() and triton.is_server_ready() and triton.is_model_ready("equinox", "1")
        x = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
        got = triton.infer("equinox", inputs_of(x=x)).as_numpy("output_0")
        np.testing.assert_allclose(got, jax.vmap(mlp)(x), rtol=1e-5, atol=1e-5)
        # Four megabytes each way: more than a window of HTTP/2, and than the socket takes at once.
        large = np.random.default_rng(1).normal(size=(4, 1 << 18)).astype(np.float32)
        np.testing.assert_array_equal(triton.infer("large", inputs_of(x=large)).as_numpy("output_0"), large * 2)
        arrays = {name: np.full((2, 2), k, np.float32) for k, name in enumerate(small)}
        got = triton.infer("many", inputs_of(**arrays)).as_numpy("output_0")
        np.testing.assert_array_equal(got, np.full((2, 2), 1 + sum(k * (k + 1) for k in range(64)), np.float32))
        seed = np.array([1, 2, 1], np.uint32)
        got = triton.infer("random", inputs_of(seed=seed)).as_numpy("output_0")
        np.testing.assert_allclose(got, sample(np.float32(2), seed), rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(got[0], got[2])
        statistics = triton.get_inference_statistics("many").model_stats[0]
        assert statistics.inference_count == 2, statistics
        index = triton.get_model_repository_index().models
        assert sorted(m.name for m in index) == ["equinox", "large", "many", "random"]
        for bad, text in (({"x": np.ones((1, 5), np.float32)}, "input x: is f32[1,5], serving_default takes f32[b,4]"),
                          ({"x": np.ones((1, 4), np.int32)}, "input x: is s32[1,4]"), ({}, "input x: missing")):
            try:
                triton.infer("equinox", inputs_of(**bad))
                raise AssertionError("a wrong request was taken")
            except client.InferenceServerException as error:
                assert text in str(error), error
        results = []
        for _ in range(50):
            triton.async_infer("equinox", inputs_of(x=x), lambda result, error: results.append(error), priority=3)
        while len(results) < 50:
            pass
        assert results == [None] * 50


if __name__ == "__main__":
    main(sys.argv[1])
