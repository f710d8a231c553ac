"""An ask is what one agent signed about one call, or nothing."""

import hashlib
import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.world.asked import PARAMS, WORLD, a_message, a_request, an_ask, request_params
from tests.world.delegations import NOW

from accredit.consent.answers import Answer
from accredit.consent.asks import MAX_ASK_BYTES, MAX_ASKED_PARAMS_BYTES, Ask, check_ask, read_ask, read_code
from accredit.errors import AskError
from accredit.limits import MAX_DEPTH
from accredit.ratify.hybrid import UNSIGNED, signature_fault

ASK = an_ask()
MEMBERS: dict[str, Any] = json.loads(ASK.encode())
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.text()
    | st.floats(allow_nan=False, allow_infinity=False).filter(lambda number: abs(number) < 2**53),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def test_what_was_signed_is_what_is_read() -> None:
    read = read_ask(ASK.encode())
    assert read == ASK
    check_ask(read, NOW)
    assert read.digest == hashlib.sha256(rfc8785.dumps(MEMBERS)).digest()
    assert read.params_sha256 == hashlib.sha256(rfc8785.dumps(PARAMS)).hexdigest()


@pytest.mark.holds("consent/asks", "signature")
def test_the_signature_is_over_the_tag_and_the_canonical_form_without_it() -> None:
    unsigned = {name: value for name, value in MEMBERS.items() if name != "signature"}
    message = b"accredit/ask/v1\0" + rfc8785.dumps(unsigned)
    assert signature_fault(message, ASK.signature, WORLD.agent.public_key) is None


@pytest.mark.holds("consent/asks", "signature")
@pytest.mark.parametrize(
    "forged",
    [
        replace(ASK, target="pay", params={"name": "pay"}),
        replace(ASK, params={"name": "send_email", "arguments": {"to": "eve@example.org"}}),
        replace(ASK, gateway=replace(ASK.gateway, id="another")),
        replace(ASK, agent=replace(ASK.agent, public_key=WORLD.sub.public_key)),
        replace(ASK, agent=replace(ASK.agent, name="Ada's own")),
        replace(ASK, principals=()),
        replace(ASK, refusal=replace(ASK.refusal, required_scope="mcp:tool")),
        replace(ASK, signature=UNSIGNED),
        replace(ASK, signature=an_ask().signature),
    ],
)
def test_nobody_else_s_words_become_the_agent_s(forged: Any) -> None:
    with pytest.raises(AskError, match="did not sign"):
        check_ask(read_ask(forged.encode()), NOW)


@pytest.mark.holds("consent/asks", "validity")
@pytest.mark.parametrize(
    ("changes", "now"),
    [
        ({}, NOW + 601),
        ({}, NOW - 3),
        ({"expires_at": NOW}, NOW),
        ({"expires_at": NOW - 1}, NOW),
        ({"expires_at": NOW + 601}, NOW),
        ({"asked_at": NOW - 10_000}, NOW),
    ],
)
def test_an_ask_that_is_old_or_would_never_end_is_none(changes: dict[str, Any], now: int) -> None:
    with pytest.raises(AskError):
        check_ask(an_ask(**changes), now)


@pytest.mark.holds("consent/asks", "members")
@pytest.mark.parametrize(
    "changes",
    [
        {"accredit_ask": 2},
        {"accredit_ask": True},
        {"id": "7"},
        {"id": MEMBERS["id"].upper() + "A"},
        {"asked_at": "now"},
        {"agent": {"name": "Assistant"}},
        {"agent": MEMBERS["agent"] | {"name": "x" * 257}},
        {"gateway": {"id": "", "url": ""}},
        {"principals": ["Ada"]},
        {"principals": [WORLD.owner.id] * 9},
        {"method": "tasks/cancel"},
        {"target": ""},
        {"refusal": {"error": "x"}},
        {"refusal": MEMBERS["refusal"] | {"required_scope": ""}},
        {"refusal": MEMBERS["refusal"] | {"reason": "x" * 501}},
        {"server_says": {"description": "x" * 1_024}},
        {"server_says": {"annotations": {"readOnlyHint": "yes"}}},
        {"unknown": 1},
        {"signature": None},
    ],
)
def test_members_are_those_of_an_ask_and_within_their_bounds(changes: dict[str, Any]) -> None:
    with pytest.raises(AskError):
        read_ask(json.dumps(MEMBERS | changes).encode())


@pytest.mark.holds("consent/asks", "params")
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"name": "pay"},
        PARAMS | {"_meta": {}},
        PARAMS | {"requestState": "s"},
        PARAMS | {"inputResponses": {}},
        PARAMS | {"arguments": {"to": "ada", "TO": "eve"}},
        PARAMS | {"arguments": "x" * MAX_ASKED_PARAMS_BYTES},
        PARAMS | {"arguments": 2**53},
    ],
    ids=["none", "another", "meta", "state", "responses", "twice", "long", "wide"],
)
def test_params_are_of_one_call_that_everybody_reads_alike(params: Any) -> None:
    with pytest.raises(AskError):
        read_ask(json.dumps(MEMBERS | {"params": params}).encode())


@pytest.mark.holds("consent/asks", "params")
@pytest.mark.parametrize("levels", [MAX_DEPTH, 900, 30_000])
def test_params_that_nest_too_deep_are_refused_without_a_crash(levels: int) -> None:
    deep = '{"name":"send_email","arguments":' + "[" * levels + "]" * levels + "}"
    text = json.dumps(MEMBERS | {"params": 7}).replace('"params": 7', f'"params": {deep}')
    with pytest.raises(AskError, match="deep"):
        read_ask(text.encode())


@pytest.mark.holds("consent/asks", "members")
def test_more_bytes_than_an_ask_has_are_not_read() -> None:
    read_ask(ASK.encode().ljust(MAX_ASK_BYTES))
    with pytest.raises(AskError, match=str(MAX_ASK_BYTES)):
        read_ask(ASK.encode().ljust(MAX_ASK_BYTES + 1))


REQUEST, MESSAGE = a_request(), a_message("summarize")
REQUEST_MEMBERS: dict[str, Any] = json.loads(REQUEST.encode())
MESSAGE_MEMBERS: dict[str, Any] = json.loads(MESSAGE.encode())


@pytest.mark.holds("consent/asks", "request")
def test_a_request_is_named_by_its_path_and_its_body() -> None:
    check_ask(read_ask(REQUEST.encode()), NOW)
    body = hashlib.sha256(b'{"to":"ada"}').hexdigest()
    form = rfc8785.dumps({"body_sha256": body, "target": "/api/mail/messages/7/send"})
    assert REQUEST.params_sha256 == hashlib.sha256(form).hexdigest()
    assert REQUEST.body == {"to": "ada"}


@pytest.mark.holds("consent/asks", "request")
@given(
    st.tuples(st.text("ab/?=", max_size=5), st.binary(max_size=3)),
    st.tuples(st.text("ab/?=", max_size=5), st.binary(max_size=3)),
)
def test_two_requests_have_one_digest_only_if_they_are_the_same(one: Any, other: Any) -> None:
    digests = {replace(REQUEST, params=request_params(f"/{path}", body)).params_sha256 for path, body in (one, other)}
    assert (len(digests) == 1) is (one == other)


@pytest.mark.holds("consent/asks", "request")
@pytest.mark.parametrize(
    "changes",
    [
        {"params": request_params() | {"body": '{"to":"eve"}'}},
        {"params": request_params() | {"body_size": 12}},
        {"params": request_params(body=b"\xff") | {"body_size": 0}},
        {"params": request_params(body=b"\xff") | {"body_size": True}},
        {"params": {name: value for name, value in request_params().items() if name != "body"}},
        {"params": request_params() | {"more": 1}},
        {"params": request_params("messages")},
        {"params": request_params("/messages/ 7")},
        {"params": request_params("/\u0430")},
        {"params": request_params("/" + "a" * 8_192)},
        {"params": PARAMS},
        {"method": "GET"},
        {"method": "post", "target": "post /messages"},
        {"target": "/messages"},
        {"target": ""},
        {"method": "tools/call"},
        {"method": "SendMessage"},
    ],
)
def test_a_request_is_what_it_shows_or_no_ask(changes: dict[str, Any]) -> None:
    with pytest.raises(AskError):
        read_ask(json.dumps(REQUEST_MEMBERS | changes).encode())


@pytest.mark.holds("consent/asks", "params")
@pytest.mark.parametrize(
    "changes",
    [
        {"target": ""},
        {"target": "wipe"},
        {"method": "GetTask"},
        {"method": "GET"},
        {"params": MESSAGE_MEMBERS["params"] | {"metadata": {}}},
        {"params": MESSAGE_MEMBERS["params"] | {"Metadata": {}}},
        {"refusal": MESSAGE_MEMBERS["refusal"] | {"required_scopes": ["mcp:tool"]}},
    ],
)
def test_a_message_names_its_skill_and_scopes(changes: dict[str, Any]) -> None:
    assert read_ask(MESSAGE.encode()).refusal.scopes == ("custom:ask", "comms:email:send")
    with pytest.raises(AskError):
        read_ask(json.dumps(MESSAGE_MEMBERS | changes).encode())


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a":[1,0.5,1e2]}', {"a": [1, 0.5, 100.0]}),
        ('[{"amount":10.10}]', [{"amount": 10.1}]),
        ('{"a":1,"A":2}', None),
        ('{"a":1,"a":2}', None),
        ('{"a":10000000000000.0001}', None),
        ('{"a":1e-999}', None),
        ('{"a":1e999}', None),
        ('{"a":1e-99999999999999999999}', None),
        (f'{{"a":0.{"1" * 60_000}}}', None),
        ('{"a":9007199254740993}', None),
        ('{"a":-0}', None),
        ('{"a":NaN}', None),
        ('{"a":"\\ud800"}', None),
        ("[" * 200 + "]" * 200, None),
        ('{"a":1} x', None),
        ('\ufeff{"a":1}', None),
        ('"a"', None),
        ("a=1", None),
        ("", None),
    ],
)
def test_a_body_is_shown_as_values_only_if_nothing_of_it_gets_lost(text: str, value: object) -> None:
    ask = a_request(body=text.encode())
    assert (ask.body, ask.request.body) == (value, text)


@given(st.text('{}[]",:0123456789eE.-+ \\\\ua', max_size=40).map("[{}]".format) | JSON.map(json.dumps))
def test_any_body_is_shown_as_values_or_not__and_raises_nothing(text: str) -> None:
    value = replace(REQUEST, params=request_params(body=text.encode("utf-8", "replace"))).body
    assert value is None or value == json.loads(text)


@given(st.binary() | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_an_ask_or_one_error(data: bytes) -> None:
    with pytest.raises(AskError):
        read_ask(data)


@given(st.sampled_from(sorted(MEMBERS)), JSON, st.integers(0, 8_000), st.binary(max_size=3))
def test_an_ask_with_anything_else_in_it_is_one_error_or_no_longer_signed(
    name: str, value: Any, at: int, bytes_: bytes
) -> None:
    text = json.dumps(MEMBERS | {name: value}, ensure_ascii=False).encode()
    cut = ASK.encode()
    for data in (text, cut[:at] + bytes_ + cut[at + len(bytes_) :]):
        try:
            read = read_ask(data)
            check_ask(read, NOW)
        except AskError:
            continue
        assert read == ASK


@pytest.mark.slow
@given(st.dictionaries(st.text(max_size=5), JSON, max_size=4))
def test_any_arguments_that_can_be_digested_can_be_asked_for(arguments: dict[str, Any]) -> None:
    params = {"name": "send_email", "arguments": arguments}
    text = replace(ASK, params=params).text()
    with suppress(AskError):  # names that differ by case alone: the gateway refuses such a call, too
        assert read_ask(text).params_sha256 == hashlib.sha256(rfc8785.dumps(params)).hexdigest()


@given(st.binary(max_size=64))
def test_a_code_is_read_however_a_person_types_it(name: bytes) -> None:
    ask = replace(ASK, id=hashlib.sha256(name).hexdigest()[:32])
    code = ask.code
    assert read_code(code) == code
    assert read_code(code.lower().replace("-", "")) == code
    assert read_code(f" {code[:3]} {code[3:]} ".replace("0", "o").replace("1", "l")) == code


def test_a_code_is_the_first_thirty_bits_of_the_digest() -> None:
    bits = "".join(f"{byte:08b}" for byte in ASK.digest)
    digits = [int(bits[at : at + 5], 2) for at in range(0, 30, 5)]
    assert ASK.code.replace("-", "") == "".join("0123456789ABCDEFGHJKMNPQRSTVWXYZ"[digit] for digit in digits)


@pytest.mark.parametrize(
    "text", ["", "7KQ4", "7KQ4-M2X", "7KQ4-MU", "7KQ4-M\u0662", "\u212aKQ4-M2", "-" * 99, "7KQ4/M2"]
)
def test_what_can_be_no_code_is_none(text: str) -> None:
    with pytest.raises(AskError):
        read_code(text)


def test_two_asks_for_one_call_are_told_from_asks_for_others() -> None:
    assert an_ask().same_call == an_ask().same_call
    assert an_ask().digest != an_ask().digest
    assert an_ask(PARAMS | {"arguments": {}}).same_call != an_ask().same_call
    other = replace(ASK.gateway, id="another")
    assert an_ask(gateway=other).same_call != an_ask().same_call


def test_the_reference_names_every_member_and_no_other() -> None:
    page = (Path(__file__).parents[3] / "docs/reference/asks.md").read_text("utf-8")
    for heading, kind in (("## Ask", Ask), ("## Answer", Answer)):
        section = page.partition(f"{heading}\n")[2].partition("\n## ")[0]
        rows = re.findall(r"^\| (`[^|]+) \|", section, re.MULTILINE)
        assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == set(kind.__struct_fields__)
