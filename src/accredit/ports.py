"""What a decision needs from outside, as protocols. No I/O here: adapters implement them, shells receive them.

Any method may raise `StoreUnavailable`, which its caller takes for a refusal. Times are unix seconds and are passed in.
"""

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from accredit.attest import CallDecision, Outcome
from accredit.limits import USE_MARKS
from accredit.ratify.challenges import IssuedChallenge
from accredit.tokens import AccessToken, KeySet, SubjectToken

if TYPE_CHECKING:
    from asyncio import Future


class Spending(Enum):
    """What presenting a challenge does, or would do."""

    FIRST = "first"
    """The challenge is good, and was never presented before."""
    SPENT = "spent"
    """The challenge was presented before."""
    NOT_ISSUED = "not_issued"
    """The challenge had to be one issued for this very request, and still alive, and it is not."""


class RateLimit(Struct, frozen=True):
    """What `cert_id` stands for (a certificate, or whom a quota counts) may be used `count` times in any `window_s`
    seconds. One use counts for `amount`; it counts for up to a `parts`-th of the window longer."""

    cert_id: str
    window_s: int
    count: int
    amount: int = 1
    parts: int = USE_MARKS


class ProofStore(Protocol):
    """Memory of challenges and of uses, shared by all who accept the same proofs.

    Implementations handle concurrency: if several calls spend one challenge at once, in whatever processes, exactly one
    gets `FIRST`.

    What has expired is forgotten in time. If that was done by a clock that was ahead, and is then set back, whatever
    may have been forgotten is refused: `spend`, `uses` and `use` raise `ClockSetBack`.
    """

    async def issue(self, request_hash: bytes, *, expires_at: int) -> IssuedChallenge:
        """Issue a fresh challenge of 32 bytes, good for this request until `expires_at` (inclusive).

        It can't be guessed, nor mistaken for one that a client made. Issuing must not use up room that others need:
        anybody may ask.
        """
        ...

    async def look(self, challenge: bytes, request_hash: bytes, *, issued: bool, now: int) -> Spending:
        """Return what `spend` would return now. Changes nothing."""
        ...

    async def spend(
        self, challenge: bytes, request_hash: bytes, *, issued: bool, keep_until: int, now: int
    ) -> Spending:
        """Spend a challenge, atomically, if it is `FIRST`, and remember it as spent until `keep_until` at least.

        `keep_until` must be the same whenever a proof is presented. With `issued` only a challenge is good that `issue`
        gave for this request hash, and that is alive. Without, any unknown challenge is good, except that one from
        `issue` is good for its own request alone. Raises `ChallengesFull` if there is no room to remember one more.
        """
        ...

    async def uses(self, cert_id: str, window_s: int, *, now: int) -> int:
        """Return how often a certificate was used in the last `window_s` seconds."""
        ...

    async def use(self, limits: Sequence[RateLimit], *, now: int) -> bool:
        """Record one use for each of `limits`, atomically, unless that would exceed one: then record none."""
        ...

    async def room_at(self, limit: RateLimit, *, now: int) -> int | None:
        """Return from when on one more use would not exceed a limit if nothing else is used until then: `now`, or
        later; None if never."""
        ...

    async def ready(self) -> bool:
        """Return whether the store answers."""
        ...

    def problem(self) -> str | None:
        """Return why the store should be seen to although it answers, or None."""
        ...

    async def aclose(self) -> None:
        """Release all resources."""
        ...


class Task(Struct, frozen=True):
    """A server's task, and the call that created it.

    `owner` (32 bytes) identifies who created it; `method` and `target` are the call's; `facts` is what constraints are
    evaluated against (`policy.tasks.MadeBy`), as JSON; `flow` names the call in records.
    """

    owner: bytes
    method: str
    target: str
    facts: bytes
    flow: str


class TaskStore(Protocol):
    """Memory of tasks, shared by all who serve the same clients. A task's `key` is 32 bytes derived from its id."""

    async def keep(self, key: bytes, task: Task, *, keep_until: int, now: int) -> Task:
        """Remember a task until `keep_until`, and return it. If its key is known, change nothing and return the task
        known by it.

        Raises `StoreUnavailable` also if there is no room, in all or for this owner, and `ClockSetBack` if the task of
        this key may have been forgotten by a clock that was ahead.
        """
        ...

    async def find(self, key: bytes, *, now: int) -> Task | None:
        """Return the task of this key, or None."""
        ...

    async def owned(self, owner: bytes, *, now: int) -> frozenset[bytes]:
        """Return the keys of an owner's tasks."""
        ...

    async def aclose(self) -> None:
        """Release all resources."""
        ...


class Revocations(Protocol):
    """Knowledge of which certificates are revoked."""

    async def is_revoked(self, cert_id: str) -> bool:
        """Return whether a certificate is revoked, as far as is known here."""
        ...

    def has_list(self, sha256: str) -> bool:
        """Return whether a list with this SHA-256 (lower-case hex, of its bytes) is in force, as of the last look."""
        ...

    def problem(self) -> str | None:
        """Return why the knowledge may be out of date (for `/readyz` and people), or None."""
        ...


class KeySets(Protocol):
    """The public keys of the issuers of tokens."""

    async def keys(self, issuer: str, kid: str | None) -> KeySet:
        """Return the keys of a configured issuer, including `kid` if that can be had.

        Raises `KeysUnavailable` if none of its keys are known.
        """
        ...

    def problem(self) -> str | None:
        """Return why the keys may be out of date (for `/readyz` and people), or None."""
        ...

    async def aclose(self) -> None:
        """Release all resources."""
        ...


class AccessTokens(Protocol):
    """The gateway's own tokens for one server behind it. `subject` is the caller's token that is exchanged, None where
    the gateway asks on its own behalf."""

    def known(self, subject: SubjectToken | None) -> AccessToken | None:
        """Return a token that is good now, or None. Never waits."""
        ...

    async def token(self, subject: SubjectToken | None) -> AccessToken:
        """Return a token that is good now, asking for one if need be. Raises `UpstreamLeftOut`."""
        ...

    def refused(self, subject: SubjectToken | None, token: AccessToken) -> None:
        """Note that the server did not take this token: the next call gets another one."""
        ...

    async def aclose(self) -> None:
        """Release all resources."""
        ...


class Records(Protocol):
    """The audit log. It reads its own clock. To a client its `StoreUnavailable` is `record_unavailable`."""

    async def begin(self, decided: CallDecision) -> None:
        """Record a decision, allowed or refused. Nothing may be forwarded before this returns.

        Raises `AttestationError` for a text that no record can hold (a lone surrogate): the call has to be refused
        then, too.
        """
        ...

    def finish(self, decided: CallDecision, outcome: Outcome) -> "Future[None]":
        """Record the outcome of a call that `begin` has recorded as allowed. The client may see no answer before the
        result is done.

        Call it whatever happens to the call. The outcome is recorded even if nobody awaits the result, and after a
        `StoreUnavailable` as soon as that is possible.
        """
        ...

    async def claim(self, resume: bytes) -> CallDecision | None:
        """Take over an open call, by the `resume` of its decision, which another process has recorded; its answer came
        here, and `finish` records its outcome. Return None if no such call is open.

        Whoever had it can't record an outcome of it any more (`AttestationError`). Raises `StoreUnavailable`, and
        `AttestationError` where calls can't be told from each other.
        """
        ...

    def problem(self) -> str | None:
        """Return what keeps records from being written (for `/readyz` and people), or None."""
        ...

    def unverified(self) -> str | None:
        """Return what was left open or unsigned, since what the log holds of it does not verify, or None."""
        ...

    async def ready(self) -> bool:
        """Return whether a decision could be recorded now."""
        ...

    async def aclose(self) -> None:
        """Write what is waiting, close what is open, and release all resources."""
        ...
