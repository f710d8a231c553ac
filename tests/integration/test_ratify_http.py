"""Ratify's HTTP binding over real sockets: the published package is the client."""

import contextlib
import json
import secrets
import time
from base64 import b64decode, b64encode
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, cast

import pytest
import ratify_protocol as published
from hypothesis import given
from hypothesis import strategies as st
from tests.world.authorization import Trust
from tests.world.http_apis import api_settings, asked_by
from tests.world.raw_client import RawAnswer, RawClient
from tests.world.running import RunningGateway

from accredit.app.admin import AdminApp
from accredit.config.build import build_settings
from accredit.config.load import load
from accredit.errors import ConfigurationError, StoreUnavailable, WireError
from accredit.gateway import HttpUpstream, create_app
from accredit.gateway.app import Gateway
from accredit.gateway.front import ratify_http
from accredit.gateway.front.asgi import AsgiExchange
from accredit.gateway.front.endpoint import answer
from accredit.keys import write_key
from accredit.limits import CHALLENGE_WINDOW_SECONDS
from accredit.policy.http_binding import MAX_VERIFY_BYTES, read_verify
from accredit.ratify import HybridPublicKey, derive_id, issue_revocation_list
from accredit.stores import MemoryStore, RevocationLists
from accredit.telemetry.board import Board

pytestmark = [pytest.mark.holds("policy/http_binding"), pytest.mark.holds("gateway/front/ratify_http")]

DAY = 86_400


class Client:
    """An agent of the published package, whose owner is pinned."""

    def __init__(self) -> None:
        self.human, self.private = published.generate_human_root()
        self.agent, self.agent_private = published.generate_agent("Mailer", "custom")
        now = int(time.time())
        self.cert = published.DelegationCert(
            cert_id=secrets.token_hex(16),
            version=1,
            issuer_id=self.human.id,
            issuer_pub_key=self.human.public_key,
            subject_id=self.agent.id,
            subject_pub_key=self.agent.public_key,
            scope=["meeting:attend", "comms:email:read"],
            issued_at=now - DAY,
            expires_at=now + DAY,
        )
        published.issue_delegation(self.cert, self.private)

    @property
    def root(self) -> HybridPublicKey:
        key = self.human.public_key
        return HybridPublicKey(bytes(key.ed25519), bytes(key.ml_dsa_65))

    def bundle(self, challenge: bytes, at: int | None = None, session_context: bytes = b"") -> str:
        moment = int(time.time()) if at is None else at
        signed = published.sign_challenge(challenge, moment, self.agent_private, session_context)
        made = published.ProofBundle(
            self.agent.id, self.agent.public_key, [self.cert], challenge, moment, signed, session_context
        )
        return b64encode(published.encode_proof_bundle(made).encode()).decode()


CLIENT = Client()


class World:
    def __init__(self, port: int, store: MemoryStore, app: Gateway) -> None:
        self.port = port
        self.store = store
        self.app = app

    def reload(self) -> None:
        """Puts the same settings in force again."""
        routes = self.app.routes
        self.app.swap(self.app.prepare([each.settings for each in routes.servers], routes.shared), 0.1)

    async def ask(self, method: str, path: str, body: Any = b"") -> RawAnswer:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with RawClient(self.port) as client:
            await client.ask(method, f"/v1/ratify/{path}", [("Content-Type", "application/json")], data)
            return await client.answer()

    async def challenge(self) -> bytes:
        found = await self.ask("POST", "challenge")
        assert found.status == 200, found
        members = json.loads(found.body)
        assert members["ttl_seconds"] == 300
        assert abs(members["expires_at"] - time.time() - 300) < 30
        return b64decode(members["challenge"], validate=True)

    async def verify(self, bundle: str, scope: str = "meeting:attend") -> dict[str, Any]:
        found = await self.ask("POST", "verify", {"proof_bundle": bundle, "required_scope": scope})
        assert found.status == 200, found
        return json.loads(found.body)


@contextlib.asynccontextmanager
async def world(
    listener: str = "public", lists: RevocationLists | None = None, store: MemoryStore | None = None
) -> AsyncGenerator[World]:
    trust, kept = Trust(), store or MemoryStore()
    policy = {"roots": {CLIENT.root: "Owner", trust.owner.public_key: "Other"}}
    settings = trust.settings(HttpUpstream("http://127.0.0.1:9/mcp"), policy=policy, ratify_http=listener)
    app = create_app(settings, store=kept, revocations=lists or RevocationLists((), {}))
    async with RunningGateway(app) as running:
        yield World(running.port, kept, app)


async def test_the_published_package_s_proof_verifies_once() -> None:
    async with world() as at:
        bundle = CLIENT.bundle(await at.challenge())
        assert await at.verify(bundle) == {
            "valid": True,
            "human_id": CLIENT.human.id,
            "agent_id": CLIENT.agent.id,
            "granted_scope": ["comms:email:read", "meeting:attend"],
            "identity_status": "authorized_agent",
        }
        again = await at.verify(bundle)
        assert (again["valid"], again["identity_status"], again["granted_scope"]) == (False, "invalid", [])
        assert "already been used" in again["error_reason"]


@pytest.mark.holds("policy/http_binding", "own-challenges")
async def test_no_challenge_counts_but_one_of_this_binding() -> None:
    async with world() as at:
        made_by_client = await at.verify(CLIENT.bundle(secrets.token_bytes(32)))
        for_a_call = await at.store.issue(b"x" * 32, expires_at=int(time.time()) + 60)
        other = await at.verify(CLIENT.bundle(for_a_call.challenge))
        assert {made_by_client["error_reason"], other["error_reason"]} == {
            "unknown_challenge: challenge was not issued by this verifier or has already been used"
        }
        here = await at.challenge()
        now = int(time.time())
        for issued in (True, False):
            seen = await at.store.spend(here, b"x" * 32, issued=issued, keep_until=now + 400, now=now)
            assert seen.value != "first"


@pytest.mark.holds("policy/http_binding", "root", "same-verifier")
async def test_what_does_not_verify_is_a_result() -> None:
    async with world() as at:
        stranger = await at.verify(Client().bundle(await at.challenge()))
        assert stranger["error_reason"] == "untrusted_root: the chain's root is not trusted"
        lacking = await at.verify(CLIENT.bundle(await at.challenge()), "files:write")
        assert lacking["identity_status"] == "scope_denied"
        stale = await at.verify(CLIENT.bundle(await at.challenge(), int(time.time()) - 400))
        assert stale["error_reason"].startswith("stale_challenge")
        bound = await at.verify(CLIENT.bundle(await at.challenge(), session_context=b"c" * 32))
        assert bound["error_reason"].startswith("session_context_unverifiable")
        assert not [each for each in (stranger, lacking, stale, bound) if each["valid"] or each["granted_scope"]]


@pytest.mark.holds("gateway/front/ratify_http", "verdict", "lists")
async def test_a_revoked_proof_is_a_result_and_the_list_is_given_as_it_was_signed(tmp_path: Path) -> None:
    trust = Trust()
    keys = {trust.owner.id: trust.owner.public_key, derive_id(CLIENT.root): CLIENT.root}
    text = issue_revocation_list(trust.owner.signer(), [CLIENT.cert.cert_id], int(time.time())).encode()
    file = tmp_path / "list.json"
    file.write_bytes(text)
    lists = RevocationLists([file], keys)
    lists.load()
    async with world(lists=lists) as at:
        assert (await at.verify(CLIENT.bundle(await at.challenge())))["identity_status"] == "revoked"
        found = await at.ask("GET", f"revocations/{trust.owner.id}")
        assert (found.status, found.body) == (200, file.read_bytes())
        for unknown in (CLIENT.human.id, "0" * 32):
            answer = await at.ask("GET", f"revocations/{unknown}")
            assert (answer.status, answer.body) == (404, b"{}")


@pytest.mark.holds("policy/http_binding", "request")
@pytest.mark.holds("gateway/front/ratify_http", "verdict", "route")
async def test_what_can_not_be_read_is_a_400_and_paths_have_one_method() -> None:
    async with world() as at:
        for body in (b"", b"{}", b"[]", b'{"proof_bundle": 1}', {"proof_bundle": "!"}, {"proof_bundle": "e30"}):
            assert (await at.ask("POST", "verify", body)).status == 400
        for members in ({"proof_bundle": "e30="}, {"proof_bundle": "e31="}, {"proof_bundle": "e30=", "now": 1}):
            found = await at.ask("POST", "verify", members)
            assert (found.status, list(json.loads(found.body))) == (400, ["error"])
        assert (await at.ask("POST", "verify", b" " * (MAX_VERIFY_BYTES + 1))).status == 413
        for method, path in (("GET", "challenge"), ("GET", "verify"), ("POST", "scopes")):
            assert (await at.ask(method, path)).status == 405
        for path in ("", "other", "revocations/", "revocations/../x", f"revocations/{'A' * 32}"):
            assert (await at.ask("GET", path)).status == 404
        scopes = json.loads((await at.ask("GET", "scopes")).body)
        assert scopes["version"] == 1
        assert {"meeting:attend", "mcp:tool", "email:send"} <= set(scopes["scopes"])
        assert "meeting:record" not in scopes["wildcards"]["meeting:*"]


async def test_a_gateway_that_only_answers_a_proxy_verifies_too_by_the_scopes_of_its_routes() -> None:
    settings = api_settings(Trust(), asked_by("nginx"), ratify_http="public")
    async with (
        RunningGateway(create_app(settings, store=MemoryStore(), revocations=RevocationLists((), {}))) as running,
        RawClient(running.port) as client,
    ):
        await client.ask("GET", "/v1/ratify/scopes", [])
        answer = await client.answer()
    assert answer.status == 200, answer
    assert {"custom:delete", "custom:admin"} <= set(json.loads(answer.body)["scopes"])


@pytest.mark.holds("gateway/front/ratify_http", "rate", "pending")
async def test_challenges_have_a_rate_and_a_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ratify_http, "CHALLENGES", 3)
    monkeypatch.setattr(ratify_http, "CHALLENGES_PER_SECOND", 0.0)
    async with world() as at:
        statuses = [(await at.ask("POST", "challenge")).status for _ in range(5)]
        assert statuses == [200, 200, 200, 429, 429]
        at.reload()
        assert (await at.ask("POST", "challenge")).status == 429
    monkeypatch.undo()
    monkeypatch.setattr(ratify_http.RatifyHttp.__init__, "__kwdefaults__", {"max_pending": 2})
    async with world() as at:
        statuses = [(await at.ask("POST", "challenge")).status for _ in range(4)]
        assert statuses == [200, 200, 503, 503]
        at.reload()
        assert (await at.ask("POST", "challenge")).status == 503


def test_at_the_full_rate_a_stranger_never_uses_up_the_challenges_of_others() -> None:
    at_once = ratify_http.CHALLENGES + ratify_http.CHALLENGES_PER_SECOND * CHALLENGE_WINDOW_SECONDS
    assert at_once < ratify_http.MAX_PENDING_HTTP_CHALLENGES


class Silent(MemoryStore):
    async def look(self, *given: Any, **named: Any) -> Any:
        raise StoreUnavailable("/secret/path")


@pytest.mark.holds("policy/http_binding", "no-answer")
async def test_where_nobody_can_decide_there_is_no_result() -> None:
    async with world(store=Silent()) as at:
        bundle = CLIENT.bundle(await at.challenge())
        found = await at.ask("POST", "verify", {"proof_bundle": bundle})
        assert found.status == 503
        assert found.header("retry-after") == "1"
        assert b"secret" not in found.body


async def test_the_admin_listener_has_it_where_that_is_named_and_for_no_other_origin() -> None:
    trust = Trust()
    settings = trust.settings(HttpUpstream("http://127.0.0.1:9/mcp"), ratify_http="admin")
    gateway = create_app(settings, store=MemoryStore(), revocations=RevocationLists((), {}))
    admin = AdminApp(gateway, cast("Board", None), "127.0.0.1")

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await answer(AsgiExchange(scope, receive, send, gateway.routes.rooms), admin.serve)
        else:
            await gateway(scope, receive, send)

    async with RunningGateway(app) as running, RawClient(running.port) as client:
        await client.ask("POST", "/v1/ratify/challenge")
        assert (await client.answer()).status == 200
        await client.ask("POST", "/v1/ratify/challenge", [("Origin", "https://page.example")])
        assert (await client.answer()).status == 403


@pytest.mark.parametrize("listener", ["", "admin"])
async def test_the_public_listener_has_none_of_it_where_it_was_not_named(listener: str) -> None:
    async with world(listener) as at:
        assert (await at.ask("POST", "challenge")).status == 404
        assert (await at.ask("GET", "scopes")).status == 404


@given(st.binary(max_size=80) | st.text(max_size=40).map(lambda text: json.dumps({"proof_bundle": text}).encode()))
def test_any_bytes_are_a_proof_or_an_error(body: bytes) -> None:
    with pytest.raises(WireError):
        read_verify(body)


def configured(folder: Path, text: str) -> str:
    file = folder / "accredit.toml"
    file.write_text(f'[upstream]\nurl = "http://127.0.0.1:9/mcp"\n[ratify_http]\nenabled = true\n{text}')
    return build_settings(load(file, {}, {}), {}).ratify_http


def test_a_binding_that_could_verify_nothing_or_be_reached_by_nobody_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="proofs are not required"):
        configured(tmp_path, 'listener = "public"\n')
    trust = Trust()
    write_key(tmp_path / "owner", trust.owner)
    proofs = '[proofs]\nmode = "required"\n[[proofs.roots]]\nname = "Owner"\npublic_key_file = "owner.pub"\n'
    gateway = '[gateway]\nid = "mail"\n'
    with pytest.raises(ConfigurationError, match="there is no such listener"):
        configured(tmp_path, proofs + gateway)
    assert configured(tmp_path, f"{proofs}{gateway}[admin]\nport = 0\n") == "admin"
    assert configured(tmp_path, f'listener = "public"\n{proofs}{gateway}') == "public"
    with pytest.raises(ConfigurationError, match="listener"):
        configured(tmp_path, 'listener = "both"\n')


def test_a_member_that_stands_twice_can_not_be_read() -> None:
    with pytest.raises(WireError, match="no object of proof_bundle"):
        read_verify(b'{"proof_bundle": "e30=", "proof_bundle": "e30="}')
