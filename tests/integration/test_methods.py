"""Methods that nobody has named: by whatever way they come, they don't reach a server that is guarded."""

import json
from pathlib import Path

import pytest
from tests.world.authorization import Signed, Trust
from tests.world.calls import compact, notification, post
from tests.world.routes import ROUTES, Route
from tests.world.tokened import Tokened
from tests.world.wrap_host import WrapHost

from accredit.jsonrpc.methods import METHODS, Era

INBOX = {"name": "list_inbox", "arguments": {}}
UNNAMED = ("vendor/x", "tools/call/all", "tasks/everything", "sampling/createMessage", "roots/list", "", "\u212b/x")


def of_another_era(era: Era) -> list[str]:
    revision = "2025-11-25" if era is Era.LEGACY else "2026-07-28"
    names = [name for name, method in METHODS.items() if revision not in method.revisions]
    assert len(names) >= 2
    return [name for name in names if not name.startswith("notifications/")]


@pytest.mark.holds("gateway/admission/gate", "known-method")
@pytest.mark.parametrize("name", ROUTES)
async def test_a_request_that_nobody_named_is_not_forwarded__and_the_session_goes_on(
    name: str, trust: Trust, tmp_path: Path
) -> None:
    async with Route(name, trust, tmp_path) as route:
        begun = len(route.received())
        for method in (*UNNAMED, *of_another_era(route.era)):
            asked = post(route.era, method, {"taskId": "1", "requestState": "raw", "inputResponses": {}})
            if not method or not method.isascii():
                asked = asked.without_header("Mcp-Method").and_header("Mcp-Method", "x")
            answer = await route.send(asked)
            error = json.loads(answer.body)
            assert answer.status in (200, 404, 400), (method, answer)
            assert (answer.status == 404) == (route.era is Era.MODERN and answer.status != 400), (method, answer)
            assert error["error"]["code"] in (-32601, -32020), (method, answer)
            assert "result" not in error
        assert len(route.received()) == begun
        proof = trust.proof(trust.chain(), "tools/call", INBOX, Signed(session=route.session))
        assert "result" in await route.ask("tools/call", {**INBOX, "_meta": {"ratify_proof": proof}})


@pytest.mark.holds("gateway/admission/gate", "known-method")
@pytest.mark.parametrize("name", ROUTES)
async def test_a_notification_that_nobody_named_is_accepted_and_dropped(
    name: str, trust: Trust, tmp_path: Path
) -> None:
    async with Route(name, trust, tmp_path) as route:
        for method in ("vendor/x", "notifications/tools/list_changed", "notifications/message"):
            answer = await route.send(notification(route.era, method))
            assert (answer.status, answer.body) == (202, b""), (method, answer)
        assert (await route.send(notification(route.era))).status == 202
        await route.ask("tools/list", {})
        came = [each["method"] for each in route.received()]
        known = ["notifications/cancelled"] if not name.startswith("stdio-modern") else []
        assert [method for method in came if method != "initialize"] == [*known, "tools/list"]


@pytest.mark.parametrize("name", ["http-legacy", "sse-legacy", "stdio-legacy"])
async def test_a_batch_hides_no_method_that_nobody_named(name: str, trust: Trust, tmp_path: Path) -> None:
    async with Route(name, trust, tmp_path) as route:
        unnamed = {"jsonrpc": "2.0", "id": 1, "method": "vendor/x"}
        told = {"jsonrpc": "2.0", "method": "vendor/x"}
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        answers = {each["id"]: each for each in await route.batch(unnamed, told, ping)}
        assert answers[1]["error"]["code"] == -32601
        assert "result" in answers[2]
        assert route.received("vendor/x") == []
        asked = post(route.era)
        headers = [(each, "2025-03-26" if each == "MCP-Protocol-Version" else text) for each, text in asked.headers]
        dropped = await route.send(type(asked)(headers, compact([told, told])))
        assert (dropped.status, dropped.body) == (202, b"")


@pytest.mark.parametrize("name", ["http-modern", "stdio-legacy"])
async def test_a_method_that_the_configuration_names_passes__and_where_nothing_is_required_all_do(
    name: str, trust: Trust, tmp_path: Path
) -> None:
    async with Route(name, trust, tmp_path, methods=("vendor/x",)) as route:
        assert "result" in await route.ask("vendor/x", {})
        assert (await route.send(post(route.era, "Vendor/X", {}))).status in (200, 404)
        await route.send(notification(route.era, "vendor/x"))
        await route.ask("tools/list", {})
        assert len(route.received("vendor/x")) == (1 if name == "stdio-modern" else 2)
        assert route.received("Vendor/X") == []
    (tmp_path / "off").mkdir()
    async with Route(name, trust, tmp_path / "off", required=False) as route:
        assert "result" in await route.ask("vendor/x", {})
        assert len(route.received("vendor/x")) == 1


@pytest.mark.parametrize("name", ["http-modern", "stdio-legacy"])
async def test_with_tokens_alone_it_is_the_same(name: str, trust: Trust, tmp_path: Path) -> None:
    for required in (True, False):
        tokened = Tokened()
        token = tokened.token()
        folder = tmp_path / str(required)
        folder.mkdir()
        async with Route(
            name,
            trust,
            folder,
            required=False,
            tokens=tokened.settings(required=required),
            key_sets=tokened.key_sets,
            token=token,
        ) as route:
            answer = json.loads((await route.send(post(route.era, "vendor/x", {}), token=token)).body)
            assert ("result" in answer) is not required
            assert bool(route.received("vendor/x")) is not required


@pytest.mark.slow
@pytest.mark.parametrize("era", list(Era))
def test_wrap_forwards_no_method_that_nobody_named(era: Era, trust: Trust, tmp_path: Path) -> None:
    with WrapHost(tmp_path, trust, era, gateway='methods = ["vendor/listed"]') as host:
        for method in (*UNNAMED, *of_another_era(era)):
            assert host.ask(method, {})["error"]["code"] == -32601, method
        host.say(compact({"jsonrpc": "2.0", "method": "vendor/x"}))
        assert "result" in host.ask("vendor/listed", {})
        assert host.told == []
        came = [message["method"] for message in host.received()]
        assert [method for method in came if method != "initialize"] == ["vendor/listed"]
        assert "notification_refused" in host.stderr
