"""The entry that `accredit install` has written, as hosts' own programs read it (npm has them).

Those that are not on the path are skipped: `npm install @anthropic-ai/claude-code @openai/codex @google/gemini-cli`.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.world.command import accredit

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
