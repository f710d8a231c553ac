"""Session tokens, and the turns of a session verified by them (Ratify section 10). No I/O.

A token is made once, from a verified bundle. Each turn of the session then needs only one signature of the agent. The
token is for the verifier itself: its MAC is an HMAC under the verifier's secret. Certificates are not checked again for
a turn. So a chain with constraints gets no token, and a token ends no later than any of its certificates. After a
revocation, the caller must withdraw the token.
"""

import hashlib
import hmac
from typing import NamedTuple

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from accredit.base.values import decodable
from accredit.errors import IssueError
from accredit.ratify.callbacks import context_of, moment_of, run, scope_of
from accredit.ratify.challenges import ChallengeStore
from accredit.ratify.hybrid import HybridPublicKey, HybridSignature
from accredit.ratify.results import IdentityStatus, VerifyResult, build_refusal, invalid
from accredit.ratify.signable import chain_hash
from accredit.ratify.structures import PROTOCOL_VERSION, ProofBundle, StreamContext
from accredit.ratify.terms import ConsumeChallenge, Steps, ValidateChallenge
from accredit.ratify.verify import (
    ask_store,
    check_challenge_length,
    check_challenge_signature,
    check_freshness,
    check_session,
    check_stream,
    run_to_result,
)
from accredit.ratify.wire import Bytes32, Integer, WireObject, signed_text

_HASH_BYTES = 32


@decodable
class SessionToken(WireObject, frozen=True):
    """States who was verified, for which scopes, and for how long (unix seconds, both ends included)."""

    version: Integer
    session_id: str
    agent_id: str
    agent_pub_key: HybridPublicKey
    human_id: str
    granted_scope: tuple[str, ...]
    issued_at: Integer
    valid_until: Integer
    chain_hash: Bytes32
    mac: Bytes32


class StreamedTurn(Struct, frozen=True, kw_only=True):
    """One turn of a session: a challenge with the agent's signature, which covers the same context as a bundle's.
    `challenge_at` is in unix seconds."""

    challenge: bytes
    challenge_at: int
    challenge_sig: HybridSignature
    session_context: bytes = b""
    stream_id: bytes = b""
    stream_seq: int = 0


def session_token_sign_bytes(token: SessionToken) -> bytes:
    """Return the bytes that the MAC covers, with the scopes sorted."""
    return signed_text(replace(token, granted_scope=tuple(sorted(token.granted_scope))), "mac")


def issue_session_token(
    bundle: ProofBundle, result: VerifyResult, session_id: str, issued_at: int, valid_until: int, secret: bytes
) -> SessionToken:
    """Return a token for a bundle that gave a valid result. It ends no later than the first of its certificates.

    Times are unix seconds. The secret should be 32 random bytes. Raises `IssueError`.
    """
    if not result.valid or result.agent_id != bundle.agent_id:
        raise IssueError("a session token needs the valid result of its bundle")
    if not session_id or not secret:
        raise IssueError("a session token needs a session id and a secret")
    if any(cert.constraints for cert in bundle.delegations):
        raise IssueError("a chain with constraints gets no session token: its turns would not be held against them")
    until = min(valid_until, *(cert.expires_at for cert in bundle.delegations))
    if until <= issued_at:
        raise IssueError("the session token would end before it begins")
    token = SessionToken(
        version=PROTOCOL_VERSION,
        session_id=session_id,
        agent_id=bundle.agent_id,
        agent_pub_key=bundle.agent_pub_key,
        human_id=result.human_id,
        granted_scope=tuple(sorted(result.granted_scope)),
        issued_at=issued_at,
        valid_until=until,
        chain_hash=chain_hash(bundle.delegations),
        mac=b"",
    )
    return replace(token, mac=session_token_mac(token, secret))


def session_token_mac(token: SessionToken, secret: bytes) -> bytes:
    """Return the 32-byte HMAC-SHA-256 of a token."""
    return hmac.digest(secret, session_token_sign_bytes(token), hashlib.sha256)


def session_token_fault(token: SessionToken, secret: bytes, now: int) -> str | None:
    """Return why a token is not valid, or None. `now` is in unix seconds."""
    if not secret:
        return "session_secret must not be empty"
    if token.version != PROTOCOL_VERSION:
        return f"version_mismatch: unsupported version {token.version}"
    if len(token.chain_hash) != _HASH_BYTES:
        return f"chain_hash must be {_HASH_BYTES} bytes, got {len(token.chain_hash)}"
    if len(token.mac) != _HASH_BYTES:
        return f"mac must be {_HASH_BYTES} bytes, got {len(token.mac)}"
    if not hmac.compare_digest(token.mac, session_token_mac(token, secret)):
        return "session_token MAC invalid"
    if now < token.issued_at:
        return "session_token not yet valid"
    return "session_token expired" if now > token.valid_until else None


def verify_streamed_turn(
    token: SessionToken,
    secret: bytes,
    turn: StreamedTurn,
    required_scope: str | UnsetType = UNSET,
    *,
    now: int | None = None,
    session_context: bytes | None = None,
    stream: StreamContext | None = None,
    challenge_store: ChallengeStore | None = None,
) -> VerifyResult:
    """Verify a turn by its session's token. Return a result, and raise errors, as `verify_bundle` does.

    `verify_bundle` has further options, for things that a turn does not carry. In the result `root_checked` is False:
    roots were checked, or not, when the token was issued.
    """
    moment, scope, context = moment_of(now), scope_of(required_scope), context_of(session_context)
    terms = _TurnTerms(moment, scope, context, stream, challenge_store is not None)
    return run(run_to_result(_steps(token, secret, turn, terms)), moment, store=challenge_store)


class _TurnTerms(NamedTuple):
    now: int
    required_scope: str
    session_context: bytes
    stream: StreamContext | None
    single_use: bool


def _steps(token: SessionToken, secret: bytes, turn: StreamedTurn, terms: _TurnTerms) -> Steps:
    fault = session_token_fault(token, secret, terms.now)
    if fault:
        raise invalid("session_token_invalid", fault)
    if not turn.challenge:
        raise invalid("no_challenge", "streamed turn contains no challenge")
    check_challenge_length(turn.challenge)
    check_session("turn", turn.session_context, terms.session_context)
    if terms.single_use:
        yield from ask_store(ValidateChallenge(turn.challenge, terms.session_context))
    check_stream("turn", turn, terms.stream)
    check_freshness(turn.challenge_at, terms.now)
    check_challenge_signature(turn, token.agent_pub_key)
    if terms.single_use:
        yield from ask_store(ConsumeChallenge(turn.challenge, terms.session_context))
    granted = sorted(token.granted_scope)
    if terms.required_scope and terms.required_scope not in granted:
        text = f'required scope "{terms.required_scope}" not in session token granted scope'
        raise build_refusal(IdentityStatus.SCOPE_DENIED, text)
    return VerifyResult(
        valid=True,
        identity_status=IdentityStatus.VALID,
        human_id=token.human_id,
        agent_id=token.agent_id,
        granted_scope=granted,
    )
