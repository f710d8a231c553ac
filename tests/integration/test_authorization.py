"""No proof, no call: the same verdicts whatever the transport, and what is refused never reaches the server."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.world.authorization import CATALOG, GATEWAY, Signed, Trust, challenge_in
from tests.world.calls import compact, post
from tests.world.raw_server import PATIENCE
from tests.world.routes import ROUTES, Route

from accredit.base.clock import unix_seconds
from accredit.jsonrpc.methods import Era
from accredit.policy.catalog import Entry
from accredit.policy.passing import AUTHORIZATION
from accredit.ratify import issue_revocation_list
from accredit.ratify.constraints import MaxAmount, MaxRate
from accredit.stores import RevocationLists

pytestmark = pytest.mark.holds("gateway/admission/judge")

INBOX = {"name": "list_inbox", "arguments": {"limit": 3}}
SEND = {"name": "send_email", "arguments": {"to": "a@example.com", "subject": "hi"}}


def with_proof(params: dict[str, Any], proof: object) -> dict[str, Any]:
    return {**params, "_meta": {**params.get("_meta", {}), "ratify_proof": proof}}


everywhere = pytest.mark.parametrize("name", ROUTES)


def refused(answer: dict[str, Any], code: int, error: str) -> dict[str, Any]:
    """Checks a refusal; gives its data."""
    assert answer["error"]["code"] == code, answer
    assert answer["error"]["message"].startswith(f"{error}:"), answer
    assert answer["error"]["data"]["error"] == error
    assert isinstance(answer["error"]["data"]["_meta"], dict)
    return answer["error"]["data"]


@everywhere
async def test_a_call_is_allowed_by_a_fresh_bound_proof__and_the_server_learns_on_whose_word(
    name: str, trust: Trust, tmp_path: Path
) -> None:
    async with Route(name, trust, tmp_path) as route:
        chain = trust.chain()
        proof = trust.proof(chain, "tools/call", INBOX, Signed(session=route.session))
        answer = await route.ask("tools/call", with_proof(INBOX, proof))
        assert answer["result"]["content"][0]["text"] == "called list_inbox"
        (came,) = route.received("tools/call")
        assert came["params"]["arguments"] == INBOX["arguments"]
        assert came["params"]["_meta"][AUTHORIZATION] == {
            "principal_id": trust.owner.id,
            "principal_name": "Owner",
            "agent_id": trust.agent.id,
            "granted_scope": sorted(chain[0].scope),
            "cert_ids": [chain[0].cert_id],
            "token_issuer": None,
            "token_subject": None,
            "token_scopes": None,
        }
        assert "ratify_proof" not in came["params"]["_meta"]
        assert "challenge" not in json.dumps(came)


@pytest.mark.holds("gateway/admission/gate", "decision")
@everywhere
async def test_what_is_refused_never_reaches_the_server(name: str, trust: Trust, tmp_path: Path) -> None:
    async with Route(name, trust, tmp_path) as route:
        chain = trust.chain()

        def proof(params: dict[str, Any] = INBOX, using: Any = chain, **signed: Any) -> dict[str, Any]:
            given: dict[str, Any] = {"session": route.session, **signed}
            return trust.proof(using, "tools/call", params, Signed(**given))

        async def ask(params: dict[str, Any], proof: object) -> dict[str, Any]:
            return await route.ask("tools/call", with_proof(params, proof))

        data = refused(await route.ask("tools/call", INBOX), -31001, "missing_ratify_proof")
        assert (data["tool"], data["required_scope"]) == ("list_inbox", "email:read")
        other = {"name": "list_inbox", "arguments": {"limit": 4}}
        for params in (other, {"name": "pay", "arguments": INBOX["arguments"]}):
            data = refused(await ask(params, proof()), -31003, "ratify_invalid")
            assert data["reason"].startswith("session_context_mismatch")
        data = refused(await ask(INBOX, proof(gateway="another")), -31003, "ratify_invalid")
        assert data["identity_status"] == "invalid"
        data = refused(await ask(INBOX, proof(session="another session")), -31003, "ratify_invalid")
        data = refused(await ask(INBOX, proof(age=31)), -31003, "ratify_invalid")
        seconds = re.fullmatch(r"stale_challenge: challenge is (\d+) seconds old \(max 30\)", data["reason"])
        assert seconds is not None
        assert int(seconds[1]) >= 31  # more, where a second begins meanwhile
        data = refused(await ask(INBOX, proof(age=-60)), -31003, "ratify_invalid")
        expired = trust.chain("email:read", begins=-100, ends=-10)
        data = refused(await ask(INBOX, proof(using=expired)), -31003, "ratify_expired")
        assert data["principal_id"] == trust.owner.id
        narrow = trust.chain("email:send")
        answer = await ask(INBOX, proof(using=narrow))
        data = refused(answer, -31003, "ratify_scope_denied")
        assert answer["error"]["message"] == (
            "ratify_scope_denied: this delegation covers email:send; list_inbox needs email:read"
        )
        assert data["granted_scope"] == ["email:send"]
        assert (data["identity_status"], data["agent_id"]) == ("scope_denied", trust.agent.id)
        self_made = trust.chain("email:read", issuer=trust.stranger)
        refused(await ask(INBOX, proof(using=self_made)), -31004, "ratify_untrusted_root")
        spoofed = json.loads(json.dumps(proof(using=self_made)).replace(trust.stranger.id, trust.owner.id))
        refused(await ask(INBOX, spoofed), -31004, "ratify_untrusted_root")
        for junk in ("proof", [], {}, 7, True, None, {"agent_id": "x"}):
            refused(await ask(INBOX, junk), -31003, "ratify_invalid")
        unknown = {"name": "drop_tables", "arguments": {}}
        refused(await ask(unknown, proof(unknown, scope="")), -32602, "unknown_tool")
        hidden = {"name": "secret_tool", "arguments": {}}
        refused(await ask(hidden, proof(hidden, scope="")), -32602, "unknown_tool")
        assert route.received("tools/call") == []


@everywhere
async def test_a_call_without_an_id__or_with_its_method_spelled_otherwise__does_not_pass(
    name: str, trust: Trust, tmp_path: Path
) -> None:
    async with Route(name, trust, tmp_path) as route:
        for method in ("tools/call", "Tools/Call", " tools/call", "resources/READ", "prompts/get"):
            target = {"uri": "mail://1"} if "res" in method else INBOX
            posted = post(route.era, method, target)
            call = json.loads(posted.body)
            del call["id"]
            for body in (posted.body, compact(call)):
                answer = await route.send(type(posted)(posted.headers, body))
                code = json.loads(answer.body)["error"]["code"]
                assert code in (-31001, -32601, -32600, -32602, -32020), (method, answer)
        if route.era is Era.LEGACY:
            call = {"jsonrpc": "2.0", "method": "tools/call", "params": INBOX}
            answers = await route.batch(call, {"jsonrpc": "2.0", "id": 1, "method": "ping"})
            assert {answer["id"] for answer in answers} == {1, None}
        assert [came for came in route.received() if "all" in came["method"].lower()] == []


@everywhere
async def test_a_stolen_proof_is_worth_nothing_a_second_time(name: str, trust: Trust, tmp_path: Path) -> None:
    async with Route(name, trust, tmp_path) as route:
        proof = trust.proof(trust.chain(), "tools/call", INBOX, Signed(session=route.session))
        assert "result" in await route.ask("tools/call", with_proof(INBOX, proof))
        refused(await route.ask("tools/call", with_proof(INBOX, proof)), -31005, "ratify_replayed")
        loose = trust.proof(trust.chain(), "tools/call", INBOX, Signed(bound=False))
        assert "result" in await route.ask("tools/call", with_proof(INBOX, loose))
        pay = {"name": "pay", "arguments": {}}
        refused(await route.ask("tools/call", with_proof(pay, loose)), -31005, "ratify_replayed")
        assert len(route.received("tools/call")) == 2


@everywhere
async def test_a_forged_proof_does_not_spend_a_real_challenge(name: str, trust: Trust, tmp_path: Path) -> None:
    async with Route(name, trust, tmp_path) as route:
        proof = trust.proof(trust.chain(), "tools/call", INBOX, Signed(session=route.session))
        forged = {**proof, "challenge_sig": trust.proof(trust.chain(), "tools/call", INBOX)["challenge_sig"]}
        data = refused(await route.ask("tools/call", with_proof(INBOX, forged)), -31003, "ratify_invalid")
        assert data["reason"].startswith("bad_challenge_sig")
        assert "result" in await route.ask("tools/call", with_proof(INBOX, proof))


@everywhere
async def test_a_sensitive_call_needs_a_challenge_of_the_gateway_for_that_very_call(
    name: str, trust: Trust, tmp_path: Path
) -> None:
    async with Route(name, trust, tmp_path) as route:
        chain = trust.chain()

        def signed(params: dict[str, Any], challenge: bytes, **more: Any) -> dict[str, Any]:
            given = Signed(session=route.session, challenge=challenge, **more)
            return with_proof(params, trust.proof(chain, "tools/call", params, given))

        async def challenge() -> bytes:
            answer = await route.ask("tools/call", SEND)
            data = refused(answer, -31002, "ratify_challenge_required")
            told = data["_meta"]["ratify_challenge"]
            assert (told["verifier_id"], told["binding"]) == (GATEWAY, "optional")
            assert unix_seconds() < told["expires_at"] <= unix_seconds() + 61
            return challenge_in(answer["error"])

        own = trust.proof(chain, "tools/call", SEND, Signed(session=route.session))
        refused(await route.ask("tools/call", with_proof(SEND, own)), -31002, "ratify_challenge_required")
        first = await challenge()
        other = {"name": "send_email", "arguments": {"to": "thief@example.com", "subject": "hi"}}
        # Swapped arguments, bound to what they are now or not at all; another tool; the true call still passes.
        for swapped in (signed(other, first), signed(other, first, bound=False), signed(INBOX, first, bound=False)):
            refused(await route.ask("tools/call", swapped), -31002, "ratify_challenge_required")
        assert "result" in await route.ask("tools/call", signed(SEND, first))
        refused(await route.ask("tools/call", signed(SEND, first)), -31005, "ratify_replayed")
        # An agent's clock that is a second ahead, and a proof that is not bound.
        assert "result" in await route.ask("tools/call", signed(SEND, await challenge(), age=-1))
        assert "result" in await route.ask("tools/call", signed(SEND, await challenge(), bound=False))
        assert len(route.received("tools/call")) == 3


@everywhere
async def test_resources_and_prompts_are_guarded_too(name: str, trust: Trust, tmp_path: Path) -> None:
    async with Route(name, trust, tmp_path) as route:
        for method, params in (
            ("resources/read", {"uri": "mail://1"}),
            ("prompts/get", {"name": "greet", "arguments": {"who": "you"}}),
        ):
            refused(await route.ask(method, params), -31001, "missing_ratify_proof")
            narrow = trust.proof(trust.chain("email:read"), method, params, Signed(session=route.session))
            refused(await route.ask(method, with_proof(params, narrow)), -31003, "ratify_scope_denied")
            proof = trust.proof(trust.chain(), method, params, Signed(session=route.session))
            assert "result" in await route.ask(method, with_proof(params, proof))
            assert len(route.received(method)) == 1


@everywhere
async def test_lists_say_what_is_needed__and_with_a_proof_only_what_it_covers(
    name: str, trust: Trust, tmp_path: Path
) -> None:
    async with Route(name, trust, tmp_path) as route:
        pages = [await route.ask("tools/list", {}), await route.ask("tools/list", {"cursor": "2"})]
        tools = {tool["name"]: tool for page in pages for tool in page["result"]["tools"]}
        assert list(tools) == ["list_inbox", "send_email", "pay"]
        said = {"ratify_verifier": GATEWAY, "ratify_binding": "optional"}
        assert tools["list_inbox"]["_meta"] == {"ratify_scope": "email:read", **said}
        assert tools["send_email"]["_meta"] == {
            "color": "red",
            "ratify_scope": "email:send",
            "ratify_sensitive": True,
            **said,
        }
        assert pages[0]["result"]["nextCursor"] == "2"
        assert pages[0]["result"]["cacheScope"] == "public"
        narrow = trust.chain("payments:send")
        for cursor, names in ((None, []), ("2", ["pay"])):
            params = {} if cursor is None else {"cursor": cursor}
            proof = trust.proof(narrow, "tools/list", params, Signed(session=route.session))
            page = await route.ask("tools/list", with_proof(params, proof))
            assert [tool["name"] for tool in page["result"]["tools"]] == names
            assert page["result"]["cacheScope"] == "private"
            refused(await route.ask("tools/list", with_proof(params, proof)), -31005, "ratify_replayed")
        for message in route.received("tools/list"):
            assert "ratify_proof" not in message["params"].get("_meta", {})


OTHER_LISTS = [
    ("resources/list", "resources", "uri", {"mail://1": "mcp:resource"}),
    (
        "resources/templates/list",
        "resourceTemplates",
        "uriTemplate",
        {"mail://{id}": "mcp:resource", "vault://{key}": "email:read"},
    ),
    ("prompts/list", "prompts", "name", {"greet": "mcp:prompt"}),
]


@everywhere
async def test_resources_and_prompts_that_a_proof_does_not_cover_are_not_listed__nor_what_no_proof_could_allow(
    name: str, trust: Trust, tmp_path: Path
) -> None:
    prefixes = {"vault://": Entry(scope="email:read"), "vault://y": Entry(scope="email:send")}
    catalog = replace(CATALOG, resource_prefixes=prefixes)

    async with Route(name, trust, tmp_path, policy={"catalog": catalog}) as route:
        for method, member, key, scopes in OTHER_LISTS:
            result = (await route.ask(method, {}))["result"]
            assert {item[key]: item["_meta"]["ratify_scope"] for item in result[member]} == scopes
            assert all(item["_meta"]["ratify_verifier"] == GATEWAY for item in result[member])
            assert result.get("cacheScope") != "private"
            for scope in ("mcp:resource", "mcp:prompt"):
                proof = trust.proof(trust.chain(scope), method, {}, Signed(session=route.session))
                page = (await route.ask(method, with_proof({}, proof)))["result"]
                assert [item[key] for item in page[member]] == [each for each, told in scopes.items() if told == scope]
                assert page["cacheScope"] == "private"
            for message in route.received(method):
                assert "ratify_proof" not in message["params"].get("_meta", {})


@pytest.mark.holds("gateway/admission/gate", "own-tools")
@everywhere
async def test_a_clients_own_authorization_is_removed__however_it_is_spelled(
    name: str, trust: Trust, tmp_path: Path
) -> None:
    spellings = [AUTHORIZATION, "DEV.accredit/Authorization", "dev.accredit/authorizatio\uff4e", f" {AUTHORIZATION}"]
    for claim in ("authority", "admission"):
        spellings += [f"com.ratifyprotocol/{claim}", f"COM.RatifyProtocol/{claim}", f"com.ratifyprotocol/ {claim}"]

    for required in (True, False):
        async with Route(name, trust, tmp_path, required=required) as route:
            spoofed: dict[str, Any] = {spelling: {"principal_id": "the boss"} for spelling in spellings}
            params: dict[str, Any] = {**INBOX, "_meta": {**spoofed, "kept": 1}}
            if required:
                proof = trust.proof(trust.chain(), "tools/call", INBOX, Signed(session=route.session))
                params = with_proof(params, proof)
            posted = post(route.era, "tools/call", params)
            escaped = posted.body.replace(b'"dev.accredit', b'"\\u0064ev.accredit')
            answer = await route.send(type(posted)(posted.headers, escaped))
            assert b'"result"' in answer.body, answer
            await route.ask("completion/complete", {"_meta": spoofed})
            for came in route.received():
                meta: dict[str, Any] = came.get("params", {}).get("_meta", {})
                assert "the boss" not in json.dumps(came)
                assert not (set(spellings) - {AUTHORIZATION}) & set(meta)


@everywhere
async def test_a_proof_counts_under_either_name_and_reaches_no_server__and_of_two_that_differ_neither_does(
    name: str, trust: Trust, tmp_path: Path
) -> None:
    other = "com.ratifyprotocol/proof"

    async with Route(name, trust, tmp_path) as route:

        def made() -> object:
            return trust.proof(trust.chain(), "tools/call", INBOX, Signed(session=route.session))

        one, both, first = made(), made(), made()
        assert "result" in await route.ask("tools/call", {**INBOX, "_meta": {other: one}})
        assert "result" in await route.ask("tools/call", {**INBOX, "_meta": {other: both, "ratify_proof": both}})
        again = await route.ask("tools/call", {**INBOX, "_meta": {other: one}})
        refused(again, -31005, "ratify_replayed")
        for second in (made(), {}, None):
            for meta in ({other: first, "ratify_proof": second}, {other: second, "ratify_proof": first}):
                told = refused(await route.ask("tools/call", {**INBOX, "_meta": meta}), -31003, "ratify_invalid")
                assert "two proofs" in told["reason"]
                told = refused(await route.ask("tools/list", {"_meta": meta}), -31003, "ratify_invalid")
        assert "result" in await route.ask("tools/call", {**INBOX, "_meta": {other: first}})  # nobody spent it
        await route.ask("completion/complete", {"_meta": {other: first, "ratify_proof": first}})
        assert not any("proof" in json.dumps(came) for came in route.received())


@everywhere
async def test_without_proofs_nothing_is_refused_and_scopes_are_still_listed(
    name: str, trust: Trust, tmp_path: Path
) -> None:
    async with Route(name, trust, tmp_path, required=False) as route:
        for tool in ("list_inbox", "send_email", "secret_tool"):
            assert "result" in await route.ask("tools/call", {"name": tool, "arguments": {}})
        page = await route.ask("tools/list", {})
        metas = [tool.get("_meta") for tool in page["result"]["tools"]]
        assert metas == [
            {"ratify_scope": "email:read"},
            {"color": "red", "ratify_scope": "email:send", "ratify_sensitive": True},
        ]
        page = await route.ask("tools/list", {"cursor": "2"})
        assert [tool["name"] for tool in page["result"]["tools"]] == ["pay", "secret_tool", "redeem"]


@everywhere
async def test_constraints_are_held_against_the_arguments(name: str, trust: Trust, tmp_path: Path) -> None:
    async with Route(name, trust, tmp_path) as route:
        limited = trust.chain("payments:send", constraints=(MaxAmount("EUR", 100),))
        for arguments, status in (
            ({"amount": 100.5, "currency": "EUR"}, "constraint_denied"),
            ({"amount": 5, "currency": "USD"}, "constraint_denied"),
            ({"amount": -5, "currency": "EUR"}, "constraint_unverifiable"),
            ({"amount": "5", "currency": "EUR"}, "constraint_unverifiable"),
            ({"currency": "EUR"}, "constraint_unverifiable"),
            ({}, "constraint_unverifiable"),
        ):
            params = {"name": "pay", "arguments": arguments}
            proof = trust.proof(limited, "tools/call", params, Signed(session=route.session))
            data = refused(await route.ask("tools/call", with_proof(params, proof)), -31003, f"ratify_{status}")
            assert data["identity_status"] == status
        params = {"name": "pay", "arguments": {"amount": 100, "currency": "EUR"}}
        proof = trust.proof(limited, "tools/call", params, Signed(session=route.session))
        assert "result" in await route.ask("tools/call", with_proof(params, proof))
        assert len(route.received("tools/call")) == 1


@everywhere
async def test_a_rate_is_never_exceeded_by_calls_at_once(name: str, trust: Trust, tmp_path: Path) -> None:
    async with Route(name, trust, tmp_path) as route:
        chain = trust.chain("email:read", constraints=(MaxRate(3, 3600),))
        proofs = [trust.proof(chain, "tools/call", INBOX, Signed(session=route.session)) for _ in range(8)]
        answers = await asyncio.gather(
            *(route.ask("tools/call", with_proof(INBOX, proof), id=f"c{n}") for n, proof in enumerate(proofs))
        )
        assert sum("result" in answer for answer in answers) == 3
        for answer in answers:
            if "error" in answer:
                refused(answer, -31003, "ratify_constraint_denied")
        assert len(route.received("tools/call")) == 3


@everywhere
async def test_of_64_copies_of_a_proof_at_once_exactly_one_reaches_the_server(
    name: str, trust: Trust, tmp_path: Path
) -> None:
    async with Route(name, trust, tmp_path) as route:
        proof = trust.proof(trust.chain(), "tools/call", INBOX, Signed(session=route.session))
        calls = [route.ask("tools/call", with_proof(INBOX, proof), id=f"c{n}") for n in range(64)]
        answers = await asyncio.gather(*calls)
        assert sum("result" in answer for answer in answers) == 1
        for answer in answers:
            if "error" in answer:
                refused(answer, -31005, "ratify_replayed")
        assert len(route.received("tools/call")) == 1


@everywhere
async def test_a_revocation_is_honoured_while_the_gateway_runs(name: str, trust: Trust, tmp_path: Path) -> None:
    file = tmp_path / "revoked.json"
    file.write_bytes(issue_revocation_list(trust.owner.signer(), (), unix_seconds()).encode())
    lists = RevocationLists([file], {trust.owner.id: trust.owner.public_key})
    lists.load()
    async with Route(name, trust, tmp_path, revocations=lists) as route:
        chain = trust.chain()

        async def ask() -> dict[str, Any]:
            proof = trust.proof(chain, "tools/call", INBOX, Signed(session=route.session))
            return await route.ask("tools/call", with_proof(INBOX, proof))

        assert "result" in await ask()
        before = trust.proof(chain, "tools/call", INBOX, Signed(session=route.session))
        file.write_bytes(issue_revocation_list(trust.owner.signer(), (chain[0].cert_id,), unix_seconds()).encode())
        async with asyncio.timeout(PATIENCE):
            while "result" in (answer := await ask()):
                await asyncio.sleep(0.05)
        data = refused(answer, -31003, "ratify_revoked")
        assert data["principal_id"] == trust.owner.id
        answer = await route.ask("tools/call", with_proof(INBOX, before))
        refused(answer, -31003, "ratify_revoked")


BATCHING = [name for name in ROUTES if name.endswith(Era.LEGACY.value)]


@pytest.mark.parametrize("name", BATCHING)
async def test_a_batch_is_decided_member_by_member(name: str, trust: Trust, tmp_path: Path) -> None:
    async with Route(name, trust, tmp_path) as route:
        proof = trust.proof(trust.chain(), "tools/call", INBOX, Signed(session=route.session))

        def call(id: str, params: dict[str, Any]) -> dict[str, Any]:
            return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}

        listing = {"jsonrpc": "2.0", "id": "list", "method": "tools/list", "params": {"cursor": "2"}}
        told = {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}
        answers = await route.batch(
            call("no", INBOX),
            call("yes", with_proof(INBOX, proof)),
            told,
            call("again", with_proof(INBOX, proof)),
            listing,
            call("bad", {"arguments": {}}),
        )
        found = {answer["id"]: answer for answer in answers}
        assert len(found) == len(answers) == 5
        refused(found["no"], -31001, "missing_ratify_proof")
        refused(found["again"], -31005, "ratify_replayed")
        assert found["bad"]["error"]["code"] == -32602
        assert found["yes"]["result"]["content"][0]["text"] == "called list_inbox"
        assert [tool["name"] for tool in found["list"]["result"]["tools"]] == ["pay"]
        assert [came["id"] for came in route.received("tools/call")] == ["yes"]
        assert len(route.received("notifications/roots/list_changed")) == 1
        answers = await route.batch(call("a", INBOX), call("b", INBOX))
        assert {answer["id"] for answer in answers} == {"a", "b"}
        assert [came["id"] for came in route.received("tools/call")] == ["yes"]


@everywhere
async def test_a_proof_of_120_KiB_passes__one_of_129_KiB_is_refused_before_it_is_parsed(
    name: str, trust: Trust, tmp_path: Path
) -> None:
    async with Route(name, trust, tmp_path) as route:
        proof = trust.proof(trust.chain(), "tools/call", INBOX, Signed(session=route.session))
        short = json.dumps(with_proof(INBOX, proof), separators=(",", ":"))
        for size, code in ((120, None), (129, -31003)):
            fresh = trust.proof(trust.chain(), "tools/call", INBOX, Signed(session=route.session))
            posted = post(route.era, "tools/call", with_proof(INBOX, fresh))
            padding = b" " * (size * 1024 - len(json.dumps(fresh)))
            body = posted.body.replace(b'"ratify_proof":{', b'"ratify_proof":{' + padding)
            assert len(body) > len(short)
            answer = json.loads((await route.send(type(posted)(posted.headers, body))).body.split(b"data: ")[-1])
            if code is None:
                assert "result" in answer, answer
            else:
                data = refused(answer, code, "ratify_invalid")
                assert "131072 bytes" in data["reason"]
        assert len(route.received("tools/call")) == 1
