"""Consent by a person at their desk: the page with the code, the six digits, and the code for the client.

The gateway can grant nothing here. A key is made for the client's agent, and an ask is held that names it. Whoever
types the page's code at their desk is asked, and may sign a delegation to that key.

- [own-browser] What is going on is sealed into the page's form, for the cookie of the browser that began. A page that
  is forwarded to another browser can't be answered from there, nor can another site send a form of its own.
- [asked-after-yes] Nobody is asked by the mere visit of a URL: an ask begins with *Continue*.
- [digits] The client gets its code only if whoever began types the digits that the desk shows after the yes. So neither
  has somebody who made a person type a code got anything, nor has a person who types a stranger's code lost it.
- [trusted] Whoever answered is one of the endpoint's roots, or may be one by a registry; each call asks that again.
- [once] An answered ask is taken once. What was signed is used only for the key of this very form.
- [new-key] Who consents to a client again gives it a new key, and what was granted to the old one ends.
"""

import hashlib
import secrets
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from accredit.base.clock import unix_seconds
from accredit.consent.asks import AskedGateway, Asker
from accredit.consent.held import MAX_CLIENT_TOOLS, AskedTool, AskingClient, ClientAsk
from accredit.errors import AskError, AskGone, AsksFull, OAuthError, SealError, UnusableAnswer
from accredit.gateway.front.door.pages import Page, begin_page, code_page, ended_page
from accredit.gateway.front.door.requests import Wanted
from accredit.gateway.holding import Holding
from accredit.gateway.oauth_settings import OAuthSettings
from accredit.limits import ASK_SECONDS, MAX_AGENT_NAME_LENGTH_BYTES
from accredit.oauth.answers import AUTHORIZE_PATH, code_redirect, error_redirect
from accredit.oauth.forms import MAX_FORM_BYTES, Parameters
from accredit.oauth.requests import Authorization
from accredit.ports import AuthorizationCode, DoorStore
from accredit.ratify import DelegationCert, HybridPrivateKey, encode_delegation_cert
from accredit.ratify.hybrid import SEED_BYTES
from accredit.ratify.scopes import intersect
from accredit.rounds.sealing import NONCE_BYTES, KeyRing

CODE_SECONDS = 60
"""How long an authorization code is good for. A browser brings it to its client within a second or two."""
SECRET_BYTES = 32
"""Random bytes of a code, and of each half of a refresh token: nobody guesses them."""
BEGUN_SECONDS = 600
"""How long a key waits in the store for the consent that it was made for."""

_LABEL, _VERSION = b"accredit front door forms 1", "f1."
_FORM_ROOM = 1_024
"""What a form has beside its sealed text."""
_BUSY = "Too many connections are waiting for an answer. Try again in a few minutes."


class _Flow(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a page's form brings back. `ask` is the key of the held ask, and `seeds` are the agent's; both are b"" until
    *Continue* was pressed. `ends` is in unix seconds."""

    client_id: str
    redirect_uri: str
    state: str
    challenge: str
    resource: str
    scopes: tuple[str, ...]
    ends: int
    ask: bytes = b""
    seeds: bytes = b""

    @property
    def request(self) -> Authorization:
        """The authorization request that it began with."""
        return Authorization(
            client_id=self.client_id,
            redirect_uri=self.redirect_uri,
            state=self.state,
            challenge=self.challenge,
            resource=self.resource,
            scopes=self.scopes,
        )


class Going(NamedTuple):
    """What a form says: which button was pressed (`do`), the `digits`, and what was begun."""

    do: str
    digits: str
    flow: _Flow


class DeskConsent:
    """Takes requests to people's desks. `browser` is the random value of a browser's cookie. `clock` returns unix
    seconds, `draw(n)` n random bytes."""

    def __init__(
        self,
        settings: OAuthSettings,
        holding: Holding,
        door: DoorStore,
        ring: KeyRing,
        *,
        clock: Callable[[], int] = unix_seconds,
        draw: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        self._settings = settings
        self._holding = holding
        self._door = door
        self._ring = ring.derived(_LABEL)
        self._clock = clock
        self._draw = draw

    def begin(self, wanted: Wanted, browser: str) -> Page:
        """Return the first page for a request. Raises `OAuthError` for one that no form could bring back."""
        request = wanted.request
        flow = _Flow(
            client_id=request.client_id,
            redirect_uri=request.redirect_uri,
            state=request.state,
            challenge=request.challenge,
            resource=request.resource,
            scopes=request.scopes,
            ends=self._clock() + ASK_SECONDS,
        )
        return begin_page(wanted, self._seal(flow, browser), AUTHORIZE_PATH)

    def read(self, form: Parameters, browser: str) -> Going:
        """Return what a form brings ([own-browser]). Raises `OAuthError`."""
        try:
            data = self._ring.unlock(_VERSION, form.require("flow"), _binding(browser))
            flow = msgspec.msgpack.decode(data, type=_Flow)
        except (SealError, msgspec.MsgspecError):
            raise OAuthError("access_denied", "this page was begun in another browser, or its cookie is gone") from None
        if flow.ends < self._clock():
            raise OAuthError("access_denied", "this page was open for too long: begin again in your app")
        return Going(form.get("do"), form.get("digits"), flow)

    async def go_on(self, going: Going, wanted: Wanted, browser: str, address: str) -> Page | str:
        """Do what was asked for. Return the next page, or the URL of the client to go to. `address` is the browser's.
        Raises `StoreUnavailable`."""
        if going.do == "cancel":
            return await self._refuse(going.flow, "the person has cancelled")
        if going.do == "begin" and not going.flow.ask:
            return await self._ask(going.flow, wanted, browser)
        if going.do == "confirm" and going.flow.ask:
            return await self._confirm(going, wanted, browser)
        return ended_page("This page can't go on", "The form is not whole. Begin again in your app.")

    async def _ask(self, flow: _Flow, wanted: Wanted, browser: str) -> Page:
        """Make a key, and hold an ask for it ([asked-after-yes])."""
        seeds = self._draw(2 * SEED_BYTES)
        try:
            ask = self._client_ask(wanted, seeds)
            held = await self._holding.hold(ask)
        except AsksFull:
            return ended_page("Too many at once", _BUSY, 429)
        except (AskError, AskGone):
            return ended_page("This can't be asked", "The app asks for more than a person can be shown.")
        begun = replace(flow, ask=held.row.key, seeds=seeds, ends=ask.expires_at)
        return code_page(wanted, self._seal(begun, browser), AUTHORIZE_PATH, held.ask.code)

    def _client_ask(self, wanted: Wanted, seeds: bytes) -> ClientAsk:
        request, client, now = wanted.request, wanted.client, self._clock()
        name = client.name.encode()[:MAX_AGENT_NAME_LENGTH_BYTES].decode("utf-8", "ignore")
        return ClientAsk(
            accredit_client_ask=1,
            id=self._draw(16).hex(),
            asked_at=now,
            expires_at=now + ASK_SECONDS,
            agent=Asker(name, _key_of(seeds).public_key),
            gateway=AskedGateway(wanted.policy.verifier_id, self._settings.public_url),
            client=AskingClient(client.id, name, request.redirect_uri),
            endpoint=request.resource,
            tools=tuple(map(AskedTool, wanted.tools[:MAX_CLIENT_TOOLS])),
            scopes=request.scopes,
            until=now + self._settings.refresh_seconds,
        )

    async def _confirm(self, going: Going, wanted: Wanted, browser: str) -> Page | str:
        """Compare the digits, and give the client its code ([digits] and [once])."""
        flow = going.flow
        held = await self._holding.find(flow.ask)
        if held is None:
            return ended_page("This has ended", "Nobody has answered in time. Begin again in your app.")
        sealed = self._seal(flow, browser)
        if held.answer is None:
            note = "Nobody has answered at a desk yet. Your desk shows the digits after your yes."
            return code_page(wanted, sealed, AUTHORIZE_PATH, held.ask.code, note)
        if held.answer.decision != "allow":
            return await self._refuse(flow, "the person has said no")
        try:
            taken = await self._holding.confirm(flow.ask, going.digits)
            if taken is None:
                note = "These are not the digits that the desk shows."
                return code_page(wanted, sealed, AUTHORIZE_PATH, held.ask.code, note)
            chain = taken.chain(self._clock())
        except AskGone:
            return ended_page("This has ended", "The digits were wrong too often. Begin again in your app.")
        except UnusableAnswer:
            return await self._refuse(flow, "the desk's answer can't be used")
        policy = wanted.policy
        if policy.find_root is None and chain[-1].issuer_pub_key not in policy.roots:
            return await self._refuse(flow, "the gateway does not trust who has answered")
        return await self._give_code(flow, chain)

    async def _give_code(self, flow: _Flow, chain: Sequence[DelegationCert]) -> str:
        """Keep what a person signed, and return where the browser brings the client its code ([new-key])."""
        now, subject = self._clock(), chain[-1].issuer_id
        text = b"[%b]" % b",".join(map(encode_delegation_cert, chain))
        ends = min(each.expires_at for each in chain)
        granted = {*intersect(each.scope for each in chain)}
        code = secrets.token_urlsafe(SECRET_BYTES)
        begun = (flow.client_id, subject, flow.resource, flow.seeds)
        grant = await self._door.begin(*begun, ends=now + BEGUN_SECONDS, now=now)
        if grant.seeds != flow.seeds:
            await self._door.end_grant(grant)
            grant = await self._door.begin(*begun, ends=now + BEGUN_SECONDS, now=now)
        given = AuthorizationCode(
            flow.client_id,
            flow.redirect_uri,
            flow.challenge,
            flow.resource,
            tuple(each for each in flow.scopes if each in granted),
        )
        digest = hashlib.sha256(code.encode()).digest()
        kept = await self._door.approve(
            grant, lambda one: replace(one, chain=text, ends=ends), digest, given, ends=now + CODE_SECONDS, now=now
        )
        if not kept:  # somebody consented to the same client at the same moment
            return await self._refuse(flow, "another consent to this client came between")
        return code_redirect(flow.redirect_uri, self._settings.public_url, flow.state, code)

    async def _refuse(self, flow: _Flow, why: str) -> str:
        if flow.ask:
            await self._holding.store.take(flow.ask, now=self._clock())
        error = OAuthError("access_denied", why)
        return error_redirect(flow.redirect_uri, self._settings.public_url, flow.state, error)

    def _seal(self, flow: _Flow, browser: str) -> str:
        data = msgspec.msgpack.encode(flow)
        sealed = self._ring.lock(_VERSION, data, _binding(browser), self._draw(NONCE_BYTES))
        if len(sealed) > MAX_FORM_BYTES - _FORM_ROOM:
            raise OAuthError("invalid_request", "the request is too long for a form")
        return sealed


def _key_of(seeds: bytes) -> HybridPrivateKey:
    return HybridPrivateKey(seeds[:SEED_BYTES], seeds[SEED_BYTES:])


def _binding(browser: str) -> bytes:
    return hashlib.sha256(browser.encode()).digest()
