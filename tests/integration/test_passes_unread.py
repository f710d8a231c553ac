"""What passes without being read, on purpose (docs/reference/validation.md): each row of its table is so."""

import json

import pytest
from tests.world.calls import ERAS, compact, event, http, post, response, stream
from tests.world.hostile import HOSTILE, World, check_refused, refused, sends
from tests.world.running import run

from accredit.jsonrpc.methods import Era

TWO_READINGS = b'{"jsonrpc":"2.0","id":7,"id":8,"result":{}}'
"""No JSON-RPC message: one who reads it takes it for an answer to 7, or to 8."""

NO_JSON_TYPES = [
    "application/problem+json",
    "application/vnd.api+json",
    "application/json-seq",
    "application/jsonl",
    "application/x-json",
    "text/json",
    "text/javascript",
    "text/html",
    "text/plain",
    None,
]


@pytest.mark.parametrize("content_type", NO_JSON_TYPES)
async def test_an_error_status_with_a_body_of_another_type_passes_as_it_is__it_is_no_message_of_mcp(
    content_type: str | None,
) -> None:
    sent = http(TWO_READINGS, content_type, status="503 Busy")
    async with World(sends(sent)) as world:
        answer = await world.ask(post(Era.MODERN))
        assert (answer.status, answer.body) == (503, TWO_READINGS)
        assert answer.header("content-type") == content_type


@pytest.mark.parametrize("content_type", NO_JSON_TYPES)
async def test_with_a_good_status_the_same_types_do_not_pass(content_type: str | None) -> None:
    async with World(sends(http(response(), content_type))) as world:
        check_refused(await world.ask(post(Era.MODERN)), 502, refused("neither JSON nor an event stream"))


async def test_a_path_of_passthrough_passes_in_both_directions__and_no_other_path_does() -> None:
    async with World(sends(http(TWO_READINGS)), passthrough=("/status",)) as world, world.client() as client:
        await client.ask("POST", "/status", [HOSTILE, ("Content-Type", "application/json")], TWO_READINGS)
        answer = await client.answer()
        assert (answer.status, answer.body) == (200, TWO_READINGS)
        assert world.upstream.requests[0].body == TWO_READINGS
        for path in ("/status/", "/Status", "/status/x", "/other"):
            await client.ask("POST", path, [HOSTILE, ("Content-Type", "application/json")], TWO_READINGS)
            assert (await client.answer()).status == 404
        assert len(world.upstream.requests) == 1


@pytest.mark.parametrize("era", ERAS)
def test_what_is_inside_a_result_or_the_data_of_an_error_passes__two_members_of_one_name_included(era: Era) -> None:
    inside = b'{"content":[],"a":1,"a":2,"Content":[],"b":{"c":1,"C":2,"c":3}}'
    texts = [
        b'{"jsonrpc":"2.0","id":7,"result":' + inside + b"}",
        b'{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"m","data":' + inside + b"}}",
        b'{"jsonrpc":"2.0","id":7,"result":{},"extension":' + inside + b"}",
    ]

    async def case(text: bytes) -> None:
        async with World(sends(http(text))) as world:
            answer = await world.ask(post(era))
            assert (answer.status, answer.body) == (200, text)

    for text in texts:
        run(case(text))


@pytest.mark.parametrize("era", ERAS)
async def test_members_that_mcp_does_not_define_pass_in_a_request__each_once(era: Era) -> None:
    arguments = {"anything": [1.50, {"": None}], "jsonrpc": "1.0", "_META": 1}
    asked = post(era, params={"name": "echo", "arguments": arguments, "vendor/x": {"name": "other"}})
    sent = json.loads(asked.body)
    sent["vendor"] = {"method": "tools/list"}

    async with World(sends(http(response()))) as world:
        answer = await world.ask(type(asked)(asked.headers, compact(sent)))
        assert answer.status == 200
        assert json.loads(world.upstream.requests[0].body) == sent


@pytest.mark.holds("gateway/upstream/http/sse_relay", "utf-8")
@pytest.mark.parametrize("era", ERAS)
async def test_comments_and_fields_that_nobody_defined_pass_in_a_stream(era: Era) -> None:
    text = b': {"jsonrpc":"2.0","id":7,"result":"not this"}\n\n' + b"vendor: x\n" + event(response())

    async with World(sends(stream(text))) as world:
        answer = await world.ask(post(era))
        assert (answer.status, answer.body) == (200, text)


@pytest.mark.parametrize("era", ERAS)
async def test_a_notification_of_a_server_passes_whatever_its_method_is(era: Era) -> None:
    text = event(b'{"jsonrpc":"2.0","method":"vendor/anything","params":{"a":1,"a":2}}') + event(response())

    async with World(sends(stream(text))) as world:
        answer = await world.ask(post(era))
        assert (answer.status, answer.body) == (200, text)
