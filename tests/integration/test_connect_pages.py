"""Hosts that show pages are asked to show the ask's: real processes, and a desk that does as it is told."""

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from tests.world.agents import AgentFiles
from tests.world.authorization import Trust
from tests.world.calls import meta
from tests.world.command import Serving
from tests.world.connected import Connected
from tests.world.desk import CALL
from tests.world.scripted_desk import ScriptedDesk, allows, says, waits

pytestmark = [pytest.mark.slow, pytest.mark.holds("client/pages"), pytest.mark.holds("client/asking", "pages")]

URL = {"elicitation": {"url": {}}}


@pytest.fixture
def desk(tmp_path: Path) -> Generator[ScriptedDesk]:
    with ScriptedDesk(tmp_path, waits) as desk:
        yield desk


@pytest.fixture
def host(gateway: Serving, files: AgentFiles, desk: ScriptedDesk) -> Generator[Connected]:
    with Connected(files.folder, gateway.url, *files.options, "--hold", "60", **desk.env) as host:
        yield host


def begin(host: Connected, capabilities: dict[str, Any]) -> None:
    info = {"name": "host", "version": "1"}
    params = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": info}
    assert "result" in host.ask("initialize", params, id="init")
    host.say(method="notifications/initialized")


def text(message: Any) -> str:
    return message["result"]["content"][0]["text"]


def modern(call: dict[str, Any] = CALL, **more: Any) -> dict[str, Any]:
    return call | {"_meta": meta(**URL)} | more


@pytest.mark.holds("client/pages", "declared", "decline", "legacy-pages")
@pytest.mark.parametrize("action", ["accept", "cancel"])
def test_an_older_host_shows_the_page_while_the_call_is_held__and_its_yes_means_nothing(
    action: str, trust: Trust, host: Connected, desk: ScriptedDesk
) -> None:
    begin(host, URL)
    shown = host.ask("tools/call", CALL)
    (ask,) = desk.asks
    assert shown["method"] == "elicitation/create"
    assert shown["params"]["mode"] == "url"
    assert shown["params"]["url"] == f"http://127.0.0.1:8686/a/{ask.code}"
    assert ask.code in shown["params"]["message"]
    host.say(id=shown["id"], result={"action": action})
    assert host.ask("ping", id=8)["id"] == 8  # nothing has come of it
    desk.tell(ask, allows(trust.owner)(ask))
    done = host.hear()
    assert done["method"] == "notifications/elicitation/complete"
    assert done["params"] == {"elicitationId": shown["params"]["elicitationId"]}
    assert "sent to ada" in text(host.hear())


@pytest.mark.holds("client/pages", "decline", "legacy-pages")
def test_who_declines_on_an_older_host_has_said_no(host: Connected, desk: ScriptedDesk) -> None:
    begin(host, URL)
    shown = host.ask("tools/call", CALL)
    (ask,) = desk.asks
    host.say(id=shown["id"], result={"action": "decline"})
    desk.wait_for(lambda: {"deny": ask.code} in desk.said)
    desk.tell(ask, says("deny")(ask))
    assert host.hear()["method"] == "notifications/elicitation/complete"
    assert "said no to this call" in text(host.hear())


@pytest.mark.holds("client/pages", "legacy-pages")
def test_a_page_that_nobody_opened_is_taken_back(host: Connected, desk: ScriptedDesk) -> None:
    begin(host, URL)
    shown = host.ask("tools/call", CALL)
    desk.tell(desk.asks[0], says("deny")(desk.asks[0]))
    taken_back = host.hear()
    assert (taken_back["method"], taken_back["params"]["requestId"]) == ("notifications/cancelled", shown["id"])
    assert "said no" in text(host.hear())
    host.say(id=shown["id"], result={"action": "decline"})  # too late: it is nobody's, and goes nowhere
    assert host.ask("ping", id=9)["id"] == 9


@pytest.mark.holds("client/pages", "declared")
@pytest.mark.parametrize("capabilities", [{}, {"elicitation": {}}, {"elicitation": {"form": {}}}])
def test_a_host_that_shows_no_pages_is_not_asked_to(
    capabilities: dict[str, Any], host: Connected, desk: ScriptedDesk
) -> None:
    begin(host, capabilities)
    desk.script = says("deny")
    assert "said no" in text(host.ask("tools/call", CALL))


@pytest.mark.holds("client/pages", "modern-pages")
def test_a_modern_host_is_asked_for_input__and_the_call_passes_when_it_comes_back(
    trust: Trust, host: Connected, desk: ScriptedDesk
) -> None:
    result = host.ask("tools/call", modern())["result"]
    (ask,) = desk.asks
    assert result["resultType"] == "input_required"
    ((key, entry),) = result["inputRequests"].items()
    assert (entry["method"], entry["params"]["mode"]) == ("elicitation/create", "url")
    assert entry["params"]["url"] == f"http://127.0.0.1:8686/a/{ask.code}"
    assert ask.code not in result["requestState"]
    desk.script = allows(trust.owner)
    again = modern(requestState=result["requestState"], inputResponses={key: {"action": "accept"}})
    told = host.ask("tools/call", again, id=8)
    assert "sent to ada" in text(told)
    assert [each.digest for each in desk.asks] == [ask.digest] * 2


@pytest.mark.holds("client/pages", "decline", "modern-pages")
def test_who_declines_on_a_modern_host_has_said_no(host: Connected, desk: ScriptedDesk) -> None:
    result = host.ask("tools/call", modern())["result"]
    (key,) = result["inputRequests"]
    again = modern(requestState=result["requestState"], inputResponses={key: {"action": "decline"}})
    told = text(host.ask("tools/call", again, id=8))
    assert told.startswith(f"The user said no to this call (code {desk.asks[0].code}).")
    desk.wait_for(lambda: {"deny": desk.asks[0].code} in desk.said)


@pytest.mark.holds("client/pages", "modern-pages")
def test_a_state_that_was_given_for_one_call_is_none_for_another(host: Connected, desk: ScriptedDesk) -> None:
    result = host.ask("tools/call", modern())["result"]
    (key,) = result["inputRequests"]
    other = {"name": "send_email", "arguments": {"to": "eve@example.org", "subject": "Hello"}}
    desk.script = says("deny")
    decline = {key: {"action": "decline"}}
    told = host.ask("tools/call", modern(other, requestState=result["requestState"], inputResponses=decline), id=8)
    assert {"deny": desk.asks[0].code} not in desk.said
    assert "sent to" not in json.dumps(told)
