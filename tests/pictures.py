"""Makes the pictures of the desk's pages that the documentation shows: `make pictures`. I/O: real processes, a real
browser, files in `docs/images`.

Whoever changes a page runs it, and looks at each of them.
"""

import asyncio
import json
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.world.browser import chromium
from tests.world.decisions import Deployment, call, proven
from tests.world.desk import GATEWAY, Agent, Desk, Line
from tests.world.household import Household
from tests.world.logs import Log
from tests.world.proved_calls import record
from tests.world.records import POLICY

from accredit.consent.call import CallTerms
from accredit.console.names import set_name
from accredit.gateway.settings import RecordSettings
from accredit.keys import PrivateKeyFile, log_signer, make_key, write_key
from accredit.policy.catalog import Catalog, Entry
from accredit.ratify import DelegationCert, Grant, issue_delegation
from accredit.ratify.constraints import MaxRate

TO = Path(__file__).parents[1] / "docs/images"
SCHEMES = ("light", "dark")
_STARTED_BY = """() => { scrollTo(0, 0);
    const found = [...document.querySelectorAll("dt")].find(each => each.textContent === "started by");
    if (found) found.nextSibling.firstChild.textContent = "claude (process 4242)"; }"""
"""What starts programs differs from machine to machine."""


def main() -> int:
    """Makes all pictures; returns the exit code."""
    TO.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        place, agent = Path(folder), Agent()
        prepare(place, agent)
        with Desk(place, owner=OWNER) as desk:
            first = agent.ask()
            with Line(desk.socket) as line:
                line.tell({"ask": first.to_dict()})
                page = browser.new_page(viewport={"width": 900, "height": 800}, reduced_motion="reduce")
                page.goto(desk.new_link())
                page.wait_for_selector(".asks")
                page.goto(f"{desk.url}/a/{first.code}")
                page.click("button[data-allow]:not([disabled])")
                line.next()
            take_pictures(desk, agent, page)
        take_pictures_of_a_household(Path(folder) / "household", page)
    return 0


OWNER = make_key("human", "Ada", 1_700_000_000)


def prepare(place: Path, agent: Agent) -> None:
    """Writes a person's files, and a log with calls of their agent."""
    config = place / "config" / "accredit"
    config.mkdir(parents=True)
    gateway = make_key("gateway", "mail", 1_700_000_000)
    write_key(config / "mail.key", gateway)
    write_key(config / "owner.key", OWNER)
    (config / "desk.toml").write_text(f'[desk]\nstore = "sqlite:///{place / "log.db"}"\n')
    set_name(config, agent.key.id, "Assistant")
    set_name(config, GATEWAY, "mail")
    with ThreadPoolExecutor(1) as pool:  # the browser's driver has a loop in this thread
        pool.submit(lambda: asyncio.run(write_calls(place / "log.db", gateway, agent))).result()


async def write_calls(path: Path, gateway: PrivateKeyFile, agent: Agent) -> None:
    """Writes some calls, as a gateway records them: most pass, one is refused four times."""
    now = int(time.time())
    sent = call("send_email", {"to": "bob@example.org"})
    terms = CallTerms(
        gateway=GATEWAY, method="tools/call", target=("send_email",), params_sha256=sent.call_digest().hex()
    )
    tools = ("list_inbox", "search", "send_email")
    catalog = Catalog(tools={name: Entry(scope=f"custom:mail:{name}") for name in tools})
    deployment = Deployment(verifier_id=GATEWAY, roots={OWNER.public_key: "Ada"}, catalog=catalog)
    reads = grant(agent, now, "e0c1a7b2" * 4, "custom:mail:list_inbox", "custom:mail:search")
    sends = grant(
        agent, now, "3f9d959c" * 4, "custom:mail:send_email", constraints=(terms.constraint(), MaxRate(1, 600))
    )
    settings = RecordSettings(GATEWAY, policy_digest=POLICY)
    async with Log(path, signer=log_signer(gateway), clock=lambda: int(time.time() * 1000)) as log:
        for number, target in enumerate(("list_inbox", "search", "list_inbox", "send_email", "send_email", "search")):
            at, asked = now - 300 + 40 * number, sent if target == "send_email" else call(target)
            chain = sends if number == 4 else reads
            text = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": asked.covered}).encode()
            signed: dict[str, Any] = {"scope": f"custom:mail:{target}", "at": at, "by": agent.key.signer()}
            for _ in range(4 if number == 3 else 1):
                proved = proven(asked, chain, bound=True, verifier=GATEWAY, **signed)
                with patch("accredit.gateway.recording.recorder.unix_ms", lambda at=at: at * 1000):
                    await record(log.port, settings, proved, text, by=deployment, at=at)


def grant(agent: Agent, now: int, cert_id: str, *scope: str, **terms: Any) -> tuple[DelegationCert]:
    """What Ada has signed for the agent: it ends soon."""
    made = Grant(
        subject=agent.key.public_key, cert_id=cert_id, scope=scope, issued_at=now - 360, expires_at=now + 540, **terms
    )
    return (issue_delegation(OWNER.signer(), made, vocabulary=scope),)


def take_pictures(desk: Desk, agent: Agent, page: Any) -> None:
    """Takes a picture of each page, light and dark."""
    arguments = {"to": "bob@example.org", "subject": "Invoice", "urgent": True}
    ask = agent.ask({"name": "send_email", "arguments": arguments})
    with Line(desk.socket) as line:
        line.tell({"ask": ask.to_dict()})
        page.goto(f"{desk.url}/a/{ask.code}")
        page.wait_for_selector("button[data-allow]:not([disabled])")
        page.click("summary")
        page.evaluate(_STARTED_BY)
        page.set_viewport_size({"width": 900, "height": 1280})
        both(page, "desk-asked")
        page.set_viewport_size({"width": 900, "height": 800})
        page.goto(f"{desk.url}/calls")
        page.wait_for_selector(".scroll tbody tr")
        page.wait_for_selector("text=in the last hour")
        both(page, "desk-calls")
        page.click(".scroll tbody tr:has-text('send_email'):not(:has-text('refused')) a")
        page.wait_for_selector("text=Told by the log")
        page.set_viewport_size({"width": 900, "height": 1110})
        both(page, "desk-story")
        page.set_viewport_size({"width": 900, "height": 800})


def take_pictures_of_a_household(folder: Path, page: Any) -> None:
    """Takes pictures of who may what, and of a gateway's health."""
    household = Household(folder)
    for key, name in ((household.trust.agent, "Assistant"), (household.sub, "Helper")):
        set_name(household.config, key.id, name)
    with household.gateway() as gateway:
        for who, delegation in (("agent", "parent"), ("helper", "helper"), ("agent", "parent")):
            household.calls(gateway, who, delegation)
        with household.desk() as desk:
            page.goto(desk.new_link())
            page.wait_for_selector("text=Nobody is asking")
            page.goto(f"{desk.url}/people")
            page.wait_for_selector("text=Take back")
            both(page, "desk-people")
            page.goto(f"{desk.url}/health")
            page.wait_for_selector("summary")  # of the log, the last that comes
            both(page, "desk-health")


def both(page: Any, name: str) -> None:
    """Takes a picture of what the page shows, light and dark."""
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        page.screenshot(path=TO / f"{name}-{scheme}.png")
        print(f"wrote {TO / name}-{scheme}.png")


if __name__ == "__main__":
    sys.exit(main())
