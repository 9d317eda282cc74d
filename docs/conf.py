"""The guide as HTML: `./dev guide`. Pages are plain Markdown that reads well unbuilt.

Every page of this folder is in the guide. The order is that of the links of index.md; what it does not link to yet comes last, so that a
new page needs nothing but its file.
"""

import pathlib
import re

HERE = pathlib.Path(__file__).parent

project = "Weft"
author = "the authors of Weft"
copyright = author
release = re.search(r'^version = "(.*)"', (HERE.parent / "pyproject.toml").read_text(), re.M)[1]
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
master_doc = "index"
exclude_patterns = ["_build", "requirements.txt"]
myst_heading_anchors = 4  # links to #headings are checked
nitpicky = True

# Nothing is loaded from elsewhere: the theme, its style and the search are files of the guide.
html_theme = "alabaster"
html_title = f"Weft {release}"
html_theme_options = {"description": "JAX on CPUs, compiled by Weft", "page_width": "1080px", "sidebar_width": "240px", "show_powered_by": False}
html_sidebars = {"**": ["about.html", "searchfield.html", "navigation.html"]}
html_show_sourcelink = False
html_copy_source = False


def contents(text):
    """Sections of index.md as tables of contents: [(title, [page, ...])], then the pages that it does not link to."""
    sections, seen = [], {"index"}
    for part in re.split(r"^## ", text, flags=re.M)[1:]:
        title, _, body = part.partition("\n")
        pages = [page for page in re.findall(r"^- \[[^\]]+\]\(([\w/-]+)\.md\)", body, re.M) if page not in seen]
        seen.update(pages)
        if pages:
            sections.append((title.strip(), pages))
    rest = sorted(str(path.relative_to(HERE).with_suffix("")) for path in HERE.glob("**/*.md"))
    rest = [page for page in rest if page not in seen]
    return sections + ([("More", rest)] if rest else [])


def add_contents(app, name, source):
    if name != "index":
        return
    for title, pages in contents(source[0]):
        source[0] += "\n```{toctree}\n:hidden:\n:caption: " + title + "\n\n" + "\n".join(pages) + "\n```\n"


def setup(app):
    app.connect("source-read", add_contents)
    return {"parallel_read_safe": True}
