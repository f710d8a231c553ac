"""The how-to for a server's author is done here as it is written; what its examples print is what it promises."""

import re
import subprocess
from pathlib import Path

import pytest
from tests.world.command import environment, with_nobody_to_ask
from tests.world.raw_server import PATIENCE
from tests.world.warm import path

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/how-to/server-author.md").read_text("utf-8")
BLOCK = re.compile(r"(?:`(\w+\.py)`[^\n]*\n(?:[^\n`]+\n)*\n)?```(console|text|python)\n(.*?)```", re.DOTALL)


def done(folder: Path, command: str) -> str:
    """Runs a command; what it printed on stdout."""
    return subprocess.run(
        ["bash", "-ec", with_nobody_to_ask(command)], cwd=folder, env=environment({"PATH": path()}),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, timeout=2 * PATIENCE, check=True,
    ).stdout  # fmt: skip


def test_the_how_to_does_what_it_says(tmp_path: Path) -> None:
    printed = ""
    promises = 0
    for name, kind, body in BLOCK.findall(PAGE):
        if kind == "python":
            assert name
            (tmp_path / name).write_text(body, "utf-8")
        elif kind == "console":
            printed = done(tmp_path, body)
        else:
            assert body in printed
            promises += 1
    assert promises == 5


@pytest.mark.parametrize("name", ["guarded_server.py", "guarded_lowlevel.py"])
def test_the_servers_of_the_how_to_are_the_examples(name: str) -> None:
    assert (ROOT / "examples" / name).read_text("utf-8") in PAGE


def test_the_fastmcp_example_answers_as_the_other_one(tmp_path: Path) -> None:
    blocks = {name: body for name, kind, body in BLOCK.findall(PAGE) if kind == "python"}
    (tmp_path / "call.py").write_text(blocks["call.py"], "utf-8")
    (tmp_path / "guarded_server.py").write_text((ROOT / "examples/guarded_fastmcp.py").read_text("utf-8"), "utf-8")
    for each in [body for _, kind, body in BLOCK.findall(PAGE) if kind == "console"][:2]:
        done(tmp_path, each)
    assert "sent to ada@example.org on the word of Owner" in done(tmp_path, "python call.py")


def test_the_server_of_the_first_page_runs_as_it_stands(tmp_path: Path) -> None:
    (first,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/start/server.md").read_text("utf-8"), re.DOTALL)
    blocks = {name: body for name, kind, body in BLOCK.findall(PAGE) if kind == "python"}
    (tmp_path / "guarded_server.py").write_text(first, "utf-8")
    (tmp_path / "call.py").write_text(blocks["call.py"], "utf-8")
    keys, _, _, grant, *_ = [body for _, kind, body in BLOCK.findall(PAGE) if kind == "console"]
    done(tmp_path, keys)
    assert "\nit may use list_inbox\nThe engine\n" in done(tmp_path, grant)
