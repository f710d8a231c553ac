"""The how-to about observing first is done here as it is written: its commands are run beside a gateway that serves."""

import re
import subprocess
from pathlib import Path

import pytest
from tests.world.command import Serving, environment, wait_until
from tests.world.reloading import told
from tests.world.warm import path, python

pytestmark = pytest.mark.slow

MAIL_SERVER = Path(__file__).parents[2] / "examples/mail_server.py"
PAGE = (Path(__file__).parents[2] / "docs/how-to/observe-first.md").read_text("utf-8")
BLOCK = re.compile(r"```(console|text|toml)\n(.*?)```", re.DOTALL)


@pytest.mark.timeout(300)
def test_the_how_to_does_what_it_says(tmp_path: Path) -> None:
    printed, promises, gateway = "", 0, None
    try:
        for kind, body in BLOCK.findall(PAGE):
            if kind == "toml" and "[proofs]" in body:
                command = f'command = ["{python()}", "{MAIL_SERVER}"]'
                text = body.replace('command = ["python", "mail_server.py"]', command)
                assert text != body
                (tmp_path / "accredit.toml").write_text(text, "utf-8")
                gateway = Serving("--config", "accredit.toml", folder=tmp_path)
                gateway.__enter__()
            elif kind == "console":
                printed = _run(body, gateway, tmp_path)
            elif kind == "text":
                assert body.strip() in re.sub(r"^# \d.*\n", "", printed, flags=re.MULTILINE), printed
                promises += 1
        assert gateway is not None
        assert promises == 4
        assert "ada@example.org" in printed
        refused = _run("accredit call search --arg word=bug --url http://127.0.0.1:8484/mcp || true", gateway, tmp_path)
        assert "no tool search is listed" in refused
        assert told(tmp_path).done == 1
    finally:
        if gateway is not None:
            gateway.__exit__(None, None, None)


def _run(commands: str, gateway: Serving | None, folder: Path) -> str:
    """What they print, and how far they come: the first that fails is the last."""
    script = commands if gateway is None else commands.replace(":8484", f":{gateway.port}")
    done = subprocess.run(
        ["bash", "-ec", script], cwd=folder, env=environment({"PATH": path()}), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, (commands, done.stdout)
    if "accredit reload" in commands:
        wait_until(lambda: told(folder).done >= 1)
    return done.stdout
