"""Bindings: the hashes that all implementations must agree on, and that no two calls share."""

import pytest

from accredit.ratify import VerifierContext, build_session_context, challenge_sign_bytes, operation_context_hash
from accredit.ratify.facts import verifier_context_hash

pytestmark = pytest.mark.holds("ratify/facts")

PUSH = ("files:write", "git.push", "git:github.com/acme/api", "/src/handlers")


def test_known_answers() -> None:
    empty = operation_context_hash()
    push = operation_context_hash(*PUSH, payload_digest=b"\xab" * 32)
    session = build_session_context("verifier-1", "ws-42", "agent-7", "sess-9", "inv-3", request_hash=push)
    assert empty.hex() == "d135e239f4a5a5a0ad6385b204d6c81f3c10e6b2f5debfa3cc8079488970f82f"
    assert push.hex() == "6b70b5f404f61624ab2379fee2756639d8629141ecb3593b53e5a22346e0c3e5"
    assert session.hex() == "788c692b5dafae52dd896eb5f7580f61d42b8c7a2abeed4d4eea9dcd4d7d4dfd"
    assert session == build_session_context("verifier-1", "ws-42", "agent-7", "sess-9", "inv-3", push)


def test_text_can_not_move_from_one_member_to_the_next() -> None:
    assert operation_context_hash("ab", "c") != operation_context_hash("a", "bc")
    assert operation_context_hash("a", "") != operation_context_hash("", "a")


def test_text_is_not_normalised() -> None:
    assert operation_context_hash("é") != operation_context_hash("e\u0301")


@pytest.mark.parametrize("digest", [b"x", bytes(31), bytes(33)])
def test_digests_have_thirty_two_bytes(digest: bytes) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        operation_context_hash(payload_digest=digest)
    with pytest.raises(ValueError, match="32 bytes"):
        build_session_context(request_hash=digest)


def test_a_session_needs_a_request_hash() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        build_session_context("verifier-1")


def test_lone_surrogates_have_no_bytes() -> None:
    with pytest.raises(ValueError, match="surrogates"):
        operation_context_hash("\ud800")
    with pytest.raises(ValueError, match="surrogates"):
        build_session_context("\udfff", request_hash=bytes(32))


@pytest.mark.parametrize(
    ("context", "stream", "seq", "size"),
    [(b"", b"", 0, 40), (bytes(32), b"", 0, 72), (b"", bytes(32), 1, 80), (bytes(32), bytes(32), 1, 112)],
)
def test_the_signed_challenge(context: bytes, stream: bytes, seq: int, size: int) -> None:
    message = challenge_sign_bytes(b"\x01" * 32, 1, context, stream, seq)
    assert len(message) == size
    assert message.startswith(b"\x01" * 32 + b"\0" * 7 + b"\x01" + context + stream)


def test_a_negative_time_is_written_in_twos_complement() -> None:
    assert challenge_sign_bytes(b"", -1) == b"\xff" * 8
    assert challenge_sign_bytes(b"", -(2**53)) == bytes.fromhex("ffe0000000000000")


def test_the_number_of_a_turn_counts_only_in_a_stream() -> None:
    assert challenge_sign_bytes(bytes(32), 1, stream_seq=5) == challenge_sign_bytes(bytes(32), 1)


def test_a_context_hash_takes_what_is_no_number_for_absent() -> None:
    unknown = VerifierContext(current_lat=float("nan"), requested_amount=float("inf"))
    assert verifier_context_hash(unknown) == verifier_context_hash(VerifierContext())


def test_a_context_hash_says_nothing_of_the_resource() -> None:
    asked = VerifierContext(requested_resource_id="git:x", requested_path="/y")
    assert verifier_context_hash(asked) == verifier_context_hash(VerifierContext())
