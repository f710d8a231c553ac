"""The site that `make docs` builds of these pages and those of the project's root. The pages stay plain Markdown: what
only a site needs is here."""

import html
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

CONTENTS = {
    "Start here": ["start/*"],
    "Tutorials": ["tutorial/*"],
    "Quickstarts": ["quickstart/*"],
    "How to": ["how-to/*"],
    "Explanation": ["explanation/*"],
    "Reference": ["reference/*"],
    "Decisions": ["decisions/*"],
    "The project": ["/README", "/examples/README", "/SECURITY", "/CONTRIBUTING", "/CHANGELOG"],
}

project = html_title = "accredit"
root_doc = "docs/index"
include_patterns = ["docs/**.md", "*.md", "examples/*.md"]
exclude_patterns = [".*", "bench", "src", "tests"]
extensions = ["myst_parser"]
myst_heading_anchors = 6
myst_fence_as_directive = ["mermaid"]
suppress_warnings = ["misc.highlighting_failure"]  # a fence may name a language whose colours nobody here knows
html_theme = "furo"
html_copy_source = html_show_copyright = False
html_static_path = [str(Path(sys.prefix) / "share" / "mermaid")]  # `make docs` puts it there


class Mermaid(Directive):
    """A diagram, which the browser draws. It has a light ground in both themes, so that it never has to be redrawn."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Give the browser the diagram's text."""
        text = html.escape("\n".join(self.content))
        return [nodes.raw("", f'<pre class="mermaid" style="background: #fff">{text}</pre>', format="html")]


def add_contents(_: Sphinx, page: str, source: list[str]) -> None:
    """Give the front page the list of all pages: a forge shows folders, a site has to be told."""
    if page == root_doc:
        for caption, pages in CONTENTS.items():
            named = "\n".join(pages)
            source[0] += f"\n```{{toctree}}\n:hidden:\n:glob:\n:titlesonly:\n:caption: {caption}\n\n{named}\n```\n"


def add_mermaid(app: Sphinx, _page: str, _template: str, _context: Any, tree: nodes.document | None) -> None:
    """Load what draws diagrams, where there are some."""
    if tree and any('class="mermaid"' in each.astext() for each in tree.findall(nodes.raw)):
        app.add_js_file("mermaid.tiny.js")
        app.add_js_file(None, body="mermaid.initialize({startOnLoad: true, theme: 'neutral'})")


def setup(app: Sphinx) -> None:
    """Tell Sphinx of the three."""
    app.add_directive("mermaid", Mermaid)
    app.connect("source-read", add_contents)
    app.connect("html-page-context", add_mermaid)
