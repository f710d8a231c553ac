"""What the desk does with an ask: what is signed is what was chosen, and where a step fails nothing is given out."""

import asyncio
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from tests.world.asked import NOW, WORLD, an_ask, once

from accredit.consent.answers import Answer, chain_allowed
from accredit.consent.asks import Ask, AskedRefusal
from accredit.consent.offers import choices
from accredit.console.book import DENIED_SECONDS, PendingAsk
from accredit.console.desk import Choice, Desk, needs_each
from accredit.console.journal import Journal
from accredit.console.past import values_of
from accredit.console.unlock import KeyHolder
from accredit.errors import DeskError
from accredit.keys import PrivateKeyFile, lock_key
from accredit.limits import CLOCK_LEAD_SECONDS
from accredit.ratify import DelegationCert, Extension, Grant, issue_delegation
from accredit.ratify.constraints import MaxRate

pytestmark = pytest.mark.holds("console/desk")
ONCE = Choice("once")


class Typing:
    """A person who types this when `gate` opens."""

    place = "here"

    def __init__(self, word: str | None) -> None:
        self.word = word
        self.gate = asyncio.Event()
        self.asked = asyncio.Event()

    async def ask(self, text: str) -> str | None:
        self.asked.set()
        await self.gate.wait()
        return self.word


class Place:
    """A desk in a folder, at a time that the test sets."""

    def __init__(
        self,
        folder: Path,
        *,
        prompt: Typing | None = None,
        owner: PrivateKeyFile = WORLD.owner,
        unlock_seconds: int | None = 900,
    ) -> None:
        self.now = NOW
        self.journal = Journal(folder)
        key = owner if prompt is None else lock_key(owner, bytearray(b"word"))
        self.keys = KeyHolder(key, unlock_seconds=unlock_seconds, prompt=prompt)
        self.desk = Desk(owner.public(), self.keys, self.journal, lambda: self.now)

    def take(self, ask: Ask) -> PendingAsk:
        return self.desk.take(ask)[0]

    def events(self) -> list[str]:
        return [json.loads(line)["event"] for line in self.journal.path.read_text("utf-8").splitlines()]

    async def refused(self, asked: PendingAsk, choice: Choice = ONCE) -> str:
        with pytest.raises(DeskError) as error:
            await self.desk.allow(asked, asked.nonce, choice)
        assert (asked.state == "allowed", "allowed" in self.events()) in ((False, False), (True, True))
        return error.value.error


@pytest.mark.holds("console/desk", "certificate", "journal")
async def test_what_is_allowed_is_this_call_once_for_this_key_and_in_the_journal(tmp_path: Path) -> None:
    place, ask = Place(tmp_path), an_ask()
    asked = place.take(ask)
    await place.desk.allow(asked, asked.nonce, ONCE)
    assert asked.answer is not None
    (cert,) = chain_allowed(asked.answer, ask, NOW)
    call, rate = cert.constraints
    assert isinstance(call, Extension)
    assert isinstance(rate, MaxRate)
    assert (cert.subject_id, cert.issuer_id, rate.count) == (WORLD.agent.id, WORLD.owner.id, 1)
    assert cert.scope == ("comms:email:send",)
    assert cert.expires_at <= NOW + 600
    assert place.events() == ["asked", "allowed"]
    text = place.journal.path.read_text("utf-8")
    assert "ada@example.org" not in text  # arguments are there as digests


@pytest.mark.slow
@pytest.mark.holds("console/desk", "pending-ask")
async def test_two_who_decide_at_once_sign_once(tmp_path: Path) -> None:
    prompt = Typing("word")
    place = Place(tmp_path, prompt=prompt)
    asked = place.take(an_ask())
    first = asyncio.ensure_future(place.desk.allow(asked, asked.nonce, ONCE))
    await prompt.asked.wait()
    assert await place.refused(asked) == "deciding"
    prompt.gate.set()
    await first
    assert await place.refused(asked) == "over"
    assert place.events() == ["asked", "allowed"]


async def test_an_ask_that_is_kept_open_is_still_known_to_its_agent_when_its_own_end_is_past(tmp_path: Path) -> None:
    place, ask = Place(tmp_path), an_ask()
    asked = place.take(ask)
    place.desk.keep_open(asked)
    place.now = ask.expires_at + 1
    assert place.desk.take(ask) == (asked, False)
    await place.desk.allow(asked, asked.nonce, ONCE)
    assert place.desk.take(ask) == (asked, False)
    with pytest.raises(DeskError, match="expired"):
        place.take(an_ask())


@pytest.mark.slow
@pytest.mark.holds("console/desk", "unlocking")
async def test_a_person_who_does_not_give_the_passphrase_signs_nothing__and_can_still_decide(tmp_path: Path) -> None:
    prompt = Typing(None)
    prompt.gate.set()
    place = Place(tmp_path, prompt=prompt)
    asked = place.take(an_ask())
    assert await place.refused(asked) == "locked"
    prompt.word = "word"
    await place.desk.allow(asked, asked.nonce, ONCE)
    assert asked.state == "allowed"


@pytest.mark.slow
@pytest.mark.holds("console/unlock", "duration")
async def test_an_early_unlock_is_for_the_only_ask_that_waits(tmp_path: Path) -> None:
    prompt = Typing(None)
    prompt.gate.set()
    place = Place(tmp_path, prompt=prompt, unlock_seconds=None)
    with pytest.raises(DeskError, match="press Allow first"):
        await place.desk.unlock("word", place.desk.wanted_for)
    shown = place.take(an_ask())
    told = place.desk.wanted_for
    assert shown.ask.code in told
    await place.desk.unlock("word", told)
    later = place.take(an_ask({"name": "send_email", "arguments": {"to": "bob@example.org"}}))
    assert place.desk.wanted_for == ""  # which one is meant is not clear
    assert await place.refused(later) == "locked"
    await place.desk.allow(shown, shown.nonce, ONCE)
    assert (shown.state, later.state) == ("allowed", "pending")


@pytest.mark.slow
@pytest.mark.holds("console/desk", "still-pending")
@pytest.mark.parametrize("end", ["expired", "withdrawn"])
async def test_an_ask_that_ended_while_the_passphrase_was_typed_is_not_signed(tmp_path: Path, end: str) -> None:
    prompt = Typing("word")
    place, ask = Place(tmp_path, prompt=prompt), an_ask()
    asked = place.take(ask)
    allowing = asyncio.ensure_future(place.refused(asked))
    await prompt.asked.wait()
    if end == "expired":
        place.now = ask.expires_at + 1
    else:
        place.desk.withdraw(asked)
    prompt.gate.set()
    assert await allowing == "over"
    assert asked.state == end


@pytest.mark.holds("console/desk", "journal")
async def test_what_the_journal_can_t_take_is_not_given_out(tmp_path: Path) -> None:
    place = Place(tmp_path)
    asked = place.take(an_ask())
    place.journal.close()
    assert await place.refused(asked) == "unavailable"
    assert asked.answer is None


def test_a_full_disk_keeps_nobody_from_saying_no(tmp_path: Path) -> None:
    place = Place(tmp_path)
    asked = place.take(an_ask())
    place.journal.close()
    place.desk.deny(asked)
    assert asked.answer is not None
    assert asked.answer.decision == "deny"


def test_what_is_denied_unseen_fills_neither_journal_nor_memory(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.desk.deny(place.take(an_ask()))
    for _ in range(20):
        asked = place.take(an_ask())
        assert asked.state == "denied"
        assert place.desk.book.known(asked.key) is None
    assert place.events() == ["asked", "denied"]


async def test_a_scope_that_can_t_be_allowed_here_is_refused(tmp_path: Path) -> None:
    place = Place(tmp_path)
    for scope in ("identity:delegate", "comms:*"):
        asked = place.take(an_ask(refusal=AskedRefusal("ratify_scope_denied", scope)))
        assert await place.refused(asked) == "choice"


@pytest.mark.holds("console/desk", "certificate")
def test_a_delivered_certificate_is_this_persons_and_for_this_call(tmp_path: Path) -> None:
    place, ask = Place(tmp_path), an_ask()
    place.take(ask)
    other = an_ask({"name": "pay", "arguments": {}})
    for cert in (
        WORLD.grant("comms:email:send", issuer=WORLD.sub, constraints=once(ask), ends=NOW + 599),
        WORLD.grant("comms:email:send", to=WORLD.sub, constraints=once(ask), ends=NOW + 599),
        WORLD.grant("comms:email:send", constraints=once(other), ends=NOW + 599),
        WORLD.grant("comms:email:read", constraints=once(ask), ends=NOW + 599),
        WORLD.grant("comms:email:send", ends=NOW + 599),
    ):
        with pytest.raises(DeskError) as error:
            place.desk.deliver(Answer(ask=ask.digest.hex(), decision="allow", certificates=(cert,)))
        assert error.value.error == "not_signed"
    good = WORLD.grant("comms:email:send", constraints=once(ask), ends=NOW + 599)
    place.desk.deliver(Answer(ask=ask.digest.hex(), decision="allow", certificates=(good,)))
    with pytest.raises(DeskError) as error:
        place.desk.deliver(Answer(ask=other.digest.hex(), decision="allow", certificates=(good,)))
    assert error.value.error == "unknown"


@pytest.mark.holds("console/desk", "certificate")
async def test_what_was_signed_before_answers_no_later_ask__an_agent_could_bring_its_own(tmp_path: Path) -> None:
    place = Place(tmp_path)
    first = place.take(an_ask())
    await place.desk.allow(first, first.nonce, ONCE)
    assert first.answer is not None
    used = first.answer.certificates
    second = place.take(an_ask())  # the same call again, in the same second
    with pytest.raises(DeskError) as error:
        place.desk.deliver(Answer(ask=second.key, decision="allow", certificates=used))
    assert (error.value.error, second.state) == ("not_signed", "pending")
    old = WORLD.grant("comms:email:send", constraints=once(second.ask), ends=NOW + 599)  # never seen here
    place.now = NOW + CLOCK_LEAD_SECONDS + 301
    third = place.take(an_ask(asked_at=place.now, expires_at=place.now + 600))
    with pytest.raises(DeskError):
        place.desk.deliver(Answer(ask=third.key, decision="allow", certificates=(old,)))
    assert (third.state, place.events().count("allowed")) == ("pending", 1)


@pytest.mark.slow
@pytest.mark.holds("console/desk")
async def test_a_person_says_no_while_the_passphrase_is_asked_for__who_pressed_allow_need_not_have_been_them(
    tmp_path: Path,
) -> None:
    prompt = Typing("word")
    place = Place(tmp_path, prompt=prompt)
    asked = place.take(an_ask())
    allowing = asyncio.ensure_future(place.refused(asked))
    await prompt.asked.wait()
    place.desk.deny(asked)
    prompt.gate.set()
    assert await allowing == "over"
    assert (asked.state, place.events()) == ("denied", ["asked", "denied"])


@pytest.mark.holds("console/desk")
def test_a_denied_call_is_denied_unseen_also_after_a_restart(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.desk.deny(place.take(an_ask()))
    place.journal.close()
    again = Place(tmp_path)
    assert again.take(an_ask()).state == "denied"
    assert again.take(an_ask({"name": "send_email", "arguments": {}})).state == "pending"
    again.now = NOW + DENIED_SECONDS
    again.journal.close()
    later = Place(tmp_path)
    later.now = NOW + DENIED_SECONDS
    assert later.take(an_ask(asked_at=later.now, expires_at=later.now + 600)).state == "pending"


def test_a_sensitive_scope_is_worth_the_passphrase_each_time(tmp_path: Path) -> None:
    place = Place(tmp_path)
    sensitive = an_ask(refusal=AskedRefusal("ratify_scope_denied", "actuate:motor"))
    for ask, each in ((sensitive, True), (an_ask(refusal=AskedRefusal("x", "custom:a:b")), False)):
        asked = place.take(ask)
        assert needs_each(ask, choices(asked.ask, is_new=asked.is_new)[0]) is each


def written(folder: Path, *entries: dict[str, Any]) -> Place:
    """A desk that begins with a journal of these entries."""
    (folder / "journal.jsonl").write_text("".join(json.dumps(each) + "\n" for each in entries), "utf-8")
    return Place(folder)


def allowed_entry(folder: Path, choice: Choice = ONCE, *, known: bool = False) -> dict[str, Any]:
    """What a desk writes of a call that the person allows."""
    folder.mkdir()

    async def work() -> None:
        place = Place(folder)
        for ask, chosen in ((an_ask(), ONCE), (an_ask(), choice))[not known :]:
            asked = place.take(ask)
            await place.desk.allow(asked, asked.nonce, chosen)
        place.journal.close()

    asyncio.run(work())
    return json.loads((folder / "journal.jsonl").read_text("utf-8").splitlines()[-1])


CALLED = {
    "at": NOW - 10**8, "event": "allowed", "agent": WORLD.agent.id, "gateway": "9f0c2d11", "method": "tools/call",
    "target": "send_email", "values": {"to": hashlib.sha256(b'"ada@example.org"').hexdigest()}, "cert": "ab" * 16,
    "scope": ["comms:email:send"], "constraints": [], "ends_at": NOW + 600,
}  # fmt: skip


@pytest.mark.holds("console/past", "signature")
def test_a_line_that_a_program_adds_to_the_journal_takes_no_caution_away(tmp_path: Path) -> None:
    genuine = allowed_entry(tmp_path / "mine")
    others = issue_delegation(WORLD.agent.signer(), grant_like(genuine)).to_dict()
    changed = {**genuine["certificate"], "scope": ["comms:email:*"]}
    forged = [CALLED, {**genuine, "certificate": others}, {**genuine, "certificate": changed}]
    forged += [{**CALLED, "certificate": odd} for odd in (None, 5, "x", [], {}, {"cert_id": "x"}, [[]])]
    place = written(tmp_path, *forged)
    asked = place.take(an_ask())
    assert asked.is_new
    assert place.desk.past.is_first(asked.ask)
    assert [each.key for each in choices(asked.ask, is_new=asked.is_new)] == ["once"]
    assert (place.desk.past.met_at(asked.ask), place.desk.past.targets("9f0c2d11")) == (None, [])
    assert (place.desk.past.signed, place.desk.past.unsigned) == ([], len(forged))


@pytest.mark.holds("console/past", "signature")
def test_a_genuine_certificate_counts_for_what_it_names__whatever_the_line_says(tmp_path: Path) -> None:
    genuine = allowed_entry(tmp_path / "mine")
    told = {"agent": "ab" * 16, "gateway": "other", "target": "wire_money", "at": 5, "scope": ["*"], "ends_at": 10**12}
    place = written(tmp_path, {**genuine, **told})
    (signed,) = place.desk.past.signed
    assert (signed["agent"], signed["gateway"], signed["target"]) == (WORLD.agent.id, "9f0c2d11", "send_email")
    assert (signed["scope"], signed["at"]) == (["comms:email:send"], NOW)
    assert place.desk.past.targets("other") == []
    assert not place.take(an_ask()).is_new


@pytest.mark.holds("console/past", "digests")
@pytest.mark.parametrize("choice", ["once", "like"])
def test_digests_of_values_that_were_not_allowed_take_no_caution_away(tmp_path: Path, choice: str) -> None:
    genuine = allowed_entry(tmp_path / "mine", Choice(choice), known=choice == "like")
    ask = an_ask({"name": "send_email", "arguments": {"to": "eve@example.org"}})
    for values in (values_of(ask), {**genuine["values"], **values_of(ask)}, {"to": 5}, 5, None):
        (tmp_path / "journal.jsonl").unlink(missing_ok=True)
        place = written(tmp_path, {**genuine, "values": values})
        assert place.desk.past.first_values(ask, ["to"]) == ["to"]
        assert place.desk.past.first_values(an_ask(), ["to"]) == ["to"]
        place.journal.close()
    place = written(tmp_path, genuine)
    assert place.desk.past.first_values(an_ask(), ["to"]) == []


@pytest.mark.holds("console/past", "denials")
def test_a_line_about_a_denial_only_keeps_a_call_from_being_asked_for(tmp_path: Path) -> None:
    ask = an_ask()
    call = dict(zip(("agent", "gateway", "method", "target", "params_sha256"), ask.same_call, strict=True))
    place = written(tmp_path, {"at": NOW, "event": "denied", **call})
    assert place.take(ask).state == "denied"
    assert place.desk.past.signed == []


def grant_like(entry: dict[str, Any]) -> Grant:
    """The grant of an entry's certificate, for somebody else to sign."""
    cert = DelegationCert.decode(json.dumps(entry["certificate"]).encode())
    return Grant(
        subject=cert.subject_pub_key, cert_id=cert.cert_id, scope=cert.scope, issued_at=cert.issued_at,
        expires_at=cert.expires_at, constraints=cert.constraints,
    )  # fmt: skip


async def test_after_a_first_call_the_agent_is_not_new__also_after_a_restart(tmp_path: Path) -> None:
    place = Place(tmp_path)
    asked = place.take(an_ask())
    assert asked.is_new
    await place.desk.allow(asked, asked.nonce, ONCE)
    place.journal.close()
    again = Place(tmp_path)
    asked = again.take(an_ask({"name": "send_email", "arguments": {"to": "bob@example.org"}}))
    assert not asked.is_new
    assert [each.key for each in choices(asked.ask, is_new=asked.is_new)] == ["once", "like"]
    assert again.desk.past.first_values(asked.ask, ["to"]) == ["to"]
    assert again.desk.past.first_values(an_ask(), ["to", "subject"]) == []
