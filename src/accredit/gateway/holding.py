"""Holds asks for people who are at their desks: the store of asks, its seal, and waiting for answers. Reads the clock
and draws random bytes.

Whoever serves a client that speaks only OAuth holds an ask, waits, and takes it:

    holding = Holding(store, settings.rounds.ring)

    # A page begins a consent.
    held = await holding.hold(client_ask)                                    # raises AsksFull
    show(held.ask.code)                                                      # to this browser alone
    held = await holding.wait(held.row.key, seconds=5)                       # answered or not; None once it has ended
    taken = await holding.confirm(held.row.key, digits)                      # None: wrong digits. Raises AskGone
    chain = taken.chain(now)                                                 # raises UnusableAnswer, also for a no

    # A call that no delegation covers: `ask` is a `consent.Ask`, signed with the agent's key, for one principal.
    held = await holding.hold(ask)                  # the same call again: the same ask, perhaps with its answer
    held = await holding.wait(held.row.key, seconds=settings.hold_seconds)
    if held is not None and held.answer is not None and held.answer.decision == "allow":
        taken = await holding.take(held.row.key)    # exactly one gateway gets it
        chain = taken.chain(now)
    # A no is not taken: it answers the same call until it ends.

    # Its client is asked to show the ask's page, in a request of this id; its answer may come to another gateway.
    question = holding.question_id(held, session)
    asked = holding.of_question(question, session)                           # None: an id that was made up

- [sealed] What the store holds of an ask is sealed with keys that gateways share, for this very row: its key, asker,
  person and code. So somebody who can only write to the store can't have a person asked something else. A row that does
  not open counts as absent.
- [digits] They are drawn when a client's ask is held, and shown only to the person who has answered with their key.
  After `MAX_DIGIT_TRIES` wrong tries at any gateways, the ask is gone. Tries are counted in the store and in each
  process, so that somebody who can write to the store can't reset them.
- [questions] The id of a request about an ask is sealed for the session that gets it. So it is recognised without being
  stored, and nobody else can make one.
- [once] Exactly one answer is kept, and exactly one caller takes the ask with it (`ports.AskStore`).
"""

import asyncio
import hashlib
import hmac
import secrets
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
from msgspec import Struct

from accredit.base.caching import CachedProperty, RecentlyUsed
from accredit.base.clock import unix_seconds
from accredit.base.values import decodable
from accredit.consent.answers import Answer, read_answer
from accredit.consent.asks import MAX_ASK_BYTES, Ask
from accredit.consent.held import AnyAsk, chain_of, read_held
from accredit.errors import AskError, AskGone, SealError, UnusableAnswer
from accredit.limits import ASK_SECONDS, MAX_ASKS, MAX_SEALED_ASK_BYTES
from accredit.ports import AskStore, HeldAsk
from accredit.ratify import DelegationCert
from accredit.rounds.sealing import NONCE_BYTES, KeyRing

ASK_POLL_SECONDS = 0.5
"""The interval at which the store is asked whether a person has answered: each waiting call asks for one row."""

MAX_DIGIT_TRIES = 3
"""How many tries somebody has at the six digits that a desk shows. Whoever guesses is right once in 300,000 asks."""
DIGITS = 6
"""How many digits a desk shows after a person's yes, for the page that began the ask."""

MAX_QUESTION_ID_BYTES = 160
"""The longest id of a request about an ask: two digests, sealed, have 139 bytes."""

_LABEL, _VERSION, _QUESTION = b"accredit held asks 1", "k1.", "accredit.q1."
_PEERS = b"accredit who began an ask 1"


@decodable
class _Sealed(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    ask: bytes
    digits: str


class OpenAsk(NamedTuple):
    """A row of the store that was opened: the ask, the digits that the desk shows after a yes, and the answer. An
    invalid answer counts as none."""

    row: HeldAsk
    ask: AnyAsk
    digits: str
    answer: Answer | None

    def chain(self, now: int) -> tuple[DelegationCert, ...]:
        """Return the certificates, leaf first, by which the answer allows what was asked (`chain_of`). `now`
        is in unix seconds. Raises `UnusableAnswer`."""
        if self.answer is None:
            raise UnusableAnswer("nobody has answered yet")
        return chain_of(self.answer, self.ask, now)


class HeldAsks:
    """Asks in `store`, sealed with keys derived from `ring`. `clock` returns unix seconds, `draw(n)` n random bytes."""

    def __init__(
        self,
        store: AskStore,
        ring: KeyRing,
        *,
        clock: Callable[[], int] = unix_seconds,
        draw: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        self.store = store
        self.clock = clock
        self._shared_ring = ring
        self.draw = draw
        self._tries = RecentlyUsed[bytes, int](2 * MAX_ASKS)

    @CachedProperty
    def _ring(self) -> KeyRing:
        return self._shared_ring.derived(_LABEL)

    async def hold(self, ask: AnyAsk, peer: str = "") -> OpenAsk:
        """Hold an ask until it expires. If the same call is held for this agent and person, return that ask.

        The room for asks about calls is shared out by agent; the room for asks about clients, by who has begun them
        (`peer`, of which only a tag is kept).

        Raises `AsksFull`, `StoreUnavailable`, and `AskError` for an ask that can't be held.
        """
        if isinstance(ask, Ask):
            asker = hashlib.sha256(ask.agent.public_key.id.encode()).digest()
        else:
            asker = self._shared_ring.derived(_PEERS).tag(peer.encode())
        digits = f"{int.from_bytes(self.draw(16)) % 10**DIGITS:0{DIGITS}}"
        row = _seal(self._ring, ask, asker, digits, self.draw(NONCE_BYTES))
        opened = self._open(await self.store.hold(row, now=self.clock()))
        if opened is None:  # somebody's doing: a row of this key that no gateway has sealed
            await self.store.take(row.key, now=self.clock())
            opened = self._open(await self.store.hold(row, now=self.clock()))
        if opened is None:
            raise AskGone("the ask was changed in the store")
        return opened

    async def find(self, key: bytes) -> OpenAsk | None:
        """Return the ask of this key, or None. Raises `StoreUnavailable`."""
        return self._open(await self.store.find(key, now=self.clock()))

    async def find_code(self, code: str) -> OpenAsk | None:
        """Return the ask of this code, or None. Raises `StoreUnavailable`."""
        return self._open(await self.store.find_code(code, now=self.clock()))

    async def waiting(self, person: str) -> Sequence[str]:
        """Return the codes of a person's asks that have no answer. Raises `StoreUnavailable`."""
        return await self.store.waiting(person, now=self.clock())

    async def wait(self, key: bytes, seconds: float) -> OpenAsk | None:
        """Return an ask once it is answered, or after `seconds` as it is then; None if it has ended. Raises
        `StoreUnavailable`."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while True:
            found = await self.find(key)
            left = until - loop.time()
            if found is None or found.answer is not None or left <= 0:
                return found
            await asyncio.sleep(min(ASK_POLL_SECONDS, left))

    async def answer(self, held: OpenAsk, answer: bytes) -> bool:
        """Answer an ask; return whether it has this answer now. It is kept for as long as an ask is valid. Raises
        `StoreUnavailable`."""
        now = self.clock()
        return await self.store.answer(held.row.key, answer, keep_until=now + ASK_SECONDS, now=now)

    def question_id(self, held: OpenAsk, *to: str) -> str:
        """Return a new id for a request about an ask, which goes `to` somebody ([questions])."""
        data = held.row.key + held.ask.digest
        return self._ring.lock(_QUESTION, data, msgspec.msgpack.encode(to), self.draw(NONCE_BYTES))

    def of_question(self, id: str, *to: str) -> tuple[bytes, bytes] | None:
        """Return the key and the digest of an ask, from the id of a request about it. Return None for an id that
        `question_id` did not make for the same `to` ([questions])."""
        if not id.startswith(_QUESTION) or len(id) > MAX_QUESTION_ID_BYTES:
            return None
        try:
            data = self._ring.unlock(_QUESTION, id, msgspec.msgpack.encode(to))
        except SealError:
            return None
        return data[:32], data[32:]

    async def confirm(self, key: bytes, digits: str) -> OpenAsk | None:
        """Take an answered ask out of the store, if these are its digits; else return None ([digits]).

        Raises `AskGone`, also for an ask that nobody has answered, and `StoreUnavailable`.
        """
        tries = await self.store.attempt(key, now=self.clock())
        if tries:
            tries = max(tries, (self._tries.get(key) or 0) + 1)
            self._tries.put(key, tries)
        held = await self.find(key)
        if held is None or held.answer is None or not 0 < tries <= MAX_DIGIT_TRIES:
            await self.store.take(key, now=self.clock())
            raise AskGone("there is no such ask any more")
        if not hmac.compare_digest(held.digits.encode(), digits.encode("utf-8", "replace")):
            if tries == MAX_DIGIT_TRIES:
                await self.store.take(key, now=self.clock())
                raise AskGone(f"the digits were typed wrong {MAX_DIGIT_TRIES} times")
            return None
        return await self.take(key)

    async def take(self, key: bytes) -> OpenAsk:
        """Take an ask out of the store, with its answer. Raises `AskGone` and `StoreUnavailable`."""
        taken = self._open(await self.store.take(key, now=self.clock()))
        if taken is None:
            raise AskGone("there is no such ask any more")
        return taken

    async def aclose(self) -> None:
        """Release all resources."""
        await self.store.aclose()

    def _open(self, row: HeldAsk | None) -> OpenAsk | None:
        if row is None:
            return None
        try:
            return _open(self._ring, row)
        except SealError:
            return None


def _seal(ring: KeyRing, ask: AnyAsk, asker: bytes, digits: str, nonce: bytes) -> HeldAsk:
    """Return the row of an ask. `nonce` is 12 random bytes.

    A call that is asked for again by the same agent of the same person has the same key. Raises `AskError` for an ask
    that is too long, and for one about a call that asks nobody, or several people.
    """
    person = ""
    key = ask.digest
    if isinstance(ask, Ask):
        if len(ask.principals) != 1:
            raise AskError("an ask that a gateway holds is for one person")
        person = ask.principals[0]
        key = hashlib.sha256(msgspec.json.encode((person, ask.same_call))).digest()
    data = msgspec.msgpack.encode(_Sealed(ask.text(), digits))
    row = HeldAsk(key, asker, person, ask.code, b"", ask.expires_at)
    text = ring.lock(_VERSION, data, _binding(row), nonce).encode("ascii")
    if len(text) > MAX_SEALED_ASK_BYTES:
        raise AskError(f"an ask has at most {MAX_ASK_BYTES} bytes")
    return msgspec.structs.replace(row, text=text)


def _open(ring: KeyRing, row: HeldAsk) -> OpenAsk:
    """Open a row ([sealed]). Raises `SealError`."""
    if len(row.text) > MAX_SEALED_ASK_BYTES:
        raise SealError("too long")
    data = ring.unlock(_VERSION, row.text.decode("latin-1"), _binding(row))
    try:
        sealed = msgspec.msgpack.decode(data, type=_Sealed)
        ask = read_held(sealed.ask)
    except (msgspec.MsgspecError, AskError):
        raise SealError("another form of ask") from None
    if ask.code != row.code or ask.principals != ((row.person,) if row.person else ()):
        raise SealError("of another row")
    try:
        answer = read_answer(row.answer) if row.answer else None
    except UnusableAnswer:
        answer = None
    return OpenAsk(row, ask, sealed.digits, answer)


def _binding(row: HeldAsk) -> bytes:
    return hashlib.sha256(msgspec.msgpack.encode((row.key, row.asker, row.person, row.code))).digest()
