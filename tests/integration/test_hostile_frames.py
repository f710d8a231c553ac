"""A malformed frame from an upstream is a clean error to the client, in a body and in a stream. Each kind of them is
refused in `tests/unit/jsonrpc/test_responses.py`; here are some."""

import json
from typing import Any

import pytest
from tests.world.calls import ERAS, Posted, error, event, http, log_message, post, response, stream
from tests.world.hostile import LEAKS, World, check_refused, error_event, refused, sends, sends_and_hangs
from tests.world.hostile_frames import ANY_ERA, CALLS, STREAMED_CALLS, Row, ask_for, input_required
from tests.world.running import run

from accredit.jsonrpc.methods import Era

FORMS_ONLY: dict[str, Any] = {"elicitation": {}}


def rows(table: list[Row]) -> Any:
    """The table as parameters `body` and `detail`."""
    return pytest.mark.parametrize(("body", "detail"), [pytest.param(*row, id=name) for name, *row in table])


def call(era: Era) -> Posted:
    return post(era, capabilities=FORMS_ONLY)


async def is_refused(era: Era, body: bytes, detail: str) -> None:
    async with World(sends(http(body, headers=LEAKS))) as world:
        check_refused(await world.ask(call(era)), 502, refused(detail))
        await world.recovered(era)


async def ends_the_stream(era: Era, data: bytes, detail: str) -> None:
    """A good event, the bad one, and another good one that comes too late; the upstream would then wait for ever."""
    upstream_sends = stream(event(log_message()), event(data), event(response())).removesuffix(b"0\r\n\r\n")
    async with World(sends_and_hangs(upstream_sends)) as world:
        answer = await world.ask(call(era))
        assert answer.status == 200
        assert answer.body == event(log_message()) + error_event(7, detail)
        await world.recovered(era)


@pytest.mark.parametrize("era", ERAS)
@rows(ANY_ERA[::15] + CALLS[:1])
def test_a_bad_body_is_replaced__a_client_would_crash_on_it_or_take_it_for_an_answer(
    era: Era, body: bytes, detail: str
) -> None:
    run(is_refused(era, body, detail))


@pytest.mark.parametrize("era", ERAS)
@rows(ANY_ERA[::15] + STREAMED_CALLS[:1])
def test_a_bad_event_ends_the_stream_with_an_error_for_the_request(era: Era, body: bytes, detail: str) -> None:
    run(ends_the_stream(era, body, detail))


SOUND_MODERN = [
    response(),
    b'{"jsonrpc":"2.0","id":7,"result":{"resultType":"complete","content":[]}}',
]
ASKING = [
    input_required({"a": ask_for("elicitation/create", message="m")}),
    input_required({"a": ask_for("elicitation/create", mode="form", message="m")}, requestState="s"),
    input_required(requestState="s"),
]
SOUND = [
    error(),
    error(7, -32000, "my own"),
    b'{"jsonrpc":"2.0","id":7,"error":{"code":-1,"message":"m","data":null}}',
    b' {\r\n "result" : {"a" : [1, 2.50, 1E5]},\n "id" : 7 , "jsonrpc":"2.0" } \n',
    '{"jsonrpc":"2.0","id":7,"result":{"text":"\u00e4\u20ac\U0001f600 \\ud83d\\ude00 \\u0000"}}'.encode(),
    b'{"jsonrpc":"2.0","id":7,"result":{"dup":1,"dup":2,"Result":1}}',
    b'{"jsonrpc":"2.0","id":7,"result":{"text":"NaN 1e999 ]]]]"},"extension":{"x":1}}',
]


@pytest.mark.parametrize("body", SOUND_MODERN + SOUND)
def test_a_sound_modern_body_passes_byte_for_byte(body: bytes) -> None:
    run(passes(Era.MODERN, body))


@pytest.mark.parametrize("body", ASKING)
async def test_one_that_asks_for_input_passes_with_its_state_sealed_and_nothing_else_changed(body: bytes) -> None:
    async with World(sends(http(body))) as world:
        answer = await world.ask(post(Era.MODERN, capabilities={"elicitation": {}}))
        assert answer.status == 200
        result = json.loads(answer.body)["result"]
        assert result.pop("requestState").startswith("s1.")
        given = json.loads(body)["result"]
        given.pop("requestState", None)
        assert result == given


@pytest.mark.parametrize(
    "body", [*SOUND, b'{"jsonrpc":"2.0","id":7,"result":null}', b'{"jsonrpc":"2.0","id":7,"result":[]}']
)
def test_a_sound_legacy_body_passes_byte_for_byte(body: bytes) -> None:
    run(passes(Era.LEGACY, body))


async def passes(era: Era, body: bytes) -> None:
    async with World(sends(http(body, "application/json; charset=utf-8", headers=(("X-Custom", "v"),)))) as world:
        answer = await world.ask(call(era))
        assert (answer.status, answer.body) == (200, body)
        assert answer.header("x-custom") == "v"
        assert answer.header("content-type") == "application/json"  # in the gateway's own words
        await world.recovered(era)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("id", [7, "seven", 0, -1, "", 2**63, "7", "\u00e9\u2028"])
async def test_an_error_without_an_id_gets_the_request_s__some_clients_wait_for_ever_otherwise(
    era: Era, id: int | str
) -> None:
    async with World(sends(http(error(None), headers=(("X-Custom", "v"),)))) as world:
        answer = await world.ask(post(era, id=id))
        assert (answer.status, answer.body) == (200, error(id))
        assert answer.header("x-custom") == "v"
        await world.recovered(era)
