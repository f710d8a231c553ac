"""`dev.accredit.call`: a person's yes to certain calls is no yes to anything else."""

import hashlib
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from accredit.consent.call import CALL, CallTerms, evaluate_call, this_call_only
from accredit.errors import WireError
from accredit.ratify import CallFacts, Extension, VerifierContext, read_constraint
from accredit.ratify.constraints import MaxRate

PARAMS: dict[str, Any] = {"name": "send_email", "arguments": {"to": "ada@example.org", "cc": ["bob"], "a/b~c": 1}}


def digest(value: Any) -> str:
    return hashlib.sha256(rfc8785.dumps(value)).hexdigest()


FACTS = CallFacts(
    verifier_id="mail",
    method="tools/call",
    target="send_email",
    arguments=PARAMS["arguments"],
    params_digest=lambda: bytes.fromhex(digest(PARAMS)),
)
TERMS: dict[str, Any] = {"v": 1, "gateway": "mail", "method": "tools/call", "target": ["read", "send_email"]}


def judged(params: Any, facts: CallFacts | None = FACTS) -> object:
    return evaluate_call(Extension(name=CALL, params=params), "cert", VerifierContext(call=facts), 0)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"params_sha256": digest(PARAMS)},
        {"args": {}},
        {"args": {"/to": [digest("eve"), digest("ada@example.org")]}},
        {"args": {"/cc/0": [digest("bob")], "/cc": [digest(["bob"])], "/a~1b~0c": [digest(1)]}},
        {"args": {"": [digest(PARAMS["arguments"])]}},
    ],
)
def test_what_was_said_yes_to_passes(more: dict[str, Any]) -> None:
    assert judged(TERMS | more) is None


@pytest.mark.holds("consent/call", "target", "params", "arguments")
@pytest.mark.parametrize(
    "changes",
    [
        {"gateway": "another"},
        {"gateway": "Mail"},
        {"method": "prompts/get"},
        {"target": ["send_emai1"]},
        {"target": ["send_email "]},
        {"params_sha256": digest({**PARAMS, "name": "pay"})},
        {"args": {"/to": [digest("eve")]}},
        {"args": {"/to": [digest("ada@example.org")], "/cc": [digest([])]}},
        {"args": {"/bcc": [digest("eve")]}},
        {"args": {"/cc/1": [digest("bob")]}},
        {"args": {"/cc/00": [digest("bob")]}},
        {"args": {"/cc/-": [digest("bob")]}},
        {"args": {"/to/0": [digest("a")]}},
        {"definition": digest("any")},
    ],
)
def test_a_yes_to_one_call_is_a_yes_to_no_other(changes: dict[str, Any]) -> None:
    assert isinstance(judged(TERMS | changes), str)


@pytest.mark.holds("consent/call", "members")
@pytest.mark.parametrize(
    "params",
    [
        {},
        {name: value for name, value in TERMS.items() if name != "v"},
        {name: value for name, value in TERMS.items() if name != "gateway"},
        {name: value for name, value in TERMS.items() if name != "target"},
        TERMS | {"v": 2},
        TERMS | {"v": True},
        TERMS | {"v": "1"},
        TERMS | {"gateway": ""},
        TERMS | {"target": []},
        TERMS | {"target": "send_email"},
        TERMS | {"target": ["send_email", None]},
        TERMS | {"unknown": 1},
        TERMS | {"Args": {}},
        TERMS | {"params_sha256": None},
        TERMS | {"params_sha256": digest(PARAMS).upper()},
        TERMS | {"params_sha256": digest(PARAMS) + "\n"},
        TERMS | {"args": {"/to": []}},
        TERMS | {"args": {"/to": digest("ada@example.org")}},
        TERMS | {"args": {"to": [digest("ada@example.org")]}},
        TERMS | {"args": {"/to~2": [digest("ada@example.org")]}},
        TERMS | {"args": []},
        TERMS | {"definition": "ab"},
    ],
)
def test_what_is_not_written_as_the_reference_says_allows_nothing(params: Any) -> None:
    assert isinstance(judged(params), str)
    with pytest.raises(WireError):
        CallTerms.read(Extension(name=CALL, params=params))


def test_a_call_that_nobody_knows_is_not_allowed() -> None:
    assert str(judged(TERMS, None)).startswith("constraint_unverifiable")


@pytest.mark.holds("consent/call", "definition")
def test_a_definition_counts_only_where_it_is_the_pinned_one() -> None:
    pinned = digest({"name": "send_email"})
    assert judged(TERMS | {"definition": pinned}, replace(FACTS, definition=pinned)) is None
    assert judged(TERMS | {"definition": pinned}, replace(FACTS, definition=digest("x"))) is not None
    assert str(judged(TERMS | {"definition": pinned})).startswith("constraint_unverifiable")


@pytest.mark.parametrize("value", [2**60, float("nan"), "\ud800"])
def test_an_argument_without_a_canonical_form_is_none_that_was_said_yes_to(value: Any) -> None:
    facts = replace(FACTS, arguments={"to": value})
    assert judged(TERMS | {"args": {"/to": [digest("ada@example.org")]}}, facts) == "for another /to"


def test_what_is_written_is_read_again() -> None:
    terms = CallTerms(gateway="mail", method="tools/call", target=("send_email",), args={"/to": (digest("a"),)})
    found = read_constraint(terms.constraint().members())
    assert isinstance(found, Extension)
    assert CallTerms.read(found) == terms
    assert found.members() == {
        "type": CALL,
        "params": {
            "v": 1,
            "gateway": "mail",
            "method": "tools/call",
            "target": ["send_email"],
            "args": {"/to": [digest("a")]},
        },
    }


def test_words_say_all_that_must_hold() -> None:
    params: dict[str, Any] = TERMS | {"params_sha256": "a" * 64, "args": {"/to": ["b" * 64]}, "definition": "c" * 64}
    words = CallTerms.read(Extension(name=CALL, params=params)).words()
    assert words == (
        f"only at gateway mail, only tools/call read or send_email, only arguments with SHA-256 {'a' * 64}, "
        f"only with /to whose SHA-256 is {'b' * 64}, only while the tool's definition has SHA-256 {'c' * 64}"
    )


def test_only_a_digest_of_the_params_makes_it_this_very_call() -> None:
    loose, exact = (Extension(name=CALL, params={**TERMS, **more}) for more in ({}, {"params_sha256": "a" * 64}))
    rate = MaxRate(count=1, window_s=600)
    assert not this_call_only([rate, loose, Extension(name=CALL), Extension(name="x.y", params={"params_sha256": 1})])
    assert this_call_only([rate, loose, exact])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["mail", "tools/call", "send_email", "a" * 64]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["/to", "", "v", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*TERMS, "params_sha256", "args", "definition", "x"]), JSON, max_size=6))
def test_whatever_the_parameters_are_the_answer_is_none_or_a_text(params: dict[str, Any]) -> None:
    answer = judged(params)
    assert answer is None or isinstance(answer, str)
