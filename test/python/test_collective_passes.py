"""Passes for collectives: modules of the corpus that they change give the same results on simulated devices, before and after."""

import functools
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

import pytest
from weft_eval import ROOT, WEFT

CORPUS = pathlib.Path(os.environ.get("WEFT_CORPUS", ROOT.parent / "shared/corpus/hlo"))
FOLDERS = ["service/collective_pipeliner_test", "tests/collective_pipeliner_execution_test",
           "service/while_loop_all_reduce_code_motion_test", "hlo/transforms/collectives/while_loop_all_reduce_code_motion_setup_test",
           "backends/gpu/transforms/double_buffer_loop_unrolling_test", "service/while_loop_pipeline_unroller_test",
           "backends/gpu/tests/collective_pipeline_parallelism_test"]  # fmt: skip
PASSES = ["make-collectives-async", "make-collectives-async,make-collectives-sync", "pipeline-collectives", "sink-all-reduces",
          "sink-collectives", "double-buffer-loops"]  # fmt: skip
LONGEST = 120  # seconds


def weft(*arguments):
    return subprocess.run([WEFT, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=LONGEST)


def devices(text):
    counts = [int(n) for n in re.findall(r"(?:replica_count|num_partitions)=(\d+)", text.split("\n", 1)[0])]
    most = 0
    for group in re.findall(r"(?:replica_groups|source_target_pairs)=\{(\{[\d,{} ]*\})\}", text):
        most = max([most, *map(int, re.findall(r"\d+", group))])
    product = 1
    for n in counts:
        product *= n
    return max(product, most + 1)


@functools.cache
def base_of(path):
    """The module before the passes; None: it cannot be read."""
    base = weft("opt", "--passes=separate-computations", path)
    return base.stdout if base.returncode == 0 else None


@functools.cache
def runs(path):
    """Whether it runs on devices, and gives the same results twice. Some have a `while` that does not end."""
    with tempfile.TemporaryDirectory() as folder:
        before = pathlib.Path(folder) / "before.hlo"
        before.write_text(base_of(path))
        try:
            return weft("diff", "--devices", devices(base_of(path)), before, before).returncode == 0
        except subprocess.TimeoutExpired:
            return False


def compare(path, passes, tmp_path):
    """None: the pass leaves it, or it does not run at all; else whether it agrees, and what was said."""
    base = base_of(path)
    if base is None:
        return None
    after = weft("opt", f"--passes=separate-computations,{passes}", path)
    if after.returncode != 0:
        return False, after.stderr
    if after.stdout == base:
        return None
    (tmp_path / "before.hlo").write_text(base)
    (tmp_path / "after.hlo").write_text(after.stdout)
    old, new = (re.findall(r"channel_id=(\d+)", text) for text in (base, after.stdout))
    if passes == "pipeline-collectives" and len(old) == len(set(old)):
        assert len(new) == len(set(new)), path
    if not runs(path):
        return None
    found = weft("diff", "--tolerance", "1e-4", "--devices", devices(base), tmp_path / "before.hlo", tmp_path / "after.hlo")
    return found.returncode == 0, found.stdout + found.stderr


@pytest.mark.skipif(not CORPUS.exists(), reason=f"no corpus at {CORPUS}")
@pytest.mark.parametrize("passes", PASSES)
def test_corpus(passes, tmp_path):
    changed, wrong = 0, []
    for folder in FOLDERS:
        for path in sorted((CORPUS / "xla" / folder).glob("*.hlo")):
            result = compare(path, passes, tmp_path)
            if result is None:
                continue
            changed += 1
            if not result[0]:
                wrong.append((path.name, result[1][:400]))
    print(f"{passes}: {changed} modules changed, {len(wrong)} differ")
    assert not wrong and changed > 0


def random_loop(rng):
    """A loop over layers: gathered weights, sums over devices, rows written, in what mixture it happens to be."""
    trips, falls = rng.randint(2, 5), rng.random() < 0.5
    shape = f"(s32[], f32[8,8], f32[{trips},2,8], f32[{trips},8], f32[8])"
    lines = ["one = s32[] constant(1)", "zero = s32[] constant(0)", "j = s32[] add(i, one)", f"top = s32[] constant({trips - 1})",
             f"at = s32[] {'subtract(top, i)' if falls else 'add(i, zero)'}", "group = s32[] constant(0)"]  # fmt: skip
    attributes = "replica_groups={{0,1,2,3}}, use_global_device_ids=true"
    lines += ["l = f32[1,2,8] dynamic-slice(w, at, zero, zero), dynamic_slice_sizes={1,2,8}"]
    if rng.random() < 0.3:
        lines += ["ll = f32[1,2,8] opt-barrier(l)", "k = f32[2,8] reshape(ll)"]
    else:
        lines += ["k = f32[2,8] reshape(l)"]
    lines += [f"g = f32[8,8] all-gather(k), channel_id=1, {attributes}, dimensions={{0}}",
              "y = f32[8,8] dot(x, g), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "z = f32[8,8] tanh(y)",
              "c = f32[] constant(0)", "v = f32[8] reduce(z, c), dimensions={0}, to_apply=sum"]  # fmt: skip
    way = rng.random()
    if way < 0.4:
        lines += [f"r = f32[8] all-reduce(v), channel_id=2, {attributes}, to_apply=sum"]
    elif way < 0.8:  # two levels, and what stands between them
        lines += [f"p = f32[2] reduce-scatter(v), channel_id=2, {attributes}, dimensions={{0}}, to_apply=sum",
                  rng.choice(["p2 = f32[2] reverse(p), dimensions={0}", "p2 = f32[2] sine(p)", "p2 = f32[2] opt-barrier(p)"]),
                  f"r = f32[8] all-gather(p2), channel_id=4, {attributes}, dimensions={{0}}"]  # fmt: skip
    else:  # with a value that no collective has a part in
        lines += ["p = f32[8] collective-permute(v), channel_id=2, source_target_pairs={{0,1},{1,2},{2,3},{3,0}}", "r = f32[8] add(p, v)"]
    if rng.random() < 0.5:
        lines += ["f = f32[8,1] reshape(r)", "row = f32[1,8] transpose(f), dimensions={1,0}"]
    else:
        lines += ["row = f32[1,8] reshape(r)"]
    lines += ["rows = f32[%d,8] dynamic-update-slice(b, row, %s, zero)" % (trips, rng.choice(["i", "at", "zero"]))]
    operand = "z2" if rng.random() < 0.3 else "v2"
    lines += ["v2 = f32[8] cosine(v)", "z2 = f32[8] multiply(v2, a)",
              f"q = f32[8] all-reduce({operand}), channel_id=3, {attributes}, to_apply=sum", "sum1 = f32[8] add(a, q)"]  # fmt: skip
    body = "\n  ".join(lines)
    out = rng.choice(["ROOT r = " + shape + " while(t), condition=c, body=b",
                      "u = " + shape + " while(t), condition=c, body=b\n  e = f32[8] get-tuple-element(u), index=4\n"
                      f"  d = f32[{trips},8] get-tuple-element(u), index=3\n  ROOT r = (f32[8], f32[{trips},8]) tuple(e, d)"])  # fmt: skip
    return f"""HloModule loop, num_partitions=4
sum {{ a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }}
c {{ s = {shape} parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant({trips})
  ROOT r = pred[] compare(i, n), direction=LT }}
b {{ s = {shape} parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8,8] get-tuple-element(s), index=1
  w = f32[{trips},2,8] get-tuple-element(s), index=2
  b = f32[{trips},8] get-tuple-element(s), index=3
  a = f32[8] get-tuple-element(s), index=4
  {body}
  ROOT o = {shape} tuple(j, z, w, rows, sum1) }}
ENTRY e {{ x = f32[8,8] parameter(0)
  w = f32[{trips},2,8] parameter(1)
  b = f32[{trips},8] parameter(2)
  a = f32[8] parameter(3)
  i = s32[] constant(0)
  t = {shape} tuple(i, x, w, b, a)
  {out} }}
"""


LOOP_PASSES = ["pipeline-collectives", "sink-all-reduces", "sink-collectives", "double-buffer-loops",
               "sink-collectives,simplify-while,sink-all-reduces,pipeline-collectives,double-buffer-loops,make-collectives-async"]  # fmt: skip


def test_random_loops(tmp_path):
    """Each pass changes them, and channels stay apart."""
    count, changed = 8, 0
    for seed in range(count):
        loop = tmp_path / f"loop{seed}.hlo"
        loop.write_text(random_loop(random.Random(seed)))
        for passes in LOOP_PASSES:
            result = compare(loop, passes, tmp_path)
            changed += result is not None
            assert result is None or result[0], (seed, passes, result[1])
    assert changed >= 2 * count


@pytest.mark.parametrize("passes", LOOP_PASSES)
def test_many_random_loops(passes, tmp_path):
    """The same results on 4 devices before and after, all of them in one process; WEFT_RANDOM_LOOPS=10000 for more, WEFT_RANDOM_SEED for others."""
    count = int(os.environ.get("WEFT_RANDOM_LOOPS", "150"))
    header = "// test: run devices=4 inputs=random tolerance=1e-4\n// tolerance: sums over devices and rounds in another order\n"
    first = int(os.environ.get("WEFT_RANDOM_SEED", "0"))
    loops = [random_loop(random.Random(seed)) for seed in range(first, first + count)]
    (tmp_path / "loops.hlo").write_text(header + "// -----\n".join(loops))
    for arguments in [], [f"--passes=separate-computations,{passes}"]:  # all of them run as they are
        done = weft("test", *arguments, tmp_path / "loops.hlo")
        assert done.returncode == 0, done.stdout[-2000:]


def test_loops_of_all_kinds(tmp_path):
    """test/schedule/loops.py: the same results on 4 and 8 devices before and after; attributes, control edges and channels are there afterwards."""
    sys.path.insert(0, str(ROOT / "test/schedule"))
    import loops

    path = tmp_path / "loops.hlo"
    for devices, count in (4, 25), (8, 10):
        loops.write_loops(path, range(count), devices)
        assert loops.failures(path, loops.PASSES) is None, devices
    for seed in (2, 54):
        loops.write_loops(path, [seed], 4)
        for passes in loops.PASSES:
            assert loops.lost(path, passes)[0] is None, (seed, passes)
