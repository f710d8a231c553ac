"""Gateways that read their configuration again while calls go on: real processes, with and without workers."""

import asyncio
import base64
import json
import os
import re
import signal
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.world.certificates import write_certificate
from tests.world.changing_server import Listed
from tests.world.command import Serving, accredit, wait_until
from tests.world.honest_server import HonestServer
from tests.world.raw_client import RawClient
from tests.world.raw_server import RawServer
from tests.world.reloading import CALL, HEADERS, post, ready, reload, reloaded, told
from tests.world.warm import python

from accredit.pins.definitions import Definitions
from accredit.pins.lock import read_lock, write_lock

pytestmark = pytest.mark.slow

WORKERS = pytest.mark.parametrize("workers", ["1", "3"])
RELOADS = pytest.mark.parametrize("reloads", [30, pytest.param(100, marks=pytest.mark.long)])
ROOT = Path(__file__).parents[2]
INITIALIZE = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
    b'"clientInfo":{"name":"t","version":"1"}}}'
)


@asynccontextmanager
async def serving(folder: Path, text: str, *arguments: str) -> AsyncGenerator[Serving]:
    """A gateway with this configuration."""
    write(folder, text)
    gateway = Serving("--config", "accredit.toml", *arguments, folder=folder)
    try:
        yield await asyncio.to_thread(gateway.__enter__)
    finally:
        await asyncio.to_thread(gateway.__exit__, None, None, None)


def write(folder: Path, text: str) -> None:
    (folder / "accredit.toml").write_text(text, "utf-8")


def upstream(url: str, vault: str = "closed") -> str:
    return f'[upstream]\nurl = "{url}"\nheaders = {{ X-Vault = "{vault}" }}\n'


def guarded(folder: Path) -> str:
    """What requires proofs: an owner's key is made."""
    if not (folder / "owner.key").exists():
        assert accredit("keys", "new", "owner.key", "--kind", "human", "--no-passphrase", folder=folder).returncode == 0
    return '[proofs]\nmode = "required"\n[[proofs.roots]]\nname = "Ana"\npublic_key_file = "owner.key.pub"\n'


BASE = '[gateway]\nid = "gate"\n[store]\nurl = "sqlite:///accredit.db"\n'


@pytest.mark.holds("app/reloading", "swap")
@pytest.mark.holds("app/two_phases", "check-child")
@WORKERS
@RELOADS
async def test_of_many_reloads_under_load_none_loses_a_call_or_has_it_decided_by_half_of_a_configuration(
    reloads: int, workers: str, tmp_path: Path
) -> None:
    answers: list[Any] = []

    async def agent(port: int, ends: asyncio.Event) -> None:
        """Calls without a proof, on one connection."""
        async with RawClient(port) as client:
            while not ends.is_set():
                await client.ask("POST", "/mcp", HEADERS, CALL)
                answer = await client.answer()
                assert answer.status == 200, answer
                answers.append(json.loads(answer.body))

    async with RawServer(HonestServer()) as server:
        # One is closed and asks nobody for a proof, the other is open to who has one: halves would let all in.
        halves = [BASE + upstream(server.url), BASE + upstream(server.url, "open") + guarded(tmp_path)]
        async with serving(tmp_path, halves[0], "--workers", workers) as gateway:
            ends = asyncio.Event()
            agents = [asyncio.create_task(agent(gateway.port, ends)) for _ in range(4)]
            for number in range(1, reloads + 1):
                write(tmp_path, halves[number % 2])
                said = await reloaded(gateway, tmp_path)
                assert (said.done, said.problem) == (number, "")
                assert "upstream.headers" in said.changed
                # Whichever worker takes it, it goes by the new one.
                _, _, now = await asyncio.to_thread(post, gateway.port, "/mcp", CALL)
                assert ("error" in now) == bool(number % 2)
            ends.set()
            await asyncio.gather(*agents)
            assert "Traceback" not in gateway.stderr
        calls = [each for each in server.requests if b"tools/call" in each.body]
        assert {dict(each.headers)["x-vault"] for each in calls} == {"closed"}
        assert {"error" in each for each in answers} == {True, False}
        assert all("result" in each or each["error"]["code"] < -31000 for each in answers)


@WORKERS
async def test_a_reload_that_names_the_revocation_list_anew_takes_no_older_one__and_none_that_is_not_there(
    workers: str, tmp_path: Path
) -> None:
    def listed(name: str) -> str:
        return f'[proofs.revocation]\nfiles = ["{name}"]\n'

    async with RawServer(HonestServer()) as server:
        text = BASE + upstream(server.url) + guarded(tmp_path)
        by = ("--issuer", "owner.key", "--list")
        assert accredit("revoke", "a" * 32, *by, "revoked.json", folder=tmp_path).returncode == 0
        assert accredit("revoke", "--empty", *by, "older.json", folder=tmp_path).returncode == 0
        async with serving(tmp_path, text + listed("revoked.json"), "--workers", workers) as gateway:
            write(tmp_path, text + listed("older.json"))
            assert "older than the one in force" in (await reloaded(gateway, tmp_path)).problem
            write(tmp_path, text + listed("gone.json"))
            assert "gone.json: can't be read" in (await reloaded(gateway, tmp_path)).problem
            write(tmp_path, text)
            assert "in none of the places" in (await reloaded(gateway, tmp_path)).problem
            (tmp_path / "moved.json").write_bytes((tmp_path / "revoked.json").read_bytes())
            write(tmp_path, text + listed("moved.json"))
            assert (await reloaded(gateway, tmp_path)).problem == ""


@pytest.mark.holds("app/configured")
@pytest.mark.holds("app/reloading", "prepare")
@WORKERS
async def test_a_file_that_is_broken_or_changes_what_is_fixed_changes_nothing_and_says_why(
    workers: str, tmp_path: Path
) -> None:
    async with RawServer(HonestServer()) as server:
        good = BASE + upstream(server.url)
        async with serving(tmp_path, good, "--workers", workers) as gateway:
            assert "reload" not in (await asyncio.to_thread(ready, gateway.port))[1]
            for bad, why in (
                ("[gateway", "not TOML"),
                (good.replace("closed", "open") + "[proofs]\nmode = 'required'\n", "there is no root"),
                (good.replace("closed", "open").replace('id = "gate"', 'id = "gate"\nhost = "0.0.0.0"'), "host"),
                (good.replace("closed", "open").replace('"gate"', '"other"'), "gateway.id"),
                (good.replace("closed", "open").replace("accredit.db", "new.db"), "store.url"),
            ):
                write(tmp_path, bad)
                done = await asyncio.to_thread(accredit, "reload", folder=tmp_path)
                assert (done.returncode, why in done.stderr) == (1, True), done.stderr
                # It is told as soon as it is decided; each worker hears of it then.
                told = (200, {"status": "ok", "upstream": True, "reload": False})
                await asyncio.to_thread(wait_until, lambda told=told: ready(gateway.port) == told)
                assert (await asyncio.to_thread(post, gateway.port, "/mcp", CALL))[0] == 200
            assert {dict(each.headers)["x-vault"] for each in server.requests if each.body} == {"closed"}
            write(tmp_path, good)
            done = await asyncio.to_thread(accredit, "reload", "--json", folder=tmp_path)
            assert (done.returncode, json.loads(done.stdout)["in_force"]) == (0, True)
            assert (await asyncio.to_thread(ready, gateway.port))[1]["reload"] is True


@pytest.mark.holds("app/two_phases", "confirm")
async def test_workers_that_are_killed_while_a_reload_goes_on_come_back_with_what_is_in_force(tmp_path: Path) -> None:
    async with (
        RawServer(HonestServer()) as server,
        serving(tmp_path, upstream(server.url, "0"), "--workers", "3") as gateway,
    ):
        for number in range(1, 6):
            write(tmp_path, upstream(server.url, str(number)))
            going_on = asyncio.create_task(reloaded(gateway, tmp_path))
            await asyncio.to_thread(wait_until, lambda n=number: told(tmp_path).begun == n)
            os.kill(min(gateway.workers), signal.SIGKILL)
            said = await going_on
            if said.problem:  # it was the process that checks
                continue
            await asyncio.to_thread(wait_until, lambda: len(gateway.workers) == 3)
            seen = len(server.requests)
            for _ in range(12):
                assert (await asyncio.to_thread(post, gateway.port, "/mcp", CALL))[0] == 200
            assert {dict(each.headers)["x-vault"] for each in server.requests[seen:]} == {str(number)}


@WORKERS
async def test_the_next_handshake_has_the_new_certificate(workers: str, tmp_path: Path) -> None:
    tls = '[gateway]\ntls_cert_file = "cert.pem"\ntls_key_file = "key.pem"\n'

    write_certificate(tmp_path)
    async with (
        RawServer(HonestServer()) as server,
        serving(tmp_path, tls + upstream(server.url), "--workers", workers) as gateway,
    ):
        old = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
        async with RawClient(gateway.port, tls=old) as kept:
            write_certificate(tmp_path)
            new = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
            said = await reloaded(gateway, tmp_path)
            assert (said.problem, said.changed) == ("", "cert.pem, key.pem")
            await kept.ask("POST", "/mcp", HEADERS, CALL)
            assert (await kept.answer()).status == 200
        for _ in range(6):
            async with RawClient(gateway.port, tls=new) as client:
                await client.ask("POST", "/mcp", HEADERS, CALL)
                assert (await client.answer()).status == 200
            with pytest.raises(ssl.SSLCertVerificationError):
                async with RawClient(gateway.port, tls=old):
                    pass
        (tmp_path / "key.pem").write_text("no key", "utf-8")
        assert "can't be used" in (await reloaded(gateway, tmp_path)).problem
        async with RawClient(gateway.port, tls=new) as client:
            await client.ask("POST", "/mcp", HEADERS, CALL)
            assert (await client.answer()).status == 200


def test_a_child_keeps_its_session_unless_it_is_its_server_that_is_changed__and_ends_after_its_grace(
    tmp_path: Path,
) -> None:
    def text(more: str = "", env: str = "1", grace: int = 1) -> str:
        command = json.dumps([str(python()), str(ROOT / "examples/mail_server.py")])
        return f'[gateway]\ngrace_seconds = {grace}\n[upstream]\ncommand = {command}\nenv = {{ A = "{env}" }}\n{more}'

    def listed(port: int, session: str) -> int:
        return post(port, "/mcp", b'{"jsonrpc":"2.0","id":2,"method":"tools/list"}', **{"Mcp-Session-Id": session})[0]

    write(tmp_path, text())
    with Serving("--config", "accredit.toml", folder=tmp_path) as gateway:
        status, headers, _ = post(gateway.port, "/mcp", INITIALIZE)
        assert status == 200
        session = headers["mcp-session-id"]
        children = gateway.workers
        write(tmp_path, text('[tools.list_inbox]\nscope = "email:read"\n', grace=2))
        assert reload(gateway, tmp_path).changed == "gateway.grace_seconds, tools.list_inbox (added)"
        assert (gateway.workers, listed(gateway.port, session)) == (children, 200)
        write(tmp_path, text(env="2"))
        assert "upstream.env" in reload(gateway, tmp_path).changed
        assert gateway.workers >= children  # its calls might still finish
        assert listed(gateway.port, session) == 404
        assert post(gateway.port, "/mcp", INITIALIZE)[0] == 200
        wait_until(lambda: not gateway.workers & children or len(gateway.workers & children) < len(children))
        gateway.stop()
        assert gateway.wait() == 0


@pytest.mark.holds("app/reloading", "build")
def test_a_lock_that_is_changed_counts_at_once(tmp_path: Path) -> None:
    files = (str(tmp_path / "received"), str(Listed(tmp_path / "listed.json").path))
    server = (python(), "-m", "tests.world.changing_server", *files, "--legacy")
    assert accredit("init", "--dir", str(tmp_path), "--", *server, folder=ROOT).returncode == 0
    write(tmp_path, f"[upstream]\ncommand = {json.dumps(server)}\n")
    lock = tmp_path / "accredit.lock"
    with Serving("--config", "accredit.toml", folder=tmp_path, env={"PYTHONPATH": str(ROOT)}) as gateway:
        session = {"Mcp-Session-Id": post(gateway.port, "/mcp", INITIALIZE)[1]["mcp-session-id"]}
        assert "result" in post(gateway.port, "/mcp", CALL, **session)[2]
        pinned = read_lock(lock.read_bytes())["upstream"]
        others = {name: each for name, each in pinned.tools.items() if name != "list_inbox"}
        lock.write_bytes(write_lock({"upstream": Definitions(others, pinned.instructions)}))
        assert reload(gateway, tmp_path).changed == "accredit.lock"
        assert post(gateway.port, "/mcp", CALL, **session)[2]["error"]["data"]["error"] == "definition_changed"
        lock.unlink()
        assert reload(gateway, tmp_path).changed == "accredit.lock (removed)"


@WORKERS
async def test_once_proofs_are_required_the_next_call_is_refused__and_observed_again_it_is_not(
    workers: str, tmp_path: Path
) -> None:
    async with RawServer(HonestServer()) as server:
        text = BASE + upstream(server.url) + guarded(tmp_path) + '[tools.list_inbox]\nscope = "email:read"\n'
        observed = text.replace('"required"', '"observe"')
        async with serving(tmp_path, observed, "--workers", workers) as gateway:
            for now, passes in ((observed, True), (text, False), (observed, True), (text, False)):
                write(tmp_path, now)
                assert (await reloaded(gateway, tmp_path)).problem == ""
                for _ in range(8):  # whichever worker takes it
                    answer = (await asyncio.to_thread(post, gateway.port, "/mcp", CALL))[2]
                    assert ("result" in answer) is passes
                    assert passes or answer["error"]["code"] == -31001
        assert "no call is refused for want of authority" in gateway.stderr


@WORKERS
async def test_each_record_names_the_configuration_that_its_call_was_decided_by(workers: str, tmp_path: Path) -> None:
    assert accredit("keys", "new", "gateway.key", "--kind", "gateway", folder=tmp_path).returncode == 0

    async with RawServer(HonestServer()) as server:
        text = BASE + upstream(server.url) + '[attest]\nmode = "durable"\nkey_file = "gateway.key"\n'
        async with serving(tmp_path, text, "--workers", workers) as gateway:
            for more in ("", '[tools.list_inbox]\nscope = "email:read"\n', ""):
                write(tmp_path, text + more)
                assert (await reloaded(gateway, tmp_path)).problem == ""
                assert "result" in (await asyncio.to_thread(post, gateway.port, "/mcp", CALL))[2]
            write(tmp_path, text.replace('"durable"', '"off"'))
            assert "attest.mode" in (await reloaded(gateway, tmp_path)).problem
            gateway.stop()
            assert await asyncio.to_thread(gateway.wait) == 0
    assert accredit("log", "export", "--out", "all.jsonl", folder=tmp_path).returncode == 0
    found = re.findall(r'"policy":\s*\{"digest":\s*"(\w{64})"', exported(tmp_path / "all.jsonl"))
    assert len({*found}) == 2


def exported(file: Path) -> str:
    """The payloads of an export, decoded."""
    texts = re.findall(r'"payload":\s*"([^"]+)"', file.read_text("utf-8"))
    return "\n".join(base64.b64decode(each).decode("utf-8") for each in texts)


@pytest.mark.holds("ops/reload")
@WORKERS
async def test_nobody_is_sent_a_signal_without_the_lock(workers: str, tmp_path: Path) -> None:
    async with RawServer(HonestServer()) as server:
        text = upstream(server.url)
        async with serving(tmp_path, text, "--workers", workers) as gateway:
            second = Serving("--config", "accredit.toml", folder=tmp_path)
            with second:
                assert "another gateway has" in second.stderr
            content = (tmp_path / "accredit.pid").read_bytes()
            assert int(content.split(b"\n")[0]) == gateway.process.pid
            gateway.stop()
            assert await asyncio.to_thread(gateway.wait) == 0
        bystander = await asyncio.create_subprocess_exec("sleep", "600")
        named = content.replace(str(gateway.process.pid).encode(), str(bystander.pid).encode())
        (tmp_path / "accredit.pid").write_bytes(named)
        done = await asyncio.to_thread(accredit, "reload", folder=tmp_path)
        assert (done.returncode, "no gateway runs with" in done.stderr) == (1, True)
        assert bystander.returncode is None
        bystander.kill()
        await bystander.wait()


async def test_a_gateway_is_found_by_whatever_path_leads_to_its_configuration__and_by_no_other(tmp_path: Path) -> None:
    folder = tmp_path / "real"
    folder.mkdir()
    (tmp_path / "link").symlink_to(folder)
    (tmp_path / "one.toml").symlink_to(folder / "accredit.toml")

    async with RawServer(HonestServer()) as server, serving(folder, upstream(server.url)):
        (folder / "other.toml").write_text(upstream(server.url))
        for path in (tmp_path / "link" / "accredit.toml", tmp_path / "one.toml"):
            done = await asyncio.to_thread(accredit, "reload", "--config", str(path), folder=tmp_path)
            assert (done.returncode, done.stderr) == (0, "")
        wrong = tmp_path / "link" / "other.toml"
        done = await asyncio.to_thread(accredit, "reload", "--config", str(wrong), folder=tmp_path)
        assert (done.returncode, "runs here serves" in done.stderr) == (1, True)


def test_a_gateway_without_a_file_says_that_it_has_none(tmp_path: Path) -> None:
    with Serving("http://127.0.0.1:9/mcp", folder=tmp_path) as gateway:
        gateway.stop(signal.SIGHUP)
        wait_until(lambda: "started without a configuration file" in gateway.stderr)
        assert gateway.process.poll() is None
        assert not (tmp_path / "accredit.pid").exists()


def test_the_how_to_says_what_is_printed(tmp_path: Path) -> None:
    page = (ROOT / "docs/how-to/reload.md").read_text("utf-8")
    commands = [each.split()[1:] for each in re.findall(r"```console\n(.*?)```", page, re.DOTALL)[0].splitlines()]
    changed, refused = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    text = BASE + '[servers.mail]\nurl = "http://127.0.0.1:9/mcp"\n'
    write(tmp_path, text)
    with Serving("--config", "accredit.toml", folder=tmp_path):
        write(tmp_path, text.replace(":9/", ":10/"))
        told = [accredit(*command, folder=tmp_path) for command in commands]
        assert [each.returncode for each in told] == [0, 0]
        assert told[-1].stdout == changed
    with Serving("--config", "accredit.toml", folder=tmp_path):  # --port is the command line's, and holds
        write(tmp_path, text.replace("[gateway]", '[gateway]\nhost = "::1"'))
        done = accredit("reload", folder=tmp_path)
        assert (done.returncode, done.stderr) == (1, refused.replace("gateway.port", "gateway.host"))
    unit = re.findall(r"```ini\n(.*?)```", page, re.DOTALL)[0]
    assert "ExecReload=/opt/accredit/bin/accredit reload" in unit


def test_without_a_gateway_or_its_configuration_it_says_which_is_missing_and_what_to_type(tmp_path: Path) -> None:
    done = accredit("reload", folder=tmp_path)
    assert (done.returncode, f"there is no configuration {tmp_path}/accredit.toml" in done.stderr) == (1, True)
    assert "`accredit reload --config FILE`" in done.stderr
    (tmp_path / "accredit.toml").touch()
    done = accredit("reload", folder=tmp_path)
    assert (done.returncode, f"no process holds {tmp_path}/accredit.pid" in done.stderr) == (1, True)
    assert f"`accredit serve --config {tmp_path}/accredit.toml`" in done.stderr
