"""One machine, one picture: a desk beside a gateway shows what the gateway does, and takes back what was allowed there.
Real processes."""

import copy
import re
from collections.abc import Callable
from typing import Any

import pytest
from tests.world.command import accredit, wait_until
from tests.world.connected import Connected
from tests.world.household import Household, Told
from tests.world.up import Newcomer, Up

pytestmark = [pytest.mark.slow, pytest.mark.holds("ops/own_gateways"), pytest.mark.holds("setup/up")]
SEND: dict[str, Any] = {"name": "send_email", "arguments": {"to": "ada@example.org", "subject": "Hello"}}
LINK = re.compile(r"desk: (http://127\.0\.0\.1:(\d+))/\S*#k=\S+")
CODE = re.compile(r"code ([0-9A-Z]{4}-[0-9A-Z]{2})")


def page_of(up: Up) -> Told:
    """A page of the desk that `up` has started, signed in by the link that it has printed."""
    wait_until(lambda: LINK.search(up.said) is not None)
    found = LINK.findall(up.said)[-1]
    link = [each for each in up.said.splitlines() if each.startswith("desk: ")][-1]
    return Told(found[0], int(found[1]), link)


def asking(person: Newcomer) -> Connected:
    """A host whose calls a person may be asked for, and who waits for nobody."""
    held = ("--key", str(person.own / "agent.key"), "--delegation", str(person.own / "delegation.json"))
    host = Connected(person.home.parent, person.url, *held, "--ask", "auto", "--hold", "0.2", **person.env)
    host.initialize()
    return host


def text(answer: Any) -> str:
    return answer["result"]["content"][0]["text"]


def allow(page: Told, code: str) -> None:
    """Presses Allow on the page of an ask."""
    ask = page.get(f"/api/asks/{code}")[1]
    said = {"ask": ask["ask"], "nonce": ask["nonce"], "decision": "allow", "offer": "once"}
    assert page.send(f"/api/asks/{code}", said) == (200, {"state": "allowed"})


def test_the_desk_that_up_starts_knows_the_gateway_that_up_runs(server: str, person: Newcomer) -> None:
    words = [*person.words(server, secret=False), "--no-passphrase"]
    with Up(person, words) as up:
        page = page_of(up)
        with asking(person) as host:
            found = CODE.search(text(host.ask("tools/call", SEND)))
            assert found
            ask = page.get(f"/api/asks/{found[1]}")[1]
            assert ask["title"] == "Agent asks to call send_email on “gateway”"
            allow(page, found[1])
            assert page.get(f"/api/asks/{found[1]}")[1]["use"]["used"] is False
            assert "sent to ada@example.org" in text(host.ask("tools/call", SEND, id=8))
        use = page.get(f"/api/asks/{found[1]}")[1]["use"]
        assert (use["used"], use["checked"]) == (True, True)
        calls = page.get("/api/calls")[1]
        assert calls["checked"]
        row = next(each for each in calls["calls"] if each["decision"] == "allow")
        assert (row["agent"], row["by"], row["signature"], row["call"]) == ("Agent", "Owner", "good", use["call"])
        story = page.get(f"/api/calls/{row['call']}")[1]
        assert story["proved"]["sentence"].startswith("Owner allowed Agent to call send_email at gateway until")
        assert story["words"] == f"--config {person.work / 'accredit.toml'}"
        assert page.get("/api/health/verify")[1]["valid"]
        (gateway,) = page.get("/api/health/gateways")[1]["gateways"]
        assert (gateway["name"], gateway["status"]) == ("gateway", "ok")
        standing = next(each for each in page.get("/api/people")[1]["rows"] if each.get("yours") and not each["for"])
        one = page.get(f"/api/people/{standing['handle']}")[1]
        assert (one["why_not"], one["places"]) == ("", [str(person.work / "accredit.db")])
        done = page.send(f"/api/people/{standing['handle']}", {"nonce": one["nonce"]})[1]
        assert done["everywhere"], done
        assert "Every gateway that this desk knows has it." in done["told"]
        listed = person.run("log", "list")
        assert re.search(r"allow +ok +Agent \(\w+\) +Owner", listed.stdout), listed.stdout
        elsewhere = person.run("doctor", "--json", env={"PWD": "/"})
        assert f"{person.work / 'accredit.toml'} is one that a gateway takes" in elsewhere.stdout


def test_the_link_says_for_how_long_it_is_good__and_a_running_desk_that_knows_nothing_is_told(
    server: str, person: Newcomer, free_port: Callable[[], int]
) -> None:
    with Up(person, [*person.words(server, secret=False), "--no-passphrase"]) as up:
        page_of(up)
        assert "the link is good once, for a minute; `accredit desk open` gives another" in up.said
        other = person.work.parent / "other"
        other.mkdir()
        second = copy.copy(person)
        second.work, second.port = other, free_port()
        with second.up(server) as again:
            assert "the desk that runs began before this gateway: end it and start it anew" in again.said


def test_a_desk_beside_a_gateway_that_runs_from_here_goes_by_it__and_elsewhere_by_the_one_that_is_named(
    home: Household,
) -> None:
    (home.config / "desk.toml").unlink()
    with home.gateway() as gateway:
        home.calls(gateway)
        for options in ((), ("--config", str(home.configuration))):
            desk = home.desk(*options)
            desk.folder = home.config if not options else home.folder
            with desk:
                page = Told(desk.url, desk.port, desk.new_link())
                call = page.get("/api/calls")[1]["calls"][0]
                assert (call["target"], call["by"], call["signature"]) == ("list_inbox", home.trust.owner.name, "good")
                assert page.get("/api/health/verify")[1]["valid"]
        with home.desk() as desk:  # from another folder, and nobody has named it
            assert Told(desk.url, desk.port, desk.new_link()).get("/api/calls")[0] == 404


def test_a_gateway_in_a_folder_that_others_may_write_is_not_gone_by(home: Household) -> None:
    (home.config / "desk.toml").unlink()
    with home.gateway() as gateway:
        home.calls(gateway)
        home.configuration.chmod(0o666)
        with home.desk() as desk:
            assert Told(desk.url, desk.port, desk.new_link()).get("/api/calls")[0] == 404
    words = ("desk", "--no-browser", "--config", str(home.configuration))
    done = accredit(*words, folder=home.folder, env=home.desk().env)
    assert (done.returncode, "may be somebody else's" in done.stderr) == (2, True), done
