"""Claude Desktop is not edited while it runs, and Claude Code is asked in its own words."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from accredit.errors import ConfigurationError
from accredit.hosts.programs import check_not_running, claude_add, claude_program, claude_remove, run_program


@pytest.mark.skipif(sys.platform != "linux", reason="processes have another name elsewhere")
def test_the_file_of_a_claude_desktop_that_runs_is_not_edited__it_would_write_over_it(tmp_path: Path) -> None:
    program = tmp_path / "claude-desktop"
    shutil.copy(shutil.which("sleep") or "/bin/sleep", program)
    check_not_running("claude-desktop")
    with subprocess.Popen([program, "600"]) as process:
        try:
            while Path(f"/proc/{process.pid}/comm").read_text() != "claude-desktop\n":
                pass  # it has its name a moment after it has begun
            with pytest.raises(ConfigurationError, match="quit it"):
                check_not_running("claude-desktop")
            check_not_running("cursor")
        finally:
            process.kill()
    check_not_running("claude-desktop")


def test_claude_is_found_on_the_path__but_not_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "claude"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert claude_program({"PATH": str(tmp_path)}) == str(program)
    assert claude_program({"PATH": "/nowhere"}) is None
    monkeypatch.chdir(tmp_path)
    assert claude_program({"PATH": "."}) is None


def test_its_commands_are_for_all_projects_of_the_user() -> None:
    assert claude_add("/c", "mail", {"command": "x"}) == [
        "/c", "mcp", "add-json", "--scope", "user", "mail", '{"command": "x"}',
    ]  # fmt: skip
    assert claude_remove("/c", "mail") == ["/c", "mcp", "remove", "--scope", "user", "mail"]


def test_a_program_that_fails_is_told(tmp_path: Path) -> None:
    run_program(["/bin/sh", "-c", "exit 0"])
    with pytest.raises(ConfigurationError, match="failed: no such thing"):
        run_program(["/bin/sh", "-c", "echo no such thing >&2; exit 3"])
    with pytest.raises(ConfigurationError, match="can't be run"):
        run_program([str(tmp_path / "nothing")])
