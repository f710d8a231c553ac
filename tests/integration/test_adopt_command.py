"""A host's own servers are put behind a gateway: they go on working, nobody's credential is lost or shown, and a death
half-way leaves a host that works."""

import asyncio
import contextlib
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.world import dying
from tests.world.adopting import FORMS, SECRETS, Home, theirs
from tests.world.command import Serving, accredit, environment
from tests.world.connected import Connected
from tests.world.honest_server import HonestServer
from tests.world.raw_server import PATIENCE, Connection, RawServer
from tests.world.running import run
from tests.world.terminal import Terminal
from tests.world.warm import Warm

pytestmark = [pytest.mark.slow, pytest.mark.holds("setup/adopt")]
DEAD = "http://127.0.0.1:9/mcp"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def entries_of(file: Path) -> dict[str, Any]:
    """The entries of a file whose comments are at lines' ends."""
    text = re.sub(r"// .*", "", file.read_text())
    return json.loads(re.sub(r",(\s*[}\]])", r"\1", text))["mcpServers"]


def started(entry: dict[str, Any], gateway: Serving, folder: Path) -> Connected:
    """The entry's process, as the host would start it, but that the gateway listens somewhere else."""
    connect, url, *options = entry["args"]
    assert connect == "connect"
    return Connected(folder, re.sub(r":84\d\d/", f":{gateway.port}/", url), *options)


async def test_three_servers_go_on_working_behind_the_gateway__and_the_log_tells_the_hosts_apart(home: Home) -> None:
    def session(gateway: Serving) -> None:
        for host, names in ((home.cursor, ["Echo", "mail", "web"]), (home.desktop, ["Echo"])):
            entries = entries_of(host)
            assert list(entries) == ["Echo", "mail", "web"]
            for name in names:
                with started(entries[name], gateway, home.folder) as connected:
                    connected.initialize()
                    tools = [each["name"] for each in connected.ask("tools/list")["result"]["tools"]]
                    assert tools[0] == ("list_inbox" if name == "web" else "told")
                    told = connected.ask("tools/call", {"name": tools[0], "arguments": {}})
                    (content,) = told["result"]["content"]
                    if name != "web":
                        said = json.loads(content["text"])
                        assert said["cwd"] == str(home.folder)
                        assert said["token"] == (SECRETS[0] if name == "mail" else None)
                        assert said["args"] == (["--key", SECRETS[1], "it's"] if name == "Echo" else [])

    async with RawServer(HonestServer()) as web:
        for file in (home.cursor, home.desktop):
            file.write_bytes(theirs(web.url).encode())
        done = await asyncio.to_thread(home.adopt)
        assert done.returncode == 0, done.stderr
        assert f"accredit up --config {home.config}" in done.stdout
        again = await asyncio.to_thread(home.adopt, "claude-desktop")
        assert again.returncode == 0, again.stderr
        gateway = Serving("--config", str(home.config), folder=home.config.parent, env=home.env)
        with await asyncio.to_thread(gateway.__enter__):
            await asyncio.to_thread(session, gateway)
        headers = [dict(each.headers) for each in web.requests if b"tools/call" in each.body]
        assert [each["x-api-key"] for each in headers] == [SECRETS[2]]
    listed = home.run("log", "list", "--config", str(home.config), "--json")
    assert listed.returncode == 0, listed.stderr
    calls = [json.loads(line) for line in listed.stdout.splitlines()]
    keys = home.folder / ".config/accredit/agents"
    agents = {
        json.loads((keys / name / "agent.key.pub").read_text())["id"]: name for name in ("cursor", "claude-desktop")
    }
    assert sorted((each["server"], agents[each["agent_id"]], each["outcome"]) for each in calls) == [
        ("echo", "claude-desktop", "ok"), ("echo", "cursor", "ok"), ("mail", "cursor", "ok"), ("web", "cursor", "ok"),
    ]  # fmt: skip
    assert {(each["principal_name"], each["enforced"]) for each in calls} == {("Owner", False)}


def test_no_credential_is_shown_or_in_what_is_written_but_in_files_of_their_own(home: Home) -> None:
    home.cursor.write_text(theirs(f"{DEAD}?key={SECRETS[2]}-of-url"))
    shown = home.adopt("cursor", "--dry-run")
    assert shown.returncode == 0, shown.stderr
    assert home.cursor.read_text() == theirs(f"{DEAD}?key={SECRETS[2]}-of-url").replace("\r\n", "\n")
    assert not home.config.parent.exists()
    assert not (home.folder / ".config/accredit").exists()
    unasked = home.run("install", "cursor", "--adopt", "--config", str(home.config))
    assert (unasked.returncode, "--yes" in unasked.stderr, home.config.parent.exists()) == (2, True, False)
    done = home.adopt()
    assert done.returncode == 0, done.stderr
    assert "[servers.web]" in shown.stdout
    assert "[servers.web]" not in done.stdout, "a person who installs needs no TOML: --dry-run shows it"
    for each in (shown, done):
        assert f"{home.config}: " in each.stdout or each is shown
        assert not any(secret in each.stdout + each.stderr for secret in SECRETS)
    for path, text in home.texts().items():
        held = [secret for secret in SECRETS if secret in text]
        kept = path.endswith(".adopted") or "/secrets/" in path
        assert bool(held) is kept or path.endswith((".gitignore", str(home.config))), path
        if held:
            assert Path(path).stat().st_mode & 0o777 == 0o600
    assert [secret for secret in SECRETS if secret in home.config.read_text()] == [SECRETS[2]]
    assert (home.config.parent / "secrets").stat().st_mode & 0o777 == 0o700
    (secret,) = (home.config.parent / "secrets").glob("mail.*")
    assert secret.read_text() == f"{SECRETS[0]}\n"
    checked = home.run("config", "check", "--config", str(home.config))
    assert checked.returncode == 0, checked.stderr


def test_the_old_file_comes_back_byte_for_byte__or_one_server_of_it(home: Home) -> None:
    old = theirs(DEAD).encode()
    home.cursor.write_bytes(old)
    assert home.adopt().returncode == 0
    new = home.cursor.read_bytes()
    assert home.adopt().returncode == 0
    assert home.cursor.read_bytes() == new
    refused = home.run("uninstall", "cursor", "--yes")
    assert (refused.returncode, "--restore" in refused.stderr) == (2, True)
    for number in range(7):  # more than are kept of other edits
        added = home.run("install", "cursor", "--url", DEAD, "--name", f"n{number}", "--yes")
        assert added.returncode == 0, added.stderr
    one = home.run("uninstall", "cursor", "--name", "mail", "--yes")
    assert (one.returncode, "own server back" in one.stdout) == (0, True), one.stderr
    assert entries_of(home.cursor)["mail"]["env"] == {"TOKEN": SECRETS[0], "LOG_LEVEL": "debug"}
    restored = home.run("uninstall", "cursor", "--restore", "--yes")
    assert (restored.returncode, home.cursor.read_bytes()) == (0, old), restored.stderr
    assert "installed" not in home.run("install", "--list").stdout
    assert home.adopt().returncode == 0
    assert home.cursor.read_bytes() == new
    assert len(list((home.config.parent / "secrets").glob("[a-z]*"))) == 3


@pytest.mark.parametrize("host", FORMS)
def test_in_every_form_a_server_goes_and_comes_back(host: str, home: Home) -> None:
    name, old = FORMS[host]
    old = old.replace("PROGRAM", sys.executable)
    file = home.folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(old)
    done = home.adopt(host)
    assert done.returncode == 0, done.stderr
    new = file.read_text()
    assert "s3cret" not in new
    assert "connect" in new
    if host in ("codex", "goose"):
        assert "enabled = false" in new or "enabled: false" in new
    if host == "vscode":
        assert "set K before the gateway starts" in done.stderr
    back = home.run("uninstall", host, "--yes")
    assert back.returncode == 0, back.stderr
    assert file.read_text() == old
    assert home.adopt(host).returncode == 0
    assert home.run("uninstall", host, "--restore", "--yes").returncode == 0
    assert file.read_text() == old


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.long)])
def test_killed_at_any_moment_it_leaves_a_host_that_works__and_the_next_run_finishes_it(every: int, home: Home) -> None:
    old = theirs(DEAD).encode()
    words = ["install", "cursor", "--adopt", "--config", str(home.config), "--yes"]
    found: set[bytes] = set()
    for number in range(every, 100, every):
        for folder in (home.config.parent, home.folder / ".config/accredit", home.folder / ".local"):
            shutil.rmtree(folder, ignore_errors=True)
        for each in home.cursor.parent.iterdir():
            each.unlink()
        home.cursor.write_bytes(old)
        with Warm(
            [sys.executable, dying.__file__, str(home.folder.parent), str(number), *words],
            cwd=home.folder, env=environment(home.env), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        ) as process:  # fmt: skip
            _, stderr = process.communicate(timeout=PATIENCE)
        left = home.cursor.read_bytes()
        found.add(left)
        assert all(secret.encode() not in left for secret in SECRETS) or left == old
        if left != old:  # then all that it leads to is there
            checked = home.run("config", "check", "--config", str(home.config))
            assert checked.returncode == 0, checked.stderr
            agent = home.folder / ".config/accredit/agents/cursor"
            assert {"agent.key", "agent.key.pub", "delegation.json"} <= set(os.listdir(agent))
        if process.returncode == 0:
            break
        assert process.returncode == -9, stderr
        if number % 3 == 0:
            again = home.adopt()
            assert again.returncode == 0, (number, again.stderr)
            assert home.run("config", "check", "--config", str(home.config)).returncode == 0
            found.add(home.cursor.read_bytes())
            secrets = (home.config.parent / "secrets").glob("[a-z]*")
            assert sorted(each.name for each in secrets) == ["echo.ARGUMENT_1", "mail.TOKEN", "web.X-Api-Key"]
    else:
        pytest.fail("it never came to its end")
    assert number > 15
    assert len(found) == 2


def test_at_a_terminal_a_person_says_the_value_that_the_host_asked_for(home: Home) -> None:
    file = home.folder / ".config/Code/User/mcp.json"
    file.parent.mkdir(parents=True)
    server = {"type": "http", "url": DEAD, "headers": {"Authorization": "Bearer ${input:key}"}}
    file.write_text(json.dumps({"servers": {"web": server}}))
    words = ("install", "vscode", "--adopt", "--config", str(home.config))
    with Terminal(*words, folder=home.folder, env=home.env) as terminal:
        terminal.wait_for(r"Write this\?")
        terminal.types("y\n")
        terminal.wait_for("KEY: ")
        terminal.types("s3cret-of-input\n")
        for _ in range(2):
            terminal.wait_for(r"(passphrase|once more).*: ")
            terminal.types("correct horse battery\n")
        terminal.wait_for("wrote")
        assert terminal.end() == 0
    assert f"wrote {home.config}, and {file}: 1 of vscode's" in terminal.seen, "a path is never folded"
    assert "  | " not in terminal.seen.partition("Write this?")[0], "nor is JSON, or a command"
    assert "s3cret-of-input" not in terminal.seen
    assert (home.config.parent / "secrets/web.Authorization").read_text() == "Bearer s3cret-of-input\n"
    assert "s3cret-of-input" not in home.config.read_text() + file.read_text()


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (lambda: '{"mcpServers": {"a": {"command": "cat"}, "a": {"command": "cat"}}}', "twice"),
        (lambda: '{"mcpServers": [1]}', "something else than servers"),
        (lambda: "{", "no JSON"),
        (lambda: "\ufeff{}", "byte order mark"),
        (
            lambda: json.dumps({"mcpServers": {f"n{each}": {"command": "cat"} for each in range(10_000)}}),
            "10000 servers",
        ),
        (lambda: json.dumps({"mcpServers": {"a": {"command": "x" * 9_000_000}}}), "more than"),
    ],
)
def test_a_hostile_file_is_not_touched(made: Callable[[], str], why: str, home: Home) -> None:
    text = made()
    home.cursor.write_text(text)
    refused = home.adopt()
    assert (refused.returncode, why in refused.stderr) == (2, True), refused.stderr[:500]
    assert home.cursor.read_text() == text
    assert os.listdir(home.cursor.parent) == ["mcp.json"]
    assert not home.config.parent.exists()


def test_names_that_are_meant_to_steer_something_steer_nothing(home: Home) -> None:
    names = [
        "a\nb",
        "\x1b[31mred",
        '"; [gateway]\nport = 1 #',
        "--yes",
        "../../x",
        "a" * 5_000,
        "[servers.x]",
        "'",
        "\u202e",
    ]
    home.cursor.write_text(json.dumps({"mcpServers": {name: {"command": "cat", "env": {"K": name}} for name in names}}))
    done = home.adopt()
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    assert "\u202e" not in done.stdout + done.stderr
    assert [*entries_of(home.cursor)] == names
    assert home.run("config", "check", "--config", str(home.config)).returncode == 0
    secrets = home.config.parent / "secrets"
    assert {each.parent for each in home.config.parent.rglob("*") if each.is_file()} == {home.config.parent, secrets}
    assert {each.read_text() for each in secrets.glob("[a-z0-9]*")} == {f"{name}\n" for name in names}
    restored = home.run("uninstall", "cursor", "--name", "--yes", "--yes")
    assert restored.returncode == 0, restored.stderr


def test_what_is_left_is_named__and_alone_it_is_no_success(home: Home) -> None:
    home.cursor.write_text(json.dumps({"mcpServers": {"old": {"url": "https://x.example/sse"}}}))
    done = home.adopt()
    assert done.returncode == 1
    assert "left as it is: old" in done.stderr
    assert not home.config.parent.exists()
    told = json.loads(home.adopt("cursor", "--json").stdout)
    assert [each["name"] for each in told["left"]] == ["old"]
    assert told["changed"] is False
    for words, why in (
        (("--name", "nothing"), "no server 'nothing'"),
        (("--server", "x"), "puts servers into a configuration"),
    ):
        refused = home.adopt("cursor", *words)
        assert (refused.returncode, why in refused.stderr) == (2, True), refused.stderr
    refused = home.run("install", "cursor", "--adopt", "--yes")
    assert (refused.returncode, "--config" in refused.stderr) == (2, True)
    refused = home.adopt("windsurf")
    assert (refused.returncode, "there is no" in refused.stderr) == (2, True)


def test_a_server_where_the_host_signs_in_is_left__as_nobody_else_could_use_it(home: Home) -> None:
    async def main() -> subprocess.CompletedProcess[str]:
        head = b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer\r\nContent-Length: 0\r\n\r\n"

        async def refuse(connection: Connection) -> None:
            if await connection.request():
                await connection.send(head)

        async with RawServer(refuse) as remote, RawServer(HonestServer()) as open_one:
            entries = {"signed-in": {"url": remote.url}, "open": {"url": open_one.url}, "dead": {"url": DEAD},
                       "keyed": {"url": remote.url, "headers": {"X-Api-Key": "k"}}}  # fmt: skip
            home.cursor.write_text(json.dumps({"mcpServers": entries}))
            done = await asyncio.to_thread(home.adopt, "cursor", "--json")
            assert len(remote.requests) == 1
            return done

    told = json.loads(run(main()).stdout)
    assert [each["name"] for each in told["adopted"]] == ["open", "dead", "keyed"]
    assert [each["name"] for each in told["left"]] == ["signed-in"]
    assert list(entries_of(home.cursor)["signed-in"]) == ["url"]


def test_a_new_gateway_gets_a_port_that_nobody_has(home: Home) -> None:
    home.cursor.write_text(json.dumps({"mcpServers": {"a": {"command": "cat"}}}))
    with socket.socket() as taken:
        with contextlib.suppress(OSError):  # somebody has it already
            taken.bind(("127.0.0.1", 8484))
            taken.listen()
        assert home.adopt().returncode == 0
    (url,) = [word for word in entries_of(home.cursor)["a"]["args"] if word.startswith("http")]
    port = int(url.split(":")[2].partition("/")[0])
    assert port > 8484
    assert f"port = {port}\n" in home.config.read_text()


def test_two_gateways_that_were_never_started_get_two_ports(home: Home) -> None:
    for host in (home.cursor, home.desktop):
        host.write_text(json.dumps({"mcpServers": {"a": {"command": "cat"}}}))
    assert home.adopt().returncode == 0
    first = home.config
    home.config = first.parent.with_name("another") / first.name
    assert home.adopt("claude-desktop").returncode == 0
    ports = {tomllib.loads(each.read_text())["gateway"]["port"] for each in (first, home.config)}
    assert len(ports) == 2


def test_no_commit_takes_a_project_s_credentials_along(home: Home) -> None:
    project = home.folder / "project"
    (project / ".git").mkdir(parents=True)
    file = project / ".mcp.json"
    file.write_text(json.dumps({"mcpServers": {"a": {"command": "cat", "env": {"TOKEN": SECRETS[0]}}}}))
    before = file.read_text()

    def run(*words: str) -> None:
        done = accredit(*words, "claude-code", "--project", "--yes", folder=project, env=home.env)
        assert done.returncode == 0, done.stderr

    run("install", "--adopt", "--config", str(home.config))
    assert {each.name for each in project.iterdir()} == {".git", ".mcp.json"}
    assert SECRETS[0] not in file.read_text()
    run("uninstall", "--restore")
    assert file.read_text() == before
    assert {each.name for each in project.iterdir()} == {".git", ".mcp.json"}


def test_credentials_go_into_no_folder_of_somebody_else_s(home: Home) -> None:
    home.cursor.write_text(theirs(DEAD))
    home.config.parent.mkdir()
    secrets = home.config.parent / "secrets"
    elsewhere = home.folder / "elsewhere"
    elsewhere.mkdir()
    secrets.symlink_to(elsewhere)
    refused = home.adopt()
    assert (refused.returncode, "no folder" in refused.stderr) == (2, True), refused.stderr
    secrets.unlink()
    secrets.mkdir()
    secrets.chmod(0o777)
    refused = home.adopt()
    assert (refused.returncode, "others may write" in refused.stderr) == (2, True), refused.stderr
    assert os.listdir(elsewhere) == os.listdir(secrets) == []
    assert "connect" not in home.cursor.read_text()


ONE = '{"mcpServers": {"fs": {"command": "python3", "args": ["/x.py"]}}}\n'
TWO = '"mcpServers": {"db": {"command": "python3", "args": ["/y.py"]},'


def test_servers_that_were_adopted_one_after_the_other_all_come_back(home: Home) -> None:
    home.cursor.write_text(ONE)
    assert home.adopt().returncode == 0
    home.cursor.write_text(home.cursor.read_text().replace('"mcpServers": {', TWO, 1))
    assert home.adopt().returncode == 0
    assert [each["args"][0] for each in entries_of(home.cursor).values()] == ["connect", "connect"]
    done = home.run("uninstall", "cursor", "--restore", "--yes")
    assert done.returncode == 0, done.stderr
    assert home.cursor.read_text() == ONE.replace('"mcpServers": {', TWO, 1)


def test_an_adopted_entry_that_is_written_anew_stays_the_same_agent(home: Home) -> None:
    home.cursor.write_text(ONE)
    assert home.adopt().returncode == 0
    written = home.cursor.read_text()
    program = entries_of(home.cursor)["fs"]["command"]
    home.cursor.write_text(written.replace(program, "/gone/bin/accredit"))
    found = json.loads(home.run("doctor", "--json").stdout)["findings"]
    (command,) = [each["command"] for each in found if "is stale" in each["what"]]
    done = home.run(*shlex.split(command)[1:])
    assert done.returncode == 0, done.stderr
    assert home.cursor.read_text() == written


def test_a_server_whose_copy_somebody_has_deleted_is_not_taken_out_without_a_word(home: Home) -> None:
    home.cursor.write_text(ONE)
    assert home.adopt().returncode == 0
    for each in home.cursor.parent.glob("*.adopted"):
        each.unlink()
    shown = home.run("uninstall", "cursor", "--dry-run")
    assert "is not kept any more" in shown.stderr


def test_no_host_is_led_to_a_configuration_that_no_gateway_of_its_user_would_take(home: Home) -> None:
    home.cursor.write_text(ONE)
    home.config.parent.mkdir()
    home.config.write_text("[proofs]\nmode = 'observe'\n")
    for each, mode in ((home.config, 0o666), (home.config.parent, 0o777)):
        before = each.stat().st_mode & 0o777
        each.chmod(mode)
        done = home.adopt()
        assert (done.returncode, home.cursor.read_text()) == (2, ONE)
        assert "may be somebody else's" in done.stderr
        each.chmod(before)
