"""`accredit revoke`: signed lists that grow."""

import asyncio
import fcntl
import json
import os
from contextlib import ExitStack
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.world.delegations import World
from tests.world.in_process import Refused, Run, Save
from tests.world.recorded import records_at
from tests.world.records import decided

from accredit.attest import recorded_chain
from accredit.base.clock import unix_seconds
from accredit.ratify import RevocationList, issue_revocation_list, revocation_list_fault
from accredit.stores import RevocationLists
from accredit.stores.sqlite.revocation_lists import change_list

pytestmark = [pytest.mark.holds("signing/revoke"), pytest.mark.holds("cli/commands/calls")]

LIST = ("--issuer", "owner.key", "--list", "revoked.json")
STORE = ("--issuer", "owner.key", "--store", "sqlite:///accredit.db")


def read(folder: Path) -> RevocationList:
    return RevocationList.decode((folder / "revoked.json").read_bytes())


def test_a_list_is_made_and_extended(run: Run, folder: Path, world: World) -> None:
    before = unix_seconds()
    done = run("revoke", "one", *LIST)
    assert done.code == 0
    assert "revoked one" in done.words
    assert "1 in all" in done.words
    assert run("revoke", "two", *LIST).code == 0
    found = read(folder)
    assert found.revoked_certs == ("one", "two")
    assert revocation_list_fault(found, world.owner.public_key) is None
    assert before <= found.updated_at <= unix_seconds()
    assert set(os.listdir(folder)) - {"revoked.json"} == {
        f"{name}.key{pub}" for name in ("owner", "agent", "sub") for pub in ("", ".pub")
    }


def test_what_was_revoked_stays_revoked(run: Run, folder: Path) -> None:
    run("revoke", "one", *LIST)
    before = (folder / "revoked.json").read_bytes()
    done = run("revoke", "one", *LIST)
    assert done.code == 0
    assert "was revoked before" in done.words
    assert (folder / "revoked.json").read_bytes() == before


@pytest.mark.parametrize("place", [LIST, STORE])
def test_a_list_without_entries_is_made__and_none_that_has_some_is_replaced(
    run: Run, refused: Refused, place: tuple[str, ...], folder: Path, world: World
) -> None:
    made = run("revoke", "--empty", *place, "--json").json
    assert (made["made"], made["issuer_id"], made["revoked_certs"]) == (True, world.owner.id, [])
    again = run("revoke", "--empty", *place)
    assert (again.code, "nothing is changed" in again.words) == (0, True)
    assert run("revoke", "one", *place, "--json").json["revoked_certs"] == ["one"]
    assert "holds 1 in all" in refused("revoke", "--empty", *place)[0]
    assert run("revoke", "one", *place, "--json").json["added"] is False


@pytest.mark.holds("console/lists", "new-list")
def test_an_empty_list_that_is_made_where_one_was_lost_takes_nothing_back(run: Run, folder: Path, world: World) -> None:
    keys = {world.owner.id: world.owner.public_key}

    async def main() -> None:
        lists = RevocationLists([folder / "revoked.json"], keys)
        lists.load()
        (folder / "revoked.json").unlink()
        assert run("revoke", "--empty", *LIST).code == 0
        assert await lists.is_revoked("one")
        assert "older" in (lists.problem() or "")

    run("revoke", "one", *LIST)
    asyncio.run(main())


def test_for_programs_it_is_json(run: Run, world: World) -> None:
    assert run("revoke", "one", *LIST, "--json").json["added"] is True
    done = run("revoke", "one", *LIST, "--json").json
    assert done["added"] is False
    assert (done["file"], done["issuer_id"]) == ("revoked.json", world.owner.id)
    assert done["revoked_certs"] == ["one"]
    assert done["updated_at"].endswith("Z")


def log_of(folder: Path, world: World, *cert_ids: str, forged: str | None = None) -> None:
    """A store whose log knows of calls on these certificates of the owner's."""

    async def make() -> None:
        records = records_at(folder / "accredit.db")
        for each in cert_ids:
            cert = world.grant("email:send", cert_id=each)
            await records.begin(decided(certificates=recorded_chain([cert.text()]).text))
        if forged is not None:
            cert = replace(world.grant("email:send"), cert_id=forged)
            await records.begin(decided(certificates=recorded_chain([cert.text()]).text))
        await records.aclose()

    asyncio.run(make())


@pytest.mark.holds("signing/revoke", "prefix")
def test_a_certificate_that_calls_came_with_is_named_by_how_its_id_begins(run: Run, folder: Path, world: World) -> None:
    one, two = "0a" * 8 + "1" * 16, "0a" * 8 + "2" * 16
    log_of(folder, world, one, two)
    done = run("revoke", one[:17], *STORE, "--json", "--yes")
    assert (done.code, done.json["revoked_certs"]) == (0, [one])
    assert one in done.err
    assert "email:send" in done.err
    done = run("revoke", "0a0a0a0a", *STORE, "--yes")
    assert (done.code, done.out) == (1, "")
    assert [line.split()[0] for line in done.err.splitlines()[2:]] == [one, two]
    done = run("revoke", "0c0c0c0c", *STORE, "--yes")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("error: no record of certificate 0c0c0c0c\nhelp: write the whole id")


@pytest.mark.holds("signing/revoke", "consent")
def test_the_beginning_of_an_id_revokes_nothing_before_somebody_saw_what_it_belongs_to(
    run: Run, folder: Path, world: World
) -> None:
    log_of(folder, world, "0a" * 16)
    assert "write it whole" in run("revoke", "0a0a0a0a", *STORE).err
    done = run("revoke", "0a0a0a0", *STORE, "--yes")
    assert (done.code, done.out) == (2, "")
    assert "too little of the id" in done.err
    assert run("revoke", "ff" * 16, *STORE, "--json").json["revoked_certs"] == ["ff" * 16]


@pytest.mark.holds("signing/revoke", "issuer-only")
def test_a_certificate_that_a_caller_made_up_is_not_revoked_in_anothers_place(
    run: Run, folder: Path, world: World
) -> None:
    log_of(folder, world, forged="0a" * 16)
    assert run("revoke", "0a0a0a0a", *STORE, "--yes").err.startswith("error: no record of certificate")
    log_of(folder, world, "0a0a0a0a" + "f" * 24)
    assert run("revoke", "0a0a0a0a", *STORE, "--yes", "--json").json["revoked_certs"] == ["0a0a0a0a" + "f" * 24]


def test_a_list_never_gets_older(run: Run, folder: Path, world: World, save: Save) -> None:
    later = unix_seconds() + 3600
    save(issue_revocation_list(world.owner.signer(), ["one"], later), name="revoked.json")
    run("revoke", "two", *LIST)
    assert read(folder).updated_at == later


@pytest.mark.holds("console/lists", "turns")
def test_whoever_may_read_the_list_and_its_folder_can_keep_nothing_from_being_revoked(run: Run, folder: Path) -> None:
    assert run("revoke", "one", *LIST).code == 0
    with ExitStack() as held:
        for each in (folder, folder / "revoked.json"):
            descriptor = os.open(each, os.O_RDONLY)
            held.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        assert run("revoke", "two", *LIST).code == 0
    assert read(folder).revoked_certs == ("one", "two")


def test_a_link_to_a_list_is_followed(run: Run, folder: Path) -> None:
    (folder / "shared").mkdir()
    (folder / "revoked.json").symlink_to("shared/list.json")
    for cert_id in ("one", "two"):
        assert run("revoke", cert_id, *LIST).code == 0
    assert (folder / "revoked.json").is_symlink()
    assert json.loads((folder / "shared" / "list.json").read_bytes())["revoked_certs"] == ["one", "two"]


def test_a_list_of_another_issuer_is_not_extended(refused: Refused, save: Save, world: World) -> None:
    save(issue_revocation_list(world.agent.signer(), ["one"], unix_seconds()), name="revoked.json")
    what, _ = refused("revoke", "two", *LIST)
    assert world.agent.id in what
    assert world.owner.id in what


def test_a_list_that_was_changed_is_not_extended(refused: Refused, save: Save, world: World) -> None:
    honest = issue_revocation_list(world.owner.signer(), ["one", "two"], unix_seconds())
    save(replace(honest, revoked_certs=("one",)), name="revoked.json")
    assert "was changed after it was signed" in refused("revoke", "three", *LIST)[0]


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b'{"revoked_certs": []}'])
def test_what_is_no_list_is_not_overwritten(content: bytes, refused: Refused, folder: Path) -> None:
    (folder / "revoked.json").write_bytes(content)
    assert "is not a revocation list" in refused("revoke", "one", *LIST)[0]


def test_a_full_list_stays_as_it_is(refused: Refused, save: Save, world: World) -> None:
    ids = [str(number).rjust(50_000, "0") for number in range(83)]
    save(issue_revocation_list(world.owner.signer(), ids, unix_seconds()), name="revoked.json")
    assert "can't take another entry" in refused("revoke", "x" * 60_000, *LIST)[0]


@pytest.mark.parametrize("cert_id", ["", " ", "a\nb", "a\x1b"])
def test_what_is_no_id(cert_id: str, refused: Refused) -> None:
    assert "CERT_ID" in refused("revoke", cert_id, *LIST)[0]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("one", "--issuer", "owner.key"), "--list"),
        (("one", "--list", "revoked.json"), "--issuer"),
        (LIST, "CERT_ID"),
        (("one", "--empty", *LIST), "--empty"),
        (("one", "--issuer", "owner.key.pub", "--list", "revoked.json"), "can't sign"),
        (("one", "--issuer", "owner.key", "--list", "nowhere/revoked.json"), "nowhere"),
        (("one", "--issuer", "owner.key", "--list", "."), "can't read"),
        (("one", "--issuer", "owner.key", "--list", "revoked.json", "--store", "sqlite:///accredit.db"), "--store"),
        (("one", "--issuer", "owner.key", "--store", "memory:"), "--store memory:"),
        (("one", "--issuer", "owner.key", "--store", "redis://127.0.0.1"), "redis"),
        (("one", "--issuer", "owner.key", "--store", "sqlite:///nowhere/accredit.db"), "nowhere"),
        (("one", "--issuer", "owner.key", "--store", "sqlite:///owner.key"), "not revoked"),
    ],
)
def test_wrong_use(arguments: tuple[str, ...], word: str, refused: Refused) -> None:
    assert word in refused("revoke", *arguments)[0]


async def revoked_in_store(folder: Path, world: World) -> list[str]:
    keys = {key.id: key.public_key for key in (world.owner, world.agent)}
    lists = RevocationLists([], keys, store=folder / "accredit.db")
    lists.load()
    return [each for each in ("one", "two", "three") if await lists.is_revoked(each)]


def test_a_gateway_finds_in_its_store_what_each_issuer_has_revoked(run: Run, folder: Path, world: World) -> None:
    done = run("revoke", "one", *STORE)
    assert (done.code, "revoked one" in done.words, "sqlite:///accredit.db" in done.words) == (0, True, True)
    again = run("revoke", "one", *STORE, "--json").json
    assert (again["added"], again["store"], "file" in again) == (False, "sqlite:///accredit.db", False)
    assert run("revoke", "two", *STORE, "--json").json["revoked_certs"] == ["one", "two"]
    agents = ("--issuer", "agent.key", "--store", "sqlite:///accredit.db")
    assert run("revoke", "three", *agents, "--json").json["revoked_certs"] == ["three"]
    assert asyncio.run(revoked_in_store(folder, world)) == ["one", "two", "three"]


def test_a_list_in_a_store_that_was_changed_is_not_extended(refused: Refused, folder: Path, world: World) -> None:
    honest = issue_revocation_list(world.owner.signer(), ["one", "two"], unix_seconds())
    forged = replace(honest, revoked_certs=("one",)).encode()
    change_list(folder / "accredit.db", world.owner.id, lambda _: forged)
    assert "was changed after it was signed" in refused("revoke", "three", *STORE)[0]
    assert change_list(folder / "accredit.db", world.owner.id, lambda _: b"").before == forged


def test_a_key_that_others_can_read(refused: Refused, folder: Path) -> None:
    (folder / "owner.key").chmod(0o604)
    assert "mode 0604" in refused("revoke", "one", *LIST)[0]


# --- what looks like a revocation and may be none -----------------------------------------------------


def test_a_file_in_an_ids_place_revokes_nothing(refused: Refused, save: Save, world: World) -> None:
    name = save(world.grant("files:read"))
    what, remedy = refused("revoke", name, *LIST)
    assert "is a file" in what
    assert f"accredit inspect {name}" in remedy


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("ab" * 15, *LIST), "no id that accredit gives"),
        (("ab" * 16, *STORE), "was not there and has been made"),
        (("ab" * 16, "--issuer", "agent.key", "--list", "revoked.json"), "proofs.revocation.public_key_files"),
    ],
)
def test_a_revocation_that_may_not_count_is_told(arguments: tuple[str, ...], word: str, run: Run) -> None:
    done = run("revoke", *arguments)
    assert done.code == 0
    assert [word in line for line in done.err.splitlines()] == [True]
    assert done.err.startswith("warning: ")


def test_a_revocation_that_counts_is_told_without_warnings(run: Run) -> None:
    assert run("revoke", "ab" * 16, *LIST).err == ""
    run("revoke", "ab" * 16, *STORE)
    assert run("revoke", "cd" * 16, *STORE).err == ""
