"""Servers that FastMCP and the official SDK guard with OAuth, behind one gateway that demands tokens, proofs and pins.

Each caller is the official SDK's client, which starts `accredit connect`: only what the libraries' own checks let pass
counts.
"""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from tests.interop.environments import PROGRAMS
from tests.interop.ways import Process, connecting, delegate
from tests.world.command import Serving, accredit
from tests.world.issuer import AUDIENCE, key_set_text
from tests.world.ports import reserved_port
from tests.world.raw_server import PATIENCE
from tests.world.token_server import CLIENT, MAIL, SECRET, TokenServer
from tests.world.tokened import ISSUER, Tokened
from tests.world.warm import python

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

AUTH = f"""
token_url = "TOKEN_URL"
client_id = "{CLIENT}"
client_secret = {{ env = "GW_SECRET" }}
audience = "{MAIL}"
"""
CONFIGURATION = f"""
[gateway]
id = "gate"

[servers.reports]
url = "REPORTS"

[servers.reports.auth]
type = "client_credentials"{AUTH}
[servers.reports.tools.file_report]
scope = "custom:reports:file"

[servers.notes]
url = "NOTES"

[servers.notes.auth]
type = "token_exchange"{AUTH}
[servers.notes.tools.write_note]
scope = "custom:notes:write"

[servers.notes.tools.read_notes]
scope = "custom:notes:read"

[tokens]
mode = "required"

[[tokens.issuers]]
issuer = "{ISSUER}"
audience = "{AUDIENCE}"
jwks_file = "keys.json"

[proofs]
mode = "required"

[[proofs.roots]]
name = "Owner"
public_key_file = "owner.key.pub"
"""


@contextmanager
def serving(kind: str, folder: Path, idp: TokenServer) -> Generator[str]:
    """The server of a library, which trusts this authorization server; gives its URL."""
    key = idp.key.private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    tokens = json.dumps({"issuer": idp.url, "audience": MAIL, "key": key})
    with reserved_port() as port:
        env = {"PORT": str(port), "FOLDER": str(folder), "TOKENS": tokens}
        process = Process([python(), str(PROGRAMS / "tokened_server.py"), kind], port, folder / f"{kind}.log", env)
        try:
            process.start()
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.end()


class Peers:
    """Both servers behind one gateway; `alice` and `bob` have tokens of the gateway's issuer."""

    def __init__(self, folder: Path, idp: TokenServer, world: Tokened) -> None:
        self.folder, self.idp, self.world = folder, idp, world
        self._stack = ExitStack()
        self.gateway: Any = None

    def __enter__(self) -> "Peers":
        with ExitStack() as stack:
            text = CONFIGURATION.replace("TOKEN_URL", self.idp.url)
            for name, kind in (("REPORTS", "fastmcp"), ("NOTES", "sdk")):
                text = text.replace(name, stack.enter_context(serving(kind, self.folder, self.idp)))
            (self.folder / "accredit.toml").write_text(text, "utf-8")
            (self.folder / "keys.json").write_bytes(key_set_text(self.world.key))
            delegate(self.folder, ["custom:reports:file", "custom:notes:write", "custom:notes:read"])
            self.ran("pin", "reports", "--yes")
            self.ran("pin", "notes", "--yes", "--token-env", "OWN", OWN=self.of_server("alice"))
            self.gateway = stack.enter_context(Serving(folder=self.folder, env={"GW_SECRET": SECRET}))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *raised: object) -> None:
        self._stack.close()

    def ran(self, *arguments: str, **env: str) -> str:
        done = accredit(*arguments, folder=self.folder, env={"GW_SECRET": SECRET, **env})
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def of_server(self, subject: str) -> str:
        """A token that the servers take."""
        return self.idp.key.sign({"iss": self.idp.url, "sub": subject, "aud": MAIL, "exp": int(time.time()) + 600})

    @asynccontextmanager
    async def caller(self, subject: str, name: str) -> AsyncGenerator[Client]:
        """The SDK's client of a person at a server of the gateway."""
        own = self.folder / subject
        own.mkdir(exist_ok=True)
        url = f"http://127.0.0.1:{self.gateway.port}/mcp/{name}"
        command = [*connecting(url, self.folder, own), "--token-env", "TOKEN"]
        env = {"TOKEN": self.world.token(sub=subject)}
        parameters = StdioServerParameters(command=command[0], args=command[1:], env=env)
        async with Client(parameters, read_timeout_seconds=PATIENCE) as client:
            yield client


async def listed(client: Client) -> list[str]:
    return sorted(tool.name for tool in (await client.list_tools(cache_mode="refresh")).tools)


async def said(client: Client, tool: str, **arguments: Any) -> str:
    return " ".join(str(getattr(each, "text", "")) for each in (await client.call_tool(tool, arguments)).content)


async def test_each_server_gets_tokens_of_its_own_kind__and_a_tool_is_pinned_as_its_caller_sees_it(
    tmp_path: Path,
) -> None:
    world = Tokened()

    async with TokenServer(world.key) as idp:
        peers = Peers(tmp_path, idp, world)
        await asyncio.to_thread(peers.__enter__)
        try:
            async with peers.caller("alice", "reports") as alice:
                assert await said(alice, "file_report", text="all well") == "filed"
            assert (tmp_path / "report.txt").read_text("utf-8") == f"{CLIENT}: all well"

            async with peers.caller("alice", "notes") as alice, peers.caller("bob", "notes") as bob:
                assert await listed(alice) == ["read_notes", "write_note"]
                assert await listed(bob) == ["read_notes"]
                assert await said(alice, "write_note", text="a secret") == "written"
                assert await said(alice, "read_notes") == "a secret"
                assert await said(bob, "read_notes") == "bob has none"
                assert "definition_changed" in await said(bob, "write_note", text="mine")
                assert {each.name for each in tmp_path.glob("*.txt")} == {"report.txt", "alice.txt"}

            (tmp_path / "changed").write_text("alice", "utf-8")
            async with peers.caller("alice", "notes") as alice, peers.caller("bob", "notes") as bob:
                assert await listed(alice) == []
                assert "definition_changed" in await said(alice, "write_note", text="my keys")
                assert await said(bob, "read_notes") == "bob has none"
            assert (tmp_path / "alice.txt").read_text("utf-8") == "a secret"
            shown = peers.gateway.stderr
        finally:
            peers.__exit__()
        exchanged = [form for form in idp.asked if "subject_token" in form]
        subjects = {jwt.decode(form["subject_token"], options={"verify_signature": False})["sub"] for form in exchanged}
        assert subjects == {"alice", "bob"}
        assert not any(token.rpartition(".")[2] in shown for token in idp.given)
