"""Before a person lets an app in they are told what it calls itself, in quotes, and where its answers go."""

import json
from pathlib import Path

import pytest
from tests.unit.console.test_elsewhere import SIGNER, Gateway
from tests.world.asked import GATEWAY, URL, a_client_ask, an_ask

from accredit.cli.actions.connect_app import check_gateway
from accredit.consent.asks import AskedGateway
from accredit.consent.held import AskingClient, ClientAsk
from accredit.console.apps import app_facts, find_app
from accredit.errors import DeskError, ProofRefused
from accredit.keys.places import AGENTS, KNOWN_GATEWAYS

pytestmark = [pytest.mark.holds("cli/actions/connect_app"), pytest.mark.holds("console/apps")]


async def test_an_app_is_found_at_whichever_gateway_has_its_code__and_a_call_is_no_app() -> None:
    one, two, ask, call = Gateway(), Gateway(), a_client_ask(), an_ask()
    await two.holding.hold(ask)
    await two.holding.hold(call)
    gateways = [one.reached(), two.reached()]
    assert await find_app(gateways, ask.code, SIGNER) == (gateways[1], ask)
    with pytest.raises(DeskError, match="no ask"):
        await find_app(gateways, "0000-00", SIGNER)
    with pytest.raises(DeskError, match="code of a call"):
        await find_app(gateways[1:], call.code, SIGNER)


@pytest.mark.holds("console/apps", "told")
def test_what_an_app_calls_itself_can_t_pass_for_our_words() -> None:
    client = AskingClient("https://evil.example/c", "Claude” by claude.ai", "http://127.0.0.1:9/")
    told = dict(app_facts(a_client_ask(client=client), URL))
    assert told["known by"] == "evil.example"
    assert told["which calls itself"].startswith(f"{GATEWAY} - ")
    assert "any program on this computer" in told["your browser goes to"]
    assert told["app"].count("”") == 1


def _ask_of(id: str, url: str = URL) -> ClientAsk:
    return a_client_ask(gateway=AskedGateway(id, url), endpoint=f"{url}/mcp")


def test_a_gateway_that_names_another_one_s_id_gets_no_delegation_for_it(tmp_path: Path) -> None:
    """What is signed is good at whichever gateway has the id: one that the person knows is not to be had elsewhere."""
    check_gateway(tmp_path, _ask_of("mail"))
    check_gateway(tmp_path, _ask_of("mail"))
    with pytest.raises(ProofRefused, match="is known as the gateway at"):
        check_gateway(tmp_path, _ask_of("mail", "https://evil.example"))
    with pytest.raises(ProofRefused, match="gateway_changed"):
        check_gateway(tmp_path, _ask_of("bank"))
    check_gateway(tmp_path, _ask_of("mail", "https://second.example"), named="mail")
    with pytest.raises(ProofRefused, match="gateway_changed"):
        check_gateway(tmp_path, _ask_of("bank", "https://second.example"), named="mail")


def test_an_id_that_the_person_s_own_agents_have_met_is_known_as_well(tmp_path: Path) -> None:
    folder = tmp_path / AGENTS / "cursor"
    folder.mkdir(parents=True)
    (folder / KNOWN_GATEWAYS).write_text(json.dumps({"https://bank.example/mcp": "bank"}), "utf-8")
    with pytest.raises(ProofRefused, match="is known as the gateway at"):
        check_gateway(tmp_path, _ask_of("bank"))
