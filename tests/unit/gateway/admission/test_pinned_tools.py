"""When the gateway looks at the server's tools, for whom one look counts, and what it never takes for one."""

import asyncio
import json
import logging
from typing import Any

import pytest
from tests.world.calls import compact, post
from tests.world.changing_server import described, pins
from tests.world.honest_server import TOOLS
from tests.world.virtual_time import VirtualTimeLoop, run_virtually

from accredit.errors import ProofRefused
from accredit.gateway.admission import pinned_tools
from accredit.gateway.admission.pinned_tools import (
    LOOK_SECONDS,
    MAX_LOOKS,
    MAX_PINNED_CALLERS,
    MAX_STRAY_DEFINITIONS,
    PinnedTools,
    UpstreamAccess,
)
from accredit.gateway.counters import Counters
from accredit.gateway.headers import RawHeaders
from accredit.jsonrpc.frames import Request
from accredit.jsonrpc.methods import Era
from accredit.jsonrpc.requests import decode_request
from accredit.limits import MAX_LIST_PAGES

PINNED = pins()
GOOD = PINNED.tools["pay"]


def call(name: str = "pay", **capabilities: object) -> Request:
    posted = post(Era.MODERN, "tools/call", {"name": name}, capabilities=capabilities or None)
    request = decode_request(posted.body)
    assert isinstance(request, Request)
    return request


class Server:
    """Lists `tools`, after so many seconds; None: nothing. Counts the lists that were asked for."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.tools: list[dict[str, Any]] | None = TOOLS
        self.seconds = seconds
        self.asked = 0
        self.at_once = 0
        self.most_at_once = 0

    async def ask(self, request: Request) -> bytes | None:
        self.asked += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self.at_once -= 1
        if self.tools is None:
            return None
        return compact({"jsonrpc": "2.0", "id": request.id, "result": {"tools": self.tools}})

    def way(self, *headers: tuple[bytes, bytes]) -> UpstreamAccess:
        return UpstreamAccess(self.ask, list(headers))


def held(counters: Counters | None = None, **changes: Any) -> PinnedTools:
    return PinnedTools(pins(**changes), counters or Counters())


@pytest.fixture(autouse=True)
def loop_factory() -> type[VirtualTimeLoop]:
    return VirtualTimeLoop


@pytest.mark.holds("gateway/admission/pinned_tools", "fresh")
async def test_a_look_counts_for_as_long_as_is_said__for_calls_in_the_same_words() -> None:
    server, tools = Server(), held(fresh_seconds=60)
    for name in ("pay", "list_inbox"):
        assert await tools.find(call(name), server.way(), name) == PINNED.tools[name]
    await asyncio.sleep(59)
    await tools.find(call(), server.way((b"traceparent", b"00-a"), (b"mcp-param-x", b"1")), "pay")
    assert server.asked == 1
    server.tools = described("pay", "changed")
    await asyncio.sleep(1)
    assert await tools.find(call(), server.way(), "pay") == pins(server.tools).tools["pay"]
    assert server.asked == 2


@pytest.mark.holds("gateway/admission/pinned_tools", "fresh")
@pytest.mark.parametrize(
    ("headers", "capabilities"),
    [
        ([(b"authorization", b"Bearer b")], {}),
        ([(b"cookie", b"who=b")], {}),
        ([(b"mcp-session-id", b"b")], {}),
        ([(b"x-api-key", b"b")], {}),
        ([(b"user-agent", b"b")], {}),
        ([], {"roots": {}}),
    ],
)
async def test_whoever_the_server_could_tell_from_another_is_looked_for_alone(
    headers: RawHeaders, capabilities: dict[str, Any]
) -> None:
    server, tools = Server(), held()
    await tools.find(call(), server.way((b"x-api-key", b"a")), "pay")
    for _ in range(2):
        await tools.find(call(**capabilities), server.way(*headers), "pay")
    assert server.asked == 2


async def test_headers_can_not_be_shifted_into_each_other() -> None:
    server, tools = Server(), held()
    for headers in ([(b"a", b"bc")], [(b"ab", b"c")], [(b"a", b"b"), (b"c", b"")], [(b"a", b"1:b")]):
        await tools.find(call(), server.way(*headers), "pay")
    assert server.asked == 4


@pytest.mark.holds("gateway/admission/pinned_tools", "fresh")
def test_callers_at_the_same_look_wait_for_one_and_the_same__also_if_it_fails() -> None:
    async def main() -> None:
        for tools_listed, expected in ((TOOLS, GOOD), (None, None)):
            server, tools = Server(1.0), held()
            server.tools = tools_listed
            async with asyncio.TaskGroup() as group:
                looks = [group.create_task(tools.find(call(), server.way(), "pay")) for _ in range(50)]
            assert {look.result() for look in looks} == {expected}
            assert server.asked == 1

    run_virtually(main(), within=2.0)


@pytest.mark.holds("gateway/admission/pinned_tools", "fresh")
def test_where_each_call_is_looked_at_a_look_that_began_after_a_call_came_is_its_own() -> None:
    async def main() -> None:
        server, tools = Server(1.0), held(fresh_seconds=0)
        async with asyncio.TaskGroup() as group:
            first = group.create_task(tools.find(call(), server.way(), "pay"))
            await asyncio.sleep(0.5)
            looks = [first, *(group.create_task(tools.find(call(), server.way(), "pay")) for _ in range(50))]
        assert {look.result() for look in looks} == {GOOD}
        assert server.asked == 2
        await tools.find(call(), server.way(), "pay")
        assert server.asked == 3

    run_virtually(main(), within=3.0)


async def test_who_goes_away_during_a_look_leaves_the_others_theirs() -> None:
    server, tools = Server(1.0), held()
    first, second = (asyncio.create_task(tools.find(call(), server.way(), "pay")) for _ in range(2))
    await asyncio.sleep(0.5)
    first.cancel()
    assert await second == GOOD
    assert server.asked == 2


@pytest.mark.holds("gateway/admission/pinned_tools", "changed")
async def test_a_change_that_is_told_during_a_look_is_looked_at_again() -> None:
    counters = Counters()
    server, tools = Server(1.0), held(counters)
    look = asyncio.create_task(tools.find(call(), server.way(), "pay"))
    await asyncio.sleep(0.5)
    counters.notified("notifications/tools/list_changed")
    await look
    await tools.find(call(), server.way(), "pay")
    assert server.asked == 2
    counters.notified("notifications/resources/list_changed")
    await tools.find(call(), server.way(), "pay")
    assert server.asked == 2


@pytest.mark.holds("gateway/admission/pinned_tools", "changed")
async def test_a_list_that_shows_something_else_ends_the_look_of_that_caller_alone() -> None:
    server, tools = Server(), held()
    mine, other = server.way((b"authorization", b"a")), server.way((b"authorization", b"b"))
    for way in (mine, other):
        await tools.find(call(), way, "pay")
    tools.on_other(call(), mine, None, None)()
    await tools.find(call(), other, "pay")
    assert server.asked == 2
    await tools.find(call(), mine, "pay")
    assert server.asked == 3
    tools.on_other(call(), None, None, None)()


@pytest.mark.holds("gateway/admission/pinned_tools", "unread")
async def test_what_can_not_be_had_or_read_to_its_end_is_no_look() -> None:
    def answer(result: object) -> bytes:
        return compact({"jsonrpc": "2.0", "id": 1, "result": result})

    endless = answer({"tools": TOOLS, "nextCursor": "more"})
    twice = answer({"tools": [*TOOLS, {"name": "pay", "description": "other"}]})
    hostile = (None, b"{}", answer([]), answer({"tools": [7]}), answer({"Tools": [], "tools": []}), endless, twice)

    for text in hostile:
        asked: list[Request] = []

        async def ask(request: Request, text: bytes | None = text, asked: list[Request] = asked) -> bytes | None:
            asked.append(request)
            return text

        assert await held().find(call(), UpstreamAccess(ask, []), "pay") is None
        assert len(asked) <= MAX_LIST_PAGES
        assert len({request.id for request in asked}) == len(asked)
    assert await held().find(call(), None, "pay") is None


@pytest.mark.holds("gateway/admission/pinned_tools", "unread")
def test_a_server_that_is_silent_holds_a_call_up_for_so_long_and_not_longer() -> None:
    async def main() -> None:
        server, tools = Server(3600.0), held()
        assert await tools.find(call(), server.way(), "pay") is None
        server.seconds = 0.0
        assert await tools.find(call(), server.way(), "pay") == GOOD

    run_virtually(main(), within=LOOK_SECONDS)


@pytest.mark.slow
@pytest.mark.holds("gateway/admission/pinned_tools", "bounds")
async def test_looks_at_once_and_callers_that_are_remembered_are_bounded() -> None:
    server, tools = Server(1.0), held()
    async with asyncio.TaskGroup() as group:
        for number in range(2 * MAX_LOOKS):
            group.create_task(tools.find(call(), server.way((b"x", b"%d" % number)), "pay"))
    assert server.most_at_once == MAX_LOOKS
    server.seconds = 0.0
    for number in range(MAX_PINNED_CALLERS + 1):
        await tools.find(call(), server.way((b"x", b"%d" % number)), "pay")
    before = server.asked
    await tools.find(call(), server.way((b"x", b"%d" % MAX_PINNED_CALLERS)), "pay")
    assert server.asked == before
    await tools.find(call(), server.way((b"x", b"0")), "pay")
    assert server.asked == before + 1


@pytest.mark.slow
@pytest.mark.holds("gateway/admission/pinned_tools", "bounds")
async def test_a_server_can_not_fill_the_memory_with_tools_that_nobody_pinned() -> None:
    server, tools = Server(), held()
    server.tools = [*({"name": f"more-{number}"} for number in range(4_000)), *TOOLS]
    assert await tools.find(call(), server.way(), "pay") == GOOD
    known = [await tools.find(call(), server.way(), f"more-{number}") for number in range(4_000)]
    assert sum(each is not None for each in known) == MAX_STRAY_DEFINITIONS
    for number in (0, 3_999):
        with pytest.raises(ProofRefused, match="definition_changed"):
            await tools.check(call(f"more-{number}"), server.way())


@pytest.mark.slow
async def test_callers_who_make_the_gateway_look_do_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "accredit.gateway")  # commands that ran in this process may have turned it down

    server, tools = Server(), held()
    server.tools = [*described("pay", "changed"), {"name": "x" * 2_000_000}]
    for number in range(50):
        await tools.find(call(), server.way((b"x", b"%d" % number)), "pay")
    assert caplog.text.count("definition_changed") == 1
    assert len(caplog.text) < 10_000


@pytest.mark.holds("gateway/admission/pinned_tools", "own-look")
@pytest.mark.parametrize("changed", [described("pay", "changed"), TOOLS[:2], None])
async def test_a_call_is_refused_by_what_this_caller_is_listed(changed: list[dict[str, Any]] | None) -> None:
    server, tools = Server(), held()
    server.tools = changed
    with pytest.raises(ProofRefused) as caught:
        await tools.check(call(), server.way())
    found = pins(changed).tools["pay"] if changed is not None and len(changed) > 2 else None
    assert (caught.value.data["expected"], caught.value.data["found"]) == (GOOD, found)
    assert json.loads(json.dumps(caught.value.data))["tool"] == "pay"
    await held(enforced=False).check(call(), server.way())


@pytest.mark.holds("gateway/admission/pinned_tools", "bounds")
async def test_a_server_that_shows_each_caller_all_tools_otherwise_fills_no_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pinned_tools, "MAX_DIFFERENCES_BYTES", 20_000)

    server, tools = Server(), held()
    for number in range(100):
        server.tools = [*described("pay", f"for {number}"), {"name": f"{number}-{'x' * 1000}"}]
        assert await tools.find(call(), server.way((b"x", b"%d" % number)), "pay") not in (GOOD, None)
        assert sum(each.size for each in tools._views.values()) <= 20_000
    assert len(tools._views) > 1
    server.tools = described("pay", "now") + [{"name": f"{number}-{'x' * 1_000}"} for number in range(100)]
    monkeypatch.setattr(tools._views, "_max_size", 1)
    assert await tools.find(call(), server.way(), "pay") == pins(described("pay", "now")).tools["pay"]
    assert all(len(key) == 32 for key in tools._logged._entries)
