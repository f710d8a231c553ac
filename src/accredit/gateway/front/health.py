"""`/healthz` and `/readyz`: whether the process is alive, and which of its parts answer. First failure wins.

1. `Host` and `Origin` are allowed, as at the endpoint (`Endpoint.check_source`): 403.
2. The method is GET or HEAD: 405.
3. An unauthenticated caller is told the names of parts with true or false, and nothing more: no path, name, text or
   count.
4. A caller with a valid token in the header, where tokens are on, is also told the reasons, and what was refused.

The status is 503 if `upstream`, `store` or `records` don't answer, and while the gateway drains. `revocations` and
`key_sets` don't change it: what was last known is still in force. Nor does `instructions`, which is false where the
server's, as last seen by this process, are not the pinned ones. Each answer has the time (`Date`), so that clocks can
be compared.
"""

import contextlib
from email.utils import formatdate
from typing import Any

from accredit.errors import AccreditError, RequestError
from accredit.gateway.admission.pinned_tools import PinnedTools
from accredit.gateway.counters import Counters
from accredit.gateway.front.authenticator import HttpAuthenticator
from accredit.gateway.front.exchange import Exchange
from accredit.gateway.headers import JSON
from accredit.gateway.recording.recorder import Recorder
from accredit.gateway.upstream.backend import Backend
from accredit.jsonrpc.encode import INVALID_REQUEST, to_json
from accredit.ports import KeySets, ProofStore, Revocations

ALIVE, READY = "/healthz", "/readyz"


class Health:
    """One per gateway. Parts that are None are not reported."""

    def __init__(
        self,
        backend: Backend,
        counters: Counters,
        authenticator: HttpAuthenticator | None,
        recorder: Recorder | None,
        store: ProofStore | None,
        revocations: Revocations | None,
        key_sets: KeySets | None,
        pinned: PinnedTools | None = None,
    ) -> None:
        self.draining = False
        self._backend = backend
        self._counters = counters
        self._authenticator = authenticator
        self._recorder = recorder
        self._store = store
        self._revocations = revocations
        self._key_sets = key_sets
        self._pinned = pinned

    async def serve(self, exchange: Exchange, path: str) -> None:
        """Answer a request from an allowed host for one of the two paths. Raises `RequestError`."""
        if exchange.head.method not in ("GET", "HEAD"):
            raise RequestError(INVALID_REQUEST, "Method not allowed", status=405)
        if path == ALIVE:
            await _tell(exchange, 200, {"status": "ok"})
            return
        parts = await self._answering()
        ready = all(parts.values()) and not self.draining
        problems = await self._problems()
        stale = {part: problem is None for part, problem in problems.items() if part not in parts}
        status = "draining" if self.draining else "ok" if ready else "not ready"
        body: dict[str, Any] = {"status": status, **parts, **stale}
        if await self._is_known(exchange):
            why = {f"{part}_problem": problem for part, problem in problems.items() if problem is not None}
            body |= {**why, "refused": dict(self._counters.counts)}
        await _tell(exchange, 200 if ready else 503, body)

    async def _answering(self) -> dict[str, bool]:
        parts = {"upstream": await self._backend.ready()}
        if self._store is not None:
            parts["store"] = await self._store.ready()
        if self._recorder is not None:
            parts["records"] = await self._recorder.ready()
        return parts

    async def _problems(self) -> dict[str, str | None]:
        """Return what is wrong with each part, or None, in words that only authenticated callers may see."""
        problems: dict[str, str | None] = {}
        if self._recorder is not None:
            problems["records"] = self._recorder.problem()
        if self._revocations is not None:
            with contextlib.suppress(AccreditError):
                await self._revocations.is_revoked("")  # makes it look at the lists
            problems["revocations"] = self._revocations.problem()
        if self._key_sets is not None:
            problems["key_sets"] = self._key_sets.problem()
        if self._pinned is not None:
            changed = self._pinned.instructions_changed
            problems["instructions"] = "the server's instructions are not the pinned ones" if changed else None
        return problems

    async def _is_known(self, exchange: Exchange) -> bool:
        if self._authenticator is None:
            return False
        with contextlib.suppress(AccreditError):
            return await self._authenticator.of_header(exchange) is not None
        return False


async def _tell(exchange: Exchange, status: int, body: dict[str, Any]) -> None:
    await exchange.reply(status, to_json(body), [JSON, (b"date", formatdate(usegmt=True).encode("ascii"))])
