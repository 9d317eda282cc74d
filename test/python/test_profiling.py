"""Timelines and metrics: WEFT_TRACE, weft.trace, weft run --trace, jax.profiler, weft.metrics."""

import json
import pathlib
import re
import subprocess

import pytest

pytest.importorskip("jax", reason="jax is not installed: run ./dev test")

from weft_jax import LIBRARY, ROOT, environment, run  # noqa: E402

if not LIBRARY.exists():
    pytest.skip("the plugin is not built", allow_module_level=True)

WEFT = LIBRARY.parent / "weft"
PROGRAM = """
import jax, jax.numpy as jnp, numpy as np
def step(x, w):
    with jax.named_scope("mlp"):
        with jax.named_scope("layer"):
            y = jnp.tanh(x @ w)
    with jax.named_scope("loss"):
        return jnp.sum(y * y)
step = jax.jit(step)
x, w = jnp.ones((128, 256)), jnp.ones((256, 512))
step(x, w).block_until_ready()
def work():
    # They may run at the same time: all are waited for.
    return np.asarray(jax.block_until_ready([step(x, w) for _ in range(3)])[-1])
"""


def weft(code, **variables):
    done = run(code, **{"JAX_PLATFORMS": "weft,cpu", "WEFT_CACHE": "0", **variables})
    assert done.returncode == 0, done.stderr
    return done


def read(path):
    """The events of a file by category; checks that the file is well formed."""
    trace = json.loads(pathlib.Path(path).read_text())
    assert trace["otherData"]["dropped_events"] == 0
    slices = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    named = {e["tid"] for e in trace["traceEvents"] if e["name"] == "thread_name"}
    assert named == {e["tid"] for e in slices}
    check_nesting(slices)
    check_flows(trace["traceEvents"], slices)
    by_category = {}
    for e in slices:
        by_category.setdefault(e["cat"], []).append(e)
    return by_category


def nanoseconds(microseconds):
    return round(microseconds * 1000)


def span(event):
    begin = nanoseconds(event["ts"])
    return begin, begin + nanoseconds(event["dur"])


def check_nesting(slices):
    """Events of a thread lie inside each other or apart."""
    threads = {}
    for e in slices:
        threads.setdefault(e["tid"], []).append(span(e))
    for spans in threads.values():
        spans.sort(key=lambda s: (s[0], -s[1]))
        open_spans = []
        for begin, end in spans:
            assert end >= begin >= 0
            while open_spans and open_spans[-1][1] <= begin:
                open_spans.pop()
            assert not open_spans or end <= open_spans[-1][1]
            open_spans.append((begin, end))


def check_flows(events, slices):
    """Every flow ends once, not before it began, and both ends are events."""
    at = {(e["tid"], nanoseconds(e["ts"])) for e in slices}
    begins = {e["id"]: e for e in events if e["ph"] == "s"}
    ends = [e for e in events if e["ph"] == "f"]
    assert len({e["id"] for e in ends}) == len(ends)
    for end in ends:
        begin = begins[end["id"]]
        assert begin["ts"] <= end["ts"]
        assert (begin["tid"], nanoseconds(begin["ts"])) in at
        assert (end["tid"], nanoseconds(end["ts"])) in at
    return len(ends)


def test_the_whole_process(tmp_path):
    file = tmp_path / "trace.json"
    weft(PROGRAM + "work()\n", WEFT_TRACE=file)
    events = read(file)
    assert {"compile", "pass", "phase", "codegen", "enqueue", "execute", "step"} <= set(events)
    compiles = [e["name"] for e in events["compile"]]
    assert "compile jit_step" in compiles
    assert len([e for e in events["execute"] if e["name"] == "jit_step"]) == 4
    assert any(e["name"] == "fuse" and e["args"]["program"] == "jit_step" for e in events["pass"])
    steps = [e for e in events["step"] if e["args"]["program"] == "jit_step"]
    names = {e["args"].get("op_name", "") for e in steps}
    assert any("mlp/layer" in name for name in names), names
    assert any("loss" in name for name in names), names
    gemm = [e["args"] for e in steps if "dot_general" in e["args"].get("op_name", "")]
    assert gemm and gemm[0]["flops"] >= 2 * 128 * 256 * 512, gemm
    assert "f32[128,256]" in gemm[0]["shapes"] and gemm[0]["bytes"] > 0
    assert re.search(r"<string>:\d+", gemm[0]["source"]), gemm


def test_bytes_of_loops_in_parts(tmp_path):
    """Loops whose ends are computed, from quotients and remainders, count as often as they run."""
    file = tmp_path / "trace.json"
    code = "import jax, jax.numpy as jnp\njax.jit(lambda x: x.sum(0))(jnp.ones((512, 256))).block_until_ready()\n"
    weft(code, WEFT_TRACE=file)
    steps = [e["args"] for e in read(file)["step"] if "reduce_sum" in e["args"].get("op_name", "")]
    assert 0.9 * 512 * 256 * 4 < sum(step["bytes"] for step in steps) < 1.1 * 512 * 256 * 4, steps


def test_compiles_have_their_parts_inside(tmp_path):
    file = tmp_path / "trace.json"
    weft(PROGRAM, WEFT_TRACE=file)
    events = read(file)
    whole = next(e for e in events["compile"] if e["name"] == "compile jit_step")
    inside = [e for kind in ("phase", "pass") for e in events[kind]
              if e["tid"] == whole["tid"] and span(whole)[0] <= span(e)[0] and span(e)[1] <= span(whole)[1]]
    names = {e["name"] for e in inside}
    assert {"import", "passes", "lower", "codegen", "link", "fuse", "schedule"} <= names, names


def test_only_what_is_inside(tmp_path):
    file, later = tmp_path / "trace.json", tmp_path / "later.json"
    weft(PROGRAM + f"""
import weft
with weft.trace({str(file)!r}):
    work()
work()
with weft.trace({str(later)!r}):
    pass
try:
    with weft.trace("/proc/none/trace.json"):
        pass
    raise SystemExit("no error")
except RuntimeError as error:
    assert "/proc/none/trace.json" in str(error), error
""")
    events = read(file)
    assert len([e for e in events["execute"] if e["name"] == "jit_step"]) == 3
    assert "compile" not in events
    assert read(later) == {}


def test_flows_from_the_request_to_the_run(tmp_path):
    file = tmp_path / "trace.json"
    # Work of some milliseconds runs on the executor.
    weft("""
import jax, jax.numpy as jnp, numpy as np
@jax.jit
def f(x):
    for _ in range(4):
        x = jnp.sin(x @ x)
    return x
x = jnp.ones((700, 700))
ys = [f(x) for _ in range(3)]
np.asarray(f(ys[-1] + 1))
""", WEFT_TRACE=file)
    trace = json.loads(file.read_text())
    slices = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert check_flows(trace["traceEvents"], slices) >= 5
    begins = {e["id"]: e for e in trace["traceEvents"] if e["ph"] == "s"}
    across = [e for e in trace["traceEvents"] if e["ph"] == "f" and begins[e["id"]]["tid"] != e["tid"]]
    assert across


def test_a_loop_is_one_event_with_its_parts(tmp_path):
    file = tmp_path / "trace.json"
    weft("""
import jax, jax.numpy as jnp
@jax.jit
def f(x):
    return jax.lax.fori_loop(0, 1000, lambda i, v: jnp.sin(v) * 0.5 + i, x)
f(jnp.ones(8)).block_until_ready()
""", WEFT_TRACE=file)
    steps = [e for e in read(file)["step"] if e["args"]["program"] == "jit_f"]
    loops = [e for e in steps if e["args"]["op"] == "while"]
    assert len(loops) == 1 and loops[0]["args"]["parts"], steps
    assert len(steps) < 20


def test_tracing_changes_no_result(tmp_path):
    code = PROGRAM + "print(work().tobytes().hex())\n"
    assert weft(code).stdout == weft(code, WEFT_TRACE=tmp_path / "t.json").stdout


def test_a_forked_process_leaves_the_file_alone(tmp_path):
    file = tmp_path / "trace.json"
    weft(PROGRAM + """
work()
import os, sys, warnings
warnings.simplefilter("ignore")
pid = os.fork()
if pid == 0:
    sys.exit(0)
os.waitpid(pid, 0)
work()
""", WEFT_TRACE=file)
    assert len([e for e in read(file)["execute"] if e["name"] == "jit_step"]) == 7


def test_callbacks_and_waits(tmp_path):
    file = tmp_path / "trace.json"
    weft("""
import jax, jax.numpy as jnp, numpy as np
@jax.jit
def f(x):
    return jax.pure_callback(lambda v: np.sin(v), jax.ShapeDtypeStruct((4,), np.float32), x) + 1
np.asarray(f(jnp.ones(4)))
""", WEFT_TRACE=file)
    events = read(file)
    assert any(e["name"].startswith("python callback") for e in events["callback"])


def test_the_command_traces(tmp_path):
    for how in ("flag", "variable"):
        file = tmp_path / f"{how}.json"
        flag = ["--trace", str(file)] if how == "flag" else []
        variables = {} if how == "flag" else {"WEFT_TRACE": file}
        done = subprocess.run([WEFT, "run", *flag, ROOT / "examples/train_mlp.hlo"], capture_output=True, text=True,
                              env=environment(**variables), timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        events = read(file)
        assert {"pass", "phase", "codegen", "execute", "step"} <= set(events), (how, set(events))
    done = subprocess.run([WEFT, "run", "--trace", tmp_path / "no/such/folder.json", ROOT / "examples/train_mlp.hlo"],
                          capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1 and "folder.json" in done.stderr


def profile(tmp_path, code):
    weft(PROGRAM + f"""
with jax.profiler.trace({str(tmp_path)!r}):
{code}
""")
    from jax.profiler import ProfileData
    (file,) = tmp_path.glob("plugins/profile/*/*.xplane.pb")
    return {plane.name: plane for plane in ProfileData.from_file(str(file)).planes}


def test_jax_profiler(tmp_path):
    planes = profile(tmp_path, "    work()\n    jax.jit(lambda v: v * 3 + 1)(x).block_until_ready()")
    (device,) = [plane for name, plane in planes.items() if name.startswith("/device:")]
    lines = {}
    for line in device.lines:  # what ran at the same time is on lines of the same name
        lines.setdefault(line.name, []).extend(line.events)
    assert {"Steps", "XLA Modules", "XLA Ops"} <= set(lines)
    modules = [e.name.split("(")[0] for e in lines["XLA Modules"]]
    assert modules.count("jit_step") == 3 and "jit__lambda" in modules, modules
    assert 2 <= len(lines["Steps"]) <= len(modules)  # of those that do not run at the same time
    ops = [(e, dict(e.stats)) for e in lines["XLA Ops"]]
    assert {s["hlo_module"] for _, s in ops} >= {"jit_step"}
    gemm = [s for _, s in ops if "dot_general" in str(s.get("tf_op", ""))]
    assert gemm, [s for _, s in ops]
    assert gemm[0]["flops"] >= 2 * 128 * 256 * 512 and gemm[0]["bytes_accessed"] > 0
    assert "mlp/layer" in gemm[0]["tf_op"] and re.search(r":\d+$", gemm[0]["source"])
    # Ops lie in their modules.
    spans = [(e.start_ns, e.end_ns) for e in lines["XLA Modules"]]
    for op, _ in ops:
        assert any(b - 1 <= op.start_ns and op.end_ns <= e + 1 for b, e in spans)
    # The host's threads are joined with those that JAX recorded itself.
    host = planes["/host:CPU"]
    names = {e.name for line in host.lines for e in line.events}
    assert "weft compile: compile jit__lambda" in names
    assert "weft pass: fuse" in names
    main = [line for line in host.lines if any(e.name == "weft enqueue: enqueue jit_step" for e in line.events)]
    assert any("PjitFunction" in e.name for e in main[0].events), [e.name for e in main[0].events]


def test_profiles_follow_one_another(tmp_path):
    first = profile(tmp_path / "a", "    work()\nwork()")
    assert "/host:CPU" in first
    weft(PROGRAM + f"""
for i in range(2):
    with jax.profiler.trace({str(tmp_path / 'b')!r} + str(i)):
        work()
""")
    from jax.profiler import ProfileData
    for i in range(2):
        (file,) = (tmp_path / f"b{i}").glob("plugins/profile/*/*.xplane.pb")
        device = [p for p in ProfileData.from_file(str(file)).planes if p.name.startswith("/device:")]
        modules = [e for line in device[0].lines if line.name == "XLA Modules" for e in line.events]
        assert len(modules) == 3


METRICS = PROGRAM + """
work()
import time, weft
# Who waits for a result may see it before the thread that made it is done.
for _ in range(1000):
    if weft.metrics()["weft_queue_depth"] == 0: break
    time.sleep(0.01)
"""


def test_metrics():
    done = weft(METRICS + """
import json
print(json.dumps([weft.metrics(), weft.metrics_text()]))
""")
    values, text = json.loads(done.stdout.splitlines()[-1])
    assert values["weft_compiles_total"] >= 3
    assert values['weft_executions_total{runner="native"}'] >= 6
    assert values['weft_executions_total{runner="evaluator"}'] == 0
    assert values["weft_compile_seconds"]["count"] == values["weft_compiles_total"]
    assert values["weft_compile_seconds"]["sum"] > 0
    phases = [values[f'weft_compile_phase_seconds{{phase="{p}"}}'] for p in ("import", "passes", "lower", "codegen")]
    assert all(p["count"] > 0 for p in phases)
    assert sum(p["sum"] for p in phases) <= values["weft_compile_seconds"]["sum"]
    buckets = values["weft_compile_seconds"]["buckets"]
    assert buckets[-1] == [None, values["weft_compile_seconds"]["count"]]
    assert [n for _, n in buckets] == sorted(n for _, n in buckets)
    in_use = values['weft_memory_bytes{device="0",memory="device"}']
    assert in_use >= 4 * (128 * 256 + 256 * 512)
    assert values['weft_memory_peak_bytes{device="0",memory="device"}'] >= in_use
    assert values["weft_queue_depth"] == 0
    assert "# TYPE weft_compiles_total counter" in text


def test_metrics_count_the_cache(tmp_path):
    code = METRICS + "print(weft.metrics()['weft_cache_requests_total{result=\"hit\"}'])\n"
    cold = weft(code, WEFT_CACHE=tmp_path).stdout.splitlines()[-1]
    assert int(weft(code, WEFT_CACHE=tmp_path).stdout.splitlines()[-1]) > int(cold)


def test_metrics_tell_who_runs_programs():
    done = weft("""
import jax, jax.numpy as jnp, weft
jax.jit(lambda x: x + 1)(jnp.ones(3)).block_until_ready()
values = weft.metrics()
print(values['weft_executions_total{runner="native"}'], values['weft_executions_total{runner="evaluator"}'])
""", WEFT_OPTIONS="cpu.native=false")
    native, evaluator = map(int, done.stdout.split())
    assert native == 0 and evaluator > 0


def test_prometheus_reads_it():
    parser = pytest.importorskip("prometheus_client.parser", reason="prometheus_client is not installed")
    text = weft(METRICS + "print(weft.metrics_text(), end='')\n").stdout
    families = {f.name: f for f in parser.text_string_to_metric_families(text)}
    assert families["weft_compiles"].type == "counter"
    assert families["weft_compile_seconds"].type == "histogram"
    assert families["weft_memory_bytes"].type == "gauge"
    assert all(f.documentation for f in families.values())


def test_the_list_of_metrics_is_whole():
    table = (ROOT / "src/base/metrics.def").read_text()
    rows = set(re.findall(r'METRIC\(\w+, k(\w+), "(\w+)"', table))
    documented = set(re.findall(r"^\| `(\w+)` \| (\w+) \|", (ROOT / "docs/profiling.md").read_text(), re.M))
    assert documented == {(name, kind.lower()) for kind, name in rows}
