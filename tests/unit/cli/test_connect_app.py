"""Before a person lets an app in they are told what it calls itself, in quotes, and where its answers go."""

import pytest
from tests.unit.console.test_elsewhere import SIGNER, Gateway
from tests.world.asked import GATEWAY, URL, a_client_ask, an_ask

from accredit.cli.actions.connect_app import app_facts, find_app
from accredit.consent.held import AskingClient
from accredit.errors import DeskError

pytestmark = pytest.mark.holds("cli/actions/connect_app")


async def test_an_app_is_found_at_whichever_gateway_has_its_code__and_a_call_is_no_app() -> None:
    one, two, ask, call = Gateway(), Gateway(), a_client_ask(), an_ask()
    await two.holding.hold(ask, asker=bytes(32))
    await two.holding.hold(call)
    gateways = [one.reached(), two.reached()]
    assert await find_app(gateways, ask.code, SIGNER) == (gateways[1], ask)
    with pytest.raises(DeskError, match="no ask"):
        await find_app(gateways, "0000-00", SIGNER)
    with pytest.raises(DeskError, match="code of a call"):
        await find_app(gateways[1:], call.code, SIGNER)


def test_what_an_app_calls_itself_can_t_pass_for_our_words() -> None:
    client = AskingClient("https://evil.example/c", "Claude” by claude.ai", "http://127.0.0.1:9/")
    told = dict(app_facts(a_client_ask(client=client), URL))
    assert told["known by"] == "evil.example"
    assert told["which calls itself"].startswith(f"{GATEWAY} - ")
    assert "any program here" in told["your browser goes to"]
    assert told["app"].count("”") == 1
