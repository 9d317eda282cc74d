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

TEST = pathlib.Path(__file__).resolve().parent.parent


def weft(*arguments, content):
    done = subprocess.run([str(WEFT), "print", *arguments, "-"], input=content, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def xla_text(proto):
    return hlo.XlaComputation(proto).get_hlo_module().to_string()


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


@pytest.mark.parametrize("case", [pytest.param(text, id=name) for name, text in text_modules()])
def test_text_survives(case):
    probe = subprocess.run([str(WEFT), "print", "-"], input=case.encode(), capture_output=True)
    verified = subprocess.run([str(WEFT), "verify", "-"], input=case.encode(), capture_output=True)
    if probe.returncode or verified.returncode or not probe.stdout.startswith(b"HloModule"):
        pytest.skip("not a valid module by itself")
    once = weft("--proto", content=case.encode())
    again = weft("--proto", content=once)
    assert weft(content=again) == weft(content=once)
    before, after = (weft("--canonical", content=c).decode() for c in (case.encode(), once))
    assert LAYOUT.sub("", after) == LAYOUT.sub("", before)
