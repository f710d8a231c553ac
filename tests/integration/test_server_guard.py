"""Servers that are guarded by themselves, of both SDKs, over HTTP and stdio, in both eras, with real clients."""

import asyncio
import contextlib
import hashlib
import json
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any, NamedTuple

import mcp_types as types
import pytest
import ratify_protocol as published
import rfc8785
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.shared.exceptions import MCPError
from tests.differential.peer import ours_key
from tests.world.authorization import GATEWAY, Signed, Trust, challenge_in
from tests.world.calls import SESSION, initialize, notification, post
from tests.world.guarded import KINDS, Guarded
from tests.world.raw_client import RawAnswer, RawClient
from tests.world.raw_server import PATIENCE
from tests.world.running import RunningGateway
from tests.world.warm import python

from accredit.base.clock import unix_seconds
from accredit.consent.call import CallTerms
from accredit.jsonrpc.methods import Era
from accredit.keys import write_file
from accredit.ratify import issue_revocation_list
from accredit.ratify.constraints import MaxRate

pytestmark = [
    pytest.mark.slow,
    pytest.mark.holds("server/judge"),
    pytest.mark.holds("server/sdk"),
    pytest.mark.holds("server/fastmcp"),
]

ROOT = Path(__file__).parents[2]
LEGACY, MODERN = "legacy", "2026-07-28"
WAYS = [(transport, mode) for transport in ("http", "stdio") for mode in (LEGACY, MODERN)]
SLOW_WAYS = [way if way[0] == "http" else pytest.param(*way, marks=pytest.mark.slow) for way in WAYS]
UNBOUND = Signed(bound=False)


class Reached(NamedTuple):
    """A client, and what has run behind it."""

    client: Client
    ran: Callable[[], list[str]]


@contextlib.asynccontextmanager
async def reached(
    kind: str, trust: Trust, *, transport: str = "http", mode: str = MODERN, folder: Path = Path(), **guard: Any
) -> AsyncGenerator[Reached]:
    """A guarded server that trusts the owner, and a client of it."""
    if transport == "http":
        guarded = Guarded(kind, [trust.owner.public_key], **guard)
        async with (
            RunningGateway(guarded.app) as running,
            Client(running.url, mode=mode, read_timeout_seconds=PATIENCE) as client,
        ):
            yield Reached(client, lambda: guarded.ran)
        await guarded.guard.aclose()
        return
    root, ran = folder / "owner.key.pub", folder / "ran.txt"
    write_file(root, trust.owner.public().encode(), replace=True)
    server = StdioServerParameters(
        command=python(), args=["-m", "tests.world.guarded", kind, str(root), str(ran)], cwd=ROOT
    )
    async with Client(stdio_client(server), mode=mode, read_timeout_seconds=PATIENCE) as client:
        yield Reached(client, lambda: ran.read_text().split() if ran.exists() else [])


async def call(client: Client, name: str, arguments: dict[str, Any], proof: Any = None, **meta: Any) -> Any:
    """Calls a tool; the text of its answer."""
    if proof is not None:
        meta["ratify_proof"] = proof
    result = await client.call_tool(name, arguments, meta=types.RequestParamsMeta(**meta) if meta else None)
    assert not result.is_error, result
    content = result.content[0]
    assert isinstance(content, types.TextContent)
    return content.text


async def refusal(client: Client, name: str, arguments: dict[str, Any], proof: Any = None, **meta: Any) -> Any:
    """Calls a tool that refuses; the error."""
    with pytest.raises(MCPError) as refused:
        await call(client, name, arguments, proof, **meta)
    return refused.value.error.model_dump()


def proof_for(trust: Trust, name: str, arguments: dict[str, Any], signed: Signed = Signed(), **chain: Any) -> Any:  # noqa: B008
    """A proof for a tool call as the SDK's client sends it."""
    scope = chain.pop("scope", ())
    return trust.proof(trust.chain(*scope, **chain), "tools/call", {"name": name, "arguments": arguments}, signed)


@pytest.mark.holds("server/gate", "decision")
@pytest.mark.holds("server/fastmcp", "same-call")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("transport", "mode"), WAYS)
async def test_nothing_runs_without_a_proof__and_with_one_it_does(
    kind: str, transport: str, mode: str, tmp_path: Path
) -> None:
    trust = Trust()
    async with reached(kind, trust, transport=transport, mode=mode, folder=tmp_path) as (client, ran):
        assert client.protocol_version == ("2025-11-25" if mode == LEGACY else MODERN)
        missing = await refusal(client, "list_inbox", {})
        assert (missing["code"], missing["data"]["error"]) == (-31001, "missing_ratify_proof")
        assert missing["data"]["required_scope"] == "email:read"
        unknown = await refusal(client, "open_door", {}, proof_for(trust, "open_door", {}, UNBOUND))
        assert (unknown["code"], unknown["data"]["error"]) == (-32602, "unknown_tool")
        with pytest.raises(MCPError) as unread:
            await client.read_resource("mail://inbox")
        assert unread.value.error.code == -31001
        with pytest.raises(MCPError) as ungreeted:
            await client.get_prompt("greet", {"name": "Ada"})
        assert ungreeted.value.error.code == -31001
        assert ran() == []

        # Over HTTP a legacy session has an id, which the SDK's client keeps to itself.
        how = UNBOUND if (transport, mode) == ("http", LEGACY) else Signed()
        assert await call(client, "list_inbox", {}, proof_for(trust, "list_inbox", {}, how)) == "empty"
        mail = {"to": "ada@example.org", "subject": "hello"}
        wanted = await refusal(client, "send_email", mail)
        assert wanted["code"] == -31002
        answered = Signed(bound=how.bound, challenge=challenge_in(wanted))
        assert await call(client, "send_email", mail, proof_for(trust, "send_email", mail, answered))
        read = {"uri": "mail://inbox"}
        proof = trust.proof(trust.chain(), "resources/read", read, how)
        assert (await client.read_resource("mail://inbox", meta=types.RequestParamsMeta(ratify_proof=proof))).contents
        greeted = {"name": "greet", "arguments": {"name": "Ada"}}
        proof = trust.proof(trust.chain(), "prompts/get", greeted, how)
        assert (
            await client.get_prompt("greet", {"name": "Ada"}, meta=types.RequestParamsMeta(ratify_proof=proof))
        ).messages
        assert ran() == ["list_inbox", "send_email", "mail://inbox", "greet"]


def listed(tools: list[types.Tool]) -> dict[str, dict[str, Any]]:
    """Each tool's own words on proofs, by its name."""
    return {
        tool.name: {name: value for name, value in (tool.meta or {}).items() if name.startswith("ratify_")}
        for tool in tools
    }


HOW = {"ratify_verifier": "mail-gateway", "ratify_binding": "optional"}


@pytest.mark.holds("server/gate", "lists")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", [LEGACY, MODERN])
async def test_a_list_says_what_each_tool_asks_for__and_shows_what_the_proof_covers(kind: str, mode: str) -> None:
    trust = Trust()
    async with reached(kind, trust, mode=mode) as (client, ran):
        tools = listed((await client.list_tools()).tools)
        assert tools["list_inbox"] == {"ratify_scope": "email:read", **HOW}
        assert tools["send_email"] == {"ratify_scope": "email:send", "ratify_sensitive": True, **HOW}
        assert tools["pay"]["ratify_scope"] == "payments:send"
        assert "open_door" not in tools

        proof = trust.proof(trust.chain("comms:email:send"), "tools/list", {}, UNBOUND)
        meta = types.RequestParamsMeta(ratify_proof=proof)
        filtered = await client.list_tools(meta=meta, cache_mode="bypass")
        assert list(listed(filtered.tools)) == ["send_email"]
        if mode == MODERN:
            assert filtered.cache_scope == "private"
        with pytest.raises(MCPError) as refused:
            await client.list_tools(meta=meta, cache_mode="bypass")
        assert refused.value.error.code == -31005
        assert ran() == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", [LEGACY, MODERN])
async def test_resources_and_prompts_say_what_they_ask_for__and_a_proof_hides_what_it_does_not_cover(
    kind: str, mode: str
) -> None:
    trust = Trust()
    async with reached(kind, trust, mode=mode) as (client, ran):

        def hidden(method: str) -> types.RequestParamsMeta:
            proof = trust.proof(trust.chain("email:read"), method, {}, UNBOUND)
            return types.RequestParamsMeta(ratify_proof=proof)

        (resource,) = (await client.list_resources()).resources
        (template,) = (await client.list_resource_templates()).resource_templates
        (prompt,) = (await client.list_prompts()).prompts
        assert resource.meta is not None
        assert {"ratify_scope": "mcp:resource", **HOW}.items() <= resource.meta.items()
        assert template.meta is not None
        assert {"ratify_scope": "mcp:resource", **HOW}.items() <= template.meta.items()
        assert prompt.meta is not None
        assert {"ratify_scope": "mcp:prompt", **HOW}.items() <= prompt.meta.items()
        found = await client.list_resources(meta=hidden("resources/list"), cache_mode="bypass")
        assert found.resources == []
        if mode == MODERN:
            assert found.cache_scope == "private"
        templates = await client.list_resource_templates(meta=hidden("resources/templates/list"), cache_mode="bypass")
        assert templates.resource_templates == []
        prompts = await client.list_prompts(meta=hidden("prompts/list"), cache_mode="bypass")
        assert prompts.prompts == []
        assert ran() == []


@pytest.mark.holds("server/gate", "authorization-meta", "removal")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("transport", "mode"), SLOW_WAYS)
async def test_a_tool_sees_on_whose_word_it_runs__and_nothing_that_the_client_made_up(
    kind: str, transport: str, mode: str, tmp_path: Path
) -> None:
    trust = Trust()
    async with reached(kind, trust, transport=transport, mode=mode, folder=tmp_path) as (client, _):
        forged = {"dev.accredit/authorization": {"principal_id": "me"}, "DEV.accredit/Authorization ": 1}
        forged |= {"com.ratifyprotocol/authority": 1, "com.RatifyProtocol/Admission": 1}
        chain = trust.chain()
        proof = trust.proof(chain, "tools/call", {"name": "whoami", "arguments": {}}, UNBOUND)
        forged["com.ratifyprotocol/proof"] = proof
        told = json.loads(await call(client, "whoami", {}, proof, note="kept", **forged))
        assert {"dev.accredit/authorization", "note"} <= set(told["meta"])
        assert {name.casefold().strip() for name in told["meta"]} & {"ratify_proof"} == set()
        assert len([name for name in told["meta"] if "accredit" in name.casefold()]) == 1
        assert not [name for name in told["meta"] if "ratifyprotocol" in name.casefold()]
        assert told["told"] == {
            "principal_id": trust.owner.id,
            "principal_name": trust.owner.id,  # a root that was given as a key has no other name
            "agent_id": trust.agent.id,
            "granted_scope": sorted(chain[0].scope),
            "cert_ids": [chain[0].cert_id],
            "token_issuer": None,
            "token_subject": None,
            "token_scopes": None,
        } | ({"principal_name": "Owner"} if transport == "stdio" else {})
        assert told["principal"] == told["told"]["principal_name"]
        euros = {"amount": 5, "currency": "EUR"}
        paid = await call(client, "pay", euros, proof_for(trust, "pay", euros, UNBOUND))
        assert paid == f"5.0 EUR for {told['principal']}"  # seen in a thread, too


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", [LEGACY, MODERN])
async def test_a_proof_of_the_published_package_is_served__unbound_as_its_page_makes_it(kind: str, mode: str) -> None:
    trust = Trust()
    root, root_key = published.generate_human_root()
    agent, agent_key = published.generate_agent("assistant", "custom")
    now = unix_seconds()
    cert = published.DelegationCert(
        cert_id="cert-1", version=1, issuer_id=root.id, issuer_pub_key=root.public_key, subject_id=agent.id,
        subject_pub_key=agent.public_key, scope=["comms:email:send"], constraints=[], issued_at=now - 60,
        expires_at=now + 3600, signature=published.HybridSignature(b"", b""),
    )  # fmt: skip
    published.issue_delegation(cert, root_key)

    def prove(challenge: bytes) -> Any:
        at = unix_seconds()
        bundle = published.ProofBundle(
            agent_id=agent.id, agent_pub_key=agent.public_key, delegations=[cert], challenge=challenge,
            challenge_at=at, challenge_sig=published.sign_challenge(challenge, at, agent_key),
        )  # fmt: skip
        return json.loads(published.encode_proof_bundle(bundle))

    guarded = Guarded(kind, [trust.owner.public_key, ours_key(root.public_key)])
    async with RunningGateway(guarded.app) as running, Client(running.url, mode=mode) as client:
        mail = {"to": "ada@example.org"}
        denied = await refusal(client, "list_inbox", {}, prove(published.generate_challenge()))
        assert denied["data"]["error"] == "ratify_scope_denied"
        assert denied["data"]["granted_scope"] == ["comms:email:send"]
        wanted = await refusal(client, "send_email", mail, prove(published.generate_challenge()))
        assert wanted["code"] == -31002
        assert await call(client, "send_email", mail, prove(challenge_in(wanted))) == "sent to ada@example.org"
        assert guarded.ran == ["send_email"]


@pytest.mark.parametrize("kind", KINDS)
def test_of_64_copies_of_one_proof_at_once_exactly_one_runs(kind: str, tmp_path: Path) -> None:
    async def main(store: str) -> None:
        trust = Trust()
        async with reached(kind, trust, store=store) as (client, ran):
            proof = proof_for(trust, "list_inbox", {})
            calls = [call(client, "list_inbox", {}, proof) for _ in range(64)]
            answers = await asyncio.gather(*calls, return_exceptions=True)
            refused = [answer.error.code for answer in answers if isinstance(answer, MCPError)]
            assert refused == [-31005] * 63
            assert ran() == ["list_inbox"]

    for store in ("memory:", f"sqlite:///{tmp_path}/proofs.db"):
        asyncio.run(main(store))


@pytest.mark.parametrize("kind", KINDS)
async def test_what_the_owner_takes_back_is_refused_at_once(kind: str, tmp_path: Path) -> None:
    trust = Trust()
    chain = trust.chain()
    revoked = tmp_path / "revoked.json"

    def publish(*cert_ids: str) -> None:
        found = issue_revocation_list(trust.owner.signer(), cert_ids, unix_seconds())
        write_file(revoked, found.encode(), replace=True)

    publish()
    params = {"name": "list_inbox", "arguments": {}}
    async with reached(kind, trust, revocation_files=[revoked]) as (client, ran):
        await call(client, "list_inbox", {}, trust.proof(chain, "tools/call", params))
        publish(chain[0].cert_id)
        async with asyncio.timeout(PATIENCE):
            while True:
                proof = trust.proof(chain, "tools/call", params)
                answers = await asyncio.gather(call(client, "list_inbox", {}, proof), return_exceptions=True)
                if isinstance(answers[0], MCPError):
                    break
        assert answers[0].error.data["error"] == "ratify_revoked"
        served = len(ran())
        await refusal(client, "list_inbox", {}, trust.proof(chain, "tools/call", params))
        assert len(ran()) == served


@pytest.mark.parametrize("kind", KINDS)
async def test_each_round_of_a_call_has_a_proof_of_its_own__so_an_answer_can_t_be_swapped(kind: str) -> None:
    trust = Trust()
    async with reached(kind, trust, binding="required") as (client, ran):
        unbound = await refusal(client, "confirm", {}, proof_for(trust, "confirm", {}, UNBOUND))
        assert "session_context" in unbound["data"]["reason"]

        async def leg(signed: dict[str, Any], **sent: Any) -> Any:
            params = {"name": "confirm", "arguments": {}, **signed}
            proof = trust.proof(trust.chain(), "tools/call", params, Signed(scope="email:read"))
            meta = types.RequestParamsMeta(ratify_proof=proof)
            return await client.session.call_tool("confirm", {}, meta=meta, allow_input_required=True, **sent)

        first = await leg({})
        assert isinstance(first, types.InputRequiredResult)
        yes: Any = {"sure": types.ElicitResult(action="accept", content={"yes": True})}
        said = {"sure": {"action": "accept", "content": {"yes": True}}}
        no = {"sure": {"action": "decline"}}
        state: dict[str, Any] = {"requestState": first.request_state}
        with pytest.raises(MCPError) as refused:
            await leg({"inputResponses": no, **state}, input_responses=yes, request_state=first.request_state)
        assert "session_context_mismatch" in refused.value.error.data["reason"]
        assert ran() == []
        done = await leg({"inputResponses": said, **state}, input_responses=yes, request_state=first.request_state)
        assert done.content[0].text == "confirmed after round one"


@pytest.mark.holds("policy/uses", "consent")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("uses", "passes"), [(1, False), (2, True)])
async def test_a_yes_to_one_call_is_used_up_by_its_legs__nobody_seals_a_state_for_a_guard(
    uses: int, passes: bool, kind: str
) -> None:
    trust = Trust()
    params: dict[str, Any] = {"name": "confirm", "arguments": {}}
    digest = hashlib.sha256(rfc8785.dumps(params)).hexdigest()
    terms = CallTerms(gateway=GATEWAY, method="tools/call", target=("confirm",), params_sha256=digest)
    chain = trust.chain("email:read", constraints=(MaxRate(uses, 600), terms.constraint()))

    async with reached(kind, trust, binding="required") as (client, ran):

        async def leg(signed: dict[str, Any], name: str = "confirm", **sent: Any) -> Any:
            proof = trust.proof(chain, "tools/call", params | signed, Signed(scope="email:read"))
            meta = types.RequestParamsMeta(ratify_proof=proof)
            return await client.session.call_tool(name, {}, meta=meta, allow_input_required=True, **sent)

        with pytest.raises(MCPError) as refused:  # the same agent, another tool
            await leg({"name": "list_inbox"}, "list_inbox")
        assert refused.value.error.data["error"] == "ratify_constraint_denied"
        first = await leg({})
        yes: Any = {"sure": types.ElicitResult(action="accept", content={"yes": True})}
        said = {"inputResponses": {"sure": {"action": "accept", "content": {"yes": True}}}}
        again = {"input_responses": yes, "request_state": first.request_state}
        if passes:
            done = await leg({**said, "requestState": first.request_state}, **again)
            assert done.content[0].text == "confirmed after round one"
        for _ in range(2):  # no state that is brought again is another use
            with pytest.raises(MCPError) as refused:
                await leg({**said, "requestState": first.request_state}, **again)
            assert refused.value.error.data["error"] == "ratify_constraint_denied"
        assert ran() == ["confirm"] * passes


async def exchange(client: RawClient, posted: Any) -> RawAnswer:
    """One POST and its answer."""
    await client.ask("POST", "/mcp", posted.headers, posted.body)
    return await client.answer()


def message(answer: RawAnswer) -> Any:
    """The JSON-RPC message of an answer, whichever form it has."""
    lines = answer.body.decode().splitlines()
    data = [line.removeprefix("data: ") for line in lines if line.startswith("data: {")]
    return json.loads(data[-1] if data else answer.body)


@pytest.mark.holds("server/fastmcp", "undecided")
@pytest.mark.parametrize("kind", KINDS)
async def test_the_first_message_of_a_process_is_decided__also_when_it_is_a_call(kind: str) -> None:
    trust = Trust()
    params = {"name": "whoami", "arguments": {}}
    proof = proof_for(trust, "whoami", {}, Signed(scope="email:read"))
    meta = {"ratify_proof": proof, "dev.accredit/authorization": {"principal_id": "me"}}
    expected: list[tuple[str, dict[str, Any], str]] = [
        ("tools/call", params, "-31001"),
        ("tools/call", {**params, "_meta": meta}, trust.owner.id),
        ("tools/list", {}, "payments:send"),
        ("resources/read", {"uri": "mail://inbox"}, "-31001"),
        ("prompts/get", {"name": "greet"}, "-31001"),
    ]
    for method, sent, answered in expected:
        guarded = Guarded(kind, [trust.owner.public_key])
        async with RunningGateway(guarded.app) as running, RawClient(running.port) as client:
            answer = await exchange(client, post(Era.MODERN, method, sent))
            assert answer.status == 200
            assert answered in str(message(answer))
            assert '"me"' not in answer.body.decode().replace("\\", "")
            assert "open_door" not in answer.body.decode()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_proof_is_bound_to_its_session__and_worth_nothing_in_another(kind: str) -> None:
    trust = Trust()
    guarded = Guarded(kind, [trust.owner.public_key], binding="required")
    async with RunningGateway(guarded.app) as running, RawClient(running.port) as client:
        opened = await exchange(client, initialize())
        session = opened.header("mcp-session-id")
        assert session

        def in_session(posted: Any) -> Any:
            return posted.without_header("Mcp-Session-Id").and_header("Mcp-Session-Id", session)

        await exchange(client, in_session(notification(Era.LEGACY, "notifications/initialized")))
        for bound_to, error in [("", -31003), (SESSION, -31003), (session, None)]:
            proof = proof_for(trust, "list_inbox", {}, Signed(session=bound_to))
            params = {"name": "list_inbox", "arguments": {}, "_meta": {"ratify_proof": proof}}
            answer = message(await exchange(client, in_session(post(Era.LEGACY, "tools/call", params))))
            assert answer.get("error", {}).get("code") == error
        assert guarded.ran == ["list_inbox"]


@pytest.mark.holds("server/fastmcp", "inner-call")
async def test_a_tool_that_calls_others_by_name_does_not_lead_around_what_they_ask_for() -> None:
    trust = Trust()
    async with reached("fastmcp", trust) as (client, ran):

        async def relay(name: str, *scope: str) -> Any:
            arguments = {"name": name}
            signed = Signed(scope="email:read")
            proof = proof_for(trust, "relay", arguments, signed, scope=scope or ("email:read", "email:send"))
            return await client.call_tool("relay", arguments, meta=types.RequestParamsMeta(ratify_proof=proof))

        assert not (await relay("list_inbox")).is_error
        for name in ("send_email", "open_door", "pay"):
            assert (await relay(name)).is_error  # for FastMCP it is an error of the tool that called
        assert ran() == ["relay", "list_inbox", "relay", "relay", "relay"]


@pytest.mark.parametrize("kind", KINDS)
async def test_the_digest_is_over_what_was_sent__no_arguments_are_not_null_arguments(kind: str) -> None:
    trust = Trust()
    guarded = Guarded(kind, [trust.owner.public_key], binding="required")
    bare: dict[str, Any] = {"name": "list_inbox"}
    forms = [bare, {**bare, "arguments": None}, {**bare, "arguments": {}}]
    async with RunningGateway(guarded.app) as running, RawClient(running.port) as client:
        for signed in forms:
            for sent in forms:
                proof = trust.proof(trust.chain(), "tools/call", signed)
                posted = post(Era.MODERN, "tools/call", {**sent, "_meta": {"ratify_proof": proof}})
                answer = message(await exchange(client, posted))
                assert ("result" in answer) == (signed is sent), answer
    assert guarded.ran == ["list_inbox"] * 3
