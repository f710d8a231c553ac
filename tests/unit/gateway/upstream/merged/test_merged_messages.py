"""Messages between one client and several servers: each side gets them under its own names, and none of another's."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from accredit.errors import FrameError
from accredit.gateway.upstream.merged.ids import ProgressTokens, merged_ring, outer_id
from accredit.gateway.upstream.merged.messages import (
    ACKNOWLEDGED,
    RELATED_TASK,
    ToClientMapper,
    addressee,
    cancelled_id,
    with_task,
)
from accredit.jsonrpc.frames import Failure, Notification, Request, Success, decode_frame
from accredit.limits import MAX_MERGED_ITEMS
from accredit.rounds import KeyRing

pytestmark = pytest.mark.holds("gateway/upstream/merged/messages")

RING = merged_ring(KeyRing([b"k" * 32]))
TOKENS = ProgressTokens(RING, "mail", b"session")
MAIL = ToClientMapper("mail", TOKENS)


def frame(method: str, params: Any = None, **more: Any) -> Any:
    message = {"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params}), **more}
    return decode_frame(json.dumps(message).encode())


def outside(method: str, params: Any = None) -> Any:
    mapped = MAIL.notification(frame(method, params))
    return json.loads(mapped.text) if mapped is not None else None


def asked(method: str, params: Any, id: Any = 7) -> Any:
    request = frame(method, params, id=id)
    assert isinstance(request, Request)
    return json.loads(MAIL.request(request).text)


@pytest.mark.holds("gateway/upstream/merged/messages", "requests")
def test_a_servers_request_has_no_id_that_another_could_have() -> None:
    params = {"messages": [], "_meta": {"progressToken": 7, "x": 1, RELATED_TASK: {"taskId": "t"}}}
    told = asked("sampling/createMessage", params)
    assert told["id"] == "mail:7"
    assert told["params"] == {
        "messages": [],
        "_meta": {"progressToken": "mail:7", "x": 1, RELATED_TASK: {"taskId": "mail__t"}},
    }
    assert asked("ping", None, "7") == {"jsonrpc": "2.0", "method": "ping", "id": 'mail:"7"'}
    assert outside("notifications/cancelled", {"requestId": 7})["params"] == {"requestId": "mail:7"}


def test_a_server_names_no_task_by_nothing__it_passed_under_its_own_name_alone() -> None:
    with pytest.raises(FrameError, match="a task without an id"):
        with_task("mail", Raw(b'{"taskId":""}'))
    assert outside("notifications/tasks/status", {"taskId": "", "status": "working"}) is None
    related = {"_meta": {RELATED_TASK: {"taskId": "mail__"}}}
    answer = json.dumps({"jsonrpc": "2.0", "id": "mail:7", "result": related}).encode()
    frame = decode_frame(answer)
    assert isinstance(frame, Success)
    with pytest.raises(FrameError, match="a task that is not the server's"):
        addressee(frame)


@pytest.mark.holds("gateway/upstream/merged/messages", "progress")
def test_progress_is_of_a_call_that_this_server_was_given() -> None:
    good = {"progressToken": TOKENS.outside_in(7), "progress": 1}
    assert outside("notifications/progress", good)["params"] == {"progressToken": 7, "progress": 1}
    for token in (7, "7", ProgressTokens(RING, "files", b"session").outside_in(7), None):
        assert outside("notifications/progress", {**good, "progressToken": token}) is None


@pytest.mark.holds("gateway/upstream/merged/messages", "values")
def test_what_a_server_names_has_its_name() -> None:
    assert (
        outside("notifications/resources/updated", {"uri": "file:///a"})["params"]["uri"] == "accredit+mail:file:///a"
    )
    assert outside("notifications/tasks/status", {"taskId": "1", "status": "working"})["params"]["taskId"] == "mail__1"
    assert outside("notifications/tasks", {"taskId": "1"})["params"]["taskId"] == "mail__1"
    assert outside("notifications/message", {"level": "info", "data": 1})["params"]["logger"] == "mail"
    assert outside("notifications/message", {"data": 1, "logger": "db"})["params"]["logger"] == "mail/db"
    related = {RELATED_TASK: {"taskId": "1"}}
    assert outside("vendor/x", {"_meta": related})["params"]["_meta"] == {RELATED_TASK: {"taskId": "mail__1"}}


@pytest.mark.holds("gateway/upstream/merged/messages", "acknowledgement")
def test_a_subscription_is_told_of_its_resources_and_tasks_under_merged_names() -> None:
    notifications = {"toolsListChanged": True, "resourceSubscriptions": ["a:b", 7], "taskIds": ["1"], "x": {"y": 1}}
    assert outside(ACKNOWLEDGED, {"notifications": notifications})["params"]["notifications"] == {
        "toolsListChanged": True,
        "resourceSubscriptions": ["accredit+mail:a:b"],
        "taskIds": ["mail__1"],
        "x": {"y": 1},
    }


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("notifications/cancelled", {"requestId": None}),
        ("notifications/cancelled", None),
        ("notifications/resources/updated", {"uri": 7}),
        ("notifications/tasks/status", {}),
        ("notifications/progress", {"progress": 1}),
        ("notifications/message", {"_meta": {RELATED_TASK: 7}}),
        (ACKNOWLEDGED, {"notifications": 7}),
        (ACKNOWLEDGED, {"notifications": {"taskIds": 7}}),
        pytest.param(ACKNOWLEDGED, {"notifications": {"taskIds": ["1"] * (MAX_MERGED_ITEMS + 1)}}, id="too many tasks"),
    ],
)
def test_what_does_not_say_whose_it_is_is_dropped(method: str, params: Any) -> None:
    assert outside(method, params) is None


def test_what_names_nothing_keeps_its_bytes() -> None:
    text = b'{ "jsonrpc": "2.0", "method":"notifications/tools/list_changed" }'
    told = decode_frame(text)
    assert isinstance(told, Notification)
    assert MAIL.notification(told) is told


ids = st.integers(-(10**30), 10**30) | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(st.sampled_from(["mail", "files"]), ids)
def test_a_clients_answer_goes_to_who_asked_with_the_id_that_it_gave(name: str, id: Any) -> None:
    for outcome in ({"result": {"x": [1.50]}}, {"error": {"code": -1, "message": "no", "data": {"x": 1}}}):
        message = decode_frame(json.dumps({"jsonrpc": "2.0", "id": outer_id(name, id), **outcome}).encode())
        assert isinstance(message, Success | Failure)
        found = addressee(message)
        assert found is not None
        assert found[0] == name
        assert json.loads(found[1].text) == {"jsonrpc": "2.0", "id": id, **outcome}
        assert type(json.loads(found[1].text)["id"]) is type(id)


def test_an_answer_that_belongs_to_a_task_names_it_as_its_server_does() -> None:
    def answered(task: Any) -> Any:
        result = {"x": [1.50], "_meta": {"y": 1, RELATED_TASK: {"taskId": task}}}
        message = decode_frame(json.dumps({"jsonrpc": "2.0", "id": "mail:7", "result": result}).encode())
        assert isinstance(message, Success)
        found = addressee(message)
        assert found is not None
        assert isinstance(found[1], Success)
        assert json.loads(found[1].text)["result"] == json.loads(bytes(found[1].result))
        return json.loads(bytes(found[1].result))

    assert answered("mail__1") == {"x": [1.50], "_meta": {"y": 1, RELATED_TASK: {"taskId": "1"}}}
    for strange in ("1", "files__1", 7):
        with pytest.raises(FrameError):
            answered(strange)
    meta = {RELATED_TASK: {"taskId": "mail__1"}}
    told = addressee(frame("notifications/progress", {"progressToken": "mail:7", "progress": 1, "_meta": meta}))
    assert told is not None
    assert json.loads(told[1].text)["params"]["_meta"] == {RELATED_TASK: {"taskId": "1"}}


@pytest.mark.parametrize("id", [7, "7", "mail", "mail:", None])
def test_an_answer_to_nobodys_request_is_for_nobody(id: Any) -> None:
    message = decode_frame(json.dumps({"jsonrpc": "2.0", "id": id, "error": {"code": 1, "message": ""}}).encode())
    assert isinstance(message, Failure)
    with pytest.raises(FrameError):
        addressee(message)


def test_a_clients_notifications_are_for_who_has_asked__or_for_all() -> None:
    progress = addressee(frame("notifications/progress", {"progressToken": 'mail:"7"', "progress": 1}))
    assert progress is not None
    assert (progress[0], json.loads(progress[1].text)["params"]) == ("mail", {"progressToken": "7", "progress": 1})
    assert addressee(frame("notifications/roots/list_changed")) is None
    assert cancelled_id(frame("notifications/cancelled", {"requestId": 7})) == 7
    assert cancelled_id(frame("notifications/progress", {"requestId": 7})) is None
    for bad in ({"progressToken": 7}, {}, None):
        with pytest.raises(FrameError):
            addressee(frame("notifications/progress", bad))
    with pytest.raises(FrameError):
        addressee(frame("notifications/tasks/status", {"taskId": "the client's"}))
