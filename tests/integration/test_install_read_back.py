"""The entry that `accredit install` has written, as hosts' own programs read it (npm has them).

Those that are not on the path are skipped: `npm install @anthropic-ai/claude-code @openai/codex @google/gemini-cli`.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.world import adopting
from tests.world.command import accredit, environment
from tests.world.up import Newcomer, Up

pytestmark = pytest.mark.long

LISTED = {
    "claude-code": ["claude", "mcp", "get", "mail"],
    "codex": ["codex", "mcp", "get", "mail", "--json"],
    "gemini": ["gemini", "mcp", "list"],
}


URL = "http://127.0.0.1:8484/mcp"


@pytest.mark.parametrize(("host", "by_itself"), [*((host, False) for host in LISTED), ("claude-code", True)])
def test_the_host_s_own_program_reads_the_entry(host: str, by_itself: bool, tmp_path: Path) -> None:
    program, *words = LISTED[host]
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not on the path")
    folders = dict.fromkeys(("XDG_CONFIG_HOME", "XDG_STATE_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR"), "")
    home = {"HOME": str(tmp_path), **folders}
    env = {**home, "PATH": os.environ["PATH"] if by_itself else "/usr/bin:/bin"}
    done = accredit("install", host, "--url", URL, "--name", "mail", "--yes", folder=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    assert ("by: " in done.stdout) is by_itself
    read = subprocess.run(
        [found, *words], check=True, capture_output=True, text=True, cwd=tmp_path, timeout=120,
        stdin=subprocess.DEVNULL, env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]},
    )  # fmt: skip
    told = read.stdout + read.stderr
    assert "mail" in told
    assert "stdio" in told
    assert URL in told
    if host == "claude-code":
        assert "300000" in told


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
