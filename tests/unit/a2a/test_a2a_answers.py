"""What an agent answers reaches its client only as what it was judged to be, and never about another's task."""

from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.world.a2a import a2a_call, answer, said, send, task, update

from accredit.a2a.answers import Answers, Judged, only_own
from accredit.a2a.shapes import METHODS
from accredit.errors import AnswerError

pytestmark = pytest.mark.holds("a2a/shapes")


def answers(method: str = "SendMessage", params: object = None, id: Any = 1) -> Answers:
    return Answers(id, a2a_call(method, params))


def shown(judged: Judged, id: Any = 1) -> Any:
    return msgspec.json.decode(judged.frame(id))


@pytest.mark.holds("a2a/answers", "result")
@pytest.mark.parametrize(
    ("method", "params", "result"),
    [
        ("SendMessage", None, {"task": task(history=[said(taskId="t-1")], artifacts=[])}),
        ("SendMessage", None, {"message": said(contextId="c-1")}),
        ("GetTask", {"id": "t-1"}, task()),
        ("CancelTask", {"id": "t-1"}, task(state="TASK_STATE_CANCELED")),
        ("GetTaskPushNotificationConfig", {"taskId": "t-1", "id": "p"}, {"url": "https://a", "taskId": "t-1"}),
        ("ListTaskPushNotificationConfigs", {"taskId": "t-1"}, {"configs": [{"url": "https://a", "taskId": "t-1"}]}),
        ("ListTasks", {}, {"tasks": [task()], "nextPageToken": "", "pageSize": 50, "totalSize": 1}),
        ("DeleteTaskPushNotificationConfig", {"taskId": "t-1", "id": "p"}, None),
    ],
)
def test_a_good_answer_passes_as_it_is(method: str, params: object, result: object) -> None:
    judged = answers(method, params).judge(answer(result))
    assert shown(judged) == {"jsonrpc": "2.0", "id": 1, "result": result}


@pytest.mark.holds("a2a/answers", "frame")
def test_an_error_of_the_agent_passes__also_without_an_id() -> None:
    for id in (1, None):
        text = msgspec.json.encode(
            {"jsonrpc": "2.0", "id": id, "error": {"code": -32002, "message": "no", "data": [1]}}
        )
        judged = answers().judge(text)
        assert judged.code == -32002
        assert shown(judged) == {"jsonrpc": "2.0", "id": 1, "error": {"code": -32002, "message": "no", "data": [1]}}


@pytest.mark.holds("a2a/answers", "frame", "result")
@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"null",
        b"[" + answer({"task": task()}) + b"]",
        answer({"task": task()}, id=2),
        answer({"task": task()}, id="1"),
        answer({"task": task()}, id=None),
        b'{"jsonrpc":"2.0","id":1}',
        b'{"jsonrpc":"1.0","id":1,"result":{}}',
        b'{"jsonrpc":"2.0","id":1,"method":"x"}',
        b'{"jsonrpc":"2.0","id":1,"error":{"code":"1","message":""}}',
        b'{"jsonrpc":"2.0","id":1,"result":{"message":{}},"error":{"code":1,"message":""}}',
        answer(None),
        answer({}),
        answer({"task": task(), "message": said()}),
        answer({"task": None}),
        answer({"task": {"id": "t"}}),
        answer({"task": task(state="working")}),
        answer({"task": task(state=3)}),
        answer({"task": task(id="")}),
        answer({"task": task(id="x" * 1_025)}),
        answer({"statusUpdate": update()["statusUpdate"]}),
        answer({"message": said(role="agent")}),
        answer({"message": said(taskId="t-9")}),
        answer({"kind": "task", **task()}),
    ],
)
def test_what_is_no_answer_to_this_request_does_not_pass(text: bytes) -> None:
    with pytest.raises(AnswerError):
        answers().judge(text)


@pytest.mark.holds("a2a/answers", "result")
def test_members_that_another_reader_could_take_for_others_are_left_out() -> None:
    text = answer({"task": {**task(), "context_id": "other", "kind": "task"}})
    assert shown(answers().judge(text))["result"] == {"task": task()}
    twice = answer({"task": task()}).replace(b'"contextId":"c-1"', b'"contextId":"c-2","contextId":"c-1"')
    assert shown(answers().judge(twice))["result"] == {"task": task()}
    assert answers().judge(twice).context == "c-1"


@pytest.mark.holds("a2a/answers", "same-task", "same-context")
@pytest.mark.parametrize(
    ("method", "params", "result"),
    [
        ("GetTask", {"id": "t-2"}, task()),
        ("CancelTask", {"id": "t-2"}, task()),
        ("SubscribeToTask", {"id": "t-2"}, {"task": task()}),
        ("SubscribeToTask", {"id": "t-2"}, update()),
        ("SendMessage", send(taskId="t-2"), {"task": task()}),
        ("SendMessage", send(taskId="t-2"), {"message": said(taskId="t-1")}),
        ("SendMessage", send(contextId="c-2"), {"task": task()}),
        ("SendMessage", send(contextId="c-2"), {"message": said(contextId="c-1")}),
        ("GetTaskPushNotificationConfig", {"taskId": "t-2", "id": "p"}, {"url": "https://a", "taskId": "t-1"}),
        ("ListTaskPushNotificationConfigs", {"taskId": "t-2"}, {"configs": [{"url": "https://a", "taskId": "t-1"}]}),
        ("SendMessage", None, {"task": task(history=[said(taskId="t-2")])}),
        ("SendMessage", None, {"task": task(history=[said(contextId="c-2")])}),
        (
            "SendMessage",
            None,
            {"task": {**task(), "status": {"state": "TASK_STATE_WORKING", "message": said(taskId="t-2")}}},
        ),
    ],
)
def test_an_answer_about_another_task_or_conversation_does_not_pass(
    method: str, params: object, result: object
) -> None:
    with pytest.raises(AnswerError):
        answers(method, params).judge(answer(result))


@pytest.mark.holds("a2a/answers", "same-task", "same-context", "message-alone")
def test_each_event_of_a_stream_is_about_the_task_of_the_first() -> None:
    artifact = {"artifactUpdate": {"taskId": "t-1", "contextId": "c-1", "artifact": {"artifactId": "a", "parts": []}}}
    for first in ({"task": task()}, update(state="TASK_STATE_WORKING"), artifact):
        stream = answers("SendStreamingMessage")
        for event in (first, update(state="TASK_STATE_WORKING"), artifact, update()):
            judged = stream.judge(answer(event))
            assert (judged.task, judged.context) == ("t-1", "c-1")
            assert shown(judged)["result"] == event
        for other in (update("t-2"), update(context="c-2"), {"task": task("t-2")}, {"message": said()}):
            with pytest.raises(AnswerError):
                stream.judge(answer(other))
    alone = answers("SendStreamingMessage")
    alone.judge(answer({"message": said()}))
    failed = answers("SendStreamingMessage")
    error = b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}'
    assert failed.judge(error).code == 1
    for over in (alone, failed):
        for more in (answer({"message": said()}), answer(update()), answer({"task": task()}), error):
            with pytest.raises(AnswerError):
                over.judge(more)


@pytest.mark.holds("a2a/answers", "same-task")
def test_a_caller_s_task_in_a_list_has_no_message_of_another_s() -> None:
    for wrong in (said(taskId="t-9"), said(contextId="c-9")):
        judged = answers("ListTasks", {}).judge(answer({"tasks": [task("a", history=[wrong]), task("b")]}))
        assert shown(only_own(judged, {"b"}.__contains__, 1, whole=True))["result"]["tasks"] == [task("b")]
        with pytest.raises(AnswerError):
            only_own(judged, {"a"}.__contains__, 1, whole=True)


def test_a_list_has_and_counts_the_caller_s_tasks_alone() -> None:
    def listed(token: str, *, whole: bool) -> Any:
        result = {"tasks": [task("a"), task("b"), task("c")], "nextPageToken": token, "pageSize": 3, "totalSize": 900}
        judged = answers("ListTasks", {}).judge(answer(result))
        return shown(only_own(judged, {"a", "c"}.__contains__, 5, whole=whole))["result"]

    assert listed("", whole=True) == {
        "tasks": [task("a"), task("c")],
        "nextPageToken": "",
        "pageSize": 3,
        "totalSize": 2,
    }
    assert listed("next", whole=True)["totalSize"] == listed("", whole=False)["totalSize"] == 5
    judged = answers().judge(answer({"task": task()}))
    assert only_own(judged, set[str]().__contains__, 0, whole=True) is judged


@given(st.sampled_from(sorted(METHODS)), st.binary(max_size=60), st.integers(0, 200), st.integers(0, 3))
def test_no_bytes_of_an_agent_raise_anything_but_an_invalid_answer(
    method: str, noise: bytes, at: int, cut: int
) -> None:
    params = {"id": "t-1", "taskId": "t-1", "url": "https://a"}
    does = METHODS[method].params
    fitting = {name: params[name] for name in does.__struct_encode_fields__ if name in params}
    judge = answers(method, fitting if "message" not in does.__struct_fields__ else None)
    good = answer({"task": task(history=[said(taskId="t-1")])})
    for text in (noise, good[:at] + noise + good[at + cut :]):
        with suppress(AnswerError):
            judged = judge.judge(text)
            assert msgspec.json.decode(judged.frame(1))["id"] == 1
