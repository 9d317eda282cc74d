#!/usr/bin/env python3
"""Runs the corpus's modules with collectives as native code on as many devices as their groups and pairs name, beside the evaluator.

    collectives.py [--jobs=J] [N]   every module, or a sample of N; J at a time

Replicas and partitions are what the header says, or more where an op's ids (replicas, partitions or both, as its mode says)
name more. Arguments are random, but for the offsets and sizes of ragged-all-to-all, which have to fit; where the evaluator takes no others, integers
are zero. Loops that never end run
once; ones stand in for custom calls that nobody knows (a hundred for scalar integers, which loops may count), and messages without pairs go from device 0 to 1. Modules with more
than 64 MiB of arguments, or that need more memory than there is, are made smaller, dimension by dimension. Prints what fails with its cause,
then a table of causes with their counts and how many agree. Exit status 1: fewer than 90 % agree. WEFT_CORPUS and WEFT_BUILD_DIR
as in check.py.
"""

import collections
import concurrent.futures
import math
import os
import pathlib
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CORPUS = pathlib.Path(os.environ.get("WEFT_CORPUS", ROOT.parent / "shared/corpus/hlo"))
WEFT = pathlib.Path(os.environ.get("WEFT_BUILD_DIR", ROOT / "build")).resolve() / "weft"
SKIPPED = {"xla-rejects", "maybe-negative", "substituted"}
MOST_DEVICES = 512
CPU_SECONDS_EACH = 10  # of the processor: a busy machine changes nothing
SECONDS_EACH = 600
BYTES_EACH = 6 << 30  # of addresses
MOST_BYTES = 1 << 26  # of parameters, on all devices
WANTED = 0.9
OP = re.compile(r"= .*? (all-reduce|all-gather|reduce-scatter|all-to-all|ragged-all-to-all|collective-permute|collective-broadcast)(-start)?\(")
LISTS = re.compile(r"(?:replica_groups|source_target_pairs)=(\{\{.*?\}\})")
IOTA = re.compile(r"replica_groups=\[(\d+),(\d+)\]<=")


def files():
    for line in (CORPUS / "manifest.tsv").read_text().splitlines()[1:]:
        path, _, _, flags = (line.split("\t") + [""])[:4]
        flags = set(flags.split(","))
        if "collective" in flags and not flags & SKIPPED:
            yield path


def named(line, shapes):
    """How many devices, replicas or partitions the line's groups or pairs name; of one group of all: what the sizes say."""
    lists, iota = LISTS.search(line), IOTA.search(line)
    if iota:
        return int(iota[1]) * int(iota[2])
    if lists:
        return max(map(int, re.findall(r"\d+", lists[1])), default=-1) + 1
    sides = re.search(r"= (.*?) (?:all-gather|reduce-scatter)(?:-start)?\(%?([\w.-]+)", line)
    if not sides or sides[2] not in shapes:
        return 0
    elements = [math.prod(map(int, filter(None, dims.split(",")))) for dims in re.findall(r"[a-z]\w*\[([\d,]*)\]", sides[1] + shapes[sides[2]])]
    return max(elements) // max(1, min(elements))


def counts(text):
    """Replicas and partitions that the module needs."""
    header = text.split("\n", 1)[0]
    of = lambda key: int((re.search(rf"{key}=(\d+)", header) or [0, 1])[1])
    replicas, partitions, all_devices, paired, shapes = of("replica_count"), of("num_partitions"), 1, 1, {}
    for line in text.splitlines():
        made = re.match(r"\s*(?:ROOT )?%?([\w.-]+) = ([a-z]\w*\[[\d,]*\])", line)
        if made:
            shapes[made[1]] = made[2]
        if sent := re.search(r'_xla_send_recv_source_target_pairs="?(\{\{.*?\}\})', line):
            paired = max(paired, *(int(n) + 1 for n in re.findall(r"\d+", sent[1])))
        op = OP.search(line)
        if not op:
            continue
        n, channel = named(line, shapes), re.search(r"channel_id=[1-9]", line)
        if "use_global_device_ids=true" in line:
            all_devices = max(all_devices, n)
        elif channel and op[1] in ("collective-permute", "all-to-all", "ragged-all-to-all", "collective-broadcast"):
            partitions = max(partitions, n)
        else:
            replicas = max(replicas, n)
    while replicas * partitions < all_devices:
        partitions = -(-all_devices // replicas)
    if paired > max(replicas, partitions):  # of send and recv
        replicas = paired
    return replicas, partitions


RAGGED = re.compile(r"^(\s*)((?:ROOT )?%?\S+ = .*? ragged-all-to-all\()(.*?)(\), .*)$", re.M)


def with_sizes_that_fit(text):
    """Of what ragged-all-to-all moves: update k begins at row k, has one row, and lies behind those of earlier devices of its group."""
    shapes = dict(re.findall(r"^\s*(?:ROOT )?%?([\w.-]+) = ([a-z]\w*\[[\d,]*\])", text, re.M))

    def replace(found):
        indent, begin, operands, end = found.groups()
        names = [re.findall(r"[\w.-]+", operand)[-1] for operand in operands.split(", ")]
        given = [shapes.get(name, "") for name in names]
        if len(names) != 6 or not all(re.match(r"s(32|64)\[\d+\]$", shape) for shape in given[2:]):
            return found[0]
        counter, lines = len(replace.lines), []
        group = re.search(r"replica_groups=\{\{([\d,]+)\}", end)
        members = len(group[1].split(",")) if group else 1
        for k, shape in enumerate(given[2:]):
            dtype, size = re.match(r"(\w+)\[(\d+)\]", shape).groups()
            at = f"fits.{counter}.{k}"
            if k in (0, 2):
                lines += [f"{at}.i = {shape} iota(), iota_dimension=0"]
            if k == 0:
                lines += [f"{at} = {shape} copy({at}.i)"]
            if k == 2:
                id_op = "partition-id" if re.search(r"channel_id=[1-9]", end) else "replica-id"
                each = max(1, int(size) // members)
                lines += [f"{at}.d = u32[] {id_op}()", f"{at}.e = {dtype}[] convert({at}.d)", f"{at}.n = {dtype}[] constant({members})",
                          f"{at}.m = {dtype}[] remainder({at}.e, {at}.n)", f"{at}.c = {dtype}[] constant({each})",
                          f"{at}.o = {dtype}[] multiply({at}.m, {at}.c)", f"{at}.b = {shape} broadcast({at}.o), dimensions={{}}",
                          f"{at}.w = {shape} broadcast({at}.c), dimensions={{}}", f"{at}.r = {shape} remainder({at}.i, {at}.w)",
                          f"{at} = {shape} add({at}.b, {at}.r)"]  # fmt: skip
            if k in (1, 3):
                lines += [f"{at}.c = {dtype}[] constant(1)", f"{at} = {shape} broadcast({at}.c), dimensions={{}}"]
        replace.lines += lines
        names[2:] = [f"fits.{counter}.{k}" for k in range(4)]
        return "\n".join(indent + line for line in lines) + f"\n{indent}{begin}{', '.join(names)}{end}"

    replace.lines = []
    return RAGGED.sub(replace, text)


def with_counts(text, replicas, partitions):
    header, rest = text.split("\n", 1)
    header = re.sub(r", (replica_count|num_partitions)=\d+", "", header)
    name = re.match(r"HloModule [^,\s]+", header)
    if not name:
        return text
    return f"{name[0]}, replica_count={replicas}, num_partitions={partitions}{header[name.end():]}\n{rest}"


def with_loops_that_end(text):
    """Loops whose condition is a constant or a state that the body hands on run once: they never end, or devices part."""
    endless = re.findall(r"^%?([\w.-]+) \(.*\n(?:  (?!ROOT).*\n)*  ROOT \S+ = pred\[\] (?:constant\(true\)|get-tuple-element)", text, re.M)
    for name in endless:
        text = re.sub(rf" while\((.*?)\), condition=%?{re.escape(name)}, body=(%?[\w.-]+)", r" call(\1), to_apply=\2", text)
    return text


def with_zero_indices(text):
    """Integers of parameters are zero and predicates false: offsets that are random fit nothing, and devices are to take one branch."""
    def replace(found):
        indent, root, name, dtype, dims, rest = found.groups()
        if root:
            return found[0]
        zero = "false" if dtype == "pred" else "0"
        return (f"{indent}{name}.given = {dtype}[{dims}]{rest}\n{indent}{name}.zero = {dtype}[] constant({zero})\n"
                f"{indent}{name} = {dtype}[{dims}] broadcast({name}.zero), dimensions={{}}")  # fmt: skip
    def replace_tuple(found):
        indent, name, dtypes = found[1], found[2], re.findall(r"([su](?:32|64))\[\]", found[3])
        zeroes = [f"{indent}{name}.{k} = {dtype}[] constant(0)\n" for k, dtype in enumerate(dtypes)]
        names = ", ".join(f"{name}.{k}" for k in range(len(dtypes)))
        return f"{indent}{name}.given = {found[3]}{found[4]}\n{''.join(zeroes)}{indent}{name} = {found[3]} tuple({names})"

    functions, entry, rest = text.partition("\nENTRY")
    rest = re.sub(r"^(\s*)(ROOT )?(%?[\w.-]+) = ([su](?:32|64)|pred)\[([\d,]*)\](\S* parameter\(.*)$", replace, rest, flags=re.M)
    return functions + entry + re.sub(r"^(\s*)(%?[\w.-]+) = (\((?:[su](?:32|64)\[\](?:, )?)+\))( parameter\(.*)$", replace_tuple, rest, flags=re.M)


def with_stand_ins(text):
    """Ones in the place of custom calls that nobody knows, and messages without pairs go from 0 to 1."""
    def call(found):
        indent, name, dtype, dims = found.groups()
        bare = name.removeprefix("ROOT ")
        counted = dtype[0] in "su" and dims == ""
        one = "true" if dtype == "pred" else "(1, 0)" if dtype[0] == "c" else "100" if counted else "1"
        return f"{indent}{bare}.one = {dtype}[] constant({one})\n{indent}{name} = {dtype}[{dims}] broadcast({bare}.one), dimensions={{}}"

    def message(found):
        if "source_target_pairs" in found[0] or "is_host_transfer=true" in found[0]:
            return found[0]
        pairs = "_xla_send_recv_source_target_pairs={{0,1}}"
        if "frontend_attributes={" in found[0]:
            return found[0].replace("frontend_attributes={", f"frontend_attributes={{{pairs},")
        return found[0] + f", frontend_attributes={{{pairs}}}"

    text = re.sub(r"^(\s*)((?:ROOT )?%?[\w.-]+) = ([a-z]\w*)\[([\d,]*)\]\S* custom-call\(.*$", call, text, flags=re.M)
    return re.sub(r"^.* (?:send|recv)\(.*$", message, text, flags=re.M)


def shrunk(text, factor):
    """The module with dimensions divided; whether that is still a module is for the verifier to say."""
    small = lambda d: str(int(d) // factor) if int(d) % factor == 0 and int(d) >= 2 * factor else d  # noqa: E731
    every = lambda found: found[1] + re.sub(r"\d+", lambda d: small(d[0]), found[2]) + found[3]  # noqa: E731
    text = re.sub(r"(\b(?:pred|[su]\d+|bf16|f\d\w*|c64|c128)\[)([\d,<=]*)(\])", every, text)
    return re.sub(r"((?:dynamic_)?slice(?:_sizes)?=\{)([^}]*)(\})", every, text)


def limit():
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS_EACH, CPU_SECONDS_EACH + 1))
    resource.setrlimit(resource.RLIMIT_AS, (BYTES_EACH, BYTES_EACH))


def run_file(arguments):
    try:
        done = subprocess.run([str(WEFT), *map(str, arguments)], capture_output=True, text=True, errors="replace",
                              timeout=SECONDS_EACH, preexec_fn=limit)  # fmt: skip
    except subprocess.TimeoutExpired:
        return 124, "timeout"
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return 124, f"more than {CPU_SECONDS_EACH} s"
    return done.returncode, done.stdout + done.stderr


def run(text, *arguments):
    with tempfile.NamedTemporaryFile("w", suffix=".hlo") as file:
        file.write(text)
        file.flush()
        status, out = run_file([*arguments, file.name])
        return status, out.replace(file.name, "FILE")


def cause_of(text):
    line = next((line for line in text.splitlines() if "error" in line or "differ" in line), text[:200])
    return line.split("error: ")[-1].strip()


def bytes_of_parameters(text):
    entry = text[text.index("ENTRY"):]
    arrays = re.findall(r" = [a-z]+(\d*)\w*\[([\d,]*)\]\S* parameter\(", entry)
    return sum(max(1, int(bits or 8) // 8) * math.prod(map(int, filter(None, dims.split(",")))) for bits, dims in arrays)


def check(path):
    """"agree", or why not: (kind, cause)"""
    status, text = run((CORPUS / path).read_text(errors="replace"), "print")
    if status != 0:
        return "outside", "does not parse: " + cause_of(text)
    text = with_loops_that_end(text)
    replicas, partitions = counts(text)
    if replicas * partitions > MOST_DEVICES:
        return "outside", f"names {replicas * partitions} devices"
    variants = {}  # how: the module as it is run; the first that the evaluator takes counts
    # Where a module does not say whether its ids are replicas or partitions, they may be the others.
    for pair in dict.fromkeys([(replicas, partitions), (partitions, replicas), (1, replicas * partitions)]):
        whole = with_sizes_that_fit(with_counts(text, *pair))
        for factor in (1, 4, 16, 64, 128):
            small = shrunk(whole, factor) if factor > 1 else whole
            if bytes_of_parameters(small) * replicas * partitions <= MOST_BYTES:
                variants[f"{pair} / {factor}"] = small
                if factor == 1:
                    break
    if not variants:
        return "outside", "more than 64 MiB of arguments, however it is made smaller"
    variants["zeroes"] = with_zero_indices(next(iter(variants.values())))
    variants["stand-ins"] = with_counts(with_stand_ins(variants["zeroes"]), max(replicas, 2 if partitions == 1 else 1), partitions)
    if "SPMDFullToShardShape" in text:  # written before it is partitioned
        status, parts = run(variants["zeroes"], "opt", "--passes=propagate-shardings,partition")
        variants["zeroes"] = parts if status == 0 else variants["zeroes"]
    refused, tried = None, list(variants.items())
    for how, module in tried:
        status, out = run(module, "run", "--check", "--tolerance=1e-3")
        if status != 0 and " differ" in out:  # long sums of narrow floats depend on their order
            status, out = run(re.sub(r"\b(bf16|f16|f8\w+)\[", "f32[", module), "run", "--check", "--tolerance=1e-3")
        if status == 0:
            return "agree", "" if how.endswith("/ 1") else how
        evaluated, why = run(module, "eval", "--max-elements=0")
        if evaluated == 0:
            return "failed", cause_of(out)
        refused = refused or cause_of(why)
        if "no memory for" in why and not how.endswith(" smaller"):
            tried.append((f"{how}, smaller", shrunk(module, 64)))
        if evaluated == 124:
            break
    return "outside", "evaluator: " + refused


def main():
    if not CORPUS.exists():
        print(f"skipped: there is no corpus at {CORPUS}")
        return 0
    paths = list(files())
    jobs = next((int(a.removeprefix("--jobs=")) for a in sys.argv[1:] if a.startswith("--jobs=")), 1)
    if sizes := [int(a) for a in sys.argv[1:] if not a.startswith("--")]:
        paths = sorted(random.Random(0).sample(paths, min(sizes[0], len(paths))))
    totals, causes, smaller = collections.Counter(), collections.Counter(), 0
    with concurrent.futures.ProcessPoolExecutor(jobs) as pool:  # not threads: limits are set between fork and exec
        for path, (kind, cause) in zip(paths, pool.map(check, paths)):
            totals[kind] += 1
            smaller += kind == "agree" and cause != ""
            if kind == "agree":
                continue
            print(f"{path}: {kind}: {cause}", flush=True)
            causes[f"{kind}: " + re.sub(r"[%\w.-]*\d[\w.-]*", "N", cause)[:110]] += 1
    for cause, count in causes.most_common():
        print(f"{count:5} {cause}")
    print(f"{len(paths)} modules, {totals['agree']} agree ({smaller} of them made smaller, with zero offsets or with stand-ins), {totals['failed']} do not, {totals['outside']} for reasons outside: {100 * totals['agree'] / len(paths):.1f} %")
    return 0 if totals["agree"] >= WANTED * len(paths) else 1


if __name__ == "__main__":
    sys.exit(main())
