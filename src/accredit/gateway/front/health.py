"""Serves `/healthz` (whether the process is alive) and `/readyz` (which of its parts answer).

A request is refused by the first of these rules that it breaks:

- [source] `Host` and `Origin` are allowed, as at the endpoint (`Endpoint.check_source`); otherwise 403.
- [method] The method is GET or HEAD; otherwise 405.

What a caller gets from `/readyz` depends on who it is:

- [names] An unauthenticated caller gets the names of parts, each with true or false; in `servers` they are the names
  from the configuration. It gets no path, text or count. With `?list=SHA-256` (up to `MAX_ASKED_LISTS` times) it also
  learns whether one of these revocation lists is in force: only those who have a signed list can know its digest.
- [details] The operator, on the admin listener, also gets the reasons, the counts of refusals, and whether proofs are
  not required (`proofs`). So does a caller with a valid token in the header, where tokens are on.

The status is 503 while the gateway drains, and if `upstream`, `store` or `records` don't answer. If there are several
servers, each is named in `servers`, and the status is 503 if any of them does not answer. With `?scope=gateway` servers
are left out: one that is down must not take the gateway from the clients of the others.

These are reported, but do not change the status:

- `revocations` and `key_sets`: what was last known stays in force;
- `reload`, present after a reload: false if the old configuration stays in force;
- `schema`, present only if false: the store's tables are those of the previous version;
- `log`, present only if false: other writers' records failed verification, and so were left open or unsigned;
- `instructions`: false if the server's, as last seen by this process, differ from the pinned ones.

- [shared] Anyone may ask, as often as they like. So one caller at a time has the servers, the store and the log looked
  at, and all are told what was found for `FOUND_SECONDS`.

Each answer has the time (`Date`), so that clocks can be compared.
"""

import asyncio
import contextlib
import re
from collections.abc import Callable, Coroutine, Sequence
from email.utils import formatdate
from time import monotonic
from typing import Any, Protocol

from accredit.errors import AccreditError, RequestError
from accredit.gateway.admission.pinned_tools import PinnedTools
from accredit.gateway.counters import Counters
from accredit.gateway.front.callers import HttpAuthenticator
from accredit.gateway.front.exchange import Exchange
from accredit.gateway.headers import JSON
from accredit.gateway.upstream.reply import Backend
from accredit.jsonrpc.encode import INVALID_REQUEST, to_json
from accredit.limits import MAX_ASKED_LISTS
from accredit.ports import KeySets, ProofStore, Records, Revocations

FOUND_SECONDS = 1.0
"""How long callers of `/readyz` are told what was found for another one. A look opens a connection to each server, and
writes to the store and the log. Balancers ask about every two seconds, and take a gateway out after two failures: they
need hardly longer for it."""

ALIVE, READY = "/healthz", "/readyz"
_ONLY_GATEWAY = b"scope=gateway"
_ASKED_LIST = re.compile(rb"list=([0-9a-f]{64})")
_UPSTREAM = "upstream"


class HealthTarget(Protocol):
    """A server whose health is reported."""

    @property
    def name(self) -> str:
        """The server's name in `[servers]` ("" for the only one)."""
        ...

    @property
    def backend(self) -> Backend:
        """The server's backend, which can be asked whether it answers."""
        ...

    @property
    def pinned(self) -> PinnedTools | None:
        """The check of the server's definitions, or None if they are not pinned."""
        ...


class Condition:
    """What is reported of the gateway itself, beside its parts. `reloaded` is false until its first reload.
    `reload_problem` is why its last reload was refused, or None."""

    def __init__(self) -> None:
        self.draining = False
        self.reloaded = False
        self.reload_problem: str | None = None


class _Found:
    """What the last look at some parts has found."""

    def __init__(self, look: Callable[[], Coroutine[Any, Any, dict[str, bool]]]) -> None:
        self._look = look
        self._looking = asyncio.Lock()
        self._parts: dict[str, bool] = {}
        self._good_until = float("-inf")

    async def parts(self) -> dict[str, bool]:
        """Return it, after another look if it is too old."""
        async with self._looking:
            if monotonic() >= self._good_until:
                self._parts = await self._look()
                self._good_until = monotonic() + FOUND_SECONDS
            return self._parts


class Health:
    """Answers both paths; there is one object for each value of the settings. Ports that are None are not reported."""

    def __init__(
        self,
        servers: Sequence[HealthTarget],
        counters: Counters,
        authenticator: HttpAuthenticator,
        *,
        store: ProofStore | None = None,
        records: Records | None = None,
        revocations: Revocations | None = None,
        key_sets: KeySets | None = None,
        condition: Condition,
        observes: bool = False,
    ) -> None:
        self._observes = observes
        self._condition = condition
        self._servers = servers
        self._counters = counters
        self._authenticator = authenticator
        self._records = records
        self._store = store
        self._revocations = revocations
        self._key_sets = key_sets
        self._found_servers, self._found_own = _Found(self._servers_answering), _Found(self._answering)

    async def serve(self, exchange: Exchange, path: str, *, to_operator: bool = False) -> None:
        """Answer a request for one of the two paths. Its host has been checked. With `to_operator` it needs no token
        for the details. Raises `RequestError`."""
        if exchange.head.method not in ("GET", "HEAD"):
            raise RequestError(INVALID_REQUEST, "Method not allowed", status=405)
        if path == ALIVE:
            await _tell(exchange, 200, {"status": "ok"})
            return
        asked = exchange.head.query.split(b"&")
        servers = {} if _ONLY_GATEWAY in asked else await self._found_servers.parts()
        own = await self._found_own.parts()
        ready = all({**own, **servers}.values()) and not self._condition.draining
        named = {"servers": servers} if servers.keys() - {_UPSTREAM} else servers
        parts = {**named, **own}
        problems = await self._problems()
        stale = {part: problem is None for part, problem in problems.items() if part not in parts}
        status = "draining" if self._condition.draining else "ok" if ready else "not ready"
        body: dict[str, Any] = {"status": status, **parts, **stale, **self._lists(asked)}
        if to_operator or await self._is_known(exchange):
            why = {f"{part}_problem": problem for part, problem in problems.items() if problem is not None}
            body |= {**why, "refused": dict(self._counters.counts)}
            body |= {"proofs": "observe"} if self._observes else {}
        await _tell(exchange, 200 if ready else 503, body)

    async def _servers_answering(self) -> dict[str, bool]:
        answers = await asyncio.gather(*(each.backend.ready() for each in self._servers))
        return {each.name or _UPSTREAM: ready for each, ready in zip(self._servers, answers, strict=True)}

    async def _answering(self) -> dict[str, bool]:
        parts: dict[str, bool] = {}
        if self._store is not None:
            parts["store"] = await self._store.ready()
        if self._records is not None:
            parts["records"] = await self._records.ready()
        return parts

    async def _problems(self) -> dict[str, str | None]:
        """Return each part's problem, or None if it has none. The texts are not for strangers ([details])."""
        problems: dict[str, str | None] = {}
        if self._store is not None and (behind := self._store.problem()) is not None:
            problems["schema"] = behind
        if self._records is not None:
            problems["records"] = self._records.problem()
            if (unverified := self._records.unverified()) is not None:
                problems["log"] = unverified
        if self._revocations is not None:
            with contextlib.suppress(AccreditError):
                await self._revocations.is_revoked("")  # makes it read the lists
            problems["revocations"] = self._revocations.problem()
        if self._key_sets is not None:
            problems["key_sets"] = self._key_sets.problem()
        if self._condition.reloaded:
            problems["reload"] = self._condition.reload_problem
        pinned = [(each.name, each.pinned) for each in self._servers if each.pinned is not None]
        if pinned:
            changed = [name for name, pins in pinned if pins.instructions_changed]
            whose = f" of {', '.join(changed)}" if any(changed) else ""
            problems["instructions"] = f"the server's instructions{whose} are not the pinned ones" if changed else None
        return problems

    def _lists(self, asked: Sequence[bytes]) -> dict[str, bool]:
        """Return `list`: whether at least one of the revocation lists asked about is in force. Return nothing if none
        was asked about ([names])."""
        found = [match[1].decode() for each in asked if (match := _ASKED_LIST.fullmatch(each))][:MAX_ASKED_LISTS]
        if self._revocations is None or not found:
            return {}
        return {"list": any(map(self._revocations.has_list, found))}

    async def _is_known(self, exchange: Exchange) -> bool:
        with contextlib.suppress(AccreditError):
            return await self._authenticator.of_header(exchange) is not None
        return False


async def _tell(exchange: Exchange, status: int, body: dict[str, Any]) -> None:
    await exchange.reply(status, to_json(body), [JSON, (b"date", formatdate(usegmt=True).encode("ascii"))])
