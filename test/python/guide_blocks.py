"""Blocks of the guide that tests run: marked by a comment in front of the fence.

    <!-- run -->                  bash: a shell of its own; python: after the other Python blocks of the page, in one process
    <!-- run NAME=VALUE ... -->   with these variables; Python blocks with variables run in a process of their own
    <!-- run fails -->            ends with another status than 0; what it writes to standard error counts as output too
    <!-- file NAME -->            is written to a file that later blocks of the page use
    <!-- output -->               what the block before it printed; `...` stands for anything

Blocks of one page share a folder, a cache and their order.
"""

import dataclasses
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BLOCK = re.compile(r"^<!-- (run|file|output)\b *(.*?) *-->\n```(\w*)[^\n]*\n(.*?)^```$", re.M | re.S)


@dataclasses.dataclass
class Block:
    page: str
    line: int
    kind: str  # bash, python or file
    text: str
    name: str = ""  # of a file
    fails: bool = False
    variables: dict = dataclasses.field(default_factory=dict)
    output: str | None = None

    def __str__(self):
        return f"{self.page}:{self.line}"


def blocks_of(path):
    """Blocks of a page, in order."""
    text, found = path.read_text(), []
    for match in BLOCK.finditer(text):
        marker, words, language, body = match.groups()
        line = text.count("\n", 0, match.start()) + 2
        if marker == "output":
            assert found and found[-1].output is None, f"{path.name}:{line}: output of nothing"
            found[-1].output = body
            continue
        block = Block(path.name, line, language if marker == "run" else "file", body)
        if marker == "file":
            block.name = words
        else:
            assert language in ("bash", "python"), f"{path.name}:{line}: cannot run {language}"
            block.fails = "fails" in words.split()
            block.variables = dict(word.split("=", 1) for word in words.split() if "=" in word)
        found.append(block)
    return found


def pages():
    return [*sorted((ROOT / "docs").glob("**/*.md")), ROOT / "python" / "weft" / "DESCRIPTION.md"]


def pattern(expected):
    """Lines that begin with `...` stand for any number of lines, `...` within one for anything; spaces count once."""
    words = re.sub(r"[ \t]+", " ", expected.strip()).replace("\n ", "\n")
    return re.escape(words).replace(re.escape("..."), ".*?").replace(r"\ ", " ")


def same_output(expected, got):
    got = "\n".join(re.sub(r"[ \t]+", " ", line).strip() for line in got.strip().splitlines())
    expected = "\n".join(line.strip() for line in expected.strip().splitlines())
    return re.fullmatch(pattern(expected), got, re.S) is not None


# ---- Links

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.M | re.S)


def anchors(text):
    """The #names of headings, as GitHub and the generator make them."""
    names = set()
    for heading in re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S), re.M):
        name = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()).replace(" ", "-")
        names.add(name)
    return names


def broken_links(path):
    """Links to files or headings that are not there."""
    broken = []
    for link in LINK.findall(CODE.sub("", path.read_text())):
        if re.match(r"[a-z]+:", link):
            continue
        target, _, anchor = link.partition("#")
        file = (path.parent / target).resolve() if target else path
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file.read_text())):
            broken.append(link)
    return broken
