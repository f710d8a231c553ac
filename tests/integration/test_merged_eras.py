"""Servers of older revisions among others: clients of both eras have all of them, and no other takes an era away."""

import asyncio
import json
from typing import Any

import pytest
from tests.integration.test_merged import answering, error_of, modern, result_of
from tests.world.authorization import Trust
from tests.world.calls import compact, http, initialize, post
from tests.world.honest_server import answer_to
from tests.world.many_servers import Several
from tests.world.raw_server import Connection, until
from tests.world.routes import messages_of

from accredit.gateway.settings import RoundsSettings
from accredit.jsonrpc.methods import LEGACY_REVISIONS, Era

pytestmark = pytest.mark.holds("gateway/upstream/merged/backend", "legacy-server")
DISCOVER = modern({}, method="server/discover")
UNAVAILABLE = "dev.accredit/unavailable"


class Older:
    """A server that speaks none but the older revisions: `refusal` is what it says to a request without a session.
    `learnt`: it has been given a version that knows `server/discover`. `asked` are the methods, `open` the sessions."""

    def __init__(self, refusal: bytes, status: str) -> None:
        self.refusal = refusal
        self.status = status
        self.learnt = False
        self.asked: list[str] = []
        self.open: set[str] = set()

    async def __call__(self, connection: Connection) -> None:
        while (request := await connection.request()) is not None:
            session = request.header("mcp-session-id") or ""
            message = json.loads(request.body) if request.body else {"method": request.method}
            self.asked.append(message["method"])
            if message["method"] == "initialize":
                assert request.header("mcp-protocol-version") is None
                session = f"session-{len(self.asked)}"
                self.open.add(session)
                await connection.send(http(compact(answer_to(message)), headers=(("Mcp-Session-Id", session),)))
            elif message["method"] == "DELETE":
                self.open.discard(session)
                await connection.send(http(b"", None, status="204 No Content"))
            elif session in self.open or self.learnt:
                await connection.send(http(compact(answer_to(message))))
            else:
                await connection.send(http(self.refusal, status=self.status))


REFUSALS = [
    (compact({"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": "No session"}}), "400 Bad Request"),
    (compact({"jsonrpc": "2.0", "id": "x", "error": {"code": -32600, "message": "No session"}}), "400 Bad Request"),
    (b"Bad Request", "400 Bad Request"),
]


@pytest.mark.parametrize(("refusal", "status"), REFUSALS)
async def test_clients_of_both_eras_go_on_with_all_servers_in_the_era_that_all_speak(
    refusal: bytes, status: str, trust: Trust
) -> None:
    older = Older(refusal, status)

    several = Several(trust, required=False, merge=True, handlers={"files": older}, rounds=RoundsSettings())
    async with several:
        at_once = [several.send_merged(DISCOVER) for _ in range(5)]
        for refused in [*await asyncio.gather(*at_once), await several.send_merged(DISCOVER)]:
            assert (refused.status, error_of(refused)["code"]) == (400, -32022)
            assert error_of(refused)["data"]["supported"] == list(LEGACY_REVISIONS)
        await until(lambda: not older.open)
        assert older.asked.count("initialize") == 1  # what is known of it is not found out again
        begun = await several.send_merged(initialize())
        assert "_meta" not in messages_of(begun)[-1]["result"]
        listing = post(Era.LEGACY, "tools/list", {})
        listed = await several.send_merged(listing, session=begun.header("mcp-session-id") or "")
        assert {each["name"].partition("__")[0] for each in result_of(listed)["tools"]} == {"mail", "files"}

        older.learnt = True
        assert "_meta" in result_of(await several.send_merged(DISCOVER))
        older.learnt = False
        assert (await several.send_merged(DISCOVER)).status == 400
        assert older.asked.count("initialize") == 3


SILENT: Any = {"error": {"code": -32601, "message": "Method not found"}}


@pytest.mark.parametrize("handler", [answering(SILENT), answering(b"garbage"), answering({"result": []}), None])
async def test_a_server_that_speaks_no_era_takes_none_from_the_others(handler: Any, trust: Trust) -> None:
    handlers = {"files": handler} if handler is not None else None
    async with Several(trust, required=False, merge=True, handlers=handlers) as several:
        if handler is None:
            await several.stop("files")
        said = await several.send_merged(DISCOVER)
        assert (said.status, result_of(said)["supportedVersions"]) == (200, ["2026-07-28"])
        assert result_of(said)["_meta"][UNAVAILABLE] == ["files"]


@pytest.mark.parametrize(("seconds", "sessions"), [(30.0, 1), (0.0, 3)])
async def test_a_server_that_begins_no_session_is_not_asked_for_one_by_each_that_asks(
    trust: Trust, seconds: float, sessions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("accredit.gateway.upstream.merged.backend.ASK_ERA_AGAIN_SECONDS", seconds)
    asked: list[str] = []

    def said(message: Any) -> Any:
        asked.append(message["method"])
        return SILENT

    async with Several(trust, required=False, merge=True, handlers={"files": answering(said)}) as several:
        for _ in range(3):
            assert result_of(await several.send_merged(DISCOVER))["_meta"][UNAVAILABLE] == ["files"]
        assert (asked.count("server/discover"), asked.count("initialize")) == (3, sessions)
