"""Asks one issuer about tokens that are not JWTs, when needed, and remembers its answers for a moment. I/O: the
network.

A token is looked up in this order:

- [remembered] An answer is valid for `INTROSPECTED_SECONDS`, and never beyond the token's `exp`. So is a refusal.
  Answers are kept by the token's SHA-256. Refusals are kept apart, so that no flood of invented tokens displaces good
  answers.
- [pause] If the issuer could not be reached a moment ago, it is not asked again yet.
- [bound] The number of concurrent questions is bounded. If there are too many, `KeysUnavailable` is raised.
- [strangers] Questions about tokens that are not yet known as good have a budget, and only a part of the room. So
  invented tokens can neither flood the issuer nor delay callers with known tokens.
- [one-question] There is one question at a time about a token. All callers with that token wait for it, and it
  continues if one leaves.
- [no-answer] Without an answer in time, `KeysUnavailable` is raised: an expired answer is never used.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable
from hashlib import sha256
from typing import NamedTuple

from accredit.base.budget import Budget
from accredit.base.caching import RecentlyUsed
from accredit.base.clock import unix_seconds
from accredit.errors import AccessTokenError, InvalidToken, KeysUnavailable
from accredit.limits import MAX_CACHED_TOKENS
from accredit.net.fetch import check_url
from accredit.net.token_endpoint import Unreachable, post_form
from accredit.tokens.claims import Claims
from accredit.tokens.introspection import INTROSPECTED_SECONDS, Introspection, question, read_introspection

INTROSPECTION_SECONDS = 5.0
"""How long an issuer may take to answer about a token. The caller's request waits for it."""
INTROSPECTION_RETRY_SECONDS = 2
"""How long to wait before an issuer that could not be reached is asked again."""
MAX_INTROSPECTIONS = 32
"""How many questions about tokens an issuer is asked at one time."""
RESERVED_INTROSPECTIONS = 8
"""How many of these are reserved for tokens that are known as good. So their callers don't wait behind strangers for a
slow issuer."""
UNKNOWN_TOKENS = 200
"""How many questions about tokens not yet known as good are allowed in a burst, such as after a restart."""
UNKNOWN_TOKENS_PER_SECOND = 50.0
"""How many more of these questions are allowed each second. An issuer answers hundreds; a flood of invented tokens must
not reach it."""

_log = logging.getLogger("accredit.net")


class _Good(NamedTuple):
    claims: Claims
    until: float


class _Bad(NamedTuple):
    reason: str
    until: float


class _NoAnswer(NamedTuple):
    retry_after: int


class Introspections:
    """The answers of one issuer. `clock` returns seconds."""

    def __init__(self, issuer: str, introspection: Introspection, clock: Callable[[], float] = time.monotonic) -> None:
        """Raises `ConfigurationError` for a URL to which the secret must not be sent."""
        what = "the client's secret would go there in the clear"
        check_url("tokens.issuers.introspection_url", introspection.url, what)
        self._issuer = issuer
        self.introspection = introspection
        self._clock = clock
        self._good = RecentlyUsed[bytes, _Good](MAX_CACHED_TOKENS)
        self._bad = RecentlyUsed[bytes, _Bad](MAX_CACHED_TOKENS)
        self._asking: dict[bytes, asyncio.Task[_Good | _Bad | _NoAnswer]] = {}
        self._strangers = Budget(UNKNOWN_TOKENS, UNKNOWN_TOKENS_PER_SECOND, clock)
        self._retry_at = -math.inf
        self.fault = ""

    async def claims(self, text: str) -> Claims:
        """Return the claims that the issuer gives for a token ([remembered] to [no-answer]). Raises `InvalidToken` and
        `KeysUnavailable`."""
        key = sha256(text.encode("ascii")).digest()
        found = self._known(key)
        if found is None:
            task = self._asking.get(key) or self._begin(key, text)
            await asyncio.wait([task])  # unlike `await`, no cancelled caller cancels the question
            found = _NoAnswer(INTROSPECTION_RETRY_SECONDS) if task.cancelled() else task.result()
        match found:
            case _Good(claims):
                return claims
            case _Bad(reason):
                raise InvalidToken(reason)
            case _NoAnswer(retry_after):
                raise KeysUnavailable(f"no answer about a token of {self._issuer}: {self.fault}", retry_after)

    async def aclose(self) -> None:
        """Cancel all questions."""
        for task in list(self._asking.values()):
            task.cancel()
        await asyncio.gather(*self._asking.values(), return_exceptions=True)

    def _known(self, key: bytes) -> _Good | _Bad | None:
        now = self._clock()
        found = self._good.get(key) or self._bad.get(key)
        return found if found is not None and now < found.until else None

    def _begin(self, key: bytes, text: str) -> asyncio.Task[_Good | _Bad | _NoAnswer]:
        """Begin a question. Raises `KeysUnavailable` ([pause] to [strangers])."""
        now, known = self._clock(), key in self._good
        if now < self._retry_at:
            retry_after = max(1, math.ceil(self._retry_at - now))
            raise KeysUnavailable(f"no answer about a token of {self._issuer}: {self.fault}", retry_after)
        room = MAX_INTROSPECTIONS - (0 if known else RESERVED_INTROSPECTIONS)
        if len(self._asking) >= room or not (known or self._strangers.take()):
            raise KeysUnavailable(f"too many tokens to ask {self._issuer} about", INTROSPECTION_RETRY_SECONDS)
        task = self._asking[key] = asyncio.create_task(self._ask(key, text))
        return task

    async def _ask(self, key: bytes, text: str) -> _Good | _Bad | _NoAnswer:
        try:
            async with asyncio.timeout(INTROSPECTION_SECONDS):
                body = await post_form(self.introspection.url, self.introspection.authorization, question(text))
            now, until = unix_seconds(), self._clock() + INTROSPECTED_SECONDS
            try:
                claims = read_introspection(body, self._issuer, now)
            except InvalidToken as error:
                self._good.forget(key)
                found = _Bad(error.reason, until)
                self._bad.put(key, found)
            else:
                self._bad.forget(key)
                found = _Good(claims, min(until, self._clock() + claims.exp - now))
                self._good.put(key, found)
        except (AccessTokenError, TimeoutError) as error:
            self.fault = str(error) or f"no answer within {INTROSPECTION_SECONDS:g} s"
            _log.warning("no answer about a token of %s: %s", self._issuer, self.fault)
            if isinstance(error, Unreachable):
                self._retry_at = self._clock() + INTROSPECTION_RETRY_SECONDS
            return _NoAnswer(INTROSPECTION_RETRY_SECONDS)
        else:
            self.fault = ""
            return found
        finally:
            self._asking.pop(key, None)
