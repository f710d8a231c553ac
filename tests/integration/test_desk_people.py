"""Who may what, and how it is taken back: a real gateway, a real desk, and a real browser."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.world.agents import save_delegation
from tests.world.browser import LOOKS, faults
from tests.world.command import accredit
from tests.world.desk import PASSPHRASE, Desk
from tests.world.household import Household, Told, passed_on, told_by

from accredit.base.clock import unix_seconds
from accredit.console.names import set_name
from accredit.keys import lock_key, make_key, write_file, write_key
from accredit.ratify import RevocationList, issue_revocation_list

pytestmark = [
    pytest.mark.slow,
    pytest.mark.holds("console/people"),
    pytest.mark.holds("console/people_part"),
    pytest.mark.holds("console/people_views"),
    pytest.mark.holds("console/health"),
    pytest.mark.holds("console/gateways"),
]
TAKE = "button[data-take]"


def rows_of(told: Any, query: str = "") -> list[dict[str, Any]]:
    status, found = told.get(f"/api/people{query}")
    assert status == 200, found
    return [each for each in found["rows"] if each["level"]]


@pytest.mark.holds("console/people_part", "journal", "lists", "gateways")
def test_a_person_sees_the_tree_and_takes_back__and_the_gateway_refuses(home: Household, browser: Any) -> None:
    with home.gateway() as gateway, home.desk() as desk:
        set_name(home.config, home.trust.agent.id, "Assistant")
        for _ in range(2):
            assert not home.calls(gateway).get("isError")
        home.calls(gateway, "helper", "helper")
        failed: list[str] = []
        page = desk.page(browser, "/people")

        def note(error: object) -> None:
            failed.append(str(error))

        page.on("pageerror", note)
        page.wait_for_selector(".tree li[data-depth='2']")
        text = page.inner_text(".tree")
        assert re.search(r"Owner \(you\) lets", text)
        assert "3 calls" in text  # two by itself, one that the helper made on its word
        assert "email:read, email:send, identity:delegate (sensitive)" in text
        assert "What is not here" in page.inner_text("main")
        assert faults(page) == []
        page.click(".tree li[data-depth='1'] a:has-text('Assistant')")
        page.wait_for_selector(TAKE)
        assert "Helper" in page.inner_text(".ending")  # what ends below it is named
        assert faults(page) == []
        page.click(TAKE)
        page.wait_for_selector(".over")
        told = page.inner_text(".over")
        assert "says that it goes by this list: it knows." in told
        assert faults(page) == []
        for who, delegation in (("agent", "parent"), ("helper", "helper")):
            assert "revoked" in json.dumps(home.calls(gateway, who, delegation))
        page.goto(f"{desk.url}/people")
        page.wait_for_selector("text=are not shown")
        page.click("text=Also what is over")
        page.wait_for_selector(".tag:has-text('taken back')")
        assert page.locator(".tag:has-text('taken back')").count() == 2
        entry = [json.loads(line) for line in desk.journal.splitlines()][-1]
        assert (entry["event"], entry["cert"]) == ("taken back", home.parent[0].cert_id)
        page.close()
        assert failed == []
    done = accredit("grants", "list", folder=home.folder, env=desk.env)
    assert done.returncode == 0


@pytest.mark.holds("console/people_part", "root")
def test_what_was_never_used_is_known_from_files_and_the_journal_only(home: Household) -> None:
    (home.config / "desk.toml").unlink()
    with home.desk() as desk:
        told = told_by(desk)
        found = rows_of(told)
        assert {tuple(each["from"]) for each in found} == {("file",)}
        status, one = told.get(f"/api/people/{found[0]['handle']}")
        assert (status, one["why_not"]) == (
            200, "desk.toml names no place for your revocation list: store, revocation_list, or at.",
        )  # fmt: skip
        assert told.send(f"/api/people/{found[0]['handle']}", {"nonce": one["nonce"]})[0] == 403


def take_back(told: Any, cert_id: str) -> tuple[int, Any]:
    found = next(each for each in rows_of(told) if cert_id.startswith(each["cert"]))
    one = told.get(f"/api/people/{found['handle']}")[1]
    return told.send(f"/api/people/{found['handle']}", {"nonce": one["nonce"]})


def named_list(home: Household) -> Path:
    path = home.folder / "revoked.json"
    (home.config / "desk.toml").write_text(f'[desk]\nrevocation_list = "{path}"\n', "utf-8")
    return path


@pytest.mark.holds("console/lists", "time")
def test_a_list_that_is_newer_than_this_clock_keeps_all_that_it_has(home: Household) -> None:
    path, later = named_list(home), unix_seconds() + 10_000
    write_file(path, issue_revocation_list(home.trust.owner.signer(), ("others",), later).encode())
    with home.desk() as desk:
        status, said = take_back(told_by(desk), home.parent[0].cert_id)
        assert status == 200, said
        assert "does not know whether" in " ".join(said["told"])  # no gateway is known: it says so
        after = RevocationList.decode(path.read_bytes())
        assert after.revoked_certs == ("others", home.parent[0].cert_id)
        assert after.updated_at == later


@pytest.mark.holds("console/lists", "existing-list")
def test_a_list_that_somebody_changed_is_not_signed_anew(home: Household) -> None:
    path = named_list(home)
    other = issue_revocation_list(home.trust.stranger.signer(), ("x",), unix_seconds()).encode()
    for text in (other, other.replace(home.trust.stranger.id.encode(), home.trust.owner.id.encode()), b"{}"):
        write_file(path, text, replace=True)
        with home.desk() as desk:
            status, said = take_back(told_by(desk), home.parent[0].cert_id)
            assert (status, said["error"]) == (400, "not_written")
            assert path.read_bytes() == text
            events = [json.loads(line)["event"] for line in desk.journal.splitlines()]
            assert events[-2:] == ["taken back", "not taken back"]


@pytest.mark.holds("console/lists", "turns")
def test_two_desks_at_once_lose_nobodys_entry(home: Household, tmp_path: Path) -> None:
    path = named_list(home)
    second = Household(tmp_path / "second")
    for name in ("owner.key", "owner.key.pub"):
        (second.config / name).write_bytes((home.config / name).read_bytes())
    certs = [home.trust.chain("email:read")[0] for _ in range(6)]
    for number, cert in enumerate(certs):
        save_delegation((home, second)[number % 2].config / f"more-{number}.json", (cert,))
    (second.config / "desk.toml").write_text(f'[desk]\nrevocation_list = "{path}"\n', "utf-8")
    with home.desk() as one, Desk(second.folder, owner=home.trust.owner) as two:
        pages = told_by(one), told_by(two)
        for number, cert in enumerate(certs):
            assert take_back(pages[number % 2], cert.cert_id)[0] == 200
    assert set(RevocationList.decode(path.read_bytes()).revoked_certs) == {each.cert_id for each in certs}


@pytest.mark.holds("console/people_part", "nonce")
def test_nobody_but_the_page_that_shows_it_takes_anything_back(home: Household) -> None:
    path = named_list(home)
    with home.desk() as desk:
        told = told_by(desk)
        row = next(each for each in rows_of(told) if home.parent[0].cert_id.startswith(each["cert"]))
        target = f"/api/people/{row['handle']}"
        good = {"nonce": told.get(target)[1]["nonce"]}
        other = next(each for each in rows_of(told) if each["handle"] != row["handle"])
        foreign = {"nonce": told.get(f"/api/people/{other['handle']}")[1]["nonce"]}
        for forged in ({}, {"nonce": ""}, {"nonce": "0" * 64}, {"nonce": 1}, foreign, {"nonce": "\ud800"}):
            assert told.send(target, forged)[0] in (400, 403), forged
        for headers in (
            {"origin": "http://127.0.0.1:1"}, {"origin": None}, {"origin": "null"}, {"sec-fetch-site": "cross-site"},
            {"sec-fetch-site": "same-site"}, {"sec-fetch-site": None}, {"content-type": "text/plain"},
            {"authorization": None}, {"authorization": "Bearer x"}, {"host": f"localhost:{desk.port}"},
        ):  # fmt: skip
            assert told.send(target, good, **headers)[0] in (401, 403, 415, 421), headers
        for answer in ({"revoke": home.parent[0].cert_id}, {"take back": 1}):
            assert "error" in desk.tell(answer)  # nor does the socket
        assert not path.exists()
        assert told.send("/api/people/" + "0" * 32, good)[0] == 404
        assert told.send(target, good)[0] == 200
        assert path.exists()


@pytest.mark.holds("console/people_part", "unlocking")
def test_a_locked_key_signs_no_list_until_the_passphrase_comes(home: Household, browser: Any) -> None:
    path = named_list(home)
    write_key(home.config / "owner.key", lock_key(home.trust.owner, bytearray(PASSPHRASE.encode())), replace=True)
    with home.desk() as desk:
        page = desk.page(browser, "/people")
        page.click(f".tree a >> nth={0}")
        page.wait_for_selector(TAKE)
        page.click(TAKE)
        page.wait_for_selector("text=Waiting for your passphrase")
        assert page.locator("input[type=password]").count() == 0
        assert not path.exists()
        assert faults(page) == []
        assert desk.tell({"unlock": PASSPHRASE}) == {"key": "unlocked"}
        page.wait_for_selector(".over")
        assert path.exists()
        assert PASSPHRASE not in desk.journal + desk.stderr
        page.close()


def test_an_id_that_several_have_ends_all__and_says_so(home: Household) -> None:
    """An agent that may pass on can give its certificate the id of another."""
    victim = home.trust.chain("email:read")
    save_delegation(home.config / "victim.json", victim)
    copied = passed_on(home.trust.agent, home.sub, "email:read", cert_id=victim[0].cert_id)
    save_delegation(home.config / "copied.json", (copied, *home.parent))
    with home.desk() as desk:
        told = told_by(desk)
        row = next(each for each in rows_of(told) if victim[0].cert_id.startswith(each["cert"]))
        one = told.get(f"/api/people/{row['handle']}")[1]
        assert one["same_id"] == len(one["ends_with"]) == 2


@pytest.mark.holds("console/people_part", "root")
def test_what_others_granted_is_theirs_to_take_back(home: Household) -> None:
    path = named_list(home)
    foreign = home.trust.chain("email:read", issuer=home.trust.stranger)
    save_delegation(home.config / "foreign.json", foreign)
    with home.desk() as desk:
        told = told_by(desk)
        row = next(each for each in rows_of(told) if foreign[0].cert_id.startswith(each["cert"]))
        one = told.get(f"/api/people/{row['handle']}")[1]
        assert "not stand on your word" in one["why_not"]
        assert not one["nonce"]
        assert told.send(f"/api/people/{row['handle']}", {"nonce": "0" * 64})[0] == 403
    assert not path.exists()


@pytest.mark.parametrize(("scheme", "width", "zoom"), LOOKS)
def test_everybody_can_read_and_use_both_pages(
    home: Household, browser: Any, scheme: str, width: int, zoom: int
) -> None:
    evil = "<img src=x onerror=alert(1)>\u202eabc"
    set_name(home.config, home.trust.agent.id, "<b>Assistant</b>")
    odd = passed_on(home.trust.agent, home.sub, "email:read", cert_id=evil)
    save_delegation(home.config / "odd.json", (odd, *home.parent))
    with home.gateway() as gateway, home.desk() as desk:
        home.calls(gateway)
        home.calls(gateway, "helper", "odd")
        size = {"width": width // zoom, "height": 800 // zoom}
        page = desk.page(browser.new_context(color_scheme=scheme, viewport=size, device_scale_factor=zoom), "/people")
        page.wait_for_selector(".tree li[data-depth='2']")
        assert page.locator("main img").count() == 0
        assert "\u202e" not in page.inner_text("main")
        assert faults(page) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.goto(f"{desk.url}/health")
        page.wait_for_selector(".card .good")
        page.wait_for_selector("summary")
        page.click("summary")
        page.click("text=Verify the whole log")
        page.wait_for_selector("text=verify, as of")
        assert "as this machine's" in page.inner_text("main")
        assert faults(page) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.close()


def test_the_keyboard_alone_takes_back(home: Household, browser: Any) -> None:
    path = named_list(home)
    with home.desk() as desk:
        page = desk.page(browser, "/people")
        page.wait_for_selector(".tree a")
        for inside in (".tree a", TAKE):
            page.wait_for_selector(inside)
            for _ in range(20):
                page.keyboard.press("Tab")
                if page.evaluate("where => document.activeElement.matches(where)", inside):
                    break
            page.keyboard.press("Enter")
        page.wait_for_selector(".over")
        assert page.evaluate("document.activeElement.textContent").startswith("Taken back from")
        assert path.exists()
        page.close()


@pytest.mark.holds("console/health", "checkpoint", "on-request")
def test_health_says_who_vouches_for_the_log__and_finds_what_was_changed(home: Household, browser: Any) -> None:
    with home.gateway() as gateway:
        home.calls(gateway)
        gateway.stop()
        gateway.wait()
    for signed_by in ("gateway.key.pub", None):
        with home.desk() as desk:
            page = told_by(desk)
            status, found = page.get("/api/health")
            assert status == 200
            (writer,) = found["log"]["writers"]
            assert writer["records"] == writer["counted"] > 0
            assert writer["signature"] == ("good" if signed_by else "not checked")
            status, said = page.get("/api/health/verify")
            assert (status, said.get("valid")) == ((200, True) if signed_by else (400, None))
            if signed_by:
                (home.config / signed_by).unlink()
    write_key(home.config / "other.key", make_key("gateway", "other", unix_seconds()))
    with home.desk() as desk:
        page = told_by(desk)
        (writer,) = page.get("/api/health")[1]["log"]["writers"]
        assert ("BAD" in writer["signature"], writer["counted"]) == (True, 0)  # a forged one counts nothing
        assert page.get("/api/health/verify")[1]["valid"] is False


def test_a_desk_that_only_reads_takes_nothing_back(home: Household, browser: Any) -> None:
    with home.gateway() as gateway:
        home.calls(gateway)
    with home.desk("--read-only", "--config", str(home.configuration)) as desk:
        told = Told(desk.url, desk.port, desk.link())
        (row,) = rows_of(told)
        assert not row["yours"]
        one = told.get(f"/api/people/{row['handle']}")[1]
        assert one["why_not"] == "read-only"
        assert "nonce" not in one
        assert told.send(f"/api/people/{row['handle']}", {"nonce": "0" * 64})[0] == 404
