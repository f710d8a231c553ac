"""What an agent is sent is what was decided: a request that others could read otherwise is refused, and says why."""

from contextlib import suppress
from hashlib import sha256
from typing import Any

import msgspec
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st
from tests.world.a2a import VERSIONS, asked, message, request, send

from accredit.a2a.requests import read_request
from accredit.a2a.shapes import METHODS
from accredit.base.steps import at_one_go
from accredit.errors import RequestError

pytestmark = pytest.mark.holds("a2a/shapes")


def refused(body: bytes, versions: Any = VERSIONS) -> RequestError:
    with pytest.raises(RequestError) as caught:
        at_one_go(read_request(body, versions))
    return caught.value


@pytest.mark.holds("a2a/requests", "text", "frame")
@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", -32700),
        (b"{", -32700),
        (b"\xff", -32700),
        (b"1", -32600),
        (b"[" + request() + b"]", -32600),
        (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"GetTask","params":{"id":"t"}}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"GetTask","Method":"CancelTask","params":{"id":"t"}}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"t"},"more":1}', -32600),
        (b'{"jsonrpc":"1.0","id":1,"method":"GetTask","params":{"id":"t"}}', -32600),
        (b'{"jsonrpc":"2.0","method":"GetTask","params":{"id":"t"}}', -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"GetTask","params":{"id":"t"}}', -32600),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"GetTask","params":{"id":"t"}}', -32600),
    ],
)
def test_what_is_not_one_request_is_refused(body: bytes, code: int) -> None:
    assert refused(body).code == code


@pytest.mark.holds("a2a/requests", "method")
@pytest.mark.parametrize("method", ["message/send", "tasks/get", "sendMessage", "SendMessage ", "GetAgentCard", ""])
def test_a_method_that_a2a_1_0_does_not_have_is_none(method: str) -> None:
    error = refused(request(method))
    assert (error.code, error.id) == (-32601, 1)


@pytest.mark.holds("a2a/requests", "method")
@pytest.mark.parametrize("versions", [(), (b"0.3",), (b"1",), (b"1.0", b"1.0"), (b"1.0, 0.3",), (b"",)])
def test_another_version__or_none__is_refused(versions: tuple[bytes, ...]) -> None:
    assert refused(request(), versions).code == -32009


TWINS = [
    {"message": message(task_id="t-1")},
    {"message": message(context_id="c-1")},
    {"message": {**message(), "message_id": "m"}},
    {"message": message(), "Message": message("other")},
    {"message": message(), "more": 1},
    {"message": message(parts=[{"text": "a", "media_type": "text/plain"}])},
    {"message": message(), "configuration": {"return_immediately": True}},
    {"message": message(), "configuration": {"taskPushNotificationConfig": {"url": "https://a", "task_id": "t"}}},
    {"message": message(), "metadata": {"a": {"b": 1, "B": 2}}},
]
FORMS = [
    {"message": message(role=1)},
    {"message": message(role="ROLE_AGENT")},
    {"message": message(taskId=None)},
    {"message": message(taskId="")},
    {"message": message(taskId=5)},
    {"message": message(parts=[])},
    {"message": message(parts=[{}])},
    {"message": message(parts=[{"text": "a", "url": "https://b"}])},
    {"message": message(parts=[{"text": "a", "metadata": 5}])},
    {"message": message(metadata=[])},
    {"message": message(metadata={"dev.accredit/skill": "wipe"}), "metadata": {"dev.accredit/skill": "summarize"}},
    {"message": message(parts=[{"text": "a", "metadata": {"dev.accredit/skill": "wipe"}}])},
    {"message": message(), "metadata": []},
    {"message": message(), "metadata": {"dev.accredit/skill": 5}},
    {"message": message(), "metadata": {"dev.accredit/skill": ""}},
    {"message": message(), "metadata": {"n": 2**53}},
    {"message": message(), "configuration": {"historyLength": "5"}},
    {},
    [],
]


@pytest.mark.holds("a2a/requests", "members")
@pytest.mark.parametrize("params", [*TWINS, *FORMS])
def test_a_member_that_could_be_read_in_two_ways_is_refused(params: object) -> None:
    error = refused(request(params=params))
    assert (error.code, error.id) == (-32602, 1)


@pytest.mark.holds("a2a/requests", "members")
def test_a_member_that_stands_twice_is_refused__at_any_depth() -> None:
    for twice in (b'"text":"a","text":"b"', b'"text":"a","te\\u0078t":"b"'):
        body = request(params={"message": message(parts=["PART"])}).replace(b'"PART"', b"{" + twice + b"}")
        assert refused(body).code == -32602
    body = request(params=send(metadata={"a": 0})).replace(b'"a":0', b'"a":0,"a":1')
    assert refused(body).code == -32602


@pytest.mark.holds("a2a/requests", "tenant")
def test_a_tenant_is_another_s__since_nobody_has_made_one() -> None:
    for params in ({**send(), "tenant": "acme"}, {"id": "t", "tenant": "acme"}):
        error = refused(request("SendMessage" if "message" in params else "GetTask", params))
        assert (error.code, error.word) == (-32001, "unknown_task")
    assert asked(params={**send(), "tenant": ""}).target == ""


def test_each_method_is_read_with_what_it_is_about() -> None:
    assert asked("GetTask", {"id": "t", "historyLength": 5}).target == "t"
    assert asked("CancelTask", {"id": "t", "metadata": {"why": "late"}}).target == "t"
    assert asked("SubscribeToTask", {"id": "t"}).target == "t"
    assert asked("ListTasks", {"contextId": "c", "pageSize": 10, "status": "TASK_STATE_WORKING"}).target == ""
    assert asked("GetTaskPushNotificationConfig", {"taskId": "t", "id": "p"}).target == "t"
    assert asked("CreateTaskPushNotificationConfig", {"taskId": "t", "url": "https://a"}).target == "t"
    assert asked("GetExtendedAgentCard", {}).target == ""
    assert asked(params=send(skill="summarize")).target == "summarize"
    bare = b'{"jsonrpc":"2.0","id":"a","method":"ListTasks"}'
    assert at_one_go(read_request(bare, VERSIONS)).text == bare[:-1] + b',"params":{}}'


def test_the_agent_gets_the_very_bytes_that_were_decided__without_the_proof() -> None:
    read = asked(params=send(metadata={"z": 1.0, "a": "ä", "com.ratifyprotocol/proof": "cHJvb2Y"}))
    assert read.proof == b"cHJvb2Y"
    sent = msgspec.json.decode(read.text)
    assert read.text.endswith(b',"params":' + rfc8785.dumps(sent["params"]) + b"}")
    assert read.digest == sha256(rfc8785.dumps(sent["params"])).digest()
    assert sent["params"]["metadata"] == {"z": 1, "a": "ä"}
    bare = asked(params=send(metadata={"com.ratifyprotocol/proof": "cHJvb2Y"}))
    assert bare.form == asked().form


json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(-(2**52), 2**52) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(st.sampled_from(sorted(METHODS)), json | st.fixed_dictionaries({"id": json, "message": json, "taskId": json}))
def test_no_params_raise_anything_but_a_refusal(method: str, params: object) -> None:
    with suppress(RequestError):
        read = at_one_go(read_request(request(method, params), VERSIONS))
        assert rfc8785.dumps(msgspec.json.decode(read.form)) == read.form


@given(st.binary(max_size=64) | st.binary(max_size=16).map(lambda noise: request().replace(b"hello", noise)))
def test_no_bytes_raise_anything_but_a_refusal(body: bytes) -> None:
    with suppress(RequestError):
        at_one_go(read_request(body, VERSIONS))


@given(st.dictionaries(st.text(max_size=8), json, max_size=4), st.text(max_size=20))
def test_what_goes_on_means_what_came(metadata: dict[str, object], text: str) -> None:
    params = send(text, metadata=metadata)
    body = request(params=params)
    try:
        read = at_one_go(read_request(body, VERSIONS))
    except RequestError:
        return
    sent = msgspec.json.decode(read.text)["params"]
    came = msgspec.json.decode(body)["params"]
    if came["metadata"].pop("com.ratifyprotocol/proof", None) is not None and not came["metadata"]:
        del came["metadata"]
    assert sent == came
