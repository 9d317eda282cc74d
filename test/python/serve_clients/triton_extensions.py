"""tritonclient with Triton's extensions: configuration, loading and unloading, shared memory, tokens, TLS, traceparent."""

import subprocess
import sys

import numpy as np
import serve_process
import tritonclient.grpc as grpc_client
import tritonclient.http as http_client
from tritonclient.utils import InferenceServerException
from tritonclient.utils import shared_memory

import weft.serve

X = np.array([[1, 2]], np.float32)


def double(params, x):
    return x * params


def refused(call, text):
    try:
        call()
    except InferenceServerException as error:
        assert text in str(error), error
        return
    raise AssertionError(f"not refused: {text}")


def extensions(module, client, config):
    assert config["max_batch_size"] == 4 and config["input"][0]["dims"] in ([2], ["2"]), config
    client.unload_model("double")
    assert not client.is_model_ready("double")
    client.load_model("double")
    assert client.is_model_ready("double")
    refused(lambda: client.load_model("nobody"), "nobody")
    region = shared_memory.create_shared_memory_region("weft", f"/weft-{module.__name__}", 16)
    try:
        shared_memory.set_shared_memory_region(region, [X])
        client.unregister_system_shared_memory()
        client.unregister_cuda_shared_memory()
        client.register_system_shared_memory("weft", f"/weft-{module.__name__}", 16)
        tensor = module.InferInput("x", X.shape, "FP32")
        tensor.set_shared_memory("weft", 8)
        output = module.InferRequestedOutput("output_0")
        output.set_shared_memory("weft", 8, offset=8)
        result = client.infer("double", [tensor], outputs=[output])
        assert result.get_output("output_0") is not None
        # Triton's C++ clients read bytes for each output of gRPC, and over HTTP a size of bytes in any parameters of one.
        if hasattr(result.get_response(), "raw_output_contents"):
            assert list(result.get_response().raw_output_contents) == [b""]
        else:
            assert "parameters" not in result.get_output("output_0")
        np.testing.assert_array_equal(shared_memory.get_contents_as_numpy(region, np.float32, [1, 2], 8), X * 2)
        output.set_shared_memory("weft", 8, offset=12)
        refused(lambda: client.infer("double", [tensor], outputs=[output]), "region weft has 16 bytes")
        client.unregister_system_shared_memory("weft")
        refused(lambda: client.infer("double", [tensor], outputs=[output]), "no region weft")
    finally:
        shared_memory.destroy_shared_memory_region(region)


def secured(folder):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", f"{folder}/key.pem", "-out",
                    f"{folder}/cert.pem", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"], check=True, capture_output=True)
    with open(f"{folder}/tokens", "w", encoding="utf-8") as file:
        file.write("secret\n")
    flags = [f"--tls_cert={folder}/cert.pem", f"--tls_key={folder}/key.pem", f"--tls_client_ca={folder}/cert.pem",
             f"--bearer_token_file={folder}/tokens", f"--access_log={folder}/access.log"]
    tensor = grpc_client.InferInput("x", X.shape, "FP32")
    tensor.set_data_from_numpy(X)
    with serve_process.serving(f"--model=double={folder}/repository/double", *flags) as server:
        where = f"localhost:{server.grpc}"
        tls = dict(ssl=True, root_certificates=f"{folder}/cert.pem")
        client = grpc_client.InferenceServerClient(where, private_key=f"{folder}/key.pem", certificate_chain=f"{folder}/cert.pem", **tls)
        assert client.is_server_live()  # a probe needs no token
        refused(lambda: client.infer("double", [tensor]), "UNAUTHENTICATED")
        trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        headers = {"authorization": "Bearer secret", "traceparent": trace}
        result = client.infer("double", [tensor], headers=headers)
        np.testing.assert_array_equal(result.as_numpy("output_0"), X * 2)
        # Without a certificate of its own a client does not get that far.
        refused(lambda: grpc_client.InferenceServerClient(where, **tls).is_server_live(), "UNAVAILABLE")
    with open(f"{folder}/access.log", encoding="utf-8") as file:
        log = file.read()
    assert '"target":"/inference.GRPCInferenceService/ModelInfer"' in log and '"status":16' in log, log
    assert '"trace_id":"0af7651916cd43dd8448eb211c80319c"' in log, log


def main(folder):
    weft.serve.export(double, np.float32(2), {"x": X}, f"{folder}/repository/double", buckets=(1, 4))
    with serve_process.serving(f"--model_repository={folder}/repository", "--enable_shared_memory") as server:
        client = http_client.InferenceServerClient(f"127.0.0.1:{server.http}")
        extensions(http_client, client, client.get_model_config("double"))
        client = grpc_client.InferenceServerClient(f"127.0.0.1:{server.grpc}")
        extensions(grpc_client, client, client.get_model_config("double", as_json=True)["config"])
    secured(folder)


if __name__ == "__main__":
    main(sys.argv[1])
