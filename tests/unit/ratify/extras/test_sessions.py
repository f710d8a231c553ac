"""Session tokens: what gets one, what a turn is held against, and in which order."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.unit.ratify.world import (
    AGENT,
    CHALLENGE,
    CONTEXT,
    HOUR,
    HUMAN,
    NOW,
    STRANGER,
    STREAM,
    certificate,
    constrained,
    proof,
)

from accredit.errors import IssueError
from accredit.ratify import MemoryChallengeStore, StreamContext, VerifyResult, challenge_sign_bytes, verify_bundle
from accredit.ratify.extras.sessions import (
    SessionToken,
    StreamedTurn,
    issue_session_token,
    session_token_fault,
    session_token_mac,
    verify_streamed_turn,
)

SECRET = b"s" * 32
BUNDLE = proof([certificate(scope=("meeting:*",))])
RESULT = verify_bundle(BUNDLE, now=NOW)
TOKEN = issue_session_token(BUNDLE, RESULT, "session", NOW, NOW + 60, SECRET)


def turn(challenge_at: int = NOW, **binding: Any) -> StreamedTurn:
    message = challenge_sign_bytes(CHALLENGE, challenge_at, **binding)
    return StreamedTurn(challenge=CHALLENGE, challenge_at=challenge_at, challenge_sig=AGENT.sign(message), **binding)


def verdict(
    token: SessionToken = TOKEN, found: StreamedTurn | None = None, secret: bytes = SECRET, **options: Any
) -> tuple[str, str]:
    options.setdefault("now", NOW)
    result = verify_streamed_turn(token, secret, found or turn(), **options)
    assert result.valid is not bool(result.error_reason)
    return result.identity_status.value, result.error_reason


def sealed(**change: Any) -> SessionToken:
    token = replace(TOKEN, **change)
    return replace(token, mac=session_token_mac(token, SECRET))


def test_a_turn_by_its_token() -> None:
    result = verify_streamed_turn(TOKEN, SECRET, turn(), "meeting:chat", now=NOW)
    assert (result.valid, result.human_id, result.agent_id) == (True, HUMAN.id, AGENT.id)
    assert "meeting:chat" in result.granted_scope
    assert result.granted_scope == sorted(result.granted_scope)


def test_a_token_travels_and_its_scopes_may_arrive_in_any_order() -> None:
    assert SessionToken.decode(TOKEN.encode()) == TOKEN
    mixed = replace(TOKEN, granted_scope=tuple(reversed(TOKEN.granted_scope)))
    assert verdict(SessionToken.decode(mixed.encode()))[0] == "authorized_agent"


class TestIssue:
    def test_ends_with_the_first_certificate(self) -> None:
        token = issue_session_token(BUNDLE, RESULT, "session", NOW, NOW + 2 * HOUR, SECRET)
        assert token.valid_until == NOW + HOUR

    @pytest.mark.parametrize(
        ("change", "text"),
        [
            ({"session_id": ""}, "session id"),
            ({"secret": b""}, "secret"),
            ({"valid_until": NOW}, "would end before it begins"),
            ({"result": replace(RESULT, valid=False)}, "valid result"),
            ({"result": replace(RESULT, agent_id=STRANGER.id)}, "valid result"),
        ],
    )
    def test_refusals(self, change: dict[str, Any], text: str) -> None:
        arguments: dict[str, Any] = {
            "bundle": BUNDLE,
            "result": RESULT,
            "session_id": "session",
            "issued_at": NOW,
            "valid_until": NOW + 60,
            "secret": SECRET,
        }
        with pytest.raises(IssueError, match=text):
            issue_session_token(**(arguments | change))

    def test_a_chain_with_constraints_gets_none(self) -> None:
        bundle = constrained({"type": "x.y"})
        result = VerifyResult(valid=True, identity_status=RESULT.identity_status, agent_id=AGENT.id)
        with pytest.raises(IssueError, match="constraints"):
            issue_session_token(bundle, result, "session", NOW, NOW + 60, SECRET)


class TestToken:
    @pytest.mark.parametrize(
        ("token", "secret", "now", "text"),
        [
            (TOKEN, b"", NOW, "session_secret must not be empty"),
            (sealed(version=2), SECRET, NOW, "version_mismatch: unsupported version 2"),
            (sealed(chain_hash=b"x"), SECRET, NOW, "chain_hash must be 32 bytes, got 1"),
            (replace(TOKEN, mac=b"x"), SECRET, NOW, "mac must be 32 bytes, got 1"),
            (replace(TOKEN, mac=bytes(32)), SECRET, NOW, "session_token MAC invalid"),
            (TOKEN, b"another secret", NOW, "session_token MAC invalid"),
            (TOKEN, SECRET, NOW - 1, "session_token not yet valid"),
            (TOKEN, SECRET, NOW + 61, "session_token expired"),
            (TOKEN, SECRET, NOW + 60, None),
        ],
    )
    def test_faults(self, token: SessionToken, secret: bytes, now: int, text: str | None) -> None:
        assert session_token_fault(token, secret, now) == text
        if text:
            assert verdict(token, secret=secret, now=now) == ("invalid", f"session_token_invalid: {text}")

    @pytest.mark.parametrize(
        "change",
        [
            {"session_id": "other"},
            {"agent_id": STRANGER.id},
            {"agent_pub_key": STRANGER.public_key},
            {"human_id": STRANGER.id},
            {"granted_scope": ("files:write",)},
            {"issued_at": NOW - 5},
            {"valid_until": NOW + 600},
            {"chain_hash": bytes(32)},
        ],
    )
    def test_every_member_is_under_the_mac(self, change: dict[str, Any]) -> None:
        assert verdict(replace(TOKEN, **change))[1] == "session_token_invalid: session_token MAC invalid"


class TestTurn:
    @pytest.mark.parametrize(
        ("found", "options", "reason"),
        [
            (replace(turn(), challenge=b""), {}, "no_challenge: streamed turn contains no challenge"),
            (replace(turn(), challenge=b"x"), {}, "invalid_challenge: challenge must be 32 bytes, got 1"),
            (
                turn(),
                {"session_context": CONTEXT},
                "missing_session_context: verifier requires a session-bound challenge but turn has no session_context",
            ),
            (
                turn(session_context=CONTEXT),
                {"session_context": bytes(32)},
                "session_context_mismatch: turn session_context does not match verifier context",
            ),
            (
                turn(session_context=CONTEXT),
                {},
                "session_context_unverifiable: turn has session_context but verifier did not provide one",
            ),
            (
                turn(),
                {"stream": StreamContext(STREAM)},
                "missing_stream_context: verifier requires a stream-bound challenge but turn has no stream_id",
            ),
            (
                turn(stream_id=STREAM, stream_seq=1),
                {},
                "stream_context_unverifiable: turn has stream_id but verifier did not provide a stream context",
            ),
            (
                turn(stream_id=STREAM, stream_seq=1),
                {"stream": StreamContext(STREAM, 1)},
                "stream_seq_replay: stream_seq 1 already seen (last=1)",
            ),
            (turn(NOW - 301), {}, "stale_challenge: challenge is 301 seconds old (max 300)"),
            (
                replace(turn(), challenge_sig=STRANGER.sign(b"x")),
                {},
                "bad_challenge_sig: challenge signature verification failed: Ed25519 signature invalid",
            ),
        ],
    )
    def test_refusals(self, found: StreamedTurn, options: dict[str, Any], reason: str) -> None:
        assert verdict(found=found, **options) == ("invalid", reason)

    def test_a_turn_of_a_stream(self) -> None:
        found = turn(stream_id=STREAM, stream_seq=5, session_context=CONTEXT)
        options: dict[str, Any] = {"stream": StreamContext(STREAM, 4), "session_context": CONTEXT}
        assert verdict(found=found, **options) == ("authorized_agent", "")

    def test_a_scope_that_the_token_does_not_hold(self) -> None:
        reason = 'scope_denied: required scope "meeting:record" not in session token granted scope'
        assert verdict(required_scope="meeting:record") == ("scope_denied", reason)

    def test_a_challenge_is_spent_by_a_good_signature_only(self) -> None:
        unknown = "unknown_challenge: challenge was not issued by this verifier or has already been used"
        store = MemoryChallengeStore(lambda _size: CHALLENGE)
        store.issue(b"", 60, NOW)
        forged = replace(turn(), challenge_sig=STRANGER.sign(b"x"))
        assert verdict(found=forged, challenge_store=store)[1].startswith("bad_challenge_sig")
        assert verdict(required_scope="files:read", challenge_store=store)[0] == "scope_denied"
        assert verdict(challenge_store=store) == ("invalid", unknown)

    def test_the_mac_comes_before_the_store(self) -> None:
        store = MemoryChallengeStore(lambda _size: CHALLENGE)
        assert verdict(replace(TOKEN, mac=bytes(32)), challenge_store=store)[1].startswith("session_token_invalid")

    def test_anything_at_all_is_an_answer(self) -> None:
        nothing: Any = None
        assert verdict(nothing)[0] == verdict(found=replace(turn(), challenge_sig=nothing))[0] == "invalid"

    def test_options_of_a_bundle_are_not_those_of_a_turn(self) -> None:
        with pytest.raises(TypeError):
            verdict(is_revoked=bool)

    def test_without_a_time_the_clock_is_read(self) -> None:
        until = sealed(issued_at=0, valid_until=2**40)
        assert verify_streamed_turn(until, SECRET, turn(0)).error_reason.startswith("stale_challenge")
