"""Writes what JAX sends for some programs, one folder for each fuzz target: seeds.py FOLDER."""

import os
import pathlib
import sys

os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402
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
        for file in made.iterdir():
            if file.suffix == ".jaxexport":
                write("serve_export_fuzz", file.name, file.read_bytes())
        write("serve_signature_fuzz", "linear", (made / "signature.json").read_bytes())
        write("serve_weights_fuzz", "safetensors", b"\1" + (made / "weights.safetensors").read_bytes())
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


def main(folder):
    def write(target, name, contents):
        path = pathlib.Path(folder) / target
        path.mkdir(parents=True, exist_ok=True)
        (path / f"jax_{name}").write_bytes(contents if isinstance(contents, bytes) else contents.encode())

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
