"""What happens to asks beside a yes and a no, as the page shows it; where the page is, and when it opens by itself."""

import contextlib
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.world.browser import faults
from tests.world.command import wait_until
from tests.world.desk import Agent, Desk

from accredit.base.clock import unix_seconds

pytestmark = [pytest.mark.slow, pytest.mark.holds("console/page_views"), pytest.mark.holds("console/api")]
ALLOW, DENY = "button[data-allow]", "button[data-deny]"


Open = Callable[..., Any]


def mail(text: str) -> dict[str, Any]:
    return {"name": "send_email", "arguments": {"to": "ada@example.org", "body": text}}


def test_those_who_wait_are_listed_the_oldest_first__each_for_itself__and_who_keeps_asking_is_one_line(
    desk: Desk, signed_in: Open
) -> None:
    agent = Agent()
    codes: list[str] = []
    with contextlib.ExitStack() as lines:
        for number in range(3):
            ask = agent.ask(mail(str(number)))
            lines.enter_context(desk.asked(ask))
            codes.append(ask.code)
        for number in range(5):
            assert desk.tell({"ask": agent.ask(mail(f"more {number}")).to_dict()})["error"] == "rate"
        page = signed_in()
        page.wait_for_selector(".asks li")
        listed = page.eval_on_selector_all(".asks li", "all => all.map(each => each.textContent)")
        assert [code in text for code, text in zip(codes, listed, strict=True)] == [True] * 3
        assert all("keeps asking (5 more)" in text for text in listed)
        assert page.locator("button:has-text('Allow')").count() == 0  # nothing allows several
        assert faults(page) == []


def test_an_ask_that_nobody_answers_ends_on_the_page__and_nothing_is_signed(desk: Desk, signed_in: Open) -> None:
    ask = Agent().ask(expires_at=unix_seconds() + 4)
    with desk.asked(ask) as line:
        page = signed_in(f"/a/{ask.code}")
        page.wait_for_selector(DENY)
        page.wait_for_selector("text=This ask has expired. Nothing was signed.")
        assert line.next()["answer"]["decision"] == "later"
        assert page.locator(ALLOW).count() == 0
    assert '"event":"allowed"' not in desk.journal


def test_an_ask_that_is_kept_open_waits_longer_than_its_agent_asked_for(desk: Desk, signed_in: Open) -> None:
    ask = Agent().ask(expires_at=unix_seconds() + 5)
    with desk.asked(ask):
        page = signed_in(f"/a/{ask.code}")
        page.click("text=Keep open for an hour")
        wait_until(lambda: desk.tell({"list": True})["asks"][0]["expires_at"] > unix_seconds() + 3_000)
        wait_until(lambda: unix_seconds() > ask.expires_at)
        assert page.locator(DENY).is_visible()
        assert [each["code"] for each in desk.tell({"list": True})["asks"]] == [ask.code]


def test_an_ask_that_is_taken_back_is_over_on_the_page(desk: Desk, signed_in: Open) -> None:
    ask = Agent().ask()
    with desk.asked(ask) as line:
        page = signed_in(f"/a/{ask.code}")
        page.wait_for_selector(DENY)
        assert line.tell({"withdraw": ask.digest.hex()}) == {"state": "withdrawn"}
        page.wait_for_selector("text=Nobody waits for this any more. Nothing was signed.")
        assert page.locator(f"{ALLOW}, {DENY}").count() == 0
        assert faults(page) == []


def test_a_new_ask_is_announced_and_takes_nobodys_focus(desk: Desk, signed_in: Open) -> None:
    first = Agent().ask()
    with desk.asked(first):
        page = signed_in(f"/a/{first.code}")
        page.wait_for_selector(DENY)
        page.focus("summary")
        with desk.asked(Agent("Other").ask(mail("x"))):
            page.wait_for_selector(".asks li")
            assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
            news = page.locator("#news[role=status]")  # politely
            assert "“Other” asks for send_email." in news.inner_text()
            assert page.title().startswith("(2) Asked: send_email")


def test_what_the_server_says_comes_last_and_is_marked_as_unchecked(desk: Desk, signed_in: Open) -> None:
    ask = Agent().ask()
    with desk.asked(ask):
        page = signed_in(f"/a/{ask.code}")
        page.wait_for_selector(DENY)
        heads = page.eval_on_selector_all("main h2", "all => all.map(each => each.textContent)")
        assert heads[:3] == [
            "With exactly these arguments",
            "Who asks",
            "What the server says of this tool \u2013 nobody has checked it",
        ]
        assert page.locator(".server a, .server img").count() == 0


def test_sixty_kilobytes_are_unfolded_to_the_last_letter_before_they_can_be_allowed(
    desk: Desk, signed_in: Open
) -> None:
    text = "word \u202e " * 6_600 + "the end"
    ask = Agent().ask(mail(text))
    with desk.asked(ask) as line:
        page = signed_in(f"/a/{ask.code}")
        page.wait_for_selector(ALLOW)
        page.click(f"text=Show all {len(text):,} characters")
        assert page.locator(".args .value").first.inner_text() == text.replace("\u202e", "⟨U+202E⟩")
        page.click(ALLOW)
        assert line.next()["answer"]["decision"] == "allow"


def test_a_page_that_nobody_sees_is_told_nothing__and_all_of_it_when_it_is_seen_again(
    desk: Desk, signed_in: Open
) -> None:
    page = signed_in()
    page.wait_for_selector("text=Nobody is asking.")
    look = """seen => { Object.defineProperty(document, "visibilityState", { value: seen, configurable: true });
        document.dispatchEvent(new Event("visibilitychange")); }"""
    page.evaluate(look, "hidden")

    def is_told_in_the_terminal() -> bool:  # only where no page is open
        ask = Agent().ask()
        with desk.asked(ask) as line:
            if f"asked: code {ask.code}" in desk.stderr:
                return True
            line.tell({"withdraw": ask.digest.hex()})
            return False

    wait_until(is_told_in_the_terminal)
    assert page.locator(".asks li").count() == 0
    page.evaluate(look, "visible")
    page.wait_for_selector(".asks li")


def test_the_browser_is_opened_once_a_minute_however_many_ask(tmp_path: Path) -> None:
    opened = tmp_path / "opened"
    program = tmp_path / "browser"
    program.write_text(f'#!/bin/sh\necho "$1" >> {opened}\n', "utf-8")
    program.chmod(0o700)
    with Desk(tmp_path, env={"BROWSER": str(program)}) as desk:
        wait_until(opened.exists)
        for number in range(3):
            ask = Agent(str(number)).ask()
            desk.tell({"ask": ask.to_dict()})
            wait_until(lambda code=ask.code: f"asked: code {code}" in desk.stderr)
        assert len(opened.read_text("utf-8").splitlines()) == 1


def test_where_a_port_is_taken_the_next_free_one_is_and_it_is_never_called_localhost(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with Desk(tmp_path, "--port", str(port)) as desk:
            assert port < desk.port <= port + 20
            assert desk.url == f"http://127.0.0.1:{desk.port}"
            assert "localhost" not in desk.stderr
