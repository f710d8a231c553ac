"""The tutorial of `accredit up` is followed as it is written, in a home of the test's own."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.world.command import environment
from tests.world.mail import mail_server
from tests.world.raw_server import PATIENCE
from tests.world.up import PASSPHRASE, Newcomer
from tests.world.warm import path

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs/tutorial/one-command.md"
BLOCK = re.compile(r"```(console|text)\n(.*?)```", re.DOTALL)


def test_the_tutorial_of_one_command_does_what_it_says(tmp_path: Path, free_port: Callable[[], int]) -> None:
    person = Newcomer(tmp_path, free_port())
    with mail_server(tmp_path) as url:
        text = PAGE.read_text("utf-8").replace("http://127.0.0.1:9000/mcp", url).replace("8484", str(person.port))
        blocks = [(kind, body.strip()) for kind, body in BLOCK.findall(text)]
        _, up, inbox, send, look = [body for kind, body in blocks if kind == "console"]
        allowed, refused = [body for kind, body in blocks if kind == "text"]

        def typed(commands: str) -> "subprocess.CompletedProcess[str]":
            return subprocess.run(
                ["sh", "-c", commands], cwd=person.work, env=environment({**person.env, "PATH": path()}),
                capture_output=True, text=True, timeout=PATIENCE, check=False, stdin=subprocess.DEVNULL,
            )  # fmt: skip

        assert up == f"accredit up {url}"
        first_screen = (PAGE.parents[2] / "README.md").read_text("utf-8").partition("\n## Protect a server")[0]
        assert up.replace(url, "http://127.0.0.1:9000/mcp") in first_screen
        with person.terminal("up", url, "--port", str(person.port)) as terminal:
            for prompt in ("New passphrase", "once more"):
                terminal.wait_for(prompt)
                terminal.types(f"{PASSPHRASE}\n")
            terminal.wait_for("up: http")
            assert typed(inbox).stdout.strip() == allowed
            assert refused in typed(send).stderr
            looked = typed(look)
            assert (looked.returncode, "send_email" in looked.stdout) == (0, True), looked
            terminal.types("\x03")
            assert terminal.end() == 0, terminal.seen
        with person.terminal("up", url) as terminal:
            terminal.wait_for("up: http")
            assert "passphrase" not in terminal.seen
            terminal.types("\x03")
            assert terminal.end() == 0, terminal.seen
