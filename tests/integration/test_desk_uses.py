"""Allowed, and not used yet: the ask's page says so, until the call comes, or the person takes it back."""

import json
import re
from typing import Any

import pytest
from tests.world.browser import faults
from tests.world.command import Serving
from tests.world.connected import Connected
from tests.world.desk import Desk
from tests.world.household import Household

pytestmark = [pytest.mark.slow, pytest.mark.holds("console/uses")]

CALL: dict[str, Any] = {"name": "send_email", "arguments": {"to": "ada@example.org", "subject": "Hello"}}
CODE = re.compile(r"code ([0-9A-Z]{4}-[0-9A-Z]{2})")


def asks(home: Household, gateway: Serving, desk: Desk) -> tuple[Connected, str]:
    """A host whose patience has ended, and the code that its model was told."""
    host = Connected(home.config, gateway.url, *home.files.options, "--hold", "0.2", **desk.env)
    host.initialize()
    found = CODE.search(told(host))
    assert found
    return host, found[1]


def told(host: Connected) -> str:
    result = host.ask("tools/call", CALL)["result"]
    return result["content"][0]["text"]


def allowed(browser: Any, desk: Desk, code: str) -> Any:
    """The ask's page, on which the person has pressed Allow."""
    page = desk.page(browser, f"/a/{code}")
    page.click("[data-allow]")
    page.wait_for_selector("text=This call was allowed.")
    return page


@pytest.mark.holds("console/uses", "missing-chain", "search")
def test_what_was_allowed_and_not_used_is_told_as_such__until_the_call_comes(home: Household, browser: Any) -> None:
    with home.gateway() as gateway, home.desk() as desk:
        host, code = asks(home, gateway, desk)
        with host:
            page = allowed(browser, desk, code)
            page.wait_for_selector("text=Allowed, not used yet:")
            assert page.locator("text=Take back…").is_visible()
            assert faults(page) == []
            assert "sent to ada@example.org" in told(host)
            page.wait_for_selector("text=the call of")  # the page has found out by itself
            assert page.locator("text=Take back…").count() == 0  # there is nothing left of it
            page.click("text=the call of")
            page.wait_for_selector("text=On whose word")
            assert "allowed, ok" in page.inner_text("main")
            page.close()


def test_what_was_allowed_and_not_used_can_be_taken_back__then_the_call_is_refused(
    home: Household, browser: Any
) -> None:
    with home.gateway() as gateway, home.desk() as desk:
        host, code = asks(home, gateway, desk)
        with host:
            page = allowed(browser, desk, code)
            page.click("text=Take back…")
            page.click("button[data-take]")
            page.wait_for_selector(".over")
            assert "sent to" not in told(host)
            page.close()
    assert [json.loads(line)["event"] for line in desk.journal.splitlines()][:3] == ["asked", "allowed", "taken back"]


def test_a_desk_that_reads_no_log_says_that_it_does_not_know(home: Household, browser: Any) -> None:
    (home.config / "desk.toml").unlink()
    with home.gateway() as gateway, home.desk() as desk:
        host, code = asks(home, gateway, desk)
        with host:
            page = allowed(browser, desk, code)
            page.wait_for_selector(
                "text=Whether it was used is not known here: desk.toml names no store of the gateway."
            )
            assert faults(page) == []
            page.close()
