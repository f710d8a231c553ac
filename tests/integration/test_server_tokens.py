"""Tokens before servers that are guarded by themselves, of both SDKs: in each place and era, with proofs and alone."""

import contextlib
import json
import logging
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Annotated, Any, cast

import mcp_types as types
import pytest
from fastmcp import Context as FastMCPContext
from fastmcp import FastMCP, FastMCPApp
from fastmcp.server.dependencies import get_http_request
from fastmcp.server.providers.addressing import hashed_backend_name
from mcp import Client
from mcp.server.mcpserver import Context
from pydantic import Field
from tests.integration.test_server_guard import call, exchange, message, refusal
from tests.world.authorization import Signed, Trust
from tests.world.calls import initialize, notification, post
from tests.world.guarded import KINDS, Guarded
from tests.world.issuer import AUDIENCE, RunningIssuer, key_set_text
from tests.world.raw_client import RawClient
from tests.world.raw_server import PATIENCE
from tests.world.running import RunningGateway
from tests.world.tokened import ISSUER, Tokened

from accredit.jsonrpc.methods import Era
from accredit.server import TokenRules, TrustedIssuer, current_authority, current_token, require

pytestmark = pytest.mark.holds("server/tokens")

ERAS = (Era.LEGACY, Era.MODERN)
PLACES = ("header", "argument", "meta")


@pytest.fixture
def world() -> Tokened:
    return Tokened()


@pytest.fixture
def trust() -> Trust:
    return Trust()


def rules(world: Tokened, folder: Path, *, scopes: tuple[str, ...] = (), **changes: Any) -> TokenRules:
    """Rules with the issuer's keys in a file."""
    file = folder / "keys.json"
    file.write_bytes(key_set_text(world.key))
    return TokenRules([TrustedIssuer(ISSUER, AUDIENCE, key_file=file, required_scopes=scopes)], **changes)


def guarded(kind: str, tokens: TokenRules, roots: list[Any] | None = None, **guard: Any) -> Guarded:
    """A server with a tool that shows all that it can see; with FastMCP one has a `_token` of its own, too."""
    made = Guarded(kind, roots, tokens=tokens, **guard)
    server = made.server

    if isinstance(server, FastMCP):

        @server.tool()
        @require("email:read")
        def keyed(token: Annotated[str, Field(alias="_token")]) -> str:
            made.ran.append("keyed")
            return token

        @server.tool(name="seen")
        @require("email:read")
        async def seen_by_fastmcp(ctx: FastMCPContext, a: int = 0) -> str:
            request = ctx.request_context
            assert request is not None
            headers = get_http_request().headers.raw if request.request is not None else []
            return _seen(made, a, request._srctx, headers)  # pyright: ignore[reportPrivateUsage]

    else:

        @server.tool(name="seen")
        @require("email:read")
        async def seen_by_sdk(ctx: Context[Any], a: int = 0) -> str:
            request = ctx.request_context.request
            return _seen(made, a, ctx.request_context, request.headers.raw if request is not None else [])

    return made


def _seen(made: Guarded, a: int, ctx: Any, headers: Any) -> str:
    made.ran.append("seen")
    token, authority = current_token(), current_authority()
    shown = {
        "a": a,
        "everything": str((ctx.meta, getattr(ctx, "params", None), headers)),
        "token": (token.issuer, token.subject) if token is not None else None,
        "authority": authority.token_subject if authority is not None else None,
        "told": (ctx.meta or {}).get("dev.accredit/authorization"),
    }
    return json.dumps(shown)


@contextlib.asynccontextmanager
async def reached(made: Guarded, token: str | None = None) -> AsyncGenerator[Client]:
    """A client that knows the tools: it would ask for the list by itself, and without a token."""
    async with RunningGateway(made.app) as running, Client(running.url, read_timeout_seconds=PATIENCE) as client:
        if token is not None:
            await client.list_tools(meta=types.RequestParamsMeta(token=token))
        yield client


def with_token(place: str, token: str, name: str = "seen") -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """The params and the header fields of a call with a token in one place."""
    match place:
        case "header":
            return {"name": name, "arguments": {"a": 1}}, [("Authorization", f"Bearer {token}")]
        case "argument":
            return {"name": name, "arguments": {"a": 1, "_token": token}}, []
        case _:
            return {"name": name, "arguments": {"a": 1}, "_meta": {"token": token}}, []


async def ask(
    port: int, params: dict[str, Any], headers: list[tuple[str, str]], era: Era = Era.MODERN, method: str = "tools/call"
) -> Any:
    """One message, and its answer; in the legacy era in a session of its own."""
    async with RawClient(port) as client:
        session = ""
        if era is Era.LEGACY:
            session = (await exchange(client, initialize())).header("mcp-session-id") or ""
            opened = notification(era, "notifications/initialized").without_header("Mcp-Session-Id")
            await exchange(client, opened.and_header("Mcp-Session-Id", session))
        posted = post(era, method, params)
        if session:
            posted = posted.without_header("Mcp-Session-Id").and_header("Mcp-Session-Id", session)
        for name, value in headers:
            posted = posted.and_header(name, value)
        return message(await exchange(client, posted))


@pytest.mark.holds("server/tokens", "places", "removal")
@pytest.mark.holds("server/gate", "removal")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("kind", KINDS)
async def test_a_guard_takes_a_token_from_each_place__and_neither_tool_nor_log_sees_it(
    kind: str, era: Era, world: Tokened, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    good, bad = world.token(), world.token(aud="https://other.example")
    answers: list[Any] = []

    for place in PLACES:  # a new server each time: the first message of a process may be a call
        made = guarded(kind, rules(world, tmp_path))
        async with RunningGateway(made.app) as running:
            for token in (good, bad, good):
                params, headers = with_token(place, token)
                answers.append(await ask(running.port, params, headers, era))
            missing = await ask(running.port, {"name": "seen", "arguments": {}}, [], era)
            assert missing["error"]["code"] == -31011
            assert missing["error"]["data"] == {"error": "missing_token"}
        assert made.ran == ["seen", "seen"], answers
    for answer in answers[1::3]:
        assert answer["error"]["code"] == -31010
        assert answer["error"]["data"] == {"error": "invalid_token"}
    for answer in answers[0::3] + answers[2::3]:
        shown = json.loads(answer["result"]["content"][0]["text"])
        assert (shown["a"], shown["token"]) == (1, [ISSUER, "agent-7"])
        assert shown["told"]["token_subject"] == "agent-7"
        assert shown["told"]["principal_id"] is None
        assert "authorization'" not in shown["everything"].replace("dev.accredit/authorization", "").lower()
    everything = caplog.text + str(answers) + str([record.__dict__ for record in caplog.records])
    assert world.mark(good).decode() not in everything
    assert world.mark(bad).decode() not in everything
    assert "a token was refused: for another audience" in caplog.messages


@pytest.mark.holds("policy/authorizer", "verified")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("kind", KINDS)
async def test_a_guard_refuses_a_session_s_token(kind: str, era: Era, world: Tokened, tmp_path: Path) -> None:
    made = guarded(kind, rules(world, tmp_path))
    async with RunningGateway(made.app) as running:
        params, headers = with_token("header", world.token(session="a"))
        answer = await ask(
            running.port, params, [*headers, ("Mcp-Session-Id", "a")] if era is Era.MODERN else headers, era
        )
        assert "good in one session" in answer["error"]["message"]
    assert made.ran == []


@pytest.mark.holds("server/tokens", "verification")
@pytest.mark.parametrize("kind", KINDS)
async def test_a_guard_refuses_a_token_that_names_a_gateway_s_configuration__it_has_none_to_compare(
    kind: str, world: Tokened, tmp_path: Path
) -> None:
    made = guarded(kind, rules(world, tmp_path))
    async with RunningGateway(made.app) as running:
        for place in PLACES:
            params, headers = with_token(place, world.token(policy_digest="a" * 64))
            answer = await ask(running.port, params, headers)
            assert "issued under another configuration" in answer["error"]["message"]
    assert made.ran == []


@pytest.mark.holds("server/tokens", "places")
@pytest.mark.parametrize("kind", KINDS)
async def test_the_header_decides_and_a_bad_one_is_not_rescued(kind: str, world: Tokened, tmp_path: Path) -> None:
    good, other, bad = world.token(), world.token(sub="agent-8"), world.token(exp=7)
    cases: list[tuple[list[str], dict[str, Any], dict[str, Any], Any]] = [
        ([f"Bearer {bad}"], {"_token": good}, {"token": good}, "invalid_token"),
        ([f"Bearer {good}"], {"_token": bad}, {"token": bad}, "agent-7"),
        ([], {"_token": other}, {"token": good}, "agent-8"),
        ([], {"_token": bad}, {"token": good}, "invalid_token"),
        ([], {"_token": ""}, {"token": good}, "invalid_token"),
        ([], {"_token": 7}, {"token": good}, "invalid_token"),
        ([], {}, {"token": None}, "invalid_token"),
        (["Basic YTpi"], {}, {"token": good}, "agent-7"),
        (["Basic YTpi"], {}, {}, "missing_token"),
        (["Bearer"], {}, {"token": good}, "invalid_token"),
        ([f"Bearer {good}, Bearer {good}"], {}, {}, "invalid_token"),
        ([f"Bearer {good}", f"Bearer {good}"], {}, {}, "invalid_request"),
        ([f"Bearer {good}", "Basic YTpi"], {}, {}, "invalid_request"),
        (["Bearer " + "a" * 40_000], {}, {"token": good}, "invalid_token"),
    ]

    made = guarded(kind, rules(world, tmp_path))
    async with RunningGateway(made.app) as running:
        for headers, arguments, meta, expected in cases:
            params = {"name": "seen", "arguments": arguments, "_meta": meta}
            answer = await ask(running.port, params, [("Authorization", value) for value in headers])
            if "error" in answer:
                assert answer["error"]["data"]["error"] == expected
            else:
                assert json.loads(answer["result"]["content"][0]["text"])["token"][1] == expected


@pytest.mark.parametrize("kind", KINDS)
async def test_calls_and_lists_of_every_kind_need_a_token_and_nothing_else_does(
    kind: str, world: Tokened, tmp_path: Path
) -> None:
    made = guarded(kind, rules(world, tmp_path))
    asked = [
        ("resources/read", {"uri": "mail://inbox"}),
        ("prompts/get", {"name": "greet", "arguments": {"name": "Ada"}}),
        *((method, {}) for method in ("tools/list", "resources/list", "resources/templates/list", "prompts/list")),
    ]
    async with RunningGateway(made.app) as running:
        for method, params in asked:
            assert (await ask(running.port, params, [], method=method))["error"]["code"] == -31011
            brought = {**params, "_meta": {"token": world.token()}}
            assert "result" in await ask(running.port, brought, [], method=method)
        pinged = await ask(running.port, {"_meta": {"token": "bad"}}, [], Era.LEGACY, "ping")
        assert "result" in pinged
    assert made.ran == ["mail://inbox", "greet"]


@pytest.mark.holds("policy/authorizer", "tool")
@pytest.mark.parametrize("kind", KINDS)
async def test_lists_and_calls_agree_on_the_tools_of_a_token__before_a_guarded_server_too(
    kind: str, world: Tokened, tmp_path: Path
) -> None:
    made = guarded(kind, rules(world, tmp_path))
    async with reached(made, world.token()) as client:
        assert await call(client, "open_door", {}, token=world.token()) == "open"  # proofs are not judged
        some = world.token(allowed_tools=["seen", "list_inbox", "pay"], denied_tools=["pay"])
        listed = await client.list_tools(meta=types.RequestParamsMeta(token=some))
        assert {tool.name for tool in listed.tools} == {"seen", "list_inbox"}
        refused = await refusal(client, "pay", {"amount": 1, "currency": "EUR"}, token=some)
        assert (refused["code"], refused["data"]) == (-31010, {"error": "insufficient_scope"})
        assert await call(client, "list_inbox", {}, token=some) == "empty"
        assert made.ran == ["open_door", "list_inbox"]


async def test_a_tool_that_calls_others_by_name_does_not_lead_around_the_token_s_tools(
    world: Tokened, tmp_path: Path
) -> None:
    made = guarded("fastmcp", rules(world, tmp_path))
    async with reached(made, world.token()) as client:
        some = types.RequestParamsMeta(token=world.token(allowed_tools=["relay", "list_inbox"]))
        assert not (await client.call_tool("relay", {"name": "list_inbox"}, meta=some)).is_error
        assert (await client.call_tool("relay", {"name": "send_email"}, meta=some)).is_error
        assert made.ran == ["relay", "list_inbox", "relay"]


@pytest.mark.holds("policy/authorizer", "tool")
async def test_another_name_of_a_tool_does_not_lead_around_what_its_token_lacks_or_denies(
    world: Tokened, tmp_path: Path
) -> None:
    made = guarded("fastmcp", rules(world, tmp_path, tool_scopes={"refund": "money"}))
    app, server = FastMCPApp("desk"), cast("FastMCP[Any]", made.server)

    @app.tool(model=True)
    def refund() -> str:
        made.ran.append("refund")
        return "done"

    server.add_provider(app)
    other = hashed_backend_name("desk", "refund")
    async with reached(made, world.token(scope="other money")) as client:
        denied = world.token(scope="other money", denied_tools=["refund"])
        for name in ("refund", other):
            for token in (world.token(scope="other"), denied):
                assert (await refusal(client, name, {}, token=token))["data"] == {"error": "insufficient_scope"}
        assert made.ran == []
        sent: Any = {"name": other, "arguments": {}, "_meta": {"token": world.token(scope="other money")}}
        called = types.CallToolRequest(params=types.CallToolRequestParams.model_validate(sent))
        done = await client.session.send_request(called, types.CallToolResult)
        assert made.ran == ["refund"], done
        # What the server does not have is not passed on to it.
        unknown = await refusal(client, hashed_backend_name("desk", "wipe"), {}, token=world.token(scope="money"))
        assert (unknown["code"], unknown["data"]["error"]) == (-32602, "unknown_tool")


@pytest.mark.holds("policy/authorizer", "tool")
@pytest.mark.parametrize("kind", KINDS)
async def test_a_token_that_may_be_left_out_has_to_be_good_where_it_is__and_for_tools_that_ask_for_a_scope(
    kind: str, world: Tokened, tmp_path: Path
) -> None:
    made = guarded(kind, rules(world, tmp_path, required=False, tool_scopes={"pay": "money"}))
    euros = {"amount": 1, "currency": "EUR"}
    async with reached(made, world.token()) as client:
        assert await call(client, "list_inbox", {}) == "empty"
        assert (await refusal(client, "list_inbox", {}, token="bad"))["code"] == -31010
        assert (await refusal(client, "pay", euros))["code"] == -31011
        lacking = await refusal(client, "pay", euros, token=world.token(scope="other"))
        assert lacking["data"] == {"error": "insufficient_scope"}
        assert await call(client, "pay", euros, token=world.token(scope="other money"))


@pytest.mark.holds("policy/decide", "token-subject")
@pytest.mark.parametrize("kind", KINDS)
async def test_with_proofs_both_must_pass_and_may_have_to_name_one_agent(
    kind: str, world: Tokened, trust: Trust, tmp_path: Path
) -> None:
    def proof(name: str = "seen", **arguments: Any) -> Any:
        return trust.proof(
            trust.chain(), "tools/call", {"name": name, "arguments": arguments}, Signed(scope="email:read")
        )

    tokens = rules(world, tmp_path, bind_agent=True)
    made = guarded(kind, tokens, [trust.owner.public_key], binding="required")
    async with reached(made, world.token()) as client:
        mine = world.token(sub=trust.agent.id)
        assert (await refusal(client, "seen", {}, proof()))["code"] == -31011
        assert (await refusal(client, "seen", {}, token=mine))["code"] == -31001
        swapped = await refusal(client, "seen", {}, proof(), token=world.token())
        assert (swapped["code"], swapped["data"]["error"]) == (-31003, "ratify_invalid")
        assert swapped["data"]["reason"].startswith("token_mismatch")
        assert made.ran == []
        shown = json.loads(await call(client, "seen", {"a": 1}, proof(a=1), token=mine))
        assert shown["authority"] == shown["told"]["token_subject"] == trust.agent.id
        assert shown["told"]["principal_id"] == trust.owner.id
        # What is signed is what the tool gets: without a token, and with an argument of its own.
        assert await call(client, "seen", {"a": 1, "_token": mine}, proof(a=1))
        if kind == "fastmcp":
            own = await call(client, "keyed", {"_token": "x"}, proof("keyed", _token="x"), token=mine)
            assert own == "x"


@pytest.mark.parametrize("kind", KINDS)
async def test_keys_come_from_the_issuer__and_while_they_can_t_be_had_nothing_runs(kind: str) -> None:
    async with RunningIssuer() as issuer:
        trusted = TrustedIssuer(issuer.url, AUDIENCE, jwks_url=issuer.jwks_url)
        made = guarded(kind, TokenRules([trusted]))
        async with reached(made, issuer.token()) as client:
            assert await call(client, "list_inbox", {}, token=issuer.token()) == "empty"
        await made.guard.aclose()
        gone = issuer.url
    made = guarded(kind, TokenRules([TrustedIssuer(gone, AUDIENCE, jwks_url=f"{gone}/jwks.json")]))
    async with reached(made) as client:
        refused = await refusal(client, "list_inbox", {}, token=issuer.token())
        assert refused["code"] == -32603
        assert refused["data"]["retry_after_seconds"] >= 1
        assert gone not in refused["message"]
        assert made.ran == []
    await made.guard.aclose()


@pytest.mark.parametrize("kind", KINDS)
async def test_without_http_the_message_alone_carries_a_token(kind: str, world: Tokened, tmp_path: Path) -> None:
    made = guarded(kind, rules(world, tmp_path))
    server: Any = made.server
    below = server._mcp_server if isinstance(server, FastMCP) else server  # pyright: ignore[reportPrivateUsage]
    async with Client(below, read_timeout_seconds=PATIENCE) as client:
        await client.list_tools(meta=types.RequestParamsMeta(token=world.token()))
        assert (await refusal(client, "seen", {}))["code"] == -31011
        for arguments, meta in (({}, {"token": world.token()}), ({"_token": world.token()}, {})):
            shown = await call(client, "seen", arguments, **meta)
            assert world.mark(world.token()).decode() not in shown
            assert json.loads(shown)["token"] == [ISSUER, "agent-7"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_guard_asks_the_issuer_about_a_token_that_is_no_jwt__and_finds_its_keys(kind: str) -> None:
    async with RunningIssuer() as issuer:
        asked = issuer.introspection
        trusted = TrustedIssuer(
            issuer.url,
            AUDIENCE,
            introspection_url=asked.url,
            introspection_client_id=asked.client_id,
            introspection_client_secret=asked.client_secret,
        )
        assert asked.client_secret not in repr(trusted)
        made = guarded(kind, TokenRules([trusted]))
        async with RunningGateway(made.app) as running:
            for token in (issuer.opaque(), issuer.token()):
                params, headers = with_token("meta", token)
                found = await ask(running.port, params, headers)
                assert json.loads(found["result"]["content"][0]["text"])["token"] == [issuer.url, "agent-7"]
            params, headers = with_token("meta", "invented")
            assert (await ask(running.port, params, headers))["error"]["data"]["error"] == "invalid_token"
        assert len(issuer.introspected) == 2
