"""The plugin's C interface as far as Python needs it: FFI handlers and the callback trampoline."""

import ctypes
import os

EXTENSION_FFI = 5
EXTENSION_WEFT = 0x57454654
_API_HEADER = 40  # struct_size, extension_start, version; then one function pointer a slot


class CallbackArray(ctypes.Structure):
    """One argument or result of a host callback."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("dims", ctypes.POINTER(ctypes.c_int64)),
        ("rank", ctypes.c_int64),
        ("type", ctypes.c_int32),  # PJRT_Buffer_Type
        ("reserved", ctypes.c_int32),
    ]


# (id, arguments, results, error text, its room) -> 0 or an error code. Takes the GIL.
Trampoline = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_uint64, ctypes.c_int32, ctypes.POINTER(CallbackArray), ctypes.c_int32,
    ctypes.POINTER(CallbackArray), ctypes.c_void_p, ctypes.c_int64)


class _Extension(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("type", ctypes.c_int32),
                ("next", ctypes.c_void_p)]


class _Api(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("extension_start", ctypes.c_void_p),
                ("version_size", ctypes.c_size_t), ("version_extensions", ctypes.c_void_p),
                ("major", ctypes.c_int32), ("minor", ctypes.c_int32)]


class _ErrorMessage(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("extension_start", ctypes.c_void_p),
                ("error", ctypes.c_void_p), ("message", ctypes.c_void_p),
                ("message_size", ctypes.c_size_t)]


class _ErrorDestroy(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("extension_start", ctypes.c_void_p),
                ("error", ctypes.c_void_p)]


class _TypeInfo(ctypes.Structure):
    _fields_ = [("deleter", ctypes.c_void_p), ("serialize", ctypes.c_void_p),
                ("deserialize", ctypes.c_void_p)]


class _RegisterType(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("extension_start", ctypes.c_void_p),
                ("type_name", ctypes.c_char_p), ("type_name_size", ctypes.c_size_t),
                ("type_id", ctypes.c_int64), ("type_info", ctypes.POINTER(_TypeInfo))]


_ErrorReturning = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
_ErrorConsuming = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
# (name, its size, api version, handlers of the four stages)
_RegisterTarget = ctypes.CFUNCTYPE(
    ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64, ctypes.c_int32, ctypes.c_void_p,
    ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


class Library:
    """libpjrt_weft.so, loaded."""

    def __init__(self, path):
        self.path = path
        self._library = ctypes.CDLL(path)
        get_api = self._library.GetPjrtApi
        get_api.restype = ctypes.c_void_p
        self._api = get_api()
        if not self._api:
            raise RuntimeError(f"{path}: GetPjrtApi returned nothing")
        self._extensions = dict(self._walk())

    def _walk(self):
        node = _Api.from_address(self._api).extension_start
        while node:
            extension = _Extension.from_address(node)
            yield extension.type, node
            node = extension.next

    def _slot(self, extension, index):
        """The function pointer number `index` of an extension; None where it has none."""
        node = self._extensions.get(extension)
        header = ctypes.sizeof(_Extension)
        if node is None or _Extension.from_address(node).struct_size < header + 8 * (index + 1):
            return None
        return ctypes.c_void_p.from_address(node + header + 8 * index).value

    def _check(self, error):
        if not error:
            return
        message = _ErrorMessage(ctypes.sizeof(_ErrorMessage), None, error, None, 0)
        address = ctypes.c_void_p.from_address(self._api + _API_HEADER + 8).value
        _ErrorConsuming(address)(ctypes.addressof(message))
        text = ctypes.string_at(message.message, message.message_size).decode(errors="replace")
        destroy = _ErrorDestroy(ctypes.sizeof(_ErrorDestroy), None, error)
        address = ctypes.c_void_p.from_address(self._api + _API_HEADER).value
        _ErrorConsuming(address)(ctypes.addressof(destroy))
        raise RuntimeError(text)

    def register_target(self, name, api_version, stages):
        """Makes the handlers of a custom call known; `api_version` counts as in HLO (4: typed)."""
        function = self._slot(EXTENSION_WEFT, 1)
        if function is None:
            raise NotImplementedError("the plugin takes no custom calls")
        name = name.encode()
        self._check(_RegisterTarget(function)(name, len(name), api_version, *stages))

    def register_ffi_type(self, name, number, deleter):
        """A type of state that handlers keep: its number, and the function that ends one."""
        function = self._slot(EXTENSION_FFI, 0)
        if function is None:
            raise NotImplementedError("the plugin has no FFI extension")
        name = name.encode()
        info = _TypeInfo(deleter, None, None)
        args = _RegisterType(ctypes.sizeof(_RegisterType), None, name, len(name), number,
                             ctypes.pointer(info))
        self._check(_ErrorReturning(function)(ctypes.addressof(args)))

    def set_callback_trampoline(self, trampoline):
        """The function that runs Python callbacks; None: answer them with an error."""
        function = self._slot(EXTENSION_WEFT, 0)
        if function is None:
            raise NotImplementedError("the plugin has no extension for Python callbacks")
        address = ctypes.cast(trampoline, ctypes.c_void_p) if trampoline else None
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(function)(address)

    def allow_host_views(self, allowed):
        """Whether arrays are looked at in place, or fetched as from a device with its own memory."""
        function = self._slot(EXTENSION_WEFT, 2)
        if function is None:
            raise NotImplementedError("the plugin cannot forbid views of its memory")
        ctypes.CFUNCTYPE(None, ctypes.c_bool)(function)(allowed)

    def analyse_cost(self, program):
        """What a program that is not compiled costs, as JAX names it."""
        function = self._slot(EXTENSION_WEFT, 4)
        if function is None:
            raise NotImplementedError("the plugin cannot analyse programs")
        costs = (ctypes.c_double * 4)()
        call = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64, ctypes.c_void_p)
        self._check(call(function)(program, len(program), ctypes.addressof(costs)))
        return dict(zip(("flops", "transcendentals", "bytes accessed", "dot flops"), costs))

    def set_interrupts(self, main_thread, ask):
        """Ctrl-C while the thread of this number waits in the plugin; None: as it comes."""
        function = self._slot(EXTENSION_WEFT, 5)
        if function is None:
            raise NotImplementedError("the plugin cannot be interrupted")
        address = ctypes.cast(ask, ctypes.c_void_p) if ask else None
        ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)(function)(main_thread, address)

    def compilations_asked(self):
        """How many programs the plugin was asked to compile so far."""
        function = self._slot(EXTENSION_WEFT, 9)
        if function is None:
            raise NotImplementedError("the plugin does not count compilations")
        return ctypes.CFUNCTYPE(ctypes.c_int64)(function)()

    def metrics(self, form):
        """Metrics of the process: Prometheus text (0) or JSON (1)."""
        function = self._slot(EXTENSION_WEFT, 6)
        if function is None:
            raise NotImplementedError("the plugin has no metrics")
        call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int32, ctypes.c_void_p,
                                ctypes.c_int64)(function)
        room = 1 << 16
        while True:
            text = ctypes.create_string_buffer(room)
            size = call(form, ctypes.addressof(text), room)
            if size <= room:
                return text.raw[:size].decode()
            room = size + (1 << 12)  # numbers may have grown by then

    def begin_trace(self, path):
        """Records a timeline from now on; gives a number for end_trace, which writes the file."""
        function = self._slot(EXTENSION_WEFT, 7)
        if function is None:
            raise NotImplementedError("the plugin records no timelines")
        path = os.fsencode(path)
        call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_char_p, ctypes.c_int64)
        return call(function)(path, len(path))

    def end_trace(self, number):
        call = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int64)
        self._check(call(self._slot(EXTENSION_WEFT, 8))(number))

    def set_threads(self, count):
        """How many threads work on programs from now on."""
        function = self._slot(EXTENSION_WEFT, 3)
        if function is None:
            raise NotImplementedError("the plugin cannot change its number of threads")
        ctypes.CFUNCTYPE(None, ctypes.c_int32)(function)(count)


def load(path):
    if not os.path.exists(path):
        raise FileNotFoundError(f"no plugin at {path}")
    try:
        return Library(path)
    except OSError as error:
        raise RuntimeError(f"{path} cannot be loaded: {error}") from error


def capsule_pointer(capsule):
    """The address inside a PyCapsule of any name."""
    get_name = ctypes.pythonapi.PyCapsule_GetName
    get_name.restype, get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return get_pointer(capsule, get_name(capsule))
