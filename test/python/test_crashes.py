"""A crash says what was compiled or ran, and then does what it would have done."""

import os
import pathlib
import re
import signal
import subprocess

import pytest

pytest.importorskip("jax", reason="jax is not installed: run ./dev test")

from weft_jax import LIBRARY, run  # noqa: E402

if not LIBRARY.exists():
    pytest.skip("the plugin is not built", allow_module_level=True)

WEFT = LIBRARY.parent / "weft"
MODULE = """HloModule two
ENTRY main {
  a = f32[32] parameter(0)
  ROOT r = f32[32] add(a, a), metadata={source_file="model.py" source_line=7}
}
"""


def command(tmp_path, *arguments, **variables):
    (tmp_path / "two.hlo").write_text(MODULE)
    return subprocess.run([WEFT, *arguments, "two.hlo"], cwd=tmp_path, capture_output=True, text=True,
                          timeout=60, check=False, env={**os.environ, **variables})


@pytest.mark.parametrize("kind, number, name", [
    ("segv", signal.SIGSEGV, "SIGSEGV at address 0x0"), ("abort", signal.SIGABRT, "SIGABRT"),
    ("check", signal.SIGABRT, "SIGABRT"), ("overflow", signal.SIGSEGV, "SIGSEGV at address 0x[0-9a-f]+")])
def test_the_command(tmp_path, kind, number, name):
    done = command(tmp_path, "run", WEFT_PROVOKE_CRASH=kind + ":fuse")
    assert done.returncode == -number
    assert re.search(rf"weft: crash: {name} in pass fuse of two\n"
                     r"  hint: to see it again: weft bisect two.hlo\n", done.stderr), done.stderr
    assert ("CHECK(" in done.stderr) == (kind == "check")
    assert not (tmp_path / "weft-faults").exists()  # it lies in a file already


def test_can_be_turned_off(tmp_path):
    done = command(tmp_path, "run", WEFT_PROVOKE_CRASH="segv:fuse", WEFT_CRASH_REPORT="0")
    assert done.returncode == 0  # it is the report that provokes
    assert "crash" not in done.stderr


STEP = """
import faulthandler, sys
if "before" in sys.argv: faulthandler.enable()
import jax, jax.numpy as jnp
x = jnp.ones((4, 8))
x.block_until_ready()
if "after" in sys.argv: faulthandler.enable()
"""


def crash(tmp_path, code, **variables):
    variables = {"JAX_PLATFORMS": "weft,cpu", "WEFT_CACHE": "0", "WEFT_DUMP": tmp_path / "faults", **variables}
    return run(code, **variables)


@pytest.mark.parametrize("kind, number", [("segv", signal.SIGSEGV), ("check", signal.SIGABRT), ("overflow", signal.SIGSEGV)])
def test_compiling_for_jax(tmp_path, kind, number):
    code = STEP + "jax.jit(lambda v: jnp.tanh(v) @ v.T + 1)(x)"
    done = crash(tmp_path, code, WEFT_PROVOKE_CRASH=kind + ":recognize-composites")
    assert done.returncode == -number, done.stderr
    assert re.search(r"weft: crash: SIG\S+( at address 0x[0-9a-f]+)? in pass recognize-composites of jit_\S+\n", done.stderr), done.stderr
    path = re.search(r"hint: to see it again: weft bisect (\S+)\n", done.stderr).group(1)
    assert pathlib.Path(path).parent == tmp_path / "faults"
    again = subprocess.run([WEFT, "bisect", path], capture_output=True, text=True, timeout=60, check=False)
    assert again.returncode == 0 and "no fault" in again.stdout, again  # the crash was provoked


@pytest.mark.parametrize("when", ["never", "before", "after"])
def test_running_and_pythons_own_report(tmp_path, when):
    code = "import sys; sys.argv.append(" + repr(when) + ")\n" + STEP + """
import ctypes, numpy as np
def bad(v):
    ctypes.memset(8, 0, 1)
    return v
call = jax.jit(lambda v: jax.pure_callback(bad, jax.ShapeDtypeStruct(v.shape, v.dtype), v) + 1)
call(x).block_until_ready()
"""
    done = crash(tmp_path, code)
    assert done.returncode == -signal.SIGSEGV, done.stderr
    assert re.search(r"weft: crash: SIGSEGV at address 0x8 while jit_\S+ runs\n  in \S*custom-call\S*\n  at <string>:\d+", done.stderr) or \
        (when == "after" and "weft: crash: SIGSEGV while jit_" in done.stderr), done.stderr
    assert ("Fatal Python error: Segmentation fault" in done.stderr) == (when != "never")
    assert done.stderr.count("weft: crash") == 1
    path = re.search(r"hint: to see it again: weft bisect (\S+)\n", done.stderr).group(1)
    assert subprocess.run([WEFT, "verify", path], check=False).returncode == 0


def test_crashes_elsewhere_are_not_ours(tmp_path):
    done = crash(tmp_path, STEP + "import ctypes; jax.jit(lambda v: v + 1)(x); ctypes.memset(8, 0, 1)")
    assert done.returncode == -signal.SIGSEGV
    assert "weft" not in done.stderr
