"""Several servers as one, over a reload: what goes on behind it goes on before it."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.world.authorization import GATEWAY, Trust
from tests.world.calls import initialize, post
from tests.world.many_servers import NAMES, Several
from tests.world.raw_client import RawAnswer
from tests.world.routes import messages_of

from accredit.errors import RequestError, SealError
from accredit.gateway import GatewaySettings, HttpUpstream, create_app
from accredit.gateway.front.callers import SealedSessions, sessions_of
from accredit.gateway.merging import merged_settings
from accredit.gateway.room import MAX_BODIES_BYTES
from accredit.gateway.settings import RoundsSettings
from accredit.gateway.upstream.merged.ids import NONCE_BYTES, MemberSession, pack_sessions
from accredit.jsonrpc.methods import Era
from accredit.rounds import KeyRing

pytestmark = pytest.mark.holds("gateway/server")


class Somebody:
    """Who takes a place."""

    peer = "10.0.0.1"
    proved = True


def several_rounds() -> RoundsSettings:
    return RoundsSettings(KeyRing([b"k" * 32]), shared=True)


def several(trust: Trust) -> Several:
    return Several(trust, required=False, merge=True, rounds=several_rounds())


def at(behind: Several, name: str, *urls: str) -> GatewaySettings:
    """The settings of a server that is elsewhere now."""
    return replace(behind.settings(name), upstream=HttpUpstream(urls[0], {}, urls[1:]))


def reload(
    behind: Several,
    names: Sequence[str] = NAMES,
    *,
    merge: bool = True,
    changed: Sequence[GatewaySettings] = (),
) -> None:
    """Another value of the same settings, of these servers."""
    settings = list(changed) or [behind.settings(name) for name in names]
    whole = [merged_settings(settings, path="/mcp", gateway_id=GATEWAY)] if merge else []
    gateway = behind.gateway
    gateway.swap(gateway.prepare([*settings, *whole], gateway.routes.shared), 0.1)


def servers_in(answer: RawAnswer) -> set[str]:
    return {each["name"].partition("__")[0] for each in messages_of(answer)[-1]["result"]["tools"]}


async def test_a_session_with_all_survives_a_reload_that_changes_none__and_ends_when_the_endpoint_is_taken_away(
    trust: Trust,
) -> None:
    legacy, modern = (post(era, "tools/list", {}) for era in (Era.LEGACY, Era.MODERN))

    async with several(trust) as behind:
        session = (await behind.send_merged(initialize())).header("mcp-session-id") or ""
        for _ in range(3):
            assert servers_in(await behind.send_merged(legacy, session=session)) == {*NAMES}
            reload(behind)
        reload(behind, merge=False)
        assert (await behind.send_merged(legacy, session=session)).status == 404
        assert (await behind.send_merged(modern)).status == 404
        assert (await behind.send("mail", modern)).status == 200
        reload(behind)
        assert servers_in(await behind.send_merged(modern)) == {*NAMES}


async def test_a_server_that_is_taken_away_is_listed_and_called_no_more__the_others_as_before(trust: Trust) -> None:
    call = post(Era.MODERN, "tools/call", {"name": "files__list_inbox", "arguments": {}})

    async with several(trust) as behind:
        session = (await behind.send_merged(initialize())).header("mcp-session-id") or ""
        reload(behind, ["mail"])
        assert servers_in(await behind.send_merged(post(Era.MODERN, "tools/list", {}))) == {"mail"}
        before = len(behind.servers["files"].messages)
        assert messages_of(await behind.send_merged(call))[-1]["error"]["code"] == -32602
        again = await behind.send_merged(post(Era.LEGACY, "tools/list", {}), session=session)
        assert again.status == 404 or servers_in(again) == {"mail"}
        assert len(behind.servers["files"].messages) == before


@pytest.mark.holds("gateway/upstream/merged/members", "same-place")
async def test_a_session_goes_on_at_its_replica_when_the_server_gets_another_one__and_ends_when_that_is_gone(
    trust: Trust,
) -> None:
    call = post(Era.LEGACY, "tools/call", {"name": "mail__list_inbox", "arguments": {}})

    async with several(trust) as behind:
        mail, files = behind.url("mail"), behind.url("files")
        session = (await behind.send_merged(initialize())).header("mcp-session-id") or ""
        reload(behind, changed=[at(behind, "mail", mail, files), behind.settings("files")])
        for _ in range(4):
            assert (await behind.send_merged(call, session=session)).status == 200
        assert (len(behind.calls("mail")), len(behind.calls("files"))) == (4, 0)
        reload(behind, changed=[at(behind, "mail", files, f"{files}/"), behind.settings("files")])
        assert (await behind.send_merged(call, session=session)).status == 404
        listed = await behind.send_merged(post(Era.LEGACY, "tools/list", {}), session=session)
        assert servers_in(listed) == {"files"}


@pytest.mark.holds("gateway/upstream/merged/members", "same-place")
async def test_no_server_is_told_a_session_of_the_one_that_had_its_name_before(trust: Trust) -> None:
    async with several(trust) as behind:
        whole = (await behind.send_merged(initialize())).header("mcp-session-id") or ""
        own = (await behind.send("mail", initialize())).header("mcp-session-id") or ""
        renamed = [at(behind, "mail", behind.url("files")), at(behind, "files", behind.url("mail"))]
        reload(behind, changed=renamed)
        before = {name: len(behind.requests(name)) for name in NAMES}
        for method in ("tools/list", "ping", "logging/setLevel"):
            assert (await behind.send_merged(post(Era.LEGACY, method, {}), session=whole)).status == 404
            assert (await behind.send("mail", post(Era.LEGACY, method, {}), session=own)).status == 404
        for path, session in (("/mcp", whole), ("/mcp/mail", own)):
            for method in ("GET", "DELETE"):
                headers = (("Mcp-Session-Id", session), ("Accept", "text/event-stream"))
                assert (await behind.get(path, method, *headers)).status == 404
        assert {name: len(behind.requests(name)) for name in NAMES} == before


def test_a_server_that_was_the_only_one_makes_no_session_of_all(trust: Trust) -> None:
    """It knows the form of what is sealed, and gives it for an id of its own."""
    alone = GatewaySettings(HttpUpstream("http://127.0.0.1:9/mcp"), rounds=several_rounds())
    mail = GatewaySettings(HttpUpstream("http://127.0.0.1:8/mcp"), "mail", "/mcp/mail", rounds=several_rounds())
    whole = merged_settings([mail], path="/mcp", gateway_id=GATEWAY)
    sealer, opener = (sessions_of(each, live_here=False) for each in (alone, whole))
    assert isinstance(sealer, SealedSessions)
    assert isinstance(opener, SealedSessions)
    forged = pack_sessions({"mail": MemberSession(b"one that another has", "", "2025-11-25")}, b"n" * NONCE_BYTES)
    given = sealer.seal(forged, "2025-11-25", b"s" * 16)
    assert sealer.ids.open(given).id == forged
    with pytest.raises(SealError):
        opener.ids.open(given)
    with pytest.raises(SealError):
        sealer.ids.open(opener.seal(forged, "2025-11-25", b"s" * 16))


async def test_the_endpoint_that_was_one_servers_keeps_no_more_of_large_bodies_than_a_part(trust: Trust) -> None:
    """Else each path beside it had its part as well, and all of them together more than the process is to hold."""
    alone = GatewaySettings(HttpUpstream("http://127.0.0.1:9/mcp"), max_request_bytes=1_000)
    servers = [
        GatewaySettings(HttpUpstream("http://127.0.0.1:8/mcp"), name, f"/mcp/{name}", max_request_bytes=1_000)
        for name in NAMES
    ]
    fresh = create_app([*servers, merged_settings(servers, path="/mcp", gateway_id=GATEWAY)])

    gateway = create_app(alone)
    gateway.swap(gateway.prepare([*servers, fresh.routes.servers[-1].settings], gateway.routes.shared), 0.1)
    whole, expected = (app.routes.servers[-1].rooms.bodies for app in (gateway, fresh))
    most = MAX_BODIES_BYTES // len(NAMES)
    for room in (whole, expected):
        room.take(Somebody(), most)
        with pytest.raises(RequestError):
            room.take(Somebody())
    await gateway.aclose()
