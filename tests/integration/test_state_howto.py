"""The how-to about state between rounds is done here as it is written; its server is the example."""

import re
import subprocess
from pathlib import Path

import pytest
from tests.world.command import environment
from tests.world.raw_server import PATIENCE
from tests.world.warm import path

from accredit.rounds.sealing import _MAX_TEXT

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/how-to/keep-state-in-a-round.md").read_text("utf-8")
BLOCK = re.compile(r"(?:`(\w+\.py)`:\n\n)?```(console|text|python)\n(.*?)```", re.DOTALL)


def test_the_how_to_does_what_it_says(tmp_path: Path) -> None:
    printed, promises = "", 0
    for name, kind, body in BLOCK.findall(PAGE):
        if kind == "python":
            (tmp_path / name).write_text(body, "utf-8")
        elif kind == "console":
            done = subprocess.run(
                ["bash", "-ec", body], cwd=tmp_path, env=environment({"PATH": path()}), stdin=subprocess.DEVNULL,
                capture_output=True, text=True, timeout=2 * PATIENCE, check=False,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            printed = done.stdout
        else:
            assert body in printed
            promises += 1
    assert promises == 2
    assert (ROOT / "examples/stateful_server.py").read_text("utf-8") in PAGE


def test_the_length_that_the_page_names_is_the_one_that_is_read() -> None:
    assert f"at most {round(_MAX_TEXT, -4) // 1000} KB" in PAGE
