"""The gateway's own tools on every way to it: decided and recorded like any call, and no server hears of one."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.integration.test_authorization import with_proof
from tests.integration.test_merged import error_of, modern, result_of
from tests.integration.test_wrap import configured, wrapped
from tests.world.authorization import GATEWAY, Signed, Trust, challenge_in
from tests.world.calls import Posted, compact, post
from tests.world.command import wait_until
from tests.world.many_servers import Several
from tests.world.recorded import calls_of, records_at
from tests.world.routes import ROUTES, Route

from accredit.pins.definitions import Pins
from accredit.policy.drill import DRILL, DRILL_SCOPE, SENSITIVE_DRILL
from accredit.policy.quotas import Quota, Quotas

pytestmark = [pytest.mark.holds("policy/drill", "no-server"), pytest.mark.holds("gateway/admission/gate", "own-tools")]
everywhere = pytest.mark.parametrize("name", ROUTES)
NONE = Quota(by="server", tools=frozenset({"*"}), window_s=3600, window="1h", most=1)


def params(tool: str = DRILL, **arguments: Any) -> dict[str, Any]:
    return {"name": tool, "arguments": arguments}


def proof(trust: Trust, call: dict[str, Any], *scope: str, **signed: Any) -> dict[str, Any]:
    chain = trust.chain(*(scope or (DRILL_SCOPE,)))
    return trust.proof(chain, "tools/call", call, Signed(scope=DRILL_SCOPE, **signed))


@everywhere
@pytest.mark.holds("policy/drill", "no-list")
async def test_a_call_that_passes_is_answered_and_recorded_and_no_server_hears_of_it(
    name: str, trust: Trust, tmp_path: Path
) -> None:
    """Not even to list its tools: pins and quotas are for what servers do."""

    settings: dict[str, Any] = {"pins": Pins(tools={}), "policy": {"quotas": Quotas((NONE,))}}
    async with Route(name, trust, tmp_path, records=records_at(tmp_path / "log.db"), **settings) as route:
        before = len(route.received())
        for number in range(2):
            call = params(n=number)
            answer = await route.ask("tools/call", with_proof(call, proof(trust, call, session=route.session)))
            assert answer["result"]["isError"] is False
        call = params(SENSITIVE_DRILL)
        told = await route.ask("tools/call", call)
        signed = proof(trust, call, session=route.session, challenge=challenge_in(told["error"]))
        assert "result" in await route.ask("tools/call", with_proof(call, signed))
        assert len(route.received()) == before
    recorded = [(each["target"], each["verdict"], each["status"]) for each in calls_of(tmp_path / "log.db")]
    passed = (DRILL, "allow", "ok")
    sensitive = [(SENSITIVE_DRILL, "challenge", None), (SENSITIVE_DRILL, "allow", "ok")]
    assert recorded == [passed, passed, *sensitive]


@everywhere
async def test_a_stranger_learns_of_it_what_any_guarded_call_tells(name: str, trust: Trust, tmp_path: Path) -> None:
    async with Route(name, trust, tmp_path) as route:
        refusals: list[dict[str, Any]] = []
        for tool, scope in ((DRILL, DRILL_SCOPE), ("list_inbox", "email:read")):
            error = (await route.ask("tools/call", params(tool)))["error"]
            refusals.append(_without(error, tool, scope))
        assert refusals[0] == refusals[1]
        assert route.received("tools/call") == []


def _without(error: dict[str, Any], tool: str, scope: str) -> dict[str, Any]:
    data = {**error["data"], "tool": "", "target": "", "required_scope": ""}
    assert error["data"]["required_scope"] == scope
    return {"code": error["code"], "message": error["message"].replace(tool, ""), "data": data}


@everywhere
@pytest.mark.holds("policy/drill", "scope")
async def test_its_scope_lets_nothing_else_pass__and_no_other_scope_lets_it_pass(
    name: str, trust: Trust, tmp_path: Path
) -> None:
    async with Route(name, trust, tmp_path) as route:
        inbox = params("list_inbox")
        signed = trust.proof(trust.chain(DRILL_SCOPE), "tools/call", inbox, Signed(session=route.session))
        other = await route.ask("tools/call", with_proof(inbox, signed))
        call = params()
        wide = proof(trust, call, "email:read", "mcp:tool", "comms:*", "execute:*", session=route.session)
        own = await route.ask("tools/call", with_proof(call, wide))
        assert [each["error"]["data"]["error"] for each in (other, own)] == ["ratify_scope_denied"] * 2
        assert route.received("tools/call") == []


@everywhere
@pytest.mark.parametrize("mode", ["off", "off, on record"])
async def test_where_proofs_are_off_there_is_no_such_tool_and_still_no_server_hears_of_it(
    name: str, mode: str, trust: Trust, tmp_path: Path
) -> None:
    log = records_at(tmp_path / "log.db") if mode != "off" else None
    async with Route(name, trust, tmp_path, required=False, records=log) as route:
        answer = await route.ask("tools/call", params())
        assert (answer["error"]["code"], answer["error"]["data"]["error"]) == (-32602, "unknown_tool")
        posted = post(route.era, params=params())
        unasked = compact({key: value for key, value in json.loads(posted.body).items() if key != "id"})
        told = await route.send(Posted(posted.headers, unasked))
        assert told.status == 400, "nor of one that nobody waits for"
        assert route.received("tools/call") == []
    if log is not None:
        assert [each["error"] for each in calls_of(tmp_path / "log.db")] == ["unknown_tool"]


@everywhere
async def test_where_proofs_are_only_observed_it_is_answered_and_the_record_says_what_would_have_been(
    name: str, trust: Trust, tmp_path: Path
) -> None:
    log = records_at(tmp_path / "log.db")
    more: dict[str, Any] = {"required": False, "policy": {"observes": True}, "quotas": Quotas((NONE,))}
    async with Route(name, trust, tmp_path, records=log, **more) as route:
        for _ in range(2):
            assert "result" in await route.ask("tools/call", params())
        assert route.received("tools/call") == []
    recorded = [(each["error"], each["enforced"], each["status"]) for each in calls_of(tmp_path / "log.db")]
    assert recorded == [("missing_ratify_proof", False, "ok")] * 2


async def test_a_state_that_it_gives_is_sealed_and_good_for_that_call_alone(trust: Trust, tmp_path: Path) -> None:
    async with Route("http-modern", trust, tmp_path) as route:

        async def ask(call: dict[str, Any]) -> dict[str, Any]:
            return await route.ask("tools/call", with_proof(call, proof(trust, call)))

        first = (await ask(params(asks=True)))["result"]
        assert first["resultType"] == "input_required"
        state = first["requestState"]
        assert state.startswith("s1.")
        other = await ask({**params(asks=True, n=1), "requestState": state})
        assert other["error"]["code"] == -32602
        last = await ask({**params(asks=True), "requestState": state})
        assert last["result"]["resultType"] == "complete"
        assert route.received("tools/call") == []


@pytest.mark.parametrize("mode", ["required", "observe", "off"])
async def test_at_the_endpoint_of_several_it_has_its_own_name_alone(mode: str, trust: Trust) -> None:
    """A server's own tool of that name is not reached by its merged name either, whatever the mode."""
    modes: dict[str, dict[str, Any]] = {"observe": {"policy": {"observes": True}, "required": False}}
    settings = modes.get(mode, {"required": mode == "required"})

    async with Several(trust, merge=True, **settings) as gateway:
        call = params()
        merged = await gateway.send_merged(modern(with_proof(call, proof(trust, call))))
        at_mail = proof(trust, call, gateway=f"{GATEWAY}/mail")
        own = await gateway.send("mail", modern(with_proof(call, at_mail)))
        if mode == "off":
            assert [error_of(each)["data"]["error"] for each in (merged, own)] == ["unknown_tool"] * 2
        else:
            assert [result_of(each)["isError"] for each in (merged, own)] == [False, False]
        hidden = params(f"mail__{DRILL}")
        refused = await gateway.send_merged(modern(with_proof(hidden, proof(trust, hidden))))
        assert error_of(refused)["data"]["error"] == "unknown_tool"
        assert [each for server in gateway.servers.values() for each in server.messages] == []


def test_a_host_at_wrap_has_it_answered_too__and_the_child_gets_no_line_of_it(tmp_path: Path) -> None:
    configured(tmp_path, '[gateway]\nid = "gw"\n[proofs]\nmode = "observe"\n[store]\nurl = "memory:"\n')
    child = ("/bin/sh", "-c", "cat >&2")
    with wrapped(tmp_path, "--log-format", "json", child=child) as wrap:
        for tool in (DRILL, "hello"):
            message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params(tool)}
            wrap.write(compact(message))
        answer = json.loads(wrap.line())
        wait_until(lambda: "hello" in wrap.stderr)
        assert "no server has heard of it" in answer["result"]["content"][0]["text"]
        assert DRILL not in "".join(line for line in wrap.stderr.splitlines() if "upstream_stderr" in line)
