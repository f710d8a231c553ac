"""Taking back where something fails: what only takes away waits for nothing that it does not need."""

import asyncio
import json
import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import httpx2
import pytest
from msgspec.structs import replace
from tests.world.agents import save_delegation
from tests.world.asgi import Told
from tests.world.delegations import NOW, World

from accredit.console.desk import Desk
from accredit.console.elsewhere import GatewayElsewhere
from accredit.console.gateways import GatewayHealth, Gateways
from accredit.console.journal import Journal
from accredit.console.lists import OWN_LIST, ListPlace, list_places
from accredit.console.people import People
from accredit.console.people_part import PeoplePart, RevocationContext, _sentence
from accredit.console.settings import DeskSettings
from accredit.console.unlock import KeyHolder
from accredit.errors import DeskError
from accredit.gateway.front.desk_asks import DeskAsks
from accredit.gateway.holding import HeldAsks
from accredit.keys import write_file, write_key
from accredit.ratify import RevocationList, issue_revocation_list
from accredit.rounds import KeyRing
from accredit.setup.own_grant import taken_back
from accredit.stores import MemoryStore, SqliteFile
from accredit.stores.asks import Asks
from accredit.stores.door.steps import Door

pytestmark = pytest.mark.holds("console/people_part")

WORLD = World()


def part_in(
    folder: Path, *places: Path | SqliteFile, elsewhere: Sequence[GatewayElsewhere] = ()
) -> tuple[PeoplePart, Journal]:
    write_key(folder / "owner.key", WORLD.owner)
    save_delegation(folder / "one.json", (WORLD.grant("comms:email:send", begins=5, ends=NOW * 2),))
    journal = Journal(folder / "state")
    holder = KeyHolder(WORLD.owner, unlock_seconds=900)
    desk = Desk(WORLD.owner.public(), holder, journal, lambda: NOW)
    lists = [ListPlace(each, str(each)) for each in places]
    gateways = Gateways(dict)
    people = People(None, folder, lists=lists, person=desk.person)
    return PeoplePart(people, dict, RevocationContext(desk, lists, gateways, people, elsewhere)), journal


async def asked(part: PeoplePart, method: str, said: dict[str, object], *handle: str) -> dict[str, object]:
    work = part.routes()[f"{method} /api/people{'/{handle}' if handle else ''}"]
    return dict(await work(said, **dict(zip(("handle",), handle, strict=False))))


async def taken(part: PeoplePart) -> dict[str, object]:
    (row,) = (each for each in (await asked(part, "GET", {"all": 1}))["rows"] if each["level"])  # type: ignore[attr-defined]
    one = await asked(part, "GET", {}, row["handle"])
    return await asked(part, "POST", {"nonce": one["nonce"]}, row["handle"])


@pytest.mark.holds("console/people_part", "journal")
def test_a_full_disk_keeps_nobody_from_taking_back(tmp_path: Path) -> None:
    part, journal = part_in(tmp_path, tmp_path / "revoked.json")
    journal.close()
    said = asyncio.run(taken(part))
    assert said["everywhere"] is True
    assert "not in the journal" in str(said["told"])
    assert len(RevocationList.decode((tmp_path / "revoked.json").read_bytes()).revoked_certs) == 1


@pytest.mark.holds("setup/own_grant")
def test_what_was_taken_back_is_found_in_a_file_that_stays_as_it_is__a_gateway_of_another_user_may_start_on_it(
    tmp_path: Path,
) -> None:
    own = tmp_path / "accredit"
    own.mkdir(0o700)
    (own / "desk.toml").write_text('[desk]\nstore = "sqlite:///lists.db"\n')
    revoked = issue_revocation_list(WORLD.owner.signer(), ["c" * 32], NOW).encode()
    SqliteFile(own / "lists.db").change_list(WORLD.owner.public().id, lambda _: revoked)
    with closing(sqlite3.connect(own / "lists.db")) as file:
        file.execute("PRAGMA journal_mode = DELETE")  # who opens it to write makes WAL of it again
    before = (own / "lists.db").read_bytes()
    assert taken_back(WORLD.owner.public(), [], {"XDG_CONFIG_HOME": str(tmp_path)}) == {"c" * 32}
    assert (own / "lists.db").read_bytes() == before


def test_a_certificate_that_nobody_signed_as_it_is_shown_has_nothing_revoked(tmp_path: Path) -> None:
    """Somebody gives the id of a good certificate another look: the person would revoke the good one."""
    part, journal = part_in(tmp_path, tmp_path / "revoked.json")
    text = (tmp_path / "one.json").read_text("utf-8")
    assert "comms:email:send" in text
    (tmp_path / "one.json").write_text(text.replace("comms:email:send", "payments:send"), "utf-8")
    with pytest.raises(DeskError, match="Nobody signed it"):
        asyncio.run(taken(part))

    async def straight_away() -> None:
        (row,) = (each for each in (await asked(part, "GET", {}))["rows"] if each["level"])  # type: ignore[attr-defined]
        known = await part._people.known()
        (placed,) = ((await part._views(known)).find(row["handle"]),)
        assert part._taking is not None
        await asked(part, "POST", {"nonce": part._taking.nonce(placed)}, row["handle"])

    with pytest.raises(DeskError, match="Nobody signed it"):
        asyncio.run(straight_away())
    assert not (tmp_path / "revoked.json").exists()
    journal.close()


@pytest.mark.holds("console/people_part", "lists")
def test_what_no_list_could_take_is_not_said_to_be_taken_back(tmp_path: Path) -> None:
    part, journal = part_in(tmp_path, tmp_path / "a.json", tmp_path / "gone" / "b.json")
    write_file(tmp_path / "a.json", b"{}")
    journal.close()
    with pytest.raises(DeskError) as error:
        asyncio.run(taken(part))
    assert error.value.error == "not_written"
    assert error.value.reason.count("NOT in ") == 2


def test_a_store_that_is_not_there_is_not_made__no_gateway_reads_it(tmp_path: Path) -> None:
    part, journal = part_in(tmp_path, SqliteFile(tmp_path / "misspelt.db"))
    with pytest.raises(DeskError, match="no such store"):
        asyncio.run(taken(part))
    journal.close()
    assert not (tmp_path / "misspelt.db").exists()


@pytest.mark.holds("console/lists", "turns")
def test_a_list_that_a_gateway_of_another_user_reads_stays_readable_for_it(tmp_path: Path) -> None:
    part, journal = part_in(tmp_path, tmp_path / "revoked.json")
    write_file(tmp_path / "revoked.json", issue_revocation_list(WORLD.owner.signer(), (), NOW).encode())
    (tmp_path / "revoked.json").chmod(0o644)
    before = os.umask(0o077)
    try:
        asyncio.run(taken(part))
    finally:
        os.umask(before)
        journal.close()
    assert (tmp_path / "revoked.json").stat().st_mode & 0o777 == 0o644
    assert len(RevocationList.decode((tmp_path / "revoked.json").read_bytes()).revoked_certs) == 1


@pytest.mark.parametrize(
    ("said", "word"),
    [
        ({"status": ""}, "not known"),
        ({"counts": False, "has_list": True}, "not known"),
        ({"has_list": True}, "it knows"),
        ({"has_list": False}, "NOT go by this list"),
        ({"has_list": False, "parts": {"revocations": False}}, "does NOT count"),
        ({}, "not known"),
    ],
)
def test_what_a_gateway_does_not_say_is_not_known(said: dict[str, object], word: str) -> None:
    plain: dict[str, object] = {"ids": ("g",), "address": "https://g", "status": "ok", "parts": {"revocations": True}}
    gateway = GatewayHealth(**plain | said)  # type: ignore[arg-type]
    assert word in _sentence(gateway)


URL = "https://mcp.example.com"
RING = KeyRing([bytes(32)])


class Elsewhere(httpx2.AsyncBaseTransport):
    """A gateway elsewhere, with what the front door keeps; it can't be reached while `is_down`."""

    def __init__(self) -> None:
        self.door = Door(RING)
        self.is_down = False
        holding = HeldAsks(Asks(), RING, clock=lambda: NOW)
        self._desks = DeskAsks([WORLD.owner.public_key], URL, holding, MemoryStore(), self.door)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if self.is_down:
            raise httpx2.ConnectError("no")
        told = Told("POST", (), await request.aread())
        await self._desks.serve(told.exchange)
        return httpx2.Response(told.status, stream=httpx2.ByteStream(told.body))

    def reached(self) -> GatewayElsewhere:
        return GatewayElsewhere(URL, WORLD.owner.id, lambda: NOW, self)


@pytest.mark.holds("console/people_part", "elsewhere")
async def test_what_was_signed_for_a_gateway_elsewhere_is_taken_back_there__once_it_is_reached(tmp_path: Path) -> None:
    gateway = Elsewhere()
    part, journal = part_in(tmp_path, tmp_path / OWN_LIST, elsewhere=[gateway.reached()])
    chain = json.dumps(json.loads((tmp_path / "one.json").read_bytes())["delegations"]).encode()

    grant = await gateway.door.begin("https://claude.ai/c", WORLD.owner.id, f"{URL}/mcp", bytes(64), ends=NOW, now=NOW)
    assert await gateway.door.change(grant, lambda one: replace(one, chain=chain, ends=NOW + 9), now=NOW) is not None
    gateway.is_down = True
    said = await taken(part)
    assert said["everywhere"] is False
    assert f"NOT at {URL}" in str(said["told"])
    gateway.is_down = False
    said = await taken(part)  # it can be told again
    assert said["everywhere"] is True
    assert f"{URL} has ended it." in list(said["told"])  # type: ignore[call-overload]
    assert await gateway.door.change(grant, lambda one: one, now=NOW) is None
    with pytest.raises(DeskError):  # there is nothing left to take back
        await taken(part)
    journal.close()


def test_a_desk_for_gateways_elsewhere_alone_remembers_what_it_took_back(tmp_path: Path) -> None:
    (place,) = list_places(DeskSettings(folder=tmp_path, at=(URL,)))
    assert place.place == tmp_path / OWN_LIST
    assert list_places(DeskSettings(folder=tmp_path)) == []
    (named,) = list_places(DeskSettings(folder=tmp_path, at=(URL,), revocation_list=tmp_path / "mine.json"))
    assert named.place == tmp_path / "mine.json"
