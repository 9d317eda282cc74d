"""Programs nested hundreds of levels deep, and instructions with thousands of operands: they run natively, give what the
evaluator gives, and take time in proportion. Beyond the limit there is an error, not a crash."""

import re
import subprocess

import numpy as np
import pytest

from weft_eval import WEFT

if not WEFT.exists():
    pytest.skip("weft is not built", allow_module_level=True)

STATE = "(s32[], s32[], f32[4])"


def whiles(depth):
    """Loops in loops; each runs as often as the first parameter says."""
    text = []
    for d in range(depth):
        text.append(f"""cond{d} {{
  s = {STATE} parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1
  ROOT r = pred[] compare(i, n), direction=LT
}}
body{d} {{
  s = {STATE} parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1
  x = f32[4] get-tuple-element(s), index=2
  one = s32[] constant(1)
  zero = s32[] constant(0)
  j = s32[] add(i, one)""")
        if d > 0:
            text.append(f"""  t = {STATE} tuple(zero, n, x)
  w = {STATE} while(t), condition=cond{d - 1}, body=body{d - 1}
  x1 = f32[4] get-tuple-element(w), index=2""")
        x = "x1" if d > 0 else "x"
        text.append(f"  y = f32[4] negate({x})\n  ROOT r = {STATE} tuple(j, n, y)\n}}")
    text.append(f"""ENTRY main {{
  n = s32[] parameter(0)
  x = f32[4] parameter(1)
  zero = s32[] constant(0)
  t = {STATE} tuple(zero, n, x)
  w = {STATE} while(t), condition=cond{depth - 1}, body=body{depth - 1}
  ROOT y = f32[4] get-tuple-element(w), index=2
}}""")
    return "\n".join(text)


def conditionals(depth):
    text = []
    for d in range(depth):
        text.append(f"""else{d} {{
  x = f32[4] parameter(0)
  ROOT y = f32[4] abs(x)
}}
then{d} {{
  x = f32[4] parameter(0)""")
        if d > 0:
            text.append(f"""  a = f32[1] slice(x), slice={{[0:1]}}
  s = f32[] reshape(a)
  k = f32[] constant({d - depth})
  p = pred[] compare(s, k), direction=GT
  v = f32[4] conditional(p, x, x), true_computation=then{d - 1}, false_computation=else{d - 1}""")
        text.append(f"  ROOT z = f32[4] negate({'v' if d > 0 else 'x'})\n}}")
    text.append(f"""ENTRY main {{
  n = s32[] parameter(0)
  x = f32[4] parameter(1)
  zero = s32[] constant(0)
  p = pred[] compare(n, zero), direction=GT
  ROOT y = f32[4] conditional(p, x, x), true_computation=then{depth - 1}, false_computation=else{depth - 1}
}}""")
    return "\n".join(text)


def calls(depth):
    text = ["f0 {\n  x = f32[4] parameter(0)\n  ROOT y = f32[4] negate(x)\n}"]
    for d in range(1, depth):
        text.append(f"f{d} {{\n  x = f32[4] parameter(0)\n  v = f32[4] call(x), to_apply=f{d - 1}\n  ROOT y = f32[4] add(v, x)\n}}")
    text.append(f"ENTRY main {{\n  n = s32[] parameter(0)\n  x = f32[4] parameter(1)\n  ROOT y = f32[4] call(x), to_apply=f{depth - 1}\n}}")
    return "\n".join(text)


def run(tmp_path, text, arguments, *command):
    (tmp_path / "m.hlo").write_text("HloModule m\n" + text)
    inputs = []
    for k, value in enumerate(arguments):
        np.save(tmp_path / f"{k}.npy", value)
        inputs += ["--input", tmp_path / f"{k}.npy"]
    return subprocess.run([WEFT, *command, *inputs, tmp_path / "m.hlo"], capture_output=True, text=True, timeout=240)


@pytest.mark.parametrize("depth", [100, 300])
@pytest.mark.parametrize("nest", [whiles, conditionals, calls])
def test_deep(tmp_path, nest, depth):
    arguments = [np.int32(1), np.arange(1, 5, dtype=np.float32)]
    done = run(tmp_path, nest(depth), arguments, "run", "--check")
    assert done.returncode == 0, done.stdout + done.stderr


def test_too_deep(tmp_path):
    arguments = [np.int32(1), np.ones(4, np.float32)]
    done = run(tmp_path, whiles(1100), arguments, "eval")
    assert done.returncode == 1 and re.search(r"nested (deeper|more) than \d+", done.stderr), done.stderr
    done = run(tmp_path, whiles(1100), arguments, "run")
    assert done.returncode == 1 and re.search(r"nested (deeper|more) than \d+", done.stderr), done.stderr


def test_many_operands(tmp_path):
    n = 5000
    parts = "\n".join(f"  p{k} = f32[2] slice(x), slice={{[{k}:{k + 2}]}}" for k in range(n))
    names = ", ".join(f"p{k}" for k in range(n))
    text = f"ENTRY main {{\n  x = f32[{n + 2}] parameter(0)\n{parts}\n  ROOT y = f32[{2 * n}] concatenate({names}), dimensions={{0}}\n}}"
    done = run(tmp_path, text, [np.arange(n + 2, dtype=np.float32)], "run", "--check")
    assert done.returncode == 0, done.stdout + done.stderr


def test_many_operands_are_copied(tmp_path):
    n = 1000
    parts = "\n".join(f"  p{k} = f32[3] parameter({k})" for k in range(n))
    names = ", ".join(f"p{k}" for k in range(n))
    text = f"ENTRY main {{\n{parts}\n  ROOT y = f32[{3 * n}] concatenate({names}), dimensions={{0}}\n}}"
    done = run(tmp_path, text, [], "run", "--check")
    assert done.returncode == 0, done.stdout + done.stderr
    program = run(tmp_path, text, [], "program").stdout
    assert "kernel" not in program, "code for each operand"
