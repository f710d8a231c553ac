"""The tokens of a message are looked for once, and what was found then is taken off, whatever is learned meanwhile."""

import json
from typing import Any

import pytest
from msgspec import Raw
from tests.world.calls import post
from tests.world.tokened import Tokened

from accredit.base.steps import at_one_go
from accredit.errors import InvalidToken
from accredit.gateway.admission.bearer import Bearer
from accredit.gateway.admission.tool_directory import ToolDirectory
from accredit.gateway.call import Call
from accredit.jsonrpc.frames import Request
from accredit.jsonrpc.methods import Era
from accredit.jsonrpc.requests import Batch, decode_request

pytestmark = pytest.mark.holds("gateway/admission/bearer", "removal")

OWN = Raw(json.dumps({"tools": [{"name": "echo", "inputSchema": {"properties": {"_token": {}}}}]}).encode())


def request(**arguments: Any) -> Request:
    message = decode_request(post(Era.MODERN, "tools/call", {"name": "echo", "arguments": arguments}).body)
    assert isinstance(message, Request)
    return message


@pytest.fixture(scope="module")
def world() -> Tokened:
    return Tokened()


async def test_a_token_that_decided_is_taken_off__though_the_tool_declares_the_argument_a_moment_later(
    world: Tokened,
) -> None:
    tools, token = ToolDirectory(), world.token()
    bearer = Bearer(world.settings(), world.key_sets, tools)
    call = Call(request(text="hi", _token=token))

    assert isinstance(call.message, Request)
    await bearer.of_call(call, call.message, None)
    assert call.token is not None
    at_one_go(tools.learn(OWN))
    assert token.encode() not in bearer.without(call.message, call.brought).text


async def test_the_tool_s_own_argument_stays__and_so_does_a_message_that_brings_none(world: Tokened) -> None:
    tools, token = ToolDirectory(), world.token()
    at_one_go(tools.learn(OWN))
    bearer = Bearer(world.settings(), world.key_sets, tools)

    header = await bearer.of_header([(b"authorization", f"Bearer {token}".encode())])
    for message in (request(_token="the tool's"), request(text="hi")):
        call = Call(message, token=header)
        await bearer.of_call(call, message, None)
        assert bearer.without(message, call.brought) is message
        assert call.token is header


async def test_the_record_of_a_call_with_a_bad_token_holds_none_of_it(world: Tokened) -> None:
    bearer = Bearer(world.settings(), world.key_sets, ToolDirectory())
    call = Call(request(_token="bad"))

    assert isinstance(call.message, Request)
    with pytest.raises(InvalidToken):
        await bearer.of_call(call, call.message, None)
    assert call.token is None
    assert b"bad" not in bearer.without(call.message, call.brought).text


def test_each_message_of_a_batch_has_a_call_of_its_own__with_the_header_s_token_until_it_has_another() -> None:
    messages = b",".join(post(Era.LEGACY, id=id).body for id in (7, 8))
    batch = decode_request(b"[%b]" % messages, batch_allowed=True)
    assert isinstance(batch, Batch)
    call = Call(batch, "session", "2025-03-26")
    first, second = call.each()
    assert [each.message for each in (first, second)] == list(batch.frames)
    assert (second.session, second.revision, second.token) == ("session", "2025-03-26", call.token)
    assert call.each()[0] is first
    assert first.each() == [first]
