#!/usr/bin/env python3
"""Skeletons: `./dev new op NAME FAMILY`, `./dev new pass FOLDER NAME`, `./dev new row TARGET NAME OP`."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def pascal(name):
    return "".join(word.capitalize() for word in name.split("-"))


def insert_sorted(path, line, is_entry, key, above=()):
    """Puts the line before the first entry whose key is larger, or behind the last entry."""
    lines = path.read_text().splitlines()
    entries = [i for i, text in enumerate(lines) if is_entry(text)]
    at = next((i for i in entries if key(lines[i]) > key(line)), entries[-1] + 1)
    while lines[at - 1].startswith("//"):  # comments belong to what follows
        at -= 1
    lines[at:at] = [*above, line]
    path.write_text("\n".join(lines) + "\n")
    print(f"{path.relative_to(ROOT)}:{at + 1}: {line.strip()}")


def write_new(path, text):
    if path.exists():
        sys.exit(f"{path.relative_to(ROOT)} is there already")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    print(f"{path.relative_to(ROOT)}: new")


ELEMENTWISE_ROW = """template <>
OpRow Define<Op::k{pascal}>() {{
  return {{.doc = "TODO: one sentence.",
          .infer = InferSame<kTakesNumbers>,
          .evaluate = EvaluateElementwise}};
}}

"""

# An op that is not elementwise says how its dimensions go together, or why they do not.
OTHER_ROW = """Result<Shape> Infer{pascal}(const InferArgs& args) {{
  return args.operand(0);
}}

Result<Literal> Evaluate{pascal}(EvalContext&, const Instruction&, std::span<Literal>) {{
  return Unimplemented("{name}: TODO");
}}

template <>
OpRow Define<Op::k{pascal}>() {{
  return {{.doc = "TODO: one sentence.",
          .infer = Infer{pascal},
          .evaluate = Evaluate{pascal},
          .no_dim_rule = "TODO: why its dimensions do not go together, or a dim_rule"}};
}}

"""


def new_op(name, family):
    ops = ROOT / "src/hlo/ops.def"
    source = ROOT / f"src/hlo/ops/{family}.cc"
    if f'"{name}"' in ops.read_text():
        sys.exit(f"{name} is in ops.def already")
    families = sorted(p.stem for p in source.parent.glob("*.cc") if "OpRow Define<" in p.read_text())
    if family not in families:
        sys.exit(f"no family {family}; those with rows are: {', '.join(families)}")
    elementwise = family.startswith("elementwise")
    arity = 2 if family == "elementwise_binary" else 1
    second = "  y = f32[4] constant({4, 3, 2, 1})\n" if arity == 2 else ""
    write_new(
        ROOT / f"test/run/{name}.hlo",
        f"""// test: run
ENTRY main {{
  x = f32[4] constant({{1, 2, 3, 4}})
{second}  ROOT r = f32[4] {name}({"x, y" if arity == 2 else "x"})
}}
""",
    )
    insert_sorted(
        ops,
        f'OP(k{pascal(name)}, "{name}", {arity}, NoAttrs, {"kElementwise" if elementwise else "kNone"})',
        lambda s: s.startswith("OP("),
        lambda s: re.search(r'"([^"]+)"', s)[1],
    )
    row = (ELEMENTWISE_ROW if elementwise else OTHER_ROW).format(name=name, pascal=pascal(name))
    text = source.read_text()
    end = text.rindex("}  // namespace weft::hlo")
    source.write_text(text[:end] + row + text[end:])
    print(f"{source.relative_to(ROOT)}: a row to fill in")
    if elementwise:
        print(f"src/hlo/evaluate/lanes_*.cc: add `case Op::k{pascal(name)}`, a line for each class of number it takes")
        print(f"src/compiler/lower/element/elementwise.cc: add `case HloOp::k{pascal(name)}` for native code")
    print(f"then: ./dev bless test/run/{name}.hlo")


def new_pass(folder, name):
    folders = sorted(p.name for p in (ROOT / "src/compiler/passes").iterdir() if p.is_dir())
    if folder not in folders:
        sys.exit(f"new: '{folder}' is no folder of src/compiler/passes: {', '.join(folders)}")
    stem, function = name.replace("-", "_"), pascal(name)
    compiler = ROOT / "src/compiler"
    write_new(
        compiler / f"passes/{folder}/{stem}.cc",
        f"""// TODO: what becomes what, by its standard term.
#include "compiler/passes.h"
#include "compiler/passes/rewrite.h"

namespace weft::compiler {{
namespace {{

using hlo::Instruction;

// Whether it changed something. New instructions come from hlo::Builder b(*i->parent(), i, i), which
// carries facts over; ReplaceWithValue(i, value) puts what was there before in its place.
Result<bool> {function}In(Instruction* i) {{
  (void)i;
  return false;
}}

}}  // namespace

Result<bool> {function}(hlo::Module& module, const PassContext&) {{
  if (module.config().is_scheduled) return false;
  return RewriteEach(module, {function}In);
}}

}}  // namespace weft::compiler
""",
    )
    write_new(
        ROOT / f"test/pass/{stem}.hlo",
        f"""// test: pass {name}
ENTRY main {{
  a = f32[4] parameter(0)
  ROOT r = f32[4] add(a, a)
}}
""",
    )
    header = compiler / "passes.h"
    insert_sorted(
        header,
        f"Result<bool> {function}(hlo::Module&, const PassContext&);",
        lambda s: s.startswith("Result<bool> "),
        lambda s: s,
        above=["// TODO: what it does; needs: not scheduled (else it does nothing)."],
    )
    insert_sorted(
        compiler / "pipeline.cc",
        f'    {{"{name}", {function}}},',
        lambda s: s.startswith('    {"'),
        lambda s: s,
    )
    insert_sorted(
        compiler / "CMakeLists.txt",
        f"    passes/{folder}/{stem}.cc",
        lambda s: s.startswith("    passes/"),
        lambda s: s,
    )
    print("pipeline.cc: its place in kPipeline (all programs), or in kNativeBefore or kNativeAfter (native code)")
    print(f"then: write the rule, its contract in passes.h, cases, ./dev bless test/pass/{stem}.hlo")


def new_row(target, name, op):
    if target not in ("cpu", "gpu"):
        sys.exit(f"new: '{target}' is no target: cpu, gpu")
    opcode = re.search(rf'^OP\((k\w+), "{re.escape(op)}"', (ROOT / "src/hlo/ops.def").read_text(), re.M)
    if not opcode:
        sys.exit(f"new: '{op}' is not in src/hlo/ops.def")
    stem, row, lower = name.replace("-", "_"), pascal(name), ROOT / "src/compiler/lower"
    write_new(
        lower / f"{target}/{stem}.cc",
        f"""// TODO: what becomes what, by its standard term, and where that pays.
#include "compiler/lower/table.h"

namespace weft::compiler {{

namespace {{

Decision Match{row}(Subject&) {{
  return Refuse("TODO: half a sentence about the instruction");
}}

Status Lower{row}(Subject& subject) {{
  return Unimplemented(hlo::Mnemonic(subject.instruction.op()), ": TODO");
}}

}}  // namespace

extern constinit const LoweringRow k{row} = {{
    "{name.replace('-', ' ')}", {{hlo::Op::{opcode[1]}}}, Match{row}, Lower{row}}};

}}  // namespace weft::compiler
""",
    )
    write_new(
        ROOT / f"test/lower/{stem}.hlo",
        f"""// TODO: one case that the row takes, and one that it just refuses.
// test: lower target={'cpu-neon' if target == 'cpu' else 'h200'}
HloModule m
ENTRY main {{
  x = f32[64] parameter(0)
  ROOT r = f32[64] {op}(x)
}}
""",
    )
    insert_sorted(
        lower / "CMakeLists.txt",
        f"    {target}/{stem}.cc",
        lambda s: s.startswith(f"    {target}/") and not s.endswith("_test.cc"),
        lambda s: s,
    )
    table = lower / target / "table.cc"
    text = table.read_text()
    at = text.index(f"LoweringTable {target.capitalize()}Table()")
    text = text[:at] + f"extern const LoweringRow k{row};  // {stem}.cc\n\n" + text[at:]
    text = text.replace(";\n\nextern const LoweringRow k" + row, ";\nextern const LoweringRow k" + row)
    first = "kOps[] = {\n"
    text = text.replace(first, f"{first}      &k{row},\n", 1)
    table.write_text(text)
    print(f"{table.relative_to(ROOT)}: first of the rows for opcodes; of fusions, move it to kKernels")
    print(f"then: write both functions, a line in table_test.cc, ./dev bless test/lower/{stem}.hlo")


def main(args):
    if len(args) == 3 and args[0] == "op":
        new_op(args[1], args[2])
    elif len(args) == 3 and args[0] == "pass":
        new_pass(args[1], args[2])
    elif len(args) == 4 and args[0] == "row":
        new_row(*args[1:])
    else:
        print("usage: ./dev new op NAME FAMILY | new pass FOLDER NAME | new row cpu|gpu NAME OP", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main(sys.argv[1:])
