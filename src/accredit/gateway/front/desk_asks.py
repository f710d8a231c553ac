"""The API for desks on other machines: lists the asks that wait for a person, returns one, and takes their answer.

`POST /.well-known/accredit/asks` takes a signed request (`consent.desk_requests`). These are checked in this order. Any
failure is the same 404, so that a stranger learns nothing, and costs little:

- [bounded] The body has at most `MAX_DESK_REQUEST_BYTES`, and the shape of a request.
- [for-us] It names this gateway, and its time is close to now.
- [known] It names one of the people whom the gateway trusts. Only then is a signature verified: first its Ed25519
  part, at a high rate for all together, then the whole, at a low rate for each person. So nobody keeps a person out by
  a few requests in their name: behind a proxy, all have one address.
- [signed] That person, or a session that they have certified, has signed it.
- [nonce] Its nonce is new in all gateways of the store. Nonces are kept among the spent challenges, for longer than a
  request is valid. A store that starts without the earlier nonces refuses requests made before it started.
- [own] An ask about a call is shown to the person asked alone, and only they can answer it. A client's ask is for
  whoever has its code.
- [answer] Only the first answer is kept, and only if its certificates come from this person and allow what was asked.
  They are checked again when they are used. The digits are shown only to the person who let the client in.
- [revoke] What a person revokes ends at once. If they signed it for a client, its login, its tokens and the agent's key
  end with it. If it was an answer, the ask or the kept answer ends, even if nobody has collected it yet. Where people
  log in, revoking a client's certificate ends what was passed on to that client. Revoking the delegation to the
  gateway's key ends all that was passed on under it. Only the front door's own data is deleted: nothing is added to a
  revocation list.

A request for a list with nothing new waits until there is something new, or for `DESK_POLL_SECONDS`. Few requests may
wait in a process; any beyond that are answered at once.
"""

import asyncio
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import msgspec
from msgspec import UNSET

from accredit.base.budget import PeerBudget
from accredit.consent.answers import Answer, read_answer
from accredit.consent.desk_requests import (
    MAX_DESK_REQUEST_BYTES,
    MAX_KNOWN_CODES,
    DeskRequest,
    check_place,
    check_signed,
    is_likely,
    read_desk_request,
)
from accredit.consent.held import ClientAsk, chain_of
from accredit.errors import ConsentError, UnusableAnswer, WireError
from accredit.gateway.front.exchange import Exchange
from accredit.gateway.headers import JSON
from accredit.gateway.holding import ASK_POLL_SECONDS, HeldAsks, OpenAsk
from accredit.jsonrpc.encode import to_json
from accredit.limits import CHALLENGE_WINDOW_SECONDS
from accredit.ports import DoorStore, ProofStore, Spending
from accredit.ratify import DelegationCert, HybridPublicKey
from accredit.ratify.structures import decode_chain

DESK_POLL_SECONDS = 20.0
"""How long a desk waits for news in one request: shorter than proxies let a request be silent."""
MAX_WAITING_DESKS = 64
"""How many desks may wait for news at once. Each holds a connection, and asks the store twice a second."""
MAX_WAITING_DESKS_OF_PERSON = 4
"""How many of these may be of one person: few run more desks than that."""
DESK_CHECKS, DESK_CHECKS_PER_SECOND = 40, 4.0
"""How many requests in one person's name are verified in a burst, and each second, half of them for one address: a
millisecond each, at the calls' expense. A desk makes one in twenty seconds, and a few for each ask."""

FIRST_CHECKS, FIRST_CHECKS_PER_SECOND = 1_000, 500.0
"""How many requests have the Ed25519 part of their signatures verified in a burst, and each second, half of them for
one address: some 150 microseconds each, which is a thirteenth of a core's time."""


class DeskAsks:
    """Serves the desks of `people`, who are known by their public keys. `gateway` is the public URL. With `passes_on`
    people log in, and nothing is asked here. `before` is what a reload replaces."""

    def __init__(
        self,
        people: Iterable[HybridPublicKey],
        gateway: str,
        holding: HeldAsks,
        store: ProofStore,
        door: DoorStore,
        before: "DeskAsks | None" = None,
        *,
        passes_on: bool = False,
    ) -> None:
        self._passes_on = passes_on
        self._people: Mapping[str, HybridPublicKey] = {each.id: each for each in people}
        self._gateway = gateway
        self._holding = holding
        self._store = store
        self._door = door
        self._checks = {each: PeerBudget(DESK_CHECKS, DESK_CHECKS_PER_SECOND) for each in self._people}
        if before is not None:
            self._checks |= {id: budget for id, budget in before._checks.items() if id in self._people}
        self._first = before._first if before is not None else PeerBudget(FIRST_CHECKS, FIRST_CHECKS_PER_SECOND)
        self._waiting: list[str] = before._waiting if before is not None else []
        """The people whose desks wait for news, each as often as desks do."""

    async def serve(self, exchange: Exchange) -> None:
        """Answer one request. Its host and origin have been checked. Raises `RequestError` and `StoreUnavailable`."""
        body = await exchange.body(MAX_DESK_REQUEST_BYTES) if exchange.head.method == "POST" else b""
        request = await self._admitted(body, exchange.peer)
        if request is None:
            answer = None
        elif request.op == "list":
            answer = {"codes": await self._news(request)}
        elif request.op == "revoke":
            answer = await self._revoke(request.person, str(request.certificate))
        else:
            answer = await self._about_one(request)
        found = (200, to_json(answer)) if answer is not None else (404, b"{}")
        await exchange.reply(*found, [JSON, (b"cache-control", b"no-store")])

    async def _admitted(self, body: bytes, peer: str) -> DeskRequest | None:
        """Return a request that may be answered, or None ([bounded] to [nonce])."""
        now = self._holding.clock()
        try:
            request = read_desk_request(body)
            check_place(request, self._gateway, now)
            person = self._people.get(request.person)
            if person is None or not self._first.take(peer) or not is_likely(request, person):
                return None
            if not self._checks[person.id].take(peer):
                return None
            check_signed(request, person)
        except ConsentError:
            return None
        nonce = hashlib.sha256(b"accredit desk nonce 1" + f"{request.person}{request.nonce}".encode()).digest()
        # As if it were a challenge that was made when the request was: it is kept while that could be fresh.
        keep_until = request.at + CHALLENGE_WINDOW_SECONDS + 1
        spent = await self._store.spend(nonce, nonce, issued=False, keep_until=keep_until, now=now)
        return request if spent is Spending.FIRST else None

    async def _news(self, request: DeskRequest) -> list[str]:
        """Return the codes of a person's asks. If the desk knows exactly these already, first wait for a change, up to
        `DESK_POLL_SECONDS`."""
        known = set(request.known) if request.known is not UNSET else set[str]()
        is_full = (
            len(self._waiting) >= MAX_WAITING_DESKS
            or self._waiting.count(request.person) >= MAX_WAITING_DESKS_OF_PERSON
        )
        loop = asyncio.get_running_loop()
        until = loop.time() + (0 if is_full else DESK_POLL_SECONDS)
        self._waiting.append(request.person)
        try:
            while True:
                codes = list(await self._holding.waiting(request.person))[:MAX_KNOWN_CODES]
                if set(codes) != known or loop.time() >= until:
                    return codes
                await asyncio.sleep(ASK_POLL_SECONDS)
        finally:
            self._waiting.remove(request.person)

    async def _about_one(self, request: DeskRequest) -> Mapping[str, object] | None:
        """Fetch an ask, or answer it ([own] and [answer]); None if there is none for this person."""
        held = await self._holding.find_code(str(request.code))
        if held is None or (held.row.person and held.row.person != request.person):
            return None
        if request.answer is UNSET:
            return {"ask": msgspec.Raw(held.ask.text()), "answered": held.answer is not None}
        return await self._answered(request.answer, held, request.person)

    async def _revoke(self, person: str, cert_id: str) -> Mapping[str, object] | None:
        """End everything that was granted by a certificate ([revoke]). Return None if this person has signed no
        certificate with this id that is stored here."""
        found, now, after = False, self._holding.clock(), b""
        while answered := await self._holding.store.answered(after, now=now):
            for after, answer in answered:
                if _is_among(cert_id, _certificates_in(answer), person):
                    found |= await self._holding.store.take(after, now=now) is not None
        # Last: if the answer was taken before that, what it gave is here.
        holds = partial(_holds, person=person, cert_id=cert_id)
        if self._passes_on:
            found |= await self._door.take_back_from_all(holds, now=now)
        else:
            found |= await self._door.take_back(person, holds, now=now)
        return {} if found else None

    async def _answered(self, answer: Answer, held: OpenAsk, person: str) -> Mapping[str, object] | None:
        """Keep an answer, and return what the desk is told; None if the answer can't be used ([answer])."""
        if answer.decision == "later" or answer.ask != held.ask.digest.hex():
            return None
        is_yes = answer.decision == "allow"
        try:
            if is_yes and chain_of(answer, held.ask, self._holding.clock())[-1].issuer_id != person:
                return None
        except ConsentError:
            return None
        if not await self._holding.answer(held, answer.encode()):
            return None
        return {"digits": held.digits} if is_yes and isinstance(held.ask, ClientAsk) else {}


def _certificates_in(answer: bytes) -> Sequence[DelegationCert]:
    try:
        return read_answer(answer).certificates
    except UnusableAnswer:
        return ()


def _holds(chain: bytes, person: str, cert_id: str) -> bool:
    """Return whether a chain of this person's has a certificate with this id."""
    if cert_id.encode() not in chain:
        return False
    try:
        return _is_among(cert_id, decode_chain(chain), person)
    except WireError:
        return False


def _is_among(cert_id: str, certs: Sequence[DelegationCert], person: str) -> bool:
    return bool(certs) and certs[-1].issuer_id == person and cert_id in {each.cert_id for each in certs}
