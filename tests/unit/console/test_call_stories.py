"""A call's story is whole, and found without reading all of a long log."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.unit.ratify.world import AGENT, HUMAN, chain
from tests.world.logs import Log
from tests.world.records import DENY, OK, decided, gateway
from tests.world.thief import Thief

from accredit.attest import recorded_chain
from accredit.console.log_pages import CallsPart, LogPages
from accredit.errors import DeskError
from accredit.stores import SqliteFile

pytestmark = pytest.mark.holds("console/log_pages")


@pytest.fixture
def calls(tmp_path: Path) -> dict[str, str]:
    """A log of calls: of each, its id."""
    slow, opened, quick, refused = decided("slow"), decided("open"), decided("quick"), decided("refused", decision=DENY)

    async def write() -> None:
        async with Log(tmp_path / "log.db") as log:
            await log.call()
            await log.port.begin(slow)
            for _ in range(3):
                await log.call()
            await log.port.finish(slow, OK)
            await log.port.begin(refused)
            await log.port.begin(quick)
            await log.port.finish(quick, OK)
            await log.port.begin(opened)
            await log.die()

    asyncio.run(write())
    return {each.call.target or "": each.call.id for each in (slow, opened, quick, refused)}


@pytest.fixture(params=["with the index", "without it"])
def pages(tmp_path: Path, calls: dict[str, str], request: pytest.FixtureRequest) -> LogPages:
    """What reads the log; a file of an older accredit has no index of calls."""
    if request.param == "without it":
        with closing(sqlite3.connect(tmp_path / "log.db")) as file, file:
            file.execute("DROP INDEX log_calls")
    return LogPages(SqliteFile(tmp_path / "log.db"), dict)


def told(pages: LogPages, call_id: str) -> list[str]:
    return [each["says"] for each in asyncio.run(pages.story({}, call_id))["records"]]


def got(part: CallsPart, route: str, *path: str, **said: Any) -> dict[str, Any]:
    async def run() -> dict[str, Any]:
        return dict(await part.routes()[route](said, *path))

    return asyncio.run(run())


@pytest.mark.parametrize("is_listed", [True, False])
def test_a_story_is_the_same_whether_the_call_was_listed_or_not(
    is_listed: bool, pages: LogPages, calls: dict[str, str]
) -> None:
    if is_listed:
        listed = asyncio.run(pages.calls({}))["calls"]
        assert {each["call"] for each in listed} >= set(calls.values())
    assert told(pages, calls["slow"]) == told(pages, calls["quick"]) == ["allow", "ok"]
    assert told(pages, calls["refused"]) == ["deny ratify_scope_denied"]
    assert told(pages, calls["open"]) == ["allow"]
    with pytest.raises(DeskError):
        told(pages, "0" * 32)


def test_of_gateways_with_logs_of_their_own_each_is_shown__and_a_call_is_found_in_any(
    tmp_path: Path, pages: LogPages, calls: dict[str, str]
) -> None:
    """Only the first one's calls were shown, as if the others had none."""
    other = decided("elsewhere", decision=DENY)

    async def write() -> None:
        async with Log(tmp_path / "other.db") as log:
            await log.port.begin(other)

    asyncio.run(write())
    logs = {"aa" * 16: pages, "bb" * 16: LogPages(SqliteFile(tmp_path / "other.db"), dict), "cc" * 16: pages}
    first = got(CallsPart(pages, logs), "GET /api/calls")
    assert {each["call"] for each in first["calls"]} >= set(calls.values())
    assert [id for id, _ in first["logs"]] == ["aa" * 16, "bb" * 16], "one store is one log"
    second = got(CallsPart(pages, logs), "GET /api/calls", log="bb" * 16)
    assert [each["target"] for each in second["calls"]] == ["elsewhere"]
    for target, call in (("elsewhere", other.call.id), ("quick", calls["quick"])):
        assert got(CallsPart(pages, logs), "GET /api/calls/{call_id}", call)["target"] == target
    with pytest.raises(DeskError, match="no record"):
        got(CallsPart(pages, logs), "GET /api/calls/{call_id}", "0" * 32)
    with pytest.raises(DeskError, match="no gateway"):
        got(CallsPart(pages, logs), "GET /api/calls/rate", log="dd")
    assert got(CallsPart(pages), "GET /api/calls")["logs"] == []


FORGED = (
    "INSERT INTO log_entries SELECT ?, writer, number, key, CAST(replace(CAST(payload AS TEXT), 'quick', 'wire_money')"
    " AS BLOB), zeroblob(64), ml_dsa_65, digest, members, proof FROM log_entries"
    " WHERE CAST(payload AS TEXT) LIKE '%quick%' AND CAST(payload AS TEXT) LIKE '%verdict%'"
)


def test_a_call_that_somebody_filed_with_what_is_no_record_hides_no_call(
    tmp_path: Path, pages: LogPages, calls: dict[str, str]
) -> None:
    thief = Thief(tmp_path / "log.db")
    ((writer, key),) = thief.run("SELECT w.name, k.id FROM log_writers w, log_keys k")
    thief.add_entry(str(writer), 77, b"garbage", str(key))
    thief.open("dd" * 16, str(writer), str(writer), 77)
    listed = {each["call"]: each["outcome"] for each in asyncio.run(pages.calls({}))["calls"]}
    assert set(listed) >= set(calls.values())
    assert listed[calls["open"]] == "open"
    assert asyncio.run(pages.rate({}))["whole"]


def test_a_record_that_somebody_filed_with_a_member_that_none_has_fails_no_page(
    calls: dict[str, str], tmp_path: Path
) -> None:
    """The page of all calls said that the log is damaged, and showed none."""
    forged = FORGED.replace("'quick', 'wire_money'", """'"verdict"', '"verdikt"'""")
    with closing(sqlite3.connect(tmp_path / "log.db")) as file, file:
        assert file.execute(forged, (1_000_000,)).rowcount == 1
    pages = LogPages(SqliteFile(tmp_path / "log.db"), dict, [gateway()[1]])
    assert {each["call"] for each in asyncio.run(pages.calls({}))["calls"]} >= set(calls.values())
    assert asyncio.run(pages.rate({}))["whole"]


@pytest.mark.holds("console/log_pages", "verification", "no-key")
@pytest.mark.parametrize("number", [-(1 << 63), 0, 1_000_000])
def test_what_somebody_wrote_into_the_store_is_shown_as_that(
    number: int, calls: dict[str, str], tmp_path: Path
) -> None:
    with closing(sqlite3.connect(tmp_path / "log.db")) as file, file:
        file.execute(FORGED, (number,))
    pages = LogPages(SqliteFile(tmp_path / "log.db"), dict, [gateway()[1]])
    page = asyncio.run(pages.calls({}))
    assert page["checked"] is True
    assert {each["target"] for each in page["calls"] if each["signature"].startswith("BAD")} >= {"wire_money"}
    assert all(each["signature"] == "good" for each in page["calls"] if each["target"] not in ("quick", "wire_money"))
    story = asyncio.run(pages.story({}, calls["quick"]))
    assert (story["target"], story["good"]) == ("quick", True), "a story goes by the records that verify"
    unchecked = asyncio.run(LogPages(SqliteFile(tmp_path / "log.db"), dict).calls({}))
    assert unchecked["checked"] is False
    assert {each["signature"] for each in unchecked["calls"]} == {"not checked"}


@pytest.mark.holds("console/log_pages", "evidence")
def test_a_story_says_who_allowed_a_call__and_calls_nobody_by_a_name_that_a_record_gives(tmp_path: Path) -> None:
    certs = chain(1, ("email:send",))
    texts = recorded_chain(cert.encode() for cert in certs)
    call = decided(certificates=texts.text)
    assert call.authority is not None
    named = {"principal_id": HUMAN.id, "principal_name": "Mallory", "agent_id": AGENT.id}
    kept = {"cert_ids": (certs[0].cert_id,), "chain_sha256": texts.sha256}
    call = replace(call, authority=replace(call.authority, **named, **kept))

    async def write() -> None:
        async with Log(tmp_path / "log.db") as log:
            await log.port.begin(call)
            await log.port.finish(call, OK)

    asyncio.run(write())
    place, names, keys = SqliteFile(tmp_path / "log.db"), {AGENT.id: "Assistant"}, [gateway()[1]]
    stories = [
        asyncio.run(LogPages(place, lambda: names, trusted, people).story({}, call.call.id))["proved"]
        for trusted, people in ((keys, {HUMAN.public_key: "Ada"}), (keys, {}), ([], {HUMAN.public_key: "Ada"}))
    ]
    assert stories[0]["sentence"].startswith(
        "Ada allowed Assistant to call send_email at mail-gateway until 2027-01-15;"
    )
    assert [(name, verified) for name, _, verified in stories[0]["parts"]] == [
        ("allowed", True), ("signed", None), ("recorded", True),
    ]  # fmt: skip
    assert stories[1]["sentence"].startswith(f"{HUMAN.id} (compared with no key of yours) allowed Assistant")
    assert stories[2] is None, "of a record that nobody verified nothing is said"


def spoil(path: Path, where: str, call_id: str) -> None:
    """An entry that names the call and is no record: whoever reads it knows that the log is damaged."""
    with closing(sqlite3.connect(path)) as file, file:
        file.execute(
            "UPDATE log_entries SET payload = ? WHERE entry ="
            f" (SELECT {where}(entry) FROM log_entries WHERE ml_dsa_65 IS NULL"
            " AND entry NOT IN (SELECT entry FROM log_open))",
            (f"no record {call_id}".encode(),),
        )


def test_a_name_that_somebody_wrote_into_the_store_is_no_command_of_ours_on_the_page(
    calls: dict[str, str], tmp_path: Path
) -> None:
    with closing(sqlite3.connect(tmp_path / "log.db")) as file, file:
        file.execute("UPDATE log_writers SET name = '`accredit keys show`'")
        file.execute("UPDATE log_entries SET ed25519 = 5")
    with pytest.raises(DeskError, match=r"^the log is damaged: “`accredit keys show`/[0-9]+ is damaged”$"):
        asyncio.run(LogPages(SqliteFile(tmp_path / "log.db"), dict).calls({}))


def test_a_story_is_read_from_the_newest_entry_to_its_beginning__and_no_further(
    pages: LogPages, calls: dict[str, str], tmp_path: Path
) -> None:
    spoil(tmp_path / "log.db", "min", calls["quick"])
    assert told(pages, calls["quick"]) == ["allow", "ok"]


def test_of_a_call_that_was_listed_it_is_read_from_its_beginning_to_its_end__and_no_further(
    pages: LogPages, calls: dict[str, str], tmp_path: Path
) -> None:
    asyncio.run(pages.calls({}))
    spoil(tmp_path / "log.db", "max", calls["slow"])
    spoil(tmp_path / "log.db", "min", calls["slow"])
    assert told(pages, calls["slow"]) == ["allow", "ok"]


def test_a_bookmark_that_leads_to_nothing_any_more_hides_no_story(
    pages: LogPages, calls: dict[str, str], tmp_path: Path
) -> None:
    asyncio.run(pages.calls({}))
    with closing(sqlite3.connect(tmp_path / "log.db")) as file, file:  # another file, in which the call stands before
        file.execute("UPDATE log_entries SET entry = entry - 1000")
    assert told(pages, calls["quick"]) == ["allow", "ok"]
