"""Asks people about calls of OAuth clients that no signed delegation covers. The asks are held at the gateway for the
person's desk.

A host that speaks only OAuth has no helper of ours beside it, so nobody would be asked. Here the gateway asks, with the
agent's key, the person whose login it is (`gateway.holding`).

- [askable] A person is asked about a call if another delegation would allow it (`refusals`), and if a person at a desk
  may decide that.
- [held] The call waits up to `oauth.hold_seconds` for the person's answer. At most `MAX_HELD_CALLS` calls of one agent
  wait at once. In the legacy era the response is already begun while the call waits (`held_answer`). In the modern era,
  a host that can show people a page gets the page's address at once. When the host repeats the call, the repeated call
  waits.
- [yes] An answer is used once: the chain that it brings is kept with the grant, and the call is decided anew. The chain
  is verified as any other is. A yes to another call, or for another key, allows nothing.
- [no] The client is told of a no. The same call is refused until the ask ends, even if the host cancels it.
- [decline] A host that was asked to show the ask's page may answer at any gateway. *Decline* means no. Any other answer
  means nothing: only the person's key allows a call.

The page grants nothing, and shows no arguments: the person answers at the desk.
"""

import asyncio
from collections import Counter
from contextlib import suppress
from typing import Any, cast

import msgspec

from accredit.base.budget import PeerBudget
from accredit.consent.answers import Answer
from accredit.consent.asks import LEG_MEMBERS, Ask, AskedGateway, AskedRefusal, Asker
from accredit.consent.held import chain_of
from accredit.errors import (
    AskError,
    AskGone,
    AsksFull,
    ClientGone,
    FrameError,
    MessageId,
    ProofRefused,
    StoreUnavailable,
    UnusableAnswer,
    WireError,
)
from accredit.gateway.admission.held_answer import HeldAnswer, WaitingCall
from accredit.gateway.holding import HeldAsks, OpenAsk
from accredit.gateway.oauth_settings import OAuthSettings
from accredit.jsonrpc.frames import Notification, Response, Success, member_id
from accredit.jsonrpc.methods import CANCELLED
from accredit.jsonrpc.objects import as_string, members
from accredit.limits import (
    ASK_PROGRESS_SECONDS,
    ASK_SECONDS,
    LONG_ANSWER_BYTES,
    MAX_AGENT_NAME_LENGTH_BYTES,
    MAX_TOLD_REASON_CHARS,
)
from accredit.oauth.answers import ASKED_PATH
from accredit.oauth.clients import Client
from accredit.policy.catalog import Entry
from accredit.policy.guarded_call import GuardedCall
from accredit.ports import DoorStore, Grant, Login
from accredit.ratify import HybridPrivateKey, encode_delegation_cert
from accredit.refusals import BY_WORD, DENIED

MAX_HELD_CALLS = 8
"""How many calls of one agent wait for a person at once; others are told the code. Each keeps a connection open."""
WITHDRAWALS, WITHDRAWALS_PER_SECOND = 40, 0.1
"""How many asks are withdrawn in a burst, and each second, as hosts cancel calls."""
WITHDRAWAL_SHARES = 4
"""Of these, one agent gets at most one in so many: 10, and 90 an hour. Each new ask is a notice to a person, and
who gets them without end says yes one day."""

_ID_BYTES = 16


class GuestAsks:
    """One per endpoint where people consent at their desks. `gateway` is its verifier id, `url` the endpoint's."""

    def __init__(self, settings: OAuthSettings, gateway: str, url: str, holding: HeldAsks, door: DoorStore) -> None:
        self._settings = settings
        self._gateway = AskedGateway(gateway, url)
        self._holding = holding
        self._door = door
        self._held = Counter[str]()
        self._withdrawals = PeerBudget(WITHDRAWALS, WITHDRAWALS_PER_SECOND, shares=WITHDRAWAL_SHARES)
        self._waiting: dict[tuple[str, str, MessageId], tuple[bytes, HeldAnswer]] = {}
        """The ask's key and the answer of each held call whose answer has begun, by agent, session and request id."""

    async def ask(
        self,
        call: GuardedCall,
        refusal: ProofRefused,
        entry: Entry,
        login: Login,
        signer: HybridPrivateKey,
        *,
        wait: bool,
        answer: HeldAnswer | None = None,
    ) -> WaitingCall | None:
        """Ask a person about a refused call, and `wait` for them if told to. Meanwhile the response to the client
        (`answer`) is begun, if possible. Return None if somebody has allowed the call, so that it can be decided anew;
        else the waiting call.

        Raises `StoreUnavailable`. Raises the refusal if asking would not help. If nobody can be asked now, or somebody
        said no, raises it with a text that says so.
        """
        if not is_askable(refusal) or call.about_tasks:
            raise refusal
        try:
            held = await self._holding.hold(self._signed(call, refusal, entry, login, signer))
        except (AskError, AsksFull, WireError) as error:
            raise _reword(refusal, f"nobody can be asked for this now: {error}") from None
        waits = WaitingCall(held.ask.code, f"{self._settings.public_url}{ASKED_PATH}{held.ask.code}")
        if held.answer is None and wait and self._held[signer.id] < MAX_HELD_CALLS:
            self._held[signer.id] += 1
            try:
                found = await self._wait(held, waits, answer, signer.id)
            finally:
                self._held[signer.id] -= 1
                if not self._held[signer.id]:
                    del self._held[signer.id]
            if found is None:
                return None  # perhaps another gateway took the answer
            held = found
        if held.answer is None or held.answer.decision == "later":
            return waits
        if _is_no(held):
            raise _reword(refusal, f"the answer was no (code {waits.code}): do not try it again or another way round")
        await self._take(held, login)
        return None

    async def settles(self, message: Notification | Response, agent: str, session: str) -> bool:
        """Handle a client's cancellation of a call that waits for a person, or its response to the request to show a
        page. Such a message is not forwarded. Return False for any other."""
        if isinstance(message, Notification):
            return message.method == CANCELLED and await self._cancel(agent, session, member_id(message, "requestId"))
        asked = self._holding.of_question(message.id, agent, session) if isinstance(message.id, str) else None
        if asked is None:
            return False
        key, digest = asked
        if _declines(message):
            with suppress(StoreUnavailable):  # then it only goes on to wait
                held = await self._holding.find(key)
                if held is not None and held.answer is None and held.ask.digest == digest:
                    await self._holding.answer(held, Answer(digest.hex(), "deny").text())
        return True

    async def _cancel(self, agent: str, session: str, id: MessageId | None) -> bool:
        """Note that a client has cancelled a call that waits here (`held_answer`, [cancelled])."""
        key, answer = self._waiting.get((agent, session, id), (b"", None)) if id is not None else (b"", None)
        if answer is None:
            return False
        answer.cancelled = True
        if all(other.cancelled for same, other in self._waiting.values() if same == key):
            with suppress(AskGone, StoreUnavailable):
                held = await self._holding.find(key)
                if held is not None and not _is_no(held) and self._withdrawals.take(agent):
                    await self._holding.take(key)
        return True

    async def _wait(self, held: OpenAsk, waits: WaitingCall, answer: HeldAnswer | None, agent: str) -> OpenAsk | None:
        """Wait for a person's answer (`HeldAsks.wait`). If the client disconnects or cancels its call, return the ask
        without an answer. Raises `StoreUnavailable`."""
        whole, key = self._settings.hold_seconds, held.row.key
        if answer is None or not whole:
            return await self._holding.wait(key, whole)
        loop, found, name = asyncio.get_running_loop(), None, (agent, *answer.call)
        until = loop.time() + whole
        self._waiting[name] = (key, answer)
        try:
            with suppress(ClientGone), answer.while_connected():
                await answer.begin(waits, self._holding.question_id(held, agent, answer.session))
                while (left := until - loop.time()) > 0:
                    await answer.tell(waits, left, whole)
                    found = await self._holding.wait(key, min(left, ASK_PROGRESS_SECONDS))
                    if answer.cancelled:
                        return held
                    if found is None or found.answer is not None:
                        break
                await answer.close(waits, decided=found is None or found.answer is not None)
                return found
        finally:
            self._waiting.pop(name, None)
        return held

    async def _take(self, held: OpenAsk, login: Login) -> None:
        """Add the chain that an answer brings to the grant ([yes])."""
        now = self._holding.clock()
        try:
            taken = await self._holding.take(held.row.key)
            if taken.answer is None:
                return
            chain = chain_of(taken.answer, taken.ask, now)
        except (AskGone, UnusableAnswer):
            return  # another gateway has it, or it allows nothing: the decision says so
        text = b"[%b]" % b",".join(encode_delegation_cert(cert) for cert in chain)
        await self._door.add_chain(login.grant, text, ends=min(cert.expires_at for cert in chain), now=now)

    def _signed(
        self, call: GuardedCall, refusal: ProofRefused, entry: Entry, login: Login, signer: HybridPrivateKey
    ) -> Ask:
        now, name = self._holding.clock(), _title_of(login.grant)
        granted = refusal.data.get("granted_scope")
        ask = Ask(
            accredit_ask=1,
            id=self._holding.draw(_ID_BYTES).hex(),
            asked_at=now,
            expires_at=now + ASK_SECONDS,
            agent=Asker(name.encode()[:MAX_AGENT_NAME_LENGTH_BYTES].decode("utf-8", "ignore"), signer.public_key),
            gateway=self._gateway,
            principals=(login.grant.subject,),
            method=cast("Any", call.method),
            target=call.target,
            params={name: value for name, value in call.covered.items() if name not in LEG_MEMBERS},
            refusal=AskedRefusal(
                error=refusal.error,
                required_scope=entry.scope,
                granted_scope=tuple(cast("list[str]", granted)) if isinstance(granted, list) else (),
                reason=str(refusal.data.get("reason") or "")[:MAX_TOLD_REASON_CHARS],
            ),
        )
        return ask.signed(signer)


def _is_no(held: OpenAsk) -> bool:
    return held.answer is not None and held.answer.decision == "deny"


def _title_of(grant: Grant) -> str:
    """Return what a client was called when its person consented; its id, if that is not known."""
    try:
        return msgspec.json.decode(grant.seen, type=Client).title
    except msgspec.MsgspecError:
        return grant.client_id


def is_askable(refusal: ProofRefused | None) -> bool:
    """Return whether another delegation would help a refused call ([askable])."""
    row = BY_WORD.get(refusal.error) if refusal is not None else None
    return row is not None and row.code == DENIED and row.grant_helps


def _declines(response: Response) -> bool:
    """Return whether the response to the request to show a page is a no ([decline])."""
    if not isinstance(response, Success) or len(response.result) > LONG_ANSWER_BYTES:
        return False
    with suppress(FrameError):
        return as_string(members(response.result).get("action")) == "decline"
    return False


def say_who_waits(refusal: ProofRefused, waits: WaitingCall) -> ProofRefused:
    """Return the refusal of a call whose ask is not answered yet, in words for the model and for people."""
    words = (
        f"nobody has answered yet (code {waits.code}). Tell the user: open {waits.url}, or run: accredit approve"
        f" {waits.code}. When they say that it is allowed, call again with exactly the same arguments"
    )
    return _reword(refusal, words, {"ask": waits.code})


def _reword(refusal: ProofRefused, words: str, more: dict[str, object] | None = None) -> ProofRefused:
    return ProofRefused({**refusal.data, **(more or {})}, f"{refusal.error}: {words}", refusal.code)
