"""The how-to on credentials towards a server, followed with the real command."""

import asyncio
import re
from pathlib import Path

import pytest
from tests.world.calls import post
from tests.world.command import Serving, accredit
from tests.world.honest_server import HonestServer
from tests.world.issuer import AUDIENCE, key_set_text
from tests.world.raw_client import RawClient
from tests.world.raw_server import RawServer
from tests.world.token_server import CLIENT, MAIL, SECRET, Guarded, TokenServer
from tests.world.tokened import ISSUER, Tokened

from accredit.jsonrpc.methods import Era

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[2] / "docs/how-to/credentials-towards-a-server.md").read_text("utf-8")
KEY, IN_FILE, OWN, EXCHANGED = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
CALL = {"name": "list_inbox", "arguments": {}}


def configured(folder: Path, text: str, world: Tokened, idp: TokenServer, server: str) -> None:
    """The how-to's configuration, at servers of this test."""
    for said, here in (
        ("https://mail.internal/mcp", server),
        ("https://mail.internal", MAIL),
        ("https://idp.example/token", idp.url),
        ('issuer = "https://idp.example"', f'issuer = "{ISSUER}"'),
        ('jwks_url = "https://idp.example/jwks.json"', 'jwks_file = "keys.json"'),
        ("https://gw.example/mcp", AUDIENCE),
        ('"gw"', f'"{CLIENT}"'),
    ):
        text = text.replace(said, here)
    (folder / "accredit.toml").write_text(text, "utf-8")
    (folder / "keys.json").write_bytes(key_set_text(world.key))
    (folder / "gateway.secret").write_text(f"{SECRET}\n")
    (folder / "gateway.secret").chmod(0o600)


async def called(port: int, token: str, path: str = "/mcp") -> int:
    """The status of a call."""
    asked = post(Era.MODERN, "tools/call", CALL).and_header("Authorization", f"Bearer {token}")
    async with RawClient(port) as client:
        await client.ask("POST", path, asked.headers, asked.body)
        return (await client.answer()).status


@pytest.mark.parametrize("exchanged", [False, True])
async def test_the_how_to_works__and_no_log_or_process_list_shows_a_secret(exchanged: bool, tmp_path: Path) -> None:
    world = Tokened()

    async with TokenServer(world.key) as idp:
        guard = Guarded(idp, HonestServer())
        async with RawServer(guard) as server:
            configured(tmp_path, EXCHANGED if exchanged else OWN, world, idp, server.url)
            env = {"GW_SECRET": SECRET}
            command = ("--workers", "2", "--log-level", "debug")
            gateway = Serving(*command, folder=tmp_path, env=env)
            await asyncio.to_thread(gateway.__enter__)
            try:
                tokens = [world.token(sub=sub) for sub in ("alice", "bob")]
                assert [await called(gateway.port, token) for token in tokens] == [200, 200]
                guard.refuses_all = True
                idp.lifetime = -1
                assert await called(gateway.port, tokens[0]) in (502, 503)
                shown = gateway.stderr + Path(f"/proc/{gateway.process.pid}/cmdline").read_text()
            finally:
                gateway.__exit__(None, None, None)
            assert guard.subjects[:2] == (["alice", "bob"] if exchanged else [CLIENT, CLIENT])
            for secret in (SECRET, *idp.given, *tokens):
                assert secret.rpartition(".")[2] not in shown


async def test_of_several_servers_each_gets_its_own_token_and_no_other_s(tmp_path: Path) -> None:
    async with TokenServer() as mail, TokenServer() as files:
        guards = [Guarded(mail, HonestServer()), Guarded(files, HonestServer())]
        async with RawServer(guards[0]) as one, RawServer(guards[1]) as two, RawServer(HonestServer()) as plain:
            text = f'[servers.plain]\nurl = "{plain.url}"\n'
            for name, idp, server in (("mail", mail, one), ("files", files, two)):
                own = OWN.replace("[upstream", f"[servers.{name}")
                configured(tmp_path, own, Tokened(), idp, server.url)
                text += (tmp_path / "accredit.toml").read_text("utf-8")
            (tmp_path / "accredit.toml").write_text(text, "utf-8")
            gateway = Serving(folder=tmp_path)
            await asyncio.to_thread(gateway.__enter__)
            try:
                called_at = [await called(gateway.port, "t", f"/mcp/{name}") for name in ("mail", "files")]
                assert called_at == [200, 200]
                asked = post(Era.MODERN, "tools/call", CALL)
                async with RawClient(gateway.port) as client:
                    await client.ask("POST", "/mcp/plain", asked.headers, asked.body)
                    assert (await client.answer()).status == 200
            finally:
                gateway.__exit__(None, None, None)
            assert [(guard.subjects, guard.refused) for guard in guards] == [([CLIENT], []), ([CLIENT], [])]
            assert plain.requests[0].header("authorization") is None


async def test_a_check_brings_a_token_of_the_gateways__and_says_what_is_wrong_with_it(tmp_path: Path) -> None:
    world = Tokened()

    async with TokenServer(world.key) as idp, RawServer(guard := Guarded(idp, HonestServer())) as server:
        configured(tmp_path, OWN, world, idp, server.url)
        await asyncio.to_thread(accredit, "check", folder=tmp_path)
        assert (set(guard.subjects), guard.refused) == ({CLIENT}, [])
        (tmp_path / "gateway.secret").write_text("another marked")
        checked = await asyncio.to_thread(accredit, "check", folder=tmp_path)
        assert checked.returncode != 0
        assert "status 401: invalid_client" in checked.stderr
        assert "marked" not in checked.stderr + checked.stdout
        configured(tmp_path, EXCHANGED, world, idp, server.url)
        checked = await asyncio.to_thread(accredit, "check", folder=tmp_path, env={"GW_SECRET": SECRET})
        assert "--token-env" in checked.stderr


def test_the_first_way_of_the_page_is_a_good_configuration(tmp_path: Path) -> None:
    (tmp_path / "accredit.toml").write_text(KEY, "utf-8")
    checked = accredit("config", "check", folder=tmp_path, env={"MAIL_KEY": "k"})
    assert checked.returncode == 0, checked.stderr
    (tmp_path / "accredit.toml").write_text(IN_FILE.replace("npx", "cat"), "utf-8")
    (tmp_path / "mail.key").write_text("k\n")
    checked = accredit("config", "check", folder=tmp_path)
    assert (checked.returncode, "others can read" in checked.stderr) == (2, True)
    (tmp_path / "mail.key").chmod(0o600)
    checked = accredit("config", "check", folder=tmp_path)
    assert checked.returncode == 0, checked.stderr
