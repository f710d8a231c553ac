"""How the desk's page looks to whoever decides: nothing lies over what they read, nothing is cut off unseen, and what
went wrong is said there. A real browser."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.test_desk_browser import ALLOW, DENY, READY, known
from tests.world.browser import faults
from tests.world.command import accredit
from tests.world.desk import CALL, PASSPHRASE, Agent, Desk, write_locked

from accredit.keys import make_key

pytestmark = pytest.mark.slow
SIZES = [{"width": 1200, "height": 900}, {"width": 360, "height": 740}]
Open = Callable[..., Any]
ON_TOP = """each => { each.scrollIntoView({block: "nearest"}); const box = each.getBoundingClientRect();
    const inside = [[box.left + 4, box.top + 4], [box.right - 4, box.bottom - 4], [box.left + 4, box.bottom - 4]];
    return box.top >= 0 && box.bottom <= innerHeight + 1 && inside.every(([x, y]) => {
        const found = document.elementFromPoint(x, y); return each.contains(found) || found.contains(each); }); }"""
"""Whether an element can be seen whole: it is on the screen, and nothing lies over it."""
LINES = "each => Math.round(each.getBoundingClientRect().height / parseFloat(getComputedStyle(each).lineHeight))"


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    write_locked(tmp_path / "config" / "accredit", make_key("human", "Ada", 1_700_000_000))
    with Desk(tmp_path) as running:
        yield running


@pytest.mark.parametrize("size", SIZES)
def test_the_buttons_lie_over_neither_the_choice_nor_the_notice__and_a_wrong_passphrase_is_said(
    desk: Desk, signed_in: Open, size: dict[str, int]
) -> None:
    agent = Agent()
    known(desk, agent)
    first, ask = agent.ask(), agent.ask({"name": "send_email", "arguments": {"to": "bob@example.org", "subject": "x"}})
    with desk.asked(first) as line:
        page = signed_in(f"/a/{first.code}", viewport=size)
        page.click(READY)
        page.wait_for_selector("text=Type your passphrase")
        assert page.eval_on_selector("[data-passphrase] .warn", ON_TOP)
        assert page.eval_on_selector(DENY, ON_TOP)
        assert desk.tell({"unlock": "wrong"})["error"] == "passphrase"
        page.wait_for_selector("text=That was not the passphrase")
        assert page.eval_on_selector("[data-passphrase] .warn", ON_TOP)
        assert "`" not in page.inner_text("main")
        assert page.text_content("[data-passphrase] code") == "accredit desk unlock"
        desk.tell({"unlock": PASSPHRASE})
        assert line.next()["answer"]["decision"] == "allow"
    with desk.asked(ask):
        page.goto(f"{desk.url}/a/{ask.code}")
        page.wait_for_selector(READY)
        assert page.locator(".choice").count() == 2
        for each in page.query_selector_all(".choice, .go button, fieldset"):
            assert each.evaluate(ON_TOP)
        assert page.eval_on_selector("fieldset", "each => getComputedStyle(each).borderTopWidth") == "1px"


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("name", "tool"), [("Assistant", "send_email"), ("A" * 60, "t" * 120), ("\u4e00" * 20, "x y " * 40)]
)
def test_a_headline_has_two_lines_at_most__and_what_it_has_no_room_for_is_below_it(
    desk: Desk, signed_in: Open, size: dict[str, int], name: str, tool: str
) -> None:
    ask = Agent(name).ask({"name": tool, "arguments": {}})
    with desk.asked(ask):
        page = signed_in(f"/a/{ask.code}", viewport=size)
        page.wait_for_selector(DENY)
        assert page.eval_on_selector("h1", LINES) <= 2
        assert "http" not in page.text_content("h1")
        below = page.text_content("main").replace(page.text_content("h1"), "")
        assert "on the gateway at http://127.0.0.1:8484/mcp" in below
        shown = page.text_content("h1 code")
        cut_off = page.eval_on_selector("h1", "each => each.scrollHeight > each.clientHeight + 2")
        assert page.locator("main p code:visible").all_inner_texts()[: int(cut_off)] == [shown] * cut_off
        assert cut_off == (len(tool) > 100 or size["width"] == 360)  # an agent that has no name of the person's is long


def test_where_nothing_is_to_be_chosen_there_is_no_frame__and_commands_are_code(desk: Desk, signed_in: Open) -> None:
    ask = Agent().ask()
    with desk.asked(ask):
        page = signed_in(f"/a/{ask.code}", viewport=SIZES[0])
        page.wait_for_selector(READY)
        assert page.eval_on_selector("fieldset", "each => getComputedStyle(each).borderTopWidth") == "0px"
        assert page.inner_text("fieldset").split("\n") == [
            "Allow",
            "Only this call: these arguments, once, within 10 minutes",
        ]
        assert "`" not in page.inner_text("main")
        assert page.locator(".warn code:text-is('accredit grant')").count() == 1
        assert page.locator("dd code:text-is('custom:mail:send_email')").count() == 1
        assert page.text_content(ALLOW) == "Allow only this call"
        assert page.eval_on_selector(DENY, ON_TOP)  # a short ask needs no scrolling
        assert page.evaluate("scrollY") == 0
        assert faults(page) == []


def test_the_command_that_a_page_names_opens_the_ask__and_one_that_is_not_there_does_not(
    desk: Desk, browser: Any
) -> None:
    ask = Agent().ask()
    with desk.asked(ask):
        page = browser.new_page()
        page.goto(f"{desk.url}/a/{ask.code}")
        page.wait_for_selector(f"code:text-is('accredit desk open {ask.code}')")
        assert "send_email" not in page.content()
        done = accredit("desk", "open", ask.code.lower().replace("-", ""), folder=desk.folder, env=desk.env)
        where = "the link is in the terminal where `accredit desk` (or `accredit up`) runs\n"
        assert (done.returncode, done.stdout) == (0, where), done
        assert desk.link() not in done.stdout + done.stderr
        page.goto("about:blank")
        page.goto(desk.link())
        page.wait_for_selector(READY)
        assert page.url == f"{desk.url}/a/{ask.code}"
        page.close()
    for code in ("0000-00", "../people", "x" * 300, "\n"):
        before = desk.stderr
        done = accredit("desk", "open", code, folder=desk.folder, env=desk.env)
        assert (done.returncode, "error: " in done.stderr) == (1, True), done
        assert desk.stderr == before
    assert desk.tell({"open": {"code": ask.code}}) == {"opened": "terminal"}  # no code: the first page
    assert f"{desk.url}/#k=" in desk.link()


def test_a_code_in_an_address_names_no_other_command(desk: Desk, browser: Any) -> None:
    page = browser.new_page()
    for path in ("/a/7KQ4-M2-id", "/a/ID-ID-ID", "/", "/calls"):
        page.goto("about:blank")
        page.goto(desk.url + path)
        page.wait_for_selector("code:text-is('accredit desk open')")
    page.close()


def test_calls_are_as_before_without_a_code(desk: Desk) -> None:
    assert desk.tell({"open": True}) == {"opened": "terminal"}
    assert CALL["name"] not in desk.stderr
