"""tritonclient over HTTP: metadata, JSON and binary tensors, priorities, a flax transformer in three buckets."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import serve_process
import tritonclient.http as client
from flax import linen as nn

import weft.serve


class Transformer(nn.Module):
    @nn.compact
    def __call__(self, tokens):
        x = nn.Embed(50, 32)(tokens)
        mask = (tokens > 0)[:, None, None, :]
        for _ in range(2):
            x = x + nn.SelfAttention(num_heads=4)(nn.LayerNorm()(x), mask=mask)
            x = x + nn.Dense(32)(nn.gelu(nn.Dense(64)(nn.LayerNorm()(x))))
        return nn.Dense(5)(x)


def main(folder):
    model = Transformer()
    tokens = np.random.default_rng(0).integers(1, 50, (3, 12)).astype(np.int32)
    params = model.init(jax.random.key(0), tokens)
    weft.serve.export(model.apply, params, {"tokens": tokens}, f"{folder}/transformer",
                      buckets={"b": (1, 4), "s": (8, 16, 32)}, shapes={"tokens": ("b", "s")})
    with serve_process.serving(f"--model_repository={folder}") as server:
        triton = client.InferenceServerClient(f"127.0.0.1:{server.http}")
        assert triton.is_server_live() and triton.is_server_ready() and triton.is_model_ready("transformer")
        assert triton.get_server_metadata()["name"] == "weft-serve"
        metadata = triton.get_model_metadata("transformer")
        assert metadata["inputs"] == [{"name": "tokens", "datatype": "INT32", "shape": [-1, -1]}], metadata
        for rows, length in ((1, 5), (3, 12), (2, 31), (7, 8)):
            ids = np.random.default_rng(length).integers(1, 50, (rows, length)).astype(np.int32)
            # Padding is token 0, which the mask leaves out: what JAX computes with it.
            want = jax.jit(model.apply)(params, np.pad(ids, ((0, 0), (0, 32 - length))))[:, :length]
            for binary in (True, False):
                tensor = client.InferInput("tokens", ids.shape, "INT32")
                tensor.set_data_from_numpy(ids, binary_data=binary)
                output = client.InferRequestedOutput("output_0", binary_data=binary)
                result = triton.infer("transformer", [tensor], outputs=[output], priority=1, timeout=10_000_000)
                np.testing.assert_allclose(result.as_numpy("output_0"), want, rtol=2e-4, atol=2e-4)
        statistics = triton.get_inference_statistics("transformer")["model_stats"][0]
        assert statistics["inference_stats"]["success"]["count"] >= 8, statistics
        assert [m["state"] for m in triton.get_model_repository_index()] == ["READY"]
        try:
            triton.infer("transformer", [])
            raise AssertionError("no inputs were taken")
        except client.InferenceServerException as error:
            assert "input tokens: missing" in str(error), error
        text = server.ask("/metrics")[1]
        from prometheus_client.parser import text_string_to_metric_families
        families = {f.name: f for f in text_string_to_metric_families(text)}
        ok = [s.value for s in families["weft_serve_requests"].samples if s.labels.get("outcome") == "ok" and s.labels["priority"] == "high"]
        assert ok and ok[0] >= 8, families["weft_serve_requests"].samples


if __name__ == "__main__":
    main(sys.argv[1])
