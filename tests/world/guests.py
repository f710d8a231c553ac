"""A front door, and clients that have logged in: what their people signed, and their tokens. No I/O but the memory of
the door."""

import hashlib
import secrets
from collections.abc import Sequence
from typing import Any

from msgspec import Struct, structs
from tests.world.authorization import GATEWAY, Trust
from tests.world.stores import RING

from accredit.base.clock import unix_seconds
from accredit.consent.answers import Answer
from accredit.consent.asks import Ask
from accredit.consent.call import CallTerms
from accredit.gateway import Gateway
from accredit.gateway.holding import HeldAsks, OpenAsk
from accredit.gateway.oauth_settings import OAuthSettings
from accredit.keys import make_token_key
from accredit.oauth.access_tokens import FrontToken, mint_access_token
from accredit.ports import AskStore, AuthorizationCode, DoorStore, Login
from accredit.ports import Grant as ClientGrant
from accredit.ratify import DelegationCert, Grant, HybridPrivateKey, encode_delegation_cert, issue_delegation
from accredit.ratify.constraints import Constraint, MaxRate
from accredit.stores.door.steps import Door

PUBLIC_URL = "http://127.0.0.1:8484"
CLAUDE = "https://claude.ai/client.json"
CHATGPT = "https://chatgpt.com/client.json"
CONNECT = "https://mcp.example/connect"


class Visit(Struct, frozen=True):
    """A login: the grant behind it, its agent, its name in hex, and an access token of it."""

    grant: ClientGrant
    agent: HybridPrivateKey
    name: str
    token: str


class FrontDoor:
    """A front door whose people are those of `trust`."""

    def __init__(self, trust: Trust, door: DoorStore | None = None, **settings: Any) -> None:
        self.trust = trust
        self.door = door or Door(RING)
        self.settings = OAuthSettings(PUBLIC_URL, GATEWAY, make_token_key(), **settings)
        self.endpoint = self.settings.endpoint("/mcp")

    async def visit(
        self,
        client: str = CLAUDE,
        *scope: str,
        tools: Sequence[str] = ("list_inbox", "pay"),
        scopes: Sequence[str] | None = None,
        constraints: Sequence[Constraint] = (),
        ends: int = 3_600,
        issuer: Any = None,
        subject: str = "",
    ) -> Visit:
        """A client to which the owner has consented. `scopes` are those of its token, by default all."""
        now = unix_seconds()
        subject = subject or self.trust.owner.id
        grant = await self.door.begin(client, subject, self.endpoint, secrets.token_bytes(64), ends=now + 600, now=now)
        agent = HybridPrivateKey(grant.seeds[:32], grant.seeds[32:])
        granted = scope or ("email:read", "payments:send")
        terms = CallTerms(v=1, gateway=GATEWAY, method="tools/call", target=tuple(tools)).constraint()
        chain = self.sign(agent, *granted, constraints=(terms, *constraints), ends=ends, issuer=issuer)
        given = AuthorizationCode(client, CONNECT, "c" * 43, self.endpoint, tuple(scopes or granted))
        code, name = secrets.token_bytes(32), secrets.token_bytes(32)
        signed = text_of(chain)

        def consent(kept: ClientGrant) -> ClientGrant:
            return structs.replace(kept, chain=signed, ends=now + ends)

        assert await self.door.approve(grant, consent, code, given, ends=now + 60, now=now)
        login = await self.door.redeem(code, lambda _: True, login=name, token=secrets.token_bytes(32), now=now)
        assert isinstance(login, Login)
        return Visit(login.grant, agent, name.hex(), self.token(login.grant, name.hex(), login.scopes))

    def token(self, grant: ClientGrant, name: str, scopes: Sequence[str], **changes: Any) -> str:
        """An access token."""
        now = unix_seconds()
        told = FrontToken(
            issuer=PUBLIC_URL,
            subject=grant.subject,
            resource=grant.resource,
            client_id=grant.client_id,
            login=name,
            token_id=secrets.token_hex(16),
            scope=" ".join(scopes),
            issued_at=now,
            expires_at=now + 900,
        )
        return mint_access_token(self.settings.key, structs.replace(told, **changes))

    def sign(
        self,
        agent: HybridPrivateKey,
        *scope: str,
        constraints: Sequence[Constraint] = (),
        ends: int = 3_600,
        issuer: Any = None,
    ) -> tuple[DelegationCert, ...]:
        """The owner's word for an agent of the gateway."""
        now = unix_seconds()
        grant = Grant(
            subject=agent.public_key,
            cert_id=secrets.token_hex(16),
            scope=scope,
            issued_at=now - 60,
            expires_at=now + ends,
            constraints=tuple(constraints),
        )
        return (issue_delegation((issuer or self.trust.owner).signer(), grant, vocabulary=scope),)


class Desk:
    """The person at their desk, who finds what waits for them in the store."""

    def __init__(self, front: FrontDoor, asks: AskStore, app: Gateway) -> None:
        self.front = front
        self.holding = HeldAsks(asks, app.routes.settings.rounds.ring)

    async def waiting(self) -> OpenAsk:
        """The ask that waits."""
        (code,) = await self.holding.waiting(self.front.trust.owner.id)
        found = await self.holding.find_code(code)
        assert found is not None
        return found

    async def has_one(self) -> bool:
        """Whether one waits."""
        return bool(await self.holding.waiting(self.front.trust.owner.id))

    async def answer(self, held: OpenAsk, decision: Any = "allow", **changes: Any) -> None:
        """Answers it: a yes is for this very call."""
        ask = held.ask
        assert isinstance(ask, Ask)
        certificates: tuple[Any, ...] = ()
        if decision == "allow":
            given: dict[str, Any] = {"v": 1, "gateway": GATEWAY, "method": ask.method, "target": (ask.target,)}
            terms = CallTerms(**given, params_sha256=ask.params_sha256).constraint()
            once = (terms, MaxRate(count=1, window_s=600))
            agent, issuer = changes.get("agent", _Key(ask)), changes.get("issuer")
            certificates = self.front.sign(agent, ask.refusal.required_scope, constraints=once, issuer=issuer)
        answer = Answer(ask.digest.hex(), decision, certificates)
        assert await self.holding.answer(held, answer.text())


class _Key:
    """The agent's key, as the ask names it."""

    def __init__(self, ask: Ask) -> None:
        self.public_key = ask.agent.public_key


def text_of(chain: Sequence[DelegationCert]) -> bytes:
    """A chain, as a store keeps it."""
    return b"[%b]" % b",".join(encode_delegation_cert(cert) for cert in chain)


def sha256(text: str) -> str:
    """What a record says of a token."""
    return hashlib.sha256(text.encode()).hexdigest()
