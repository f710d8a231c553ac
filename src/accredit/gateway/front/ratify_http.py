"""Ratify's HTTP binding (SPEC section 13): challenges, verification, lists and scopes, by `policy.http_binding`.

- [route] There are four paths, each with one method: 404, 405. No credential is asked for.
- [rate] Challenges are issued, and proofs verified, at bounded rates: beyond these, 429.
- [pending] Only so many challenges may be unexpired at once: 503. Those that were used count until they expire.
- [verdict] A proof that does not verify is 200 with the result, and a request that can't be read is 400. If no decision
  is possible, that is 503.
- [lists] A revocation list is returned exactly as its issuer signed it. An unknown issuer, or one without a list, is
  404.

All bounds are for each process.
"""

import re
from base64 import b64encode
from collections import deque
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Protocol

from msgspec.structs import replace

from accredit.base.budget import Budget
from accredit.base.clock import unix_seconds
from accredit.errors import AccreditError, ConfigurationError, RequestError, WireError
from accredit.gateway.front.exchange import Exchange
from accredit.gateway.headers import JSON
from accredit.jsonrpc.encode import INTERNAL_ERROR, to_json
from accredit.limits import CHALLENGE_WINDOW_SECONDS
from accredit.policy.decision import Policy, drive
from accredit.policy.http_binding import (
    MAX_VERIFY_BYTES,
    REQUEST_HASH,
    read_verify,
    result_members,
    scope_members,
    verify_steps,
)
from accredit.ports import ProofStore, Revocations

CHALLENGES = 500
"""How many challenges of the HTTP binding are issued in a burst."""
CHALLENGES_PER_SECOND = 200.0
"""How many challenges of the HTTP binding the gateway gives per second, after a burst. All callers share this rate. It
is far above what honest ones need, as a challenge costs some microseconds, and none is stored."""
MAX_PENDING_HTTP_CHALLENGES = 100_000
"""How many challenges of the HTTP binding may be valid at once. The full rate gives fewer in the 300 seconds that each
lasts, so a stranger can't use them up for others. Only the time at which each ends is kept, some 3 MB."""
VERIFICATIONS = 200
"""How many proofs the HTTP binding verifies in a burst. Each takes a millisecond or two, during which no call is
served."""
VERIFICATIONS_PER_SECOND = 100.0
"""How many more proofs it verifies each second."""
RETRY_SECONDS = 1
"""The seconds in `Retry-After` if a rate was exceeded."""

PREFIX = "/v1/ratify/"
_LIST = re.compile(r"/v1/ratify/revocations/([0-9a-f]{32})")
_METHODS = {f"{PREFIX}challenge": "POST", f"{PREFIX}verify": "POST", f"{PREFIX}scopes": "GET"}


class Ports(Protocol):
    """The ports that the binding asks."""

    @property
    def store(self) -> ProofStore | None:
        """Where challenges are issued and spent."""
        ...

    @property
    def revocations(self) -> Revocations | None:
        """Where revocations are looked up."""
        ...


class RatifyHttp:
    """Serves the binding for a gateway. It is made anew at a reload, with the budgets of the one `before`."""

    def __init__(
        self,
        policies: Sequence[Policy],
        ports: Ports,
        before: "RatifyHttp | None" = None,
        *,
        max_pending: int = MAX_PENDING_HTTP_CHALLENGES,
    ) -> None:
        """`policies` are those of all servers; they differ only in their scopes. Raises `ConfigurationError` if proofs
        are not judged."""
        if not policies or ports.store is None or ports.revocations is None:
            raise ConfigurationError(
                "ratify_http is enabled, and proofs are not required: there is nothing to verify them by",
                'set proofs.mode = "required"',
            )
        vocabulary = frozenset[str]().union(*(each.vocabulary for each in policies))
        self._policy = replace(policies[0], vocabulary=vocabulary)
        self._store = ports.store
        self._revocations = ports.revocations
        self._max_pending = max_pending
        self._pending: deque[float] = before._pending if before is not None else deque()
        self._challenges = before._challenges if before is not None else Budget(CHALLENGES, CHALLENGES_PER_SECOND)
        self._proofs = before._proofs if before is not None else Budget(VERIFICATIONS, VERIFICATIONS_PER_SECOND)

    async def serve(self, exchange: Exchange, path: str) -> None:
        """Answer a request below `PREFIX`. Its host and origin have been checked. Raises `RequestError`."""
        named = _LIST.fullmatch(path)
        method = "GET" if named is not None else _METHODS.get(path)
        if method is None:
            await _reply(exchange, 404, {})
        elif exchange.head.method != method:
            await _reply(exchange, 405, {"error": f"use {method}"}, ((b"allow", method.encode("ascii")),))
        elif named is not None:
            await self._revocation_list(exchange, named[1])
        elif path.endswith("scopes"):
            await _reply(exchange, 200, scope_members(self._policy))
        elif path.endswith("challenge"):
            await self._challenge(exchange)
        else:
            await self._verify(exchange)

    async def _challenge(self, exchange: Exchange) -> None:
        await exchange.body(MAX_VERIFY_BYTES)
        now = monotonic()
        while self._pending and self._pending[0] <= now:
            self._pending.popleft()
        if len(self._pending) >= self._max_pending:
            await _busy(exchange, 503, "too many challenges are pending")
            return
        if not self._challenges.take():
            await _busy(exchange, 429, "too many challenges were asked for")
            return
        self._pending.append(now + CHALLENGE_WINDOW_SECONDS)
        issued = await self._store.issue(REQUEST_HASH, expires_at=unix_seconds() + CHALLENGE_WINDOW_SECONDS)
        members = {
            "challenge": b64encode(issued.challenge).decode("ascii"),
            "expires_at": issued.expires_at,
            "ttl_seconds": CHALLENGE_WINDOW_SECONDS,
        }
        await _reply(exchange, 200, members)

    async def _verify(self, exchange: Exchange) -> None:
        body = await exchange.body(MAX_VERIFY_BYTES)
        if not self._proofs.take():
            await _busy(exchange, 429, "too many proofs were brought")
            return
        try:
            bundle, required_scope = read_verify(body)
        except WireError as error:
            await _reply(exchange, 400, {"error": str(error)})
            return
        now = unix_seconds()
        steps = verify_steps(bundle, required_scope, self._policy, now)
        try:
            result = await drive(steps, self._store, self._revocations, now)
        except AccreditError:
            detail = "The proof can't be verified for now"
            raise RequestError(INTERNAL_ERROR, detail, status=503, retry_after=RETRY_SECONDS) from None
        await _reply(exchange, 200, result_members(result))

    async def _revocation_list(self, exchange: Exchange, root_id: str) -> None:
        text = await self._revocations.list_of(root_id)
        if text is None:
            await _reply(exchange, 404, {})
        else:
            await exchange.reply(200, text, [JSON, _NO_STORE])


_NO_STORE = (b"cache-control", b"no-store")


async def _reply(
    exchange: Exchange, status: int, members: Mapping[str, object], headers: tuple[tuple[bytes, bytes], ...] = ()
) -> None:
    await exchange.reply(status, to_json(members), [JSON, _NO_STORE, *headers])


async def _busy(exchange: Exchange, status: int, why: str) -> None:
    await _reply(exchange, status, {"error": why}, ((b"retry-after", b"%d" % RETRY_SECONDS),))
