"""custom_partitioning: JAX's rule for it, with a number of ours where it writes the key of its callbacks. The plugin calls
`partition` while it compiles, once it knows how operands and results lie on the devices. On a GPU, where programs of several
devices run in whole shapes, the decorated function is what is computed."""

import threading

import numpy as np

from weft import PLATFORMS, _patched, is_on_cpu
from weft._callbacks import Callback


_STABLEHLO = "1.16.0"  # what the plugin says that it reads


def _partition(library):
    del library
    from jax._src import core, custom_partitioning
    from jax._src.interpreters import mlir
    from jax._src.lib.mlir import ir

    primitive = custom_partitioning.custom_partitioning_p
    rule = custom_partitioning._custom_partitioning_lowering_rule
    _patched.check_parameters(rule, "call", "in_tree", "out_tree", "partition", "static_args")
    _patched.check_parameters(custom_partitioning._custom_partitioning_partition, "arg_shapes", "arg_shardings",
                              "result_shape", "result_sharding", "backend_string")

    def lower(ctx, *values, call, **parameters):
        if not all(map(is_on_cpu, ctx.module_context.platforms)):
            return mlir.lower_fun(core.jaxpr_as_fun(call), multiple_results=True)(ctx, *values)
        results = rule(ctx, *values, call=call, **parameters)
        made = results[0].owner if results else None
        # An argument of a block is what a function gives back that does nothing.
        if getattr(made, "name", None) != "stablehlo.custom_call":
            return results  # one device, or all by hand: the function itself
        key = ir.StringAttr(made.attributes["backend_config"]).value
        callback = Callback(_Answers(custom_partitioning, call, key))
        made.attributes["backend_config"] = ir.StringAttr.get(f"weft:{callback.number}")
        ctx.module_context.add_keepalive(callback)
        return results

    for platform in PLATFORMS:
        mlir.register_lowering(primitive, lower, platform=platform)


class _Answers:
    """How operands and results lie, a line each; then, without arguments, the answer: a line for each sharding that is
    wanted, an empty one and the program of one device."""

    def __init__(self, custom_partitioning, call, key):
        self._jax, self._call, self._key = custom_partitioning, call, key.encode()
        self._answers = {}  # by thread, which is the plugin's: Python forgets what is local to it

    def __call__(self, *question):
        if not question:
            return (np.frombuffer(self._answers.pop(threading.get_ident()), np.uint8),)
        answer = self._ask(question[0].tobytes().decode())
        self._answers[threading.get_ident()] = answer
        return (np.array([len(answer)], np.int64),)

    def _ask(self, question):
        client = self._jax.xc
        shardings = [_read(client, line) for line in question.split()]
        arguments = [_shape(client, aval) for aval in self._call.in_avals]
        results = [_shape(client, aval) for aval in self._call.out_avals]
        lie = shardings[len(arguments):]
        result, lies = results[0], lie[0]
        if len(results) > 1:
            result = client.Shape.tuple_shape(results)
            lies = client.HloSharding.tuple_sharding(result, lie)
        program, wanted, given = self._jax._custom_partitioning_partition(
            arguments, shardings[:len(arguments)], result, lies, self._key)
        given = given.tuple_elements() if len(results) > 1 else [given]
        return "".join(f"{sharding}\n" for sharding in [*wanted, *given]).encode() + b"\n" + _portable(program)


def _portable(program):
    """MLIR's bytecode as StableHLO's, which is what the plugin reads."""
    from jax.extend.mlir.dialects import stablehlo

    version = stablehlo.get_smaller_version(stablehlo.get_current_version(), _STABLEHLO)
    return stablehlo.serialize_portable_artifact_str(program, version)


def _read(client, line):
    sharding = client.OpSharding()
    sharding.ParseFromString(bytes.fromhex(line))
    return client.HloSharding.from_proto(sharding)


def _shape(client, aval):
    return client.Shape.array_shape(np.dtype(aval.dtype), tuple(aval.shape))


FEATURES = {"custom_partitioning": _partition}
