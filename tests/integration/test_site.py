"""The site of `make docs`: its links are strict, and it is searched and read without a network, in both themes."""

import fcntl
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.world.built import ROOT
from tests.world.command import environment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

GENERATOR = Path(sys.prefix) / "docs/bin/sphinx-build"
START = ROOT / "docs/start"
SCREEN = {"width": 1280, "height": 900}
LOADED = re.compile(
    r"<(?:script|img|iframe|link|source|video|audio|object|embed)\b[^>]*?\b(?:src|href|data)=\"([^\"]+)\""
)
IN_STYLE = re.compile(r"(?:url\(|@import )\s*[\"']?([^\"')\s]+)")


def make_docs(folder: Path) -> subprocess.CompletedProcess[str]:
    """`make docs`, with the generator as it is installed."""
    command = ["make", "-o", ".venv/docs/.ready", "docs", f"SITE={folder}", f"DOCS={Path(sys.prefix) / 'docs'}"]
    return subprocess.run(
        [*command, "-o", f"{Path(sys.prefix) / 'docs'}/.ready"], cwd=ROOT, env=environment(), capture_output=True,
        text=True, timeout=590, check=False,
    )  # fmt: skip


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site. Tests run in several processes, and one of them builds it."""
    if not GENERATOR.exists():
        assert not os.environ.get("CI"), "continuous integration has the generator"
        pytest.skip("the site's generator is not installed (make docs)")
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "site"
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "index.html").exists():
            done = make_docs(folder)
            assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_is_there(site: Path) -> None:
    pages = [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]
    assert [each.name for each in pages if not (site / each.relative_to(ROOT).with_suffix(".html")).exists()] == []
    assert 'url=docs/index.html"' in (site / "index.html").read_text("utf-8")


def test_nothing_of_it_asks_another_host(site: Path) -> None:
    pages = [*site.rglob("*.html")]
    asked = {name for page in pages for name in LOADED.findall(page.read_text("utf-8"))}
    asked |= {name for sheet in site.rglob("*.css") for name in IN_STYLE.findall(sheet.read_text("utf-8"))}
    assert len(asked) > 10
    assert [name for name in asked if urlsplit(name).netloc] == []


def test_a_reader_without_a_network_finds_and_sees_everything(site: Path, browser: Any) -> None:
    context = browser.new_context(color_scheme="dark", offline=True, viewport=SCREEN)
    page = context.new_page()
    asked: list[str] = []

    def keep(request: Any) -> None:
        asked.append(request.url)

    page.on("request", keep)
    page.goto((site / "search.html").as_uri() + "?q=revocation")
    page.wait_for_selector("#search-results li a")
    page.goto((site / "docs/explanation/architecture.html").as_uri())
    page.wait_for_selector("pre.mermaid svg")
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.emulate_media(color_scheme="light")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != dark
    assert [url for url in asked if not url.startswith((site.as_uri(), "data:"))] == []
    context.close()


def test_each_reader_is_led_from_the_front_page_to_a_first_page_of_one_screen(site: Path, browser: Any) -> None:
    context = browser.new_context(viewport=SCREEN)
    page = context.new_page()
    page.goto((site / "index.html").as_uri())
    page.wait_for_url("**/docs/index.html")
    links = page.eval_on_selector_all("article table a", "all => all.map(each => each.href)")
    assert {Path(urlsplit(each).path).stem for each in links} == {each.stem for each in START.iterdir()}
    assert len(links) == 5
    heights = dict[str, float]()
    for link in [page.url, *links]:
        page.goto(link)
        box = page.eval_on_selector("article", "each => each.getBoundingClientRect().bottom")
        heights[Path(urlsplit(link).path).stem] = box
    assert {name: height for name, height in heights.items() if height > SCREEN["height"]} == {}
    context.close()


def test_a_link_that_leads_nowhere_stops_it(tmp_path: Path) -> None:
    """As `make docs` calls the generator, with a page for each part of the contents."""
    if not GENERATOR.exists():
        pytest.skip("the site's generator is not installed (make docs)")
    docs = tmp_path / "docs"
    conf = (ROOT / "docs/conf.py").read_text("utf-8")
    for name in re.findall(r'"([\w-]+)/\*"', conf):
        (docs / name).mkdir(parents=True)
        (docs / name / "page.md").write_text("# Page\n\n## Here\n")
    for name in re.findall(r'"/([\w/]+)"', conf):
        page = tmp_path / f"{name}.md"
        page.parent.mkdir(exist_ok=True)
        page.write_text("# Page\n")
    (docs / "conf.py").write_text(conf)
    (options,) = re.findall(r"sphinx-build (.*) -c docs \. \$\(SITE\)", (ROOT / "Makefile").read_text("utf-8"))

    def build(link: str) -> subprocess.CompletedProcess[str]:
        (docs / "index.md").write_text(f"# One\n\n[two]({link})\n")
        words = [str(GENERATOR), *options.split(), "-c", "docs", ".", "made"]
        return subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)

    good = build("start/page.md#here")
    assert good.returncode == 0, good.stderr
    for link in ("start/page.md#elsewhere", "start/other.md", "elsewhere/"):
        bad = build(link)
        assert (bad.returncode, link.rpartition("#")[2] in bad.stderr) == (1, True), bad.stderr
