"""Calls are counted, timed and traced alike, whatever way they take."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.integration.test_wrap import configured, wrapped
from tests.world.authorization import Trust
from tests.world.calls import ERAS, Posted, compact, initialize, post
from tests.world.command import wait_until
from tests.world.ends import ENDS, Ends
from tests.world.measured import Measured, calls, collecting
from tests.world.raw_client import RawAnswer, RawClient
from tests.world.raw_server import RawServer, until
from tests.world.running import ASGI, FAST, RunningGateway, by_road, run
from tests.world.warm import python

from accredit.gateway import GatewaySettings, HttpUpstream, StdioUpstream, create_app
from accredit.gateway.merging import merged_settings
from accredit.gateway.settings import ProofSettings
from accredit.jsonrpc.methods import Era
from accredit.policy.catalog import Catalog, Entry
from accredit.policy.decision import Policy
from accredit.ratify import CertificateCache
from accredit.stores import MemoryStore, RevocationLists
from accredit.telemetry.board import MAX_SERIES
from accredit.telemetry.families import DECISIONS, FAMILIES, SERVER_SECONDS, STORE_SECONDS
from accredit.telemetry.operations import Telemetry

pytestmark = [
    pytest.mark.holds("gateway/upstream/measured"),
    pytest.mark.holds("telemetry/operations"),
    pytest.mark.holds("telemetry/metrics"),
    pytest.mark.holds("telemetry/metrics"),
]

ENTRY = Entry(scope="mcp:tool")
ROOT = Path(__file__).parents[2]
TOOLS = ["good", "fails", "refuses", "unknown to the catalog", "lies"]
"""That which ends a stream of HTTP+SSE comes last."""
EXPECTED = {**dict.fromkeys(ENDS.items(), 1), ("_other", ""): 1}
JSON = ("Content-Type", "application/json")
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"

Send = Callable[[Posted], Awaitable[Any]]


def settings(upstream: HttpUpstream | StdioUpstream, **more: Any) -> GatewaySettings:
    """Proofs are off, and the catalog names the tools."""
    catalog = Catalog(tools=dict.fromkeys(ENDS, ENTRY))
    policy = Policy(
        verifier_id="", roots={}, catalog=catalog, vocabulary=catalog.vocabulary(), cert_cache=CertificateCache()
    )
    return GatewaySettings(upstream, proofs=ProofSettings(policy, required=False), **more)


@asynccontextmanager
async def over_http(kind: str, era: Era, telemetry: Telemetry, received: Path) -> AsyncGenerator[tuple[Send, Ends]]:
    """A gateway before a server of a kind, and how a client sends to it."""
    server, merged = Ends(sse=kind == "sse"), kind == "merged"
    async with RawServer(server) as raw:
        url = raw.url.replace("/mcp", "/sse") if kind == "legacy_sse" else raw.url
        command = (python(), "-m", "tests.world.ends", str(received))
        to = StdioUpstream(command, cwd=str(ROOT)) if kind == "stdio" else HttpUpstream(url)
        told = [settings(to, **({"server": "ends", "path": "/mcp/ends"} if merged else {}))]
        if merged:
            other = settings(HttpUpstream(url), server="other", path="/mcp/other")
            told += [other, merged_settings([*told, other], path="/mcp", gateway_id="")]
        async with (
            RunningGateway(create_app(told, telemetry=telemetry)) as gateway,
            RawClient(gateway.port) as client,
            RawClient(gateway.port) as stream,
        ):
            session, target = "", "/mcp"
            if kind == "legacy_sse":
                await stream.ask("GET", "/sse", [("Accept", "text/event-stream")])
                assert (await stream.head())[0] == 200
                named = await stream.event()
                assert named is not None
                target = (named.data or b"").decode()

            async def send(posted: Posted) -> RawAnswer:
                headers = [pair for pair in posted.headers if pair[0] != "Mcp-Session-Id"]
                if kind == "legacy_sse":
                    headers = [pair for pair in headers if not pair[0].startswith("MCP-Protocol")]
                own = [("Mcp-Session-Id", session)] if session else []
                await client.ask("POST", target, [*headers, *own], posted.body)
                answer = await client.answer()
                if kind == "legacy_sse" and answer.status == 202:
                    await stream.event()
                return answer

            if era is Era.LEGACY and kind != "legacy_sse":
                session = (await send(initialize())).header("mcp-session-id") or ""
                assert session
            yield send, server


WAYS = [
    *((kind, era) for kind in ("json", "sse", "stdio", "merged") for era in ERAS),
    ("legacy_sse", Era.LEGACY),
]
IDS = [f"{kind}-{era.value}" for kind, era in WAYS]


def named(kind: str, tool: str) -> str:
    return f"ends__{tool}" if kind == "merged" else tool


@pytest.mark.parametrize("road", [FAST, ASGI])
@pytest.mark.parametrize(("kind", "era"), WAYS, ids=IDS)
def test_each_end_of_a_call_is_counted_once__at_the_way_in_and_at_the_server(
    kind: str, era: Era, road: str, tmp_path: Path
) -> None:
    measured = Measured()

    async def main() -> None:
        async with over_http(kind, era, measured.telemetry, tmp_path / "received") as (send, _):
            measured.spans()
            for tool in TOOLS:
                await send(post(era, params={"name": named(kind, tool), "arguments": {}}))
            await until(lambda: sum(calls(measured.served).values()) == len(TOOLS))

    with by_road(road):
        run(main())
    expected = {(named(kind, tool) if tool != "_other" else tool, error): 1 for (tool, error) in EXPECTED}
    assert calls(measured.served) == expected
    assert calls(measured.asked) == EXPECTED
    spans = [span for span in measured.spans() if span.attributes["mcp.method.name"] == "tools/call"]
    assert [span.kind for span in spans] == ["client", "server"] * len(TOOLS)
    for client, server in zip(spans[::2], spans[1::2], strict=True):
        assert client.context.trace_id == server.context.trace_id
        assert client.parent_id == server.context.span_id
        assert client.error == server.error == ("error.type" in server.attributes)
        assert server.start_ns <= client.start_ns <= client.end_ns <= server.end_ns


@pytest.mark.parametrize(("kind", "era"), WAYS, ids=IDS)
def test_the_server_is_told_of_the_trace_that_its_caller_began(kind: str, era: Era, tmp_path: Path) -> None:
    measured = Measured(rate=0)
    meta = {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "a=1", "baggage": "b=2"}
    received = tmp_path / "received"

    async def main() -> list[Any]:
        async with over_http(kind, era, measured.telemetry, received) as (send, server):
            params = {"name": named(kind, "good"), "arguments": {"x": 1.50}, "_meta": meta}
            await send(post(era, params=params).and_header("traceparent", f"00-{'5' * 32}-{'6' * 16}-01"))
            await until(lambda: len(measured.queue) == 2)
            await send(post(era, params={"name": named(kind, "good"), "arguments": {}}))  # nobody samples this one
            if kind == "stdio":
                return [json.loads(line) for line in received.read_text("utf-8").splitlines()]
            return server.messages

    came = [message for message in run(main()) if message.get("method") == "tools/call"]
    client, server = measured.spans()
    assert server.context.trace_id == client.context.trace_id == TRACE
    assert server.parent_id == PARENT
    told = came[0]["params"]["_meta"]
    assert told["traceparent"] == f"00-{TRACE}-{client.context.span_id}-01"
    assert (told["tracestate"], told["baggage"]) == ("a=1", "b=2")
    assert "traceparent" not in came[1]["params"].get("_meta", {})
    assert server.link is not None
    assert server.link.trace_id == "5" * 32


@pytest.mark.slow
def test_the_way_of_wrap_as_well__which_sends_what_it_has_measured_when_it_ends(tmp_path: Path) -> None:
    tables = "".join(f'[tools.{tool}]\nscope = "mcp:tool"\n' for tool in ENDS)
    child = (python(), "-m", "tests.world.ends", str(tmp_path / "received"))
    with collecting() as collector:
        config = configured(tmp_path, f'[telemetry]\nendpoint = "{collector.url}"\nsample = 1\n{tables}')
        with wrapped(tmp_path, *config, child=child, PYTHONPATH=str(ROOT)) as wrap:
            wrap.initialize()
            for tool in TOOLS:
                wrap.tool(tool)
                wrap.message()
        wait_until(lambda: bool(collector.metrics))
        for name in ("mcp.server.operation.duration", "mcp.client.operation.duration"):
            found = {
                (labels.get("gen_ai.tool.name", ""), labels.get("error.type", "")): count
                for labels, count in ((json.loads(text), count) for text, count in collector.points[name].items())
                if labels["mcp.method.name"] == "tools/call"
            }
            assert found == EXPECTED
        spans = [span for span in collector.spans if span.name.startswith("tools/call")]
        assert len(spans) == 2 * len(TOOLS)
        transports = {each.value.string_value for span in spans for each in span.attributes if each.key[:3] == "net"}
        assert transports == {"pipe"}


@pytest.mark.parametrize("batch", [False, True])
async def test_a_server_that_was_not_asked_has_no_error_counted__whatever_its_clients_do_wrong(
    batch: bool, tmp_path: Path
) -> None:
    measured = Measured()

    async with over_http("stdio", Era.LEGACY, measured.telemetry, tmp_path / "received") as (send, _):
        measured.spans()
        right = post(Era.LEGACY, params={"name": "good", "arguments": {}})
        headers = [pair for pair in right.headers if pair[0] not in ("Accept", "MCP-Protocol-Version")]
        headers += [("Accept", "text/html"), ("MCP-Protocol-Version", "2025-03-26")]
        refused = await send(Posted(headers, b"[" + right.body + b"]" if batch else right.body))
        assert refused.status == 406
    assert calls(measured.served) == {("good", "-32600"): 1}
    assert calls(measured.asked) == {}
    (span,) = measured.spans()
    assert span.kind == "server"


async def test_what_is_no_message_is_counted_as_some_other_request(tmp_path: Path) -> None:
    measured = Measured()

    async with over_http("json", Era.MODERN, measured.telemetry, tmp_path / "received") as (send, _):
        await send(Posted([JSON], b"{"))
    assert measured.served == {("_other", "", "-32700", ""): 1}
    assert measured.asked == {}


@pytest.mark.slow
async def test_ten_thousand_names_make_one_series_more__whoever_makes_them_up(tmp_path: Path) -> None:
    measured = Measured(rate=0)

    async with over_http("json", Era.LEGACY, measured.telemetry, tmp_path / "received") as (send, _):
        await send(post(Era.LEGACY, params={"name": "good", "arguments": {}}))
        before = len(measured.served), len(measured.asked)
        for number in range(100):
            # A batch is of no revision but one, and there its members are judged all the same.
            many = [json.loads(post(Era.LEGACY, params={"name": f"{number} {id}"}, id=id).body) for id in range(100)]
            headers = [JSON, ("MCP-Protocol-Version", "2025-03-26"), ("Accept", "application/json")]
            await send(Posted(headers, compact(many)))
        assert (len(measured.served), len(measured.asked)) == (before[0] + 1, before[1] + 1)
    assert calls(measured.served)["_other", ""] == calls(measured.asked)["_other", ""] == 10_000


def test_no_list_of_labels_is_without_a_bound() -> None:
    """More tools than there is room for are counted together, and nothing is lost."""
    measured = Measured(rate=0)
    seconds = measured.metrics.durations(SERVER_SECONDS, "")
    for number in range(MAX_SERIES + 500):
        seconds.observe((("tools/call", f"tool-{number}"), ""), 0.1)
    assert sum(measured.served.values()) == MAX_SERIES + 500
    assert len(measured.served) <= MAX_SERIES + len(FAMILIES)
    assert measured.served["_other", "_other", "_other", "_other"] >= 500


async def test_a_refused_call_counts_as_a_decision_and_in_the_server_s_time(tmp_path: Path) -> None:
    measured = Measured()
    trust = Trust()
    ports: Any = {"store": MemoryStore(), "revocations": RevocationLists((), {})}

    async with RawServer(Ends()) as raw:
        app = create_app(trust.settings(HttpUpstream(raw.url)), **ports, telemetry=measured.telemetry)
        async with RunningGateway(app) as gateway, RawClient(gateway.port) as client:
            for tool in ("list_inbox", "send_email"):
                posted = post(Era.MODERN, params={"name": tool, "arguments": {}})
                await client.ask("POST", "/mcp", posted.headers, posted.body)
                assert (await client.answer()).status == 200
    missing, challenged = "missing_ratify_proof", "ratify_challenge_required"
    assert measured.counts(DECISIONS) == {("deny", missing): 1, ("challenge", challenged): 1}
    assert calls(measured.served) == {("list_inbox", missing): 1, ("send_email", challenged): 1}
    assert calls(measured.asked) == {}
    assert measured.counts(STORE_SECONDS) == {("issue",): 1}
    span, _ = measured.spans()
    assert span.attributes["accredit.verdict"] == "deny"
    assert span.attributes["rpc.response.status_code"] == "-31001"
