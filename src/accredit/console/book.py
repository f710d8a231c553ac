"""Pending asks, and how many there may be. No I/O, no clock: times are unix seconds that are passed in.

An ask that is valid by itself (`consent.asks`) is judged by these rules, in this order:

- [duplicate] If the ask is known already, no new one is made: a program that sends it again waits for the same answer,
  or gets it at once.
- [unique-ids] Its id was never used before, and its code is not that of another remembered ask. Otherwise one ask could
  hide behind another.
- [principal] If it names principals, this person is one of them.
- [denial] If an identical call was denied less than an hour ago, this ask is denied, too, and the person does not see
  it.
- [agent-limits] The agent has fewer than three pending asks, and had fewer than ten in this hour. New agents, to whom
  nothing was allowed yet at the gateway, share one set of limits: otherwise new keys, which cost nothing, would get
  around them.
- [pending-limit] Fewer than 64 asks are pending in all.

An ask is pending until it expires, or for an hour if the person keeps it open.
"""

import asyncio
import secrets
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable
from typing import Literal

from msgspec import Struct, field

from accredit.base.caching import RecentlyUsed
from accredit.consent.answers import Answer
from accredit.consent.asks import Ask
from accredit.errors import DeskError

MAX_PENDING_ASKS = 64
"""How many asks may be pending at one time: more than anybody reads."""
MAX_PENDING_ASKS_OF_NEW = 16
"""How many of these may come from agents to whom nothing was allowed yet. Any program can make any number of keys, and
must not crowd out agents that the person knows."""
MAX_PENDING_ASKS_OF_AGENT = 3
"""How many asks of one agent may be pending at one time."""
MAX_ASKS_OF_AGENT_AN_HOUR = 10
"""How many asks of one agent a person is shown in an hour: people who are asked too often say yes without reading."""
MAX_ASKS_OF_NEW_AN_HOUR = 60
"""The same for all agents together to whom nothing was allowed yet."""
MAX_ANSWERED_ASKS = 1_024
"""How many answered asks are remembered. A program that lost its answer gets it again, and an identical ask is denied
without being shown."""
DENIED_SECONDS = 3_600
"""For how long asks that are identical to a denied one are denied without being shown."""
KEPT_OPEN_SECONDS = 3_600
"""For how long an ask stays open if the person keeps it open (WCAG 2.2.1)."""


State = Literal["pending", "allowed", "denied", "expired", "withdrawn"]

_HOUR = 3_600
_NONCE_BYTES = 16
_NEW = ""
"""The key of the counters that all new agents share."""


class PendingAsk(Struct, kw_only=True, eq=False):
    """An ask that the desk has taken, and its state.

    `until` is when it stops being pending. `answered` is an event: it is set once there is an `answer`, or once it is
    certain that there will be none.
    """

    ask: Ask
    is_new: bool
    taken_at: int
    until: int
    started_by: str = ""
    state: State = "pending"
    answer: Answer | None = None
    is_deciding: bool = False
    nonce: str = field(default_factory=lambda: secrets.token_urlsafe(_NONCE_BYTES))
    answered: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def key(self) -> str:
        """The ask's digest, in lower-case hex."""
        return self.ask.digest.hex()

    def waits(self, now: int) -> bool:
        """Return whether the person can still decide on it."""
        return self.state == "pending" and now <= self.until

    def settle(self, state: State, answer: Answer | None) -> None:
        """Set the final state and answer, and wake those who wait for it."""
        self.state, self.answer = state, answer
        self.answered.set()


class AskBook:
    """Pending asks, oldest first, and the latest answered ones."""

    def __init__(
        self, person_id: str, used_ids: Iterable[str] = (), denied: Iterable[tuple[tuple[str, ...], int]] = ()
    ) -> None:
        """Start with the ids used before, and the calls denied before with the times of the denials."""
        self._person_id = person_id
        self._by_key: OrderedDict[str, PendingAsk] = OrderedDict()
        self._used_ids: RecentlyUsed[str, bool] = RecentlyUsed(MAX_ANSWERED_ASKS * 4)
        self._denied: RecentlyUsed[tuple[str, ...], int] = RecentlyUsed(MAX_ANSWERED_ASKS)
        self._hours: dict[str, deque[int]] = {}
        self._unseen: Counter[str] = Counter()
        for each in used_ids:
            self._used_ids.put(each, True)
        for call, at in denied:
            self._denied.put(call, at + DENIED_SECONDS)

    def waiting(self, now: int) -> list[PendingAsk]:
        """Return the pending asks, oldest first."""
        return [each for each in self._by_key.values() if each.waits(now)]

    def unseen(self, agent_id: str = _NEW) -> int:
        """Return how many asks of an agent were refused because there were too many. By default, count those of all new
        agents."""
        return self._unseen[agent_id]

    def find(self, code: str) -> PendingAsk | None:
        """Return the ask with this code, pending or not."""
        return next((each for each in self._by_key.values() if each.ask.code == code), None)

    def known(self, key: str) -> PendingAsk | None:
        """Return the ask with this digest."""
        return self._by_key.get(key)

    def take(self, ask: Ask, now: int, *, is_new: bool, started_by: str = "") -> tuple[PendingAsk, bool]:
        """Take an ask by the rules above. Return it, and whether the person must be shown it. Raises `DeskError`."""
        known = self._by_key.get(ask.digest.hex())
        if known is not None:
            return known, False
        if ask.id in self._used_ids or self.find(ask.code) is not None:
            raise DeskError("bad_ask", "this ask was used before: make another one")
        if ask.principals and self._person_id not in ask.principals:
            raise DeskError("bad_ask", "this asks somebody else")
        asked = PendingAsk(ask=ask, is_new=is_new, taken_at=now, until=ask.expires_at, started_by=started_by)
        if now < (self._denied.peek(ask.same_call) or 0):  # not even remembered: there may be any number of them
            asked.settle("denied", Answer(ask=asked.key, decision="deny", reason="denied less than an hour ago"))
            return asked, False
        self._check_rate(asked, now)
        self._used_ids.put(ask.id, True)
        self._by_key[asked.key] = asked
        self._forget(now)
        return asked, True

    def keep_open(self, asked: PendingAsk, now: int) -> None:
        """Keep an ask open for an hour from now."""
        asked.until = max(asked.until, now + KEPT_OPEN_SECONDS)

    def deny(self, asked: PendingAsk, now: int, answer: Answer) -> None:
        """Deny an ask, and all identical ones for an hour."""
        self._denied.put(asked.ask.same_call, now + DENIED_SECONDS)
        asked.settle("denied", answer)

    def expire(self, now: int) -> list[PendingAsk]:
        """Settle the asks whose time is over as undecided, and return them."""
        over = [each for each in self._by_key.values() if each.state == "pending" and now > each.until]
        for each in over:
            each.settle("expired", Answer(ask=each.key, decision="later", reason="nobody answered in time"))
        return over

    def _check_rate(self, asked: PendingAsk, now: int) -> None:
        agent = asked.ask.agent_id
        waiting = self.waiting(now)
        too_many = (
            sum(each.ask.agent_id == agent for each in waiting) >= MAX_PENDING_ASKS_OF_AGENT
            or self._in_hour(agent, now) >= MAX_ASKS_OF_AGENT_AN_HOUR
        )
        if asked.is_new and not too_many:
            of_new = sum(each.is_new for each in waiting)
            too_many = of_new >= MAX_PENDING_ASKS_OF_NEW or self._in_hour(_NEW, now) >= MAX_ASKS_OF_NEW_AN_HOUR
        if too_many:
            self._unseen[agent if agent in self._hours else _NEW] += 1
            raise DeskError("rate", "this agent asks too often")
        if len(waiting) >= MAX_PENDING_ASKS:
            raise DeskError("busy", "too many asks are waiting")
        for whose in (agent, _NEW) if asked.is_new else (agent,):
            self._hours.setdefault(whose, deque()).append(now)

    def _in_hour(self, whose: str, now: int) -> int:
        hour = self._hours.get(whose, deque())
        while hour and hour[0] <= now - _HOUR:
            hour.popleft()
        return len(hour)

    def _forget(self, now: int) -> None:
        """Forget the oldest answered asks, and the counters of hours that are over."""
        done = [key for key, each in self._by_key.items() if not each.waits(now)]
        for key in done[: max(0, len(done) - MAX_ANSWERED_ASKS)]:
            del self._by_key[key]
        for whose in [whose for whose, hour in self._hours.items() if not hour or hour[-1] <= now - _HOUR]:
            del self._hours[whose]
            del self._unseen[whose]
