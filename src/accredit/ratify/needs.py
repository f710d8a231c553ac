"""The questions that a verification asks while it runs (needs), and how they are answered (Ratify section 8). No I/O
but the default of `moment_of`.

A verification is a generator: it yields a need and is sent the answer. So all its steps are in one function, in their
order, whether the answers come from memory or from a database. If an exception is raised in place of an answer, the
bundle is refused.

`run` is for callers that have the answers at hand. What they pass in is checked first (`moment_of`, `scope_of`,
`context_of`).
"""

from collections.abc import Callable, Generator
from typing import NamedTuple

from msgspec import UNSET

from accredit.base.clock import unix_seconds
from accredit.ratify.challenges import ChallengeStore
from accredit.ratify.results import VerifyResult


class IsRevoked(NamedTuple):
    """Is this certificate revoked? The answer is a bool."""

    cert_id: str


class ValidateChallenge(NamedTuple):
    """Could this challenge be consumed? The answer is None, or why not."""

    challenge: bytes
    session_context: bytes


class ConsumeChallenge(NamedTuple):
    """Consume this challenge. The answer is None, or why it could not be."""

    challenge: bytes
    session_context: bytes


Need = IsRevoked | ValidateChallenge | ConsumeChallenge
Steps = Generator[Need, object, VerifyResult]


def run(
    steps: Steps, now: int, is_revoked: Callable[[str], bool] | None = None, store: ChallengeStore | None = None
) -> VerifyResult:
    """Run steps, and answer their needs by these callbacks. If a callback raises, its exception is raised in the step
    that asked."""
    try:
        need = next(steps)
        while True:
            try:
                answer = _answer(need, now, is_revoked, store)
            except Exception as error:
                need = steps.throw(error)
            else:
                need = steps.send(answer)
    except StopIteration as stop:
        return stop.value


def _answer(need: Need, now: int, is_revoked: Callable[[str], bool] | None, store: ChallengeStore | None) -> object:
    match need:
        case IsRevoked(cert_id) if is_revoked is not None:
            return is_revoked(cert_id)
        case ValidateChallenge(challenge, binding) if store is not None:
            return store.validate(challenge, binding, now)
        case ConsumeChallenge(challenge, binding) if store is not None:
            return store.consume(challenge, binding, now)
        case _:
            raise LookupError("there is no one to ask")


def moment_of(now: object) -> int:
    """Return a time in unix seconds; for None, that of this machine. Raises `TypeError`: a NaN would pass every check
    of time."""
    if now is None:
        return unix_seconds()
    if type(now) is not int:
        raise TypeError(f"now is {type(now).__name__}, not whole unix seconds: write now=int(time.time())")
    return now


def scope_of(required: object) -> str:
    """Return the required scope, "" for `UNSET`. Raises `TypeError`, and `ValueError` for an empty one."""
    if required is UNSET:
        return ""
    if not isinstance(required, str):
        found = type(required).__name__
        raise TypeError(f"required_scope is {found}, not a text: refuse a tool that is not known before its proof")
    if not required:
        raise ValueError("required_scope is empty, and would require nothing: leave it out if that is meant")
    return required


def context_of(session_context: bytes | None) -> bytes:
    """Return the required session context, b"" for None. Raises `ValueError` for an empty one."""
    if session_context == b"":
        raise ValueError("session_context is empty, and would bind a proof to nothing: leave it out if that is meant")
    return session_context or b""
