"""The how-to about delegation is done here as it is written: its commands are run, what it promises is compared."""

import re
import subprocess
from pathlib import Path

import pytest
from tests.world.command import environment, with_nobody_to_ask
from tests.world.warm import path

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[2] / "docs/how-to/delegate.md").read_text("utf-8")
BLOCK = re.compile(r"```(console|text|python)\n(.*?)```", re.DOTALL)


def without_what_changes(text: str) -> str:
    """Ids, times and the width of columns differ from run to run; so do the seconds that passed."""
    text = re.sub(r"\b[0-9a-f]{32}\b", "ID", text)
    text = re.sub(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME", text)
    text = re.sub(r"signed (now|\d+ seconds? ago)", "signed now", text)
    text = text.replace("in 29 days", "in 30 days").replace("in 23 hours", "in 1 day")
    return " ".join(text.split())


@pytest.mark.timeout(300)
def test_the_how_to_does_what_it_says(tmp_path: Path) -> None:
    printed = ""
    promises = 0
    for kind, body in BLOCK.findall(PAGE):
        if kind == "python":
            (tmp_path / "prove.py").write_text(body, "utf-8")
        elif kind == "console":
            done = subprocess.run(
                ["bash", "-c", with_nobody_to_ask(body)], cwd=tmp_path, env=environment({"PATH": path()}),
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120,
                check=False,
            )  # fmt: skip
            printed = without_what_changes(done.stdout)
        else:
            assert without_what_changes(body) in printed
            promises += 1
    assert promises == 6
    assert not (tmp_path / "more.json").exists()
