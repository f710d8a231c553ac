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
from accredit.jsonrpc.frames import Notification, Success
from accredit.jsonrpc.methods import Era
from accredit.jsonrpc.tasks import (
    MAX_TASK_ID_CHARS,
    Announced,
    announced_task,
    check_about,
    filter_tasks,
    subject_of,
    without_state,
)

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
