"""What is known of tools: it is bounded, what is not known is a credential, and lists are asked for in measure."""

import asyncio
import json
from typing import Any

import pytest
from msgspec import Raw
from tests.world.calls import post

from accredit.base.steps import at_one_go
from accredit.errors import RequestError
from accredit.gateway.admission.tool_directory import MAX_KNOWN_TOOL_NAME_CHARS, ToolDirectory
from accredit.gateway.front import bootstrap
from accredit.jsonrpc.frames import Request
from accredit.jsonrpc.methods import Era
from accredit.jsonrpc.requests import decode_request
from accredit.limits import MAX_KNOWN_TOOLS, MAX_TOOL_LIST_BYTES

OWN: dict[str, Any] = {"type": "object", "properties": {"_token": {"type": "string"}}}


def listing(*names: str) -> Raw:
    return Raw(json.dumps({"tools": [{"name": name, "inputSchema": OWN} for name in names]}).encode())


def test_the_latest_list_decides() -> None:
    known = ToolDirectory()
    assert not known.takes_token("redeem")
    at_one_go(known.learn(listing("redeem")))
    assert known.takes_token("redeem")
    at_one_go(known.learn(Raw(b'{"tools":[{"name":"redeem","inputSchema":{}}]}')))
    assert not known.takes_token("redeem")


def test_a_server_can_t_fill_the_memory_with_names() -> None:
    known = ToolDirectory()
    at_one_go(known.learn(listing("a" * MAX_KNOWN_TOOL_NAME_CHARS, "b" * (MAX_KNOWN_TOOL_NAME_CHARS + 1))))
    assert known.takes_token("a" * MAX_KNOWN_TOOL_NAME_CHARS)
    assert not known.takes_token("b" * (MAX_KNOWN_TOOL_NAME_CHARS + 1))
    at_one_go(known.learn(listing(*(f"tool-{number}" for number in range(MAX_KNOWN_TOOLS)))))
    assert not known.takes_token("a" * MAX_KNOWN_TOOL_NAME_CHARS)
    assert known.takes_token("tool-0")


def test_what_is_no_list_teaches_nothing() -> None:
    known = ToolDirectory()
    for text in (
        b"[]",
        b"{}",
        b'{"tools":7}',
        b'{"tools":[{"name":7}]}',
        b"[" * 10_000,
        b" " * MAX_TOOL_LIST_BYTES + b"{}",
    ):
        at_one_go(known.learn(Raw(text)))
    assert not known.takes_token("7")


def test_what_is_asked_for_a_first_token_never_shows_its_secret() -> None:
    asked = bootstrap._read_request(b'{"secret":"s3cret","agent":"a"}')  # pyright: ignore[reportPrivateUsage]
    assert asked.secret == "s3cret"
    assert "s3cret" not in repr(asked) + str(asked.__rich_repr__())


class Upstream:
    """Answers each question for its tools with the next of these schemas of a tool `echo`; counts the questions."""

    def __init__(self, *schemas: dict[str, Any]) -> None:
        self._schemas = schemas
        self.asked: list[Request] = []

    async def ask(self, request: Request) -> bytes:
        schema = self._schemas[min(len(self.asked), len(self._schemas) - 1)]
        self.asked.append(request)
        result = {"tools": [{"name": "echo", "inputSchema": schema}]}
        return json.dumps({"jsonrpc": "2.0", "id": request.id, "result": result}).encode()


MIRRORED = {"properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}


def call(**arguments: object) -> Request:
    request = decode_request(post(Era.MODERN, "tools/call", {"name": "echo", "arguments": arguments}).body)
    assert isinstance(request, Request)
    return request


@pytest.mark.holds("gateway/admission/tool_directory", "rate")
async def test_who_is_not_known_yet_can_t_keep_callers_from_a_fresh_list() -> None:
    """A stranger makes the gateway ask; a header that lies is found all the same, by a list that is asked for then."""
    upstream, tools = Upstream({}, MIRRORED), ToolDirectory()

    await tools.look_up("other", call(_token="x"), upstream.ask)
    await tools.look_up("another", call(_token="x"), upstream.ask)
    assert len(upstream.asked) == 1
    at_one_go(tools.learn(Raw(b'{"tools":[{"name":"echo","inputSchema":%s}]}' % json.dumps(MIRRORED).encode())))
    with pytest.raises(RequestError, match="differs from the argument"):
        await tools.check_headers(call(region="eu"), {b"mcp-param-region": b"us"}, upstream.ask)
    assert len(upstream.asked) == 2


async def test_one_list_says_both_whose_token_it_is_and_which_headers_mirror_arguments() -> None:
    schema = {"properties": MIRRORED["properties"] | OWN["properties"]}
    upstream, tools = Upstream(schema), ToolDirectory()

    await tools.look_up("echo", call(_token="x"), upstream.ask)
    assert tools.takes_token("echo")
    await tools.check_headers(call(region="eu"), {b"mcp-param-region": b"eu"}, upstream.ask)
    assert [request.method for request in upstream.asked] == ["tools/list"]


@pytest.mark.holds("gateway/admission/tool_directory", "headers")
def test_an_older_list_does_not_refuse_what_a_fresh_one_allows() -> None:
    upstream, tools = Upstream({}), ToolDirectory()
    at_one_go(tools.learn(Raw(b'{"tools":[{"name":"echo","inputSchema":%s}]}' % json.dumps(MIRRORED).encode())))
    asyncio.run(tools.check_headers(call(region="eu"), {}, upstream.ask))
    assert len(upstream.asked) == 1
