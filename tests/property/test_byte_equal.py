"""What passes is forwarded byte for byte, both ways, in both eras, as JSON and as a stream: spaces, escapes, the
spelling of numbers and the order of members are a client's and a server's own. Whoever writes a message anew decides
what it means, where readers differ. But for what docs/reference/validation.md lists under "What is changed"."""

import json
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import msgspec
import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct
from tests.world.asgi import MemoryAnswer
from tests.world.authorization import Signed
from tests.world.calls import REVISION, meta
from tests.world.decisions import Known
from tests.world.two_roads import (
    ASGI,
    CHAIN,
    EVENTS_TYPE,
    FAST,
    JSON_TYPE,
    TRUST,
    URL,
    Records,
    Server,
    settings_of,
    told,
)

from accredit.gateway import create_app
from accredit.gateway.settings import GatewaySettings, HttpUpstream, MergedUpstream
from accredit.gateway.upstream.http.client import Answer
from accredit.jsonrpc.methods import Era
from accredit.policy.passing import AUTHORIZATION
from accredit.stores import MemoryStore

pytestmark = pytest.mark.slow

TOOL = b"list_inbox"
UNSAFE = "123456789012345678901234567890"
"""A number that has no canonical form: calls with it are refused where they are proved."""
ROADS = pytest.mark.parametrize("road", [FAST, ASGI])
ERAS = pytest.mark.parametrize("era", list(Era))

spaces = st.sampled_from(["", "", "", " ", "\n\t", "\r\n  "])
scalars = st.sampled_from(
    [
        *("1.0", "1e3", "1E+2", "-0", "0.10", UNSAFE, "true", "null", '"\\u0041"', '"\\/"'),
        *('""', '"\u00e9\U0001f600"', '"\\ud83d\\ude00"', '"data: x\\n\\nid: 1"', '"mail__list_inbox"'),
    ]
)


@st.composite
def objects(draw: st.DrawFn, members: Sequence[str] = (), depth: int = 2) -> str:
    """The text of an object: these members and some more, in any order and with any spaces between."""
    names = draw(st.lists(st.sampled_from(['"a"', '"\\u0062"', '"\u00e9"', '"x-own"', '""']), max_size=3, unique=True))
    more = [f"{name}{draw(spaces)}:{draw(spaces)}{draw(values(depth - 1))}" for name in names]
    found = draw(st.permutations([*members, *more]))
    return "{" + ",".join(f"{draw(spaces)}{each}{draw(spaces)}" for each in found) + "}"


def values(depth: int) -> st.SearchStrategy[str]:
    """The text of a value."""
    if depth <= 0:
        return scalars
    inside = values(depth - 1)
    arrays = st.lists(st.builds(str.__add__, inside, spaces), max_size=3).map(lambda parts: "[" + ",".join(parts) + "]")
    return st.one_of(scalars, objects((), depth), arrays)


def members_of(found: dict[str, Any]) -> list[str]:
    """The texts of these members."""
    return [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in found.items()]


@st.composite
def calls(draw: st.DrawFn, era: Era) -> bytes:
    """A call of a tool."""
    meta_text = draw(objects(members_of(meta()) if era is Era.MODERN else ()))
    params = ['"name" :"list_inbox"', f'"arguments":{draw(objects())}', f'"_meta": {meta_text}']
    told = ['"jsonrpc":"2.0"', '"id" : 7', '"method":"tools/call"', f'"params":{draw(objects(params, 1))}']
    return (draw(spaces) + draw(objects(told, 0)) + draw(spaces)).encode()


@st.composite
def answers(draw: st.DrawFn) -> bytes:
    """The answer to it."""
    result = draw(objects(['"content" :[ ]'], 3))
    return draw(objects(['"jsonrpc":"2.0"', '"id" : 7', f'"result":{result}'], 0)).encode()


@st.composite
def streams(draw: st.DrawFn) -> list[bytes]:
    """The events of a stream that ends with the answer."""
    end = draw(st.sampled_from([b"\n", b"\r\n"]))
    fields = st.sampled_from([b": a comment", b"retry: 9", b"id: 4", b"event: message", b"x-own: kept", b"id"])
    news = b'{"jsonrpc": "2.0","method":"notifications/message","params":{"level":"info","data":1.0}}'
    last = re.sub(rb"[\r\n\t]", b" ", draw(answers()))
    texts = [*[news] * draw(st.integers(0, 2)), last]
    return [
        b"".join(line + end for line in [*draw(st.lists(fields, max_size=3)), b"data: " + text, b""]) for text in texts
    ]


def without_id(event: bytes) -> bytes:
    """An event as it passes in the modern era: one that has an id is written anew."""
    lines = event.splitlines()
    if not any(line.startswith(b"id") for line in lines):
        return event
    kept = sorted({line for line in lines if line.startswith((b"data", b"event"))}, reverse=True)
    return b"\n".join([*kept, b"", b""])


class Answering(Server):
    """Answers each request with this."""

    def __init__(self, kind: tuple[bytes, bytes], *pieces: bytes) -> None:
        super().__init__()
        self._answer = kind, pieces

    async def send(self, method: str, headers: Any, body: bytes = b"", **more: Any) -> Answer:
        """As `UpstreamClient.send`."""
        await super().send(method, headers, body, **more)
        kind, pieces = self._answer
        return MemoryAnswer(200, [kind], *pieces).as_answer()


class Passed(Struct):
    """What the server got, and what the client got."""

    asked: bytes
    answered: bytes


def passed(
    road: str, era: Era, make: Callable[[], Any], body: bytes, server: Server, name: bytes = b"list_inbox"
) -> Passed:
    """What came of a call."""
    return uvloop.run(_passed(road, era, make, body, server, name))


async def _passed(road: str, era: Era, make: Callable[[], Any], body: bytes, server: Server, name: bytes) -> Passed:
    gateway = make()
    lines = [b"POST /mcp HTTP/1.1", b"Host: 127.0.0.1:8484", b"Content-Type: application/json"]
    lines += [b"Accept: application/json, text/event-stream", b"MCP-Protocol-Version: " + REVISION[era].encode()]
    lines += [b"Mcp-Method: tools/call", b"Mcp-Name: " + name] if era is Era.MODERN else []
    pipe = await told(
        road, gateway, server, [b"\r\n".join([*lines, b"Content-Length: %d" % len(body), b"", b""]) + body]
    )
    await gateway.aclose()
    head, _, answered = bytes(pipe.written).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), (head, answered)
    (asked,) = [body for _, _, body in server.asked if b"tools/call" in body]
    return Passed(asked, unchunked(answered) if b"chunked" in head.lower() else answered)


def unchunked(body: bytes) -> bytes:
    """What comes in chunks."""
    whole = b""
    while body:
        size, _, rest = body.partition(b"\r\n")
        whole, body = whole + rest[: int(size, 16)], rest[int(size, 16) + 2 :]
    return whole


def plain() -> Any:
    return create_app(settings_of("plain"))


def guarded() -> Any:
    return create_app(settings_of("proofs"), store=MemoryStore(), revocations=Known(), records=Records())


def merged() -> Any:
    each = {name: GatewaySettings(HttpUpstream(URL), name, f"/mcp/{name}") for name in ("mail", "files")}
    return create_app([*each.values(), GatewaySettings(MergedUpstream(each))])


@ROADS
@ERAS
@settings(max_examples=30)
@given(data=st.data())
def test_a_call_and_its_answer_pass_byte_for_byte(road: str, era: Era, data: st.DataObject) -> None:
    call, answer = data.draw(calls(era)), data.draw(answers())
    found = passed(road, era, plain, call, Answering(JSON_TYPE, answer))
    assert found == Passed(call, answer)


@ROADS
@ERAS
@settings(max_examples=30)
@given(data=st.data())
def test_a_stream_passes_byte_for_byte__but_for_its_ids_in_the_era_that_resumes_nothing(
    road: str, era: Era, data: st.DataObject
) -> None:
    call, events = data.draw(calls(era)), data.draw(streams())
    sent = b"".join(events)
    drawn = data.draw(st.lists(st.integers(0, len(sent)), max_size=3))
    cuts = sorted(cut for cut in drawn if sent[cut - 1 : cut + 1] != b"\r\n")  # its LF would be a blank line more
    pieces = [part for a, b in pairwise([0, *cuts, len(sent)]) if (part := sent[a:b])]
    found = passed(road, era, plain, call, Answering(EVENTS_TYPE, *pieces))
    assert found == Passed(call, sent if era is Era.LEGACY else b"".join(map(without_id, events)))


@ROADS
@ERAS
@settings(max_examples=30)
@given(data=st.data())
def test_of_a_call_that_carries_a_proof_every_other_value_passes_byte_for_byte(
    road: str, era: Era, data: st.DataObject
) -> None:
    call, answer = data.draw(calls(era)).replace(UNSAFE.encode(), b"1234567"), data.draw(answers())
    params = raw(call)["params"]
    own_meta = raw(raw(params)["_meta"])
    proof = json.dumps(TRUST.proof(CHAIN, "tools/call", {}, Signed(bound=False))).encode()
    proved = b"{" + b",".join([*texts(own_meta), b'"ratify_proof":' + proof]) + b"}"
    carrying = call.replace(b'"_meta": ' + raw(params)["_meta"], b'"_meta": ' + proved)
    found = passed(road, era, guarded, carrying, Answering(JSON_TYPE, answer))
    assert found.answered == answer
    sent, asked = raw(call), raw(found.asked)
    assert others(asked, "params") == others(sent, "params")
    assert others(raw(asked["params"]), "_meta") == others(raw(params), "_meta")
    told_meta = raw(raw(asked["params"])["_meta"])
    assert json.loads(told_meta[AUTHORIZATION])["agent_id"] == TRUST.agent.id
    assert others(told_meta, AUTHORIZATION) == others(own_meta)


@ROADS
@settings(max_examples=30)
@given(data=st.data())
def test_at_the_endpoint_of_several_servers_every_value_but_the_tools_name_passes_byte_for_byte(
    road: str, data: st.DataObject
) -> None:
    own, answer = data.draw(calls(Era.MODERN)), data.draw(answers())
    call = own.replace(b'"name" :"list_inbox"', b'"name" :"mail__list_inbox"')
    found = passed(road, Era.MODERN, merged, call, Answering(JSON_TYPE, answer), b"mail__list_inbox")
    assert found.answered == answer
    sent, asked = raw(own), raw(found.asked)
    assert others(asked, "params") == others(sent, "params")
    assert others(raw(asked["params"])) == others(raw(sent["params"]))


def raw(text: bytes) -> dict[str, bytes]:
    """The members of an object, each as it is written."""
    return {name: bytes(value) for name, value in msgspec.json.decode(text, type=dict[str, msgspec.Raw]).items()}


def texts(members: dict[str, bytes]) -> list[bytes]:
    """Members as they are written."""
    return [json.dumps(name).encode() + b":" + value for name, value in members.items()]


def others(members: dict[str, bytes], *but: str) -> list[tuple[str, bytes]]:
    """Members in their order, but for these."""
    return [(name, value) for name, value in members.items() if name not in but]
