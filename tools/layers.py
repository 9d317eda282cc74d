#!/usr/bin/env python3
"""Checks that the sources keep to the module graph.

Each module's CMakeLists.txt says `module(NAME DEPS a b ...)`. Includes "a/..." must be of the module
itself or of its DEPS, and DEPS must be within what ARCHITECTURE.md's table allows (ALLOWED below).
Headers include none of <iostream>, <regex>, <filesystem>; the environment is read at the edge only.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ALLOWED = {
    "base": set(),
    "program": {"base"},
    "hlo": {"base", "program"},
    "compiler": {"base", "program", "hlo"},
    "comm": {"base"},
    "runtime": {"base", "program", "comm"},
    "cpu": {"base", "program", "runtime"},
    "gpu": {"base", "program", "runtime", "comm"},
    "inspect": {"base", "program", "hlo", "compiler", "runtime"},
    "client": {"base", "program", "hlo", "compiler", "runtime", "inspect"},
    "pjrt": {"base", "program", "hlo", "compiler", "runtime", "inspect", "client"},
    "serve": {"base", "program", "hlo", "compiler", "runtime", "inspect", "client"},
}
# What stands above the devices sees their factory functions alone.
FACTORIES = {"cpu/device.h", "gpu/cuda_device.h"}
HEAVY = {"iostream", "regex", "filesystem"}
MAY_READ_ENVIRONMENT = {"client", "pjrt", "serve"}


def declared_deps(module):
    text = (ROOT / "src" / module / "CMakeLists.txt").read_text()
    text = re.sub(r"#.*", "", text)
    match = re.search(r"\bmodule\(\s*(\w+)([^)]*)\)", text)
    if match is None:
        return None
    words = match[2].split()
    deps = set()
    if "DEPS" in words:
        for word in words[words.index("DEPS") + 1 :]:
            if word.isupper():
                break
            deps.add(word)
    return deps


def main():
    problems = []
    modules = sorted(p.name for p in (ROOT / "src").iterdir() if p.is_dir())
    for module in modules:
        if module not in ALLOWED:
            problems.append(f"src/{module}: not a module of the graph")
            continue
        deps = declared_deps(module)
        if deps is None:
            problems.append(f"src/{module}/CMakeLists.txt: no module(...)")
            continue
        for dep in sorted(deps - ALLOWED[module]):
            problems.append(f"src/{module}/CMakeLists.txt: {module} must not depend on {dep}")
        for path in sorted((ROOT / "src" / module).rglob("*")):
            if path.suffix not in (".h", ".cc", ".def"):
                continue
            for number, line in enumerate(path.read_text().splitlines(), 1):
                where = f"{path.relative_to(ROOT)}:{number}"
                include = re.match(r'\s*#\s*include\s+["<]([^">]+)[">]', line)
                if include:
                    name = include[1]
                    other = name.split("/")[0]
                    if name in FACTORIES and module in ("client", "serve"):
                        continue
                    if "/" in name and other in ALLOWED and other != module and other not in deps:
                        problems.append(f"{where}: {module} includes {name}, which is not in its DEPS")
                    if path.suffix == ".h" and name in HEAVY:
                        problems.append(f"{where}: <{name}> in a header")
                if re.search(r"\b(secure_)?getenv\s*\(", line) and module not in MAY_READ_ENVIRONMENT:
                    problems.append(f"{where}: the environment is read in tools/, client/, pjrt/ and serve/ only")
    for problem in problems:
        print(problem)
    print(f"layers: {len(modules)} modules, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
