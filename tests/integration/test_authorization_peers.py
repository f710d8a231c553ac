"""Real peers on both sides of the gateway: the official SDK, FastMCP, and proofs of the published package."""

import json
from pathlib import Path
from typing import Any

import pytest
import ratify_protocol as published
from fastmcp import FastMCP
from mcp.server.mcpserver import MCPServer
from tests.differential.peer import ours_key
from tests.world.authorization import CATALOG, Trust, challenge_in
from tests.world.routes import ROUTES, Route
from tests.world.running import RunningGateway

from accredit.base.clock import unix_seconds
from accredit.client import AccreditedClient, ProofPresenter
from accredit.errors import ProofRefused
from accredit.gateway import create_app
from accredit.gateway.settings import HttpUpstream
from accredit.keys import SigningKey
from accredit.stores import MemoryStore, RevocationLists

INBOX = {"name": "list_inbox", "arguments": {"limit": 3}}
SEND = {"name": "send_email", "arguments": {"to": "a@example.com"}}


def mail(server: MCPServer[Any] | FastMCP[Any], ran: list[str]) -> Any:
    """The tools of the catalog, and one more; as an ASGI application."""

    @server.tool()
    def list_inbox(limit: int = 1) -> list[str]:  # pyright: ignore[reportUnusedFunction]
        ran.append("list_inbox")
        return ["hello"][:limit]

    @server.tool()
    def send_email(to: str) -> str:  # pyright: ignore[reportUnusedFunction]
        ran.append("send_email")
        return f"sent to {to}"

    @server.tool()
    def secret_tool() -> str:  # pyright: ignore[reportUnusedFunction]
        ran.append("secret_tool")
        return "told"

    return server.http_app() if isinstance(server, FastMCP) else server.streamable_http_app()


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
@pytest.mark.parametrize("kind", ["sdk", "fastmcp"])
async def test_an_unmodified_server_behind_the_gateway_runs_what_is_allowed_and_nothing_else(
    kind: str, mode: str
) -> None:
    trust, ran = Trust(), list[str]()

    server: MCPServer[Any] | FastMCP[Any] = MCPServer("mail") if kind == "sdk" else FastMCP("mail")
    async with RunningGateway(mail(server, ran)) as upstream:
        settings = trust.settings(HttpUpstream(upstream.url))
        app = create_app(settings, store=MemoryStore(), revocations=RevocationLists((), {}))
        key = SigningKey(trust.agent.public(), trust.agent.signer())
        presenter = ProofPresenter(key, [trust.chain("email:read", "email:send")], gateway_id="mail-gateway")
        async with RunningGateway(app) as gateway:
            async with AccreditedClient(gateway.url, presenter=presenter, mode=mode) as client:
                assert [tool.name for tool in (await client.list_tools()).tools] == ["list_inbox", "send_email"]
                assert not (await client.call_tool("list_inbox", {"limit": 1})).is_error
                assert not (await client.call_tool("send_email", {"to": "a@example.com"})).is_error
                with pytest.raises(ProofRefused, match="unknown_tool"):
                    await client.call_tool("secret_tool")
            async with AccreditedClient(gateway.url, mode=mode) as nobody:
                with pytest.raises(ProofRefused, match="missing_ratify_proof"):
                    await nobody.call_tool("list_inbox")
    assert ran == ["list_inbox", "send_email"]


class Page:
    """A human and an agent as the integration page has them, made by the published package alone."""

    def __init__(self) -> None:
        self.human, human_key = published.generate_human_root()
        self.agent, self.key = published.generate_agent("Mailer", "custom")
        self.cert = published.DelegationCert(
            cert_id="page-1",
            version=1,
            issuer_id=self.human.id,
            issuer_pub_key=self.human.public_key,
            subject_id=self.agent.id,
            subject_pub_key=self.agent.public_key,
            scope=["comms:email:send"],
            constraints=[],
            issued_at=unix_seconds() - 60,
            expires_at=unix_seconds() + 3600,
            signature=published.HybridSignature(b"", b""),
        )
        published.issue_delegation(self.cert, human_key)

    def proves(self, params: dict[str, Any], challenge: bytes | None = None) -> dict[str, Any]:
        """A call with an unbound proof, as the page writes it."""
        challenge, now = challenge or published.generate_challenge(), unix_seconds()
        bundle = published.ProofBundle(
            agent_id=self.agent.id,
            agent_pub_key=self.agent.public_key,
            delegations=[self.cert],
            challenge=challenge,
            challenge_at=now,
            challenge_sig=published.sign_challenge(challenge, now, self.key),
        )
        return {**params, "_meta": {"ratify_proof": json.loads(published.encode_proof_bundle(bundle))}}


@pytest.mark.parametrize("name", ROUTES)
async def test_a_proof_of_the_published_package_is_served_where_binding_is_optional(name: str, tmp_path: Path) -> None:
    page, trust = Page(), Trust()
    policy = {"roots": {ours_key(page.human.public_key): "Owner"}, "catalog": CATALOG}
    async with Route(name, trust, tmp_path, policy=policy) as route:
        asked = (await route.ask("tools/call", SEND))["error"]  # `accepts` of the catalog covers its scope
        params = page.proves(SEND, challenge_in(asked))
        assert "result" in await route.ask("tools/call", params)
        assert (await route.ask("tools/call", params))["error"]["data"]["error"] == "ratify_replayed"
        refused = (await route.ask("tools/call", page.proves(INBOX)))["error"]
        assert refused["data"]["error"] == "ratify_scope_denied"
        assert refused["data"]["principal_id"] == page.human.id
        (came,) = route.received("tools/call")
        assert came["params"]["_meta"]["dev.accredit/authorization"]["agent_id"] == page.agent.id
