"""`accredit install` and `uninstall` as processes: what they write, whom they ask, and what a death half-way leaves."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.world import dying
from tests.world.command import accredit, environment
from tests.world.raw_server import PATIENCE
from tests.world.terminal import Terminal
from tests.world.warm import COMMAND, Warm

pytestmark = [
    pytest.mark.slow,
    pytest.mark.holds("setup/install"),
    pytest.mark.holds("setup/install_entry"),
    pytest.mark.holds("cli/commands/hosts"),
]
URL = "http://127.0.0.1:8484/mcp"
THEIRS = '{\n  // of mine\n  "mcpServers": {\n    "files": {"command": "npx", "env": {"TOKEN": "s3cret"}},\n  }\n}\n'


class Home:
    """A home folder without any program of a host on the path."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "home"
        self.folder.mkdir()
        self.cursor = self.folder / ".cursor/mcp.json"
        self.env = {
            "HOME": str(self.folder), "PATH": "/nowhere", "XDG_CONFIG_HOME": "", "XDG_STATE_HOME": "",
            "CLAUDE_CONFIG_DIR": "", "CODEX_HOME": "",
        }  # fmt: skip

    def run(self, *words: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Runs a command in the home folder, or another one."""
        return accredit(*words, folder=folder or self.folder, env=self.env)

    def theirs(self, text: str = THEIRS) -> Path:
        """Cursor's file, as somebody has written it."""
        self.cursor.parent.mkdir(exist_ok=True)
        self.cursor.write_text(text)
        return self.cursor


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def words_in(file: Path, table: str = "mcpServers", name: str = "mail") -> list[str]:
    """The command of an entry in a file without comments."""
    entry: dict[str, Any] = json.loads(file.read_text())[table][name]
    return [entry["command"], *entry["args"]]


def test_into_a_file_of_others_goes_one_entry__and_out_of_it_again_without_a_trace(home: Home) -> None:
    file = home.theirs()
    done = home.run("install", "cursor", "--url", URL, "--name", "mail", "--yes")
    assert done.returncode == 0, done.stderr
    new = file.read_text()
    assert new.startswith(THEIRS.removesuffix("  }\n}\n"))
    assert new.endswith("\n  }\n}\n")
    assert "s3cret" not in done.stdout + done.stderr
    again = home.run("install", "cursor", "--url", URL, "--name", "mail", "--yes")
    assert (again.returncode, "nothing to do" in again.stdout) == (0, True)
    assert len(list(file.parent.iterdir())) == 2
    done = home.run("uninstall", "cursor", "--yes")
    assert (done.returncode, file.read_text()) == (0, THEIRS), done.stderr


def test_the_entry_has_whole_paths_and_nothing_secret(home: Home) -> None:
    own = home.folder / ".config/accredit"
    own.mkdir(parents=True)
    assert home.run("keys", "new", str(own / "agent.key"), "--kind", "agent", "--name", "A").returncode == 0
    (own / "delegation.json").write_text("{}")
    done = home.run("install", "cursor", "--url", URL, "--name", "mail", "--yes")
    assert (done.returncode, "names no key" in done.stderr) == (0, False)
    command, *rest = words_in(home.cursor)
    assert Path(command).is_absolute()
    assert os.access(command, os.X_OK)
    assert rest[-9:] == [
        "connect", URL, "--key", str(own / "agent.key"), "--delegation", str(own / "delegation.json"),
        "--ask", "auto", "--hold", "240",
    ][-9:]  # fmt: skip
    assert json.loads((own / "agent.key").read_text())["seed"]["ed25519"] not in home.cursor.read_text()
    for url in (
        "http://ada:pw@127.0.0.1/mcp",
        f"{URL}?key=1",
        f"{URL}#x",
        "ftp://x/",
        "http://",
        "http://[",
        "http://h:x/mcp",
        "http://h:99999/mcp",
        "http://h:0/mcp",
        f"{URL} x",
    ):
        refused = home.run("install", "cursor", "--url", url, "--name", "other", "--yes")
        assert (refused.returncode, "other" in home.cursor.read_text()) == (2, False), url
        assert home.run("install", "cursor", "--url", url, "--yes").returncode == 2  # nor does it give a name


def test_without_a_terminal_nothing_is_written_that_nobody_agreed_to(home: Home) -> None:
    file = home.theirs()
    refused = home.run("install", "cursor", "--url", URL, "--name", "mail")
    assert (refused.returncode, "--yes" in refused.stderr, file.read_text()) == (2, True, THEIRS)
    shown = home.run("install", "cursor", "--url", URL, "--name", "mail", "--dry-run")
    assert (shown.returncode, '"mail"' in shown.stdout, file.read_text()) == (0, True, THEIRS)
    assert os.listdir(file.parent) == ["mcp.json"]
    assert home.run("install", "cursor", "--url", URL, "--name", "mail", "--yes").returncode == 0
    held = file.read_text()
    refused = home.run("uninstall", "cursor")
    assert (refused.returncode, file.read_text()) == (2, held)


def test_a_server_of_that_name_that_is_somebody_else_s_is_left_alone(home: Home) -> None:
    file = home.theirs()
    for words in (
        ["install", "cursor", "--url", URL, "--name", "files"],
        ["uninstall", "cursor", "--name", "files"],
        ["uninstall", "cursor"],
        ["uninstall", "cursor", "--name", "nothing"],
        ["uninstall", "cursor", "--name", "files", "--restore"],
        ["uninstall", "zed"],
    ):
        refused = home.run(*words, "--yes")
        assert (refused.returncode, file.read_text()) == (2, THEIRS), words
    assert os.listdir(file.parent) == ["mcp.json"]


def test_a_file_that_was_made_goes__and_the_whole_one_is_put_back_where_that_is_asked_for(home: Home) -> None:
    assert home.run("install", "cursor", "--url", URL, "--yes").returncode == 0
    assert words_in(home.cursor, name="accredit")[1] == "connect"
    assert home.run("uninstall", "cursor", "--yes").returncode == 0
    assert not home.cursor.exists()
    file = home.theirs()
    assert home.run("install", "cursor", "--url", URL, "--yes").returncode == 0
    file.write_text("{ // all else is lost\n" + file.read_text()[1:])
    done = home.run("uninstall", "cursor", "--restore", "--yes", "--json")
    assert (done.returncode, file.read_text()) == (0, THEIRS), done.stderr
    assert "all else is lost" in Path(json.loads(done.stdout)["backup"]).read_text()


def test_a_broken_file_is_not_touched__and_the_list_says_so(home: Home) -> None:
    file = home.theirs("{ broken")
    done = home.run("install", "cursor", "--url", URL, "--yes")
    assert (done.returncode, "line 1" in done.stderr, file.read_text()) == (2, True, "{ broken")
    listed = json.loads(home.run("install", "--list", "--json").stdout)["hosts"]
    (cursor,) = [each for each in listed if each["host"] == "cursor"]
    assert (cursor["found"], cursor["installed"], "line 1" in cursor["problem"]) == (True, False, True)
    assert len(listed) == 12
    assert not [each for each in listed if each["host"] != "cursor" and each["found"] and each["host"] != "claude-code"]


def test_the_list_tells_which_entries_do_not_work_any_more(home: Home) -> None:
    gone = home.folder / "gone/accredit"
    words = {"good": "installed", "stale": "stale"}
    for name, command in (("good", COMMAND[0]), ("stale", str(gone))):
        entry = {"command": command, "args": ["-m", "accredit", "connect"] if name == "good" else ["connect", URL]}
        home.theirs(json.dumps({"mcpServers": {name: entry, "theirs": {"url": "http://x"}}}))
        listed = json.loads(home.run("install", "--list", "--json").stdout)["hosts"]
        (cursor,) = [each for each in listed if each["host"] == "cursor"]
        assert [(each["name"], each["state"]) for each in cursor["entries"]] == [(name, words[name])]
        assert cursor["stale"] is (name == "stale")
    assert f"stale is stale: there is no {gone}" in home.run("install", "--list").stdout


def test_the_name_and_the_endpoint_are_the_configuration_s(home: Home, tmp_path: Path) -> None:
    config = tmp_path / "accredit.toml"
    config.write_text('[upstream]\nurl = "http://127.0.0.1:9/mcp"\n[gateway]\nid = "Mail gate"\nport = 8499\n')
    assert home.run("install", "cursor", "--config", str(config), "--yes").returncode == 0
    assert words_in(home.cursor, name="Mail-gate")[-5] == "http://127.0.0.1:8499/mcp"
    servers = '[servers.mail]\nurl = "http://127.0.0.1:9/mcp"\n[gateway]\nhost = "::"\n'
    config.write_text('[servers.files]\nurl = "http://127.0.0.1:8/mcp"\n' + servers)
    refused = home.run("install", "cursor", "--config", str(config), "--yes")
    assert (refused.returncode, "--server files" in refused.stderr) == (2, True)
    config.write_text(servers)
    assert home.run("install", "cursor", "--config", str(config), "--yes").returncode == 0  # the only one
    assert home.run("install", "cursor", "--config", str(config), "--server", "mail", "--yes").returncode == 0
    config.write_text(servers + '[servers.shop]\nprotocol = "http"\nurl = "http://127.0.0.1:7"\npath = "/shop"\n')
    refused = home.run("install", "cursor", "--config", str(config), "--server", "shop", "--yes")
    assert (refused.returncode, "this is about MCP servers" in refused.stderr) == (2, True)
    assert words_in(home.cursor)[-5] == "http://[::1]:8484/mcp/mail"
    config.write_text(servers + "merge = true\nport = 0\n")
    assert home.run("install", "cursor", "--config", str(config), "--yes").returncode == 2
    assert home.run("install", "cursor", "--yes").returncode == 2
    assert home.run("install", "cursor", "--url", URL, "--config", str(config), "--yes").returncode == 2
    assert home.run("install", "cursor", "--url", URL, "--name", "no name", "--yes").returncode == 2
    assert home.run("install", "--list", "cursor").returncode == 2
    assert home.run("install").returncode == 2


def test_a_project_has_a_file_of_its_own(home: Home, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    for host, file, table in (
        ("claude-code", ".mcp.json", "mcpServers"),
        ("cursor", ".cursor/mcp.json", "mcpServers"),
        ("vscode", ".vscode/mcp.json", "servers"),
    ):
        done = home.run("install", host, "--url", f"{URL}/mail", "--project", "--yes", folder=project)
        assert done.returncode == 0, done.stderr
        assert words_in(project / file, table)[1] == "connect"
        assert home.run("uninstall", host, "--project", "--yes", folder=project).returncode == 0
        assert not (project / file).exists()
    refused = home.run("install", "zed", "--url", URL, "--project", "--yes", folder=project)
    assert (refused.returncode, "zed has no file for a project" in refused.stderr) == (2, True)


def test_claude_code_writes_its_file_itself_where_its_program_is_there(home: Home, tmp_path: Path) -> None:
    program = tmp_path / "bin/claude"
    program.parent.mkdir()
    entry = '{"mcpServers": {"mail": %s}}'
    program.write_text(
        f'#!/bin/sh\necho "$@" >> {shlex.quote(str(tmp_path / "said"))}\n'
        f"case $2 in add-json) printf '{entry}' \"$6\" > ~/.claude.json;; *) echo '{{}}' > ~/.claude.json;; esac\n"
    )
    program.chmod(0o755)
    home.env["PATH"] = f"{program.parent}:/usr/bin:/bin"
    done = home.run("install", "claude-code", "--url", URL, "--name", "mail", "--yes")
    assert done.returncode == 0, done.stderr
    assert words_in(home.folder / ".claude.json")[1:3] == ["connect", URL]
    assert home.run("uninstall", "claude-code", "--yes").returncode == 0
    said = (tmp_path / "said").read_text().splitlines()
    assert said[0].startswith("mcp add-json --scope user mail {")
    assert said[1:] == ["mcp remove --scope user mail"]
    program.write_text("#!/bin/sh\nexit 0\n")
    done = home.run("install", "claude-code", "--url", URL, "--name", "mail", "--yes")
    assert (done.returncode, "does not hold what it should" in done.stderr) == (2, True)


@pytest.mark.parametrize("before", [THEIRS, None])
def test_killed_at_any_moment_it_leaves_the_old_file_or_the_new_one(before: str | None, home: Home) -> None:
    home.cursor.parent.mkdir()
    words = ["install", "cursor", "--url", URL, "--name", "mail", "--yes"]
    found: list[bytes | None] = []
    for number in range(1, 40):
        for each in home.cursor.parent.iterdir():
            each.unlink()
        if before is not None:
            home.theirs(before)
        with Warm(
            [sys.executable, dying.__file__, str(home.cursor.parent), str(number), *words],
            cwd=home.folder, env=environment(home.env), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        ) as process:  # fmt: skip
            _, stderr = process.communicate(timeout=PATIENCE)
        found.append(home.cursor.read_bytes() if home.cursor.exists() else None)
        if process.returncode == 0:
            break
        assert process.returncode == -9, stderr
    else:
        pytest.fail("it never came to its end")
    old = None if before is None else before.encode()
    assert number > 4
    assert set(found) == {old, found[-1]}
    assert found[0] == old
    assert b'"mail"' in (found[-1] or b"")


def test_at_a_terminal_a_person_is_asked__and_no_is_what_a_line_s_end_means(home: Home) -> None:
    words = ("install", "cursor", "--url", URL, "--name", "mail")
    for answer, code in (("\n", 1), ("y\n", 0)):
        with Terminal(*words, folder=home.folder, env=home.env) as terminal:
            terminal.wait_for(r"Write this\?")
            assert not home.cursor.exists()
            terminal.types(answer)
            terminal.wait_for("nothing was changed" if code else "wrote")
            assert terminal.end() == code
    assert words_in(home.cursor)[1:]
