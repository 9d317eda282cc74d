"""Host callbacks: pure_callback, io_callback, debug.print, debug.callback, checkify, buffer_callback.

A callback becomes the custom call `weft_python_callback` with a number. The plugin gives number,
arguments and results to one C function, the trampoline below, which finds the Python function by
its number. JAX's host_callbacks list ties the function to the executable: it lives as long as the
executable or a run of it, and the number is forgotten with it.
"""

import atexit
import ctypes
import dataclasses
import inspect
import itertools
import logging
import math
import threading
import time
import traceback
import types
import weakref

import numpy as np

from weft import PLATFORM, PLATFORMS, _native, _patched, _types, is_on_cpu

TARGET = "weft_python_callback"
_INTERNAL, _FAILED_PRECONDITION = 13, 9

_logger = logging.getLogger("weft")
_numbers = itertools.count(1)
_callbacks = weakref.WeakValueDictionary()
_running = set()
_thread = threading.local()


class Callback:
    """A Python function that programs call by number."""

    def __init__(self, function, aliases=(), buffers=None):
        self._function = function
        self._aliases = aliases  # (operand, result): buffer callbacks only
        self._buffers = buffers  # the class of what a buffer callback gets
        self.number = next(_numbers)
        _callbacks[self.number] = self

    def __call__(self, *args):  # jaxlib wants a callable; it calls it on its own platforms only
        return self._function(*args)

    def run(self, arguments, results):
        if self._buffers:
            self._run_on_buffers(arguments, results)
            return
        # Copies: a callback may keep what it is given, the memory is the program's.
        values = self._function(*(_read_only(np.array(argument)) for argument in arguments))
        for result, value in zip(results, values, strict=True):
            np.copyto(result, value, casting="no")

    def _run_on_buffers(self, arguments, results):
        arguments = [_read_only(argument) for argument in arguments]
        for operand, result in self._aliases:
            np.copyto(results[result], arguments[operand], casting="no")
            arguments[operand] = _read_only(results[result].view())
        self._function(self._buffers.context, *map(self._buffers, arguments),
                       *map(self._buffers, results))


def _read_only(array):
    array.flags.writeable = False
    return array


def _array(described):
    """The memory of an argument or result as a NumPy array."""
    dtype = _types.pjrt_dtype(described.type)
    shape = tuple(described.dims[i] for i in range(described.rank))
    size = math.prod(shape) * dtype.itemsize
    if size == 0:
        return np.zeros(shape, dtype)
    memory = (ctypes.c_char * size).from_address(described.data)
    return np.frombuffer(memory, dtype=dtype).reshape(shape)


def _arrays(count, described):
    return [_array(described[i]) for i in range(count) if described[i].type != _types.TOKEN]


def _keep_thread():
    """Keeps Python's state of this thread, which would end with the callback: the next one would
    make anew all that JAX has for each thread (a third of a callback's time)."""
    if not hasattr(_thread, "kept"):
        _thread.kept = True
        ctypes.pythonapi.PyGILState_Ensure()  # never released: one holder more than ctypes


def _write_text(text, address, room):
    if address and room > 0:
        data = text.encode(errors="replace")[: room - 1] + b"\0"
        ctypes.memmove(address, data, len(data))


@_native.Trampoline
def _trampoline(number, argument_count, arguments, result_count, results, error, room):
    token = object()
    _running.add(token)
    try:
        _keep_thread()
        callback = _callbacks.get(number)
        if callback is None:
            _write_text(f"Python callback {number} is gone: its program was deleted", error, room)
            return _FAILED_PRECONDITION
        callback.run(_arrays(argument_count, arguments), _arrays(result_count, results))
        return 0
    except BaseException:  # pylint: disable=broad-except
        _write_text("CpuCallback error calling callback: " + traceback.format_exc(), error, room)
        return _INTERNAL
    finally:
        _running.discard(token)


def _call_the_host(library):
    from jax._src import callback, debugging
    from jax._src.lax.control_flow import loops

    original = callback.emit_python_callback
    _patched.check_parameters(original, "ctx", "callback", "token", "operands", "operand_avals",
                              "result_avals", "has_side_effect", "returns_token", "partitioned",
                              "sharding")
    emit = _make_emit(original)
    library.set_callback_trampoline(_trampoline)
    atexit.register(_shut_down, library)
    callback.emit_python_callback = emit
    import jax.interpreters.mlir as public_mlir

    if getattr(public_mlir, "emit_python_callback", None) is original:
        public_mlir.emit_python_callback = emit
    # Callbacks get their arguments as arrays of a host device.
    for module, name in ((callback, "xb"), (debugging, "xla_bridge"), (loops, "xb")):
        if hasattr(module, name):
            setattr(module, name, _HostDevices(getattr(module, name)))


def _shut_down(library):
    """Lets what runs end; afterwards the plugin answers callbacks with an error."""
    try:
        from jax._src import dispatch

        dispatch.runtime_tokens.block_until_ready()
    except Exception:  # pylint: disable=broad-except
        pass  # JAX's own wait reports it
    library.set_callback_trampoline(None)
    deadline = time.monotonic() + 5
    time.sleep(0.001)  # a thread that is on its way into Python gets there
    while _running and time.monotonic() < deadline:
        time.sleep(0.001)


class _HostDevices:
    """jax._src.xla_bridge, where `cpu` means this platform when XLA's CPU is not in use."""

    def __init__(self, module):
        self._module = module

    def __getattr__(self, name):
        return getattr(self._module, name)

    def local_devices(self, process_index=None, backend=None, **kwargs):
        try:
            return self._module.local_devices(process_index, backend, **kwargs)
        except RuntimeError:
            if backend != "cpu":
                raise
            return self._module.local_devices(process_index, PLATFORM, **kwargs)


def _checked(function, result_avals):
    """`function`, its results made arrays and compared with what the program expects."""
    from jax._src import dtypes

    def run(*args):
        values = function(*args)
        if len(values) != len(result_avals):
            raise RuntimeError("Mismatched number of outputs from callback. "
                               f"Expected: {len(result_avals)}, Actual: {len(values)}")
        values = tuple(dtypes.canonicalize_value(np.asarray(value)) for value in values)
        for i, (value, aval) in enumerate(zip(values, result_avals)):
            for what in ("shape", "dtype"):
                wanted, given = getattr(aval, what), getattr(value, what)
                if wanted != given:
                    raise RuntimeError(f"Incorrect output {what} for return value #{i}: "
                                       f"Expected: {wanted}, Actual: {given}")
        return values

    return run


def _make_emit(original):
    from jax._src import config, core, ffi
    from jax._src.interpreters import mlir
    from jax._src.sharding_impls import SdyArray, SdyArrayList

    def with_token(sharding, ctx):
        """Shardy wants one sharding a result: the token's is that of the others' devices."""
        if not (config.use_shardy_partitioner.value and isinstance(sharding, SdyArrayList)
                and ctx.avals_out):
            return sharding
        first = SdyArray(mesh_shape=(), dim_shardings=(),
                         logical_device_ids=sharding.shardings[0].logical_device_ids)
        return SdyArrayList((first, *sharding.shardings))

    def emit_python_callback(ctx, callback, token, operands, operand_avals, result_avals, *,
                             has_side_effect, returns_token=True, partitioned=False, sharding=None,
                             **more):
        platforms = ctx.module_context.platforms
        if not set(PLATFORMS).intersection(platforms):
            return original(ctx, callback, token, operands, operand_avals, result_avals,
                            has_side_effect=has_side_effect, returns_token=returns_token,
                            partitioned=partitioned, sharding=sharding, **more)
        if len(platforms) > 1:
            raise NotImplementedError("multi-platform lowering for python_callback")
        if partitioned and result_avals:
            raise ValueError("Partitioned callback not supported with return values.")
        if token:
            operands = [token, *operands]
            sharding = with_token(sharding, ctx)
            ctx = dataclasses.replace(ctx, avals_in=[core.abstract_token, *ctx.avals_in],
                                      avals_out=[core.abstract_token, *ctx.avals_out])
        host = Callback(_checked(callback, result_avals))
        ctx.module_context.add_host_callback(host)
        call = ffi.build_ffi_lowering_function(TARGET, has_side_effect=has_side_effect)(
            ctx, *operands, id=np.uint64(host.number),
            **({"partitioned": np.uint64(1)} if partitioned else {}))
        if sharding is not None:
            mlir.set_sharding(ctx.module_context, call, sharding)
        results = call.results
        if token:
            token, *results = results
        return results, token, host

    return emit_python_callback


def _tell_shardings(library):
    """debug.inspect_array_sharding on several devices: JAX's rule, with a number of ours where it
    writes the address of a function. The plugin calls it while compiling, with an OpSharding."""
    del library
    from jax._src import debugging
    from jax._src.interpreters import mlir

    rule = debugging._inspect_sharding_lowering_rule
    client = debugging.xc
    _patched.check_parameters(rule, "ctx", "value", "callback")
    if not {"xc", "encode_inspect_sharding_callback"} <= set(rule.__code__.co_names):
        raise TypeError(f"{rule.__qualname__} does not use xc.encode_inspect_sharding_callback")

    def hear(function):
        def run(data):
            sharding = client.OpSharding()
            sharding.ParseFromString(data.tobytes())
            function(client.HloSharding.from_proto(sharding))
            return ()

        return Callback(run)

    # The rule of any platform, bound to other globals: what it encodes is found in `heard`.
    heard = threading.local()

    def encode(function):
        heard.callback = hear(function)
        return f"weft:{heard.callback.number}"

    names = {**vars(debugging), "xc": _patched.Module(client, encode_inspect_sharding_callback=encode)}
    bound = types.FunctionType(rule.__code__, names, rule.__name__, rule.__defaults__,
                               rule.__closure__)
    bound.__kwdefaults__ = rule.__kwdefaults__

    def lower(ctx, value, *, callback):
        heard.callback = None
        results = bound(ctx, value, callback=callback)
        if heard.callback is not None:
            ctx.module_context.add_keepalive(heard.callback)
        return results

    for platform in PLATFORMS:
        mlir.register_lowering(debugging.inspect_sharding_p, lower, platform=platform)


class _ExecutionContext:
    """What a buffer callback sees of its surroundings."""

    @property
    def stage(self):
        from jax.experimental import buffer_callback

        return buffer_callback.ExecutionStage.EXECUTE

    @property
    def stream(self):
        import jax

        raise jax.errors.JaxRuntimeError(
            "UNIMPLEMENTED: XLA FFI GPU context is not available on this platform")


class _GpuContext(_ExecutionContext):
    stream = 1  # CUDA's default stream, which the plugin waits for behind the callback


class _Buffer:
    """One buffer of a buffer callback; its memory is valid during the callback only."""

    context = _ExecutionContext()
    device_type = 1  # kDLCPU

    def __init__(self, array):
        self._array = array

    dtype = property(lambda self: self._array.dtype)
    ndim = property(lambda self: self._array.ndim)
    shape = property(lambda self: self._array.shape)
    writeable = property(lambda self: self._array.flags.writeable)

    def __array__(self, dtype=None, copy=None):
        if dtype is not None and np.dtype(dtype) != self._array.dtype:
            if copy is False:
                raise ValueError(f"a copy is needed to convert to {dtype}")
            return self._array.astype(dtype)
        return self._array.copy() if copy else self._array

    def __dlpack__(self, stream=None, max_version=None, dl_device=None, copy=None):
        from weft import _dlpack

        del stream, dl_device
        return _dlpack.export(self._array.copy() if copy else self._array, max_version,
                              device_type=self.device_type)

    def __dlpack_device__(self):
        return self.device_type, 0

    def __repr__(self):
        return f"Buffer({self._array!r})"


class _GpuBuffer(_Buffer):
    """The same on a GPU: a copy in pinned memory, which kernels reach by the same address."""

    context = _GpuContext()
    device_type = 3  # kDLCUDAHost

    @property
    def __cuda_array_interface__(self):
        array = self._array
        return {"shape": array.shape, "typestr": array.dtype.str, "version": 3, "strides": None,
                "data": (array.ctypes.data, not array.flags.writeable), "stream": None}


def _call_with_buffers(library):
    del library
    from jax._src import buffer_callback, ffi, tree_util, util
    from jax._src.interpreters import mlir

    primitive = buffer_callback.buffer_callback_p
    theirs = inspect.signature(mlir._lowerings[primitive].rule).parameters
    wanted = {"callback", "in_tree", "out_tree", "has_side_effect", "input_output_aliases"}
    if not wanted <= set(theirs):
        raise TypeError(f"buffer_callback has no {', '.join(sorted(wanted - set(theirs)))}")

    def lower(ctx, *args, callback, in_tree, out_tree, has_side_effect, input_output_aliases, **_):
        if len(ctx.module_context.platforms) > 1:
            raise NotImplementedError("multi-platform lowering for buffer_callback")
        on_cpu = is_on_cpu(ctx.module_context.platforms[0])

        def run(exec_ctx, *buffers):
            arguments, results = util.split_list(buffers, [in_tree.num_leaves])
            args, kwargs = tree_util.tree_unflatten(in_tree, arguments)
            if callback(exec_ctx, tree_util.tree_unflatten(out_tree, results), *args,
                        **kwargs) is not None:
                raise ValueError("buffer_callback callback must not return any values.")

        host = Callback(run, aliases=tuple(input_output_aliases),
                        buffers=_Buffer if on_cpu else _GpuBuffer)
        ctx.module_context.add_host_callback(host)
        rule = ffi.ffi_lowering(TARGET, has_side_effect=has_side_effect,
                                operand_output_aliases=dict(input_output_aliases))
        return rule(ctx, *args, id=np.uint64(host.number))

    for platform in PLATFORMS:
        mlir.register_lowering(primitive, lower, platform=platform)


FEATURES = {
    "host callbacks": _call_the_host,
    "buffer_callback": _call_with_buffers,
    "inspect_array_sharding": _tell_shardings,
}
