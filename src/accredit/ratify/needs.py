"""The questions that a verification asks while it runs (needs), and how they are answered (Ratify section 8). No I/O.

A verification is a generator: it yields a need and is sent the answer. So all its steps are in one function, in their
order, whether the answers come from memory or from a database. If an exception is raised in place of an answer, the
bundle is refused.
"""

from collections.abc import Callable, Generator
from typing import NamedTuple

from accredit.ratify.challenges import ChallengeStore
from accredit.ratify.results import Refusal, VerifyResult, invalid


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


def run_to_result(steps: Steps) -> Steps:
    """Run the steps. If they raise anything, turn that into a result."""
    try:
        return (yield from steps)
    except Refusal as refusal:
        return refusal.result
    except Exception as error:  # fail closed: an object that was not decoded can hold anything
        return invalid("invalid", f"can't be verified ({type(error).__name__})").result


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


def ask_revoked(index: int, cert_id: str) -> Generator[Need, object, bool]:
    """[chain] of `verify`: ask whether a certificate is revoked. If the lookup fails or has no answer, refuse the
    certificate."""
    try:
        revoked = yield IsRevoked(cert_id)
    except Exception as error:
        raise invalid("revocation_error", f"cert {index}: revocation lookup failed: {error}") from None
    if revoked is None:
        raise invalid("revocation_error", f"cert {index}: revocation lookup failed: no answer")
    return bool(revoked)


def ask_store(need: ValidateChallenge | ConsumeChallenge) -> Generator[Need, object, None]:
    """[acceptance] and [consumption] of `verify`: ask the store about the challenge. However the store refuses or
    fails, the text of the refusal is the same."""
    try:
        refusal = yield need
    except Exception as error:
        refusal = error
    if refusal is not None:
        raise invalid("unknown_challenge", "challenge was not issued by this verifier or has already been used")
