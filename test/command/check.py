#!/usr/bin/env python3
"""The command weft as a user meets it: exit statuses, messages, files."""

import os
import pathlib
import pty
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WEFT = pathlib.Path(os.environ.get("WEFT_BUILD_DIR", ROOT / "build")).resolve() / "weft"
COMMANDS = ["parse", "print", "verify", "eval", "opt", "test", "diff", "doc", "run", "program", "bisect", "reduce", "random", "report", "cache", "bug-report", "schedule", "serve"]
GOOD = "ENTRY main {\n  a = f32[2] parameter(0)\n  ROOT r = f32[2] add(a, a)\n}\n"
BAD_TEXT = "ENTRY main {\n  a = f32[2] parameter(0)\n  ROOT r = f32[2] add(a, nobody)\n}\n"
BAD_SHAPE = "ENTRY main {\n  a = f32[2] parameter(0)\n  ROOT r = f32[3] add(a, a)\n}\n"
LARGER = """HloModule larger
ENTRY main {
  a = f32[32,64] parameter(0)
  b = f32[64,16] parameter(1)
  d = f32[32,16] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={source_file="model.py" source_line=7}
  e = f32[32,16] exponential(d), metadata={source_file="model.py" source_line=8}
  ROOT r = f32[32,16] add(e, d), metadata={source_file="model.py" source_line=8}
}
"""
PROGRAM = (ROOT / "test/program/elementwise.program").read_text()


class CommandTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def file(self, name, text):
        path = pathlib.Path(self.folder.name) / name
        path.write_text(text) if isinstance(text, str) else path.write_bytes(text)
        return name

    def weft(self, *arguments, status=0, stdin=None, env=None, timeout=60):
        done = subprocess.run(
            [str(WEFT), *arguments], cwd=self.folder.name, capture_output=True, text=True, input=stdin, timeout=timeout, env={**os.environ, **(env or {})}
        )
        self.assertEqual(done.returncode, status, f"{arguments}: {done.stdout}{done.stderr}")
        return done

    def test_program_says_why_it_is_lowered_so(self):
        larger = self.file("larger.hlo", LARGER)
        cpu = self.weft("program", "--why", "--target=cpu-avx512", larger).stdout
        self.assertRegex(cpu, r"(?m)^d \(model.py:7\): gemm: ")
        self.assertRegex(cpu, r"(?m)^  not tall dot: ")
        gpu = self.weft("program", "--why", "--target=h200", larger).stdout
        self.assertRegex(gpu, r"(?m)^d \(model.py:7\): gemm: ")
        self.assertNotIn("tall dot", gpu)

    def test_every_row_of_lowering_has_a_case(self):
        # Rows that a case for one device, compared with the evaluator, cannot have, or that passes leave nothing for.
        elsewhere = {"collective", "asynchronous collective", "number of the device", "send", "recv",
                     "recv-done", "custom call", "random numbers", "no elements"}
        # The routine is a CPU's; `select then collect` comes first; calls run where they stand.
        elsewhere_on_gpus = {"attention", "select and scatter", "asynchronous steps", "wait for a start"}
        lower = ROOT / "src/compiler/lower"
        rows = {}
        for path in lower.rglob("*.cc"):
            rows.update(re.findall(r'const LoweringRow (k\w+) = \{\s*"([^"]+)"', path.read_text()))
        taken = {"cpu": set(), "gpu": set()}
        for path in sorted((ROOT / "test/lower").glob("*.hlo")):
            targets = []
            for number, case in enumerate(re.split(r"(?m)^// -----.*\n", path.read_text())):
                named = re.search(r"(?m)^// test: lower target=(\S+)", case)
                targets = named[1].split(",") if named else targets
                module = self.file(f"{path.stem}{number}.hlo", case.split("// expect")[0])
                for target in targets:
                    why = self.weft("program", "--why", f"--target={target}", module).stdout
                    taken["cpu" if target.startswith("cpu") else "gpu"] |= set(re.findall(r"(?m)^\S.*?: ([\w -]+): ", why))
        for kind in taken:
            sources = [lower / kind / "table.cc", lower / "table.cc", lower / "shared_ops.cc"]
            wanted = {rows[name] for source in sources for name in re.findall(r"&(k\w+)", source.read_text()) if name in rows}
            wanted -= elsewhere | (elsewhere_on_gpus if kind == "gpu" else set())
            self.assertEqual(wanted - taken[kind], set(), f"{kind}: no case of test/lower takes these")

    def test_devices(self):
        larger = self.file("larger.hlo", LARGER)
        self.assertEqual(self.weft("run", "--device=pretend", "--check", larger).stdout, "same as the evaluator\n")
        repeated = self.weft("run", "--device=pretend", "--repeat", "3", larger).stdout
        self.assertRegex(repeated, r"^3 runs, same bits: [0-9a-f]{64}\n$")
        self.assertEqual(self.weft("run", "--device", "pretend", "--repeat", "3", larger).stdout, repeated)
        self.assertRegex(self.weft("run", "--device=pretend", "--bench", "2", larger).stdout, r"ms each without waiting, median .* of 2 waited for\n")
        self.assertIn("unknown device: tpu; known are cpu, gpu, pretend, host-cuda", self.weft("run", "--device=tpu", larger, status=2).stderr)
        self.assertIn("--html is for --device=cpu", self.weft("run", "--device=pretend", "--html", "page.html", larger, status=2).stderr)
        test = self.file("case.hlo", "// test: run on=eval,cpu\n" + GOOD.replace("parameter(0)", "constant({1, 2})") + "// expect\nf32[2] {2, 4}\n")
        self.assertIn("1 passed", self.weft("test", "--device=pretend", test).stdout)
        self.assertIn("all agree", self.weft("random", "--device=pretend", "--count", "3").stdout)
        self.assertIn("nothing to reduce", self.weft("reduce", "--device=pretend", larger, status=1).stderr)

    def test_help(self):
        overview = self.weft("--help").stdout
        for command in COMMANDS:
            self.assertIn(f"  {command} ", overview)
            text = self.weft(command, "--help").stdout
            self.assertTrue(text.startswith(f"usage: weft {command}"))
            self.assertIn("examples:\n", text)
            self.assertEqual(self.weft("help", command).stdout, text)
        self.assertEqual(self.weft("help").stdout, overview)
        done = self.weft("help", "variable", status=2)
        self.assertTrue(done.stderr.endswith("weft: unknown topic: variable; did you mean `variables`?\n"))
        readme = (ROOT / "README.md").read_text()
        for command in COMMANDS:
            self.assertIn(f"\nweft {command} ", readme)

    def test_glossary(self):
        rows = re.findall(r"(?m)^\| (.+?) \| (.+?) \| `([^`]+)` \|$", (ROOT / "docs/glossary.md").read_text())
        self.assertGreaterEqual(len(rows), 60)
        self.assertEqual(len({term for term, _, _ in rows}), len(rows))
        for term, _, path in rows:
            self.assertTrue((ROOT / path).is_file(), f"{term}: {path}")

    def test_help_on_variables_and_options(self):
        variables = self.weft("help", "variables").stdout
        for name in ("WEFT_CACHE", "WEFT_CHECK", "WEFT_CPU_DEVICES", "WEFT_DEBUG", "WEFT_DEFAULT", "WEFT_DUMP", "WEFT_LIBRARY",
                     "WEFT_MEMORY_LIMIT", "WEFT_OPTIONS", "WEFT_REPORT", "WEFT_THREADS"):
            self.assertRegex(variables, rf"(?m)^{name}\n(  .*\n)+  takes: .*\n(  .*\n)*  default: ")
        # Every variable that some source reads or tells about is in the table.
        known = set(re.findall(r'"(WEFT_[A-Z_]+)"', (ROOT / "src/client/environment.cc").read_text()))
        for path in [*(ROOT / "src").rglob("*.cc"), *(ROOT / "tools").glob("*.cc"), *(ROOT / "python").rglob("*.py")]:
            if path.name.endswith("_test.cc"):
                continue
            for name in re.findall(r'(?:getenv\(|environ\.get\(|Hint\(|environ\[)"(WEFT_[A-Z_]+)', path.read_text()):
                self.assertIn(name, known, path)
        tags = set(re.findall(r'"([a-z]+)"', re.search(r"kLogTags\[\] = \{(.*?)\}", (ROOT / "src/client/environment.cc").read_text(), re.S)[1]))
        for path in [*(ROOT / "src").rglob("*.cc"), *(ROOT / "tools").glob("*.cc")]:
            if not path.name.endswith("_test.cc"):
                self.assertLessEqual(set(re.findall(r'(?:VLOG|NOTE|LogIsOn)\("([^"]+)"', path.read_text())), tags, path)
        options = self.weft("help", "options").stdout
        listed = re.findall(r'v\("([a-z_.]+)"', (ROOT / "src/compiler/options.h").read_text())
        self.assertGreater(len(listed), 10)
        for key in listed:
            self.assertRegex(options, rf"(?m)^{re.escape(key)}\n  [A-Z]")
        self.assertIn("default: 8\n", options)

    def test_version_and_machine(self):
        self.assertRegex(self.weft("--version").stdout, r"^weft \d+\.\d+\.\d+, sources [0-9a-f]{16}, (LLVM \d+\.\d+\.\d+|without LLVM)\n$")
        machine = self.weft("--machine", env={"WEFT_MEMORY_LIMIT": "3GiB", "WEFT_CACHE": "here"}).stdout
        for row in ("processor", "features", "vectors", "matrix products", "micro-kernels", "matrix units", "cores", "caches", "memory", "peaks assumed",
                    "peaks measured", "subnormals", "LLVM", "cache"):
            self.assertRegex(machine, rf"(?m)^{row} +\S")
        self.assertIn("programs may take 3 GiB (WEFT_MEMORY_LIMIT)", machine)
        self.assertRegex(machine, r"(?m)^cache +here/weft-cache$")

    def test_variables(self):
        good = self.file("g.hlo", GOOD)
        for name, value, allowed in [
            ("WEFT_THREADS", "none", "a whole number from 1 to 4096"),
            ("WEFT_CHECK", "yes", "0 or 1"),
            ("WEFT_MEMORY_LIMIT", "1XB", "8GiB, 512MB, 1.5g"),
            ("WEFT_CACHE", "off", "0 for none, or a folder"),
            ("WEFT_CPU_DEVICES", "0", "a whole number from 1 to 1024"),
            ("WEFT_DEBUG", "loud", "a level from 0 to 9"),
        ]:
            done = self.weft("eval", good, env={name: value}, status=2)
            self.assertTrue(done.stderr.startswith(f"weft: {name}: wrong value: {value}: expected {allowed}"[:50]), done.stderr)
            self.assertIn(allowed, done.stderr)
            self.weft("help", env={name: value})
        self.assertIn("did you mean `cpu.native`?", self.weft("eval", good, env={"WEFT_OPTIONS": "cpu.naive=1"}, status=2).stderr)
        done = self.weft("eval", good, env={"WEFT_DEBGU": "1"})
        self.assertIn("no such variable: WEFT_DEBGU; did you mean `WEFT_DEBUG`?", done.stderr)
        for words in (["--version"], ["help"], ["help", "variables"], ["run", "--help"], ["--machine"]):
            self.assertIn("did you mean `WEFT_THREADS`?", self.weft(*words, env={"WEFT_THREDS": "1"}).stderr)
        self.assertIn("no such variable: WEFT_QQQ; `weft help variables` lists them", self.weft("help", env={"WEFT_QQQ": "1"}).stderr)
        self.weft("eval", good, env={"WEFT_MEMORY_LIMIT": "1.5g", "WEFT_THREADS": ""})
        text = "ENTRY main {\n  a = f32[2] parameter(0)\n  d = f32[2] negate(a)\n  ROOT r = f32[2] add(a, a)\n}\n"
        path = self.file("d.hlo", text)
        done = self.weft("opt", "--passes=eliminate-dead-code", path, env={"WEFT_OPTIONS": "pipeline.disable=eliminate-dead-code"})
        self.assertIn("negate", done.stdout)

    def test_cache(self):
        folder = pathlib.Path(self.folder.name) / "c"
        self.assertIn("entries:  0 ", self.weft("cache", "--dir", "c").stdout)
        self.assertFalse(folder.exists())
        (folder / "weft-cache").mkdir(parents=True)
        (folder / "mine.txt").write_text("mine")
        (folder / "weft-cache/mine.weft").write_text("not ours")
        entry = folder / "weft-cache/cpu-00.weft"
        entry.write_bytes(b"WEFTCACH" + bytes(40))
        shown = self.weft("cache", "stats", env={"WEFT_CACHE": str(folder)}).stdout
        self.assertIn(f"place:    {folder}/weft-cache\n", shown)
        self.assertRegex(shown, r"entries:  2 \(\d code")
        self.assertRegex(shown, r"size:     56 bytes of at most 2 GiB")
        self.assertRegex(shown, r"used:     \d{4}-")
        self.assertIn("removed 1 files, 48 bytes", self.weft("cache", "clear", "--dir", "c").stdout)
        self.assertFalse(entry.exists())
        self.assertTrue((folder / "mine.txt").exists() and (folder / "weft-cache/mine.weft").exists())
        self.assertIn("unknown action: wipe: expected stats or clear", self.weft("cache", "wipe", status=2).stderr)
        self.assertIn("no cache", self.weft("cache", env={"WEFT_CACHE": "0"}).stdout)

    def bug_report(self, *arguments, env=None):
        """The files of a report by name, and what was printed."""
        done = self.weft("bug-report", "-o", "r.tar.gz", *arguments, env=env)
        with tarfile.open(pathlib.Path(self.folder.name) / "r.tar.gz", "r:gz") as archive:
            files = {member.name: archive.extractfile(member).read().decode() for member in archive}
        for name in files:
            self.assertIn(f"  {name} ", done.stdout)
        self.assertIn("written: r.tar.gz, ", done.stdout)
        return files, done.stdout

    def test_bug_report(self):
        env = {"WEFT_CACHE": "/home/ann/secret/cache", "XLA_FLAGS": "--xla_dump_to=/data/ann/x", "JAX_API_TOKEN": "abc123", "OTHER_NAME": "other"}
        files, _ = self.bug_report(env=env)
        self.assertEqual(list(files), ["report.txt"])
        text = files["report.txt"]
        self.assertEqual(text.splitlines(True)[0], self.weft("--version").stdout)
        for wanted in ("\nPython 3.", "\nprocessor ", "glibc", "\nWEFT_CACHE=.../cache\n", "\nXLA_FLAGS=--xla_dump_to=.../x\n", "\nJAX_API_TOKEN=(hidden)\n"):
            self.assertIn(wanted, text)
        for private in ("ann", "secret", "abc123", "OTHER_NAME", str(pathlib.Path.home()) + "/", self.folder.name):
            self.assertNotIn(private, text)
        self.assertFalse((pathlib.Path(self.folder.name) / "s.tar.gz").exists())
        self.assertNotIn("written", self.weft("bug-report", "--list", "-o", "s.tar.gz").stdout)
        self.assertFalse((pathlib.Path(self.folder.name) / "s.tar.gz").exists())
        self.assertIn("no/such", self.weft("bug-report", "-o", "no/such/r.tar.gz", status=1).stderr)

    def test_bug_report_of_a_dump(self):
        folder = pathlib.Path(self.folder.name) / ("faults/" + "long" * 20)
        folder.mkdir(parents=True)
        (folder / "module.hlo").write_text(LARGER.replace("model.py", "/home/ann/secret/model.py"))
        (folder / "0.npy").write_bytes(b"\x93NUMPY private")
        (folder / "large.txt").write_bytes(b"x" * (9 << 20))
        (folder / "several_blocks.txt").write_text("y" * 200_000)
        (folder / "link").symlink_to("/etc/passwd")
        files, said = self.bug_report("faults")
        place = f"dump/faults/{folder.name}"
        self.assertEqual(set(files), {"report.txt", f"{place}/module.hlo", f"{place}/several_blocks.txt"})
        self.assertEqual(files[f"{place}/module.hlo"], LARGER.replace("model.py", ".../model.py"))
        self.assertEqual(files[f"{place}/several_blocks.txt"], "y" * 200_000)
        self.assertIn("0.npy: an array (--data puts it in)", said)
        self.assertIn("1 files: too large", said)
        self.assertIn("0.npy", self.weft("bug-report", "--list", "--data", "faults").stdout)

    def test_bug_report_of_a_command(self):
        path = self.file("g.hlo", LARGER)
        files, said = self.bug_report("--", str(WEFT), "run", path, env={"WEFT_PROVOKE_CRASH": "segv:fuse"})
        self.assertIn("weft: crash: SIGSEGV at address 0x0 in pass fuse of larger\n", files["stderr.txt"])
        self.assertIn(".../weft (and 2 arguments): signal 11", files["report.txt"])
        files, said = self.bug_report(str(WEFT), "run", path)
        self.assertIn("weft: compile larger: ", files["stderr.txt"])
        modules = [name for name in files if name.endswith("/0000.input.hlo")]
        self.assertEqual(len(modules), 1)
        self.assertIn("exponential", files[modules[0]])
        self.assertFalse([name for name in files if name.endswith((".ll", ".s"))])

    def test_files_that_are_no_modules(self):
        for name, content, what in [
            ("a.png", b"\x89PNG\r\n\x1a\n" + bytes(100), "not a module: this is a PNG image"),
            ("empty", "", "not a module: this is an empty file"),
            ("a.md", "# HloModule\n\nENTRY points, and x = 1\n", "not a module: this is a text with headings, Markdown perhaps"),
            ("noise", bytes(range(200, 256)) * 4, "weft reads HLO (text, proto), StableHLO (text, bytecode) and Program text"),
            ("blank", "\n// nothing\n", "not a module: this is a file of blank lines and comments"),
            ("a.py", "import jax\n\ndef f(x):\n    return x + 1\n", "not a module: this is a Python script"),
            ("a.npz", b"PK\x03\x04" + bytes(50), "not a module: this is a ZIP archive"),
            ("a.gz", b"\x1f\x8b\x08" + bytes(50), "not a module: this is a compressed file (gzip)"),
            ("a.so", b"\x7fELF\x02" + bytes(50), "not a module: this is an executable or library (ELF)"),
            ("a.json", '{"a": 1}\n', "not a module: this is JSON"),
            ("a.txt", "Dear reader\n", "not a module: this is some text"),
        ]:
            done = self.weft("run", self.file(name, content), status=1)
            self.assertIn(what, done.stderr)
            self.assertIn("hint: weft reads HLO", done.stderr)
            self.assertIn(what, self.weft("parse", name, status=1).stdout)
        (pathlib.Path(self.folder.name) / "folder").mkdir()
        self.assertIn("Is a directory", self.weft("run", "folder", status=1).stderr)
        # A slip of the pen in a module stays one.
        self.assertIn("nobody", self.weft("run", self.file("t.hlo", BAD_TEXT), status=1).stderr)

    def test_inputs_without_end(self):
        good = self.file("g.hlo", GOOD)
        done = self.weft("eval", good, "--input", "/dev/zero", status=1)
        self.assertIn("/dev/zero: a pipe or device that gives more than the limit of ", done.stderr)
        done = self.weft("run", good, "--input", "/dev/zero", status=1)
        self.assertIn("more than the limit", done.stderr)
        fifo = pathlib.Path(self.folder.name) / "fifo"
        os.mkfifo(fifo)
        for content, status in [("cat a.npy > fifo", 0), ("cat /dev/zero > fifo", 1)]:
            self.file("a.npy", b"\x93NUMPY\x01\x00v\x00" + b"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }".ljust(117) + b"\n" + bytes(8))
            writer = subprocess.Popen(["sh", "-c", content], cwd=self.folder.name, stderr=subprocess.DEVNULL)
            done = self.weft("eval", good, "--input", "fifo", status=status)
            writer.wait(timeout=30)
            self.assertEqual("more than the limit" in done.stderr, status == 1)
        self.file("o.npy", b"\x93NUMPY\x01\x00v\x00" + b"{'descr': '|O', 'fortran_order': False, 'shape': (2,), }".ljust(117) + b"\n" + bytes(8))
        done = self.weft("eval", good, "--input", "o.npy", status=1)
        self.assertIn("the elements are Python objects ('|O'), no numbers", done.stderr)
        self.assertIn("hint: save an array of numbers", done.stderr)

    def test_wrong_usage(self):
        self.weft(status=2)
        self.assertTrue(self.weft("fly", status=2).stderr.endswith("\nweft: unknown command: fly\n"))
        self.assertTrue(self.weft("prnt", status=2).stderr.endswith("\nweft: unknown command: prnt; did you mean `print`?\n"))
        for command in COMMANDS:
            done = self.weft(command, "--no-such-flag", status=2)
            self.assertIn("--no-such-flag", done.stderr)
            self.assertIn("usage:", done.stderr)
            self.assertEqual(done.stdout, "")
        self.weft("eval", status=2)
        self.weft("eval", "--seed", "x", self.file("g.hlo", GOOD), status=2)
        self.weft("opt", "--passes=no-such-pass", "g.hlo", status=2)
        self.weft("eval", "g.hlo", "--seed", status=2)

    def test_check_many(self):
        good, text, shape = self.file("g.hlo", GOOD), self.file("t.hlo", BAD_TEXT), self.file("s.hlo", BAD_SHAPE)
        done = self.weft("parse", "--roundtrip", good, text, shape, "absent.hlo", status=1)
        lines = done.stdout.splitlines()
        self.assertEqual(lines[-1], "2 passed, 2 failed")
        self.assertRegex(lines[0], r"^t\.hlo:3:\d+: error: .*nobody")
        self.assertIn("^", done.stdout)
        self.assertRegex(done.stdout, r"(?m)^absent\.hlo:1:1: error: ")
        done = self.weft("verify", good, shape, status=1)
        self.assertRegex(done.stdout, r"(?m)^s\.hlo:3:\d+: error: .*f32\[3\]")
        self.assertTrue(done.stdout.endswith("1 passed, 1 failed\n"))

    def test_files_from(self):
        self.file("list", f"{self.file('g.hlo', GOOD)}\n\n{self.file('p.program', PROGRAM)}\n")
        self.assertEqual(self.weft("verify", "--files-from", "list").stdout, "2 passed, 0 failed\n")
        self.assertEqual(self.weft("parse", "--files-from", "-", stdin="g.hlo\n").stdout, "1 passed, 0 failed\n")
        self.assertEqual(self.weft("parse", "-", stdin=GOOD).stdout, "1 passed, 0 failed\n")
        self.weft("parse", "--files-from", "absent", status=1)

    def test_kinds(self):
        for name, text, what in [
            ("m.mlir", "module @jit_f attributes {} {\n func.func @main() { foo }\n}\n", "unknown operation"),
            ("m.bc", b"ML\xefR\x0dStableHLO", "MLIR bytecode"),
            ("m.pb", b"\x0a\x05hello\x12\x00\x01", "HLO proto"),
            ("m.npy", b"\x93NUMPY\x01\x00", "weft reads HLO (text, proto), StableHLO (text, bytecode) and Program text"),
        ]:
            done = self.weft("parse", self.file(name, text), status=1)
            self.assertIn(what, done.stdout)
        mlir = (
            "module @jit_f {\n  func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n"
            "    %0 = stablehlo.negate %a : tensor<4xf32>\n    return %0 : tensor<4xf32>\n  }\n}\n"
        )
        self.assertIn("negate", self.weft("print", self.file("good.mlir", mlir)).stdout)

    def test_print(self):
        good = self.file("g.hlo", GOOD)
        other = self.file("o.hlo", GOOD.replace("a", "b").replace("bdd", "add").replace("pbrbmeter", "parameter").replace("mbin", "main"))
        full = self.weft("print", good).stdout
        self.assertEqual(self.weft("print", "-", stdin=full).stdout, full)
        self.assertIn("add(a, a)", self.weft("print", "--short", good).stdout)
        prints = {self.weft("print", "--fingerprint", f).stdout for f in (good, other)}
        self.assertEqual(len(prints), 1)
        self.assertRegex(prints.pop(), r"^[0-9a-f]{16}\n$")
        self.weft("print", "--short", "--canonical", good, status=2)
        self.assertIn("kernel", self.weft("print", self.file("p.program", PROGRAM)).stdout)

    def test_eval(self):
        good = self.file("g.hlo", GOOD)
        once, again = self.weft("eval", good, "--seed", "3").stdout, self.weft("eval", good, "--seed=3").stdout
        self.assertEqual(once, again)
        self.assertRegex(once, r"^f32\[2\] \{\S+, \S+\}\n$")
        self.assertNotEqual(once, self.weft("eval", good, "--seed", "4").stdout)
        self.weft("eval", good, "--out", "out")
        self.assertTrue((pathlib.Path(self.folder.name) / "out/0.npy").exists())
        done = self.weft("eval", good, "--input", "out/0.npy")
        self.assertRegex(done.stdout, r"^f32\[2\]")
        self.assertIn("parameters have 1", self.weft("eval", good, "--input", "a", "--input", "b", status=1).stderr)
        self.assertIn("error", self.weft("eval", self.file("s.hlo", BAD_SHAPE), status=1).stderr)
        self.assertRegex(self.weft("eval", self.file("p.program", PROGRAM)).stdout, r"^0: ")
        self.weft("eval", good, env={"WEFT_THREADS": "1", "WEFT_DEBUG": "1"})

    def test_eval_tuple_and_devices(self):
        text = "ENTRY main {\n  a = f8e4m3fn[2] constant({1, 2})\n  b = s32[] replica-id()\n  c = s32[] convert(b)\n  ROOT t = (f8e4m3fn[2], s32[]) tuple(a, c)\n}\n"
        text = text.replace("s32[] replica-id", "u32[] replica-id")
        self.file("t.hlo", text)
        self.assertEqual(self.weft("eval", "t.hlo").stdout, "0: f8e4m3fn[2] {1, 2}\n1: s32[] 0\n")
        done = self.weft("eval", "t.hlo", "--devices", "2", "--out", "o")
        self.assertIn("dev1:\n0: f8e4m3fn[2] {1, 2}\n1: s32[] 1\n", done.stdout)
        out = pathlib.Path(self.folder.name) / "o"
        self.assertTrue((out / "dev1/1.npy").exists())
        self.assertEqual((out / "dev0/types.txt").read_text(), "0 f8e4m3fn[2]\n1 s32[]\n")

    def test_loop_limit(self):
        loop = "c {\n  p = s32[] parameter(0)\n  ROOT t = pred[] constant(true)\n}\nb {\n  ROOT p = s32[] parameter(0)\n}\nENTRY main {\n  z = s32[] constant(0)\n  ROOT w = s32[] while(z), condition=c, body=b\n}\n"
        self.assertIn("error", self.weft("eval", self.file("w.hlo", loop), "--max-loop-steps", "1000", status=1).stderr)

    def test_run_debug_and_dump(self):
        file = self.file("g.hlo", LARGER)
        done = self.weft("run", "--check", file, env={"WEFT_DEBUG": "1"})
        self.assertRegex(done.stderr, r"(?m)^weft: compile larger: \d+ compiled, 0 from cache, \d+ ms$")
        done = self.weft("run", file, env={"WEFT_DEBUG": "2"})
        self.assertRegex(done.stderr, r"weft: step larger .* us .*GFLOP/s .*GB/s .*model.py:7")
        done = self.weft("run", file, env={"WEFT_DEBUG": "3"})
        self.assertRegex(done.stderr, r"weft: pass fuse larger: \d+ -> \d+ instructions, [\d.]+ ms")
        done = self.weft("run", file, env={"WEFT_DEBUG": "code=4"})
        self.assertIn("kernel ", done.stderr)
        self.assertIn("define ", done.stderr)
        self.weft("run", file, env={"WEFT_DUMP": "dumps"})
        folder = pathlib.Path(self.folder.name) / "dumps/0000.larger"
        self.assertTrue({"0000.input.hlo", "program.txt", "REPRO"} <= {p.name for p in folder.iterdir()})
        self.assertIn("weft run --check 0000.input.hlo", (folder / "REPRO").read_text())
        self.weft("run", "--check", "dumps/0000.larger/0000.input.hlo")
        self.weft("verify", "dumps/0000.larger/program.txt")

    def test_run_bench(self):
        out = self.weft("run", "--bench", "5", self.file("g.hlo", LARGER)).stdout
        self.assertRegex(out, r"run: median [\d.]+ ms, best [\d.]+ ms of 5, 80 % within")
        self.assertRegex(out, r"model.py:7")
        self.assertRegex(out, r"steps one by one: [\d.]+ us, .*this machine: [\d.]+ GFLOP/s")

    def test_run_check_of_steps(self):
        done = self.weft("run", self.file("g.hlo", LARGER), env={"WEFT_CHECK": "1"})
        self.assertIn("every step as the interpreter, same as the evaluator", done.stdout)

    def test_run_of_too_much(self):
        # Forty lines that call each other twice are a million million calls.
        text = "f0 {\n  x = f32[] parameter(0)\n  ROOT y = f32[] negate(x)\n}\n"
        for i in range(1, 40):
            text += (f"f{i} {{\n  x = f32[] parameter(0)\n  a = f32[] call(x), to_apply=f{i - 1}\n"
                     f"  ROOT y = f32[] call(a), to_apply=f{i - 1}\n}}\n")
        text += "ENTRY main {\n  x = f32[] parameter(0)\n  ROOT y = f32[] call(x), to_apply=f39\n}\n"
        done = self.weft("run", self.file("twice.hlo", text), status=1)
        self.assertIn("each computation counted as often as it is called", done.stderr)

    def test_run_of_extremes(self):
        # Sizes, windows and paddings at the ends of their range: an answer or an error, never a crash.
        add = "add {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] add(a, b)\n}\n"
        three = "ENTRY main {\n  x = f32[3] parameter(0)\n  z = f32[] constant(0)\n  ROOT y = "
        modules = []
        for n in (2**63 - 1, -2**63, 2**62, -5):
            for window in (f"size={n}", f"size=2 stride={n}", f"size=2 pad={n}_{n}", f"size=2 lhs_dilate={n}",
                           f"size=2 rhs_dilate={n}"):
                modules.append(f"{add}{three}f32[1] reduce-window(x, z), window={{{window}}}, to_apply=add\n}}\n")
                modules.append("ENTRY main {\n  x = f32[1,3,1] parameter(0)\n  k = f32[2,1,1] parameter(1)\n  ROOT y = "
                               f"f32[1,2,1] convolution(x, k), window={{{window}}}, dim_labels=b0f_0io->b0f\n}}\n")
            modules.append(f"{three}f32[3] pad(x, z), padding={n}_{n}_{max(n, 0)}\n}}\n")
            modules.append(f"{three}f32[1] slice(x), slice={{[0:3:{n}]}}\n}}\n")
            modules.append(f"{three}f32[{n}] broadcast(z), dimensions={{}}\n}}\n")
        ones = ",".join(["1"] * 64)
        modules.append(f"ENTRY main {{\n  x = f32[{ones}] parameter(0)\n  ROOT y = f32[{ones}] negate(x)\n}}\n")
        modules.append("ENTRY main {\n  x = f32[0,9223372036854775807] parameter(0)\n"
                       "  ROOT y = f32[9223372036854775807,0] transpose(x), dimensions={1,0}\n}\n")
        for text in modules:
            done = subprocess.run([WEFT, "run", "--check", self.file("extreme.hlo", text)], cwd=self.folder.name,
                                  capture_output=True, text=True, timeout=60)
            self.assertIn(done.returncode, (0, 1), text + done.stderr)
            self.assertNotIn("differs from", done.stderr, text)
            self.assertTrue(done.returncode == 0 or "error: " in done.stderr, text)

    def test_bisect(self):
        self.assertIn("no fault", self.weft("bisect", self.file("g.hlo", LARGER)).stdout)
        call = 'ENTRY main {\n  x = f32[8] parameter(0)\n  ROOT o = f32[8] custom-call(x), custom_call_target="nobody"\n}\n'
        done = self.weft("bisect", self.file("call.hlo", call), status=1)
        self.assertIn("error: custom-call: target nobody is not known", done.stdout)
        self.assertIn("error in running\n  it happens on the module as it came", done.stdout)
        self.assertNotIn("without the pass", done.stdout)
        endless = "c {\n  p = f32[4] parameter(0)\n  ROOT t = pred[] constant(true)\n}\nb {\n  p = f32[4] parameter(0)\n  ROOT s = f32[4] sine(p)\n}\n" \
                  "ENTRY main {\n  z = f32[4] parameter(0)\n  ROOT w = f32[4] while(z), condition=c, body=b\n}\n"
        done = self.weft("bisect", "--seconds", "2", self.file("endless.hlo", endless), status=1)
        self.assertIn("hang in running: no end within 2 s\n", done.stdout)

    def test_reduce(self):
        self.assertIn("nothing to reduce", self.weft("reduce", self.file("g.hlo", LARGER), status=1).stderr)
        # A thousand operations; "wrong" is a sine of a product.
        ops = ["  v0 = f32[64] parameter(0)", "  v1 = f32[64] parameter(1)"]
        kinds = ["add", "subtract", "maximum", "minimum"]
        for i in range(2, 1000):
            if i == 617:
                ops.append("  v617 = f32[64] sine(v616)")
            elif i == 616:
                ops.append("  v616 = f32[64] multiply(v300, v615)")
            else:
                ops.append(f"  v{i} = f32[64] {kinds[i * 7 % 4]}(v{i - 1 - i % 3 if i > 5 else 0}, v{i * 37 % i})")
        ops.append("  ROOT r = (f32[64], f32[64]) tuple(v998, v999)")
        big = self.file("big.hlo", "HloModule big\nENTRY main {\n" + "\n".join(ops) + "\n}\n")
        self.file("wrong.py", """
import re, sys
text = open(sys.argv[1]).read()
products = set(re.findall(r"(%\\S+) = \\S+ multiply\\(", text))
sys.exit(0 if any(x in products for x in re.findall(r" sine\\((%[^,)]+)", text)) else 1)
""")
        command = f"--command={sys.executable} {self.folder.name}/wrong.py"
        done = self.weft("reduce", command, big, timeout=300)
        self.assertIn("1001 -> ", done.stderr)
        self.assertIn("sine(", done.stdout)
        self.assertLessEqual(int(re.search(r"-> (\d+) instructions", done.stderr)[1]), 5, done.stdout)
        self.assertIn("f32[2]", done.stdout)
        self.assertEqual(self.weft("reduce", "--out", "small.hlo", command, big, timeout=300).stdout, "")
        self.assertIn("sine(", (pathlib.Path(self.folder.name) / "small.hlo").read_text())
        self.assertEqual([p.name for p in pathlib.Path(self.folder.name).iterdir() if p.name.endswith(".tmp")], [])
        # Of several devices: native code is run on all of them; one is enough where nothing meets.
        meet = """HloModule two, replica_count=2
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
ENTRY main {
  x = f32[8] parameter(0)
  y = f32[8] all-reduce(x), replica_groups={{0,1}}, to_apply=add
  ROOT z = f32[8] sine(y)
}
"""
        self.assertIn("nothing to reduce", self.weft("reduce", self.file("two.hlo", meet), status=1).stderr)
        alone = self.weft("reduce", "--command=grep -q sine", self.file("two.hlo", meet)).stdout
        self.assertNotIn("all-reduce", alone)
        self.assertNotIn("replica_count=2", alone)
        both = self.weft("reduce", "--command=grep -q replica_groups", self.file("two.hlo", meet)).stdout
        self.assertNotIn("sine", both)

    def test_reduce_tells_stops_and_keeps(self):
        ops = "".join(f"  v{i} = f32[4] negate(v{i - 1})\n" for i in range(1, 400))
        big = self.file("big.hlo", f"ENTRY main {{\n  v0 = f32[4] parameter(0)\n{ops}  ROOT r = f32[4] sine(v399)\n}}\n")
        # Trials take long: progress every few seconds where nobody looks, and the best so far at the end of the time.
        self.file("slow.sh", "sleep 0.3; grep -q sine $1\n")
        slow = f"--command=sh {self.folder.name}/slow.sh"
        done = self.weft("reduce", slow, "--seconds", "7", "--jobs", "1", big)
        self.assertRegex(done.stderr, r"(?m)^weft: reduce: \d+ of 401 instructions, \d+ tries, \d+ s$")
        self.assertRegex(done.stderr, r"wrong: 401 -> \d+ instructions, \d+ tries, [\d.]+ s(, out of time)?\n$")
        # ^C: what was found so far, and no process or file left behind.
        early = self.file("early.hlo", f"ENTRY main {{\n  u = f32[4] parameter(0)\n  v0 = f32[4] sine(u)\n{ops}  ROOT r = f32[4] negate(v399)\n}}\n")
        for signal_number in (signal.SIGINT, signal.SIGTERM):
            self.file("never.sh", "echo $$ >> pids; grep -q sine $1 || sleep 60; sleep 0.2; grep -q sine $1\n")
            running = subprocess.Popen([str(WEFT), "reduce", "--out", "small.hlo", f"--command=sh {self.folder.name}/never.sh", early], cwd=self.folder.name,
                                       stderr=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": self.folder.name})
            time.sleep(4)
            running.send_signal(signal_number)
            _, told = running.communicate(timeout=20)
            self.assertEqual(running.returncode, 0)
            self.assertIn(", interrupted\n", told)
            small = pathlib.Path(self.folder.name) / "small.hlo"
            self.weft("verify", "small.hlo")
            self.assertLess(len(small.read_text().splitlines()), 400)
            small.unlink()
            self.assertFalse(list(pathlib.Path(self.folder.name).glob("weft-reduce-*")))
            for pid in (pathlib.Path(self.folder.name) / "pids").read_text().split():
                # A process that has ended may be there until its parent looks, without a command line.
                try:
                    command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
                except (FileNotFoundError, ProcessLookupError):
                    command = b""
                self.assertNotIn(b"never.sh", command)
        # A trial that does not end is no failure of the same kind.
        self.file("hang.sh", "grep -q negate $1 || sleep 100; grep -q sine $1\n")
        done = self.weft("reduce", f"--command=sh {self.folder.name}/hang.sh", "--try-seconds", "3", big)
        self.assertIn("negate", done.stdout)
        self.assertIn("sine", done.stdout)

    def test_reduce_on_a_terminal(self):
        big = self.file("big.hlo", LARGER)
        main, terminal = pty.openpty()
        done = subprocess.run([str(WEFT), "reduce", "--command=sleep 0.1; grep -q exponential", big], cwd=self.folder.name, stdout=subprocess.PIPE, stderr=terminal,
                              timeout=60)
        os.close(terminal)
        told = os.read(main, 1 << 16).decode()
        os.close(main)
        self.assertEqual(done.returncode, 0)
        self.assertIn("\r\x1b[Kweft reduce: ", told)
        self.assertRegex(told, r"\r\x1b\[Kweft reduce: wrong: 5 -> \d instructions, \d+ tries, [\d.]+ s\r?\n$")

    def test_modules_with_shardings_are_split(self):
        whole = """HloModule m, num_partitions=2
ENTRY e {
  x = f32[4,6] parameter(0), sharding={devices=[1,2]<=[2]}
  y = f32[6,4] parameter(1), sharding={devices=[2,1]<=[2]}
  d = f32[4,4] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  s = f32[4,6] sine(x)
  ROOT t = (f32[4,4], f32[4,6]) tuple(d, s), sharding={{devices=[2,1]<=[2]}, {devices=[1,2]<=[2]}}
}
"""
        a = self.file("a.hlo", whole)
        plain = self.file("plain.hlo", re.sub(r", (sharding=.*|num_partitions=2)$", "", whole, flags=re.MULTILINE))
        parts = self.weft("opt", "--passes=propagate-shardings,partition", a).stdout
        self.assertIn("f32[4,3]", parts)
        self.assertIn("2 results agree", self.weft("diff", "--joined", self.file("parts.hlo", parts), a).stdout)
        self.assertIn("2 results agree", self.weft("diff", "--joined", a, plain).stdout)
        wrong = self.file("wrong.hlo", parts.replace("sine(", "cosine("))
        self.assertIn("result 1", self.weft("diff", "--joined", wrong, a, status=1).stdout)
        manual = self.file("manual.hlo", """HloModule m, num_partitions=2
ENTRY e {
  x = f32[4] parameter(0), sharding={devices=[2]<=[2]}
  p = f32[2] custom-call(x), custom_call_target="SPMDFullToShardShape", sharding={manual}
  q = f32[2] collective-permute(p), channel_id=1, source_target_pairs={{0,1},{1,0}}, sharding={manual}
  ROOT y = f32[4] custom-call(q), custom_call_target="SPMDShardToFullShape", sharding={devices=[2]<=[2]}
}
""")
        self.weft("run", "--check", manual)  # one device alone cannot evaluate it
        numbers = lambda text: [float(n) for n in re.findall(r"-?\d+\.\d+(?:e-?\d+)?", text)]
        want = numbers(self.weft("eval", plain).stdout)
        for command in ("eval", "run"):
            shown = self.weft(command, a).stdout
            self.assertNotIn("dev1", shown)
            for got, wanted in zip(numbers(shown), want, strict=True):
                self.assertAlmostEqual(got, wanted, delta=1e-5)
        self.assertIn("same as the evaluator", self.weft("run", "--check", a).stdout)
        self.assertIn("dev1", self.weft("eval", "--devices=2", a).stdout)

    def test_diff(self):
        a = self.file("a.hlo", GOOD)
        b = self.file("b.hlo", GOOD.replace("add(a, a)", "subtract(a, a)"))
        self.weft("diff", a, a)
        self.assertIn("differ", self.weft("diff", a, b, status=1).stdout)
        c = self.file("c.hlo", GOOD.replace("f32[2]", "f32[3]"))
        self.assertIn("parameters", self.weft("diff", a, c, status=1).stdout)

    def test_opt(self):
        text = "ENTRY main {\n  a = f32[2] parameter(0)\n  d = f32[2] negate(a)\n  ROOT r = f32[2] add(a, a)\n}\n"
        path = self.file("d.hlo", text)
        self.assertNotIn("negate", self.weft("opt", "--passes=eliminate-dead-code", path).stdout)
        done = self.weft("opt", "--passes=eliminate-dead-code,eliminate-dead-code", "--print-changed", path)
        self.assertIn("// after eliminate-dead-code", done.stdout)
        self.assertIn("no change", done.stdout)
        self.assertIn("eliminate-dead-code", self.weft("opt", "--list").stdout)

    def test_doc(self):
        self.assertIn("## add\n", self.weft("doc", "add").stdout)
        whole = self.weft("doc").stdout
        self.assertEqual(len(re.findall(r"(?m)^## ", whole)), len(re.findall(r"(?m)^OP\(", (ROOT / "src/hlo/ops.def").read_text())))
        self.weft("doc", "no-such-op", status=1)

    def test_bless(self):
        path = self.file("t.hlo", "// test: run\nENTRY main {\n  ROOT r = f32[2] constant({1, 2})\n}\n// expect\nf32[2] {1, 3}\n// -----\nENTRY main {\n  ROOT r = s32[] constant(7)\n}\n")
        done = self.weft("test", path, status=1)
        self.assertIn("- f32[2] {1, 3}", done.stdout)
        self.assertIn("+ f32[2] {1, 2}", done.stdout)
        self.assertTrue(done.stdout.endswith("0 passed, 1 failed\n"))
        self.weft("test", "--bless", path)
        self.assertEqual(self.weft("test", path).stdout, "1 passed, 0 failed\n")
        text = (pathlib.Path(self.folder.name) / path).read_text()
        self.assertIn("// expect\nf32[2] {1, 2}\n// -----\n", text)
        self.assertTrue(text.endswith("// expect\ns32[] 7\n"))
        self.weft("test", "absent", status=1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
