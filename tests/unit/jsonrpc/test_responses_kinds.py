"""Of which kind a modern result may be: a client that does not know one takes half an answer for a whole one."""

import pytest
from tests.world.calls import compact, meta

from accredit.errors import AnswerError
from accredit.jsonrpc.frames import Request
from accredit.jsonrpc.methods import Era
from accredit.jsonrpc.requests import decode_request
from accredit.jsonrpc.responses import TASKS_EXTENSION, Expected

WITH_TASKS = {"extensions": {TASKS_EXTENSION: {}}}
TASK = b'{"jsonrpc":"2.0","id":7,"result":{"resultType":"task","taskId":"1"}}'


def asked(capabilities: object, method: str = "tools/call") -> Expected:
    _meta = meta() | {"io.modelcontextprotocol/clientCapabilities": capabilities}
    request = decode_request(compact({"jsonrpc": "2.0", "id": 7, "method": method, "params": {"_meta": _meta}}))
    assert isinstance(request, Request)
    return Expected(Era.MODERN, [request])


def refused(expected: Expected, text: bytes) -> str:
    with pytest.raises(AnswerError) as caught:
        expected.body(text)
    assert expected.open
    return caught.value.detail


@pytest.mark.parametrize("kind", ["", "Complete", "complete ", "vendor/other", "incomplete", "task", "inputRequired"])
def test_a_kind_that_no_revision_defines_is_no_answer(kind: str) -> None:
    text = compact({"jsonrpc": "2.0", "id": 7, "result": {"resultType": kind, "content": []}})
    assert refused(asked({}), text) == f"an unknown resultType: {kind}"


def test_an_escaped_spelling_of_a_known_kind_is_that_kind() -> None:
    text = b'{"jsonrpc":"2.0","id":7,"result":{"resultType":"compl\\u0065te"}}'
    assert asked({}).body(text) is text


def test_a_task_answers_a_call_whose_request_declares_the_extension() -> None:
    assert asked(WITH_TASKS).body(TASK) is TASK
    assert asked({"extensions": {TASKS_EXTENSION: {"any": 1}, "com.example/x": {}}}).body(TASK) is TASK


@pytest.mark.holds("jsonrpc/tasks", "announced")
@pytest.mark.parametrize(
    "capabilities",
    [
        {},
        {TASKS_EXTENSION: {}},
        {"tasks": {}},
        {"extensions": {}},
        {"extensions": {"com.example/tasks": {}}},
        {"extensions": {TASKS_EXTENSION.upper(): {}}},
        {"extensions": {TASKS_EXTENSION: None}},
        {"extensions": {TASKS_EXTENSION: False}},
        {"extensions": {TASKS_EXTENSION: "yes"}},
        {"extensions": [TASKS_EXTENSION]},
        {"extensions": None},
        {"Extensions": {TASKS_EXTENSION: {}}},
        None,
        [],
        "x",
    ],
    ids=str,
)
def test_a_client_that_did_not_say_that_it_knows_tasks_gets_none(capabilities: object) -> None:
    assert refused(asked(capabilities), TASK) == "an unknown resultType: task"


@pytest.mark.parametrize("method", ["tools/list", "prompts/get", "resources/read", "tasks/get", "server/discover"])
def test_only_a_call_of_a_tool_may_be_answered_with_a_task(method: str) -> None:
    assert refused(asked(WITH_TASKS, method), TASK) == "an unknown resultType: task"


def test_the_kinds_of_an_extension_that_nobody_here_knows_do_not_pass__even_where_it_is_declared() -> None:
    text = compact({"jsonrpc": "2.0", "id": 7, "result": {"resultType": "com.example/page"}})
    assert refused(asked({"extensions": {"com.example/page": {}}}), text) == "an unknown resultType: com.example/page"


def test_what_an_error_quotes_of_a_kind_is_short_and_printable() -> None:
    text = compact({"jsonrpc": "2.0", "id": 7, "result": {"resultType": "\u202e" * 500}})
    assert refused(asked({}), text) == "an unknown resultType: " + "?" * 100
