"""Sealed ids of sessions: only the keys make one, only its own process and keys open it, and in one spelling."""

import base64
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accredit.errors import SealError
from accredit.gateway.front.callers import MAX_SEALED_SESSION_ID_BYTES
from accredit.gateway.front.session_ids import SessionIds, SessionState, is_current, subject_of
from accredit.limits import MAX_SESSION_ID_BYTES, SESSION_ID_SECONDS
from accredit.rounds import FlowState, KeyRing, state_binding

pytestmark = pytest.mark.holds("gateway/front/session_ids")

NOW = 1_800_000_000
OLD, NEW = b"o" * 32, b"n" * 32
RING = KeyRing([NEW])
NONCE = bytes(range(12))
OWNER = subject_of(("https://issuer.example", "alice"))
NODE = "0123456789abcdef"
HERE, ELSEWHERE, ANYWHERE = SessionIds(RING, NODE), SessionIds(RING, NODE[::-1]), SessionIds(RING)
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

parts = st.tuples(st.text(max_size=9), st.text(max_size=9))


def sealed(ids: SessionIds = ANYWHERE, id: bytes = b"the server's own", nonce: bytes = NONCE) -> bytes:
    return ids.seal(id, "2025-11-25", OWNER, NOW, nonce)


def refusal(value: bytes, ids: SessionIds = ANYWHERE) -> str:
    with pytest.raises(SealError) as caught:
        ids.open(value)
    return caught.value.reason


@given(
    id=st.binary(max_size=MAX_SESSION_ID_BYTES),
    revision=st.text(max_size=40),
    owner=parts,
    nonce=st.binary(min_size=12, max_size=12),
    node=st.sampled_from(["", NODE]),
)
@settings(max_examples=60)
def test_what_was_sealed_opens_byte_for_byte_and_is_visible_ascii_within_its_bound(
    id: bytes, revision: str, owner: tuple[str, str], nonce: bytes, node: str
) -> None:
    ids = SessionIds(RING, node)
    value = ids.seal(id, revision, subject_of(owner), NOW, nonce)
    state = ids.open(value)
    assert (state.id, state.subject, state.issued_at) == (id, subject_of(owner), NOW)
    assert state.revision == revision[:32] or not revision.isascii()
    assert all(0x21 <= byte <= 0x7E for byte in value)
    assert len(value) <= MAX_SEALED_SESSION_ID_BYTES
    assert value.startswith(f"a1.{node}.".encode() if node else b"a1.")
    assert (value.count(b".") == 2) == bool(node)


@given(st.binary(max_size=300) | st.binary(max_size=200).map(lambda tail: b"a1." + tail))
@settings(max_examples=200)
def test_whatever_a_client_says_is_refused_without_a_sound(value: bytes) -> None:
    for ids in (ANYWHERE, HERE):
        refusal(value, ids)


@given(st.binary(max_size=200))
@settings(max_examples=60)
def test_not_even_what_the_keys_have_sealed_can_break_it__as_a_newer_gateway_may_seal_another_form(data: bytes) -> None:
    ring = RING.derived(b"accredit session ids 1")
    for content in (data, msgspec.msgpack.encode(list(data)), msgspec.msgpack.encode({"id": data})):
        refusal(ring.lock("a1.", content, b"", NONCE).encode())


@pytest.mark.holds("gateway/front/session_ids", "spelling", "key")
@pytest.mark.parametrize("ids", [ANYWHERE, HERE])
def test_every_single_flipped_bit_is_refused(ids: SessionIds) -> None:
    value = sealed(ids)
    for place in range(len(value)):
        for bit in range(8):
            refusal(value[:place] + bytes([value[place] ^ (1 << bit)]) + value[place + 1 :], ids)


@pytest.mark.holds("gateway/front/session_ids", "spelling")
def test_a_session_has_one_spelling__else_what_is_counted_by_the_id_is_counted_twice() -> None:
    value = next(text for text in (sealed(id=b"x" * size) for size in range(3)) if (len(text) - 3) % 4)
    last = value.decode()[-1]
    others = [value[:-1] + char.encode() for char in ALPHABET if char != last]
    others += [value + b"=", value + b"==", value + b"A", value + b"\n", b" " + value, value[:9] + b" " + value[9:]]
    others += [value.upper(), value.lower(), b"A1." + value[3:], value + b"\xe9", value[:9] + b"\0" + value[9:]]
    decoded = base64.urlsafe_b64decode(value[3:] + b"==")
    others += [b"a1." + base64.b64encode(decoded).rstrip(b"="), b"a1." + base64.urlsafe_b64encode(decoded)]
    for other in others:
        if other != value:
            refusal(other)


def test_a_cut_id_is_refused() -> None:
    value = sealed()
    for length in range(len(value)):
        refusal(value[:length])


@pytest.mark.holds("gateway/front/session_ids", "prefix")
def test_an_id_of_one_process_opens_in_no_other_nor_does_the_readable_part_move_it_there() -> None:
    value = sealed(HERE)
    assert HERE.open(value).id == b"the server's own"
    for ids in (ELSEWHERE, ANYWHERE):
        refusal(value, ids)
    tail = value.rpartition(b".")[2]
    refusal(b"a1." + NODE[::-1].encode() + b"." + tail, ELSEWHERE)
    refusal(b"a1." + tail)
    refusal(b"a1." + NODE.encode() + b"." + sealed()[3:], HERE)


@pytest.mark.holds("gateway/front/session_ids", "key")
def test_the_first_key_seals_and_all_open__so_keys_can_be_changed_under_open_sessions() -> None:
    before = SessionIds(KeyRing([OLD]))
    told, changed, after = SessionIds(KeyRing([OLD, NEW])), SessionIds(KeyRing([NEW, OLD])), SessionIds(KeyRing([NEW]))
    assert changed.open(sealed(before)) == told.open(sealed(changed)) == changed.open(sealed(told))
    assert after.open(sealed(changed)).id == b"the server's own"
    refusal(sealed(before), after)
    refusal(sealed(SessionIds(KeyRing([b"f" * 32]))), changed)


def test_the_keys_of_sessions_open_no_state_nor_the_other_way_round() -> None:
    binding = state_binding((), "tools/call", "x", b"d" * 32)
    state = RING.seal(FlowState("state", "f", 1, NOW), binding, NONCE)
    refusal(b"a1." + state[3:].encode())
    value = sealed().decode()
    for ring in (RING, RING.derived(b"accredit session ids 1")):
        with pytest.raises(SealError):
            ring.open("s1." + value[3:], binding, NOW)
    for text in (state, value):
        with pytest.raises(SealError):
            RING.unlock("a1.", f"a1.{text[3:]}", b"")


@pytest.mark.parametrize("shows", [True, False])
def test_an_id_tells_whether_its_client_shows_pages__and_an_earlier_gateway_opens_one_that_does_not(
    shows: bool,
) -> None:
    value = ANYWHERE.seal(b"id", "", OWNER, NOW, NONCE, shows_pages=shows)
    assert ANYWHERE.open(value).shows_pages is shows
    sealed = RING.derived(b"accredit session ids 1").unlock("a1.", value.decode(), b"")
    assert len(msgspec.msgpack.decode(sealed)) == (7 if shows else 6)


@pytest.mark.holds("gateway/front/session_ids", "server")
@pytest.mark.parametrize("changed", [{"server": "mail"}, {"replica": "2"}])
def test_a_session_of_another_server_behind_the_same_keys_is_none_of_this_one(changed: dict[str, Any]) -> None:
    state = msgspec.structs.replace(SessionState("", "", b"id", "", OWNER, NOW), **changed)
    ring = RING.derived(b"accredit session ids 1")
    assert refusal(ring.lock("a1.", msgspec.msgpack.encode(state), b"", NONCE).encode()) == "for another server"


@pytest.mark.holds("gateway/front/session_ids", "server")
def test_of_several_replicas_a_session_is_found_at_its_own_and_at_no_other_server_s() -> None:
    of_two = SessionIds(RING, replicas=("1", "2"))
    value = of_two.seal(b"id", "", OWNER, NOW, NONCE, "2")
    assert of_two.open(value).replica == "2"
    for other in (SessionIds(RING), SessionIds(RING, replicas=("1", "3"))):
        with pytest.raises(SealError):
            other.open(value)
    with pytest.raises(SealError):
        of_two.open(SessionIds(RING).seal(b"id", "", OWNER, NOW, NONCE))


@pytest.mark.holds("gateway/front/session_ids", "server")
def test_an_id_is_good_for_thirty_days_and_not_a_second_more() -> None:
    state = ANYWHERE.open(sealed())
    for age in (-60, 0, SESSION_ID_SECONDS - 1):
        assert is_current(state, NOW + age)
    assert not is_current(state, NOW + SESSION_ID_SECONDS)


def test_an_id_that_is_longer_than_a_client_could_bring_it_is_not_sealed() -> None:
    with pytest.raises(SealError) as caught:
        sealed(id=b"x" * (MAX_SESSION_ID_BYTES + 1))
    assert str(MAX_SESSION_ID_BYTES) in caught.value.reason
    assert ANYWHERE.open(sealed(id=b"x" * MAX_SESSION_ID_BYTES)).id == b"x" * MAX_SESSION_ID_BYTES


@given(one=parts, two=parts)
@settings(max_examples=60)
def test_no_two_principals_are_one_subject__parts_do_not_run_into_one_another(
    one: tuple[str, str], two: tuple[str, str]
) -> None:
    assert (subject_of(one) == subject_of(two)) == (one == two)
    assert subject_of(("ab", "c")) != subject_of(("a", "bc"))
    assert subject_of(("", "")) != subject_of(("", "nobody"))


def test_an_id_shows_nothing_of_what_it_holds() -> None:
    content = base64.urlsafe_b64decode(sealed()[3:] + b"==")
    for secret in (b"server", b"2025", OWNER, NEW):
        assert secret not in content
