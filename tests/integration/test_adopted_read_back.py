"""Claude Code's own program starts the servers that were adopted, through the gateway (npm has it; else skipped)."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.world import adopting
from tests.world.command import environment
from tests.world.up import Newcomer, Up

pytestmark = pytest.mark.long


def test_claude_code_finds_its_servers_behind_the_gateway(tmp_path: Path, free_port: Callable[[], int]) -> None:
    program = shutil.which("claude")
    if program is None:
        pytest.skip("claude is not on the path")
    person = Newcomer(tmp_path, free_port())
    del person.env["CLAUDE_CONFIG_DIR"]
    person.env |= {"ACCREDIT_GATEWAY__PORT": str(person.port), "PATH": os.environ["PATH"]}

    def claude(*words: str) -> str:
        done = subprocess.run(
            [program, "mcp", *words], check=True, capture_output=True, text=True, cwd=person.work, timeout=120,
            stdin=subprocess.DEVNULL, env=environment(person.env),
        )  # fmt: skip
        return done.stdout

    claude("add", "mail", "--scope", "user", "--env", "TOKEN=s3cret", "--", sys.executable, adopting.__file__)
    assert "Connected" in claude("list")
    config = str(person.home / "accredit/accredit.toml")
    secret = ("--passphrase-file", str(person.secret))
    done = person.run("install", "claude-code", "--adopt", "--config", config, "--yes", *secret)
    assert done.returncode == 0, done.stderr
    with Up(person, ["up", "--no-browser", "--config", config, *secret]):
        told = claude("list")
    assert "accredit connect" in told
    assert "Connected" in told
    assert "s3cret" not in (person.home / ".claude.json").read_text()
    restored = person.run("uninstall", "claude-code", "--name", "mail", "--yes")
    assert restored.returncode == 0, restored.stderr
    assert "TOKEN=s3cret" in claude("get", "mail")
