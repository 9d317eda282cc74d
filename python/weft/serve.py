"""Models for `weft-serve`: a folder with programs, weights and a signature, from any JAX function.

    import weft.serve
    weft.serve.export(model.apply, params, {"x": x}, "models/classifier", buckets=(1, 8, 32))

writes models/classifier/1/. The function is called as `fn(params, **examples)` where the examples are
a dict, as `fn(params, *examples)` where they are a tuple. Nothing here needs the plugin.
"""

import inspect
import itertools
import json
import os
import pathlib
import shutil
import tempfile

import numpy as np

FORMAT = "weft-serve/1"
DEFAULT_GRAPH = "serving_default"
_ALIGNMENT = 64  # bytes; what programs read in place

# NumPy's name of a type -> HLO's, safetensors'.
_TYPES = {
    "bool": ("pred", "BOOL"), "int8": ("s8", "I8"), "int16": ("s16", "I16"), "int32": ("s32", "I32"),
    "int64": ("s64", "I64"), "uint8": ("u8", "U8"), "uint16": ("u16", "U16"), "uint32": ("u32", "U32"),
    "uint64": ("u64", "U64"), "float16": ("f16", "F16"), "bfloat16": ("bf16", "BF16"),
    "float32": ("f32", "F32"), "float64": ("f64", "F64"), "complex64": ("c64", "C64"),
    "float8_e5m2": ("f8e5m2", "F8_E5M2"), "float8_e4m3fn": ("f8e4m3fn", "F8_E4M3"),
}


def _type_name(dtype, what):
    try:
        return _TYPES[np.dtype(dtype).name][0]
    except (KeyError, TypeError):
        raise ValueError(f"weft.serve: {what}: no server takes {dtype}") from None


# ---- safetensors ---------------------------------------------------------------------------------


def save_safetensors(path, tensors):
    """Writes {name: array}. Arrays whose size is a multiple of 64 bytes come first, so that they are
    aligned in the file and can be used in place."""
    arrays = {name: np.asarray(array) for name, array in tensors.items()}
    order = sorted(arrays, key=lambda n: (arrays[n].nbytes % _ALIGNMENT != 0, -arrays[n].itemsize, n))
    header, offset = {}, 0
    for name in order:
        array = arrays[name]
        if array.dtype.name not in _TYPES:
            raise ValueError(f"weft.serve: {name}: safetensors has no type {array.dtype}")
        header[name] = {"dtype": _TYPES[array.dtype.name][1], "shape": list(array.shape),
                        "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % _ALIGNMENT)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in order:
            # bytes and not the array: NumPy does not know how to hand out ml_dtypes' types
            file.write(np.ascontiguousarray(arrays[name]).tobytes())


def load_safetensors(path):
    """{name: array}."""
    import ml_dtypes

    names = {stored: numpy for numpy, (_, stored) in _TYPES.items()}
    data = pathlib.Path(path).read_bytes()
    length = int.from_bytes(data[:8], "little")
    tensors = {}
    for name, entry in json.loads(data[8:8 + length]).items():
        if name == "__metadata__":
            continue
        numpy_name = names[entry["dtype"]]
        dtype = np.dtype(getattr(ml_dtypes, numpy_name, None) or numpy_name)
        begin, end = (8 + length + o for o in entry["data_offsets"])
        tensors[name] = np.frombuffer(data[begin:end], dtype).reshape(entry["shape"])
    return tensors


# ---- names ---------------------------------------------------------------------------------------


def _key_text(key):
    for field in ("key", "name", "idx"):
        if hasattr(key, field):
            return str(getattr(key, field))
    return str(key)


def _path_text(path, otherwise):
    return "/".join(map(_key_text, path)) or otherwise


def _is_array(leaf):
    return hasattr(leaf, "shape") and hasattr(leaf, "dtype")


def _argument_names(fn, count):
    """Names of the positional arguments behind the first."""
    try:
        parameters = list(inspect.signature(fn).parameters.values())[1:]
    except (TypeError, ValueError):
        parameters = []
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    names = names[:count]
    return names + [f"input_{i}" for i in range(len(names), count)]


class _Variables:
    """The arrays of `params` by name; what is not an array stays with the function."""

    def __init__(self, params):
        import jax

        flat, self.tree = jax.tree_util.tree_flatten_with_path(params)
        self.names, self.arrays, self.leaves, self.slots = [], {}, [], []
        first = {}  # an array that occurs twice is stored once
        for path, leaf in flat:
            if not _is_array(leaf):
                self.leaves.append(leaf)
                continue
            name = _path_text(path, "params")
            name = first.setdefault(id(leaf), name)
            if name not in self.arrays:
                self.arrays[name] = leaf
                _type_name(leaf.dtype, f"params: {name}")
            self.slots.append(len(self.leaves))
            self.leaves.append(None)
            self.names.append(name)

    def values(self):
        return [self.arrays[name] for name in self.names]

    def rebuild(self, values):
        import jax

        leaves = list(self.leaves)
        for slot, value in zip(self.slots, values):
            leaves[slot] = value
        return jax.tree_util.tree_unflatten(self.tree, leaves)


# ---- one graph -----------------------------------------------------------------------------------


class _Graph:
    def __init__(self, name, fn, variables, examples, buckets, shapes):
        import jax

        self.name, self.fn, self.variables = name, fn, variables
        self.platform = getattr(fn, "platform", None) or _platform()
        self.by_name = isinstance(examples, dict)
        if not self.by_name:
            examples = examples if isinstance(examples, (tuple, list)) else (examples,)
            examples = dict(zip(_argument_names(fn, len(examples)), examples))
        flat, self.tree = jax.tree_util.tree_flatten_with_path(examples)
        self.examples = [leaf if _is_array(leaf) else np.asarray(leaf) for _, leaf in flat]
        self.inputs = [_path_text(path, "input") for path, _ in flat]
        self.order = list(examples)
        self.symbols, self.dims = self._sizes(buckets, shapes or {})

    def _sizes(self, buckets, shapes):
        """Which dimension of which input is which symbol, and the sizes of each."""
        if buckets is None:
            return {}, [tuple(x.shape) for x in self.examples]
        if not isinstance(buckets, dict):
            buckets = {"b": buckets}
        unknown = set(shapes) - set(self.inputs)
        if unknown:
            raise ValueError(f"weft.serve: shapes: no input {sorted(unknown)[0]}, there are {self.inputs}")
        dims = []
        for name, example in zip(self.inputs, self.examples):
            given = shapes.get(name)
            if given is None and "b" in buckets and example.ndim > 0:
                given = ("b",) + (None,) * (example.ndim - 1)
            given = (None,) * example.ndim if given is None else tuple(given)
            if len(given) != example.ndim:
                raise ValueError(f"weft.serve: shapes: {name} has {example.ndim} dimensions, not {len(given)}")
            dims.append(tuple(size if symbol is None else symbol for symbol, size in zip(given, example.shape)))
        used = {d for shape in dims for d in shape if isinstance(d, str)}
        for symbol in used ^ set(buckets):
            raise ValueError(f"weft.serve: {symbol}: a size that varies has buckets and stands in the shape of an input")
        sizes = {symbol: sorted(set(map(int, values))) for symbol, values in buckets.items()}
        for symbol, values in sizes.items():
            if not values or values[0] < 1:
                raise ValueError(f"weft.serve: buckets: {symbol}: {values}: at least one size, none below 1")
        return sizes, dims

    def call(self, *flat):
        import jax

        count = len(self.variables.names)
        params = self.variables.rebuild(flat[:count])
        arguments = jax.tree_util.tree_unflatten(self.tree, flat[count:])
        if self.by_name:
            return self.fn(params, **arguments)
        return self.fn(params, *(arguments[name] for name in self.order))

    def arguments(self, sizes):
        import jax

        flat = [jax.ShapeDtypeStruct(v.shape, v.dtype) for v in self.variables.values()]
        for dims, example in zip(self.dims, self.examples):
            shape = tuple(sizes[d] if isinstance(d, str) else d for d in dims)
            flat.append(jax.ShapeDtypeStruct(shape, example.dtype))
        return flat

    def outputs(self):
        """Names, types and shapes of the results, sizes that vary as symbols: what changes with one."""
        import jax

        base = {symbol: values[0] for symbol, values in self.symbols.items()}
        flat, _ = jax.tree_util.tree_flatten_with_path(jax.eval_shape(self.call, *self.arguments(base)))
        names = [_path_text(path, "") for path, _ in flat]
        names = [n if n and not n.isdigit() else f"output_{i}" for i, n in enumerate(names)]
        shapes = [list(leaf.shape) for _, leaf in flat]
        for symbol, values in self.symbols.items():
            other = dict(base, **{symbol: values[1] if len(values) > 1 else values[0] + 1})
            try:
                changed = jax.tree_util.tree_leaves(jax.eval_shape(self.call, *self.arguments(other)))
            except Exception as error:
                raise ValueError(f"weft.serve: {self.name} cannot be traced with {symbol}={other[symbol]}; "
                                 f"give two buckets that it takes") from error
            for shape, (_, before), after in zip(shapes, flat, changed):
                for d, (old, new) in enumerate(zip(before.shape, after.shape)):
                    if old == new:
                        continue
                    if (old, new) != (base[symbol], other[symbol]):
                        raise ValueError(f"weft.serve: {self.name}: a result's size goes from {old} to {new} as "
                                         f"{symbol} goes from {base[symbol]} to {other[symbol]}: it must be the same")
                    shape[d] = symbol
        return [{"name": n, "dtype": _type_name(leaf.dtype, n), "shape": s}
                for n, (_, leaf), s in zip(names, flat, shapes)]

    def programs(self):
        """(sizes, the exported function) for each combination of buckets."""
        import jax
        import jax.export

        for values in itertools.product(*self.symbols.values()):
            sizes = dict(zip(self.symbols, values))
            yield sizes, jax.export.export(jax.jit(self.call), platforms=[self.platform])(*self.arguments(sizes))

    def signature(self, files):
        spec = {"name": self.name}
        if "b" in self.symbols:
            spec["batch"] = "b"
        spec["inputs"] = [{"name": n, "dtype": _type_name(x.dtype, n), "shape": list(d)}
                          for n, x, d in zip(self.inputs, self.examples, self.dims)]
        spec["outputs"] = self.outputs()
        spec["arguments"] = [{"variable": n} for n in self.variables.names] + [{"input": n} for n in self.inputs]
        spec["programs"] = files
        return spec


def _refined(exported):
    """The module's text with all sizes known, where it calls a shape-polymorphic export; else None."""
    text = exported.mlir_module()
    if "jax.uses_shape_polymorphism = true" not in text:
        return None
    from jax._src.interpreters import mlir
    from jax._src.lib.mlir import ir

    with mlir.make_ir_context():
        return str(mlir.refine_polymorphic_shapes(ir.Module.parse(text)))


def _save_program(folder, stem, exported):
    """What jax.export writes, where the package that it needs is installed; else the module alone, with
    the arguments that it takes. Returns the signature's entry."""
    refined = _refined(exported)
    if refined is not None:
        (folder / f"{stem}.mlir").write_text(refined)
        return {"file": f"{stem}.mlir", "kept": list(exported.module_kept_var_idx)}
    try:
        import flatbuffers  # noqa: F401
    except ImportError:
        (folder / f"{stem}.mlirbc").write_bytes(exported.mlir_module_serialized)
        return {"file": f"{stem}.mlirbc", "kept": list(exported.module_kept_var_idx)}
    (folder / f"{stem}.jaxexport").write_bytes(exported.serialize())
    return {"file": f"{stem}.jaxexport"}


def _platform():
    """Weft's own lowering where the plugin is there; else that of cpu, which Weft takes too."""
    import weft

    try:
        weft.register()
        return weft.PLATFORM
    except Exception:
        return "cpu"


# ---- the folder ----------------------------------------------------------------------------------


def _function_of(fn):
    """What jax.export gave back is called as it was exported: fn(params, *inputs)."""
    import jax.export

    if not isinstance(fn, jax.export.Exported):
        return fn

    def call(params, *inputs, **named):
        if len(named) > 1:
            raise ValueError("weft.serve: an exported function takes its inputs in order: give the examples as a tuple")
        return fn.call(params, *inputs, *named.values())

    call.platform = fn.platforms[0]
    return call


def _next_version(base):
    versions = [int(p.name) for p in base.iterdir() if p.name.isdigit()] if base.is_dir() else []
    return max(versions, default=0) + 1


def _check(folder, variables):
    """Reads back what was written."""
    import jax.export

    signature = json.loads((folder / "signature.json").read_text())
    for graph in signature["graphs"]:
        for program in graph["programs"]:
            if not program["file"].endswith(".jaxexport"):
                continue
            blob = jax.export.deserialize(bytearray((folder / program["file"]).read_bytes()))
            if len(blob.in_avals) != len(graph["arguments"]) or len(blob.out_avals) != len(graph["outputs"]):
                raise RuntimeError(f"weft.serve: {program['file']} does not read back")
    stored = load_safetensors(folder / "weights.safetensors") if variables.arrays else {}
    for name, array in variables.arrays.items():
        array = np.asarray(array)
        if stored[name].dtype != array.dtype or stored[name].tobytes() != array.tobytes():
            raise RuntimeError(f"weft.serve: weights.safetensors: {name} does not read back")


def export(fn, params, examples, path, *, version=None, buckets=None, shapes=None, name=DEFAULT_GRAPH):
    """Writes the folder `path`/`version` and returns its path.

    fn: fn(params, **examples) or fn(params, *examples); or {graph's name: function} for several graphs
        that share params, with examples, buckets and shapes by name too. What jax.export gave back is taken as
        well; one with symbolic shapes is refined for each bucket.
    params: any tree of arrays; what is not an array (equinox's functions, say) is part of the program.
    examples: inputs of the types and shapes that vary no further: a dict, a tuple, or one array.
    version: a number; default: one more than the largest there is.
    buckets: sizes for the batch, the first dimension of every input: (1, 8, 32). Or {"b": ..., "s": ...}
        for several sizes; requests are padded with zeros up to the next one. None: the examples' shapes.
    shapes: {input: ("b", "s", None)}, where a size is not the first dimension.
    """
    graphs = fn if isinstance(fn, dict) else {name: fn}

    def of(value, graph):
        return value[graph] if isinstance(fn, dict) and value is not None else value

    variables = _Variables(params)
    graphs = [_Graph(graph, _function_of(f), variables, of(examples, graph), of(buckets, graph), of(shapes, graph))
              for graph, f in graphs.items()]
    base = pathlib.Path(path)
    base.mkdir(parents=True, exist_ok=True)
    version = _next_version(base) if version is None else int(version)
    target = base / str(version)
    if target.exists():
        raise FileExistsError(f"weft.serve: {target} is there already")
    # A server that watches the folder sees all of it or nothing.
    folder = pathlib.Path(tempfile.mkdtemp(prefix=".export-", dir=base))
    try:
        _write(folder, graphs, variables)
        _check(folder, variables)
        os.chmod(folder, 0o755)
        os.rename(folder, target)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return target


def _write(folder, graphs, variables):
    signature = {"format": FORMAT}
    if variables.arrays:
        signature["weights"] = "weights.safetensors"
        save_safetensors(folder / "weights.safetensors", variables.arrays)
    signature["variables"] = [{"name": n, "dtype": _type_name(a.dtype, n), "shape": list(a.shape)}
                              for n, a in variables.arrays.items()]
    signature["graphs"] = []
    for graph in graphs:
        files = []
        for sizes, exported in graph.programs():
            label = "-".join([graph.name] + [f"{k}{v}" for k, v in sizes.items()])
            alone = len(graphs) == 1 and not sizes
            entry = _save_program(folder, "model" if alone else f"model-{label.replace('/', '_')}", exported)
            files.append(dict(entry, sizes=sizes))
        signature["graphs"].append(graph.signature(files))
    (folder / "signature.json").write_text(json.dumps(signature, indent=1) + "\n")
