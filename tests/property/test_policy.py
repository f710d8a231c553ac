"""The decision under random input: it never raises, and it allows nothing that was changed or not fully answered."""

import json
from collections.abc import Mapping
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.unit.ratify.world import AGENT, SUB_AGENT, certificate, constraint
from tests.world.decisions import (
    GOOD,
    GRANT,
    ISSUED,
    Deployment,
    call,
    granted,
    policy,
    prove,
    proven,
    script,
    with_proof,
)

from accredit.errors import ChallengesFull, RequestError, StoreUnavailable, WireError
from accredit.jsonrpc.frames import Request
from accredit.jsonrpc.requests import decode_request
from accredit.policy.decision import (
    CountUses,
    IsRevoked,
    IssueChallenge,
    LookAtChallenge,
    Need,
    SpendChallenge,
    TakeUse,
)
from accredit.policy.guarded_call import GUARDED, LISTS, GuardedCall, guarded_call_of
from accredit.ports import Spending
from accredit.ratify import CertificateCache, decode_proof_bundle, encode_proof_bundle

pytestmark = pytest.mark.slow

PAY = call("pay", {"amount": 5, "currency": "EUR"}, session="s")
CHAIN = (
    certificate(AGENT, SUB_AGENT.public_key, scope=("payments:send", "email:read"), cert_id="leaf"),
    certificate(scope=GRANT, constraints=(constraint(type="max_rate", count=5, window_s=60),), cert_id="root"),
)
BOUND = prove(CHAIN, to=PAY)
TEXT = encode_proof_bundle(BOUND)
CACHE = CertificateCache()
"""Shared, so that certificates which verified once are known when they come again, changed."""
POLICY = policy(cert_cache=CACHE)


def allowed(asked: GuardedCall, **changes: Any) -> bool:
    """Whether a new deployment allows a call; that a decision hangs together is checked on the way."""
    decision = Deployment(**{"cert_cache": CACHE, **changes}).decides(asked)
    assert (decision.refusal is None) is (decision.authority is not None)
    if decision.refusal is not None:
        assert decision.fault is None
        assert decision.refusal.data["error"] == decision.refusal.error
        json.dumps(decision.refusal.data).encode()
    return decision.refusal is None


def test_what_is_changed_below_is_good_as_it_is() -> None:
    for required in (True, False):
        assert allowed(with_proof(PAY, TEXT), binding_required=required)


@given(st.data())
@settings(max_examples=200)
def test_a_bound_proof_that_was_changed_anywhere_is_never_allowed(data: st.DataObject) -> None:
    text = bytearray(TEXT)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text) - 1))
        match data.draw(st.sampled_from(["flip", "set", "cut", "put", "move"])):
            case "flip":
                text[at] ^= 1 << data.draw(st.integers(0, 7))
            case "set":
                text[at] = data.draw(st.sampled_from(b'"\\{}[]:,0159aAzZ/+= \x00\xff'))
            case "cut":
                del text[at : at + data.draw(st.integers(1, 90))]
            case "put":
                text[at:at] = data.draw(st.binary(min_size=1, max_size=4))
            case _:
                piece = text[at : at + 44]
                del text[at : at + 44]
                text[data.draw(st.integers(0, len(text))) : 0] = piece
        if not text:
            break
    if allowed(with_proof(PAY, bytes(text))):
        assert decode_proof_bundle(bytes(text)) == BOUND


VALUES = st.none() | st.booleans() | st.integers(-(2**54), 2**54) | st.floats() | st.text(max_size=8) | st.just([])


@given(st.data())
@settings(max_examples=150)
def test_a_bound_proof_of_which_a_value_was_changed_is_never_allowed(data: st.DataObject) -> None:
    bundle: Any = json.loads(TEXT)
    place: Any = bundle
    while True:
        keys: list[Any] = (
            list(cast("Mapping[str, object]", place)) if isinstance(place, dict) else list(range(len(place)))
        )
        key = data.draw(st.sampled_from(keys))
        inner = place[key]
        if isinstance(inner, dict | list) and inner and data.draw(st.booleans()):
            place = inner
            continue
        break
    if data.draw(st.booleans()):
        del place[key]
    else:
        place[key] = data.draw(VALUES)
    text = json.dumps(bundle, separators=(",", ":")).encode()
    if allowed(with_proof(PAY, text)):
        assert decode_proof_bundle(text) == BOUND


@given(st.data())
@settings(max_examples=60)
def test_a_bound_proof_is_never_allowed_for_a_call_that_differs(data: st.DataObject) -> None:
    changes = data.draw(
        st.fixed_dictionaries(
            {},
            optional={
                "target": st.sampled_from(["list_inbox", "pay", "write", "send_email"]),
                "method": st.sampled_from(sorted({*GUARDED, *LISTS})),
                "session_id": st.text("s1", max_size=2),
                "digest": st.binary(min_size=32, max_size=32) | st.just(b"") | st.just(PAY.digest),
            },
        )
    )
    other = replace(PAY, **changes)
    same = (other.method, other.target, other.session_id, other.digest) == (
        PAY.method,
        PAY.target,
        PAY.session_id,
        PAY.digest,
    )
    assert allowed(with_proof(other, TEXT)) is same


@given(st.binary(max_size=200) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")))
@settings(max_examples=150)
def test_whatever_is_in_the_place_of_a_proof_it_is_refused(proof: bytes) -> None:
    assert not allowed(with_proof(call(), proof or b" "))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
    max_leaves=8,
)
PROOFS = JSON | st.sampled_from([json.loads(TEXT), json.loads(encode_proof_bundle(prove(granted("email:read"))))])
METAS = JSON | st.dictionaries(
    st.sampled_from(["ratify_proof", "Ratify_proof", "dev.accredit/authorization", "progressToken"]), PROOFS, max_size=3
)


TARGETS = st.sampled_from(["wipe", "deploy", "send_email", "x", "file:///etc/x"])


@given(st.sampled_from(sorted({*GUARDED, *LISTS, "ping"})), METAS, JSON, TARGETS)
@settings(max_examples=150)
def test_no_random_meta_gets_anything_done(method: str, meta: object, arguments: object, target: str) -> None:
    params = {"name": target, "uri": target, "arguments": arguments, "_meta": meta}
    text = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    try:
        frame = decode_request(text)
        assert isinstance(frame, Request)
        asked = guarded_call_of(frame)
    except RequestError:
        return
    if asked is None or asked.method in {*LISTS, "tasks/list"}:  # any good proof is good for these
        return
    assert not allowed(asked)


ANSWERS: Mapping[type[object], list[object]] = {
    IsRevoked: [False, True, None, 0, "", StoreUnavailable("x")],
    LookAtChallenge: [Spending.FIRST, Spending.SPENT, Spending.NOT_ISSUED, None, "first", OSError()],
    SpendChallenge: [Spending.FIRST, Spending.SPENT, Spending.NOT_ISSUED, None, True, ChallengesFull("x")],
    IssueChallenge: [ISSUED, None, b"", ChallengesFull("x"), StoreUnavailable("x")],
    CountUses: [0, 4, 5, 10**9, None, "0", 0.0, ValueError()],
    TakeUse: [True, False, None, 1, "yes", StoreUnavailable("x")],
}
WELL: Mapping[type[object], list[object]] = {**{need: [good] for need, good in GOOD.items()}, CountUses: [0, 4]}


@given(st.data(), st.sampled_from(["list_inbox", "pay", "wipe", "deploy"]))
@settings(max_examples=200)
def test_nothing_is_allowed_unless_every_question_was_answered_well(data: st.DataObject, target: str) -> None:
    arguments = {"amount": 5, "currency": "EUR"}
    chain = granted(*GRANT, constraints=(constraint(type="max_rate", count=5, window_s=60),))
    well: list[bool] = []

    def answered(need: Need) -> object:
        answer = data.draw(st.sampled_from([GOOD[type(need)], *ANSWERS[type(need)]]))
        well.append(any(type(answer) is type(good) and answer == good for good in WELL[type(need)]))
        return answer

    decision, needs = script(proven(call(target, arguments), chain), POLICY, answered)
    assert (decision.refusal is None) is all(well)
    if decision.refusal is None:
        kinds = [type(need) for need in needs]
        assert kinds == [LookAtChallenge, IsRevoked, SpendChallenge, CountUses, TakeUse]


def test_a_proof_that_says_the_same_in_other_words_is_the_same_proof() -> None:
    spaced = json.dumps(json.loads(TEXT), indent=1).encode()
    assert allowed(with_proof(PAY, spaced))
    escaped = TEXT.replace(b'"leaf"', b'"l\\u0065af"')
    assert allowed(with_proof(PAY, escaped))
    deployment = Deployment()
    assert [deployment.error(with_proof(PAY, text)) for text in (spaced, TEXT, escaped)] == [
        "",
        *["ratify_replayed"] * 2,
    ]


def test_a_text_that_no_verifier_reads_is_no_proof() -> None:
    for text in (
        TEXT + b"{}",
        b"\xef\xbb\xbf" + TEXT,
        TEXT.replace(b'"challenge_at":', b'"challenge_at":1,"challenge_at":'),
    ):
        try:
            decode_proof_bundle(text)
        except WireError:
            pass
        else:
            raise AssertionError("it was read")
        assert not allowed(with_proof(PAY, text))
