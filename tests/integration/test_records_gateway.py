"""Records through the gateway, on every way: the decision before the call, the outcome before the answer."""

import hashlib
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from tests.world.authorization import Signed, Trust
from tests.world.calls import compact, notification, post
from tests.world.outcome_server import noted
from tests.world.raw_client import RawAnswer, RawClient
from tests.world.raw_server import PATIENCE, until
from tests.world.record_signers import key_pair, kms_registered
from tests.world.recorded import FailingRecords, calls_of, outcomes, records_at, records_of, verified
from tests.world.routes import ROUTES, Route, messages_of
from tests.world.tokened import Tokened

from accredit.errors import ConfigurationError
from accredit.gateway import create_app
from accredit.gateway.settings import GatewaySettings, HttpUpstream, RecordSettings
from accredit.jsonrpc.methods import Era
from accredit.keys.record_signers import load_record_key, load_record_signer
from accredit.policy.catalog import Catalog, Entry
from accredit.policy.facts import Facts
from accredit.ratify.constraints import MaxAmount
from accredit.stores.audit_log import writer

SECRET = "swordfish-7f3a"
everywhere = pytest.mark.parametrize("name", ROUTES)


def recorded(name: str, trust: Trust, folder: Path, **more: Any) -> Route:
    """A way on which proofs are off and calls are recorded durably."""
    given: dict[str, Any] = {"records": records_at(folder / "log.db"), "required": False, **more}
    return Route(name, trust, folder, **given)


async def call(route: Route, tool: str, *, id: int = 70, **params: Any) -> RawAnswer:
    sent = {"name": tool, "arguments": {"word": SECRET}, **params}
    return await route.send(post(route.era, "tools/call", sent, id=id, capabilities={"roots": {}}))


@everywhere
async def test_each_outcome_is_on_disk_when_the_client_has_its_answer(name: str, trust: Trust, tmp_path: Path) -> None:
    async with recorded(name, trust, tmp_path) as route:
        expected: list[tuple[str, str]] = []
        for tool, status in (
            ("ok", "ok"),
            ("fail", "tool_error"),
            ("error", "error"),
            *([("ask", "input_required")] if route.era is Era.MODERN else []),
            ("bad", "upstream_invalid"),
            ("ok", "ok"),
        ):
            answer = await call(route, tool)
            expected.append((tool, status))
            assert outcomes(route.log) == expected, answer
        seen = [(note["tool"], note["open"]) for note in noted(route.notes)]
        assert seen == [(tool, [tool]) for tool, _ in expected]
        for record in records_of(route.log):
            assert record.gateway == "mail-gateway"
            assert record.call.session == (route.session or None)
            assert record.call.revision == ("2025-11-25" if route.era is Era.LEGACY else "2026-07-28")
            assert record.authority is None
    assert verified(tmp_path / "log.db").valid


@everywhere
async def test_both_records_of_a_call_name_its_trace_and_its_policy(name: str, trust: Trust, tmp_path: Path) -> None:
    trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"

    async with recorded(name, trust, tmp_path) as route:
        await call(route, "ok", _meta={"traceparent": f"00-{trace}-{parent}-01"})
        await call(route, "ok", _meta={"traceparent": f"00-{'0' * 32}-{parent}-01"})
        found = records_of(route.log)
        assert [each.call.trace for each in found] == [trace, trace, None, None]
        assert len({each.policy for each in found}) == 1
        assert found[0].policy is not None
        assert [each.decision.enforced for each in found if each.decision is not None] == [True, True]


@pytest.mark.slow
@everywhere
@pytest.mark.parametrize(("tool", "status"), [("hang", "timeout"), ("die", "unknown")])
async def test_a_call_that_is_cut_off_or_late_has_an_outcome(
    name: str, tool: str, status: str, trust: Trust, tmp_path: Path
) -> None:
    late = 3 if name.startswith("stdio") else 1  # a child has to start within it, however busy the machine is
    patience = late if tool == "hang" else PATIENCE

    async with recorded(name, trust, tmp_path, upstream_timeout_seconds=patience) as route:
        refused = await call(route, tool)
        assert outcomes(route.log) == [(tool, status)]
        assert b"Upstream unavailable" in refused.body
    assert verified(tmp_path / "log.db").valid


@everywhere
async def test_a_client_that_goes_away_has_cancelled_its_call(name: str, trust: Trust, tmp_path: Path) -> None:
    async with recorded(name, trust, tmp_path) as route:
        posted = post(route.era, "tools/call", {"name": "hang", "arguments": {}})
        headers = [pair for pair in posted.headers if pair[0] != "Mcp-Session-Id"]
        if route.session:
            headers.append(("Mcp-Session-Id", route.session))
        async with RawClient(route.port) as client:
            await client.ask("POST", "/mcp", headers, posted.body)
            await until(lambda: [note["tool"] for note in noted(route.notes)] == ["hang"])
        await until(lambda: outcomes(route.log) == [("hang", "cancelled")])


@pytest.mark.parametrize("name", ["http-legacy", "stdio-legacy"])
async def test_a_cancelled_request_is_recorded_as_cancelled(name: str, trust: Trust, tmp_path: Path) -> None:
    async with recorded(name, trust, tmp_path, upstream_timeout_seconds=PATIENCE) as route:
        posted = post(route.era, "tools/call", {"name": "hang", "arguments": {}}, id=99)
        headers = [pair for pair in posted.headers if pair[0] != "Mcp-Session-Id"]
        async with RawClient(route.port) as client:
            await client.ask("POST", "/mcp", [*headers, ("Mcp-Session-Id", route.session)], posted.body)
            await until(lambda: len(noted(route.notes)) == 1)
            assert (await route.send(notification(route.era))).status == 202
            if name == "stdio-legacy":
                assert b"-32800" in (await client.answer()).body
        await until(lambda: outcomes(route.log) == [("hang", "cancelled")])


@pytest.mark.holds("gateway/upstream/http/sse_relay", "recorded")
@everywhere
async def test_a_result_whose_outcome_cannot_be_recorded_is_withheld(name: str, trust: Trust, tmp_path: Path) -> None:
    log = FailingRecords()
    async with recorded(name, trust, tmp_path, records=log) as route:
        for tool, status in (("ok", "ok"), ("error", "error"), ("bad", "upstream_invalid")):
            answer = await call(route, tool)
            assert answer.status == 200
            told = messages_of(answer)[-1]
            assert told["id"] == 70
            assert told["error"]["code"] == -31006
            assert told["error"]["data"]["error"] == "record_unavailable"
            assert told["error"]["data"]["forwarded"] is True
            assert SECRET.encode() not in answer.body
            assert b"secret-place" not in answer.body
            assert log.outcomes[-1].status == status
        await log.aclose()
        async with RawClient(route.port) as client:
            await client.ask("GET", "/readyz")
            ready = await client.answer()
        told = json.loads(ready.body)
        assert (ready.status, told["status"], told["records"]) == (503, "not ready", False)
        assert b"disk" not in ready.body


@pytest.mark.holds("gateway/recording/recorder", "decision-first")
@pytest.mark.holds("policy/decide", "record")
@pytest.mark.holds("gateway/front/endpoint", "gate")
@everywhere
async def test_without_a_record_of_the_decision_nothing_is_forwarded(name: str, trust: Trust, tmp_path: Path) -> None:
    async with recorded(name, trust, tmp_path, records=FailingRecords(decisions=False)) as route:
        told = messages_of(await call(route, "ok"))[-1]
        assert (told["error"]["code"], told["error"]["data"]["forwarded"]) == (-31006, False)
        assert noted(route.notes) == []
        assert "result" in await route.ask("tools/list", {})


@everywhere
async def test_a_refusal_stays_what_it_is_where_the_log_is_down__and_that_it_left_no_record_is_counted(
    name: str, trust: Trust, tmp_path: Path
) -> None:
    log = FailingRecords(decisions=False)
    async with recorded(name, trust, tmp_path, records=log, required=True) as route:

        async def code(tool: str, *scope: str) -> int:
            params: dict[str, Any] = {"name": tool, "arguments": {}}
            if scope:
                proof = trust.proof(trust.chain(*scope), "tools/call", params, Signed(session=route.session))
                params["_meta"] = {"ratify_proof": proof}
            return (await route.ask("tools/call", params))["error"]["code"]

        asked = [("list_inbox",), ("send_email",), ("drop_tables",), ("list_inbox", "email:send")]
        assert [await code(*each) for each in asked] == [-31001, -31002, -32602, -31003]
        assert await code("list_inbox", "email:read") == -31006
        assert noted(route.notes) == []
        assert route.app.refused["denial_unrecorded"] == len(asked)


@everywhere
async def test_while_the_signer_of_records_fails_nothing_is_forwarded(name: str, trust: Trust, tmp_path: Path) -> None:
    key_pair(tmp_path / "records.pem")

    with kms_registered() as kms:
        kms.add(tmp_path / "records.pem")
        signer = load_record_signer("testkms:key", tmp_path / "records.pem.pub", tmp_path)
        async with recorded(name, trust, tmp_path, records=records_at(tmp_path / "log.db", signer=signer)) as route:
            assert "result" in messages_of(await call(route, "ok"))[-1]
            kms.fault = "swordfish is not the PIN"
            told = messages_of(await call(route, "ok"))[-1]
            assert (told["error"]["code"], told["error"]["data"]["forwarded"]) == (-31006, False)
            assert SECRET.partition("-")[0] not in json.dumps(told)
            assert len(noted(route.notes)) == 1
            kms.fault = None
            assert "result" in messages_of(await call(route, "ok"))[-1]
        found = verified(tmp_path / "log.db", load_record_key(tmp_path / "records.pem.pub"))
        assert (found.valid, found.records) == (True, 4)


async def test_while_the_log_is_locked_nothing_is_forwarded(
    trust: Trust, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with recorded("http-modern", trust, tmp_path) as route:
        await call(route, "ok")
        other = sqlite3.connect(route.log, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with monkeypatch.context() as impatient:
            impatient.setattr(writer, "STORE_LOCK_SECONDS", 0.2)
            told = messages_of(await call(route, "ok"))[-1]
        assert (told["error"]["code"], told["error"]["data"]["forwarded"]) == (-31006, False)
        other.execute("ROLLBACK")
        other.close()
        assert "result" in messages_of(await call(route, "ok"))[-1]
        assert len(noted(route.notes)) == 2
    assert verified(tmp_path / "log.db").valid


# --- decisions --------------------------------------------------------------------------------------


@everywhere
async def test_refused_calls_are_recorded_and_allowed_ones_with_who_asked(
    name: str, trust: Trust, tmp_path: Path
) -> None:
    async with recorded(name, trust, tmp_path, required=True) as route:

        def proved(tool: str, *scope: str) -> dict[str, Any]:
            params = {"name": tool, "arguments": {"word": SECRET}}
            chain = trust.chain(*scope) if scope else trust.chain()
            proof = trust.proof(chain, "tools/call", params, Signed(session=route.session))
            return {**params, "_meta": {"ratify_proof": proof, "token": SECRET}}

        await route.ask("tools/call", {"name": "list_inbox", "arguments": {"word": SECRET}})
        await route.ask("tools/call", {"name": "drop_tables", "arguments": {"word": SECRET}})
        await route.ask("tools/call", {"name": "send_email", "arguments": {}})
        await route.ask("tools/call", proved("list_inbox", "email:send"))
        spent = proved("list_inbox")
        assert "result" in await route.ask("tools/call", spent)
        await route.ask("tools/call", spent)
        await route.ask("tools/list", {})
        found = calls_of(route.log)
        assert [(each["target"], each["verdict"], each.get("error"), each["status"]) for each in found] == [
            ("list_inbox", "deny", "missing_ratify_proof", None),
            ("drop_tables", "deny", "unknown_tool", None),
            ("send_email", "challenge", "ratify_challenge_required", None),
            ("list_inbox", "deny", "ratify_scope_denied", None),
            ("list_inbox", "allow", None, "ok"),
            ("list_inbox", "deny", "ratify_replayed", None),
        ]
        assert [each["record"].authority is not None for each in found] == [False, False, False, True, True, False]
        authority = found[4]["record"].authority
        assert (authority.principal_id, authority.principal_name) == (trust.owner.id, "Owner")
        assert (authority.agent_id, authority.scope, authority.bound) == (trust.agent.id, "email:read", True)
        assert found[3]["record"].authority.agent_id == trust.agent.id
    assert verified(tmp_path / "log.db").valid
    stored = b"".join(path.read_bytes() for path in tmp_path.glob("log.db*") if path.is_file())
    assert SECRET.encode() not in stored


@pytest.mark.parametrize("full", [False, True])
async def test_a_digest_record_holds_no_argument_not_even_in_a_reason(full: bool, trust: Trust, tmp_path: Path) -> None:
    catalog = Catalog(tools={"pay": Entry(scope="payments:send", facts=Facts({"amount": "/a", "currency": "/c"}))})
    given = {"required": True, "full": full, "policy": {"catalog": catalog}}
    async with recorded("http-modern", trust, tmp_path, **given) as route:
        params = {"name": "pay", "arguments": {"a": 87654321, "c": "EUR"}}
        chain = trust.chain("payments:send", constraints=(MaxAmount(max_amount=5, currency="EUR"),))
        proof = trust.proof(chain, "tools/call", params, Signed())
        told = await route.ask("tools/call", {**params, "_meta": {"ratify_proof": proof, "token": SECRET}})
        assert "87654321" in told["error"]["message"]
        (found,) = calls_of(route.log)
        reason = "constraint_denied: cert 0: constraint[0] (max_amount)"
        assert found["reason"].startswith(reason)
        assert (found["reason"] == reason) is not full
    stored = b"".join(path.read_bytes() for path in tmp_path.glob("log.db*") if path.is_file())
    assert (b"87654321" in stored) is full
    assert SECRET.encode() not in stored


@pytest.mark.parametrize("name", ["http-modern", "sse-modern", "stdio-modern"])
async def test_the_legs_of_a_multi_round_call_have_one_flow_and_a_forged_state_is_a_refusal(
    name: str, trust: Trust, tmp_path: Path
) -> None:
    async with recorded(name, trust, tmp_path) as route:
        asked = messages_of(await call(route, "ask"))[-1]["result"]
        answers = {"r": {"roots": []}}
        await call(route, "ask", requestState=asked["requestState"], inputResponses=answers)
        await call(route, "ask", requestState="forged", inputResponses=answers)
        first, second, forged = calls_of(route.log)
        assert (first["record"].call.round, second["record"].call.round) == (1, 2)
        assert first["record"].call.flow == second["record"].call.flow
        assert first["status"] == second["status"] == "input_required"
        assert (forged["verdict"], forged["error"]) == ("deny", "invalid_request_state")
        assert len(noted(route.notes)) == 2


@everywhere
async def test_a_record_says_whose_token_came_and_never_the_token(name: str, trust: Trust, tmp_path: Path) -> None:
    world = Tokened()
    token = world.token(sub="agent-7")

    given = {"tokens": world.settings(), "key_sets": world.key_sets, "token": token, "full": True}
    async with recorded(name, trust, tmp_path, **given) as route:
        for arguments, meta in (({"_token": token}, {}), ({}, {"token": token})):
            sent = {"name": "ok", "arguments": {"kept": 1, **arguments}, "_meta": meta}
            answer = await route.send(post(route.era, "tools/call", sent))
            assert answer.status == 200, answer
        for found in calls_of(route.log):
            said = found["record"].token
            assert (said.subject, said.sha256) == ("agent-7", hashlib.sha256(token.encode()).hexdigest())
            assert json.loads(bytes(found["record"].call.params)) == {"name": "ok", "arguments": {"kept": 1}}
        assert outcomes(route.log) == [("ok", "ok"), ("ok", "ok")]
    stored = b"".join(path.read_bytes() for path in tmp_path.glob("log.db*") if path.is_file())
    assert world.mark(token) not in stored


# --- other ways -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["http-legacy", "sse-legacy", "stdio-legacy"])
async def test_each_member_of_a_batch_has_its_own_records(name: str, trust: Trust, tmp_path: Path) -> None:
    async with recorded(name, trust, tmp_path) as route:
        members = [
            {"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": {"name": tool, "arguments": {}}}
            for n, tool in enumerate(("ok", "fail", "error"))
        ]
        answers = await route.batch(*members, {"jsonrpc": "2.0", "id": 9, "method": "tools/list"})
        assert {answer["id"] for answer in answers if "id" in answer} == {0, 1, 2, 9}
        assert sorted(outcomes(route.log)) == [("error", "error"), ("fail", "tool_error"), ("ok", "ok")]


async def test_of_a_batch_only_what_is_recorded_is_shown(trust: Trust, tmp_path: Path) -> None:
    async with recorded("http-legacy", trust, tmp_path, records=FailingRecords()) as route:
        members = [
            {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "ok", "arguments": {}}},
            {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
        ]
        first, second = sorted(await route.batch(*members), key=lambda answer: answer["id"])
        assert first["error"]["code"] == -31006
        assert "result" in second


@everywhere
async def test_with_records_and_without_proofs_no_call_goes_around_the_record(
    name: str, trust: Trust, tmp_path: Path
) -> None:
    async with recorded(name, trust, tmp_path) as route:
        for method in ("Tools/Call", " tools/call", "resources/READ"):
            answer = await route.send(post(route.era, method, {"name": "ok", "arguments": {}}))
            assert json.loads(answer.body)["error"]["code"] in (-32601, -32020, -32602)
        posted = post(route.era, "tools/call", {"name": "ok", "arguments": {}})
        nameless = json.loads(posted.body)
        del nameless["id"]
        answer = await route.send(type(posted)(posted.headers, compact(nameless)))
        assert answer.status == 400
        surrogate = posted.body.replace(b'"arguments":{', b'"arguments":{"x":"\\ud800"')
        answer = await route.send(type(posted)(posted.headers, surrogate))
        assert b'"error"' in answer.body
        assert noted(route.notes) == []


async def test_a_bad_answer_that_is_only_observed_is_recorded_as_bad(trust: Trust, tmp_path: Path) -> None:
    for name in ("http-modern", "sse-modern", "stdio-legacy"):
        folder = tmp_path / name
        folder.mkdir()
        async with recorded(name, trust, folder, enforce=False) as route:
            answer = await call(route, "bad")
            assert b'"both"' in answer.body
            assert outcomes(route.log) == [("bad", "upstream_invalid")]


async def test_in_mode_record_the_answer_does_not_wait_for_the_disk(trust: Trust, tmp_path: Path) -> None:
    log = records_at(tmp_path / "log.db", durable=False)
    async with recorded("http-modern", trust, tmp_path, records=log) as route:
        for tool in ("ok", "fail"):
            await call(route, tool)
    assert outcomes(tmp_path / "log.db") == [("ok", "ok"), ("fail", "tool_error")]
    assert verified(tmp_path / "log.db").valid


def test_records_without_a_log_stop_the_start() -> None:
    settings = GatewaySettings(HttpUpstream("http://127.0.0.1:9/mcp"), records=RecordSettings("gate"))
    with pytest.raises(ConfigurationError, match="no log"):
        create_app(settings)
