"""Calls that are refused before the gate: each has a record, the answer is the same without, and floods are bounded."""

import asyncio
import hashlib
import json
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.integration.test_transparent_legacy_sse import JSON, Upstream
from tests.integration.test_wrap import wrapped
from tests.world.authorization import Trust
from tests.world.calls import Posted, compact, notification, post
from tests.world.command import accredit
from tests.world.issuer import IssuerKey, claims, key_set_text
from tests.world.raw_client import RawAnswer, RawClient
from tests.world.raw_server import PATIENCE
from tests.world.recorded import FailingRecords, calls_of, records_at, verified
from tests.world.routes import ROUTES, Route, messages_of
from tests.world.running import RunningGateway
from tests.world.tokened import Tokened

from accredit.errors import KeysUnavailable
from accredit.gateway import GatewaySettings, HttpUpstream, create_app
from accredit.gateway.recording import early_refusals as early_refusals
from accredit.gateway.settings import RecordSettings
from accredit.jsonrpc.methods import Era
from accredit.ports import Records
from accredit.tokens.claims import Claims
from accredit.tokens.key_sets import KeySet
from accredit.tokens.verify import Issuer

pytestmark = pytest.mark.slow

SECRET = "swordfish-7f3a"
everywhere = pytest.mark.parametrize("name", ROUTES)
Posts = list[tuple[Posted, str | None]]


@pytest.fixture(scope="module")
def world() -> Tokened:
    return Tokened()


class NoKeys:
    """An issuer that can't be asked."""

    async def keys(self, issuer: str, kid: str | None) -> KeySet:
        raise KeysUnavailable("nobody is there", 5)

    async def introspect(self, issuer: Issuer, text: str) -> Claims:
        raise KeysUnavailable("nobody is there", 5)

    def problem(self) -> str | None:
        return "nobody is there"

    async def aclose(self) -> None:
        pass


def guarded(name: str, world: Tokened, trust: Trust, folder: Path, records: Records | None, **more: Any) -> Route:
    """A way on which tokens are required, and one tool asks for a scope."""
    given: dict[str, Any] = {
        "tokens": world.settings(tool_scopes={"pay": "mail:pay"}),
        "key_sets": world.key_sets,
        "token": world.token(sub="agent-7"),
        "required": False,
        "records": records,
        **more,
    }
    return Route(name, trust, folder, **given)


def calling(route: Route, **changes: Any) -> Posted:
    return post(route.era, "tools/call", {"name": "ok", "arguments": {"word": SECRET}, **changes})


def refused(route: Route, world: Tokened) -> tuple[Posts, list[tuple[str, str, str | None]]]:
    """Requests that are refused, with the token of their header; and target, word and subject of their records."""
    bad, good = world.token(exp=7), world.token(sub="agent-7")
    pay = calling(route, name="pay", arguments={"word": SECRET, "_token": bad})
    posts: Posts = [
        (calling(route), None),
        (calling(route), bad),
        (calling(route).and_header("Authorization", "Bearer x"), bad),
        (calling(route, arguments={"word": SECRET, "_token": bad}), None),
        (calling(route, _meta={"token": bad}), None),
        (post(route.era, "resources/read", {"uri": "file:///a"}), None),
        (post(route.era, "prompts/get", {"name": "p"}), bad),
        (pay, good),
        (calling(route, arguments={}, _meta={"token": world.token(allowed_tools=[])}), None),
        (calling(route, name=7), good),
    ]
    expected: list[tuple[str, str, str | None]] = [
        ("ok", "missing_token", None),
        ("ok", "invalid_token", None),
        ("ok", "invalid_request", None),
        ("ok", "invalid_token", None),
        ("ok", "invalid_token", None),
        ("file:///a", "missing_token", None),
        ("p", "invalid_token", None),
        ("pay", "insufficient_scope", "agent-7"),
        ("ok", "insufficient_scope", "agent-7"),
        ("", "invalid_params", "agent-7"),
    ]
    if route.era is Era.LEGACY:
        posts.append((calling(route), world.token(sub="thief")))
        expected.append(("ok", "session_not_found", "thief"))
    else:
        posts.append((pay.without_header("Mcp-Name").and_header("Mcp-Name", "ok"), good))
        expected.append(("pay", "header_mismatch", "agent-7"))
        posts.append((Posted(calling(route).headers, calling(route).body.replace(b"/protocolVersion", b"/x")), None))
        expected.append(("ok", "invalid_params", None))
    return posts, expected


async def answers(route: Route, posts: Posts) -> list[RawAnswer]:
    return [await route.send(posted, token=token) for posted, token in posts]


@everywhere
async def test_a_call_that_is_refused_before_the_gate_is_recorded(
    name: str, world: Tokened, trust: Trust, tmp_path: Path
) -> None:
    async with guarded(name, world, trust, tmp_path, records_at(tmp_path / "log.db"), full=True) as route:
        posts, expected = refused(route, world)
        await answers(route, posts)
        found = calls_of(route.log)
        subjects = [call["record"].token and call["record"].token.subject for call in found]
        assert [(call["target"], call["error"]) for call in found] == [each[:2] for each in expected]
        assert subjects == [each[2] for each in expected]
        assert {call["verdict"] for call in found} == {"deny"}
        assert {call["record"].call.session for call in found} == {None}
        revision = "2025-11-25" if route.era is Era.LEGACY else "2026-07-28"
        assert {call["record"].call.revision for call in found} == {revision}
        for call, (_, _, subject) in zip(found, expected, strict=True):
            assert bool(bytes(call["record"].call.params)) is (subject is not None)  # a stranger's are not kept
        assert not route.notes.exists()
    assert verified(tmp_path / "log.db").valid
    stored = b"".join(path.read_bytes() for path in tmp_path.glob("log.db*") if path.is_file())
    for posted, token in posts:
        for text in (token, *(_tokens_in(posted))):
            assert text is None or world.mark(text) not in stored


def _tokens_in(posted: Posted) -> list[str]:
    params = json.loads(posted.body)["params"]
    found = [params.get("arguments", {}).get("_token"), params.get("_meta", {}).get("token")]
    return [text for text in found if text]


@pytest.mark.holds("gateway/recording/early_refusals", "same-answer")
@everywhere
async def test_the_answer_is_what_it_is_without_a_record_also_where_there_is_no_log(
    name: str, world: Tokened, trust: Trust, tmp_path: Path
) -> None:
    logs: list[Records | None] = [None, records_at(tmp_path / "log.db"), FailingRecords(decisions=False)]
    told: list[list[tuple[int, Any, bytes]]] = []
    for number, log in enumerate(logs):
        folder = tmp_path / str(number)
        folder.mkdir()
        async with guarded(name, world, trust, folder, log) as route:
            got = await answers(route, refused(route, world)[0])
            told.append([(each.status, _headers(each), each.body) for each in got])
    assert told[0] == told[1] == told[2]
    assert {status for status, _, _ in told[0]} == {200, 400, 401, 403, *([404] if "legacy" in name else [])}


def _headers(answer: RawAnswer) -> list[tuple[str, str]]:
    return [pair for pair in answer.headers if pair[0] != "date"]


async def test_while_keys_cannot_be_had_a_call_is_recorded_as_refused_for_that(
    world: Tokened, trust: Trust, tmp_path: Path
) -> None:
    log = records_at(tmp_path / "log.db")
    async with guarded("http-modern", world, trust, tmp_path, log, key_sets=NoKeys()) as route:
        assert (await route.send(calling(route), token=world.token())).status == 503
        (call,) = calls_of(route.log)
        assert (call["error"], call["record"].token) == ("keys_unavailable", None)


async def test_each_call_of_a_batch_that_is_refused_as_a_whole_is_recorded(
    world: Tokened, trust: Trust, tmp_path: Path
) -> None:
    def member(id: int, token: str, method: str = "tools/call") -> dict[str, Any]:
        params = {"name": f"t{id}", "arguments": {}, "_meta": {"token": token}}
        return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}

    async with guarded("http-legacy", world, trust, tmp_path, records_at(tmp_path / "log.db")) as route:
        asked = post(route.era)
        named = [(key, "2025-03-26" if key == "MCP-Protocol-Version" else text) for key, text in asked.headers]
        mine, other = world.token(sub="agent-7"), world.token(sub="other")
        members = [member(1, mine), member(2, mine, "tools/list"), member(3, other)]
        assert (await route.send(Posted(named, compact(members)))).status == 400
        found = [(call["target"], call["error"], call["record"].token.subject) for call in calls_of(route.log)]
        assert found == [("t1", "invalid_request", "agent-7"), ("t3", "invalid_request", "other")]
        bad = world.token(exp=7)
        assert (await route.send(Posted(named, compact([member(4, mine), member(5, bad)])))).status == 401
        found = [(call["target"], call["error"]) for call in calls_of(route.log)[2:]]
        assert found == [("t4", "invalid_token"), ("t5", "invalid_token")]


@pytest.mark.parametrize("name", ["http-modern", "http-legacy", "stdio-legacy"])
async def test_what_is_no_call_has_no_record(name: str, world: Tokened, trust: Trust, tmp_path: Path) -> None:
    async with guarded(name, world, trust, tmp_path, records_at(tmp_path / "log.db")) as route:
        call, bad = calling(route), world.token(exp=7)
        nameless = compact({"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "ok"}})
        posts: Posts = [
            (post(route.era, "tools/list", {}), None),
            (post(route.era, "tools/list", {}), bad),
            (notification(route.era), bad),
            (Posted(call.headers, nameless), world.token()),
            (Posted(call.headers, b"{"), bad),
            (Posted(call.headers, b"{"), None),
            (Posted(call.headers, call.body[:-1] + b',"id":8}'), None),
            (call.without_header("Content-Type").and_header("Content-Type", "text/plain"), None),
            (call.and_header("Origin", "https://evil.example"), bad),
            (call.without_header("Host").and_header("Host", "evil.example"), None),
            (post(route.era, "Tools/Call", {"name": "ok"}), world.token()),
        ]
        got = await answers(route, posts)
        assert all(answer.status >= 400 or b'"code":-32601' in answer.body for answer in got), got
        async with RawClient(route.port) as client:
            for method in ("GET", "DELETE"):
                await client.ask(method, "/mcp", [("Authorization", f"Bearer {bad}")])
                assert (await client.answer()).status == 401
        assert calls_of(route.log) == []


@pytest.mark.holds("gateway/recording/early_refusals", "cases")
async def test_a_body_that_does_not_come_is_not_waited_for_long(
    world: Tokened, trust: Trust, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(early_refusals, "STRANGER_BODY_SECONDS", 0.01)

    async with guarded("http-modern", world, trust, tmp_path, records_at(tmp_path / "log.db")) as route:
        posted = calling(route)
        given = [*posted.headers, ("Authorization", f"Bearer {world.token(exp=7)}"), ("Content-Length", "1000")]
        for more in ([], [("Expect", "100-continue")]):
            async with RawClient(route.port) as client:
                await client.ask("POST", "/mcp", [*given, *more])
                head = await client.reader.readuntil(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 401")  # and no 100 before
        assert calls_of(route.log) == []
        assert route.app.refused["denial_unrecorded"] == 1


@pytest.mark.holds("gateway/recording/early_refusals", "cases")
async def test_a_body_that_comes_after_the_head_is_read(
    world: Tokened, trust: Trust, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(early_refusals, "STRANGER_BODY_SECONDS", PATIENCE)

    async with guarded("http-modern", world, trust, tmp_path, records_at(tmp_path / "log.db")) as route:
        posted = calling(route)
        given = [*posted.headers, ("Authorization", f"Bearer {world.token(exp=7)}")]
        async with RawClient(route.port) as client:
            await client.ask("POST", "/mcp", [*given, ("Content-Length", str(len(posted.body)))])
            await client.send(posted.body[:20])
            await asyncio.sleep(0)
            await client.send(posted.body[20:])
            assert (await client.answer()).status == 401
            await client.ask("POST", "/mcp", given, posted.body)  # the connection still serves
            assert (await client.answer()).status == 401
        assert [call["target"] for call in calls_of(route.log)] == ["ok", "ok"]


@pytest.mark.holds("gateway/recording/early_refusals", "anonymous-budget")
@pytest.mark.holds("gateway/front/health", "details")
async def test_strangers_can_not_fill_the_log_and_it_says_what_is_missing(
    world: Tokened, trust: Trust, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(early_refusals, "STRANGER_RECORDS", 3)
    told = partial(early_refusals.AnonymousRecordBudget, lambda: now[0])
    monkeypatch.setattr("accredit.gateway.app.AnonymousRecordBudget", told)

    async with guarded("http-modern", world, trust, tmp_path, records_at(tmp_path / "log.db")) as route:
        bad, good = world.token(exp=7), world.token(sub="agent-7")
        flood: Posts = [(calling(route), bad), (calling(route), None)] * 4
        assert {answer.status for answer in await answers(route, flood)} == {401}
        assert len(calls_of(route.log)) == 3
        await answers(route, [(calling(route, name="pay"), good)])  # who is known is no stranger
        assert [call["error"] for call in calls_of(route.log)[3:]] == ["insufficient_scope"]
        assert calls_of(route.log)[3]["reason"] == "5 refused requests before this one left no record"
        long = calling(route, arguments={"x": "x" * 262_144})
        now[0] += 3600
        await answers(route, [(long, None), (long, bad), (calling(route), None), (calling(route), None)])
        found = calls_of(route.log)[4:]
        assert [call.get("reason") for call in found] == ["2 refused requests before this one left no record", None]
        assert "result" in messages_of(await route.send(calling(route), token=good))[-1]
        async with RawClient(route.port) as client:
            await client.ask("GET", "/readyz", [("Authorization", f"Bearer {good}")])
            assert json.loads((await client.answer()).body)["refused"]["denial_unrecorded"] == 7
    assert verified(tmp_path / "log.db").valid


async def test_a_log_that_fails_is_told_by_the_count(world: Tokened, trust: Trust, tmp_path: Path) -> None:
    log = FailingRecords(decisions=False)
    async with guarded("http-modern", world, trust, tmp_path, log) as route:
        await answers(route, [(calling(route), None)])
        assert route.app.refused["denial_unrecorded"] == 1


# --- with proofs ------------------------------------------------------------------------------------


@everywhere
async def test_a_call_that_the_decision_can_not_read_is_a_refusal_with_a_record(
    name: str, trust: Trust, tmp_path: Path
) -> None:
    told: list[bytes] = []
    for records in (None, records_at(tmp_path / "log.db")):
        async with Route(name, trust, tmp_path, records=records) as route:
            asked = [
                calling(route, name=7),
                calling(route, arguments={"n": 2**60}),
                calling(route, _meta={"ratify_proof": 1}, name=[]),
            ]
            told.append(b"".join([(await route.send(each)).body for each in asked]))
    assert told[0] == told[1]
    found = [(call["target"], call["verdict"], call["error"]) for call in calls_of(tmp_path / "log.db")]
    assert found == [
        ("", "deny", "invalid_params"),
        ("ok", "deny", "invalid_params"),
        ("", "deny", "invalid_params"),
    ]


# --- other transports -------------------------------------------------------------------------------


async def test_a_refused_call_of_a_session_of_2024_is_recorded(world: Tokened, tmp_path: Path) -> None:
    upstream, mine = Upstream(), world.token(sub="agent-7")

    log = tmp_path / "log.db"
    async with upstream.server as server:
        url = server.url.replace("/mcp", "/sse")
        settings = GatewaySettings(HttpUpstream(url), tokens=world.settings(), records=RecordSettings("gate"))
        app = create_app(settings, key_sets=world.key_sets, records=records_at(log))
        async with RunningGateway(app) as gateway, RawClient(gateway.port) as stream:
            await stream.ask("GET", "/sse", [("Accept", "text/event-stream"), ("Authorization", f"Bearer {mine}")])
            await stream.head()
            named = await stream.event()
            assert named is not None
            target = (named.data or b"").decode()
            for number, (where, token, status) in enumerate(
                (
                    (target, None, 401),
                    (target, world.token(exp=7), 401),
                    (target, world.token(sub="thief"), 404),
                    ("/messages?session_id=gone", mine, 404),
                )
            ):
                params = {"name": f"t{number}", "arguments": {}}
                body = compact({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
                headers = [JSON, *([("Authorization", f"Bearer {token}")] if token else [])]
                async with RawClient(gateway.port) as client:
                    await client.ask("POST", where, headers, body)
                    assert (await client.answer()).status == status
            found = calls_of(log)
            assert [(call["target"], call["error"]) for call in found] == [
                ("t0", "missing_token"),
                ("t1", "invalid_token"),
                ("t2", "session_not_found"),
                ("t3", "session_not_found"),
            ]
            subjects = [call["record"].token and call["record"].token.subject for call in found]
            assert subjects == [None, None, "thief", "agent-7"]
        await server.until(lambda found: found.open == 0)


def test_wrap_records_what_it_refuses_for_a_token(tmp_path: Path) -> None:
    key = IssuerKey()
    (tmp_path / "keys.json").write_bytes(key_set_text(key))
    assert accredit("keys", "new", "gateway.key", "--kind", "gateway", folder=tmp_path).returncode == 0
    (tmp_path / "accredit.toml").write_text(
        '[tokens]\nmode = "required"\n[[tokens.issuers]]\nissuer = "https://issuer.example"\n'
        'audience = "mail-gateway"\njwks_file = "keys.json"\n[tools.echo]\nscope = "mail:read"\n'
        'token_scope = "mail:read"\n[attest]\nmode = "durable"\nkey_file = "gateway.key"\n'
        '[store]\nurl = "sqlite:///accredit.db"\n',
        "utf-8",
    )
    poor = key.sign(claims("https://issuer.example", int(time.time()), aud="mail-gateway", scope="other"))
    with wrapped(tmp_path) as host:
        host.initialize()
        for tool, meta in (("echo", {}), ("echo", {"token": poor}), (7, {"token": poor})):
            params = {"name": tool, "arguments": {}, "_meta": meta}
            host.say(id=1, method="tools/call", params=params)
            assert "error" in host.message()
    found = calls_of(tmp_path / "accredit.db")
    assert [(call["target"], call["error"]) for call in found] == [
        ("echo", "missing_token"),
        ("echo", "insufficient_scope"),
        ("", "invalid_params"),
    ]
    said = found[1]["record"].token
    assert said.sha256 == hashlib.sha256(poor.encode()).hexdigest()
