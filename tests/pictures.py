"""Makes the pictures of the desk's pages that the documentation shows: `make pictures`. I/O: real processes, a real
browser, files in `docs/images`.

Whoever changes a page runs it, and looks at each of them.
"""

import asyncio
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.world.browser import chromium
from tests.world.desk import GATEWAY, Agent, Desk, Line
from tests.world.household import Household
from tests.world.logs import Log
from tests.world.records import DENY, OK, decided

from accredit.attest import RecordedAuthority, sha256_hex
from accredit.consent import CallTerms
from accredit.console.names import set_name
from accredit.keys import PrivateKeyFile, log_signer, make_key, write_key
from accredit.ratify import Grant, issue_delegation
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
    """Writes some calls: most pass, some are refused."""
    now = int(time.time())
    terms = CallTerms(gateway=GATEWAY, method="tools/call", target=("send_email",), params_sha256="5e1b" * 16)
    grant = Grant(
        subject=agent.key.public_key,
        cert_id="3f9d959c" * 4,
        scope=("custom:mail:send_email",),
        issued_at=now - 60,
        expires_at=now + 540,
        constraints=(terms.constraint(), MaxRate(1, 600)),
    )
    cert = issue_delegation(OWNER.signer(), grant, vocabulary=grant.scope)
    chain = b"[" + cert.encode() + b"]"
    async with Log(path, signer=log_signer(gateway), clock=lambda: int(time.time() * 1000)) as log:
        for number, target in enumerate(("list_inbox", "search", "list_inbox", "send_email", "send_email", "search")):
            await a_call(log, agent, target, chain, now - 300 + 40 * number, refused=number == 3)


async def a_call(log: Log, agent: Agent, target: str, chain: bytes, at: int, *, refused: bool) -> None:
    """Records a call; a refused one four times."""
    authority = RecordedAuthority(
        principal_id=OWNER.id,
        principal_name="Ada",
        agent_id=agent.key.id,
        cert_ids=("3f9d959c" * 4,),
        chain_sha256=sha256_hex(chain),
        scope="custom:mail:send_email",
        bound=True,
        proof="digest",
        proof_sha256="e0" * 32,
        verifier_id=GATEWAY,
        request_sha256="e1" * 32,
    )
    facts: dict[str, Any] = {"authority": authority, "received_ms": at * 1000}
    if refused:
        for _ in range(4):
            await log.port.begin(decided(target, decision=DENY, certificates=chain, **facts))
        return
    call = decided(target, certificates=chain, **facts)
    await log.port.begin(call)
    await log.port.finish(call, OK)


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
        both(page, "desk-story")


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
