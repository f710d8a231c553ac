"""What a decision needs from outside, as protocols. No I/O here: adapters implement them, shells receive them.

Each method may raise `StoreUnavailable`; whoever asks takes that for a no. Times are unix seconds and are passed in.
"""

from asyncio import Future
from collections.abc import Sequence
from enum import Enum
from typing import Protocol

from msgspec import Struct

from accredit.attest import CallDecision, Outcome
from accredit.ratify.challenges import IssuedChallenge
from accredit.tokens import KeySet


class Spending(Enum):
    """What became, or would become, of a challenge that is presented."""

    FIRST = "first"
    """It is good, and nobody has presented it before."""
    SPENT = "spent"
    """It was presented before."""
    NOT_ISSUED = "not_issued"
    """It was to be one that was issued for this very request, and still alive, and it is not."""


class RateLimit(Struct, frozen=True):
    """A certificate may be used `count` times in any `window_s` seconds. `cert_id` stands for it and for no other."""

    cert_id: str
    window_s: int
    count: int


class ProofStore(Protocol):
    """Memory of challenges and of uses, shared by all who accept the same proofs. Concurrency is its business:
    of two calls that spend one challenge at once, in whatever process, exactly one is told `FIRST`.

    What has ended is forgotten in time. If that was done by a clock that was ahead, what may have been forgotten is
    refused once it is set back: `spend`, `uses` and `use` raise `ClockSetBack`."""

    async def issue(self, request_hash: bytes, *, expires_at: int) -> IssuedChallenge:
        """Return a fresh challenge of 32 bytes, good for this request until `expires_at` (inclusive).

        It is never mistaken for one that a client made, and nobody can guess it. Whoever asks for one takes no room
        from others: anybody may.
        """
        ...

    async def look(self, challenge: bytes, request_hash: bytes, *, issued: bool, now: int) -> Spending:
        """Return what `spend` would say now. Changes nothing."""
        ...

    async def spend(
        self, challenge: bytes, request_hash: bytes, *, issued: bool, keep_until: int, now: int
    ) -> Spending:
        """Spend a challenge, atomically, if it is `FIRST`; it is remembered as spent until `keep_until` at least, which
        is the same each time that a proof is presented.

        With `issued` only a challenge that `issue` gave for this request hash, and that is alive, is good. Without,
        any is that is unknown here; but one that `issue` gave is good for its own request and no other. Raises
        `ChallengesFull` where there is no room to remember one more.
        """
        ...

    async def uses(self, cert_id: str, window_s: int, *, now: int) -> int:
        """Return how often a certificate was used in the last `window_s` seconds."""
        ...

    async def use(self, limits: Sequence[RateLimit], *, now: int) -> bool:
        """Record one use of each certificate in `limits`, atomically, if none exceeds its limit so; else notes none."""
        ...

    async def ready(self) -> bool:
        """Return whether the store answers."""
        ...

    async def aclose(self) -> None:
        """Give everything back."""
        ...


class Task(Struct, frozen=True):
    """A task of the server's, and the call that made it.

    `owner` stands for who made it (32 bytes), `method` and `target` are the call's, `facts` is what constraints
    are held against (`policy.tasks.MadeBy`) as JSON, and `flow` names the call in records.
    """

    owner: bytes
    method: str
    target: str
    facts: bytes
    flow: str


class TaskStore(Protocol):
    """Memory of tasks, shared by all who serve the same clients. A task's `key` is 32 bytes that stand for its id."""

    async def keep(self, key: bytes, task: Task, *, keep_until: int, now: int) -> Task:
        """Remember a task until `keep_until`; if one is known under its key, nothing changes, and that one is given.

        Raises `StoreUnavailable` also where there is no room, of all or of the owner's; `ClockSetBack` where the task
        of this key may have been forgotten by a clock that was ahead.
        """
        ...

    async def find(self, key: bytes, *, now: int) -> Task | None:
        """Return the task of this key, if it is remembered."""
        ...

    async def owned(self, owner: bytes, *, now: int) -> frozenset[bytes]:
        """Return the keys of an owner's tasks."""
        ...

    async def aclose(self) -> None:
        """Give everything back."""
        ...


class Revocations(Protocol):
    """Who knows which certificates are revoked."""

    async def is_revoked(self, cert_id: str) -> bool:
        """Return whether a certificate is revoked, as far as is known here."""
        ...

    def problem(self) -> str | None:
        """Return why what is known may be out of date (for `/readyz` and people), or None."""
        ...


class KeySets(Protocol):
    """Who has the public keys of the issuers of tokens."""

    async def keys(self, issuer: str, kid: str | None) -> KeySet:
        """Return the keys of a configured issuer, such that they include `kid`, if that can be had.

        Raises `KeysUnavailable` where nothing is known of them.
        """
        ...

    def problem(self) -> str | None:
        """Return why what is known may be out of date (for `/readyz` and people), or None."""
        ...

    async def aclose(self) -> None:
        """Give everything back."""
        ...


class Records(Protocol):
    """The log of attestations. Times are its own business; `StoreUnavailable` is `record_unavailable` to a client."""

    async def begin(self, decided: CallDecision) -> None:
        """Record a decision, allowed or denied. Until it returns, nothing is forwarded.

        Raises `AttestationError` for a text that no record can hold (a lone surrogate): refuse the call as well.
        """
        ...

    def finish(self, decided: CallDecision, outcome: Outcome) -> Future[None]:
        """Record the outcome of a call that `begin` has recorded as allowed. Until that is done, the client sees no
        answer. To be called whatever happens to the call; it is recorded also when nobody waits for that, and, where it
        raises `StoreUnavailable`, as soon as it can be."""
        ...

    def problem(self) -> str | None:
        """Return what keeps records from being written (for `/readyz` and people), or None."""
        ...

    async def ready(self) -> bool:
        """Return whether a decision could be recorded now."""
        ...

    async def aclose(self) -> None:
        """Write what waits, closes what is open, and gives everything back."""
        ...
