"""Ratify's HTTP binding (SPEC section 13): reads a request to verify, and verifies its proof, which is not for a call.
No I/O.

- [request] A request to verify is one JSON object of `proof_bundle` (base64 in its only allowed spelling) and,
  optionally, `required_scope`. The bundle is decoded strictly.
- [root] The chain must end in a root (`decision`). This is checked first, as in a decision.
- [own-challenges] Only a challenge that was issued for this binding is accepted, once. It is not valid for a call, and
  challenges for calls are not valid here: all of this binding's are issued for one request hash, which no call has.
- [same-verifier] Otherwise the steps are those of `ratify.verify`, with revocations. No facts are known, since there is
  no call. So a constraint that needs a fact is unverifiable, and a proof that is bound to a call is refused.
- [no-answer] If the store or the revocation lists do not answer, there is no result.
"""

from base64 import b64decode, b64encode
from collections.abc import Generator
from hashlib import sha256

import msgspec
from msgspec import Struct

from accredit.errors import FrameError, StoreUnavailable, WireError
from accredit.jsonrpc.objects import check_no_duplicates
from accredit.limits import CHALLENGE_WINDOW_SECONDS
from accredit.policy.decide import CLOCK_AHEAD_SECONDS
from accredit.policy.decision import LookAtChallenge, Need, Policy, SpendChallenge, find_root
from accredit.ports import Spending
from accredit.ratify import ProofBundle, VerifyResult, decode_proof_bundle
from accredit.ratify.results import invalid
from accredit.ratify.scopes import CANONICAL_SCOPES, WILDCARDS
from accredit.ratify.terms import ConsumeChallenge, IsRevoked, Terms, ValidateChallenge
from accredit.ratify.terms import Need as ProofNeed
from accredit.ratify.verify import verification

MAX_VERIFY_BYTES = 262_144
"""The most bytes of a request to verify. A bundle has 131,072 at most, and a third more in base64."""

REQUEST_HASH = sha256(b"accredit/ratify-http/v1").digest()
"""The request hash for which challenges of this binding are issued. No operation has this hash."""


class _Verify(Struct, forbid_unknown_fields=True):
    proof_bundle: str
    required_scope: str = ""


_read = msgspec.json.Decoder(_Verify).decode


def read_verify(body: bytes) -> tuple[ProofBundle, str]:
    """Return the proof and the required scope ("" for none) of a request to verify ([request]). Raises `WireError`."""
    try:
        check_no_duplicates(body)
        asked = _read(body)
        text = b64decode(asked.proof_bundle, validate=True)
    except (FrameError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise WireError("body", "no object of proof_bundle and required_scope") from None
    except ValueError:
        raise WireError("proof_bundle", "not base64") from None
    if b64encode(text).decode("ascii") != asked.proof_bundle:
        raise WireError("proof_bundle", "not base64 in its one spelling")
    return decode_proof_bundle(text), asked.required_scope


def result_members(result: VerifyResult) -> dict[str, object]:
    """Return a result in the binding's JSON members."""
    members: dict[str, object] = {
        "valid": result.valid,
        "human_id": result.human_id,
        "agent_id": result.agent_id,
        "granted_scope": result.granted_scope,
        "identity_status": result.identity_status.value,
    }
    return members if result.valid else {**members, "error_reason": result.error_reason}


def scope_members(policy: Policy) -> dict[str, object]:
    """Return all scopes that are known here, and the wildcards with their members, in the binding's JSON members."""
    wildcards = {name: sorted(scopes) for name, scopes in sorted(WILDCARDS.items())}
    return {"scopes": sorted(CANONICAL_SCOPES.union(policy.vocabulary)), "wildcards": wildcards, "version": 1}


def verify_steps(
    bundle: ProofBundle, required_scope: str, policy: Policy, now: int
) -> Generator[Need, object, VerifyResult]:
    """Verify a proof ([root] to [no-answer]); yields each need and is sent the answer. `now` is in unix seconds. Raises
    `StoreUnavailable`."""
    found = yield from find_root(bundle, policy)
    if found is None:
        return invalid("untrusted_root", "the chain's root is not trusted").result
    terms = Terms(
        now=now,
        required_scope=required_scope,
        vocabulary=policy.vocabulary,
        roots=found[:1],
        constraint_evaluators=policy.constraint_evaluators,
        check_revocation=True,
        single_use=True,
        max_age=CHALLENGE_WINDOW_SECONDS,
        max_ahead=CLOCK_AHEAD_SECONDS,
        cert_cache=policy.cert_cache,
    )
    steps = verification(bundle, terms)
    try:
        need = next(steps)
        while True:
            need = steps.send((yield from _answer(need, bundle)))
    except StopIteration as stop:
        return stop.value


def _answer(need: ProofNeed, bundle: ProofBundle) -> Generator[Need, object, object]:
    """Yield a need of the verifier as a need of a decision, and return the answer. If the port raises an error, this
    raises it too: there is no result then."""
    try:
        match need:
            case IsRevoked():
                revoked = yield need
                if isinstance(revoked, bool):
                    return revoked
            case ValidateChallenge(challenge, _):
                seen = yield LookAtChallenge(challenge, REQUEST_HASH, issued=True)
                if isinstance(seen, Spending):
                    return None if seen is Spending.FIRST else seen.value
            case ConsumeChallenge(challenge, _):
                keep_until = bundle.challenge_at + CHALLENGE_WINDOW_SECONDS + 1
                seen = yield SpendChallenge(challenge, REQUEST_HASH, issued=True, keep_until=keep_until)
                if isinstance(seen, Spending):
                    return None if seen is Spending.FIRST else seen.value
    except Exception as error:
        raise StoreUnavailable(f"no answer: {type(error).__name__}") from error
    raise StoreUnavailable("the store gave no answer")
