"""The gate by itself: it does not rely on those who lead messages to it."""

import asyncio

import pytest
from tests.world.calls import post
from tests.world.tokened import Tokened

from accredit.gateway.bearer import Bearer
from accredit.gateway.gate import Gate
from accredit.gateway.recording import Client
from accredit.gateway.settings import GatewaySettings, HttpUpstream
from accredit.gateway.tally import Tally
from accredit.jsonrpc.methods import Era
from accredit.jsonrpc.requests import decode_request


@pytest.mark.parametrize("method", ["tools/call", "tools/list"])
def test_where_tokens_are_required_a_way_that_asks_nobody_for_one_leads_nowhere(method: str) -> None:
    trusted = Tokened()
    tokens = trusted.settings(required=True)
    settings = GatewaySettings(HttpUpstream("http://127.0.0.1:9/mcp"), tokens=tokens)
    gate = Gate(settings, Tally(), None, None, Bearer(tokens, trusted.key_sets))
    message = decode_request(post(Era.MODERN, method, {"name": "echo"}).body)
    passage = asyncio.run(gate.admit(message, Client()))
    assert passage.message is None
    assert b"-31011" in passage.answer
