"""Which sessions hear of which tasks: bounded, whatever servers and agents call their tasks."""

import pytest

from accredit.gateway import GatewaySettings, HttpUpstream
from accredit.gateway.admission import tasks
from accredit.gateway.counters import Counters
from accredit.jsonrpc.frames import Notification, decode_frame
from accredit.jsonrpc.tasks import MAX_TASK_ID_CHARS

pytestmark = pytest.mark.holds("gateway/admission/tasks", "notifications")


def known() -> tasks.Tasks:
    return tasks.Tasks(None, GatewaySettings(HttpUpstream("http://127.0.0.1:9/mcp")), Counters())


def named(held: tasks.Tasks, session: str, *ids: str) -> None:
    held.named(session, ids)


def heard(held: tasks.Tasks, session: str, id: str) -> bool:
    text = b'{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"%b"}}' % id.encode()
    notification = decode_frame(text)
    assert isinstance(notification, Notification)
    return held.heard(session, (), notification) is not None


def test_a_session_hears_of_its_own_tasks_alone() -> None:
    held = known()
    named(held, "a", "1", "2")
    assert [heard(held, "a", id) for id in "123"] == [True, True, False]
    assert not heard(held, "b", "1")


def test_a_session_s_streams_at_another_gateway_hear_of_a_task_once_it_has_asked_there() -> None:
    first, other = known(), known()
    named(first, "a", "1")
    assert not heard(other, "a", "1")
    named(other, "a", "1")
    assert heard(other, "a", "1")


def test_long_ids_take_no_more_memory_than_short_ones() -> None:
    held = known()
    named(held, "a", "x" * MAX_TASK_ID_CHARS)
    assert heard(held, "a", "x" * MAX_TASK_ID_CHARS)
    assert [len(each) for of_session in held._told.values() for each in of_session] == [16]


def test_sessions_with_many_tasks_fill_no_memory__and_give_way_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "MAX_TOLD_TASKS_OF_ALL", 40)
    monkeypatch.setattr(tasks, "MAX_TASK_SESSIONS", 10)
    held = known()
    named(held, "quiet", "q")
    for number in range(200):
        named(held, "loud", f"{number}")
        assert sum(map(len, held._told.values())) <= 40
    assert heard(held, "quiet", "q")
    assert heard(held, "loud", "199")
    for session in range(100):
        named(held, f"s{session}", *(f"{number}" for number in range(30)))
    assert sum(map(len, held._told.values())) <= 40
    assert len(held._told) <= 10
