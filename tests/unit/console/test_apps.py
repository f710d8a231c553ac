"""An app is let in by who has its page before them, once, and only if its gateway may be signed for."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.unit.console.test_elsewhere import Gateway
from tests.world.asked import NOW, SCOPE, URL, WORLD, a_client_ask, an_ask

from accredit.consent.desk_requests import DeskSession
from accredit.consent.held import AnyAsk, ClientAsk
from accredit.console.apps import AppsPart, find_app
from accredit.console.desk import Desk
from accredit.console.elsewhere import GatewayElsewhere
from accredit.console.journal import Journal, read_journal
from accredit.console.names import read_names
from accredit.console.unlock import KeyHolder
from accredit.errors import AccreditError, DeskError, ProofRefused
from accredit.keys.places import APPS
from accredit.ratify import HybridSigner

pytestmark = pytest.mark.holds("console/apps")


class Page:
    """The desk's page of apps, for a gateway elsewhere. `ask` waits there."""

    def __init__(self, folder: Path, ask: ClientAsk | None = None, check: Callable[[ClientAsk], None] | None = None):
        self.folder, self.gateway, self.ask = folder, Gateway(), ask or a_client_ask()
        self.journal = Journal(folder / "state")
        holder = KeyHolder(WORLD.owner, unlock_seconds=900)
        self.desk = Desk(WORLD.owner.public(), holder, self.journal, lambda: NOW)
        self.part = AppsPart(self.desk, [self.gateway.reached()], folder, check or (lambda ask: None))

    async def held(self) -> str:
        return (await self.gateway.holding.hold(self.ask)).digits

    async def find(self, code: str = "") -> dict[str, Any]:
        return dict(await self.part.routes()["POST /api/apps"]({"code": code or self.ask.code}))

    async def decide(self, found: dict[str, Any], decision: str = "allow", **changes: object) -> dict[str, Any]:
        said = {"ask": found["ask"], "nonce": found["nonce"], "decision": decision, **changes}
        return dict(await self.part.routes()["POST /api/apps/{code}"](said, code=self.ask.code))

    @property
    def signed(self) -> list[Path]:
        return sorted((self.folder / APPS).glob("*.json"))


@pytest.mark.holds("console/apps", "digits")
async def test_a_person_who_types_the_code_sees_the_app__and_gets_the_digits(tmp_path: Path) -> None:
    page = Page(tmp_path)
    digits = await page.held()
    assert page.part.waiting() == []  # pushed to nobody
    found = await page.find(page.ask.code.lower().replace("-", " "))
    assert dict(found["facts"])["known by"] == "claude.ai"
    assert digits not in json.dumps(found)
    (told,) = page.part.waiting()
    assert told["client"] == {
        "id": "https://claude.ai/oauth/client", "name": "Claude", "host": "claude.ai", "redirect_host": "claude.ai",
    }  # fmt: skip
    assert (told["kind"], told["endpoint"], told["scopes"]) == ("client", f"{URL}/mcp", [SCOPE])
    assert (told["expires"], told["code"], len(told["tools"])) == (page.ask.expires_at, page.ask.code, 2)
    done = await page.decide(found)
    assert done["digits"] == digits
    (file,) = page.signed
    assert file.name == f"{done['certificate']}.json"
    assert read_names(tmp_path)[page.ask.agent.public_key.id].startswith("app of claude.ai, ")
    assert page.part.waiting() == []
    page.journal.close()
    (entry,) = page.desk.past.signed
    assert (entry["cert"], entry["code"]) == (done["certificate"], page.ask.code)
    assert [each["event"] for each in read_journal(tmp_path / "state")] == ["allowed"]


class NotingKeys(KeyHolder):
    """Notes which signatures take the passphrase each time."""

    async def signer(self, text: str, *, each: bool) -> HybridSigner:
        self.each = each
        return await super().signer(text, each=each)


@pytest.mark.holds("console/apps", "nonce")
async def test_a_yes_for_days_takes_the_passphrase__also_while_the_key_is_unlocked(tmp_path: Path) -> None:
    page = Page(tmp_path)
    page.desk.keys = keys = NotingKeys(WORLD.owner, unlock_seconds=900)
    await page.held()
    found = await page.find()
    assert not keys.each
    await page.decide(found)
    assert keys.each


class Inventing(GatewayElsewhere):
    """A gateway that has an app of its own for each code that it is asked for: 30 bits are found in seconds."""

    async def fetch(self, code: str, signer: HybridSigner, session: DeskSession | None = None) -> AnyAsk:
        return a_client_ask()


@pytest.mark.holds("console/apps", "one")
async def test_no_gateway_puts_an_app_of_its_own_in_the_place_of_the_one_whose_code_is_typed(tmp_path: Path) -> None:
    page, signer = Page(tmp_path), WORLD.owner.signer()
    await page.held()
    honest, other = page.gateway.reached(), Inventing("https://other.example", WORLD.owner.id, lambda: NOW)
    for gateways in ([other, honest], [honest, other]):
        with pytest.raises(DeskError, match="made it up"):
            await find_app(gateways, page.ask.code, signer)
    away = Gateway(httpx2.ConnectError("no")).reached()
    assert await find_app([away, honest], page.ask.code, signer) == (honest, page.ask)


@pytest.mark.holds("console/apps", "nonce")
async def test_an_answer_is_good_once__and_from_the_page_that_shows_the_app_alone(tmp_path: Path) -> None:
    page = Page(tmp_path)
    await page.held()
    with pytest.raises(DeskError, match="type its code"):
        await page.decide({"ask": page.ask.digest.hex(), "nonce": "", "decision": "allow"})
    found = await page.find()
    for changes in ({"nonce": "0" * 32}, {"nonce": "\ud800"}, {"ask": "0" * 64}, {"decision": "later"}):
        with pytest.raises(DeskError):
            await page.decide(found, **{"decision": "allow", **changes})
    assert page.signed == []
    await page.decide(found)
    with pytest.raises(DeskError, match="was answered"):
        await page.decide(found)
    assert len(page.signed) == 1


@pytest.mark.holds("console/apps", "pinned")
async def test_nothing_is_signed_for_a_gateway_that_names_another_one_s_id(tmp_path: Path) -> None:
    def check(ask: ClientAsk) -> None:
        raise ProofRefused({"error": "gateway_changed"}, "gateway_changed: another id", -31003)

    page = Page(tmp_path, check=check)
    await page.held()
    found = await page.find()
    with pytest.raises(DeskError, match="gateway_changed"):
        await page.decide(found)
    assert (page.signed, page.desk.past.signed) == ([], [])
    assert (await page.decide(found, "deny")) == {}


@pytest.mark.holds("console/apps", "kept")
async def test_what_the_journal_can_t_take_is_not_given_out(tmp_path: Path) -> None:
    page = Page(tmp_path)
    await page.held()
    found = await page.find()
    page.journal.close()
    with pytest.raises(DeskError):
        await page.decide(found)
    held = await page.gateway.holding.find_code(page.ask.code)
    assert held is not None
    assert held.answer is None


async def test_a_no_ends_the_gateway_s_page(tmp_path: Path) -> None:
    page = Page(tmp_path)
    await page.held()
    assert await page.decide(await page.find(), "deny") == {}
    held = await page.gateway.holding.find_code(page.ask.code)
    assert held is not None
    assert held.answer is not None
    assert held.answer.decision == "deny"
    assert page.signed == []


@pytest.mark.holds("console/apps", "by-code")
@pytest.mark.parametrize("code", ["0000-00", "", "x" * 99])
async def test_a_code_that_no_gateway_has_shows_nothing(tmp_path: Path, code: str) -> None:
    page = Page(tmp_path)
    await page.held()
    call = an_ask()
    await page.gateway.holding.hold(call)
    for each in (code or " ", call.code):
        with pytest.raises(AccreditError):
            await page.find(each)
    assert page.part.waiting() == []


async def test_an_app_that_wants_more_than_a_standing_delegation_may_be_is_not_shown(tmp_path: Path) -> None:
    page = Page(tmp_path, a_client_ask(scopes=("*",)))
    await page.held()
    with pytest.raises(DeskError, match="nothing can be signed"):
        await page.find()
