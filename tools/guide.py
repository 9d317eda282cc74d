#!/usr/bin/env python3
"""What is generated of the guide: docs/settings.md, every variable and option, from what the command says of them.

guide.py WEFT [--check]     writes the page; --check says whether it is current, by the exit status
"""

import pathlib
import re
import subprocess
import sys

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "settings.md"

HEAD = """# Variables and options

<!-- Written by tools/guide.py from `weft help variables` and `weft help options`; ./dev guide writes it anew. -->

Everything that can be set, as the command itself lists it: `weft help variables`, `weft help options`. A value that a variable does not take is an
error that says what it takes, in JAX too. A name that begins with `WEFT_` and is none of these gets a warning with the nearest one. An empty
value counts as none.

## Variables of the environment

Set them before Python starts, or in `os.environ` before JAX is first used.
"""

OPTIONS = """
## Options of the compiler

`WEFT_OPTIONS=key=value,key=value` for JAX, `--options=key=value` for commands of `weft`. Few people need them.
"""


def entries(text):
    """(name, sentence, takes, default) of what `weft help` lists."""
    for block in text.split("\n\n")[1:]:
        name, *lines = block.strip().splitlines()
        body = " ".join(line.strip() for line in lines)
        sentence, takes, default = re.fullmatch(r"(.*?) takes: (.*?) default: (.*)", body).groups()
        yield name, sentence, takes, default


def section(text):
    out = ""
    for name, sentence, takes, default in entries(text):
        sentence = re.sub(r"\(docs/(\w+)\.md\)", r"([\1](\1.md))", sentence)
        out += f"\n### {name}\n\n{sentence}\n\n- takes: {takes}\n- default: {default}\n"
    return out


def page(weft):
    def help_on(topic):
        return subprocess.run([weft, "help", topic], check=True, capture_output=True, text=True).stdout

    return HEAD + section(help_on("variables")) + OPTIONS + section(help_on("options"))


def main(arguments):
    text = page(arguments[0])
    if "--check" in arguments:
        current = PAGE.exists() and PAGE.read_text() == text
        if not current:
            print(f"{PAGE.name} is not what the command says: run ./dev guide")
        return 0 if current else 1
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
