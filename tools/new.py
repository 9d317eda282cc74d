#!/usr/bin/env python3
"""Skeletons: `./dev new op NAME FAMILY` and `./dev new pass FOLDER NAME`."""

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


def new_op(name, family):
    ops = ROOT / "src/hlo/ops.def"
    source = ROOT / f"src/hlo/ops/{family}.cc"
    if f'"{name}"' in ops.read_text():
        sys.exit(f"{name} is in ops.def already")
    if not source.exists():
        families = sorted(p.stem for p in source.parent.glob("*.cc"))
        sys.exit(f"no family {family}; there are: {', '.join(families)}")
    write_new(
        ROOT / f"test/run/{name}.hlo",
        f"""// test: run
ENTRY main {{
  x = f32[4] constant({{1, 2, 3, 4}})
  ROOT r = f32[4] {name}(x)
}}
""",
    )
    insert_sorted(
        ops,
        f'OP(k{pascal(name)}, "{name}", 1, NoAttrs, kElementwise)',
        lambda s: s.startswith("OP("),
        lambda s: re.search(r'"([^"]+)"', s)[1],
    )
    row = f"""template <>
OpRow Define<Op::k{pascal(name)}>() {{
  // doc: one sentence. infer: the result shape. evaluate: what it means. fold: local identities.
  return {{.doc = "TODO"}};
}}

"""
    text = source.read_text()
    end = text.rindex("}  // namespace weft::hlo")
    source.write_text(text[:end] + row + text[end:])
    print(f"{source.relative_to(ROOT)}: a row to fill in\nthen: ./dev bless test/run/{name}.hlo")


def new_pass(folder, name):
    folders = sorted(p.name for p in (ROOT / "src/compiler/passes").iterdir() if p.is_dir())
    if folder not in folders:
        sys.exit(f"new: '{folder}' is no folder of src/compiler/passes: {', '.join(folders)}")
    stem, function = name.replace("-", "_"), pascal(name)
    compiler = ROOT / "src/compiler"
    write_new(
        compiler / f"passes/{folder}/{stem}.cc",
        f"""#include "compiler/passes.h"

namespace weft::compiler {{

Result<bool> {function}(hlo::Module& module, const PassContext&) {{
  bool changed = false;
  for (const auto& computation : module.computations()) {{
    for (hlo::Instruction* i : computation->Snapshot()) {{
      (void)i;
    }}
  }}
  return changed;
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
        above=["// TODO: what it does; needs: none."],
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
    print("then: write its contract in passes.h, its place in kPipeline, ./dev bless test/pass")


def main(args):
    if len(args) == 3 and args[0] == "op":
        new_op(args[1], args[2])
    elif len(args) == 3 and args[0] == "pass":
        new_pass(args[1], args[2])
    else:
        print("usage: ./dev new op NAME FAMILY | ./dev new pass FOLDER NAME", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main(sys.argv[1:])
