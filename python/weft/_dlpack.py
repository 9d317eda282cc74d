"""DLPack for arrays of this platform: over their zero-copy NumPy view, or by their address on a GPU;
__cuda_array_interface__.

jaxlib's own export and import know its own platforms only. jax._src.dlpack keeps its logic (what
copies, what raises); the two functions of jaxlib at its bottom are replaced for our arrays. Memory
of a GPU comes in by jaxlib's function, as a view of it.
"""

import ctypes
import sys
import weakref

import numpy as np

from weft import HAS_GPU, PLATFORM, PLATFORMS, _patched, _types, is_on_cpu

_CPU = 1  # kDLCPU
_CUDA = 2  # kDLCUDA
_CUDA_HOST = 3  # kDLCUDAHost: pinned memory of the host
_READ_ONLY = 1  # DLPACK_FLAG_BITMASK_READ_ONLY
_IS_COPIED = 2  # DLPACK_FLAG_BITMASK_IS_COPIED
_ALIGNMENT = 64  # what the plugin wants of memory that it takes over without a copy


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class _Versioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32),
                ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
                ("flags", ctypes.c_uint64), ("tensor", _Tensor)]


_KINDS = {b"dltensor": _Managed, b"dltensor_versioned": _Versioned}
_exported = {}  # address of a managed tensor -> what keeps it and its memory

_capsule_new = ctypes.pythonapi.PyCapsule_New
_capsule_new.restype = ctypes.py_object
_capsule_new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_PyCapsule = ctypes.pythonapi
# With plain addresses: a capsule that is being destroyed must not be wrapped in a reference.
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", _PyCapsule))
_get_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", _PyCapsule))
_set_name = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_SetName", _PyCapsule))


@_Deleter
def _delete(address, pop=_exported.pop):  # bound: the module's names may be gone at exit
    pop(address, None)


@ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
def _capsule_destructor(capsule):
    for name in _KINDS:  # renamed by whoever took it over
        if _is_valid(capsule, name):
            _exported.pop(_get_pointer(capsule, name), None)


def export(array, max_version=None, copied=False, device_type=_CPU):
    """A DLPack capsule of a NumPy array's memory; `copied`: made for whoever takes it."""
    strides = [stride // array.itemsize for stride in array.strides]
    return _capsule(array, array.ctypes.data, device_type, strides, max_version, copied,
                    array.flags.writeable)


def export_from_gpu(buffer, max_version=None, copied=False):
    """The same of an array in the memory of a GPU, once it is there; row-major."""
    return _capsule(buffer, buffer.unsafe_buffer_pointer(), _CUDA, _row_major(buffer.shape),
                    max_version, copied, False)


def _row_major(shape):
    """Strides in elements."""
    return [int(np.prod(shape[i + 1:], dtype=np.int64)) for i in range(len(shape))]


class _CudaArray:
    """Memory that a __cuda_array_interface__ describes; `described` is kept as long as it is used."""

    def __init__(self, described):
        self.described = described
        self.shape = tuple(described["shape"])
        self.dtype = np.dtype(described["typestr"])
        self.data = described["data"][0]
        strides = described.get("strides")
        wanted = tuple(stride * self.dtype.itemsize for stride in _row_major(self.shape))
        if strides is not None and 0 not in self.shape and any(
                size > 1 and a != b for size, a, b in zip(self.shape, strides, wanted)):
            raise ValueError(f"__cuda_array_interface__: strides {tuple(strides)} of shape "
                             f"{self.shape}: only row-major arrays are taken without a copy")


def _check_aligned(address):
    if address % _ALIGNMENT:
        raise BufferError(f"GPU memory at {address:#x} is not aligned to {_ALIGNMENT} bytes, as "
                          "kernels want it: copy it first")


def cuda_array_interface(array):
    """What __cuda_array_interface__ says of an array in the memory of a GPU, once it is there."""
    if array.dtype.name == "bfloat16":
        raise AttributeError("__cuda_array_interface__ is not supported for BF16 buffers.")
    address = array.unsafe_buffer_pointer() if array.size else 0  # as the interface has it
    return {"shape": array.shape, "typestr": array.dtype.str, "version": 2, "data": (address, False)}


def _capsule(array, data, device_type, strides, max_version, copied, writeable):
    code, bits = _types.dlpack_code(array.dtype)
    versioned = max_version is not None and tuple(max_version) >= (1, 0)
    rank = len(array.shape)
    shape = (ctypes.c_int64 * max(rank, 1))(*array.shape)
    strides = (ctypes.c_int64 * max(rank, 1))(*strides)
    managed = (_Versioned if versioned else _Managed)()
    managed.tensor = _Tensor(data, device_type, 0, rank, code, bits, 1, shape, strides, 0)
    managed.deleter = ctypes.cast(_delete, ctypes.c_void_p).value
    if versioned:
        managed.major, managed.minor = 1, 0
        managed.flags = _IS_COPIED if copied else 0 if writeable else _READ_ONLY
    address = ctypes.addressof(managed)
    _exported[address] = (managed, array, shape, strides)
    name = _VERSIONED_NAME if versioned else _PLAIN_NAME
    return _capsule_new(address, name, ctypes.cast(_capsule_destructor, ctypes.c_void_p))


# The capsules keep pointers to their names.
_PLAIN_NAME, _VERSIONED_NAME = b"dltensor", b"dltensor_versioned"
_USED = {_PLAIN_NAME: b"used_dltensor", _VERSIONED_NAME: b"used_dltensor_versioned"}


def _open(capsule):
    """The name of a DLPack capsule and its managed tensor."""
    name = next((name for name in _KINDS if _is_valid(id(capsule), name)), None)
    if name is None:
        raise ValueError("not a DLPack capsule, or one that was consumed before")
    return name, _KINDS[name].from_address(_get_pointer(id(capsule), name))


def import_(capsule):
    """The memory of a DLPack capsule, which is taken over, as a NumPy array."""
    name, managed = _open(capsule)
    address, tensor = ctypes.addressof(managed), managed.tensor
    if tensor.device_type not in (_CPU, _CUDA_HOST):
        raise BufferError(f"DLPack tensor on device type {tensor.device_type}, not on the CPU")
    dtype = _types.dlpack_dtype(tensor.code, tensor.bits, tensor.lanes)
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    strides = None
    if tensor.strides:
        strides = tuple(tensor.strides[i] * dtype.itemsize for i in range(tensor.ndim))
    _set_name(capsule, _USED[name])
    if 0 in shape:
        array = np.zeros(shape, dtype)
        _release(address, managed.deleter)
        return array
    base = tensor.data + tensor.byte_offset
    low, high = _extent(shape, strides, dtype.itemsize)
    memory = (ctypes.c_char * (high - low)).from_address(base + low)  # every view's last base
    weakref.finalize(memory, _release, address, managed.deleter).atexit = False
    return np.ndarray(shape, dtype, buffer=memory, offset=-low, strides=strides)


def _extent(shape, strides, itemsize):
    """The bytes touched, from the first element: [low, high)."""
    if strides is None:
        return 0, int(np.prod(shape, dtype=np.int64)) * itemsize
    reach = [(size - 1) * stride for size, stride in zip(shape, strides)]
    return sum(r for r in reach if r < 0), sum(r for r in reach if r > 0) + itemsize


def _release(address, deleter):
    if deleter:
        _Deleter(deleter)(address)


class _HostSide:
    """A GPU as the device that memory of the host goes to: whoever owns that has no streams."""

    def __init__(self, device):
        self.device = device

    def __getattr__(self, name):
        return getattr(self.device, name)

    def __eq__(self, other):
        return self.device == getattr(other, "device", other)

    def __hash__(self):
        return hash(self.device)

    def get_stream_for_external_ready_events(self):
        from jax._src.lib import _jax
        raise _jax.JaxRuntimeError("UNIMPLEMENTED: memory of the host")


class _HostSideBackend:
    def __init__(self, backend):
        self.backend = backend

    def __getattr__(self, name):
        return getattr(self.backend, name)

    def device_from_local_hardware_id(self, number):
        return _HostSide(self.backend.device_from_local_hardware_id(number))


def _platform_of(thing):
    """The platform of a device or of a JAX array; None of anything else."""
    platform = getattr(thing, "platform", None)
    if callable(platform):
        platform = platform()
    return platform if isinstance(platform, str) else None


def _exchange(library):
    del library
    import jax
    from jax._src import array, dlpack, xla_bridge
    from jax._src.lib import _jax

    to_capsule = _jax.buffer_to_dlpack_managed_tensor
    from_capsule = _jax.dlpack_managed_tensor_to_buffer

    # JAX asks for versioned capsules from 0.12 on.
    def buffer_to_dlpack_managed_tensor(buffer, *args, max_version=None, copied=False, **more):
        if is_on_cpu(buffer.platform()) or buffer.sharding.memory_kind != "device":
            return export(np.asarray(buffer), max_version, copied)
        if buffer.platform() in PLATFORMS:
            return export_from_gpu(buffer, max_version, copied)
        if max_version is not None or copied:
            more.update(max_version=max_version, copied=copied)
        return to_capsule(buffer, *args, **more)

    def dlpack_managed_tensor_to_buffer(capsule, device, stream=None, copy=None, *more):
        device = device.device if isinstance(device, _HostSide) else device
        if getattr(device, "platform", None) not in PLATFORMS:
            return from_capsule(capsule, device, stream, copy, *more)
        tensor = _open(capsule)[1].tensor
        if not is_on_cpu(device.platform) and tensor.device_type == _CUDA:
            _check_aligned((tensor.data or 0) + tensor.byte_offset)
            view = from_capsule(capsule, device, stream, None, *more)
            return jax.numpy.array(view, copy=True) if copy else view
        if copy is False and not is_on_cpu(device.platform):
            raise ValueError("Specified input which requires a copy since the source data is in "
                             "memory of the host, however copy=False. Set copy=True or copy=None "
                             "to perform the requested operation.")
        value = import_(capsule)
        if copy:
            value = value.copy()
        elif copy is False and value.ctypes.data % _ALIGNMENT:
            raise _jax.JaxRuntimeError(
                f"INVALID_ARGUMENT: Specified buffer (ptr={value.ctypes.data:#x}) is not aligned "
                f"to {_ALIGNMENT} bytes.")
        return jax.device_put(value, device)

    def get_backend(platform=None):
        """CPU memory goes to this platform where it is the default, unless XLA's CPU is meant."""
        if platform == "cuda" and xla_bridge.default_backend() == PLATFORM and not is_on_cpu(PLATFORM):
            platform = PLATFORM
        if platform == "cpu" and xla_bridge.default_backend() == PLATFORM:
            caller = sys._getframe(1).f_locals  # of from_dlpack or to_dlpack
            named = (caller.get(name) for name in ("device", "external_array", "x"))
            if "cpu" not in map(_platform_of, named):
                backend = xla_bridge.get_backend(PLATFORM)
                return backend if is_on_cpu(PLATFORM) else _HostSideBackend(backend)
        return xla_bridge.get_backend(platform)

    dlpack_device = array.ArrayImpl.__dlpack_device__
    _patched.check_unary(dlpack_device)

    dlpack._jax, dlpack.xla_bridge  # what is replaced must be there
    dlpack._jax = _patched.Module(
        _jax, buffer_to_dlpack_managed_tensor=buffer_to_dlpack_managed_tensor,
        dlpack_managed_tensor_to_buffer=dlpack_managed_tensor_to_buffer)
    dlpack.xla_bridge = _patched.Module(xla_bridge, get_backend=get_backend)

    def __dlpack_device__(self):
        if len(self._arrays) == 1 and self.platform() in PLATFORMS:
            here = is_on_cpu(self.platform()) or self.sharding.memory_kind != "device"
            return dlpack.DLDeviceType.kDLCPU if here else dlpack.DLDeviceType.kDLCUDA, 0
        return dlpack_device(self)

    array.ArrayImpl.__dlpack_device__ = __dlpack_device__


def _interface(library):
    """__cuda_array_interface__ of arrays on a GPU, and arrays of what has one."""
    del library
    if not HAS_GPU:
        return
    from jax._src import array
    from jax._src.lib import _jax
    from jax._src.numpy import array_constructors

    theirs = array.ArrayImpl.__cuda_array_interface__
    convert = _jax.cuda_array_interface_to_buffer
    from_capsule = _jax.dlpack_managed_tensor_to_buffer
    xc = array_constructors.xc

    def describe(self):
        if self.platform() not in PLATFORMS or is_on_cpu(self.platform()) or (
                self.sharding.memory_kind not in (None, "device")):
            return theirs.__get__(self)
        if len(self._arrays) != 1:
            raise AttributeError(
                "__cuda_array_interface__ is only supported for unsharded arrays.")
        return cuda_array_interface(self)

    def cuda_array_interface_to_buffer(cai, gpu_backend, device_id=None):
        if gpu_backend.platform not in PLATFORMS or is_on_cpu(gpu_backend.platform):
            return convert(cai=cai, gpu_backend=gpu_backend, device_id=device_id)
        memory = _CudaArray(cai)
        _check_aligned(memory.data or 0)
        capsule = _capsule(memory, memory.data, _CUDA, _row_major(memory.shape), None, False, False)
        device = gpu_backend.local_devices()[0]
        return from_capsule(capsule, device, cai.get("stream"), None)

    address = array.ArrayImpl.unsafe_buffer_pointer

    def unsafe_buffer_pointer(self):
        """jaxlib's waits for the array with the GIL held, which whoever frees memory of another
        library's may want, on a thread that the array comes behind."""
        if self.platform() in PLATFORMS and not is_on_cpu(self.platform()):
            self.block_until_ready()
        return address(self)

    array.ArrayImpl.unsafe_buffer_pointer = unsafe_buffer_pointer
    array.ArrayImpl.__cuda_array_interface__ = property(describe)
    replaced = _patched.Module(_jax, cuda_array_interface_to_buffer=cuda_array_interface_to_buffer)
    if hasattr(array_constructors, "_jax"):
        array_constructors._jax = replaced
    else:  # JAX 0.10.1
        array_constructors.xc = _patched.Module(xc, _xla=replaced)


FEATURES = {"DLPack": _exchange, "__cuda_array_interface__": _interface}
