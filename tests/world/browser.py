"""A real browser: Debian's Chromium, driven by Playwright, and axe-core to judge what it shows. What is missing is
skipped with its reason; never in continuous integration."""

import contextlib
import fcntl
import os
import shutil
import subprocess
from collections.abc import Generator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.node import NodeMissing, find_node

_HERE = Path(__file__).parent / "axe"
_INSTALL_SECONDS = 300
_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
_RUN = "tags => axe.run({runOnly: {type: 'tag', values: tags}})"

LOOKS = [
    pytest.param(scheme, *size, marks=[] if (scheme, size) in everyday else [pytest.mark.long])
    for everyday in [{("light", (1000, 1)), ("dark", (320, 1))}]
    for scheme in ("light", "dark")
    for size in ((1000, 1), (320, 1), (640, 2))
]
"""Colours, width in pixels and zoom. Every day, each of the colours and of the layouts once: neither knows the other,
and a zoomed page is a narrow one."""


def _missing(what: str) -> None:
    if os.environ.get("CI"):
        pytest.fail(f"{what} is missing")
    pytest.skip(f"{what} is missing")


@contextlib.contextmanager
def chromium() -> Generator[Any]:
    """A browser, until the end."""
    found = shutil.which("chromium")
    if found is None:
        _missing("Chromium")
    with contextlib.suppress(ImportError):
        from playwright.sync_api import sync_playwright  # noqa: PLC0415 - it may be missing

        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
            try:
                yield browser
            finally:
                browser.close()
        return
    _missing("Playwright")


_SETTLE = """
new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done))).then(() => Promise.all(
  document.getAnimations().filter(each => each.effect.getComputedTiming().endTime < Infinity)
    .map(each => each.finished.catch(() => 0)))).then(() => true)
"""


@cache
def axe() -> str:
    """The text of axe-core, installed from its lock file."""
    try:
        node = find_node()
    except NodeMissing:
        _missing("Node with npm")
        raise
    with (_HERE / "package.json").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in several processes, and each may be the first
        script = _HERE / "node_modules" / "axe-core" / "axe.min.js"
        if not script.exists():
            install = [*node.npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
            subprocess.run(install, cwd=_HERE, check=True, timeout=_INSTALL_SECONDS, stdout=subprocess.DEVNULL)
    return script.read_text("utf-8")


def faults(page: Any) -> list[str]:
    """What axe finds wrong on a page as it stands (WCAG 2.2 AA, and good practice), once no color is changing."""
    page.evaluate(_SETTLE)
    page.evaluate(axe())
    found = page.evaluate(_RUN, _TAGS)["violations"]
    return [f"{each['id']}: {node['html'][:200]}" for each in found for node in each["nodes"]]
