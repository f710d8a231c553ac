"""Several servers as one, over a reload: what goes on behind it goes on before it."""

from collections.abc import Sequence

import pytest
from tests.world.authorization import GATEWAY, Trust
from tests.world.calls import initialize, post
from tests.world.many_servers import NAMES, Several
from tests.world.raw_client import RawAnswer
from tests.world.routes import messages_of
from tests.world.running import run

from accredit.gateway.merging import merged_settings
from accredit.gateway.settings import RoundsSettings
from accredit.jsonrpc.methods import Era
from accredit.rounds import KeyRing

pytestmark = pytest.mark.holds("gateway/server")


@pytest.fixture(scope="module")
def trust() -> Trust:
    return Trust()


def several(trust: Trust) -> Several:
    return Several(trust, required=False, merge=True, rounds=RoundsSettings(KeyRing([b"k" * 32]), shared=True))


def reload(behind: Several, names: Sequence[str] = NAMES, *, merge: bool = True) -> None:
    """Another value of the same settings, of these servers."""
    settings = [behind.settings(name) for name in names]
    whole = [merged_settings(settings, path="/mcp", gateway_id=GATEWAY)] if merge else []
    gateway = behind.gateway
    gateway.swap(gateway.prepare([*settings, *whole], gateway.routes.shared), 0.1)


def servers_in(answer: RawAnswer) -> set[str]:
    return {each["name"].partition("__")[0] for each in messages_of(answer)[-1]["result"]["tools"]}


def test_a_session_with_all_survives_a_reload_that_changes_none__and_ends_when_the_endpoint_is_taken_away(
    trust: Trust,
) -> None:
    legacy, modern = (post(era, "tools/list", {}) for era in (Era.LEGACY, Era.MODERN))

    async def main() -> None:
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

    run(main())


def test_a_server_that_is_taken_away_is_listed_and_called_no_more__the_others_as_before(trust: Trust) -> None:
    call = post(Era.MODERN, "tools/call", {"name": "files__list_inbox", "arguments": {}})

    async def main() -> None:
        async with several(trust) as behind:
            session = (await behind.send_merged(initialize())).header("mcp-session-id") or ""
            reload(behind, ["mail"])
            assert servers_in(await behind.send_merged(post(Era.MODERN, "tools/list", {}))) == {"mail"}
            before = len(behind.servers["files"].messages)
            assert messages_of(await behind.send_merged(call))[-1]["error"]["code"] == -32602
            again = await behind.send_merged(post(Era.LEGACY, "tools/list", {}), session=session)
            assert again.status == 404 or servers_in(again) == {"mail"}
            assert len(behind.servers["files"].messages) == before

    run(main())
