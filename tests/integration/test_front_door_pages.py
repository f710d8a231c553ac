"""What people see of the front door, in a real browser without script: axe finds nothing, nothing is cut off at 320 px,
a keyboard does it all, and the browser itself goes back to the host (`form-action`)."""

import asyncio
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlencode

import httpx2
import pytest
from tests.world.browser import LOOKS, faults
from tests.world.front_door import CHALLENGE, FrontDoor, json_of, told_by
from tests.world.ports import reserved_port

pytestmark = [pytest.mark.slow, pytest.mark.holds("gateway/front/door/pages", "no-script", "not-kept", "escaped")]

NAME = "Assistant of <b>Ada</b>, which has a long name: " + "W" * 40
WIDER = "document.documentElement.scrollWidth > innerWidth"


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Generator[FrontDoor]:
    with reserved_port() as port:
        found = FrontDoor(tmp_path_factory.mktemp("door"), port, "registration = true")
        with found.serving():
            yield found


@contextmanager
def program() -> Generator[tuple[str, list[str]]]:
    """A program on the person's computer that waits for the browser; its redirect URI, and what came to it."""
    came: list[str] = []

    class Waiting(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.startswith("/callback"):  # the browser asks for an icon, too
                came.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<title>Back in the app</title>")

        def log_message(self, format: str, *args: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Waiting) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/callback", came
        finally:
            server.shutdown()
            thread.join()


def page_of(browser: Any, scheme: str = "light", width: int = 1000, zoom: int = 1) -> Any:
    """A page in a browser that runs no script of sites."""
    size = {"width": width // zoom, "height": 700}
    context = browser.new_context(color_scheme=scheme, viewport=size, device_scale_factor=zoom)
    return context.new_page()


def asking(door: FrontDoor, redirect_uri: str) -> str:
    """The page to which a program that has registered sends the browser."""
    about = {"redirect_uris": [redirect_uri], "client_name": NAME}
    registered = json_of(httpx2.post(f"{door.url}/oauth/register", json=about, trust_env=False))
    asked = {
        "response_type": "code",
        "client_id": registered["client_id"],
        "redirect_uri": redirect_uri,
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
        "resource": door.endpoint,
        "scope": "email:read email:search",
        "state": "s",
    }
    return f"{door.url}/oauth/authorize?{urlencode(asked)}"


def say_yes(door: FrontDoor, page: Any) -> str:
    """The owner says yes to the code that the page shows; the digits. Playwright has an event loop in this thread."""
    code = page.inner_text(".code")
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(door.say_yes(code))).result()


@pytest.mark.parametrize(("scheme", "width", "zoom"), LOOKS)
def test_whoever_sees_or_reads_badly_can_consent__too(
    door: FrontDoor, browser: Any, scheme: str, width: int, zoom: int
) -> None:
    """axe, and nothing beside the window's edge, on each page. A refused answer is read aloud (`role`)."""
    context = browser.new_context(color_scheme=scheme, viewport={"width": width // zoom, "height": 700})
    page = context.new_page()

    def looks_right() -> None:
        assert (faults(page), page.evaluate(WIDER)) == ([], False)

    with program() as (redirect_uri, came):
        page.goto(asking(door, redirect_uri))
        looks_right()
        page.click("button.yes")
        page.wait_for_selector(".code")
        looks_right()
        page.fill("#digits", "000000")
        page.click("button.yes")
        page.wait_for_selector(".warn[role=status]:has-text('Nobody has answered')")
        looks_right()
        page.fill("#digits", say_yes(door, page))
        page.click("button.yes")
        page.wait_for_url(f"{redirect_uri}*")
        assert "code" in told_by(came[0])
    for path in ("/oauth/authorize?client_id=none", "/oauth/asked/7KQ4-M2"):
        page.goto(door.url + path)
        looks_right()
    context.close()


def test_a_keyboard_does_it_all__in_a_browser_without_script(door: FrontDoor, browser: Any) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    with program() as (redirect_uri, came):
        page.goto(asking(door, redirect_uri))
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")  # Continue
        page.wait_for_selector(".code")
        digits = say_yes(door, page)
        page.keyboard.press("Tab")
        page.keyboard.type(digits)
        page.keyboard.press("Enter")  # Connect, and not Cancel
        page.wait_for_url(f"{redirect_uri}*")
        assert told_by(came[0])["iss"] == door.url
        page.goto(asking(door, redirect_uri))
        for key in ("Tab", "Tab", "Enter"):  # Cancel
            page.keyboard.press(key)
        page.wait_for_url(f"{redirect_uri}*")
        assert told_by(came[-1])["error"] == "access_denied"
    context.close()
