"""What reaches the upstream: nobody's word on authorization but ours, no proof, and all else byte for byte."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from accredit.jsonrpc.frames import Notification, Request
from accredit.jsonrpc.requests import decode_request
from accredit.policy.decision import Authority
from accredit.policy.passing import AUTHORIZATION, for_upstream

AUTHORITY = Authority(
    principal_id="p" * 32,
    principal_name="Owner \u00fc",
    agent_id="a" * 32,
    granted_scope=("email:read", "email:send"),
    cert_ids=("leaf", "root"),
    bound=True,
)
WORD = {
    "principal_id": "p" * 32,
    "principal_name": "Owner \u00fc",
    "agent_id": "a" * 32,
    "granted_scope": ["email:read", "email:send"],
    "cert_ids": ["leaf", "root"],
    "token_issuer": None,
    "token_subject": None,
    "token_scopes": None,
}


def read(text: str) -> Request | Notification:
    frame = decode_request(text.encode())
    assert isinstance(frame, Request | Notification)
    return frame


def with_meta(meta: str, method: str = "tools/call", id: str = '"id":1,') -> Request | Notification:
    return read(f'{{"jsonrpc":"2.0",{id}"method":"{method}","params":{{"name":"x","_meta":{meta},"z":1.0}}}}')


def passed(call: Request | Notification, *, judged: bool, authority: Authority | None = None) -> Request | Notification:
    """What goes on; that text and params say the same is checked on the way."""
    found = for_upstream(call, judged=judged, authority=authority)
    again = decode_request(found.text)
    assert isinstance(again, type(call))
    assert json.loads(bytes(again.params or b"null")) == json.loads(bytes(found.params or b"null"))
    assert (again.method, getattr(again, "id", None)) == (call.method, getattr(call, "id", None))
    return found


def meta(call: Request | Notification) -> dict[str, object]:
    return json.loads(call.text)["params"]["_meta"]


SPELLINGS = [
    "dev.accredit/authorization",
    "dev.accredit\\/authorization",
    "dev.accredit\\u002fauthorization",
    "\\u0064\\u0065v.accredit/authorization",
    "Dev.Accredit/Authorization",
    "DEV.ACCREDIT/AUTHORIZATION",
    " dev.accredit/authorization",
    "dev.accredit/authorization ",
    "dev.accredit/authorization\\n",
    "\\tdev.accredit/authorization",
    "dev.accredit/ authorization",
    "dev.accredit/authorization\\u0000",
    "\\u0000dev.accredit/authorization",
    "dev.accredit\\u200b/authorization",
    "dev.accredit/author\\u00adization",
    "\\ufeffdev.accredit/authorization",
    "dev.accredit/authorization\\u00a0",
    "dev.accredit/authorization\\u3000",
    "\uff44\uff45\uff56.accredit/authorization",
    "dev\uff0eaccredit\uff0fauthorization",
    "dev\u2024accredit/authorization",
    "dev.accredit/authori\U0001d433ation",
    "de\u24e5.accredit/authorization",
    "dev.accredit/\U0001d400uthorization",
]


@pytest.mark.holds("policy/passing", "credentials")
@pytest.mark.parametrize("name", SPELLINGS, ids=ascii)
@pytest.mark.parametrize("judged", [False, True])
@pytest.mark.parametrize("method", ["tools/call", "ping", "notifications/progress"])
def test_a_clients_word_on_its_authorization_is_removed_however_it_is_spelled(
    name: str, judged: bool, method: str
) -> None:
    id = "" if method.startswith("notifications") else '"id":1,'
    call = with_meta(f'{{"a":1,"{name}":{{"principal_id":"me"}},"b":[2]}}', method, id)
    found = passed(call, judged=judged)
    assert meta(found) == {"a": 1, "b": [2]}
    assert b"principal_id" not in found.text


@pytest.mark.parametrize("name", SPELLINGS, ids=ascii)
def test_our_word_is_the_only_one(name: str) -> None:
    found = passed(with_meta(f'{{"{name}":{{"principal_id":"me"}}}}'), judged=True, authority=AUTHORITY)
    assert meta(found) == {AUTHORIZATION: WORD}
    assert found.text.count(b"authorization") == 1


@pytest.mark.holds("policy/passing", "authorization")
@pytest.mark.parametrize("params", ["", ',"params":{}', ',"params":{"_meta":{}}', ',"params":{"name":"x"}'])
def test_our_word_is_put_in_where_there_was_no_place_for_it(params: str) -> None:
    found = passed(
        read(f'{{"jsonrpc":"2.0","id":"7","method":"tools/call"{params}}}'), judged=True, authority=AUTHORITY
    )
    assert meta(found) == {AUTHORIZATION: WORD}


def test_all_members_are_there_for_an_agent_of_whom_little_is_known() -> None:
    nobody = Authority(principal_id="", principal_name="", agent_id="", granted_scope=(), cert_ids=(), bound=False)
    found = meta(passed(with_meta("{}"), judged=True, authority=nobody))[AUTHORIZATION]
    assert isinstance(found, dict)
    assert set(found) == set(WORD)


@pytest.mark.holds("policy/passing", "proof")
@pytest.mark.parametrize("spelling", ["ratify_proof", "ratify\\u005fproof"])
def test_a_proof_is_removed_where_it_was_judged_and_only_there(spelling: str) -> None:
    call = with_meta(f'{{"{spelling}":{{"secret":1}},"a":1}}')
    judged = passed(call, judged=True)
    assert meta(judged) == {"a": 1}
    assert b"secret" not in judged.text
    assert passed(call, judged=False) is call


def test_no_proof_is_left_in_a_notification_or_in_another_method() -> None:
    for method, id in (("notifications/progress", ""), ("ping", '"id":1,'), ("completion/complete", '"id":1,')):
        found = passed(with_meta('{"ratify_proof":{"secret":1}}', method, id), judged=True)
        assert meta(found) == {}


def test_what_needs_no_change_is_the_very_same_bytes() -> None:
    for text in (
        ' {"jsonrpc" : "2.0", "id":1,\t"method":"tools/call","params":{"name":"\\u0078","_meta":{ "a" : 1.50 }}}\n',
        '{"jsonrpc":"2.0","id":1,"method":"ping"}',
        '{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{}}}',
        '{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":{"authorization":1,"dev.accredit/authorizations":2}}}',
        '{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":{"accredit/authorization":1,"x.dev.accredit/authorization":2}}}',
        '{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":[{"dev.accredit/authorization":1}]}}',
        '{"jsonrpc":"2.0","id":1,"method":"x","params":{"dev.accredit/authorization":1}}',
        '{"jsonrpc":"2.0","id":1,"method":"x","params":{"arguments":{"_meta":{"dev.accredit/authorization":1}}}}',
    ):
        call = read(text)
        found = passed(call, judged=True)
        assert found is call
        assert found.text == text.encode()


ODD = [
    "1.50",
    "1E2",
    "-0",
    "1e-7",
    '"\\u0041\\/"',
    "[ 1 , 2 ]",
    '{ "b":1, "a":2 }',
    "null",
    "123456789012345678901",
    '"\u00fc"',
]


@pytest.mark.parametrize("value", ODD)
def test_every_other_value_keeps_its_bytes(value: str) -> None:
    text = (
        f'{{"jsonrpc":"2.0","extra":{value},"id":1,"method":"tools/call","params":'
        f'{{"z":{value},"name":"x","_meta":{{"y":{value},"ratify_proof":{{}},"w":{value}}},"arguments":{{"v":{value}}}}}}}'
    )
    expected = text.replace('"ratify_proof":{},', "")
    assert passed(read(text), judged=True).text == expected.encode()


@given(
    st.dictionaries(st.text(max_size=6), st.sampled_from(ODD), max_size=4),
    st.sampled_from(SPELLINGS),
    st.booleans(),
)
@settings(max_examples=100)
def test_whatever_else_is_in_meta_stays(others: dict[str, str], spelling: str, judged: bool) -> None:
    listed = [f"{json.dumps(name)}:{value}" for name, value in others.items()]
    inner = ",".join([*listed, f'"{spelling}":1'])
    params = Raw(f'{{"_meta":{{{inner}}}}}'.encode())
    call = Request(1, "tools/call", params, b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}')
    found = for_upstream(call, judged=judged)
    assert found.params is not None
    assert json.loads(bytes(found.params)) == {"_meta": {name: json.loads(value) for name, value in others.items()}}
    assert json.loads(found.text)["params"] == json.loads(bytes(found.params))
