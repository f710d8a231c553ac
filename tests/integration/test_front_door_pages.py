"""What people see of the front door, in a real browser without script: axe finds nothing, nothing is cut off at 320 px,
a keyboard does it all, and the browser itself goes back to the host (`form-action`)."""

import asyncio
import threading
from collections.abc import Coroutine, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlencode

import httpx2
import pytest
from tests.world.browser import LOOKS, faults
from tests.world.front_door import CHALLENGE, FrontDoor, json_of, told_by
from tests.world.oauth_host import host
from tests.world.openid_provider import LoginDoor, running_provider
from tests.world.ports import reserved_port

from accredit.gateway.holding import MAX_DIGIT_TRIES

pytestmark = [pytest.mark.slow, pytest.mark.holds("gateway/front/door/pages", "no-script", "not-kept", "escaped")]

NAME = "Assistant of <b>Ada</b>, which has a long name: " + "W" * 40
WIDER = "document.documentElement.scrollWidth > innerWidth"


def aside(work: Coroutine[Any, Any, str]) -> str:
    """What it returns, in another thread: Playwright has an event loop in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Generator[FrontDoor]:
    with reserved_port() as port:
        found = FrontDoor(tmp_path_factory.mktemp("door"), port, "registration = true\nhold_seconds = 0")
        with found.serving():
            yield found


@pytest.fixture(scope="module")
def held(door: FrontDoor) -> str:
    """The code of a call that waits for the owner."""

    async def main() -> str:
        async with host(door) as one:
            tokens = json_of(await one.redeem(await one.code()))
            await one.call(tokens["access_token"], "search", query="a secret")
            return await door.waiting_for("a secret")

    return aside(main())


@pytest.fixture(scope="module")
def login_door(tmp_path_factory: pytest.TempPathFactory) -> Generator[LoginDoor]:
    with reserved_port() as port, reserved_port() as other:
        found = LoginDoor(tmp_path_factory.mktemp("login"), port, f"http://127.0.0.1:{other}")
        with running_provider(other, found) as provider, found.serving():
            provider.people["ada"]["name"] = "Ada of <b>Example</b>, " + "W" * 60
            provider.tell()
            yield found


@contextmanager
def program(text: str = "<title>Back in the app</title>", policy: str = "") -> Generator[tuple[str, list[str]]]:
    """A program on the person's computer that waits for the browser, and answers with a page under a policy; its
    redirect URI, and what came to it."""
    came: list[str] = []

    class Waiting(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            if self.path.startswith("/callback"):  # the browser asks for an icon, too
                came.append(self.path)
            self.send_response(200)
            self.send_header("content-security-policy", policy)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Waiting) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/callback", came
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def page_of(browser: Any, scheme: str = "light", width: int = 1000, zoom: int = 1) -> Generator[Any]:
    """A page in a browser that knows no cookies yet."""
    size = {"width": width // zoom, "height": 700}
    context = browser.new_context(color_scheme=scheme, viewport=size, device_scale_factor=zoom)
    try:
        yield context.new_page()
    finally:
        context.close()


def looks_right(page: Any) -> None:
    assert (faults(page), page.evaluate(WIDER)) == ([], False), page.title()


def wrong(digits: str) -> str:
    return f"{(int(digits) + 1) % 1_000_000:06}"


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
    """The owner says yes to the code that the page shows; the digits."""
    return aside(door.say_yes(page.inner_text(".code")))


@pytest.mark.parametrize(("scheme", "width", "zoom"), LOOKS)
def test_whoever_sees_or_reads_badly_can_consent__too(
    door: FrontDoor, held: str, browser: Any, scheme: str, width: int, zoom: int
) -> None:
    """axe, and nothing beside the window's edge, on each page. A refused answer is read aloud (`role`)."""
    with page_of(browser, scheme, width, zoom) as page, program() as (redirect_uri, came):
        page.goto(asking(door, redirect_uri))
        looks_right(page)
        page.click("button.yes")
        page.wait_for_selector(".code")
        looks_right(page)
        page.fill("#digits", "000000")
        page.click("button.yes")
        page.wait_for_selector(".warn[role=status]:has-text('Nobody has answered')")
        looks_right(page)
        digits = say_yes(door, page)
        page.fill("#digits", wrong(digits))
        page.click("button.yes")
        page.wait_for_selector(".warn[role=status]:has-text('not the digits')")
        looks_right(page)
        page.fill("#digits", digits)
        page.click("button.yes")
        page.wait_for_url(f"{redirect_uri}*")
        assert "code" in told_by(came[0])
        page.goto(asking(door, redirect_uri))
        page.click("button.yes")
        digits = say_yes(door, page)
        for _ in range(MAX_DIGIT_TRIES):
            page.fill("#digits", wrong(digits))
            page.click("button.yes")
        page.wait_for_selector("h1:has-text('This has ended')")
        looks_right(page)
        for path in ("/oauth/authorize?client_id=none", "/oauth/asked/7KQ4-M2", f"/oauth/asked/{held}"):
            page.goto(door.url + path)
            looks_right(page)


@pytest.mark.parametrize(("scheme", "width", "zoom"), LOOKS)
def test_whoever_sees_or_reads_badly_can_tick__and_is_sent_back_to_the_app(
    login_door: LoginDoor, browser: Any, scheme: str, width: int, zoom: int
) -> None:
    with page_of(browser, scheme, width, zoom) as page, program() as (redirect_uri, came):
        page.goto(asking(login_door, redirect_uri))
        assert page.is_checked("input[name='scope email:read']")
        looks_right(page)
        page.uncheck("input[name='scope email:read']")
        page.uncheck("input[name='scope email:search']")
        page.click("button.yes")
        page.wait_for_selector(".warn[role=status]:has-text('Tick what')")
        looks_right(page)
        page.check("input[name='scope email:search']")
        page.click("button.yes")
        page.wait_for_url(f"{redirect_uri}*")
        assert "code" in told_by(came[0])
        page.goto(asking(login_door, redirect_uri))
        page.click("button[value=cancel]")
        page.wait_for_url(f"{redirect_uri}*")
        assert told_by(came[1])["error"] == "access_denied"


def _is_of_forms(message: Any) -> bool:
    return "form-action" in message.text


@pytest.mark.parametrize("is_kept", [False, True])
def test_what_a_stranger_would_get_into_a_page_loads_nothing__runs_nothing__and_sends_nothing_away(
    door: FrontDoor, browser: Any, is_kept: bool
) -> None:
    """Nothing gets in, as all is escaped. Without the policy of the page, the same text does what it wants to."""
    with program() as (foreign, came):
        text = (
            f"<script>document.title = 'owned'</script><script src='{foreign}/script'></script>"
            f"<img alt='' src='{foreign}/image'><form id=theirs method=post action='{foreign}/form'>"
            "<input name=digits value=1><button>Connect</button></form>"
        )
        page_now = httpx2.get(asking(door, "http://127.0.0.1:1/callback"), trust_env=False)
        policy = page_now.headers["content-security-policy"]
        body = page_now.text.replace("<main>", f"<main>{text}")
        with program(body, policy if is_kept else "") as (place, _), page_of(browser) as page:
            page.goto(place)
            if is_kept:
                with page.expect_console_message(_is_of_forms):
                    page.click("#theirs button", no_wait_after=True)  # else Playwright waits for where it would lead
                assert (page.title() == "owned", came) == (False, [])
            else:
                page.click("#theirs button")
                page.wait_for_url(f"{foreign}/form")
                assert {each.rpartition("/")[2] for each in came} == {"script", "image", "form"}


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
