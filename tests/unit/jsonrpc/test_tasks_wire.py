"""Tasks on the wire: what announces one, what is about one; whatever comes, nothing but a `FrameError` is raised."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from accredit.base.steps import at_one_go
from accredit.errors import FrameError
from accredit.jsonrpc.frames import Notification, Request, Success
from accredit.jsonrpc.methods import Era
from accredit.jsonrpc.requests import decode_request
from accredit.jsonrpc.tasks import (
    MAX_TASK_ID_CHARS,
    Announced,
    announced_task,
    check_about,
    filter_tasks,
    subject_of,
    subscribed_tasks,
    without_state,
)
from accredit.limits import MAX_SPLIT_BYTES

NAMES = st.sampled_from(
    ["task", "taskId", "TaskId", "resultType", "content", "ttl", "ttlMs", "tasks", "_meta", "status"]
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


def raw(value: Any) -> Raw:
    return Raw(json.dumps(value).encode())


@given(VALUES, st.sampled_from(list(Era)), st.booleans())
def test_whatever_a_result_holds_it_is_read_or_refused(value: Any, era: Era, asked: bool) -> None:
    with suppress(FrameError):
        found = announced_task(raw(value), era, allowed=asked)
        assert found is None or (asked or era is Era.MODERN)
    with suppress(FrameError):
        check_about(raw(value), "t")
    with suppress(FrameError):
        at_one_go(filter_tasks(Success(1, raw(value), b'{"result":' + bytes(raw(value)) + b"}"), lambda id: False))
    if isinstance(value, dict):
        told = Notification("notifications/tasks", raw(value), b'{"params":' + bytes(raw(value)) + b"}")
        assert isinstance(subject_of(told), str)
        assert b'"requestState"' not in without_state(told).text


def test_a_list_names_no_task_by_nothing__a_client_asked_about_one_that_was_any_server_s() -> None:
    text = b'{"result":{"tasks":[{"taskId":""}]}}'
    with pytest.raises(FrameError, match="a task without an id"):
        at_one_go(filter_tasks(Success(1, raw({"tasks": [{"taskId": ""}]}), text), lambda id: True))


@pytest.mark.holds("jsonrpc/tasks", "announced")
@pytest.mark.parametrize(
    ("era", "result"),
    [
        (Era.LEGACY, {"task": {"taskId": "t", "ttl": 5}}),
        (Era.MODERN, {"resultType": "task", "taskId": "t", "ttlMs": 5}),
    ],
)
def test_a_task_is_announced_only_where_one_was_asked_for(era: Era, result: dict[str, Any]) -> None:
    assert announced_task(raw(result), era, allowed=True) == Announced("t", 5)
    refused = [(result, False), *([({**result, "content": []}, True)] if era is Era.LEGACY else [])]
    for each, allowed in refused:
        with pytest.raises(FrameError, match="a task that was not asked for"):
            announced_task(raw(each), era, allowed=allowed)


@pytest.mark.holds("jsonrpc/tasks", "id")
@pytest.mark.parametrize("id", ["", 7, None, "x" * (MAX_TASK_ID_CHARS + 1), ["x"]])
def test_an_id_is_a_string_of_bounded_length(id: Any) -> None:
    for era, result in (
        (Era.LEGACY, {"task": {"taskId": id}}),
        (Era.MODERN, {"resultType": "task", "taskId": id}),
    ):
        with pytest.raises(FrameError):
            announced_task(raw(result), era, allowed=True)


@pytest.mark.holds("jsonrpc/tasks", "id")
@pytest.mark.parametrize(
    "text",
    [
        '{"resultType":"task","taskId":"a","taskId":"b"}',
        '{"resultType":"task","taskId":"a","TaskId":"b"}',
        '{"resultType":"task","taskId":"a","task\\u0049d":"b"}',
    ],
)
def test_an_id_that_two_readers_take_differently_is_none(text: str) -> None:
    with pytest.raises(FrameError):
        announced_task(Raw(text.encode()), Era.MODERN, allowed=True)
    with pytest.raises(FrameError):
        check_about(Raw(text.encode()), "a")


@pytest.mark.holds("jsonrpc/tasks", "same-task")
def test_an_answer_about_another_task_is_none() -> None:
    related = {"_meta": {"io.modelcontextprotocol/related-task": {"taskId": "b"}}}
    for result in ({"taskId": "b"}, {"taskId": "a", **related}, related):
        with pytest.raises(FrameError):
            check_about(raw(result), "a")
    check_about(raw({"taskId": "a", "content": []}), "a")
    check_about(raw({"_meta": {"io.modelcontextprotocol/related-task": {"taskId": "a"}}}), "a")


def told(method: str, params: str) -> Notification | Request:
    id = '"id":1,' if method == "subscriptions/listen" else ""
    frame = decode_request(f'{{"jsonrpc":"2.0",{id}"method":"{method}","params":{params}}}'.encode())
    assert isinstance(frame, Notification | Request)
    return frame


@pytest.mark.parametrize(
    ("params", "ids"),
    [
        ('{"notifications":{"taskIds":["a",1,"b"]}}', ("a", "b")),
        ('{"notifications":{"taskIds":"a"}}', ()),
        ('{"notifications":["a"],"taskIds":["a"]}', ()),
        ('{"notifications":{}}', ()),
        ("{}", ()),
    ],
)
def test_who_listens_to_tasks_names_them__others_would_hear_of_a_task_that_is_not_theirs(
    params: str, ids: tuple[str, ...]
) -> None:
    frame = told("subscriptions/listen", params)
    assert isinstance(frame, Request)
    assert subscribed_tasks(frame) == ids


@pytest.mark.parametrize(
    ("method", "params", "subject"),
    [
        ("notifications/tasks", '{"taskId":"a","status":"working"}', "a"),
        ("notifications/tasks", '{"status":"working"}', ""),
        ("notifications/message", '{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"a"}}}', "a"),
        ("notifications/message", '{"data":"x"}', None),
        ("notifications/tasks", '{"taskId":"a","_meta":{"io.modelcontextprotocol/related-task":{"taskId":"b"}}}', ""),
    ],
)
def test_a_notification_says_which_task_it_is_about__it_goes_to_whose_that_is(
    method: str, params: str, subject: str | None
) -> None:
    frame = told(method, params)
    assert isinstance(frame, Notification)
    assert subject_of(frame) == subject


def test_a_notification_loses_a_state_that_nobody_sealed() -> None:
    frame = told("notifications/tasks", '{"taskId":"a","requestState":"s"}')
    assert isinstance(frame, Notification)
    assert b"requestState" not in without_state(frame).text
    plain = told("notifications/tasks", '{"taskId":"a"}')
    assert isinstance(plain, Notification)
    assert without_state(plain) is plain


def test_a_list_that_is_too_long_to_be_split_breaks_a_bound() -> None:
    text = b'{"tasks":["' + b"x" * MAX_SPLIT_BYTES + b'"]}'
    with pytest.raises(FrameError, match="a list of more than") as refused:
        at_one_go(filter_tasks(Success(1, Raw(text), b'{"result":' + text + b"}"), lambda _: True))
    assert refused.value.bound
