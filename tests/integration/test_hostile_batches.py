"""Batches: of the upstream where none was sent, and answers to those that revision 2025-03-26 allows."""

import json

import pytest
from tests.world.calls import STREAM_HEAD, Posted, chunk, error, event, http, log_message, post, response
from tests.world.hostile import LEAKS, World, check_refused, error_event, refused, sends, sends_and_hangs

from accredit.jsonrpc.methods import Era

REVISION = ("MCP-Protocol-Version", "2025-03-26")


def batch(*ids: int | str, more: list[object] | None = None) -> Posted:
    """Requests with these ids in one array."""
    calls = [json.loads(post(Era.LEGACY, "ping", {}, id=id).body) for id in ids]
    body = json.dumps([*calls, *(more or [])]).encode()
    plain = post(Era.LEGACY).without_header("MCP-Protocol-Version")
    return Posted([*plain.headers, REVISION], body)


def array(*members: bytes) -> bytes:
    return b"[" + b",".join(members) + b"]"


NOTIFICATION = {"jsonrpc": "2.0", "method": "notifications/initialized"}
GOOD = {
    "all_in_order": array(response(1), response("two")),
    "in_another_order": array(response("two"), response(1)),
    "with_blanks": b" [\n" + response(1) + b" , " + response("two") + b"] ",
    "an_error_among_them": array(response(1), error("two")),
}


@pytest.mark.parametrize("name", GOOD)
async def test_a_sound_answer_to_a_batch_passes_byte_for_byte(name: str) -> None:
    async with World(sends(http(GOOD[name]))) as world:
        answer = await world.ask(batch(1, "two", more=[NOTIFICATION]))
        assert (answer.status, answer.body) == (200, GOOD[name])
        await world.recovered(Era.LEGACY)


REQUEST = b'{"jsonrpc":"2.0","id":"two","method":"ping"}'
_NO_ANSWER = "a batch with a member that answers no request"
_OTHER = "a response to an id that was not asked for"
BAD = {
    "empty": (array(), "a batch has 1 to 100 messages"),
    "an_id_twice": (array(response(1), response("two"), response(1)), _OTHER),
    "a_foreign_id": (array(response(1), response(2)), _OTHER),
    "an_error_without_an_id": (array(response(1), error(None)), _NO_ANSWER),
    "a_request": (array(response(1), REQUEST), _NO_ANSWER),
    "a_bad_member": (array(response(1), b"{}"), '"jsonrpc" is not "2.0"'),
    "cut_off": (array(response(1), response("two"))[:-1], "not valid JSON"),
}


@pytest.mark.parametrize("name", BAD)
async def test_a_bad_answer_to_a_batch_is_replaced(name: str) -> None:
    body, detail = BAD[name]

    async with World(sends(http(body, headers=LEAKS))) as world:
        check_refused(await world.ask(batch(1, "two")), 502, refused(detail))
        await world.recovered(Era.LEGACY)


@pytest.mark.parametrize("name", BAD)
async def test_a_bad_batch_in_a_stream_is_an_error_for_every_request_that_is_open(name: str) -> None:
    body, detail = BAD[name]

    async with World(sends_and_hangs(STREAM_HEAD, chunk(event(log_message()) + event(body)))) as world:
        answer = await world.ask(batch(1, "two"))
        assert answer.status == 200
        assert answer.body == event(log_message()) + error_event(1, detail) + error_event("two", detail)
        await world.recovered(Era.LEGACY)


async def test_a_batch_of_notifications_that_gets_a_batch_in_return_is_answered_with_nothing() -> None:
    async with World(sends(http(array(response(1)), headers=LEAKS))) as world:
        answer = await world.ask(batch(more=[NOTIFICATION]))
        assert (answer.status, answer.body, answer.headers) == (202, b"", [("content-length", "0")])
        await world.recovered(Era.LEGACY)
