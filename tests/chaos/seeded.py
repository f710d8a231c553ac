"""Our store with a fault put back into it, one of those that it was built to be without. No I/O of its own.

Each is what somebody would write who had not met the fault. The checker has to find what comes of them.
"""

import contextlib
from collections.abc import Generator, Sequence
from typing import Any

from accredit.errors import AccreditError
from accredit.ports import Spending
from accredit.stores import runners
from accredit.stores.lasting import PostgresDatabase
from accredit.stores.postgres import session
from accredit.stores.postgres.driver import Connection
from accredit.stores.postgres.forgetting import CLOCK, DATABASE_KEEP_SECONDS
from accredit.stores.postgres.store import PostgresStore

FAST_SECONDS = 600
"""How far a gateway's clock is ahead."""


@contextlib.contextmanager
def replaced(where: Any, name: str, value: object) -> Generator[None]:
    """Has a name mean something else meanwhile."""
    before = getattr(where, name)
    setattr(where, name, value)
    try:
        yield
    finally:
        setattr(where, name, before)


def notices_pass() -> contextlib.AbstractContextManager[None]:
    """A wait for the standby that somebody cancelled counts as one that was waited for."""

    async def look_away(_: Connection) -> None:
        pass

    return replaced(Connection, "_check_notices", look_away)


def nobody_waits() -> contextlib.AbstractContextManager[None]:
    """Steps of the front door that write don't wait for each other."""
    return replaced(runners, "_LOCK", "SELECT $1::text")


def fast_clock() -> contextlib.AbstractContextManager[None]:
    """This machine's clock is ahead."""
    real = session.unix_ms
    return replaced(session, "unix_ms", lambda: real() + FAST_SECONDS * 1000)


class ReadsBack(PostgresStore):
    """Whoever repeats an attempt whose answer was lost reads whether its row is there, and writes nothing."""

    def __init__(self, database: PostgresDatabase) -> None:
        super().__init__(database)
        self._spending = _edited(
            self._spending,
            ("DO UPDATE SET keep_until = EXCLUDED.keep_until WHERE spent.owner = EXCLUDED.owner", "DO NOTHING"),
            (
                "IN (SELECT challenge FROM written)",
                "IN (SELECT challenge FROM written UNION SELECT spent.challenge FROM spent, asked AS mine"
                " WHERE spent.challenge = mine.challenge AND spent.owner = mine.owner)",
            ),
        )


class SweepsByItsOwnClock(PostgresStore):
    """What has ended is deleted by the clock of who deletes it, which nobody compares with another one."""

    def __init__(self, database: PostgresDatabase) -> None:
        super().__init__(database)
        ended = f"{CLOCK} + {FAST_SECONDS} - {DATABASE_KEEP_SECONDS}"
        gone = f"WITH gone AS (DELETE FROM spent WHERE keep_until < {ended} RETURNING 1) SELECT count(*) FROM gone"
        self._sweeps = ((gone, self._spent),)


class MakesRoom(PostgresStore):
    """Where there is no room for another challenge, the one that ends first makes room for it."""

    async def _spend(self, connection: Connection, asked: Sequence[Any]) -> Sequence[Spending | AccreditError]:
        await connection.fetch(
            "DELETE FROM spent WHERE challenge IN (SELECT challenge FROM spent ORDER BY keep_until"
            " LIMIT greatest(0, (SELECT count(*) FROM spent) + $1 - $2))",
            len(asked),
            self._spent._most,
        )
        await self._spent.count(connection)
        return await super()._spend(connection, asked)


def _edited(text: str, *changes: tuple[str, str]) -> str:
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text
