"""`accredit up` from an empty home: real processes, a real terminal, and everything that can come between."""

import base64
import json
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.world import dying
from tests.world.command import accepts, environment, wait_until
from tests.world.mail import MAIL
from tests.world.raw_server import PATIENCE
from tests.world.up import PASSPHRASE, Newcomer, Up, runs
from tests.world.warm import Warm

from accredit.keys import LockedKeyFile, make_key, read_key, write_key

pytestmark = [
    pytest.mark.slow,
    pytest.mark.holds("setup/own_grant"),
    pytest.mark.holds("setup/up"),
    pytest.mark.holds("setup/up_run"),
    pytest.mark.holds("cli/commands/hosts"),
]
SEND = {"name": "send_email", "arguments": {"to": "ada@example.org", "subject": "Hello"}}


def test_from_an_empty_home_to_the_first_protected_call__in_one_command_and_two_passphrases(
    server: str, person: Newcomer
) -> None:
    with person.terminal(*person.words(server, secret=False)) as terminal:
        for prompt in ("New passphrase", "once more"):
            terminal.wait_for(prompt)
            assert not terminal.echoes()
            terminal.types(f"{PASSPHRASE}\n")
        terminal.wait_for("up: http")
        assert "result" in str(person.calls())
        assert "nobody has allowed this agent send_email" in str(person.calls(SEND))  # only what reads was granted
        assert PASSPHRASE not in terminal.seen + terminal.command_line()
        assert isinstance(read_key(person.own / "owner.key"), LockedKeyFile)
        assert json.loads((person.own / "agent.key").read_text())["seed"]["ed25519"] not in terminal.seen
        before = person.files()
        again = person.run("up", server)
        assert (again.returncode, "runs already" in again.stdout, person.url in again.stdout) == (0, True, True), again
        assert json.loads(person.run("up", server, "--json").stdout)["started"] is False
        assert person.files() == before
        terminal.types("\x03")
        assert terminal.end() == 0, terminal.seen
    assert not accepts(person.port)
    assert not list((person.home.parent / "run").rglob("desk.sock"))
    with person.up(server) as up:  # and again: nobody is asked, all is kept
        assert "result" in str(person.calls())
        assert "wrote" not in up.said
        assert up.stop(signal.SIGINT) == 0, up.said
    assert person.files() == before


def test_a_server_that_is_a_command_is_protected_as_well__and_told_as_json(person: Newcomer) -> None:
    with Warm(
        [sys.executable, "-m", "accredit", *person.words("--json", "--", *MAIL)],
        cwd=person.work, env=environment(person.env), start_new_session=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            text = ""
            while not text.endswith("}\n"):
                text += process.stdout.readline()
            told = json.loads(text)
            assert (told["started"], told["url"]) == (True, person.url)
            assert told["configuration"] == str(person.work / "accredit.toml")
            assert "result" in str(person.calls())
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    refused = person.run("up", "--", sys.executable, "other.py")
    assert (refused.returncode, "another server" in refused.stderr) == (2, True)


def test_one_that_dies_ends_the_other_with_a_word__and_none_outlives_it(server: str, person: Newcomer) -> None:
    for word, other in (("serve", "desk"), ("desk", "serve")):
        with person.up(server) as up:
            assert os.getpgid(up.child("serve")) == up.child("serve")
            assert os.getpgid(up.child("desk")) == os.getpgid(up.process.pid)
            left = up.child(other)
            os.kill(up.child(word), signal.SIGKILL)
            assert up.process.wait(PATIENCE) == 1
            name = {"serve": "gateway", "desk": "desk"}[word]
            assert f"error: the {name} has ended by itself, of signal 9" in up.said
            assert not runs(left)
    with person.up(server) as up:
        children = up.children()
        assert len(children) == 2
        up.kill()
        wait_until(lambda: not any(map(runs, children)))
    with person.up(server) as up:
        up.process.send_signal(signal.SIGINT)  # twice at once, as where a terminal and a wrapper both send it
        assert up.stop(signal.SIGINT) == 0, up.said
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as it is where `nohup` runs the tests
        with person.up(server) as up:
            assert up.stop(signal.SIGHUP) == 0, up.said


def test_where_only_one_of_the_two_runs_the_other_is_started(server: str, person: Newcomer) -> None:
    with person.up(server) as up:
        up.stop()
    with Warm(
        [sys.executable, "-m", "accredit", "desk", "--no-browser"],
        cwd=person.work, env=environment(person.env), stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as desk:  # fmt: skip
        wait_until(lambda: bool(list((person.home.parent / "run").rglob("desk.sock"))))
        with person.up(server) as up:
            assert [up.child("serve")] == up.children()
            assert up.stop() == 0
        desk.send_signal(signal.SIGTERM)
        assert desk.wait(PATIENCE) == 0
    serving = [sys.executable, "-m", "accredit", "serve", "--config", "accredit.toml"]
    with Warm(serving, cwd=person.work, env=environment(person.env), stderr=subprocess.DEVNULL) as gateway:
        wait_until(lambda: accepts(person.port))
        with person.up(server) as up:
            assert [up.child("desk")] == up.children()
            assert up.stop() == 0
        assert "result" in str(person.calls())
        gateway.send_signal(signal.SIGTERM)
        assert gateway.wait(PATIENCE) == 0


def dying_up(person: Newcomer, server: str, folder: Path, number: int) -> Up:
    return Up(person, person.words(server), [sys.executable, dying.__file__, str(folder), str(number)])


def test_killed_before_each_of_its_changes__the_next_run_completes_what_there_is(
    server: str, person: Newcomer, tmp_path: Path
) -> None:
    deaths = 0
    while not (up := dying_up(person, server, tmp_path, deaths + 1 if deaths < 9 else 6 + deaths % 3)).is_up():
        assert up.process.wait(PATIENCE) == -signal.SIGKILL, up.said
        deaths += 1
    with up:
        assert deaths > 9, up.said
        assert "result" in str(person.calls())
        assert up.stop() == 0
    before = person.files()
    with person.up(server) as up:
        assert up.stop() == 0
    assert person.files() == before


def test_of_two_at_once_one_does_it__and_the_other_finds_it_done(server: str, person: Newcomer) -> None:
    both = [person.up(server), person.up(server)]
    wait_until(lambda: any(each.process.poll() is not None for each in both))
    (first,) = [each for each in both if each.process.poll() is None]
    (second,) = [each for each in both if each is not first]
    assert (second.process.wait(PATIENCE), "runs already" in second.said) == (0, True), second.said
    assert "wrote" not in second.said
    with first:
        assert "result" in str(person.calls())
        assert first.stop() == 0


def test_what_answers_like_a_gateway_on_the_port_is_not_taken_for_one__and_nothing_is_written(
    server: str, person: Newcomer
) -> None:
    with socket.create_server(("127.0.0.1", person.port)):
        refused = person.run(*person.words(server))
        assert (refused.returncode, "the port is taken" in refused.stderr) == (2, True), refused
        assert "--port P" in refused.stderr
    assert person.files() == {}


def test_a_server_that_is_not_there_leaves_nothing_behind(person: Newcomer) -> None:
    for server in (["http://127.0.0.1:9/mcp"], ["--", sys.executable, "-c", "pass"]):
        refused = person.run(*person.words(*server))
        assert (refused.returncode, refused.stderr.count("error: ")) == (2, 1), refused
        assert person.files() == {}


def test_a_wrong_passphrase_signs_nothing__and_the_right_one_goes_on_from_there(server: str, person: Newcomer) -> None:
    person.own.mkdir(mode=0o700, parents=True)
    secret = str(person.secret)
    done = person.run("keys", "new", str(person.own / "me.key"), "--kind", "human", "--passphrase-file", secret)
    assert done.returncode == 0, done.stderr
    with person.terminal(*person.words(server, secret=False)) as terminal:
        terminal.wait_for("Passphrase of me's key")
        terminal.types("wrong\n")
        assert terminal.end() == 2
        assert "not the passphrase" in terminal.seen
    assert not (person.own / "delegation.json").exists()
    with person.up(server) as up:
        assert "result" in str(person.calls())
        assert not (person.own / "owner.key").exists()
        assert up.stop() == 0


def test_where_the_gateway_only_observes_the_agent_is_told_apart__and_is_granted_nothing(
    server: str, person: Newcomer
) -> None:
    assert person.run("init", server).returncode == 0
    file = person.work / "accredit.toml"
    text = file.read_text().replace('mode = "required" ', 'mode = "observe" ').replace("8484", str(person.port))
    file.write_text(text)
    with person.up("--config", str(file)) as up:
        assert "identity:prove" in up.said
        assert "sent to" in str(person.calls(SEND))  # it goes on, and is recorded
        assert up.stop() == 0
    scopes = json.loads((person.own / "delegation.json").read_text())["delegations"][0]["scope"]
    assert scopes == ["identity:prove"]
    agent = json.loads((person.own / "agent.key.pub").read_text())["id"]
    assert agent in person.run("log", "list", "--json").stdout


@pytest.mark.holds("config/oauth_schema")
def test_hosts_that_log_in_are_not_told_to_be_refused__where_they_are_let_in(server: str, person: Newcomer) -> None:
    with person.up(server) as up:
        assert "and are refused here: docs/" in up.said
        assert up.stop() == 0
    origin = f"http://127.0.0.1:{person.port}"
    oauth = f'[oauth]\nenabled = true\npublic_url = "{origin}"\n[cluster]\nkeys_file = "cluster.keys"\n'
    (person.work / "cluster.keys").write_text(f"{base64.b64encode(secrets.token_bytes(32)).decode()}\n")
    (person.work / "cluster.keys").chmod(0o600)
    file = person.work / "accredit.toml"
    file.write_text(file.read_text() + oauth)
    with person.up(server) as up:
        assert f"can only log in by OAuth, and do so at {origin}" in up.said
        assert "refused here" not in up.said
        assert up.stop() == 0


def test_what_no_gateway_would_take_is_told_before_anything_is_started_or_offered(
    server: str, person: Newcomer
) -> None:
    (person.home / ".cursor").mkdir()
    with person.up(server) as up:
        up.stop()
    (person.work / "gateway.key").unlink()
    refused = person.run(*person.words(server), "--yes")
    assert (refused.returncode, "gateway.key" in refused.stderr, "cursor" in refused.stdout) == (2, True, False), (
        refused
    )
    assert not (person.home / ".cursor" / "mcp.json").exists()


@pytest.mark.holds("setup/up_plan")
def test_a_dry_run_says_each_step_and_does_none(server: str, person: Newcomer) -> None:
    (person.home / ".cursor").mkdir()
    plan = person.run(*person.words(server), "--dry-run")
    assert plan.returncode == 0, plan.stderr
    for command in ("init", "keys new", "cp", "grant", "serve", "desk"):
        assert f"  {'' if command == 'cp' else 'accredit '}{command}" in plan.stdout
    steps = json.loads(person.run(*person.words(server), "--dry-run", "--json").stdout)["steps"]
    assert [step["done"] for step in steps] == [False] * len(steps)
    assert person.files() == {}
    assert not person.own.exists()
    with person.up(server) as up:
        up.stop()
    before = person.files()
    steps = json.loads(person.run("up", server, "--dry-run", "--json").stdout)["steps"]
    assert [step["done"] for step in steps] == [*[True] * 4, False, False, False]
    assert steps[-1]["command"].startswith("accredit install cursor")
    assert person.files() == before


def test_a_delegation_that_counts_no_more_is_told_with_the_command_that_signs_another(
    server: str, person: Newcomer
) -> None:
    with person.up(server) as up:
        up.stop()
    out, secret = person.own / "delegation.json", str(person.secret)
    issuer, agent = str(person.own / "owner.key"), str(person.own / "agent.key.pub")
    other = person.own / "other.key"
    write_key(other, make_key("agent", "Other", int(time.time())))
    for to, expires, said in ((agent, "2d", "ends soon"), (f"{other}.pub", "9d", "for another agent")):
        words = ["grant", "--issuer", issuer, "--agent", to, "--scope", "mcp:tool", "--expires", expires, "--force"]
        done = person.run(*words, "--out", str(out), "--passphrase-file", secret)
        assert done.returncode == 0, done.stderr
        held = out.read_bytes()
        with person.up(server) as up:
            assert said in up.said
            assert out.read_bytes() == held
            (command,) = re.findall(r"accredit (grant .*--force)", up.said)
            up.stop()
        done = person.run(*command.split(), "--passphrase-file", secret)
        assert done.returncode == 0, done.stderr
        with person.up(server) as up:
            assert f"kept {out}" in up.said
            up.stop()


def test_a_delegation_that_was_taken_back_is_not_said_to_be_kept__nor_by_a_gateway_that_is_made_later(
    server: str, person: Newcomer
) -> None:
    with person.up(server) as up:
        up.stop()
    out = person.own / "delegation.json"
    cert_id = json.loads(out.read_text())["delegations"][0]["cert_id"]
    words = ("--issuer", str(person.own / "owner.key"), "--passphrase-file", str(person.secret))
    done = person.run("revoke", cert_id, *words, "--store", "sqlite:///accredit.db")
    assert done.returncode == 0, done.stderr
    person.work = person.work.with_name("later")
    person.work.mkdir()
    with person.up(server) as up:
        assert f"{out} was taken back. To sign another:" in up.said
        assert f"kept {out}" not in up.said
        up.stop()


@pytest.mark.holds("setup/up_hosts")
def test_the_command_that_signs_another_delegation_is_whole_in_a_window__a_folded_one_would_not_run(
    server: str, person: Newcomer
) -> None:
    with person.terminal(*person.words("--dry-run", server)) as terminal:
        assert terminal.end() == 0, terminal.seen
    copy = f"  cp {person.own}/owner.key.pub {person.work}/owner.key.pub"
    assert copy in map(str.rstrip, terminal.seen.splitlines()), terminal.seen
    with person.up(server) as up:
        up.stop()
    own = person.own
    grant = ("grant", "--issuer", str(own / "owner.key"), "--agent", str(own / "agent.key.pub"), "--scope", "mcp:tool")
    ends_soon = ("--expires", "1h", "--out", str(own / "delegation.json"), "--force")
    done = person.run(*grant, *ends_soon, "--passphrase-file", str(person.secret))
    assert done.returncode == 0, done.stderr
    with person.terminal(*person.words(server)) as terminal:
        terminal.wait_for("up: http")
        terminal.types("\x03")
        assert terminal.end() == 0, terminal.seen
    (line,) = [each for each in terminal.seen.splitlines() if "accredit grant" in each]
    assert line.startswith(f"  accredit grant --issuer {own / 'owner.key'} --agent"), terminal.seen
    assert line.rstrip().endswith(f"--out {own / 'delegation.json'} --force")


def test_a_host_that_is_found_is_offered__and_its_file_changes_only_with_a_yes(server: str, person: Newcomer) -> None:
    file = person.home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    with person.up(server) as up:
        assert f"accredit install cursor --config {person.work}/accredit.toml" in up.said
        up.stop()
    assert not file.exists()
    (person.own / "delegation.json").unlink()  # what is new is offered again
    with person.terminal(*person.words(server)) as terminal:
        terminal.wait_for(r"Write this\? \[y/N\]")
        socket.create_connection(("127.0.0.1", person.port)).close()  # the gateway runs before anything is asked
        terminal.types("n\n")
        terminal.wait_for("up: http")
        terminal.types("\x03")
        assert terminal.end() == 0, terminal.seen
    assert not file.exists()
    (person.own / "delegation.json").unlink()
    with person.terminal(*person.words(server)) as terminal:
        terminal.wait_for(r"Write this\? \[y/N\]")
        terminal.types("\x03")
        assert terminal.end() == 0, terminal.seen
    assert not file.exists(), "Ctrl-C is no yes"
    with person.up("--yes", server) as up:
        up.stop()
    words = json.loads(file.read_text())["mcpServers"]["accredit"]["args"]
    assert person.url in words
    assert str(person.own / "delegation.json") in words
    with person.up(server) as up:
        assert "cursor" not in up.said
        up.stop()
