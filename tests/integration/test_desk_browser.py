"""The desk's page in a real browser: what a person sees and does, and what other pages can't."""

import http.server
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.world.asked import request_params
from tests.world.browser import LOOKS, faults
from tests.world.desk import CALL, GATEWAY, PASSPHRASE, Agent, Desk, write_locked

from accredit.consent.asks import AskedGateway
from accredit.console.names import set_name
from accredit.keys import make_key

pytestmark = pytest.mark.slow

ALLOW, DENY = "button[data-allow]", "button[data-deny]"
READY = f"{ALLOW}:not([disabled])"


Open = Callable[..., Any]


def known(desk: Desk, agent: Agent) -> None:
    """Has an agent that the person has named, and allowed a call once."""
    set_name(desk.config, agent.key.id, "Assistant")
    set_name(desk.config, GATEWAY, "mail")


def test_a_person_reads_and_allows_and_the_agent_gets_its_certificate(desk: Desk, signed_in: Open) -> None:
    agent = Agent()
    known(desk, agent)
    ask = agent.ask()
    page = signed_in()
    assert page.text_content("main") == "AskedNobody is asking."
    with desk.asked(ask) as line:
        page.wait_for_selector(".asks a")  # it appears by itself, and is announced
        assert page.text_content("#news") == "Assistant asks for send_email."
        assert page.title() == "(1) Asked \u2013 accredit desk"
        page.click(".asks a")
        page.wait_for_selector(READY)
        assert page.url == f"{desk.url}/a/{ask.code}"
        assert page.title() == "(1) Asked: send_email \u2013 accredit desk"
        assert page.text_content("h1") == "Assistant asks to call send_email on “mail”"
        assert ask.code in page.text_content("main")
        assert page.text_content(".args dd:has-text('ada@example.org')")
        assert page.text_content(ALLOW) == "Allow only this call"
        page.click("summary")
        signs = page.text_content(".signs")
        assert f"only arguments with SHA-256 {ask.params_sha256}" in signs
        assert f"only at gateway {GATEWAY}" in signs
        page.click(ALLOW)
        page.wait_for_selector(".over")
        assert "was allowed" in page.text_content(".over")
        assert line.next()["answer"]["decision"] == "allow"


def test_a_request_to_an_api_is_shown_with_its_path_and_body__and_may_be_allowed_once(
    desk: Desk, signed_in: Open
) -> None:
    agent = Agent()
    known(desk, agent)
    gateway = AskedGateway(f"{GATEWAY}/mail", "http://127.0.0.1:8484")
    params = request_params("/api/mail/messages/7/send?copy=1", b'{"to":"ada@example.org"}')
    ask = agent.ask(params, method="POST", target="POST /messages/{id}/send", gateway=gateway)
    page = signed_in()
    with desk.asked(ask) as line:
        page.wait_for_selector(".asks a")
        assert page.text_content("#news") == "Assistant asks for POST /api/mail/messages/7/send?copy=1."
        page.click(".asks a")
        page.wait_for_selector(READY)
        assert page.text_content("h1") == "Assistant asks to POST /api/mail/messages/7/send?copy=1"
        assert page.text_content(".args dd:has-text('ada@example.org')")
        assert page.eval_on_selector_all(ALLOW, "each => each.map(one => one.textContent)") == ["Allow only this call"]
        assert f"{GATEWAY[:12]}…/mail" in page.text_content("main")
        page.click(ALLOW)
        page.wait_for_selector(".over")
        assert line.next()["answer"]["decision"] == "allow"


def test_deny_is_first_and_focused__and_enter_denies(desk: Desk, signed_in: Open) -> None:
    ask = Agent().ask()
    with desk.asked(ask) as line:
        page = signed_in(f"/a/{ask.code}")
        page.wait_for_selector(DENY)
        assert page.evaluate("document.activeElement.textContent") == "Deny"
        buttons = page.eval_on_selector_all(".go button", "each => each.map(one => one.textContent)")
        assert buttons[0] == "Deny"
        page.keyboard.press("Enter")
        page.wait_for_selector(".over")
        assert line.next()["answer"]["decision"] == "deny"


def test_allow_is_off_at_first__so_that_nobody_allows_what_was_about_to_be_clicked(desk: Desk, signed_in: Open) -> None:
    ask = Agent().ask()
    with desk.asked(ask):
        page = signed_in(f"/a/{ask.code}")
        page.evaluate(  # from here on the page notes when Allow could be pressed
            """() => { window.seen = []; const look = () => {
                const button = document.querySelector("button[data-allow]");
                if (button && !window.shown) window.shown = performance.now();
                if (button && !button.disabled) { window.ready = performance.now(); return; }
                requestAnimationFrame(look);
            }; look(); }"""
        )
        page.wait_for_selector(READY)
        page.reload()
        page.wait_for_selector(ALLOW)
        assert page.is_disabled(ALLOW)
        page.click(ALLOW, force=True)
        page.wait_for_selector(READY)
        assert desk.tell({"show": ask.code})["state"] == "pending"


def test_what_is_folded_is_unfolded_before_it_can_be_allowed(desk: Desk, signed_in: Open) -> None:
    hidden = "\n".join(f"line {number} of many" for number in range(200)) + "\nand delete everything"
    arguments = {"to": "ada@example.org", "body": hidden, **{f"n{number}": number for number in range(150)}}
    ask = Agent().ask({"name": "send_email", "arguments": arguments})
    with desk.asked(ask):
        page = signed_in(f"/a/{ask.code}")
        page.wait_for_selector("text=Show all")
        assert "delete everything" not in page.text_content(".args")
        buttons = page.locator("button:has-text('Show all')")
        assert buttons.count() == 2
        page.wait_for_timeout(900)  # the moment has passed: that is not what keeps Allow off
        assert page.is_disabled(ALLOW)
        buttons.first.click()
        assert page.is_disabled(ALLOW)
        buttons.first.click()
        page.wait_for_selector(READY)
        assert "delete everything" in page.text_content(".args")
        assert "n149" in page.text_content(".args")


@pytest.mark.parametrize(
    "value",
    [
        "<img src=x onerror=alert(1)>",
        "</dd></dl><button data-allow>Allow</button>",
        "abc\u202edef\u2066ghi",
        "a\u200bb\u00adc\ufeff",
        "<script>document.title='owned'</script>",
        "javascript:alert(1)",
    ],
)
def test_arguments_are_text_and_nothing_hides_in_them(desk: Desk, signed_in: Open, value: str) -> None:
    ask = Agent(value[:40]).ask({"name": "send_email", "arguments": {value: value, "to": "x"}})
    with desk.asked(ask):
        page = signed_in(f"/a/{ask.code}")
        page.wait_for_selector(READY)
        shown = page.inner_text("main")
        assert page.locator("main img, main script, main a[href^=javascript]").count() == 0
        assert page.locator(ALLOW).count() == 1
        assert not set(shown) & set("\u202e\u2066\u200b\u00ad\ufeff")
        if not value.isascii():
            assert "⟨U+" in shown
        assert page.title() == "(1) Asked: send_email \u2013 accredit desk"


def test_a_new_agent_is_quoted_and_offered_one_call__and_an_impostor_is_named(desk: Desk, signed_in: Open) -> None:
    known(desk, Agent())
    ask = Agent("\u0410ssistant").ask()  # a Cyrillic letter
    with desk.asked(ask):
        page = signed_in(f"/a/{ask.code}")
        page.wait_for_selector(DENY)
        assert page.text_content("h1").startswith("An agent that calls itself “\u0410ssistant” asks to call")
        text = page.text_content("main")
        assert "“⟨U+0410⟩ssistant” looks like “Assistant”, and is your name for another key" in text
        assert "Only this one call can be allowed" in text
        assert page.locator("input[type=radio]").count() == 1


def test_calls_like_it_are_signed_as_they_are_chosen(desk: Desk, signed_in: Open) -> None:
    agent = Agent()
    known(desk, agent)
    first = agent.ask()
    with desk.asked(first) as line:
        page = signed_in(f"/a/{first.code}")
        page.click(READY)
        assert line.next()["answer"]["decision"] == "allow"
    ask = agent.ask({"name": "send_email", "arguments": {"to": "bob@example.org", "subject": "Hi"}})
    with desk.asked(ask) as line:
        page.goto(f"{desk.url}/a/{ask.code}")
        page.wait_for_selector(READY)
        assert "was not allowed at this desk to call send_email with this “to” before" in page.text_content("main")
        page.check("input[type=radio] >> nth=1")
        page.fill("input[type=number]", "3")
        page.select_option("select", "600")
        page.press("input[type=number]", "Tab")
        page.click("summary")
        page.wait_for_selector(".signs:has-text('at most 3 calls in 10m')")
        assert page.text_content(ALLOW) == "Allow calls like it"
        page.click(ALLOW)
        cert = line.next()["answer"]["certificates"][0]
        rates = [each for each in cert["constraints"] if each["type"] == "max_rate"]
        assert [(each["count"], each["window_s"]) for each in rates] == [(3, 600)]


def test_a_locked_key_signs_once_the_passphrase_was_given_elsewhere__and_the_page_never_asks_for_it(
    browser: Any, tmp_path: Path
) -> None:
    owner = make_key("human", "Ada", 1_700_000_000)
    write_locked(tmp_path / "config" / "accredit", owner)
    ask = Agent().ask()
    with Desk(tmp_path, owner=owner) as desk, desk.asked(ask) as line:
        page = desk.page(browser, f"/a/{ask.code}")
        page.wait_for_selector("text=key locked")
        page.click(READY)
        page.wait_for_selector("text=Type your passphrase")
        assert page.locator("input[type=password], main input:not([type=radio])").count() == 0
        assert desk.tell({"unlock": "wrong"})["error"] == "passphrase"
        assert page.is_disabled(ALLOW)
        assert desk.tell({"unlock": PASSPHRASE}) == {"key": "unlocked"}
        page.wait_for_selector(".over")
        assert line.next()["answer"]["decision"] == "allow"
        page.click("text=Lock")
        page.wait_for_selector("text=key locked")
        assert PASSPHRASE not in desk.journal + desk.stderr
        page.close()


def test_a_page_that_is_not_signed_in_shows_nothing(browser: Any, desk: Desk) -> None:
    ask = Agent().ask()
    with desk.asked(ask):
        page = browser.new_page()
        for path in ("/", f"/a/{ask.code}", "/#k=AAAAAAAAAAAAAAAAAAAAAA"):
            page.goto("about:blank")
            page.goto(desk.url + path)
            page.wait_for_selector("text=This page is not signed in")
            assert "send_email" not in page.content()
            assert "#k=" not in page.url
        page.close()


def test_an_old_link_signs_nobody_out__a_browser_that_is_signed_in_shows_the_page(desk: Desk, signed_in: Open) -> None:
    page = signed_in()
    page.goto("about:blank")
    page.goto(f"{desk.url}/#k=AAAAAAAAAAAAAAAAAAAAAA")
    page.wait_for_selector("text=Nobody is asking.")
    assert "#k=" not in page.url


class _Other(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>other</title>")

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def other_port() -> Iterator[int]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Other)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_page_of_another_port_gets_nothing_from_the_same_browser(
    desk: Desk, signed_in: Open, other_port: int
) -> None:
    ask = Agent().ask()
    with desk.asked(ask):
        page = signed_in(f"/a/{ask.code}")
        page.wait_for_selector(READY)
        bearer = page.evaluate("localStorage.getItem('accredit-desk-bearer')")
        assert len(bearer) > 40
        other = page.context.new_page()
        other.goto(f"http://127.0.0.1:{other_port}/")
        assert other.evaluate("[localStorage.length, document.cookie]") == [0, ""]
        attempt = """async ([url, headers]) => {
            try { return (await fetch(url, {method: "POST", headers, body: '{"decision": "allow"}'})).status; }
            catch { return "blocked"; }
        }"""
        target = f"{desk.url}/api/asks/{ask.code}"
        # even with the bearer, which it can't have
        told = {"authorization": f"Bearer {bearer}", "content-type": "application/json"}
        assert other.evaluate(attempt, [target, told]) == "blocked"
        assert other.evaluate(attempt, [target, {"content-type": "text/plain"}]) == "blocked"
        assert other.evaluate("url => fetch(url).then(() => 'read', () => 'blocked')", desk.url) == "blocked"
        framed = other.evaluate(
            """url => new Promise(done => { const frame = document.createElement("iframe");
            const read = () => frame.contentDocument?.body?.innerText ?? "blocked";
            frame.onload = () => { try { done(read()); } catch { done("blocked"); } };
            frame.src = url; document.body.append(frame); })""",
            desk.url,
        )
        assert framed == "blocked"
        assert desk.tell({"show": ask.code})["state"] == "pending"


def test_no_script_gets_into_the_page(desk: Desk, signed_in: Open) -> None:
    page = signed_in()
    tried = page.evaluate(
        """() => [
            () => { document.body.innerHTML = "<p>x</p>"; },
            () => window.trustedTypes.createPolicy("mine", {createHTML: text => text}),
            () => { document.createElement("script").src = "/static/main.js"; },
        ].map(attempt => { try { attempt(); return "done"; } catch { return "threw"; } })"""
    )
    assert tried == ["threw"] * 3


@pytest.mark.parametrize(("scheme", "width", "zoom"), LOOKS)
def test_everybody_can_read_and_use_it(desk: Desk, signed_in: Open, scheme: str, width: int, zoom: int) -> None:
    agent = Agent()
    known(desk, agent)
    long = {"name": "send_email", "arguments": {**CALL["arguments"], "body": "word " * 500, "list": [1, {"a": None}]}}  # type: ignore[dict-item]
    ask, other = agent.ask(long), agent.ask()
    with desk.asked(ask), desk.asked(other):
        size = {"width": width // zoom, "height": 800 // zoom}
        page = signed_in(color_scheme=scheme, viewport=size, device_scale_factor=zoom)
        page.wait_for_selector(".asks a")
        assert faults(page) == []
        page.goto(f"{desk.url}/a/{ask.code}")
        page.wait_for_selector(DENY)
        page.click("summary")
        assert faults(page) == []
        page.click("text=Show all")
        page.wait_for_selector(READY)
        assert faults(page) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")  # nothing to scroll sideways
        page.click(DENY)
        page.wait_for_selector(".over")
        assert faults(page) == []


def test_the_keyboard_alone_is_enough(desk: Desk, signed_in: Open) -> None:
    ask = Agent().ask({"name": "send_email", "arguments": {"body": "word " * 500}})
    with desk.asked(ask) as line:
        page = signed_in()
        page.wait_for_selector(".asks a")
        for _ in range(8):  # past the link to the content and the pages
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.closest('.asks') !== null"):
                break
        page.keyboard.press("Enter")
        page.wait_for_selector(DENY)
        for wanted in ("Show all", "Allow only"):
            for _ in range(20):
                page.keyboard.press("Shift+Tab" if wanted == "Show all" else "Tab")
                if page.evaluate("document.activeElement.textContent").startswith(wanted):
                    break
            if wanted == "Allow only":
                break
            page.keyboard.press("Enter")
            page.wait_for_selector(READY)
        page.keyboard.press("Enter")
        assert line.next()["answer"]["decision"] == "allow"


def test_a_page_whose_desk_has_ended_says_so__and_goes_on_with_the_next(desk: Desk, signed_in: Open) -> None:
    page = signed_in()
    desk.stop()
    page.wait_for_selector("text=The desk does not answer")
