"""`accredit connect` outlives whatever is behind it: servers and gateways that are killed and started again."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.world.agents import agent_files, guard_any_tool
from tests.world.authorization import Trust
from tests.world.calls import meta
from tests.world.command import Serving
from tests.world.connected import Connected
from tests.world.forgetful import Forgetful
from tests.world.ports import reserved_port
from tests.world.raw_server import PATIENCE, RawServer, until
from tests.world.restarted import Restarted

from accredit.client import AccreditedClient

pytestmark = [pytest.mark.slow, pytest.mark.holds("client/gateways")]

ADD: dict[str, Any] = {"name": "add", "arguments": {"a": 1, "b": 2}}


def answer(host: Connected, id: int) -> Any:
    """The answer to a request; notifications may come before it."""
    while (message := host.hear()).get("id") != id:
        assert "method" in message, message
    return message


def add(host: Connected, id: int) -> int:
    host.say(id=id, method="tools/call", params=ADD)
    told = answer(host, id)
    assert "structuredContent" in told.get("result", {}), told
    return told["result"]["structuredContent"]["result"]


@pytest.mark.slow
@pytest.mark.holds("client/renewing", "resend")
@pytest.mark.holds("client/http", "lost-session")
def test_a_server_that_was_killed_is_found_again_by_the_next_call__and_the_one_that_was_open_ends(
    tmp_path: Path,
) -> None:
    with (
        Restarted(tmp_path) as server,
        Serving(server.url, folder=tmp_path) as gateway,
        Connected(tmp_path, gateway.url) as host,
    ):
        host.initialize()
        host.say(id=1, method="tools/call", params={"name": "wait", "arguments": {}})
        server.hears("waiting")
        server.kill()
        assert answer(host, 1)["error"]["message"] in ("Upstream unavailable", "Invalid upstream JSON-RPC response")
        host.say(id=2, method="tools/call", params=ADD)
        assert answer(host, 2)["error"]["message"] == "Upstream unavailable"
        server.start()
        for id in range(3, 11):
            host.say(id=id, method="tools/call", params=ADD)
        told = [host.hear() for _ in range(11)]
        sums = {each["id"]: each["result"]["structuredContent"]["result"] for each in told if "id" in each}
        assert sums == dict.fromkeys(range(3, 11), 3)
        changed = {each["method"] for each in told if "id" not in each}
        assert changed == {f"notifications/{kind}/list_changed" for kind in ("tools", "resources", "prompts")}


@pytest.mark.slow
def test_a_gateway_that_was_killed_is_found_again__and_what_was_open_is_told_that_nobody_knows(tmp_path: Path) -> None:
    with reserved_port() as port, Restarted(tmp_path) as fastmcp:
        options = ("--port", str(port), fastmcp.url)
        with Serving(*options, folder=tmp_path) as first, Connected(tmp_path, first.url) as host:
            host.initialize()
            assert add(host, 1) == 3
            host.say(id=2, method="tools/call", params={"name": "wait", "arguments": {}})
            fastmcp.hears("waiting")
            first.process.kill()
            first.wait()
            error = answer(host, 2)["error"]
            assert error["message"] == f"Upstream unavailable: {error['data']}"
            assert "not known" in error["data"]
            host.say(id=3, method="tools/call", params=ADD)
            assert "can't be reached" in answer(host, 3)["error"]["data"]
            with Serving(*options, folder=tmp_path):
                assert add(host, 4) == 3


def test_a_guarded_stdio_server_whose_gateway_was_killed_gets_proofs_for_the_new_session(tmp_path: Path) -> None:
    with reserved_port() as port:
        files = agent_files(tmp_path, Trust())
        options = ("--config", "accredit.toml", "--port", str(port))
        call = {"name": "send_email", "arguments": {"to": "ada", "subject": "again"}}
        with Serving(*options, folder=tmp_path) as first, Connected(tmp_path, first.url, *files.options) as host:
            host.initialize()
            host.say(id=1, method="tools/call", params=call)
            assert "sent to ada" in json.dumps(answer(host, 1))
            first.process.kill()
            first.wait()
            with Serving(*options, folder=tmp_path):
                host.say(id=2, method="tools/call", params=call)
                assert "sent to ada" in json.dumps(answer(host, 2))


@pytest.mark.slow
@pytest.mark.holds("client/renewing", "older-transport")
def test_http_sse_is_spoken_where_there_is_nothing_else__with_proofs_and_after_a_restart(tmp_path: Path) -> None:
    files = agent_files(tmp_path, Trust(), "mcp:tool")
    with Restarted(tmp_path, "sse") as server:
        guard_any_tool(tmp_path, server.url)
        with (
            Serving("--config", "accredit.toml", folder=tmp_path) as gateway,
            Connected(tmp_path, gateway.url, *files.options) as host,
        ):
            assert gateway.url.endswith("/sse")
            host.initialize()
            assert add(host, 1) == 3
            server.kill()
            server.start()
            host.say(id=2, method="tools/call", params=ADD)
            told = answer(host, 2)  # it may be sent before the end of the stream is seen
            assert "result" in told or "data" in told["error"], told
            assert add(host, 3) == 3


async def _ask(host: Connected, method: str, params: dict[str, Any], id: int) -> Any:
    host.say(id=id, method=method, params=params)
    return await asyncio.to_thread(answer, host, id)


@pytest.mark.holds("client/renewing", "lost-session")
@pytest.mark.parametrize("status", [404, 400])
async def test_a_new_session_knows_what_the_last_one_did(status: int, tmp_path: Path) -> None:
    server = Forgetful(status)
    async with RawServer(server) as raw:
        with Connected(tmp_path, raw.url) as host:
            await asyncio.to_thread(host.initialize)
            await _ask(host, "logging/setLevel", {"level": "warning"}, 1)
            await _ask(host, "resources/subscribe", {"uri": "note:a"}, 2)
            await _ask(host, "resources/subscribe", {"uri": "note:b"}, 3)
            await _ask(host, "resources/unsubscribe", {"uri": "note:a"}, 4)
            host.say(method="notifications/roots/list_changed")
            await until(lambda: server.methods[-1] == "notifications/roots/list_changed")
            begun = server.messages[0]["params"]
            server.forget()
            assert (await _ask(host, "tools/list", {}, 5))["result"] == {"tools": []}
            again = server.of_session()
            assert again[0]["params"] == begun
            assert [message["method"] for message in again[1:]] == [
                "notifications/initialized", "notifications/roots/list_changed",
                "logging/setLevel", "resources/subscribe", "tools/list",
            ]  # fmt: skip
            assert again[3]["params"] == {"level": "warning"}
            assert again[4]["params"] == {"uri": "note:b"}


async def test_a_host_that_only_listens_hears_of_its_subscriptions_after_a_restart(tmp_path: Path) -> None:
    server = Forgetful(404)
    async with RawServer(server) as raw:
        with Connected(tmp_path, raw.url) as host:
            await asyncio.to_thread(host.initialize)
            await _ask(host, "resources/subscribe", {"uri": "note:a"}, 1)
            await until(lambda: server.standing is not None)
            server.forget()
            await server.cut_off()
            async with asyncio.timeout(PATIENCE):
                await until(lambda: server.methods[-1] == "resources/subscribe" and server.standing is not None)
            await server.says({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {}})
            assert (await asyncio.to_thread(host.hear))["method"] == "notifications/resources/updated"


async def test_the_last_words_of_a_host_are_sent_before_its_session_is_ended(tmp_path: Path) -> None:
    server = Forgetful(404)
    async with RawServer(server) as raw:
        with Connected(tmp_path, raw.url) as host:
            await asyncio.to_thread(host.initialize)
            for _ in range(8):
                host.say(method="notifications/roots/list_changed")
            host.say(id="unasked", result={})
            host.close_input()
            assert await asyncio.to_thread(host.wait) == 0
        assert server.methods.count("notifications/roots/list_changed") == 8
        last = raw.requests[-1]
        assert (last.method, last.header("mcp-session-id")) == ("DELETE", "session-1")


async def test_a_client_ends_its_session_when_it_leaves__else_a_server_keeps_a_child_for_nobody() -> None:
    async with RawServer(Forgetful(404)) as raw:
        async with AccreditedClient(raw.url, mode="legacy") as client:
            await client.list_tools()
        assert raw.requests[-1].method == "DELETE"


async def test_a_server_that_speaks_another_revision_after_its_restart_is_not_taken_for_the_same(
    tmp_path: Path,
) -> None:
    server = Forgetful(404)
    async with RawServer(server) as raw:
        with Connected(tmp_path, raw.url) as host:
            await asyncio.to_thread(host.initialize)
            server.forget(revision="2025-06-18")
            told = await _ask(host, "tools/list", {}, 5)
            assert "speaks 2025-06-18 now" in told["error"]["data"]
            server.forget()
            assert (await _ask(host, "tools/list", {}, 6))["result"] == {"tools": []}


async def test_a_session_that_is_lost_again_and_again_ends_the_call_and_not_the_connection(tmp_path: Path) -> None:
    server = Forgetful(404)
    async with RawServer(server) as raw:
        with Connected(tmp_path, raw.url) as host:
            await asyncio.to_thread(host.initialize)
            server.deaf_to = "tools/list"
            told = await _ask(host, "tools/list", {}, 5)
            assert "was not done" in told["error"]["data"]
            server.deaf_to = ""
            assert (await _ask(host, "tools/list", {}, 6))["result"] == {"tools": []}


@pytest.mark.holds("client/renewing", "streams")
async def test_a_modern_stream_that_breaks_is_asked_for_again__and_its_host_is_told_once(tmp_path: Path) -> None:
    server = Forgetful(404)
    async with RawServer(server) as raw:
        with Connected(tmp_path, raw.url) as host:
            params = {"notifications": {"toolsListChanged": True}, "_meta": meta()}
            host.say(id=9, method="subscriptions/listen", params=params)
            assert (await asyncio.to_thread(host.hear))["method"] == "notifications/subscriptions/acknowledged"
            await server.cut_off()
            await until(lambda: server.standing is not None)
            await server.says({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
            assert (await asyncio.to_thread(host.hear))["method"] == "notifications/tools/list_changed"


@pytest.mark.holds("client/connect", "session-first")
def test_a_call_that_does_not_wait_for_the_answer_to_initialize_gets_a_proof_of_its_session(tmp_path: Path) -> None:
    files = agent_files(tmp_path, Trust())
    call = {"name": "send_email", "arguments": {"to": "ada", "subject": "early"}}
    with (
        Serving("--config", "accredit.toml", folder=tmp_path) as serving,
        Connected(tmp_path, serving.url, *files.options) as host,
    ):
        info = {"name": "host", "version": "1"}
        begin = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
        host.say(id="init", method="initialize", params=begin)
        host.say(id=1, method="tools/call", params=call)
        host.say(method="notifications/initialized")
        host.say(id=2, method="tools/call", params=call)
        assert host.hear()["id"] == "init"
        assert all("sent to ada" in json.dumps(host.hear()) for _ in range(2))
