"""Spends challenges, many in one statement.

A challenge is judged as in every store (`stores.rules`). It counts as presented for the first time only if this
statement wrote its row.

- [batch] If one challenge is presented several times in one batch, the first presentation for which it is valid spends
  it: a statement can't write a row twice.
- [order] Rows are written in the order of their challenges, so that two batches never deadlock.
- [repetition] A batch that is repeated writes its own rows again (known by `owner`). Reading them would not be enough:
  a row that can be read may still be on one machine alone.
"""

from collections.abc import Sequence
from typing import NamedTuple

from accredit.errors import AccreditError, ChallengesFull, ClockSetBack
from accredit.ports import Spending
from accredit.stores.minted import Issued
from accredit.stores.postgres.driver import Connection
from accredit.stores.postgres.forgetting import RowCount, bound
from accredit.stores.rules import judge

Verdict = Spending | AccreditError


class PresentedChallenge(NamedTuple):
    """A challenge that was presented, to be spent. `ours` is its content if it was issued here. `issued` says that only
    a challenge issued here is accepted."""

    challenge: bytes
    owner: bytes
    ours: Issued | None
    issued: bool
    keep_until: int
    now: int

    def verdict(self, *, spent: bool) -> Spending:
        """Return the verdict on this challenge."""
        return judge(spent=spent, ours=self.ours, issued=self.issued, now=self.now)


class _Found(NamedTuple):
    written: bool
    known: bool
    bound: int


def spending(clock: str) -> str:
    """Return the SQL statement that writes challenges with the times when they end, and returns the stored facts about
    each."""
    return f"""
WITH asked AS MATERIALIZED (SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::bigint[]) AS t (challenge, owner, ends)),
bound AS MATERIALIZED (SELECT {bound("spent", clock)} AS until),
written AS (
  INSERT INTO spent SELECT challenge, owner, ends FROM asked, bound WHERE ends > until ORDER BY challenge
  ON CONFLICT (challenge) DO UPDATE SET keep_until = EXCLUDED.keep_until WHERE spent.owner = EXCLUDED.owner
  RETURNING challenge)
SELECT challenge, challenge IN (SELECT challenge FROM written),
  coalesce((SELECT true FROM spent WHERE spent.challenge = asked.challenge), false), until
FROM asked, bound"""  # noqa: S608 - of constants


async def find_spent(connection: Connection, challenges: Sequence[bytes]) -> set[bytes]:
    """Return those of the challenges that were spent."""
    rows = await connection.fetch("SELECT challenge FROM spent WHERE challenge = ANY($1::bytea[])", list(challenges))
    return {row[0] for row in rows}


async def spend(
    connection: Connection, statement: str, presented: Sequence[PresentedChallenge], room: RowCount
) -> Sequence[Verdict]:
    """Spend the valid challenges, and return the verdicts."""
    spenders: dict[bytes, int] = {}
    for place, each in enumerate(presented):
        if each.verdict(spent=False) is Spending.FIRST:
            spenders.setdefault(each.challenge, place)
    within = set(list(spenders.values())[: room.left])
    asked = [presented[spenders[challenge]] if challenge in spenders else each for challenge, each in _each(presented)]
    rows = await connection.fetch(
        statement,
        [each.challenge for each in asked],
        [each.owner for each in asked],
        [each.keep_until if spenders.get(each.challenge) in within else None for each in asked],
    )
    found = {challenge: _Found(*rest) for challenge, *rest in rows}
    room.add(sum(each.written for each in found.values()))
    return [
        _verdict(each, found[each.challenge], place, spenders.get(each.challenge), within)
        for place, each in enumerate(presented)
    ]


def _each(presented: Sequence[PresentedChallenge]) -> list[tuple[bytes, PresentedChallenge]]:
    """Return each distinct challenge once, with its first presentation."""
    return list({each.challenge: each for each in reversed(presented)}.items())


def _verdict(each: PresentedChallenge, found: _Found, place: int, spender: int | None, within: set[int]) -> Verdict:
    """Return the verdict on one presentation, at `place` in its batch. `spender` is the place of the presentation that
    was to spend the same challenge. `within` has the places of the presentations for which the table had room."""
    if spender is None or place < spender:  # it is not valid for this one
        return each.verdict(spent=found.known and not found.written)
    if spender not in within:
        return Spending.SPENT if found.known else ChallengesFull("too many challenges were spent of late")
    if not found.written and not found.known and is_presented_late(each, found):
        return ClockSetBack(found.bound)
    return Spending.FIRST if found.written and place == spender else Spending.SPENT


def is_presented_late(each: PresentedChallenge, found: _Found) -> bool:
    """Return whether a challenge ends so early that its row may have been deleted already. Then it may have been
    spent."""
    return each.keep_until <= found.bound
