"""Writes what JAX sends for some programs, one folder for each fuzz target: seeds.py FOLDER."""

import os
import pathlib
import sys

os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402
import jax.export  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402
from jax._src.interpreters import mlir  # noqa: E402
from jax._src.lib import _jax, xla_client  # noqa: E402

F = jnp.ones((4, 6), jnp.float32)
I = jnp.arange(6, dtype=jnp.int32)
PROGRAMS = {
    "arithmetic": (lambda x: jnp.tanh(x * 2 + 1) / jnp.exp(x), F),
    "types": (lambda x: (x.astype(jnp.bfloat16), x.astype(jnp.int4), x.astype(jnp.complex64), x > 0), F),
    "dot": (lambda x: x @ x.T, F),
    "reduce": (lambda x: (x.sum(0), x.max(1), x.argmax(1)), F),
    "sort": (lambda x: jnp.sort(x, 0), F),
    "while": (lambda x: lax.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1] * 2), (0, x)), F),
    "cond": (lambda i, x: lax.switch(i[0], [lambda v: v, lambda v: v + 1, jnp.sin], x), I, F),
    "scan": (lambda x: lax.scan(lambda c, v: (c + v, c * v), x[0], x), F),
    "gather": (lambda x, i: x[:, i], F, I),
    "scatter": (lambda x, i: x.at[:, i].add(1), F, I),
    "slice": (lambda x, i: lax.dynamic_update_slice(x, x[1:3, ::2], (i[0], i[1])), F, I),
    "pad": (lambda x: lax.pad(x, 0.0, ((1, 2, 1), (0, -1, 0))), F),
    "convolution": (lambda x: lax.conv(x[None, None], x[None, None, :2, :3], (1, 2), "SAME"), F),
    "window": (lambda x: lax.reduce_window(x, 0.0, lax.add, (2, 2), (1, 1), "SAME"), F),
    "fft": (lambda x: jnp.fft.rfft(x), F),
    "random": (lambda x: jax.random.normal(jax.random.key(0), x.shape), F),
    "grad": (jax.grad(lambda x: jnp.sum(jax.nn.softmax(x) ** 2)), F),
    "constants": (lambda x: x + jnp.arange(24.0).reshape(4, 6), F),
}


def write_serve(write):
    """What the model server reads: exports, weights, signatures, requests."""
    import io
    import json
    import tempfile

    import numpy as np

    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "python"))
    import weft.serve

    with tempfile.TemporaryDirectory() as base:
        made = weft.serve.export(lambda p, x: {"y": x @ p["w"]}, {"w": np.ones((2, 3), np.float32)},
                                 np.ones((1, 2), np.float32), base, buckets=(1, 4))
        write("serve_signature_fuzz", "linear", (made / "signature.json").read_bytes())
        write("serve_weights_fuzz", "safetensors", b"\1" + (made / "weights.safetensors").read_bytes())
    write_exports(write)
    archive = io.BytesIO()
    np.savez(archive, w=np.ones((2, 3), np.float32), b=np.zeros(3))
    write("serve_weights_fuzz", "npz", b"\0" + archive.getvalue())
    infer = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]}],
             "parameters": {"priority": 1, "timeout": 5}, "outputs": [{"name": "y"}]}
    write("serve_rest_fuzz", "infer", b"\x08" + json.dumps(infer).encode())
    write("serve_rest_fuzz", "predict", b"\x09" + b'{"instances": [[1, NaN], [2, {"b64": "aGk="}]]}')
    write("serve_rest_fuzz", "path", b"\x0a" + b"v2/models/m/versions/3/infer")
    write("serve_rest_fuzz", "tensor", b"\x00" + b"[[1, 2.5e3], [-0.0, Infinity]]")
    write("serve_rest_fuzz", "bytes", b"\x01" + b'[{"b64": "aGk="}, [1, 2]]')
    body = json.dumps(infer).encode()
    head = b"POST /v2/models/m/infer HTTP/1.1\r\nHost: h\r\n"
    plain = head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    write("serve_http_fuzz", "plain", b"\x40\x07" + plain)
    write("serve_http_fuzz", "chunked", b"\x05\x01" + head + b"Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"
          + b"".join(b"%x;e=1\r\n%s\r\n" % (len(p), p) for p in (body[:9], body[9:])) + b"0\r\nT: 1\r\n\r\n")
    write("serve_http_fuzz", "pipelined", b"\x10\x1f" + plain + b"GET /v1/models/m HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" + plain)
    write_grpc(write)


def write_exports(write):
    try:
        import flatbuffers  # noqa: F401
    except ImportError:
        return print("no seeds of jax.export: it needs flatbuffers", file=sys.stderr)
    exported = jax.export.export(jax.jit(lambda p, x: {"y": x @ p["w"]}))
    for name, rows in (("fixed", 1), ("sizes", jax.export.symbolic_shape("b")[0])):
        arguments = {"w": jax.ShapeDtypeStruct((2, 3), jnp.float32)}, jax.ShapeDtypeStruct((rows, 2), jnp.float32)
        write("serve_export_fuzz", name, exported(*arguments).serialize())


def write_grpc(write):
    """Messages as protobuf writes them, and a call as frames of HTTP/2 with headers that are not compressed."""
    def field(number, value):
        if isinstance(value, int):
            return bytes([number << 3, value])
        return bytes([number << 3 | 2, len(value)]) + value

    raw = bytes.fromhex("0000803f00000040")  # 1, 2
    shape = field(3, b"\1\2")
    infer = field(1, b"m") + field(3, b"7") + field(4, field(1, b"priority") + field(2, field(2, 1)))
    infer += field(5, field(1, b"x") + field(2, b"FP32") + shape)
    write("serve_grpc_fuzz", "infer", b"\0" + infer + field(6, field(1, b"y")) + field(7, raw))
    listed = field(1, b"x") + field(2, b"FP32") + shape + field(5, field(6, raw))
    write("serve_grpc_fuzz", "infer_listed", b"\0" + field(1, b"m") + field(5, listed))
    long = infer + b"\x3a\x80\x20" + raw * 512  # raw_input_contents of 4096 bytes
    write("serve_grpc_fuzz", "infer_long", b"\0" + long)
    write("serve_message_fuzz", "body", bytes([8]) + bytes([0, 5, 0, 9, 0, 1, 16, 0]) + b"\0\0\0\x10\0" + long)
    write("serve_message_fuzz", "answer", bytes([9]) + bytes([0, 5, 0, 3, 0, 2, 0, 9, 1]) + long)
    tensor = field(1, 1) + field(2, field(2, field(1, 1)) + field(2, field(1, 2))) + field(4, raw)
    spec = field(1, b"m") + field(3, b"serving_default")
    write("serve_grpc_fuzz", "predict", b"\2" + field(1, spec) + field(2, field(1, b"x") + field(2, tensor)))

    def frame(kind, flags, stream, payload):
        return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload

    def headers(**fields):
        pairs = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/a/bc"), (b":authority", b"h"), (b"te", b"trailers")]
        pairs += [(name.replace("_", "-").encode(), value) for name, value in fields.items()]
        return b"".join(b"\0" + bytes([len(n)]) + n + bytes([len(v)]) + v for n, v in pairs)

    message = b"\0\0\0\0\2hi"
    call = frame(4, 1, 0, b"") + frame(1, 4, 1, headers(grpc_timeout=b"100m")) + frame(0, 1, 1, message)
    write("serve_grpc_fuzz", "frames", b"\1" + call)
    more = frame(1, 4, 3, headers(x_weft_priority=b"high")) + frame(0, 0, 3, message[:4]) + frame(0, 1, 3, message[4:])
    write("serve_grpc_fuzz", "frames_two", b"\1" + call + more + frame(6, 0, 0, bytes(8)) + frame(8, 0, 0, b"\0\0\1\0"))
    write("serve_grpc_fuzz", "frames_reset", b"\1" + call + frame(1, 0, 5, headers()[:20]) + frame(9, 4, 5, headers()[20:])
          + frame(3, 0, 5, b"\0\0\0\x08") + frame(7, 0, 0, bytes(8)))


def main(folder):
    def write(target, name, contents):
        path = pathlib.Path(folder) / target
        path.mkdir(parents=True, exist_ok=True)
        (path / f"jax_{name}").write_bytes(contents.encode() if isinstance(contents, str) else contents)

    for name, (function, *args) in PROGRAMS.items():
        lowered = jax.jit(function).lower(*args)
        module = lowered.compiler_ir()
        text = lowered.as_text()
        write("hlo_bytecode_fuzz", name,
              _jax.mlir.serialize_portable_artifact(mlir.module_to_bytecode(module), "1.16.0", True))
        write("mlir_text_fuzz", name, text)
        write("mlir_text_fuzz", name + "_generic",
              module.operation.get_asm(print_generic_op_form=True, enable_debug_info=True))
        write("hlo_proto_fuzz", name, lowered.compiler_ir("hlo").as_serialized_hlo_module_proto())
    write_serve(write)
    write("compile_options_fuzz", "default", xla_client.CompileOptions().SerializeAsString())


if __name__ == "__main__":
    main(sys.argv[1])
