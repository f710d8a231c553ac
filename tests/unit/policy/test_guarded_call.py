"""What is asked: the digest is RFC 8785's, `_meta` is no part of it, and what can't be read is refused with its id."""

import hashlib
import json
import math
import struct
from decimal import Decimal
from typing import Any, cast

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec import Raw
from tests.world.heavy_bodies import bodies

from accredit.canonical import MAX_REWRITTEN_NUMBERS
from accredit.errors import FrameError, RequestError
from accredit.jsonrpc.frames import Request
from accredit.jsonrpc.methods import TARGET_MEMBER, TASK_LIST
from accredit.jsonrpc.objects import check_same_names
from accredit.jsonrpc.requests import decode_request
from accredit.limits import MAX_VALUES
from accredit.policy.guarded_call import (
    GUARDED,
    LISTS,
    MAX_TARGET_CHARS,
    PROOF,
    GuardedCall,
    digest_in_steps,
    guarded_call_from_values,
    guarded_call_of,
    payload_digest,
    read_freely,
)

_SHORT = {8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r", 34: '\\"', 92: "\\\\"}


def oracle(value: object) -> str:
    """RFC 8785, written down a second time."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return '"' + "".join(_SHORT.get(ord(c), f"\\u{ord(c):04x}" if c < " " else c) for c in value) + '"'
    if isinstance(value, int | float):
        return number(float(value))
    if isinstance(value, list):
        return "[" + ",".join(oracle(each) for each in cast("list[object]", value)) + "]"
    found = sorted(cast("dict[str, object]", value).items(), key=lambda pair: pair[0].encode("utf-16-be"))
    return "{" + ",".join(f"{oracle(name)}:{oracle(each)}" for name, each in found) + "}"


def number(value: float) -> str:
    """A number as ECMAScript prints it (7.1.12.1)."""
    if value == 0:
        return "0"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    text, point = "".join(map(str, digits)), len(digits) + int(exponent)
    if len(digits) <= point <= 21:
        body = text + "0" * (point - len(digits))
    elif 0 < point <= 21:
        body = f"{text[:point]}.{text[point:]}"
    elif -6 < point <= 0:
        body = "0." + "0" * -point + text
    else:
        rest = f".{text[1:]}" if len(digits) > 1 else ""
        body = f"{text[0]}{rest}e{'+' if point > 0 else '-'}{abs(point - 1)}"
    return "-" * sign + body


def request(params: str, method: str = "tools/call") -> Request:
    frame = decode_request(f'{{"jsonrpc":"2.0","id":"x","method":"{method}","params":{params}}}'.encode())
    assert isinstance(frame, Request)
    return frame


def digest_of(params: str) -> bytes:
    found = guarded_call_of(request(params))
    assert found is not None
    return found.digest


@pytest.mark.parametrize(
    ("bits", "text"),
    [
        ("0000000000000000", "0"),
        ("8000000000000000", "0"),
        ("0000000000000001", "5e-324"),
        ("8000000000000001", "-5e-324"),
        ("7fefffffffffffff", "1.7976931348623157e+308"),
        ("ffefffffffffffff", "-1.7976931348623157e+308"),
        ("4340000000000000", "9007199254740992"),
        ("4430000000000000", "295147905179352830000"),
        ("44b52d02c7e14af5", "9.999999999999997e+22"),
        ("44b52d02c7e14af6", "1e+23"),
        ("44b52d02c7e14af7", "1.0000000000000001e+23"),
        ("444b1ae4d6e2ef4e", "999999999999999700000"),
        ("444b1ae4d6e2ef50", "1e+21"),
        ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
        ("3eb0c6f7a0b5ed8d", "0.000001"),
        ("41b3de4355555553", "333333333.3333332"),
        ("becbf647612f3696", "-0.0000033333333333333333"),
        ("43143ff3c1cb0959", "1424953923781206.2"),
    ],
)
def test_numbers_are_written_as_the_rfcs_own_table_has_them(bits: str, text: str) -> None:
    (value,) = struct.unpack(">d", bytes.fromhex(bits))
    assert number(value) == text
    assert payload_digest({"x": value}) == hashlib.sha256(f'{{"x":{text}}}'.encode()).digest()


def test_the_example_of_the_rfc() -> None:
    value: dict[str, Any] = {
        "numbers": [333333333.33333329, 1e30, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": "\u20ac$\u000f\u000aA'\u0042\u0022\u005c\\\"/",
        "literals": [None, True, False],
    }
    text = (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        '"string":"\u20ac$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )
    assert payload_digest(value) == hashlib.sha256(text.encode()).digest()


def test_names_are_sorted_as_utf_16() -> None:
    names = ["\u20ac", "\r", "\ufb33", "1", "\U0001f600", "\u0080", "\u00f6"]
    text = (
        "{"
        + ",".join(oracle(name) + ":0" for name in ["\r", "1", "\u0080", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"])
        + "}"
    )
    assert payload_digest(dict.fromkeys(names, 0)) == hashlib.sha256(text.encode()).digest()


SAFE = st.integers(-(2**53) + 1, 2**53 - 1)
VALUES = st.recursive(
    st.none() | st.booleans() | SAFE | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.slow
@given(st.dictionaries(st.text(max_size=4), VALUES, max_size=4))
@settings(max_examples=200)
def test_the_digest_is_that_of_the_oracle(params: dict[str, object]) -> None:
    covered = {name: value for name, value in params.items() if name != "_meta"}
    assert payload_digest(params) == hashlib.sha256(oracle(covered).encode()).digest()
    assert payload_digest({**params, "_meta": {"x": 1}}) == payload_digest(params)


@pytest.mark.slow
@given(st.dictionaries(st.text(max_size=4).filter(lambda name: name.casefold() not in META_LIKE), VALUES, max_size=3))
@settings(max_examples=100)
def test_the_digest_of_a_request_is_that_of_its_values_however_they_are_spelled(arguments: dict[str, object]) -> None:
    plain = {"name": "pay", "arguments": arguments}
    assume(tells_apart(arguments))
    expected = hashlib.sha256(oracle(plain).encode()).digest()
    for ascii_only in (True, False):
        for separators in ((",", ":"), (" ,\n", " :\t")):
            text = json.dumps(plain, ensure_ascii=ascii_only, separators=separators)
            assert digest_of(text) == expected


def tells_apart(arguments: dict[str, object]) -> bool:
    try:
        check_same_names(Raw(json.dumps(arguments).encode()))
    except FrameError:
        return False
    return True


META_LIKE = {"_meta", "name", "arguments", "task", "inputresponses", "requeststate"}


@pytest.mark.parametrize("wide", ["9007199254740992", "-9007199254740993", "[[[18446744073709551616]]]"])
def test_a_guarded_call_with_an_integer_beyond_2_53_is_refused__programs_would_round_it_differently(wide: str) -> None:
    digest_of('{"name":"pay","arguments":{"amount":9007199254740991}}')
    with pytest.raises(RequestError, match="an integer beyond 2"):
        digest_of(f'{{"name":"pay","arguments":{{"amount":{wide}}}}}')


def test_what_is_no_part_of_the_call_does_not_count_and_what_is_does() -> None:
    plain = digest_of('{"name":"pay","arguments":{"_meta":1}}')
    assert digest_of('{"_meta":{"progressToken":1,"ratify_proof":{}},"name":"pay","arguments":{"_meta":1}}') == plain
    assert digest_of('{"\\u005fmeta":{"x":1},"name":"pay","arguments":{"_meta":1}}') == plain
    assert digest_of('{"n\\u0061me":"pay","arguments":{"_meta":1}}') == plain
    others = [
        '{"name":"pay","arguments":{"_meta":2}}',
        '{"name":"pay","arguments":{}}',
        '{"name":"pay"}',
        '{"name":"pay","arguments":{"_meta":1},"requestState":""}',
        '{"name":"pay","arguments":{"_meta":1},"\\u005f_meta":1}',
        '{"name":"pay","arguments":{"_meta":"1"}}',
        '{"name":"pay","arguments":{"_meta":true}}',
    ]
    assert len({plain, *map(digest_of, others)}) == 1 + len(others)


def test_numbers_that_are_equal_are_the_same_call() -> None:
    spelled = ["5", "5.0", "0.5e1", "50e-1", "5.00000000000000000000000001"]
    assert len({digest_of(f'{{"name":"pay","arguments":{{"amount":{text}}}}}') for text in spelled}) == 1


@pytest.mark.parametrize(
    "value",
    [
        "9007199254740992",
        "-9007199254740992",
        "123456789012345678901234567890",
        "[[[9007199254740992]]]",
        "9" * 300,
        "1e400",
        "-1e400",
        '"\\ud800"',
        '{"\\udc00":1}',
        '"\\ud800\\u0041"',
    ],
    ids=lambda value: value[:30],
)
@pytest.mark.parametrize("place", ['"arguments":{"x":VALUE}', '"x":VALUE', '"arguments":VALUE'])
def test_what_has_no_canonical_form_is_refused_with_the_id(value: str, place: str) -> None:
    text = f'{{"name":"pay",{place.replace("VALUE", value)}}}'
    with pytest.raises(RequestError) as caught:
        guarded_call_of(request(text))
    assert caught.value.code in {-32602, -32600, -32700}


@pytest.mark.parametrize("value", ["9007199254740992", "9" * 300])
def test_a_big_integer_is_named_for_what_it_is(value: str) -> None:
    with pytest.raises(RequestError, match=r"^Invalid params: .*2\^53-1") as caught:
        guarded_call_of(request(f'{{"name":"pay","arguments":{{"x":{value}}}}}'))
    assert (caught.value.code, caught.value.id, caught.value.status) == (-32602, "x", 200)


def test_a_big_integer_in_meta_is_nobodys_business() -> None:
    assert guarded_call_of(request('{"name":"pay","_meta":{"x":123456789012345678901234567890}}')) is not None


def test_python_values_that_are_no_json_have_no_form() -> None:
    for value in (math.nan, math.inf, b"x", object(), {1: 2}, {"a": {b"x": 1}}, {"\ud800": 1}, "\ud800", 2**53, {1, 2}):
        with pytest.raises(FrameError):
            payload_digest({"x": value})
    with pytest.raises(FrameError):
        payload_digest({"\ud800": 1})
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(FrameError):
        payload_digest({"x": loop})


@pytest.mark.parametrize("method", sorted(TARGET_MEMBER))
def test_a_call_names_its_target(method: str) -> None:
    member = TARGET_MEMBER[method]
    found = guarded_call_of(
        request(f'{{"{member}":"a\\u0062","arguments":{{"x":1}},"_meta":{{"{PROOF}":{{"y":2}}}}}}', method), "s"
    )
    assert found is not None
    assert (found.method, found.target, found.session_id, found.arguments, found.guarded) == (
        method,
        "ab",
        "s",
        {"x": 1},
        True,
    )
    assert found.proof == Raw(b'{"y":2}')


@pytest.mark.parametrize("method", sorted(TARGET_MEMBER))
@pytest.mark.parametrize(
    "params", ["{}", '{"name":null,"uri":null}', '{"name":["x"],"uri":5}', '{"name":{"a":1},"uri":true}']
)
def test_a_call_without_a_target_is_refused(method: str, params: str) -> None:
    with pytest.raises(RequestError, match=r"^Invalid params: .* is not a string$") as caught:
        guarded_call_of(request(params, method))
    assert (caught.value.code, caught.value.id) == (-32602, "x")


def test_a_call_without_params_is_refused_and_a_list_is_not() -> None:
    text = b'{"jsonrpc":"2.0","id":1,"method":"METHOD"}'
    for method in (*TARGET_MEMBER, *LISTS):
        frame = decode_request(text.replace(b"METHOD", method.encode()))
        assert isinstance(frame, Request)
        if method in LISTS:
            found = guarded_call_of(frame)
            assert found is not None
            assert (found.digest, found.target, found.proof, found.guarded) == (b"", "", None, False)
        else:
            with pytest.raises(RequestError):
                guarded_call_of(frame)


@pytest.mark.parametrize("meta", ["null", "[]", '"x"', "5", "true", '[{"ratify_proof":{}}]'])
@pytest.mark.parametrize("method", ["tools/call", "tools/list"])
def test_a_meta_that_is_no_object_is_refused(method: str, meta: str) -> None:
    with pytest.raises(RequestError) as caught:
        guarded_call_of(request(f'{{"name":"pay","_meta":{meta}}}', method))
    assert caught.value.code == -32602


@pytest.mark.holds("policy/decide", "message")
def test_a_proof_is_the_slice_of_the_request_as_it_was_written() -> None:
    odd = '{ "a" :1.0,\t"\\u0061b": [ ] }'
    for name in ("ratify_proof", "ratify\\u005fproof", "\\u0072atify_proof"):
        found = guarded_call_of(request(f'{{"name":"pay","_meta":{{"{name}":{odd}}}}}'))
        assert found is not None
        assert bytes(found.proof or b"") == odd.encode()


def test_what_only_looks_like_a_proof_is_none() -> None:
    for name in ("Ratify_Proof", "ratify_proof ", "ratify-proof", "ratifyProof"):
        found = guarded_call_of(request(f'{{"name":"pay","_meta":{{"{name}":{{}}}}}}'))
        assert found is not None
        assert found.proof is None


@pytest.mark.parametrize("method", ["ping", "initialize", "tasks/other", "completion/complete", "x"])
def test_of_other_methods_nothing_is_asked(method: str) -> None:
    assert guarded_call_of(request('{"name":["anything"]}', method)) is None


@pytest.mark.parametrize(
    "method",
    [
        *("Tools/Call", "tools/call ", " tools/call", "TOOLS/CALL", "Resources/read", "prompts/GET"),
        *("tools/call\\u0000", "tools/\\u200bcall", "tools\\uff0fcall", "\\ttools/call", "tool\\u017f/call"),
    ],
)
def test_a_guarded_method_that_is_misspelt_goes_nowhere(method: str) -> None:
    with pytest.raises(RequestError) as caught:
        guarded_call_of(request('{"name":"pay"}', method))
    assert (caught.value.code, caught.value.status, caught.value.id) == (-32601, 200, "x")


JSON_TEXT = VALUES.map(json.dumps) | st.sampled_from(["1e400", "9" * 40, '"\\ud800"', "[" * 60 + "]" * 60, "-0", "1E5"])
PARAMS = st.dictionaries(
    st.sampled_from(["name", "uri", "arguments", "_meta", "x", "\\u005fmeta", "n\\u0061me"]), JSON_TEXT, max_size=4
).map(lambda found: "{" + ",".join(f'"{name}":{value}' for name, value in found.items()) + "}")


def refusal_of(frame: Request) -> RequestError | None:
    """How a request is refused, or None; any other exception goes on."""
    try:
        found = guarded_call_of(frame)
    except RequestError as error:
        return error
    assert found is not None
    assert len(found.digest) == (32 if found.method in TARGET_MEMBER else 0)
    return None


@pytest.mark.slow
@given(st.sampled_from([*TARGET_MEMBER, *LISTS, TASK_LIST]), PARAMS)
@settings(max_examples=200)
def test_whatever_the_params_are_nothing_but_a_request_error_is_raised(method: str, params: str) -> None:
    try:
        frame = request(params, method)
    except RequestError:
        return
    refusal = refusal_of(frame)
    if refusal is not None:
        assert refusal.id == "x"
        assert refusal.code in (-32602, -32600)  # the latter: two members that some readers take for one
        assert len(refusal.detail) < 200


def test_params_that_nobody_checked_raise_nothing_else_either() -> None:
    for params in (b"{", b"[]", b"5", b'{"name":"x","a":NaN}', b'{"name":"\xff"}', b'{"_meta":{', b"[" * 100_000, b""):
        frame = Request(1, "tools/call", Raw(params), b"")
        with pytest.raises(RequestError):
            guarded_call_of(frame)


@pytest.mark.parametrize("depth", [100, 5_000, 100_000])
def test_deep_arguments_are_read_or_refused(depth: int) -> None:
    frame = Request(1, "tools/call", Raw(b'{"name":"x","arguments":' + b"[" * depth + b"]" * depth + b"}"), b"")
    refusal = refusal_of(frame)
    assert refusal is None or refusal.code in (-32600, -32602)


@pytest.mark.parametrize("target", [None, 5, b"x", ["x"]])
def test_a_target_that_is_no_text_is_refused_in_python_too(target: object) -> None:
    with pytest.raises(FrameError):
        guarded_call_from_values("tools/call", {"name": target}, "", None)


@pytest.mark.parametrize("method", sorted(TARGET_MEMBER))
def test_a_target_has_a_length__its_readings_take_time(method: str) -> None:
    member = TARGET_MEMBER[method]
    assert guarded_call_of(request(f'{{"{member}":"{"a" * MAX_TARGET_CHARS}"}}', method)) is not None
    with pytest.raises(RequestError, match=f"more than {MAX_TARGET_CHARS} characters") as caught:
        guarded_call_of(request(f'{{"{member}":"{"a" * MAX_TARGET_CHARS}b"}}', method))
    assert (caught.value.code, caught.value.status) == (-32602, 200)


@pytest.mark.slow
def test_a_name_is_read_freely_in_time_that_grows_with_it__marks_in_disorder_stalled_all_others() -> None:
    assert read_freely("TOOLS/" + "\u0301\u0316" * 500_000 + "call").startswith("tools/\u0301")  # or it takes an hour
    for spelled in (
        "\uff34\uff2f\uff2f\uff2c\uff33\uff0f\uff43\uff41\uff4c\uff4c",
        "tools/\u200bcall",
        "Tools / Call",
        "tools/ca\u2113\u2113",
    ):
        assert read_freely(spelled) == "tools/call"
    assert read_freely("too\u0301ls/call") not in GUARDED


def test_a_digest_is_made_when_it_is_asked_for__most_of_what_strangers_send_is_refused_before() -> None:
    numbers = ",".join(["1e-6"] * (MAX_REWRITTEN_NUMBERS + 1))
    found = guarded_call_of(request(f'{{"name":"pay","arguments":{{"x":[{numbers}]}}}}'))
    assert found is not None
    assert found.target == "pay"
    for _ in range(2):
        with pytest.raises(FrameError, match="no canonical form: more than"):
            assert found.digest


def test_python_values_are_counted__nobody_has_counted_those_of_a_server_of_ones_own() -> None:
    payload_digest({"x": [1] * (MAX_VALUES - 1)})
    with pytest.raises(FrameError, match="more than"):
        payload_digest({"x": [1] * MAX_VALUES})


@pytest.mark.slow
def test_the_digest_of_a_strangers_megabytes_is_made_in_steps__at_one_go_it_held_all_others_for_50_ms() -> None:
    def asked() -> GuardedCall:
        request = decode_request(bodies()["objects that sort otherwise"].encode())
        assert isinstance(request, Request)
        call = guarded_call_of(request)
        assert call is not None
        return call

    call = asked()
    assert len([*digest_in_steps(call)]) >= 4
    assert [*digest_in_steps(call)] == []  # it is known now
    assert call.digest == asked().digest
