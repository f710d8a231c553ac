"""Memory of asks that wait for a person (`ports.AskStore`): in this process, or in an SQLite file, with I/O in a thread
of its own. `stores.postgres.asks` is the same in a database.

An expired ask can't be found any more; its row is deleted when a later ask is held. A clock that was set back can make
a forgotten ask one that a person is asked again, and no more: what an answer allows is in its certificates.
"""

import sqlite3
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

from msgspec.structs import replace

from accredit.errors import AsksFull
from accredit.limits import (
    MAX_ASKS,
    MAX_ASKS_PER_ASKER,
    MAX_CONSENT_ANSWER_BYTES,
    MAX_SEALED_ASK_BYTES,
    STORE_SWEEP_ROWS,
)
from accredit.ports import HeldAsk
from accredit.stores.sqlite.forgetting import sweep
from accredit.stores.sqlite.worker import Worker

FULL = "no room to hold one more ask"
ASK_COLUMNS = "key, asker, person, code, text, keep_until, answer, tries"
"""The columns of a row, in the order of the members of `HeldAsk`."""
MAX_HELD_BYTES = MAX_SEALED_ASK_BYTES + MAX_CONSENT_ANSWER_BYTES + 256
"""Bytes of all that is held of an ask. A longer row was not written by a gateway: it is no ask, and not read."""

_BYTES = ("key", "asker", "person", "code", "text", "answer")
_ARE_BYTES = " AND ".join(f"typeof({each}) = 'blob'" for each in _BYTES)
_SIZE = " + ".join(f"length({each})" for each in _BYTES)
_THIS = f"keep_until >= ? AND {_ARE_BYTES} AND typeof(tries) = 'integer' AND {_SIZE} <= {MAX_HELD_BYTES}"
_FIND = f"SELECT {ASK_COLUMNS} FROM asks WHERE key = ? AND {_THIS}"  # noqa: S608 - of constants
_FIND_CODE = f"SELECT {ASK_COLUMNS} FROM asks WHERE code = ? AND {_THIS}"  # noqa: S608 - of constants
_WAITING = (
    f"SELECT code FROM asks WHERE person = ? AND {_THIS} AND answer = x''"  # noqa: S608 - of constants
    f" ORDER BY keep_until LIMIT {MAX_ASKS}"
)
_HELD = "SELECT count(*) FROM asks WHERE keep_until >= ? AND (person = x'') = ?"
GIVE_WAY = (
    "DELETE FROM asks WHERE key = (SELECT key FROM asks WHERE length(person) = 0 AND length(answer) = 0"
    " ORDER BY keep_until LIMIT 1)"
)
"""Forgets the client's ask that has waited longest for its code to be typed: anybody may begin one, and nobody is shown
it, so those who begin many must not keep others out."""
_OF_ASKER = "SELECT count(*) FROM asks WHERE asker = ? AND keep_until >= ? AND answer = x''"


class MemoryAsks:
    """An `AskStore` for one process."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._asks: dict[bytes, HeldAsk] = {}

    async def hold(self, ask: HeldAsk, *, now: int) -> HeldAsk:
        """Hold an ask and return it. If its key is known, return the ask that has it. Raises `AsksFull`."""
        with self._lock:
            self._asks = {key: each for key, each in self._asks.items() if each.keep_until >= now}
            known = self._asks.get(ask.key)
            if known is not None:
                return known
            alike = [each for each in self._asks.values() if bool(each.person) is bool(ask.person)]
            of_asker = [each for each in self._asks.values() if each.asker == ask.asker and not each.answer]
            is_taken = any(each.code == ask.code for each in self._asks.values())
            unanswered = [each for each in alike if not each.person and not each.answer]
            if len(alike) >= MAX_ASKS and unanswered:
                alike.remove(first := min(unanswered, key=lambda each: each.keep_until))
                del self._asks[first.key]
            if len(alike) >= MAX_ASKS or len(of_asker) >= MAX_ASKS_PER_ASKER or is_taken:
                raise AsksFull(FULL)
            self._asks[ask.key] = ask
        return ask

    async def find(self, key: bytes, *, now: int) -> HeldAsk | None:
        """Return the ask of this key, or None."""
        with self._lock:
            return self._alive(key, now)

    async def find_code(self, code: str, *, now: int) -> HeldAsk | None:
        """Return the ask of this code, or None."""
        with self._lock:
            return next((each for each in self._asks.values() if each.code == code and each.keep_until >= now), None)

    async def waiting(self, person: str, *, now: int) -> Sequence[str]:
        """Return the codes of a person's asks that have no answer, in the order of their ends."""
        with self._lock:
            found = [each for each in self._asks.values() if each.person == person and each.keep_until >= now]
        return [each.code for each in sorted(found, key=lambda each: each.keep_until) if not each.answer]

    async def answer(self, key: bytes, answer: bytes, *, keep_until: int, now: int) -> bool:
        """Answer an ask; return whether it has this answer now."""
        with self._lock:
            ask = self._alive(key, now)
            if ask is None or ask.answer not in (b"", answer):
                return False
            self._asks[key] = replace(ask, answer=answer, keep_until=keep_until)
        return True

    async def attempt(self, key: bytes, *, now: int) -> int:
        """Count one try to type an ask's digits; return how many there were, 0 if there is no such ask."""
        with self._lock:
            ask = self._alive(key, now)
            if ask is None:
                return 0
            self._asks[key] = replace(ask, tries=ask.tries + 1)
            return ask.tries + 1

    async def take(self, key: bytes, *, now: int) -> HeldAsk | None:
        """Forget an ask and return it, or None."""
        with self._lock:
            ask = self._alive(key, now)
            self._asks.pop(key, None)
        return ask

    async def aclose(self) -> None:
        """Do nothing: there is nothing to release."""

    def _alive(self, key: bytes, now: int) -> HeldAsk | None:
        ask = self._asks.get(key)
        return ask if ask is not None and ask.keep_until >= now else None


class SqliteAsks:
    """An `AskStore` in the file at `path`, shared by all processes of a machine."""

    def __init__(self, path: Path) -> None:
        self._worker = Worker(path)

    async def hold(self, ask: HeldAsk, *, now: int) -> HeldAsk:
        """Hold an ask and return it. If its key is known, return the ask that has it. Raises `AsksFull`."""
        held = await self._worker.run(partial(_hold, ask=ask, now=now))
        if held is None:
            raise AsksFull(FULL)
        return held

    async def find(self, key: bytes, *, now: int) -> HeldAsk | None:
        """Return the ask of this key, or None."""
        return await self._worker.run(partial(_read, statement=_FIND, value=key, now=now), writes=False)

    async def find_code(self, code: str, *, now: int) -> HeldAsk | None:
        """Return the ask of this code, or None."""
        return await self._worker.run(partial(_read, statement=_FIND_CODE, value=code.encode(), now=now), writes=False)

    async def waiting(self, person: str, *, now: int) -> Sequence[str]:
        """Return the codes of a person's asks that have no answer, in the order of their ends."""
        return await self._worker.run(partial(_read_waiting, person=person, now=now), writes=False)

    async def answer(self, key: bytes, answer: bytes, *, keep_until: int, now: int) -> bool:
        """Answer an ask; return whether it has this answer now."""
        return await self._worker.run(partial(_answer, key=key, answer=answer, keep_until=keep_until, now=now))

    async def attempt(self, key: bytes, *, now: int) -> int:
        """Count one try to type an ask's digits; return how many there were, 0 if there is no such ask."""
        return await self._worker.run(partial(_attempt, key=key, now=now))

    async def take(self, key: bytes, *, now: int) -> HeldAsk | None:
        """Forget an ask and return it, or None."""
        return await self._worker.run(partial(_take, key=key, now=now))

    async def aclose(self) -> None:
        """End the thread and close the file."""
        await self._worker.aclose()


def _hold(connection: sqlite3.Connection, *, ask: HeldAsk, now: int) -> HeldAsk | None:
    sweep(connection, "asks", now, STORE_SWEEP_ROWS)
    known = _read(connection, statement=_FIND, value=ask.key, now=now)
    if known is not None:
        return known
    (alike,) = connection.execute(_HELD, (now, not ask.person)).fetchone()
    if alike >= MAX_ASKS and not ask.person:
        alike -= connection.execute(GIVE_WAY).rowcount
    (of_asker,) = connection.execute(_OF_ASKER, (ask.asker, now)).fetchone()
    if alike >= MAX_ASKS or of_asker >= MAX_ASKS_PER_ASKER:
        return None
    row = (ask.key, ask.asker, ask.person.encode(), ask.code.encode(), ask.text, ask.keep_until, ask.answer, ask.tries)
    written = connection.execute(
        f"INSERT INTO asks ({ASK_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",  # noqa: S608
        row,
    )
    return ask if written.rowcount else None


def _read(connection: sqlite3.Connection, *, statement: str, value: bytes, now: int) -> HeldAsk | None:
    row = connection.execute(statement, (value, now)).fetchone()
    return read_row(row) if row is not None else None


def _read_waiting(connection: sqlite3.Connection, *, person: str, now: int) -> Sequence[str]:
    return [code.decode("utf-8", "replace") for (code,) in connection.execute(_WAITING, (person.encode(), now))]


def _answer(connection: sqlite3.Connection, *, key: bytes, answer: bytes, keep_until: int, now: int) -> bool:
    ask = _read(connection, statement=_FIND, value=key, now=now)
    if ask is None or ask.answer not in (b"", answer):
        return False
    connection.execute("UPDATE asks SET answer = ?, keep_until = ? WHERE key = ?", (answer, keep_until, key))
    return True


def _attempt(connection: sqlite3.Connection, *, key: bytes, now: int) -> int:
    ask = _read(connection, statement=_FIND, value=key, now=now)
    if ask is None:
        return 0
    connection.execute("UPDATE asks SET tries = ? WHERE key = ?", (ask.tries + 1, key))
    return ask.tries + 1


def _take(connection: sqlite3.Connection, *, key: bytes, now: int) -> HeldAsk | None:
    ask = _read(connection, statement=_FIND, value=key, now=now)
    if ask is not None:
        connection.execute("DELETE FROM asks WHERE key = ?", (key,))
    return ask


def read_row(row: Sequence[Any]) -> HeldAsk:
    """Return the ask of a row of `ASK_COLUMNS`, whose types and sizes were checked."""
    key, asker, person, code, text, keep_until, answer, tries = row
    return HeldAsk(
        key, asker, person.decode("utf-8", "replace"), code.decode("utf-8", "replace"), text, keep_until, answer, tries
    )
