"""The desk shows a gateway's log: in a real browser, read-only, and beside the asks of a person's own desk."""

import asyncio
import contextlib
import http.client
import json
import os
import re
import signal
import sqlite3
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.world.browser import LOOKS, faults
from tests.world.command import accredit, environment, wait_until
from tests.world.desk import Desk
from tests.world.logs import Log
from tests.world.raw_server import PATIENCE
from tests.world.records import ALLOW, DENY, NOW_MS, OK, allowed_by_a_person, decided
from tests.world.warm import COMMAND, Warm

from accredit.attest import CallDecision, LogSigner, Outcome, RecordedDecision, RecordedParams
from accredit.keys import log_signer, make_key, write_key

pytestmark = [
    pytest.mark.slow,
    pytest.mark.holds("console/log_pages"),
    pytest.mark.holds("cli/commands/desk"),
]
EVIL = "<img src=x onerror=alert(1)>\u202eabc"


def written(folder: Path, signer: LogSigner | None = None) -> Path:
    """A log of 120 calls, some refused, one with a hostile name."""

    async def work() -> None:
        async with Log(folder / "log.db", durable=False, signer=signer) as log:
            for number in range(100):
                call = allowed_by_a_person() if number % 2 else decided("list_inbox")
                await log.port.begin(call)
                await log.port.finish(call, OK)
            for _ in range(4):
                await log.port.begin(decided(decision=DENY))
            call = decided(EVIL)
            await log.port.begin(call)
            await log.port.finish(call, Outcome(status="tool_error", detail=EVIL))

    with ThreadPoolExecutor(1) as pool:  # the browser's driver has a loop in this thread
        pool.submit(lambda: asyncio.run(work())).result()
    return folder / "log.db"


class ReadOnly:
    """`with ReadOnly(folder) as desk`: `accredit desk --read-only --store ...`; by default of `log.db` there."""

    def __init__(self, folder: Path, store: str = "") -> None:
        self.folder = folder
        self._store = store or f"sqlite:///{folder / 'log.db'}"
        self._stderr = folder / "stderr"

    def __enter__(self) -> "ReadOnly":
        env = {"XDG_RUNTIME_DIR": str(self.folder / "run"), "XDG_CONFIG_HOME": str(self.folder / "config")}
        with self._stderr.open("wb") as stderr:
            self._process = Warm(
                [*COMMAND, "desk", "--read-only", "--store", self._store, "--port", "0", "--no-browser"],
                cwd=self.folder, env=environment(env), start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr,
            )  # fmt: skip
        wait_until(lambda: "#k=" in self._stderr.read_text("utf-8") or self._process.poll() is not None)
        found = re.search(r"desk: (http://127\.0\.0\.1:(\d+)/)(#k=\S+)", self._stderr.read_text("utf-8"))
        assert found, self._stderr.read_text("utf-8")
        self.url, self.port, self.link = found[1], int(found[2]), found[1] + found[3]
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(PATIENCE)


def test_an_operator_reads_calls_and_their_stories_without_a_key(tmp_path: Path, browser: Any) -> None:
    written(tmp_path)
    failed: list[str] = []
    with ReadOnly(tmp_path) as desk:
        page = browser.new_page()

        def note(error: object) -> None:
            failed.append(str(error))

        page.on("pageerror", note)
        page.goto(desk.link)
        page.wait_for_selector("tbody tr")
        assert page.text_content("#key") == "read-only"
        assert page.eval_on_selector_all("nav a", "all => all.map(each => each.textContent)") == [
            "Calls",
            "Who may what",
            "Health",
        ]
        assert page.locator("main img").count() == 0
        assert "\u202e" not in page.inner_text("main")
        assert "⟨U+202E⟩" in page.inner_text("main")
        assert page.locator("tbody tr:visible").count() == 47  # of 50, three refusals that are alike are folded
        page.click("text=3 more like it")
        assert page.locator("tbody tr:visible").count() == 50
        assert faults(page) == []
        page.click("text=Show more")
        wait_until(lambda: page.locator("tbody tr").count() == 100)
        page.click("text=Show more")
        wait_until(lambda: page.locator("tbody tr").count() == 105)
        assert page.locator("text=Show more").is_hidden()
        page.fill("#filter", "tool:send_email -outcome:ok")
        page.press("#filter", "Enter")
        wait_until(lambda: page.locator("tbody tr").count() == 4)
        assert page.url == f"{desk.url}calls?q=tool%3Asend_email+-outcome%3Aok"
        page.reload()  # the filter is in the address
        page.wait_for_selector("tbody tr")
        assert page.locator("tbody tr").count() == 4
        page.fill("#filter", "colour:red")
        page.press("#filter", "Enter")
        page.wait_for_selector("text=there is no colour")
        page.goto(f"{desk.url}calls?q=tool:list_inbox")
        page.click("tbody tr a")
        page.wait_for_selector("h1:has-text('list_inbox')")
        story = page.text_content("main")
        assert "allowed, ok" in story
        assert "Signatures are not checked" in story
        assert faults(page) == []
        page.emulate_media(color_scheme="dark")
        page.set_viewport_size({"width": 320, "height": 700})
        assert faults(page) == []
        wide = "[...document.querySelectorAll('*')].filter(each => each.getBoundingClientRect().right > innerWidth + 1)"
        sideways = "document.documentElement.scrollWidth <= innerWidth ? [] : "
        look = f"{sideways}{wide}.map(each => each.outerHTML.slice(0, 120))"
        wait_until(lambda: page.evaluate(look) == [])  # once the page has its new width
        page.close()
    assert failed == []


@pytest.mark.parametrize(("scheme", "width", "zoom"), LOOKS)
def test_everybody_can_read_calls_and_their_stories(
    tmp_path: Path, browser: Any, scheme: str, width: int, zoom: int
) -> None:
    written(tmp_path)
    with ReadOnly(tmp_path) as desk:
        size = {"width": width // zoom, "height": 800 // zoom}
        page = browser.new_context(color_scheme=scheme, viewport=size, device_scale_factor=zoom).new_page()
        page.goto(desk.link)
        page.wait_for_selector("tbody tr")
        assert faults(page) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        for _ in range(20):  # by the keyboard alone
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.matches('tbody a')"):
                break
        page.keyboard.press("Enter")
        page.wait_for_selector("text=Told by the log")
        assert faults(page) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.context.close()


def test_the_browser_itself_verifies_a_story__and_saves_what_shows_it_to_others(tmp_path: Path, browser: Any) -> None:
    config = tmp_path / "config" / "accredit"
    config.mkdir(parents=True)
    key = make_key("gateway", "mail", 1_700_000_000)
    write_key(config / "mail.key", key)
    written(tmp_path, log_signer(key))
    with ReadOnly(tmp_path) as desk:
        page = browser.new_page()
        page.goto(desk.link)
        page.click("tbody tr:nth-child(6) a")
        page.wait_for_selector("text=Told by the log")
        assert page.locator("td:has-text('good (verified here)')").count() == 2
        assert "recorded it." in page.inner_text("#proved")
        assert (
            page.locator("dt:text-is('recorded') + dd:has-text('verified by the signature over the record')").count()
            == 1
        )
        with page.expect_download() as saved:
            page.click("text=Save bundle")
        page.goto(f"{desk.url}calls")
        page.wait_for_selector("tbody tr")
        with page.expect_download() as listed:
            page.click("text=Save .jsonl")
        lines = listed.value.path().read_text("utf-8").splitlines()
        assert [json.loads(each)["decision"] for each in lines[:5]] == ["allow", *["deny"] * 4]
        bundle = saved.value.path()
        done = accredit("inspect", str(bundle), "--key", str(config / "mail.key.pub"), folder=tmp_path)
        assert (done.returncode, "good" in done.stdout) == (0, True), done
        # a record that somebody has changed in the file
        with contextlib.closing(sqlite3.connect(tmp_path / "log.db")) as file:
            file.execute(
                "UPDATE log_entries SET payload = CAST(replace(payload, 'status\":\"ok', 'status\":\"error') AS BLOB)"
            )
            file.commit()
        page.click("tbody tr:nth-child(6) a")
        page.wait_for_selector("td:has-text('BAD')")
        assert page.locator("td:has-text('good (verified here)')").count() == 1
        page.close()


def test_a_read_only_desk_signs_nothing_and_reads_only_for_those_signed_in(tmp_path: Path) -> None:
    written(tmp_path)
    with ReadOnly(tmp_path) as desk:
        address = f"127.0.0.1:{desk.port}"

        def status(method: str, path: str, **headers: str) -> int:
            connection = http.client.HTTPConnection("127.0.0.1", desk.port, timeout=PATIENCE)
            connection.request(method, path, headers={"host": address, **headers})
            answer = connection.getresponse().status
            connection.close()
            return answer

        assert status("GET", "/api/calls") == 401
        assert status("GET", "/api/calls", host="evil.example") == 421
        for path in ("/api/lock", "/api/asks/7KQ4-M2"):
            assert status("POST", path) == 404
        assert not (tmp_path / "run" / "accredit" / "desk.sock").exists()
        assert not (tmp_path / "state").exists()


def test_a_read_only_desk_says_what_it_can_t_read(tmp_path: Path) -> None:
    done = accredit("desk", "--read-only", "--store", f"sqlite:///{tmp_path}/none.db", folder=tmp_path)
    assert (done.returncode, "no call is on record yet: " in done.stderr) == (2, True)
    done = accredit("desk", "--store", "sqlite:///x.db", folder=tmp_path)
    assert (done.returncode, "--read-only" in done.stderr) == (2, True)


def test_a_persons_desk_shows_the_log_that_its_file_names(tmp_path: Path) -> None:
    written(tmp_path)
    config = tmp_path / "config" / "accredit"
    config.mkdir(parents=True)
    (config / "desk.toml").write_text(f'[desk]\nstore = "sqlite:///{tmp_path / "log.db"}"\n')
    with Desk(tmp_path) as desk:
        key = desk.new_link().rpartition("#k=")[2]
        headers = {"origin": desk.url, "sec-fetch-site": "same-origin", "content-type": "application/json"}

        def asked(method: str, path: str, body: object = None, **more: str) -> Any:
            connection = http.client.HTTPConnection("127.0.0.1", desk.port, timeout=PATIENCE)
            connection.request(method, path, json.dumps(body) if body else None, {**headers, **more})
            answer = connection.getresponse()
            said = json.loads(answer.read())
            connection.close()
            return answer.status, said

        bearer = asked("POST", "/api/login", {"key": key})[1]["bearer"]
        sign = {"authorization": f"Bearer {bearer}"}
        status, found = asked("GET", "/api/calls?q=decision:refused", **sign)
        assert (status, len(found["calls"]), found["next"]) == (200, 4, None)
        assert {each["error"] for each in found["calls"]} == {"ratify_scope_denied"}
        # pages join outcomes with their decisions across their ends
        seen, before = [], ""
        while True:
            found = asked("GET", f"/api/calls?q=decision:allow{before}", **sign)[1]
            seen += found["calls"]
            if found["next"] is None:
                break
            before = f"&before={found['next']}"
        assert len({each["call"] for each in seen}) == len(seen) == 101
        assert {each["outcome"] for each in seen} == {"ok", "tool_error"}
        assert asked("GET", "/api/calls/rate", **sign)[1]["minutes"][-1] == 0  # the calls are of another year
        assert asked("GET", "/api/calls/rate?q=colour:red", **sign)[0] == 400
        for nobody in ("0" * 32, "", "0", "%25", "a" * 33):
            assert asked("GET", f"/api/calls/{nobody}", **sign)[0] == 404, nobody
        assert asked("GET", "/api/calls?before=x", **sign)[0] == 400


def test_a_call_that_was_refused_asked_for_and_then_decided_is_one_row(tmp_path: Path, browser: Any) -> None:
    def made(second: int, decision: RecordedDecision = ALLOW, target: str = "send_email", **more: Any) -> CallDecision:
        return decided(target, decision, received_ms=NOW_MS + second * 1_000, **more)

    challenge = RecordedDecision(verdict="challenge", error="ratify_challenge_required")
    authority = made(0).authority
    assert authority is not None
    calls = [
        made(0, DENY, "other"),  # another tool's
        made(0, DENY, params=RecordedParams("cd" * 32)),  # with other arguments
        made(0, DENY, authority=replace(authority, agent_id="dd" * 16)),  # another agent's
        made(1, DENY),
        made(2, challenge, authority=None),
        made(3),
        made(4),  # and once more, with nothing before it
        made(5, DENY),  # what comes later is no step before it
        made(-5_000, DENY, "late"),  # too long ago
        made(6, challenge, "refused", authority=None),
        made(7, DENY, "refused"),
        made(5, target="late"),
    ]

    async def write() -> None:
        async with Log(tmp_path / "log.db", durable=False) as log:
            for each in calls:
                await log.port.begin(each)
                if each.decision.verdict == "allow":
                    await log.port.finish(each, OK)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: asyncio.run(write())).result()
    with ReadOnly(tmp_path) as desk:
        page = browser.new_page()
        page.goto(desk.link)
        page.wait_for_selector("tbody tr")
        rows = page.locator("tbody tr")
        assert rows.count() == len(calls)
        assert page.locator("tbody tr:visible").count() == len(calls) - 3
        steps = page.locator("button:visible:has-text('before it')").all_inner_texts()
        assert sorted(steps) == ["1 step before it", "2 steps before it"]
        page.click("text=1 step before it")
        page.click("text=2 steps before it")
        assert page.locator("tbody tr:visible").count() == len(calls)
        assert faults(page) == []
        page.close()
