"""The HTTP client for a server that may have replicas: which one gets a request, which are ejected for a while, and
what is repeated. Network I/O; `Balance`, which chooses and ejects, is given time and randomness.

- [fewest] The next request goes to the replica with the fewest requests in progress, at random if several have as few.
  Ejected replicas get none.
- [ejection] A replica is ejected once `BREAKER_FAILURES` of its requests in a row have failed: no connection (in time),
  no answer in time, or an end before the head of an answer. Any answer that begins ends the row, even an error. A
  failure does not count if another answer of the replica has begun since that request was sent: one slow tool does not
  mean that the replica is down. Nor does it count if the gateway itself had no connection to spare.
- [trial] A replica is ejected for `BREAKER_SECONDS`, plus or minus `BREAKER_JITTER`. Then one trial request is let
  through. If its answer begins, the replica is back. If it fails, the time starts again. If it is abandoned, the next
  request is the trial.

A failed request is repeated in two cases, within the time limit of a single request:

- [unwritten] no byte of it was written: at another replica, at most once at each;
- [repeatable] its `Route` allows it (a list, `ping`), and its connection ended before the head of an answer: once more.

Any other request is never repeated once bytes of it were sent, as the server may have acted on it. A session's requests
are sent only to the session's replica. If that is ejected and another replica is available, the session is over (404),
so that the client starts a new one. If no replica is available, the answer is 503, as for every request.
"""

import asyncio
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from accredit.errors import UpstreamError, UpstreamLeftOut, UpstreamTimeout
from accredit.gateway.headers import SESSION_HEADER, RawHeaders, RequestHead
from accredit.gateway.replies import session_not_found
from accredit.gateway.room import ALONE, EqualShares
from accredit.gateway.settings import HttpUpstream
from accredit.gateway.upstream.http.client import ANYWHERE, Answer, Prepared, Route, UpstreamClient
from accredit.gateway.upstream.http.connection import Share
from accredit.jsonrpc.frames import Request

BREAKER_FAILURES = 5
"""After how many failed requests in a row a replica is ejected. Fewer failures could be chance. With a higher number,
more callers would wait in vain."""
BREAKER_SECONDS = 30.0
"""How long a replica is ejected. A restart takes seconds, and one caller may have to wait for the trial that
follows."""
BREAKER_JITTER = 0.1
"""The fraction by which `BREAKER_SECONDS` varies at random, so that workers and gateways don't all try a replica at the
same time."""


_REPEATABLE = frozenset({"ping", "prompts/list", "resources/list", "resources/templates/list", "tools/list"})
"""Requests that may be repeated even if a server may have read them: they change nothing at the server."""
_LOT = secrets.SystemRandom().random


class Replica:
    """The state of one replica. `name` is never shown to clients."""

    __slots__ = ("failures", "last_answer", "left_out_until", "name", "tried", "under_way")

    def __init__(self, name: str) -> None:
        self.name = name
        self.under_way = 0
        self.failures = 0
        self.last_answer = float("-inf")
        self.left_out_until: float | None = None
        self.tried = False
        """Whether the trial request of [trial] is in progress."""

    def takes(self, now: float) -> bool:
        """Return whether the replica may get a request."""
        return self.left_out_until is None or (now >= self.left_out_until and not self.tried)


class ReplicaAttempt:
    """One request at one replica. Whether it was answered or failed is reported at most once, and it ends once."""

    __slots__ = ("_balance", "_began", "_ended", "_is_trial", "replica")

    def __init__(self, balance: "Balance", replica: Replica, now: float) -> None:
        self._balance = balance
        self._began = now
        self._ended = False
        self._is_trial = replica.left_out_until is not None
        self.replica = replica
        replica.under_way += 1
        replica.tried = replica.tried or self._is_trial

    def answered(self, now: float) -> None:
        """Report that an answer has begun."""
        replica = self.replica
        replica.last_answer = now
        if self._is_trial:
            self._is_trial = replica.tried = False
            replica.left_out_until = None
        if replica.left_out_until is None:
            replica.failures = 0

    def failed(self, now: float) -> None:
        """Report that the request has failed, and end it."""
        replica = self.replica
        if self._is_trial:
            self._balance.leave_out(replica, now)
        elif replica.left_out_until is None and replica.last_answer <= self._began:
            replica.failures += 1
            if replica.failures >= BREAKER_FAILURES:
                self._balance.leave_out(replica, now)
        self.end()

    def end(self) -> None:
        """End the request. A second time does nothing."""
        if self._ended:
            return
        self._ended = True
        self.replica.under_way -= 1
        if self._is_trial:
            self.replica.tried = False


class Balance:
    """The replicas of one server, by name. `lot` returns a random number in [0, 1)."""

    def __init__(self, names: Iterable[str], lot: Callable[[], float]) -> None:
        self._replicas = {name: Replica(name) for name in names}
        self._lot = lot

    def begin(self, now: float, *, at: str | None = None, besides: Collection[str] = ()) -> ReplicaAttempt | None:
        """Begin a request: at the replica `at` if given, otherwise at any but `besides` ([fewest]). Return None if none
        is available."""
        if at is not None:
            replica = self._replicas[at]
            return ReplicaAttempt(self, replica, now) if replica.takes(now) else None
        able = [each for each in self._replicas.values() if each.takes(now) and each.name not in besides]
        if not able:
            return None
        if len(able) > 1:
            fewest = min(each.under_way for each in able)
            able = [each for each in able if each.under_way == fewest]
        return ReplicaAttempt(self, able[int(self._lot() * len(able))] if len(able) > 1 else able[0], now)

    def takes_any(self, now: float) -> bool:
        """Return whether any replica is available."""
        return any(replica.takes(now) for replica in self._replicas.values())

    def left_out(self, now: float) -> int:
        """Return how many replicas are unavailable."""
        return sum(not replica.takes(now) for replica in self._replicas.values())

    def leave_out(self, replica: Replica, now: float) -> None:
        """Eject a replica for a while ([trial])."""
        jitter = (2 * self._lot() - 1) * BREAKER_JITTER
        replica.left_out_until = now + BREAKER_SECONDS * (1 + jitter)


def client_of(upstream: HttpUpstream, timeout: float, parts: EqualShares = ALONE) -> UpstreamClient:
    """Return the client for a server; `timeout` is in seconds. Raises `ConfigurationError`."""
    share = Share(parts)
    if upstream.looked_after:
        return ReplicatedClient(upstream.replicas, headers=upstream.headers, timeout=timeout, share=share)
    return UpstreamClient(upstream.url, headers=upstream.headers, timeout=timeout, share=share)


def route_of(head: RequestHead, requests: Sequence[Request], repeated: Callable[[], None] = ANYWHERE.repeated) -> Route:
    """Return where these requests of one message may go: to their session's replica, if the head names a session."""
    again = len(requests) == 1 and requests[0].method in _REPEATABLE
    return Route(head.replica if SESSION_HEADER in head.headers else None, again, repeated)


class ReplicatedClient(UpstreamClient):
    """Sends requests to one of several URLs with the same path and query, or to a single URL whose server may be
    ejected.

    `replicas` are the URLs by name (`HttpUpstream.replicas`). `lot` returns a random number.
    """

    def __init__(
        self,
        replicas: Mapping[str, str],
        *,
        headers: Mapping[str, str],
        timeout: float,
        lot: Callable[[], float] = _LOT,
        share: Share | None = None,
    ) -> None:
        share = share or Share()
        super().__init__(next(iter(replicas.values())), headers=headers, timeout=timeout, share=share)
        each = {
            name: UpstreamClient(url, headers=headers, timeout=timeout, share=share) for name, url in replicas.items()
        }
        self._each = each
        self._first = next(iter(each.values()))
        """The client that prepares heads. Its own fields in them are replaced when another replica is used."""
        self._balance = Balance(each, lot)

    def url_of(self, replica: str) -> str:
        """Return the URL of a replica."""
        return self._each[replica].url_of("")

    async def exchange(
        self,
        prepared: Prepared,
        body: bytes,
        headers: RawHeaders | None = None,
        route: Route = ANYWHERE,
        deadline: float | None = None,
    ) -> Answer:
        """Send a prepared head to a replica. Raises what `UpstreamClient.exchange` raises, `UpstreamLeftOut`, and
        `RequestError` (404) for a session that is over."""
        loop = asyncio.get_running_loop()
        due = loop.time() + self._timeout if deadline is None else deadline
        tried: set[str] = set()
        again = route.again
        turn = self._turn(loop.time(), route)
        while True:
            try:
                return await self._once(turn, prepared, body, headers, due, whole=not tried and again is route.again)
            except UpstreamError as error:
                now, name = loop.time(), turn.replica.name
                if now >= due:
                    raise
                if error.unsent:
                    tried.add(name)
                    following = self._balance.begin(now, besides=tried) if route.at is None else None
                elif again and not isinstance(error, UpstreamTimeout):
                    again = False
                    following = self._repeated(now, route, name)
                else:
                    following = None
                if following is None:
                    raise
                turn = following
            route.repeated()

    def left_out(self) -> int:
        """Return how many replicas are ejected at present."""
        return self._balance.left_out(asyncio.get_running_loop().time())

    async def reachable(self) -> bool:
        """Return whether any replica accepts connections."""
        return any(await asyncio.gather(*(client.reachable() for client in self._each.values())))

    async def close(self) -> None:
        """Close every connection. Requests in progress fail."""
        await asyncio.gather(*(client.close() for client in self._each.values()))

    def _turn(self, now: float, route: Route) -> ReplicaAttempt:
        turn = self._balance.begin(now, at=route.at)
        if turn is None:
            if route.at is not None and self._balance.takes_any(now):
                # The client starts a new session (2025-11-25, basic/transports, "Session Management").
                raise session_not_found()
            raise UpstreamLeftOut("no replica of the upstream answers for now")
        return turn

    def _repeated(self, now: float, route: Route, name: str) -> ReplicaAttempt | None:
        """Begin to repeat a request ([repeatable]): at another replica if possible, otherwise at the same."""
        other = self._balance.begin(now, besides={name}) if route.at is None else None
        return other or self._balance.begin(now, at=name)

    async def _once(
        self,
        turn: ReplicaAttempt,
        prepared: Prepared,
        body: bytes,
        headers: RawHeaders | None,
        deadline: float,
        *,
        whole: bool,
    ) -> Answer:
        """Send a request to one replica. Without `whole`, less than the full time is left for it, and then a time-out
        does not count as a failure."""
        client, loop = self._each[turn.replica.name], asyncio.get_running_loop()
        try:
            addressed = prepared if client is self._first else self.readdressed(prepared, client)
            answer = await client.exchange(addressed, body, headers, deadline=deadline)
        except UpstreamError as error:
            asked = not isinstance(error, UpstreamLeftOut)  # else the gateway had no connection left
            if asked and (whole or not isinstance(error, UpstreamTimeout)):
                turn.failed(loop.time())
            else:
                turn.end()
            raise
        except BaseException:
            turn.end()
            raise
        turn.answered(loop.time())
        answer.replica, answer.on_close = turn.replica.name, turn.end
        return answer
