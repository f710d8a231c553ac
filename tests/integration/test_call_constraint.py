"""A certificate for one very call, at a real gateway: its rounds pass, and nothing else does."""

import hashlib
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from tests.integration.test_authorization import refused, with_proof
from tests.world.authorization import GATEWAY, Signed, Trust
from tests.world.routes import Route
from tests.world.sealed import FORMS, again

from accredit.consent.call import CallTerms
from accredit.ratify import DelegationCert
from accredit.ratify.constraints import MaxRate


def once(trust: Trust, params: dict[str, Any], **changes: Any) -> tuple[DelegationCert, ...]:
    """The owner's yes to this call, once in ten minutes."""
    digest = hashlib.sha256(rfc8785.dumps(params)).hexdigest()
    terms: dict[str, Any] = {
        "gateway": GATEWAY,
        "method": "tools/call",
        "target": (params["name"],),
        "params_sha256": digest,
    }
    constraint = CallTerms(**(terms | changes)).constraint()
    return trust.chain("email:read", constraints=(constraint, MaxRate(1, 600)))


async def asked(way: Route, trust: Trust, chain: tuple[DelegationCert, ...], params: dict[str, Any]) -> dict[str, Any]:
    proof = trust.proof(chain, "tools/call", params, Signed(session=way.session))
    return await way.ask("tools/call", with_proof(params, proof), capabilities=FORMS)


@pytest.mark.parametrize("name", ["http-modern", "stdio-modern"])
async def test_an_approved_call_with_a_round_can_not_be_repeated_by_bringing_its_state_again(
    name: str, trust: Trust, tmp_path: Path
) -> None:
    params = {"name": "list_inbox", "arguments": {"gives": ["one", None]}}

    async with Route(name, trust, tmp_path) as way:
        chain = once(trust, params)
        first = (await asked(way, trust, chain, params))["result"]["requestState"]
        leg = again(params, first, 1)
        second = (await asked(way, trust, chain, leg))["result"]["requestState"]
        refused(await asked(way, trust, chain, leg), -31003, "ratify_constraint_denied")
        assert "content" in (await asked(way, trust, chain, again(params, second, 2)))["result"]
        for state in (first, second):
            refused(await asked(way, trust, chain, again(params, state, 2)), -31003, "ratify_constraint_denied")
        refused(await asked(way, trust, chain, params), -31003, "ratify_constraint_denied")
        assert len(way.received("tools/call")) == 3


@pytest.mark.parametrize("name", ["http-modern", "http-legacy"])
async def test_a_yes_to_a_call_is_none_to_other_arguments_another_tool_or_another_gateway(
    name: str, trust: Trust, tmp_path: Path
) -> None:
    params = {"name": "list_inbox", "arguments": {"limit": 3}}

    async with Route(name, trust, tmp_path) as way:
        for chain, called in (
            (once(trust, params), {"name": "list_inbox", "arguments": {"limit": 4}}),
            (once(trust, params), {"name": "list_inbox"}),
            (once(trust, params), {**params, "more": 1}),
            (once(trust, params, gateway="another"), params),
            (once(trust, params, method="prompts/get"), params),
            (once(trust, params, target=("send_email",)), params),
        ):
            refused(await asked(way, trust, chain, called), -31003, "ratify_constraint_denied")
        unknown = once(trust, params, definition="a" * 64)
        refused(await asked(way, trust, unknown, params), -31003, "ratify_constraint_unverifiable")
        assert way.received("tools/call") == []
        assert "result" in await asked(way, trust, once(trust, params), params)
