"""The tab key in the real shells, in a terminal: what it completes is run, and what hostile names say is not."""

import json
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.world.command import accredit
from tests.world.terminal import Terminal
from tests.world.warm import COMMAND

pytestmark = [pytest.mark.slow, pytest.mark.holds("cli/actions/completion")]

STARTS = {
    "bash": ("bash", "--norc", "--noprofile", "-i"),
    "zsh": ("zsh", "-f", "-i"),
    "fish": ("fish", "--no-config", "-i"),
}
PROMPT = "ready> "
PROMPTS = {
    "bash": f"PS1='{PROMPT[:3]}''{PROMPT[3:]}'; bind 'set enable-bracketed-paste off'; bind 'set bell-style none'",
    "zsh": f"unsetopt zle_bracketed_paste beep; PS1='{PROMPT[:3]}''{PROMPT[3:]}'",
    "fish": f"function fish_prompt; printf %s%s '{PROMPT[:3]}' '{PROMPT[3:]}'; end",
}
"""Set so that what is typed to set it is not taken for it."""
HOSTILE = "$(touch pwned)"
SERVERS = f'[servers.mail]\nurl = "x"\n[servers."{HOSTILE}"]\nurl = "x"\n[servers."`touch pwned`"]\nurl = "x"\n'


class Typed:
    """A shell in which an `accredit` writes down what it is run with, but for `completion`, which is the real one's."""

    def __init__(self, shell: str, folder: Path) -> None:
        self.shell, self.folder = shell, folder
        own = folder / "bin"
        own.mkdir()
        (own / "accredit").write_text(
            f"#!{sys.executable}\nimport json, os, sys\n"
            f"if sys.argv[1] == 'completion':\n    os.execv({COMMAND[0]!r}, [*{[*COMMAND]!r}, *sys.argv[1:]])\n"
            "with open(os.environ['SEEN'], 'a') as seen:\n    seen.write(json.dumps(sys.argv[1:]) + '\\n')\n"
        )
        (own / "accredit").chmod(0o755)
        self.seen = folder / "seen"
        self.work = folder / "work"
        self.work.mkdir()
        (folder / "home").mkdir()
        done = accredit("completion", shell, folder=folder)
        assert (done.returncode, done.stderr) == (0, "")
        self.script = folder / "script"
        self.script.write_text(done.stdout)

    def runs(self, *lines: str, installed: bool = False) -> Sequence[Sequence[str]]:
        """What `accredit` was run with, when these lines were typed; `\\t` is the tab key. If it is installed, the
        shell starts with its user's files."""
        env = {
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}", "SEEN": str(self.seen), "TERM": "dumb",
            "HOME": str(self.folder / "home"), "XDG_CONFIG_HOME": str(self.folder / "home"), "COLUMNS": "200",
        }  # fmt: skip
        command = (self.shell, "-i") if installed else STARTS[self.shell]
        with Terminal(folder=self.work, env=env, command=command) as terminal:
            terminal.types(f"{PROMPTS[self.shell]}\n")
            terminal.wait_for(PROMPT)
            if not installed:
                terminal.types(f". {shlex.quote(str(self.script))}\n")
                terminal.wait_for(PROMPT)
            for line in lines:
                terminal.types(f"{line}\n")
                terminal.wait_for(PROMPT)
            terminal.types("exit\n")
            terminal.end()
        assert not (self.work / "pwned").exists(), terminal.seen
        return [json.loads(line) for line in self.seen.read_text().splitlines()] if self.seen.exists() else []


@pytest.fixture(params=STARTS)
def typed(request: pytest.FixtureRequest, tmp_path: Path) -> Typed:
    shell = str(request.param)
    if shutil.which(shell) is None:
        if os.environ.get("CI"):
            pytest.fail(f"{shell} is not installed")
        pytest.skip(f"{shell} is not installed (Debian: apt-get install {shell})")
    return Typed(shell, tmp_path)


def test_commands_options_and_values_are_completed(typed: Typed) -> None:
    assert typed.runs("accredit unins\tcurs\t--dry\t", "accredit log sho\tabc", "accredit serve --log-l\tdeb\t") == [
        ["uninstall", "cursor", "--dry-run"], ["log", "show", "abc"], ["serve", "--log-level", "debug"],
    ]  # fmt: skip


def test_one_command_installs_it__and_a_second_time_changes_nothing(typed: Typed) -> None:
    home = typed.folder / "home"
    startup = home / f".{typed.shell}rc"
    if typed.shell != "fish":
        startup.write_text("export MINE=1 # no end of line", "utf-8")
    env = {"HOME": str(home), "XDG_CONFIG_HOME": str(home)}
    for _ in range(2):
        done = accredit("completion", typed.shell, "--install", folder=typed.work, env=env)
        assert (done.returncode, done.stderr) == (0, "")
    if typed.shell != "fish":
        script = home / f"accredit/completion.{typed.shell}"
        assert startup.read_text("utf-8") == f"export MINE=1 # no end of line\n. {script}\n"
    assert typed.runs("accredit unins\tcurs\t", installed=True) == [["uninstall", "cursor"]]


def test_values_behind_an_equals_sign_are_completed(typed: Typed) -> None:
    assert typed.runs("accredit serve --log-level=warn\t") == [["serve", "--log-level=warning"]]


def test_files_are_the_shell_s_own(typed: Typed) -> None:
    (typed.work / "a file.json").touch()
    (typed.work / "other.toml").touch()
    assert typed.runs("accredit inspect a\t", "accredit serve --config oth\t", "accredit serve -- a\t") == [
        ["inspect", "a file.json"], ["serve", "--config", "other.toml"], ["serve", "--", "a file.json"],
    ]  # fmt: skip


def test_the_name_of_a_file_is_never_run(typed: Typed) -> None:
    (typed.work / f"z{HOSTILE}; touch pwned").touch()
    assert typed.runs("accredit inspect z\t") == [["inspect", f"z{HOSTILE}; touch pwned"]]


def test_the_name_of_a_server_is_never_run__and_only_a_plain_one_is_offered(typed: Typed) -> None:
    (typed.work / "accredit.toml").write_text(SERVERS)
    assert typed.runs("accredit wrap --server \t") == [["wrap", "--server", "mail"]]


def test_what_stands_on_the_line_is_not_run_to_complete_it(typed: Typed) -> None:
    assert typed.runs("accredit wrap '$(touch pwned)' --serv\tx") == [["wrap", HOSTILE, "--server", "x"]]


def test_a_program_of_the_current_folder_is_not_run_to_complete_its_line(typed: Typed) -> None:
    own = typed.work / "accredit"
    own.write_text('#!/bin/sh\n[ "$1" = completion ] && touch pwned\necho "[\\"$1\\"]" >> "$SEEN"\n')
    own.chmod(0o755)
    assert [each[0] for each in typed.runs("./accredit serve --log-l\tx")] == ["serve"]
