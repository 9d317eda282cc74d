"""./dev replay A..B: what a change of the compiler does to the code of many programs.

Builds `weft` at both commits (kept in build-replay/<commit>), compiles the corpus, where one lies beside the repository, the modules
of test/ and the programs of bench/cpu with each, and lists those whose Program or generated code differs. B may be left out (`A..`):
the working tree as it stands. Nothing is run. The status is 1 when something differs.
"""
import argparse
import collections
import difflib
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
KEPT = ROOT / "build-replay"
TARGETS = "cpu,cpu-avx512,cpu-neon,h200"


def git(*words):
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def say(*words):
    print("==>", *words, file=sys.stderr, flush=True)


def build(commit):
    """The command of a commit, or of the working tree for an empty name."""
    if not commit:
        subprocess.run(["ninja", "-C", str(ROOT / "build"), "weft"], check=True, stdout=sys.stderr)
        return ROOT / "build" / "weft"
    sha = git("rev-parse", "--verify", commit + "^{commit}")[:12]
    source, folder = KEPT / sha / "source", KEPT / sha / "build"
    if not source.exists():
        say("checking out", sha)
        git("worktree", "prune")
        git("worktree", "add", "--detach", str(source), sha)
    if not (folder / "build.ninja").exists():
        subprocess.run(["cmake", "--preset", "ci", "-B", str(folder)], cwd=source, check=True, stdout=sys.stderr)
    say("building", sha)
    subprocess.run(["ninja", "-C", str(folder), "weft"], check=True, stdout=sys.stderr)
    return folder / "weft"


def bench_programs():
    """The programs of bench/cpu as StableHLO files, traced once for each state of bench/cpu."""
    digest = git("rev-parse", "HEAD:bench/cpu")[:12]
    folder = KEPT / "programs" / digest
    if not (folder / "done").exists():
        python = ROOT / ".venv" / "bin" / "python"
        if not python.exists():
            say("no .venv: the programs of bench/cpu are left out")
            return []
        folder.mkdir(parents=True, exist_ok=True)
        say("tracing the programs of bench/cpu")
        traced = subprocess.run([str(python), str(ROOT / "bench" / "cpu" / "trace_programs.py"), str(folder)],
                                env={**os.environ, "JAX_PLATFORMS": "cpu"})
        if traced.returncode != 0:
            say("some programs of bench/cpu could not be traced")
        if any(folder.glob("*.mlir")):
            (folder / "done").touch()
    return sorted(folder.glob("*.mlir"))


def modules(corpus):
    files = sorted((ROOT / "test" / "run").glob("*.hlo")) + sorted((ROOT / "examples").glob("*.hlo"))
    files += bench_programs()
    if corpus.is_dir():
        files += sorted(p for p in corpus.rglob("*.hlo") if "_malformed" not in p.parts)
    else:
        say("no corpus at", corpus)
    return [str(f) for f in files]


def digests(command, files):
    """{(file, target): (Program, code)}; a crash is attributed to the files that were not reached."""
    got, left = {}, list(files)
    while left:
        run = subprocess.run([str(command), "program", "--digest", f"--target={TARGETS}", "--files-from", "-"],
                             input="\n".join(left), capture_output=True, text=True)
        for line in run.stdout.splitlines():
            file, target, program, code = line.rsplit(" ", 3)
            got[file, target] = (program, code)
        if run.returncode >= 0:
            break
        # Lines come in the order of the files: the first one that is missing is the one that crashed, or one beside it.
        missing = next(f for f in left if (f, "cpu") not in got)
        say("crash at", missing)
        got[missing, "cpu"] = ("crash", str(run.returncode))
        left = left[left.index(missing) + 1:]
    return got


def show(commands, file, target, emit, lines):
    texts = [subprocess.run([str(c), "program", f"--target={target}", f"--emit={emit}", file], capture_output=True,
                            text=True).stdout.splitlines() for c in commands]
    for n, line in enumerate(difflib.unified_diff(*texts, "before", "after", lineterm="", n=1)):
        if n > lines:
            print("    ...")
            break
        print("    " + line)


def main():
    parser = argparse.ArgumentParser(prog="./dev replay", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("range", help="A..B, or A.. for the working tree")
    parser.add_argument("--corpus", type=pathlib.Path, default=ROOT.parent / "shared" / "corpus" / "hlo")
    parser.add_argument("--show", type=int, default=3, metavar="N", help="differences shown as text (default 3)")
    parser.add_argument("--lines", type=int, default=30, metavar="N", help="lines of each")
    args = parser.parse_args()
    if ".." not in args.range:
        parser.error("a range A..B is wanted")
    names = args.range.split("..", 1)
    commands = [build(name) for name in names]
    files = modules(args.corpus)
    say(f"{len(files)} modules, targets {TARGETS}")
    begin, both = time.time(), []
    for name, command in zip(names, commands):
        both.append(digests(command, files))
        say(f"{name or 'working tree'}: {len(both[-1])} Programs, {time.time() - begin:.0f} s")
    before, after = both
    counts, shown = collections.Counter(), 0
    for key in before:
        if key not in after or before[key] == after[key]:
            counts["same"] += key in after
            continue
        file, target = key
        what = "Program" if before[key][0] != after[key][0] else "code"
        counts[what] += 1
        print(f"{target:11} {what:8} {os.path.relpath(file, ROOT)}")
        if shown < args.show and "error" not in (before[key][0], after[key][0]):
            shown += 1
            code = "cuda" if target == "h200" else "llvm"
            show(commands, file, target, "program" if what == "Program" else code, args.lines)
    print(f"{counts['same']} the same, {counts['Program']} other Programs, {counts['code']} other code only")
    return 1 if counts["Program"] + counts["code"] else 0


if __name__ == "__main__":
    sys.exit(main())
