"""Tokens through the gateway, over every way: who comes in, what they may do, and that no token surfaces anywhere."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from tests.world.authorization import Signed, Trust
from tests.world.calls import Posted, compact, initialize, post
from tests.world.measured import Measured
from tests.world.raw_client import RawAnswer, RawClient
from tests.world.routes import ROUTES, Route, messages_of
from tests.world.tokened import Tokened

METADATA = "http://127.0.0.1:8484/.well-known/oauth-protected-resource/mcp"
CALL = {"name": "list_inbox", "arguments": {}}


@pytest.fixture(scope="module")
def world() -> Tokened:
    return Tokened()


def route(
    name: str, world: Tokened, trust: Trust, folder: Path, *, proofs: bool = False, tokens: Any = None, **more: Any
) -> Route:
    settings = tokens if tokens is not None else world.settings()
    more.setdefault("token", world.token())
    return Route(name, trust, folder, required=proofs, tokens=settings, key_sets=world.key_sets, **more)


def calling(route: Route, **changes: Any) -> Posted:
    return post(route.era, "tools/call", {**CALL, **changes})


def placed(route: Route, place: str, token: str, tool: str = "list_inbox") -> tuple[Posted, str | None]:
    """A call with a token in one place, and the header's token."""
    match place:
        case "header":
            return calling(route, name=tool), token
        case "argument":
            return calling(route, name=tool, arguments={"_token": token, "a": 1}), None
        case _:
            return calling(route, name=tool, _meta={"token": token, "kept": 1}), None


@pytest.mark.holds("gateway/admission/bearer", "removal")
@pytest.mark.parametrize("place", ["header", "argument", "meta"])
@pytest.mark.parametrize("name", ROUTES)
async def test_a_token_reaches_neither_the_upstream_nor_a_log(
    name: str, place: str, trust: Trust, world: Tokened, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    token, bad = world.token(sub="agent-7"), world.token(aud="https://other.example", sub="agent-7")
    caplog.set_level(logging.DEBUG)
    answers: list[RawAnswer] = []

    async with route(name, world, trust, tmp_path, token=world.token(sub="agent-7")) as way:
        for text in (token, bad):
            posted, header = placed(way, place, text)
            answers.append(await way.send(posted, token=header))
        (call,) = way.received("tools/call")
        params = call["params"]
        assert params["_meta"]["dev.accredit/authorization"]["token_subject"] == "agent-7"
        assert params["_meta"]["dev.accredit/authorization"]["principal_id"] is None
        assert "_token" not in params["arguments"]
        assert "token" not in params["_meta"]
        if place != "header":
            assert params["arguments"].get("a") == 1 or params["_meta"]["kept"] == 1
        for text in (token, bad):
            assert world.mark(text) not in way.bytes_received()
            assert b"authorization:" not in way.bytes_received().lower().replace(b"', '", b": ")
    assert [answer.status for answer in answers] == [200, 401]
    said = caplog.text + str([(record.__dict__, record.exc_info) for record in caplog.records])
    for text in (token, bad):
        for shown in (said, str([(answer.body, answer.headers) for answer in answers])):
            assert world.mark(text).decode() not in shown


@pytest.mark.holds("gateway/front/endpoint", "method")
@pytest.mark.parametrize(
    ("headers", "status", "challenge"),
    [
        ([], 401, f'Bearer resource_metadata="{METADATA}"'),
        (["Basic YTpi"], 401, f'Bearer resource_metadata="{METADATA}"'),
        (["Bearer"], 401, 'error="invalid_token"'),
        (["Bearer ", "Bearer x"], 400, 'error="invalid_request"'),
        (["Bearer " + "a" * 40_000], 401, 'error="invalid_token"'),
    ],
)
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
async def test_who_has_no_good_token_gets_a_challenge(
    headers: list[str], status: int, challenge: str, method: str, trust: Trust, world: Tokened, tmp_path: Path
) -> None:
    async with route("http-modern", world, trust, tmp_path) as way:
        asked = calling(way)
        async with RawClient(way.port) as client:
            given = [*asked.headers, *(("Authorization", value) for value in headers)]
            await client.ask(method, "/mcp", given, asked.body if method == "POST" else b"")
            answer = await client.answer()
        assert answer.status == status
        assert challenge in (answer.header("www-authenticate") or "")
        told = json.loads(answer.body)
        assert told["error"]["code"] in (-31010, -31011)
        assert told["id"] == (7 if method == "POST" and status == 401 and "error=" not in challenge else None)
        assert not way.received("tools/call")


@pytest.mark.holds("gateway/front/callers", "header-first")
@pytest.mark.holds("gateway/admission/bearer", "header")
@pytest.mark.parametrize(("token", "sources"), [("bad", ("header", "meta")), (None, ("header",))])
async def test_a_body_that_nobody_may_send_is_not_waited_for(
    token: str | None, sources: tuple[Any, ...], trust: Trust, world: Tokened, tmp_path: Path
) -> None:
    async with route("http-modern", world, trust, tmp_path, tokens=world.settings(sources=sources)) as way:
        given = [("Content-Type", "application/json"), ("Content-Length", "1000")]
        async with RawClient(way.port) as client:
            await client.ask("POST", "/mcp", [*given, *([("Authorization", f"Bearer {token}")] if token else [])])
            assert (await client.answer()).status == 401


@pytest.mark.holds("gateway/admission/bearer", "verification")
@pytest.mark.parametrize(
    "changes",
    [
        {"aud": "https://other.example"},
        {"exp": 7},
        {"nbf": 4_000_000_000},
        {"policy_digest": "0" * 64},
        {"iss": "https://evil.example"},
    ],
)
@pytest.mark.parametrize("name", ["http-modern", "stdio-legacy"])
async def test_a_token_that_is_not_good_here_is_a_401(
    name: str, changes: dict[str, Any], trust: Trust, world: Tokened, tmp_path: Path
) -> None:
    async with route(name, world, trust, tmp_path) as way:
        answer = await way.send(calling(way), token=world.token(**changes))
        assert answer.status == 401
        assert 'error="invalid_token"' in (answer.header("www-authenticate") or "")


@pytest.mark.holds("gateway/admission/bearer", "header")
@pytest.mark.parametrize("name", ROUTES)
async def test_the_header_decides_and_a_bad_one_is_not_rescued(
    name: str, trust: Trust, world: Tokened, tmp_path: Path
) -> None:
    good, other, bad = world.token(), world.token(sub="agent-7", jti="2"), world.token(exp=7)

    async with route(name, world, trust, tmp_path) as way:
        posted, _ = placed(way, "argument", other)
        assert (await way.send(posted, token=bad)).status == 401
        assert not way.received("tools/call")
        posted, _ = placed(way, "argument", bad)
        assert (await way.send(posted, token=good)).status == 200
        assert "_token" not in way.received("tools/call")[0]["params"]["arguments"]


@pytest.mark.holds("gateway/admission/tool_directory", "token-argument")
@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("name", ROUTES)
async def test_a_tools_own_token_argument_arrives_untouched(
    name: str, listed: bool, trust: Trust, world: Tokened, tmp_path: Path
) -> None:
    async with route(name, world, trust, tmp_path) as way:
        token = world.token()
        if listed:
            for params in ({}, {"cursor": "2"}):
                await way.send(post(way.era, "tools/list", params), token=token)
        own = {"name": "redeem", "arguments": {"_token": "voucher"}}
        assert (await way.send(post(way.era, "tools/call", own), token=token)).status == 200
        assert way.received("tools/call")[0]["params"]["arguments"] == {"_token": "voucher"}
        # It is the tool's, so it is no token of the caller's.
        assert (await way.send(post(way.era, "tools/call", own))).status == 401


@pytest.mark.holds("gateway/admission/bearer", "rights")
@pytest.mark.parametrize("name", ROUTES)
async def test_lists_and_calls_agree_on_the_tools_of_a_token(
    name: str, trust: Trust, world: Tokened, tmp_path: Path
) -> None:
    token = world.token(allowed_tools=["list_inbox", "pay", "send_email"], denied_tools=["pay"])

    async with route(name, world, trust, tmp_path) as way:
        pages = [await way.send(post(way.era, "tools/list", each), token=token) for each in ({}, {"cursor": "2"})]
        results = [messages_of(page)[-1]["result"] for page in pages]
        assert [tool["name"] for result in results for tool in result["tools"]] == ["list_inbox", "send_email"]
        assert {result["cacheScope"] for result in results} == {"private"}
        for tool, status in (("list_inbox", 200), ("pay", 403), ("secret_tool", 403)):
            answer = await way.send(post(way.era, "tools/call", {"name": tool, "arguments": {}}), token=token)
            assert answer.status == status
            if status == 403:
                assert 'error="insufficient_scope"' in (answer.header("www-authenticate") or "")


@pytest.mark.holds("gateway/admission/gate", "known-method")
@pytest.mark.parametrize("method", ["Tools/Call", "tools/call "])
async def test_a_method_that_another_reader_takes_for_a_call_does_not_lead_around_the_tools(
    method: str, trust: Trust, world: Tokened, tmp_path: Path
) -> None:
    async with route("http-legacy", world, trust, tmp_path) as way:
        body = compact({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"name": "pay", "arguments": {}}})
        answer = await way.send(Posted(calling(way).headers, body), token=world.token(allowed_tools=[]))
        # Not 404: to a client of this era that says that its session is over.
        assert (answer.status, json.loads(answer.body)["error"]["code"]) == (200, -32601)
        body = compact({"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "pay", "arguments": {}}})
        answer = await way.send(Posted(calling(way).headers, body), token=world.token(allowed_tools=[]))
        assert answer.status in (400, 404)
        assert [each["method"] for each in way.received()] == ["initialize"]


async def test_such_a_method_of_a_stranger_is_refused_for_its_token__and_measured_like_any_other(
    trust: Trust, world: Tokened, tmp_path: Path
) -> None:
    measured = Measured()
    async with route("http-legacy", world, trust, tmp_path, telemetry=measured.telemetry) as way:
        before = sum(measured.served.values())
        for token, status in ((None, 401), (world.token(exp=7), 401), (world.token(), 200)):
            answer = await way.send(post(way.era, "Tools/Call", {"name": "ok"}), token=token)
            assert answer.status == status
        assert sum(measured.served.values()) - before == 3


@pytest.mark.holds("gateway/front/callers", "session-owner")
@pytest.mark.holds("gateway/front/endpoint", "token")
@pytest.mark.parametrize("name", ["http-legacy", "sse-legacy", "stdio-legacy"])
async def test_a_session_is_its_subjects_whatever_token_comes(
    name: str, trust: Trust, world: Tokened, tmp_path: Path
) -> None:
    async with route(name, world, trust, tmp_path) as way:
        mine = way.session
        assert (await way.send(calling(way), token=world.token(jti="refreshed"))).status == 200
        assert (await way.send(calling(way), token=world.token(sub="thief"))).status == 404
        for session in (mine.rpartition(".")[0], mine[:-1] + ("A" if mine[-1] != "A" else "B"), mine + ".x"):
            way.session = session
            assert (await way.send(calling(way), token=world.token())).status == 404
        assert len(way.received("tools/call")) == 1
        assert mine.encode() not in way.bytes_received()


async def test_a_modern_request_can_not_use_anothers_session_either(
    trust: Trust, world: Tokened, tmp_path: Path
) -> None:
    async with route("http-modern", world, trust, tmp_path) as way:
        way.session = "5e551017"
        assert (await way.send(calling(way), token=world.token())).status == 404
        assert not way.received("tools/call")


@pytest.mark.holds("gateway/front/callers", "session-owner")
async def test_nor_does_it_run_in_one_s_own__which_no_record_would_name(
    trust: Trust, world: Tokened, tmp_path: Path
) -> None:
    """Nor does the list of tools that the gateway asks for, to know whose a `_token` is."""

    async with route("http-modern", world, trust, tmp_path) as way:
        mine = world.token()
        session = (await way.send(initialize(), token=mine)).header("mcp-session-id")
        assert session
        way.session = session
        for posted, header in (placed(way, place, mine) for place in ("argument", "header", "meta")):
            assert (await way.send(posted, token=header)).status == 200
        assert len(way.received("tools/call")) == 3
        assert way.received("tools/list")
        assert way.headers_received("mcp-session-id") == []


@pytest.mark.holds("gateway/front/callers", "one-subject")
async def test_a_batch_is_of_one_subject_and_fails_as_a_whole(trust: Trust, world: Tokened, tmp_path: Path) -> None:
    def member(id: int, **meta: str) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {**CALL, "_meta": meta}}

    async with route("http-legacy", world, trust, tmp_path) as way:

        async def batch(*members: dict[str, Any]) -> int:
            asked = post(way.era)
            headers = [(name, "2025-03-26" if name == "MCP-Protocol-Version" else text) for name, text in asked.headers]
            return (await way.send(Posted(headers, compact(list(members))))).status

        good, other = world.token(), world.token(sub="other")
        assert await batch(member(1, token=good), member(2)) == 401
        assert await batch(member(1, token=good), member(2, token=other)) == 400
        assert await batch(member(1, token=other), member(2, token=other)) == 404
        assert not way.received("tools/call")
        assert await batch(member(1, token=good), member(2, token=good)) == 200
        assert [call["id"] for call in way.received("tools/call")] == [1, 2]
        assert world.mark(good) not in way.bytes_received()


@pytest.mark.holds("policy/decide", "token-subject")
@pytest.mark.parametrize("name", ROUTES)
async def test_with_proofs_required_as_well_both_must_pass(
    name: str, trust: Trust, world: Tokened, tmp_path: Path
) -> None:
    chain = trust.chain()

    both: dict[str, Any] = {"proofs": True, "policy": {"bind_agent": True}, "token": world.token(sub=trust.agent.id)}
    async with route(name, world, trust, tmp_path, **both) as way:
        mine, others = world.token(sub=trust.agent.id), world.token(sub="agent-7")
        proof = {"ratify_proof": trust.proof(chain, "tools/call", CALL, _signed(way))}
        assert (await way.send(calling(way, _meta=proof))).status == 401
        refused = await way.send(calling(way), token=mine)
        assert (refused.status, messages_of(refused)[-1]["error"]["code"]) == (200, -31001)
        allowed = await way.send(calling(way, _meta=proof), token=mine)
        assert "result" in messages_of(allowed)[-1], allowed
        told = way.received("tools/call")[0]["params"]["_meta"]["dev.accredit/authorization"]
        assert (told["agent_id"], told["token_subject"]) == (trust.agent.id, trust.agent.id)
        if way.session:
            return  # the session is the other subject's
        again = {"ratify_proof": trust.proof(chain, "tools/call", CALL, _signed(way))}
        mismatch = messages_of(await way.send(calling(way, _meta=again), token=others))[-1]["error"]
        assert (mismatch["code"], mismatch["data"]["error"]) == (-31003, "ratify_invalid")
        assert mismatch["data"]["reason"].startswith("token_mismatch: ")
        kept = await way.send(calling(way, _meta=again), token=mine)  # the challenge was not spent
        assert "result" in messages_of(kept)[-1]


def _signed(way: Route) -> Signed:
    return Signed(session=way.session)


@pytest.mark.holds("gateway/admission/gate", "tokens-removed")
async def test_a_proof_is_bound_to_the_call_without_the_token_argument(
    trust: Trust, world: Tokened, tmp_path: Path
) -> None:
    async with route("http-modern", world, trust, tmp_path, proofs=True) as way:
        proof = {"ratify_proof": trust.proof(trust.chain(), "tools/call", CALL, _signed(way))}
        sent = calling(way, arguments={"_token": world.token()}, _meta=proof)
        assert "result" in messages_of(await way.send(sent))[-1]


METADATA_PATHS = [
    "/.well-known/oauth-protected-resource",
    "/.well-known/oauth-protected-resource/mcp",
    "/.well-known/oauth-protected-resource/mcp/",  # of whoever was given the endpoint with a slash
]


@pytest.mark.parametrize("path", METADATA_PATHS)
async def test_the_metadata_is_for_everybody(path: str, trust: Trust, world: Tokened, tmp_path: Path) -> None:
    well_known: dict[str, Any] = {"passthrough": ("/.well-known/*",)}
    async with route("http-modern", world, trust, tmp_path, **well_known) as way, RawClient(way.port) as client:
        for asked, status in ((path, 200), ("/healthz", 200), ("/readyz", 200)):
            await client.ask("GET", asked)
            answer = await client.answer()
            assert answer.status == status
            if asked == path:
                document = json.loads(answer.body)
                assert document["resource"] == "http://127.0.0.1:8484/mcp"
                assert document["authorization_servers"] == ["https://issuer.example"]


async def test_a_passthrough_path_gets_no_authorization(trust: Trust, world: Tokened, tmp_path: Path) -> None:
    token = world.token()

    async with route("http-modern", world, trust, tmp_path, passthrough=("/other",)) as way:
        async with RawClient(way.port) as client:
            await client.ask("GET", "/other", [("Authorization", f"Bearer {token}")])
            assert (await client.answer()).status == 405
        assert b"/other" in way.bytes_received()
        assert world.mark(token) not in way.bytes_received()


async def test_an_anonymous_session_and_a_subjects_are_not_the_same(
    trust: Trust, world: Tokened, tmp_path: Path
) -> None:
    async with route("http-legacy", world, trust, tmp_path, tokens=world.settings(required=False), token=None) as way:
        assert (await way.send(calling(way))).status == 200
        assert (await way.send(calling(way), token=world.token())).status == 404
        way.session = ""
        opened = await way.send(initialize(), token=world.token())
        way.session = opened.header("mcp-session-id") or ""
        assert (await way.send(calling(way))).status == 404
        assert (await way.send(calling(way), token=world.token())).status == 200


@pytest.mark.holds("policy/passing", "authorization")
@pytest.mark.parametrize("name", ROUTES)
@pytest.mark.parametrize("tells", [True, False])
async def test_the_server_learns_whose_token_it_is_and_what_it_allows__or_nothing_where_it_is_not_to(
    tells: bool, name: str, trust: Trust, world: Tokened, tmp_path: Path
) -> None:
    token = world.token(sub="agent-7", scope="mail:send mail:read")

    async with route(name, world, trust, tmp_path, tells_identity=tells) as way:
        posed = {"dev.accredit/authorization": {"token_subject": "the boss"}}
        assert "result" in messages_of(await way.send(calling(way, _meta=posed), token=token))[-1]
        (call,) = way.received("tools/call")
        told = call["params"].get("_meta", {}).get("dev.accredit/authorization")
        assert (told is not None) is tells
        if tells:
            assert told["token_issuer"] == "https://issuer.example"
            assert (told["token_subject"], told["token_scopes"]) == ("agent-7", ["mail:read", "mail:send"])
