"""The key while the desk runs."""

import asyncio

import pytest
from tests.world.delegations import NOW

from accredit.console.unlock import MAX_PASSPHRASE_TRIES, KeyHolder
from accredit.errors import ConfigurationError, DeskError
from accredit.keys import lock_key, make_key

pytestmark = [pytest.mark.slow, pytest.mark.holds("console/unlock")]
OWNER = make_key("human", "Ada", NOW)
LOCKED = lock_key(OWNER, bytearray(b"open sesame"))
WORD = "open sesame"


class Typing:
    """A person who types these words, and then nothing more for ever."""

    place = "here"

    def __init__(self, *words: str | None) -> None:
        self.words = list(words)
        self.asked: list[str] = []

    async def ask(self, text: str) -> str | None:
        self.asked.append(text)
        if not self.words:
            await asyncio.Event().wait()
        return self.words.pop(0)


@pytest.mark.holds("console/unlock", "plain-key")
async def test_a_key_without_a_passphrase_is_open() -> None:
    holder = KeyHolder(OWNER, unlock_seconds=None)
    assert holder.state == "open"
    assert (await holder.signer("x", each=True)).id == OWNER.id


@pytest.mark.holds("console/unlock", "passphrase", "duration")
async def test_the_passphrase_opens_the_key_for_a_while__and_for_what_is_worth_it_only_once() -> None:
    typing = Typing(WORD, WORD)
    holder = KeyHolder(LOCKED, unlock_seconds=900, prompt=typing)
    assert holder.state == "locked"
    assert (await holder.signer("x", each=False)).id == OWNER.id
    assert holder.state == "unlocked"
    await holder.signer("x", each=False)
    assert len(typing.asked) == 1
    await holder.signer("x", each=True)
    assert len(typing.asked) == 2


@pytest.mark.holds("console/unlock", "duration")
async def test_with_each_every_signature_needs_it() -> None:
    typing = Typing(WORD, WORD)
    holder = KeyHolder(LOCKED, unlock_seconds=None, prompt=typing)
    await holder.signer("x", each=False)
    assert holder.state == "locked"
    await holder.signer("x", each=False)
    assert len(typing.asked) == 2


@pytest.mark.holds("console/unlock", "passphrase")
async def test_wrong_passphrases_open_nothing__and_the_prompt_ends() -> None:
    typing = Typing(*["wrong"] * (MAX_PASSPHRASE_TRIES + 1))
    holder = KeyHolder(LOCKED, unlock_seconds=900, prompt=typing)
    with pytest.raises(DeskError, match="nothing was signed: that was not the passphrase"):
        await holder.signer("x", each=False)
    assert len(typing.asked) == MAX_PASSPHRASE_TRIES
    assert holder.state == "locked"


@pytest.mark.holds("console/unlock", "passphrase")
async def test_a_wrong_passphrase_is_known_until_another_is_tried__wherever_it_was_typed() -> None:
    changes: list[bool] = []
    holder = KeyHolder(LOCKED, unlock_seconds=900, prompt=Typing("wrong", WORD), on_change=lambda: noted())

    def noted() -> None:
        changes.append(holder.has_failed)

    assert not holder.has_failed
    await holder.signer("x", each=False)
    assert changes[:2] == [False, True]  # the page was told of the wrong one, while it waited
    assert not holder.has_failed
    with pytest.raises(ConfigurationError):
        await holder.unlock("wrong")
    assert holder.has_failed
    await holder.unlock(WORD)
    assert not holder.has_failed


@pytest.mark.holds("console/unlock", "passphrase")
async def test_a_person_who_does_not_want_to_signs_nothing() -> None:
    holder = KeyHolder(LOCKED, unlock_seconds=900, prompt=Typing(None))
    with pytest.raises(DeskError):
        await holder.signer("x", each=False)


@pytest.mark.holds("console/unlock", "passphrase")
async def test_unlock_elsewhere_answers_a_prompt_that_waits() -> None:
    for each in (False, True):
        holder = KeyHolder(LOCKED, unlock_seconds=None, prompt=Typing())
        waiting = asyncio.ensure_future(holder.signer("x", each=each))
        while holder.state != "asking":
            await asyncio.sleep(0)
        with pytest.raises(ConfigurationError):
            await holder.unlock("wrong")
        assert not waiting.done()
        await holder.unlock(WORD)
        assert (await waiting).id == OWNER.id
        assert holder.state == "locked"


@pytest.mark.holds("console/unlock", "passphrase")
@pytest.mark.parametrize("seconds", [900, None])
async def test_who_unlocks_for_one_thing_signs_no_other_that_somebody_has_pressed_meanwhile(
    seconds: int | None,
) -> None:
    holder = KeyHolder(LOCKED, unlock_seconds=seconds, prompt=Typing())
    told = holder.wanted_for
    assert told == ""
    waiting = asyncio.ensure_future(holder.signer("to pay 480 EUR", each=True))
    while holder.state != "asking":
        await asyncio.sleep(0)
    if seconds:
        await holder.unlock(WORD, told)
    else:  # the next signature would be this one
        with pytest.raises(DeskError, match="something else"):
            await holder.unlock(WORD, told)
    assert not waiting.done()
    assert holder.wanted_for == "to pay 480 EUR"
    await holder.unlock(WORD, holder.wanted_for)
    assert (await waiting).id == OWNER.id


@pytest.mark.holds("console/unlock", "lock")
@pytest.mark.parametrize("how", ["waits", "opens", "file"])
async def test_what_waits_for_the_key_is_not_signed_once_it_is_locked(how: str) -> None:
    prompt = {"waits": Typing(), "opens": Typing(WORD), "file": None}[how]
    holder = KeyHolder(LOCKED, unlock_seconds=900, prompt=prompt, passphrase=WORD if how == "file" else None)
    waiting = asyncio.ensure_future(holder.signer("x", each=True))
    for _ in range(5):
        await asyncio.sleep(0)  # it waits for the person, or the key is being opened in a thread
    holder.lock()
    with pytest.raises(DeskError, match="locked meanwhile"):
        await waiting
    assert holder.state == "locked"


@pytest.mark.holds("console/unlock", "duration")
async def test_unlock_beforehand_is_for_one_signature_where_each_needs_it__and_for_no_other_that_comes_first() -> None:
    typing = Typing(None, None)
    holder = KeyHolder(LOCKED, unlock_seconds=None, prompt=typing)
    await holder.unlock(WORD, beforehand="x")
    with pytest.raises(DeskError, match="nothing was signed"):
        await holder.signer("another", each=True)
    await holder.signer("x", each=True)
    assert typing.asked == ["another"]
    with pytest.raises(DeskError, match="nothing was signed"):
        await holder.signer("x", each=True)


@pytest.mark.holds("console/unlock", "duration")
@pytest.mark.parametrize(("told", "beforehand"), [("", ""), (None, ""), ("x", ""), ("x", "another")])
async def test_who_unlocks_for_nothing_opens_nothing_where_each_signature_needs_it(
    told: str | None, beforehand: str
) -> None:
    holder = KeyHolder(LOCKED, unlock_seconds=None, prompt=Typing())
    with pytest.raises(DeskError, match="press Allow first"):
        await holder.unlock(WORD, told, beforehand)
    assert holder.state == "locked"


@pytest.mark.holds("console/unlock", "passphrase", "lock")
async def test_a_passphrase_from_a_file_answers_every_prompt_until_lock() -> None:
    holder = KeyHolder(LOCKED, unlock_seconds=None, prompt=Typing(None), passphrase=WORD)
    assert holder.state == "unlocked"
    await holder.signer("x", each=True)
    await holder.signer("x", each=True)
    holder.lock()
    assert holder.state == "locked"
    with pytest.raises(DeskError):
        await holder.signer("x", each=True)


@pytest.mark.holds("console/unlock", "lock")
async def test_lock_forgets_the_key_at_once() -> None:
    holder = KeyHolder(LOCKED, unlock_seconds=900, prompt=Typing(WORD, None))
    await holder.signer("x", each=False)
    holder.lock()
    with pytest.raises(DeskError):
        await holder.signer("x", each=False)


@pytest.mark.holds("console/unlock", "lock")
@pytest.mark.parametrize("each", [900, None])
async def test_a_key_that_is_locked_while_it_is_being_opened_stays_locked(each: int | None) -> None:
    holder = KeyHolder(LOCKED, unlock_seconds=each)
    unlocking = asyncio.ensure_future(holder.unlock(WORD, beforehand="x"))
    await asyncio.sleep(0)  # it has begun, in a thread
    holder.lock()
    await unlocking
    assert holder.state == "locked"


@pytest.mark.holds("console/unlock", "duration")
async def test_the_key_is_forgotten_in_time() -> None:
    gone = asyncio.Event()

    def look() -> None:
        if holder.state == "locked":
            gone.set()

    holder = KeyHolder(LOCKED, unlock_seconds=1, on_change=look)
    await holder.unlock(WORD)
    assert holder.state == "unlocked"
    await gone.wait()
