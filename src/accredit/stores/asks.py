"""Stores asks, which are requests for a person's answer (`ports.AskStore`), in any kind of store. No I/O of its own
(`runners`).

An expired ask can't be found any more; its row is deleted when a later ask is stored. If the clock is set back, a
person may be asked a forgotten ask again. That does no harm: what an answer allows is in its certificates.

- [count] Asks are stored one after the other, so that the bounds apply to all gateways together.
- [written] If several callers answer, try or take an ask at once, they do so one after the other, and each sees what
  the earlier ones wrote.
"""

# ruff: noqa: S608 - statements are made of constants

from collections.abc import Sequence
from typing import Any

from accredit.errors import AsksFull
from accredit.limits import (
    CLOCK_BACK_SECONDS,
    MAX_ASKS,
    MAX_CONSENT_ANSWER_BYTES,
    MAX_SEALED_ASK_BYTES,
    STORE_SWEEP_ROWS,
)
from accredit.ports import HeldAsk
from accredit.stores.runners import SteppedStore, Steps, reads, writes, writes_alike

MAX_ASKS_PER_ASKER = 3
"""The most asks without an answer that gateways hold for one agent: nobody reads more with care."""
MAX_HELD_BYTES = MAX_SEALED_ASK_BYTES + MAX_CONSENT_ANSWER_BYTES + 256
"""Bytes of all that is held of an ask. A longer row was not written by a gateway: it is no ask, and not read."""
MAX_ANSWERS_AT_ONCE = 64
"""How many answers are read at once, when a person takes one back: each may have `MAX_CONSENT_ANSWER_BYTES`."""

_FULL = "no room to hold one more ask"
_COLUMNS = "key, asker, person, code, text, keep_until, answer, tries"
"""In the order of the members of `HeldAsk`."""
_BYTES = ("key", "asker", "person", "code", "text", "answer")
_SIZE = " + ".join(f"length({each})" for each in _BYTES)
_THIS = f"keep_until >= $2 AND {_SIZE} <= {MAX_HELD_BYTES}"
_FIND = f"SELECT {_COLUMNS} FROM asks WHERE key = $1 AND {_THIS}"
_FIND_CODE = f"SELECT {_COLUMNS} FROM asks WHERE code = $1 AND {_THIS}"
_WAITING = (
    f"SELECT code FROM asks WHERE person = $1 AND {_THIS} AND length(answer) = 0 ORDER BY keep_until LIMIT {MAX_ASKS}"
)
_ANSWERED = (
    f"SELECT key, answer FROM asks WHERE key > $1 AND {_THIS} AND length(answer) > 0 ORDER BY key"
    f" LIMIT {MAX_ANSWERS_AT_ONCE}"
)
_SWEEP = (
    "DELETE FROM asks WHERE key IN (SELECT key FROM asks WHERE keep_until < $1 ORDER BY keep_until"
    f" LIMIT {STORE_SWEEP_ROWS})"
)
_EXPIRED = "DELETE FROM asks WHERE (key = $1 OR code = $2) AND keep_until < $3"
_COUNTS = (
    "SELECT (SELECT count(*) FROM asks WHERE keep_until >= $2 AND (length(person) = 0) = $3),"
    " (SELECT count(*) FROM asks WHERE asker = $1 AND keep_until >= $2 AND length(answer) = 0)"
)
_UNASKED = "keep_until >= $1 AND length(person) = 0 AND length(answer) = 0"
# Anybody may begin an ask of a client, and nobody is shown it: who begins many loses their own.
_OLDEST = (
    f"SELECT key FROM asks WHERE {_UNASKED} AND asker = (SELECT asker FROM asks WHERE {_UNASKED} GROUP BY asker"
    " ORDER BY count(*) DESC, min(keep_until) LIMIT 1) ORDER BY keep_until LIMIT $2"
)
_TAKEN = "SELECT key FROM asks WHERE code = $1"
_HOLD = f"INSERT INTO asks ({_COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"
_ANSWER = "UPDATE asks SET answer = $2, keep_until = $3 WHERE key = $1"
_ATTEMPT = "UPDATE asks SET tries = tries + 1 WHERE key = $1"
_DROP = "DELETE FROM asks WHERE key = $1"


class Asks(SteppedStore):
    """An `AskStore`."""

    @writes
    def hold(self, ask: HeldAsk, *, now: int) -> Steps[HeldAsk]:
        """Store an ask and return it. If there is already an ask with its key, return that one. Raises `AsksFull`."""
        code = ask.code.encode()
        yield _SWEEP, (now - CLOCK_BACK_SECONDS,)
        yield _EXPIRED, (ask.key, code, now)
        known = yield from _find(ask.key, now)
        if known is not None:
            return known
        ((alike, of_asker),) = yield _COUNTS, (ask.asker, now, not ask.person)
        if alike >= MAX_ASKS and not ask.person:
            for (first,) in (yield _OLDEST, (now, alike - MAX_ASKS + 1)):
                yield _DROP, (first,)
                alike -= 1
        is_full = alike >= MAX_ASKS or (of_asker >= MAX_ASKS_PER_ASKER and ask.person != "")
        if is_full or (yield _TAKEN, (code,)):
            raise AsksFull(_FULL)
        yield _HOLD, (ask.key, ask.asker, ask.person.encode(), code, ask.text, ask.keep_until, ask.answer, ask.tries)
        return ask

    @reads
    def find(self, key: bytes, *, now: int) -> Steps[HeldAsk | None]:
        """Return the ask of this key, or None."""
        return (yield from _find(key, now))

    @reads
    def find_code(self, code: str, *, now: int) -> Steps[HeldAsk | None]:
        """Return the ask of this code, or None."""
        return _first((yield _FIND_CODE, (code.encode(), now)))

    @reads
    def waiting(self, person: str, *, now: int) -> Steps[Sequence[str]]:
        """Return the codes of a person's asks that have no answer, by expiry, the earliest first."""
        rows = yield _WAITING, (person.encode(), now)
        return [code.decode("utf-8", "replace") for (code,) in rows if isinstance(code, bytes)]

    @reads
    def answered(self, after: bytes, *, now: int) -> Steps[Sequence[tuple[bytes, bytes]]]:
        """Return the keys and answers of the next asks that have an answer. An answer that is not bytes (an SQLite file
        allows that) is returned as b"": there may be others behind it."""
        rows = yield _ANSWERED, (after, now)
        return [(key, answer if isinstance(answer, bytes) else b"") for key, answer in rows if isinstance(key, bytes)]

    @writes_alike
    def answer(self, key: bytes, answer: bytes, *, keep_until: int, now: int) -> Steps[bool]:
        """Answer an ask; return whether it has this answer now."""
        ask = yield from _find(key, now)
        if ask is None or ask.answer not in (b"", answer):
            return False
        yield _ANSWER, (key, answer, keep_until)
        return True

    @writes
    def attempt(self, key: bytes, *, now: int) -> Steps[int]:
        """Count one try to type an ask's digits; return how many there were, 0 if there is no such ask."""
        ask = yield from _find(key, now)
        if ask is None:
            return 0
        yield _ATTEMPT, (key,)
        return ask.tries + 1

    @writes
    def take(self, key: bytes, *, now: int) -> Steps[HeldAsk | None]:
        """Forget an ask and return it, or None."""
        ask = yield from _find(key, now)
        if ask is not None:
            yield _DROP, (key,)
        return ask


def _find(key: bytes, now: int) -> Steps[HeldAsk | None]:
    return _first((yield _FIND, (key, now)))


def _first(rows: Sequence[Sequence[Any]]) -> HeldAsk | None:
    """Return the ask of the first row, or None. A row with values of another type than an ask's holds no ask: an SQLite
    file allows such values."""
    for key, asker, person, code, text, keep_until, answer, tries in rows:
        if {*map(type, (key, asker, person, code, text, answer))} == {bytes} and type(tries) is type(keep_until) is int:
            names = person.decode("utf-8", "replace"), code.decode("utf-8", "replace")
            return HeldAsk(key, asker, *names, text, keep_until, answer, tries)
    return None
