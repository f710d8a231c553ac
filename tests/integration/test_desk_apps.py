"""*Connect an app* in a real browser: a real desk, a real gateway elsewhere, and an app that waits there."""

import asyncio
import http.server
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.world.asked import a_client_ask
from tests.world.browser import LOOKS, faults
from tests.world.command import accredit
from tests.world.desk import Desk
from tests.world.front_door import FrontDoor
from tests.world.ports import reserved_port

from accredit.base.clock import unix_seconds
from accredit.consent.asks import AskedGateway
from accredit.consent.held import AskedTool, AskingClient, ClientAsk
from accredit.gateway.holding import OpenAsk

pytestmark = [pytest.mark.slow, pytest.mark.holds("console/apps")]

READY = "button[data-allow]:not([disabled])"
CALLBACK = "http://127.0.0.1:1/callback"


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrontDoor]:
    with reserved_port() as port:
        found = FrontDoor(tmp_path_factory.mktemp("door"), port)
        with found.serving():
            yield found


@pytest.fixture(scope="module")
def desk(door: FrontDoor, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with Desk(tmp_path_factory.mktemp("desk"), "--at", door.url, owner=door.trust.owner) as running:
        yield running


def held(door: FrontDoor) -> tuple[ClientAsk, OpenAsk]:
    """An app that waits at the gateway, as its page holds it."""
    now = unix_seconds()
    ask = a_client_ask(
        asked_at=now,
        expires_at=now + 600,
        until=now + 30 * 86_400,
        gateway=AskedGateway("mail-gateway", door.url),
        endpoint=door.endpoint,
        client=AskingClient("https://claude.ai/oauth/client", "Claude” by \u202eanybody", CALLBACK),
        tools=tuple(AskedTool(f"list_{number}_{'x' * 40}", "Lists the inbox") for number in range(20)),
        scopes=("email:read",),
    )
    with ThreadPoolExecutor(1) as thread:  # the browser's own loop runs in this one
        return ask, thread.submit(asyncio.run, door.hold(ask)).result()


class _Liar(http.server.BaseHTTPRequestHandler):
    """A gateway elsewhere whose ask has a member that is called like a command of ours."""

    def do_POST(self) -> None:
        body = b'{"ask": {"accredit_client_ask": 1, "`accredit keys show`": 1}}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def test_what_a_gateway_says_is_never_shown_as_a_command_of_ours(browser: Any, tmp_path: Path) -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Liar) as liar:
        threading.Thread(target=liar.serve_forever, daemon=True).start()
        try:
            with Desk(tmp_path, "--at", f"http://127.0.0.1:{liar.server_port}") as desk:
                page = browser.new_page()
                page.goto(desk.new_link())
                page.click("nav a >> text=Connect an app")
                page.fill("#code", "0000-00")
                page.click("button[type=submit]")
                told = page.wait_for_selector("[role=status] .warn")
                assert "“not an ask" in told.inner_text()
                assert "`accredit keys show`" in told.inner_text()
                assert told.query_selector_all("code") == []
                page.goto(f"{desk.url}/a/0000-00")  # what we say has our command as such
                page.wait_for_selector("main code >> text=accredit asked")
                page.close()
        finally:
            liar.shutdown()


@pytest.mark.parametrize(("scheme", "width", "zoom"), LOOKS)
def test_everybody_can_let_an_app_in__and_reads_before_what_it_is(
    browser: Any, door: FrontDoor, desk: Desk, scheme: str, width: int, zoom: int
) -> None:
    ask, waits = held(door)
    size = {"width": width // zoom, "height": 800 // zoom}
    page = browser.new_context(color_scheme=scheme, viewport=size, device_scale_factor=zoom).new_page()
    faulty: list[object] = []

    def note(error: object) -> None:
        faulty.append(error)

    page.on("pageerror", note)
    page.goto(desk.new_link())
    page.click("nav a >> text=Connect an app")
    page.wait_for_selector("#code")
    assert faults(page) == []
    page.fill("#code", "0000-00")
    page.click("button[type=submit]")
    page.wait_for_selector("[role=status] .warn")
    assert desk.tell({"list": True}) == {"asks": []}
    page.fill("#code", ask.code)
    page.click("button[type=submit]")
    page.wait_for_selector("button[data-deny]")
    assert page.evaluate("document.activeElement.textContent") == "Deny"
    text = page.inner_text("main")
    assert "any program on this computer can claim this name" in text
    assert "claude.ai" in text
    assert "⟨U+202E⟩" in text
    assert faults(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    (told,) = desk.tell({"list": True})["asks"]
    assert (told["kind"], told["client"]["redirect_host"]) == ("client", "127.0.0.1")
    shown = accredit("asked", folder=desk.folder, env=desk.env)
    assert "20 tools" in shown.stdout, shown.stderr
    page.click(READY)
    page.wait_for_selector("[data-digits]")
    assert page.inner_text("[data-digits]") == waits.digits
    assert faults(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.goto(f"{desk.url}/people")
    page.wait_for_selector("text=app of claude.ai")
    assert faulty == []
    page.context.close()
