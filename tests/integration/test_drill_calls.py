"""What a drill finds: nothing at a gateway that is right, and each fault of one that is not, by the call's name."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx2
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from tests.integration.test_tutorial import ROOT
from tests.world.authorization import GATEWAY, Trust
from tests.world.measured import Measured, calls
from tests.world.running import run

from accredit.asking.in_process import InProcess
from accredit.gateway import HttpUpstream, create_app
from accredit.gateway.settings import TokenSettings
from accredit.jsonrpc.methods import Era
from accredit.net import IssuerKeys
from accredit.ops.drill_agents import Agent, TokenMaker
from accredit.ops.drill_calls import Drill, DrilledCall, DrillParties
from accredit.ops.drill_roads import Endpoint, McpRoad
from accredit.policy.drill import DRILL, SENSITIVE_DRILL
from accredit.stores import MemoryStore, RevocationLists
from accredit.telemetry.operations import Telemetry
from accredit.tokens.carried import Source
from accredit.tokens.issued import public_jwk
from accredit.tokens.key_sets import read_key_set
from accredit.tokens.verify import Issuer

pytestmark = [pytest.mark.holds("ops/drill_calls"), pytest.mark.holds("ops/drill_agents")]
NOBODY = HttpUpstream("http://127.0.0.1:1/mcp")
"""No server listens there: what reaches it fails."""
URL = "http://127.0.0.1/mcp"
MODERN, LEGACY = Era.MODERN, Era.LEGACY
Answer = dict[str, Any]
Fault = Callable[[Answer], Answer]


class Faulty(httpx2.AsyncBaseTransport):
    """A gateway in this process, whose answers a fault may change."""

    def __init__(self, app: Any, fault: Fault) -> None:
        self._inner = InProcess(app)
        self._fault = fault

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        answer = await self._inner.handle_async_request(request)
        body = json.loads(await answer.aread())
        await answer.aclose()
        return httpx2.Response(answer.status_code, json=self._fault(body), request=request)


def drilled(
    trust: Trust,
    era: Era,
    fault: Fault = lambda answer: answer,
    *,
    key: ec.EllipticCurvePrivateKey | None = None,
    source: Source = "header",
    telemetry: Telemetry | None = None,
    shows: str | None = None,
    **policy: Any,
) -> list[DrilledCall]:
    """The calls at a gateway, with tokens of an issuer with this key, if there is one, or with what an agent `shows` in
    a header where there is none."""

    async def main() -> list[DrilledCall]:
        agent, other = Agent(), Agent()
        agent.token = other.token = shows or ""
        maker: TokenMaker | None = None
        more: dict[str, Any] = {}
        ports: dict[str, Any] = {}
        if key is not None:
            maker = TokenMaker(key, "accredit", URL)
            agent.token, other.token = maker.token(agent), maker.token(other)
            more = {"tokens": TokenSettings((Issuer("accredit", URL),), URL)}
            keys = read_key_set(json.dumps({"keys": [public_jwk(key.public_key())]}).encode())
            ports = {"key_sets": IssuerKeys({"accredit": keys})}
        settings = trust.settings(NOBODY, policy=policy, **more)
        ports |= {"store": MemoryStore(), "revocations": RevocationLists((), {}), "telemetry": telemetry}
        app = create_app(settings, **ports)
        endpoint = Endpoint(
            server="",
            url=URL,
            host="",
            gateway_id=GATEWAY,
            binding_required=policy.get("binding_required", False),
            tokens=source if key is not None or shows is not None else None,
            token_required=key is not None,
            bind_agent=policy.get("bind_agent", False),
        )
        parties = DrillParties(issuer=trust.owner.signer(), agent=agent, other=other, maker=maker)
        async with httpx2.AsyncClient(transport=Faulty(app, fault)) as client:
            drill = Drill(McpRoad(client, endpoint, era), parties)
            await drill.run()
        app.end_streams()
        await app.aclose()
        return drill.tried

    return run(main())


class Dripping(httpx2.AsyncBaseTransport, httpx2.AsyncByteStream):
    """A gateway whose answers begin, and never end."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, stream=self, request=request)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.Event().wait()


def wrong(tried: list[DrilledCall]) -> set[tuple[str, str]]:
    return {(each.name, each.verdict) for each in tried if each.verdict != "ok"}


@pytest.mark.parametrize("era", [MODERN, LEGACY])
def test_a_gateway_that_is_right_fails_no_call__and_asks_no_server(era: Era, trust: Trust) -> None:
    tried = drilled(trust, era, binding_required=True)
    assert wrong(tried) == set()
    states = {
        "asks",
        "forged_state",
        "short_state",
        "no_state",
        "other_calls_state",
        "other_agents_state",
        "good_state",
    }
    names = {each.name for each in tried}
    assert names >= {"unbound", "copy", "challenge_copy", "stolen", "used_up"}
    assert (names >= states) is (era is MODERN)
    assert names.isdisjoint(states) is (era is LEGACY)


@pytest.mark.parametrize("era", [MODERN, LEGACY])
def test_a_drill_is_measured_at_the_way_in_by_the_names_of_its_tools__and_at_no_server(era: Era, trust: Trust) -> None:
    measured = Measured(rate=0)
    tried = drilled(trust, era, telemetry=measured.telemetry)
    found = calls(measured.served)
    assert {tool for tool, _ in found} == {DRILL, SENSITIVE_DRILL}
    assert sum(count for (_, error), count in found.items() if not error) == sum(
        each.answer.result is not None for each in tried
    )
    assert "_OTHER" not in {error for _, error in found}
    assert measured.asked == {}


@pytest.mark.parametrize(("era", "source"), [(MODERN, "header"), (LEGACY, "argument"), (LEGACY, "meta")])
def test_where_tokens_are_tied_to_agents_each_token_of_somebody_else_is_tried(
    era: Era, source: Source, trust: Trust
) -> None:
    """Wherever they are looked for; and no server is asked whether an argument is one."""
    key = ec.generate_private_key(ec.SECP256R1())
    tried = drilled(trust, era, key=key, source=source, bind_agent=True)
    assert wrong(tried) == set()
    assert {each.name for each in tried} >= {
        "no_token", "forged_token", "other_audience", "ended_token", "other_tools", "other_agents_token",
    }  # fmt: skip


def lets_through(*words: str) -> Fault:
    """The fault of a gateway that refuses nothing with these words."""

    def fault(answer: Answer) -> Answer:
        word = answer.get("error", {}).get("data", {}).get("error", "")
        return {"jsonrpc": "2.0", "id": 1, "result": {"content": []}} if word in words else answer

    return fault


@pytest.mark.parametrize(
    ("word", "names"),
    [
        ("missing_ratify_proof", {"no_proof"}),
        ("ratify_replayed", {"copy", "challenge_copy"}),
        (
            "ratify_invalid",
            {"other_arguments", "other_gateway", "other_session", "unbound", "old", "forged", "stolen"},
        ),
        ("ratify_expired", {"expired"}),
        ("ratify_untrusted_root", {"other_root"}),
        ("ratify_scope_denied", {"other_scope"}),
        ("ratify_constraint_denied", {"used_up"}),
        ("ratify_challenge_required", {"challenged", "own_challenge"}),
    ],
)
def test_each_fault_is_found_by_the_name_of_its_call(word: str, names: set[str], trust: Trust) -> None:
    found = wrong(drilled(trust, LEGACY, lets_through(word), binding_required=True))
    assert found == {(name, "got_through") for name in names}


def test_a_state_that_anybody_may_bring_is_found(trust: Trust) -> None:
    def fault(answer: Answer) -> Answer:
        is_state = answer.get("error", {}).get("code") == -32602
        return {"jsonrpc": "2.0", "id": 1, "result": {}} if is_state else answer

    names = ("forged_state", "short_state", "no_state", "other_calls_state", "other_agents_state")
    assert wrong(drilled(trust, MODERN, fault)) == {(name, "got_through") for name in names}


@pytest.mark.parametrize(("shows", "tried_it"), [("", True), ("one", False)])
def test_another_agents_state_is_tried_unless_both_show_one_token(shows: str, tried_it: bool, trust: Trust) -> None:
    names = {each.name for each in drilled(trust, MODERN, shows=shows) if each.verdict == "ok"}
    assert "good_state" in names
    assert ("other_agents_state" in names) is tried_it


def test_a_gateway_that_refuses_everything_fails_where_it_must_allow(trust: Trust) -> None:
    error = {"code": -31003, "message": "no", "data": {"error": "ratify_invalid"}}
    found = wrong(drilled(trust, MODERN, lambda answer: {"jsonrpc": "2.0", "id": 1, "error": error}))
    assert {("good", "refused"), ("one_use", "refused"), ("asks", "refused")} <= found
    assert ("no_proof", "other_refusal") in found


@pytest.mark.parametrize(
    ("member", "holder", "name", "untried"),
    [
        ("requestState", "result", "asks", {"forged_state", "other_agents_state", "good_state"}),
        ("_meta", "data", "challenged", {"other_challenge", "good_challenge", "challenge_copy"}),
    ],
)
def test_a_gateway_whose_answer_leaves_the_rest_untried_is_not_told_that_all_is_well(
    member: str, holder: str, name: str, untried: set[str], trust: Trust
) -> None:
    def fault(answer: Answer) -> Answer:
        found = answer.get(holder) or answer.get("error", {}).get(holder, {})
        if member in found and answer.get("error", {}).get("code") in (None, -31002):
            del found[member]
        return answer

    tried = drilled(trust, MODERN, fault)
    assert wrong(tried) == {(name, "no_answer")}
    assert {each.name for each in tried}.isdisjoint(untried)


@pytest.mark.parametrize("answer", [[], {}, {"error": {"code": True}}, {"error": {"code": "x", "data": []}}])
def test_an_answer_that_can_t_be_understood_counts_as_none(answer: Any, trust: Trust) -> None:
    tried = drilled(trust, MODERN, lambda _: answer)
    assert {each.verdict for each in tried} == {"no_answer"}


@pytest.mark.holds("ops/drill_roads", "mcp", "bound")
async def test_an_answer_that_never_ends_counts_as_none__and_the_drill_goes_on(trust: Trust) -> None:
    agent = Agent()
    parties = DrillParties(issuer=trust.owner.signer(), agent=agent, other=agent, maker=None)
    endpoint = Endpoint(
        server="", url=URL, host="", gateway_id=GATEWAY, binding_required=False, tokens=None,
        token_required=False, bind_agent=False,
    )  # fmt: skip
    async with httpx2.AsyncClient(transport=Dripping(), timeout=0.01) as client:
        drill = Drill(McpRoad(client, endpoint, LEGACY), parties)
        await drill.run()
    tried = drill.tried
    assert len(tried) > 10
    assert {each.verdict for each in tried} == {"no_answer"}


def test_what_a_drill_signs_ends_soon_and_is_for_nothing_else(trust: Trust) -> None:
    agent = Agent()
    for granted in (agent.granted(trust.owner.signer()), agent.granted(trust.owner.signer(), ended=True)):
        assert granted.scope == ("custom:accredit.drill",)
        assert granted.expires_at - granted.issued_at <= 600


@pytest.mark.parametrize("era", [MODERN])
def test_the_how_to_names_each_call_and_how_it_must_end(era: Era, trust: Trust) -> None:
    page = (ROOT / "docs/how-to/drill-your-gateway.md").read_text("utf-8")
    told: dict[str, str] = {}
    for names, ends in re.findall(r"^\| (`[a-z_`, ]+`) \| (.*) \|$", page, re.MULTILINE):
        told |= dict.fromkeys(re.findall(r"`([a-z_]+)`", names), ends)
    key = ec.generate_private_key(ec.SECP256R1())
    tried = drilled(trust, era, key=key, bind_agent=True, binding_required=True)
    assert told.keys() == {each.name for each in tried}
    for each in tried:
        code, word = each.expected
        same = "The same" in told[each.name]
        assert (
            same or code is None or each.name == "used_up" or f"{code} `{word}`".removesuffix(" ``") in told[each.name]
        )
