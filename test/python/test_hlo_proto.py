"""Modules as HloModuleProto: what Weft writes is what XLA wrote, as XLA prints it, and what Weft reads again."""

import os
import pathlib
import re
import subprocess

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import pytest

jax = pytest.importorskip("jax", reason="jax is not installed: run ./dev test")
jax.config.update("jax_enable_x64", True)
hlo = pytest.importorskip("jaxlib._hlo", reason="this jaxlib has no HLO module")

from test_import import CASES  # noqa: E402
from weft_eval import WEFT  # noqa: E402
from weft_jax import LIBRARY, run  # noqa: E402

TEST = pathlib.Path(__file__).resolve().parent.parent


def weft(*arguments, content):
    done = subprocess.run([str(WEFT), "print", *arguments, "-"], input=content, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


TABLES = ("FileNames", "FunctionNames", "FileLocations", "StackFrames")


def xla_text(proto):
    """XLA's text by computation, with positions in place of frame numbers, which XLA gives out anew in the order of instructions."""
    lines, table, tables = [], None, {name: {} for name in TABLES}
    for line in hlo.XlaComputation(proto).get_hlo_module().to_string().splitlines():
        if line in TABLES:
            table = tables[line]
        elif table is not None and re.match(r"\d+ ", line):
            number, value = line.split(" ", 1)
            table[number] = value
        else:
            table = None
            lines.append(line)

    def numbers(row):
        return dict(re.findall(r"(\w+)=(\d+)", row))

    def position(frame):
        row = numbers(tables["StackFrames"][frame])
        place = numbers(tables["FileLocations"][row["file_location_id"]])
        own = (tables["FileNames"][place.pop("file_name_id")], tables["FunctionNames"][place.pop("function_name_id")], place)
        parent = int(row["parent_frame_id"]) - 1  # 0: none
        return f"{own} in {position(str(parent))}" if parent > 0 else f"{own}"

    text = re.sub(r"stack_frame_id=(\d+)", lambda m: position(m[1]), "\n".join(lines))
    return sorted(re.split("\n\n+", text.strip()))  # the order of computations that do not call each other is free


@pytest.mark.parametrize("name", CASES)
def test_xla_reads_the_same(name):
    function, *arguments = CASES[name]
    if len(arguments) >= 2 and all(isinstance(t, float) for t in arguments[-2:]):
        arguments = arguments[:-2]  # tolerances
    theirs = jax.jit(function).lower(*arguments).compiler_ir("hlo").as_serialized_hlo_module_proto()
    ours = weft("--proto", content=theirs)
    assert xla_text(ours) == xla_text(theirs)


def text_modules():
    """The inputs of the text tests that hold whole modules."""
    for path in sorted([*TEST.glob("hlo/*.hlo"), *TEST.glob("run/*.hlo")]):
        for number, case in enumerate(path.read_text().split("// -----\n")):
            yield f"{path.parent.name}/{path.stem}:{number}", case.split("// expect")[0]


LAYOUT = re.compile(r"(?<=\])\{[0-9,]*(:[^}]*)?\}")
# What HloModuleProto has no place for, and what it always says.
HEADER = re.compile(r", (entry_computation_layout=\{[^}]*\}|(replica_count|num_partitions|alias_passthrough_params)=\w+"
                    r"|allow_spmd_sharding_propagation_to_\w+=(\{[^}]*\}|\w+))")


def comparable(text):
    header, _, rest = LAYOUT.sub("", text).partition("\n")
    return HEADER.sub("", header) + "\n" + rest


# Cases that say what the proto has no place for or says in another way.
LOSSY = {
    "hlo/attributes:6": "a backend config that is text but looks like a dictionary",
    "hlo/attributes:9": "to_apply of a custom-call is one of its called computations",
    "hlo/attributes:12": "epsilon is an f32",
    "hlo/collective:4": "the in-place form of collective-permute is not read",
    "hlo/constants:6": "constants without their elements",
    "hlo/contraction:6": "epsilon is an f32",
    "hlo/data_movement:9": "topk is read as stable",
    "hlo/sharding_priority:0": "shardings of XLA's protos have no priorities",
    "hlo/elementwise:3": "comparison types that follow from the operands",
    "hlo/sharding:5": "short forms of shardings by mesh",
    "run/collective-permute:1": "the in-place form of collective-permute is not read",
    "run/collective-permute-start-tuples:1": "the in-place form of collective-permute is not read",
    "run/compare:0": "comparison types that follow from the operands",
    "run/custom-call:4": "a backend config that is text but looks like a dictionary",
}


@pytest.mark.parametrize("name, case", [pytest.param(name, text, id=name) for name, text in text_modules()])
def test_text_survives(name, case):
    if name in LOSSY:
        pytest.skip(LOSSY[name])
    probe = subprocess.run([str(WEFT), "print", "-"], input=case.encode(), capture_output=True)
    verified = subprocess.run([str(WEFT), "verify", "-"], input=case.encode(), capture_output=True)
    if probe.returncode or verified.returncode or not probe.stdout.startswith(b"HloModule"):
        pytest.skip("not a valid module by itself")
    once = weft("--proto", content=case.encode())
    again = weft("--proto", content=once)
    assert weft(content=again) == weft(content=once)
    before, after = (weft("--canonical", content=c).decode() for c in (case.encode(), once))
    assert comparable(after) == comparable(before)


PLUGIN = """
import jax, jax.numpy as jnp
from jax.experimental.layout import Format, Layout
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

inner = jax.jit(lambda x: jnp.sin(x) * 2)
compiled = jax.jit(lambda x: inner(x) + inner(x)).lower(jnp.ones((3, 4))).compile()
text = compiled.as_text()
assert "call(" not in text and text.count("sine(") == 1, text
assert compiled.cost_analysis()["flops"] > 0

mesh = jax.make_mesh((2, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
x = jax.device_put(jnp.ones((8, 8)), NamedSharding(mesh, P("x", "y")))
sharded = jax.jit(lambda x: jax.sharding.reshard(x + 1, NamedSharding(mesh, P("x", None)))).lower(x).compile()
assert "num_partitions=4" in sharded.as_text() and "add(" in sharded.as_text()
assert sharded.output_shardings.spec == P("x", None), sharded.output_shardings
assert sharded(x).addressable_shards[0].data.shape == (4, 8)

column_major = Format(Layout((1, 0)), jax.sharding.SingleDeviceSharding(jax.devices()[0]))
y = jax.jit(lambda x: x * 1, out_shardings=column_major)(jnp.arange(6.0).reshape(2, 3))
assert y.format.layout.major_to_minor == (1, 0), y.format
assert (y + 0 == jnp.arange(6.0).reshape(2, 3)).all()
"""


def test_plugin_shows_the_compiled_program():
    if not LIBRARY.exists():
        pytest.skip("the plugin is not built")
    done = run(PLUGIN, JAX_PLATFORMS="weft", WEFT_CPU_DEVICES=4)
    assert done.returncode == 0, done.stderr
