"""A server's own requests to the host, over several sessions."""

from typing import Any

import pytest
from mcp_types import ErrorData, JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse, RequestId

from accredit.client.legacy_session import ServerRequests

FEW = 3


def question(id: RequestId) -> JSONRPCRequest:
    return JSONRPCRequest(jsonrpc="2.0", id=id, method="roots/list")


def taken_back(**params: Any) -> JSONRPCNotification:
    return JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params=params)


def answer(id: RequestId) -> JSONRPCResponse:
    return JSONRPCResponse(jsonrpc="2.0", id=id, result={"roots": []})


def test_the_first_session_s_ids_are_the_server_s_own() -> None:
    first, requests = 0, ServerRequests()
    assert requests.add(first, question("a")) == question("a")
    assert requests.settle(answer("a")) == (first, answer("a"))


@pytest.mark.holds("client/legacy_session", "own-ids")
def test_an_answer_to_a_question_of_one_session_is_none_to_the_same_id_of_another() -> None:
    first, second, requests = 0, 1, ServerRequests()
    requests.add(first, question(1))
    renamed = requests.add(second, question(1))
    assert isinstance(renamed, JSONRPCRequest)
    assert renamed.id != 1
    assert requests.settle(answer(renamed.id)) == (second, answer(1))
    assert requests.settle(answer(1)) == (first, answer(1))


def test_an_error_is_an_answer_too__and_nobody_is_answered_twice() -> None:
    first, requests = 0, ServerRequests()
    requests.add(first, question(1))
    refused = JSONRPCError(jsonrpc="2.0", id=1, error=ErrorData(code=-1, message="no"))
    assert requests.settle(refused) == (first, refused)
    assert requests.settle(refused) is None
    assert requests.settle(JSONRPCError(jsonrpc="2.0", id=None, error=refused.error)) is None


@pytest.mark.holds("client/legacy_session", "lost-session")
def test_what_a_session_that_is_gone_has_asked_is_cancelled__and_its_late_answer_is_nobodys() -> None:
    first, second, requests = 1, 2, ServerRequests()
    asked = requests.add(first, question(1))
    kept = requests.add(second, question(1))
    assert asked.id is not None
    assert kept.id is not None
    assert requests.drop(first) == [taken_back(requestId=asked.id, reason="the session is gone")]
    assert requests.settle(answer(asked.id)) is None
    assert requests.settle(answer(kept.id)) == (second, answer(1))


@pytest.mark.holds("client/legacy_session", "limit")
def test_a_server_that_asks_without_end_is_refused_until_the_host_has_answered() -> None:
    first, requests = 0, ServerRequests(FEW)
    for id in range(FEW):
        requests.add(first, question(id))
    refused = requests.add(first, question(FEW))
    assert isinstance(refused, JSONRPCError)
    assert (refused.id, refused.error.message) == (FEW, "The client owes too many answers")
    assert len(requests) == FEW
    requests.settle(answer(0))
    assert requests.add(first, question(FEW)) == question(FEW)


def test_what_a_server_takes_back_is_owed_no_more() -> None:
    first, requests = 0, ServerRequests(FEW)
    for id in range(5 * FEW):
        assert requests.add(first, question(id)) == question(id)
        assert requests.withdraw(first, taken_back(requestId=id)) == taken_back(requestId=id)
    assert len(requests) == 0


def test_a_question_is_taken_back_under_the_id_that_the_host_knows() -> None:
    second, requests = 1, ServerRequests()
    asked = requests.add(second, question(1))
    back = requests.withdraw(second, taken_back(requestId=1, reason="late"))
    assert back == taken_back(requestId=asked.id, reason="late")


def test_a_cancellation_of_nothing_passes_as_it_is() -> None:
    requests = ServerRequests()
    assert requests.withdraw(1, taken_back(reason="?")) == taken_back(reason="?")
