"""Sealed state opens for whom, for what and as long as it was given, and for nothing else."""

import base64
import hmac
from collections.abc import Sequence

import msgspec
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from accredit.errors import ConfigurationError, SealError
from accredit.rounds import FlowState, KeyRing, parse_keys, state_binding
from accredit.rounds.sealing import MAX_FLOW_BYTES, MAX_STATE_BYTES, MAX_STATE_KEYS

pytestmark = pytest.mark.holds("rounds/sealing")

NOW = 1_800_000_000
OLD, NEW = b"o" * 32, b"n" * 32
NONCE = bytes(range(12))
DIGEST = b"d" * 32
OWNER = ("token", "https://issuer.example", "alice")
BINDING = state_binding(OWNER, "tools/call", "deploy", DIGEST)
STATE = FlowState("the server's own", "f" * 32, 1, NOW + 600)
PUBLIC = "Invalid or expired requestState"


def sealed(state: FlowState = STATE, ring: KeyRing | None = None) -> str:
    return (ring or KeyRing([NEW])).seal(state, BINDING, NONCE)


def refusal(text: str, binding: bytes = BINDING, now: int = NOW, ring: KeyRing | None = None) -> str:
    with pytest.raises(SealError) as caught:
        (ring or KeyRing([NEW])).open(text, binding, now)
    assert str(caught.value) == PUBLIC
    return caught.value.reason


@pytest.mark.parametrize(
    "state", ["", "the server's own", "é\x00\n", '{"a":1}', None, "x" * MAX_STATE_BYTES, "é" * (MAX_STATE_BYTES // 2)]
)
def test_what_was_sealed_opens_byte_for_byte(state: str | None) -> None:
    flow = FlowState(state, "f" * MAX_FLOW_BYTES, 2**31, NOW + 600)
    assert KeyRing([NEW]).open(sealed(flow), BINDING, NOW) == flow


def test_what_was_sealed_shows_nothing_of_itself() -> None:
    text = sealed()
    assert text.isascii()
    for secret in (b"server", STATE.flow.encode(), NEW):
        assert secret not in base64.urlsafe_b64decode(text[3:] + "==")
    assert "nnn" not in repr(KeyRing([NEW]))


@pytest.mark.holds("rounds/sealing", "expiry")
def test_it_opens_until_its_last_second() -> None:
    assert KeyRing([NEW]).open(sealed(), BINDING, NOW + 600) == STATE
    assert refusal(sealed(), now=NOW + 601) == "expired"
    assert refusal(sealed(), now=NOW + 4_200) == "expired"


@pytest.mark.holds("rounds/sealing", "tag")
@pytest.mark.parametrize(
    "binding",
    [
        state_binding(("token", "https://issuer.example", "mallory"), "tools/call", "deploy", DIGEST),
        state_binding((), "tools/call", "deploy", DIGEST),
        state_binding(OWNER, "prompts/get", "deploy", DIGEST),
        state_binding(OWNER, "tools/call", "destroy", DIGEST),
        state_binding(OWNER, "tools/call", "deploy", b"e" * 32),
    ],
)
def test_it_opens_for_no_other_principal_method_target_or_arguments(binding: bytes) -> None:
    assert refusal(sealed(), binding).startswith("changed")


PARTS: list[tuple[Sequence[str], str, str]] = [
    (("ab", "c"), "m", "t"),
    (("a", "bc"), "m", "t"),
    (("abc",), "m", "t"),
    (("ab", "c", ""), "m", "t"),
    (("ab",), "c", "mt"),
    ((), "abc", "mt"),
    ((), "abcm", "t"),
    ((), "ab", "cmt"),
    (("\ud800",), "m", "t"),
    (("?",), "m", "t"),
]


def test_no_two_requests_have_one_binding__parts_can_not_run_into_each_other() -> None:
    bindings = {state_binding(*parts, DIGEST) for parts in PARTS}
    assert len(bindings) == len(PARTS)


@pytest.mark.holds("rounds/sealing", "tag")
@pytest.mark.parametrize("place", range(0, len(sealed()), 7))
def test_a_flipped_bit_is_refused(place: int) -> None:
    text = sealed()
    for bit in range(7):
        flipped = text[:place] + chr(ord(text[place]) ^ (1 << bit)) + text[place + 1 :]
        refusal(flipped)


@pytest.mark.holds("rounds/sealing", "version")
def test_every_other_spelling_of_the_same_bytes_is_refused() -> None:
    text = next(
        text for text in (sealed(FlowState("x" * size, "f", 1, NOW + 600)) for size in range(3)) if (len(text) - 3) % 4
    )
    last = text[-1]
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    twin = alphabet[alphabet.index(last) ^ 1]
    assert refusal(text[:-1] + twin) == "no base64, or another spelling of it"
    for other in (text + "=", text + "\n", text[:9] + " " + text[9:], text + "!", text + "é"):
        refusal(other)


@pytest.mark.parametrize("length", range(0, len(sealed()), 5))
def test_a_cut_state_is_refused(length: int) -> None:
    refusal(sealed()[:length])


@pytest.mark.holds("rounds/sealing", "length", "version")
def test_a_doubled_one_a_foreign_one_and_one_of_a_mebibyte_are_refused() -> None:
    refusal(sealed() * 2)
    refusal(sealed() + sealed()[3:])
    assert refusal("the server's own") == "not sealed here"
    assert refusal("") == "not sealed here"
    assert refusal("s1." + "A" * 1_048_576) == "too long"
    assert refusal("s1.A") == "no base64, or another spelling of it"
    assert refusal("s1." + base64.urlsafe_b64encode(bytes(18)).decode()) == "too short"


def test_an_inside_that_is_not_ours_is_refused_even_under_our_key() -> None:
    id = base64.urlsafe_b64decode(sealed()[3:] + "==")[:8]
    inside = AESGCM(NEW).encrypt(NONCE, msgspec.msgpack.encode(["s"]), b"s1." + id + BINDING)
    text = "s1." + base64.urlsafe_b64encode(id + NONCE + inside).decode().rstrip("=")
    assert refusal(text) == "changed, or sealed for another principal or request"


# --- keys -------------------------------------------------------------------------------------------


@pytest.mark.holds("rounds/sealing", "key")
def test_the_first_key_seals_and_all_open__a_rotation_loses_no_flow() -> None:
    before, during, after = KeyRing([OLD]), KeyRing([NEW, OLD]), KeyRing([NEW])
    old, new = sealed(ring=before), sealed(ring=during)
    assert during.open(old, BINDING, NOW) == during.open(new, BINDING, NOW) == STATE
    assert after.open(new, BINDING, NOW) == STATE
    assert refusal(old, ring=after) == refusal(new, ring=before) == "no key of this ring"


@pytest.mark.parametrize("keys", [[], [b"short"], [NEW, b"n" * 33], [NEW] * (MAX_STATE_KEYS + 1)])
def test_a_ring_has_some_keys_of_32_bytes(keys: list[bytes]) -> None:
    with pytest.raises(ValueError, match="key"):
        KeyRing(keys)


def line(key: bytes) -> str:
    return base64.b64encode(key).decode()


def test_a_key_file_has_a_key_a_line() -> None:
    ring = parse_keys(f"{line(NEW)}\r\n\n  {line(OLD)}  \n")
    assert ring.seal(STATE, BINDING, NONCE) == sealed()
    assert ring.open(sealed(ring=KeyRing([OLD])), BINDING, NOW) == STATE
    for count in (1, MAX_STATE_KEYS):
        assert parse_keys(f"{line(NEW)}\n" * count).open(sealed(), BINDING, NOW) == STATE


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "holds 0 keys"),
        ("\n \n", "holds 0 keys"),
        (f"{line(NEW)}\n" * (MAX_STATE_KEYS + 1), f"holds {MAX_STATE_KEYS + 1} keys"),
        (f"{line(NEW)}\nsecret-that-is-no-key", "line 2"),
        (line(b"secret"), "line 1"),
        (line(NEW)[:-1], "line 1"),
        (f"{line(NEW)} {line(OLD)}", "line 1"),
        ("secrét", "line 1"),
    ],
)
def test_a_key_file_that_is_none_says_where_and_quotes_nothing(text: str, what: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_keys(text)
    assert caught.value.what.startswith("rounds.keys_file")
    assert what in caught.value.what
    assert caught.value.remedy
    assert "secr" not in str(caught.value)
    assert line(NEW)[:10] not in str(caught.value)


# --- misuse -----------------------------------------------------------------------------------------


def test_a_state_that_is_too_long_or_no_text_is_not_sealed() -> None:
    for state, reason in (("x" * (MAX_STATE_BYTES + 1), "262144 bytes"), ("\ud800", "no text in UTF-8")):
        with pytest.raises(SealError) as refused:
            sealed(FlowState(state, "f", 1, NOW))
        assert reason in refused.value.reason


def test_wrong_lengths_are_misuse() -> None:
    ring = KeyRing([NEW])
    with pytest.raises(ValueError, match="nonce"):
        ring.seal(STATE, BINDING, b"short")
    with pytest.raises(ValueError, match="binding"):
        ring.seal(STATE, b"", NONCE)
    with pytest.raises(ValueError, match="binding"):
        ring.open(sealed(), b"", NOW)
    with pytest.raises(ValueError, match="flow"):
        sealed(FlowState("s", "f" * (MAX_FLOW_BYTES + 1), 1, NOW))


def test_a_tag_of_a_ring_is_good_for_its_keys_and_its_data_alone__and_only_whole() -> None:
    tag = KeyRing([OLD]).tag(b"data")
    assert tag == hmac.digest(OLD, b"data", "sha256")[:16]
    assert KeyRing([NEW, OLD]).has_tagged(tag, b"data")
    assert not KeyRing([NEW]).has_tagged(tag, b"data")
    assert not KeyRing([NEW, OLD]).has_tagged(tag, b"other")
    for wrong in (tag[:-1], b"", bytes([tag[0] ^ 1]) + tag[1:]):
        assert not KeyRing([OLD]).has_tagged(wrong, b"data")


def test_a_ring_for_another_use_opens_nothing_of_this_one__and_follows_its_rotation() -> None:
    ring = KeyRing([NEW, OLD])
    text = sealed(ring=ring.derived(b"one"))
    assert refusal(text, ring=ring) == refusal(text, ring=ring.derived(b"two")) == "no key of this ring"
    assert KeyRing([OLD, NEW]).derived(b"one").open(text, BINDING, NOW) == STATE
