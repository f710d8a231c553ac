"""Asks registries, when needed, whether a key is a root: whether it has replaced a pinned key. I/O: the network.

A key is looked up in this order. In any doubt, it is not a root:

- [replaced] A key can sign a statement that another key replaces it. Once we have seen one, the key is not a root,
  whatever a registry says.
- [remembered] A registry's answer is valid for `REGISTRY_SECONDS`, and is compared with the pins each time. An answer
  that a key is not a root, or no answer, is remembered for `REGISTRY_RETRY_SECONDS`. Good answers are kept apart, so
  that no flood of invented keys displaces them.
- [bound] The number of concurrent questions is bounded.
- [strangers] Questions about keys that are neither pinned nor known as good have a budget, and only a part of the room:
  the caller is not authenticated yet, and anybody can make keys.
- [one-question] There is one question at a time about a key. All callers with that key wait for it, and it continues if
  one leaves.
- [question] The question holds the key's id, 32 hex digits. It goes over https, on loopback as well, without redirects.
  The answer has at most 1 MiB, comes within `REGISTRY_ANSWER_SECONDS`, and proves the chain of replacements
  (`ratify.extras.registry`).
- [away] Without an answer, no key is a root. Not even the pinned key is: it may have been replaced.
"""

import asyncio
import logging
import math
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from accredit.base.budget import Budget
from accredit.base.caching import RecentlyUsed
from accredit.errors import KeySetError, WireError
from accredit.net.fetch import check_url, fetch
from accredit.ratify import HybridPublicKey
from accredit.ratify.extras.registry import MAX_REGISTRY_BYTES, RegistryAnswer, succession

REGISTRY_SECONDS = 300.0
"""How long a registry's answer is valid. So long a key that was replaced may still be accepted."""
REGISTRY_RETRY_SECONDS = 5.0
"""How long to wait before a registry is asked again about a key that was not a root, or about which it did not answer.
"""
REGISTRY_ANSWER_SECONDS = 5.0
"""How long a registry may take to answer. The caller's request waits for it."""
MAX_REGISTRY_QUESTIONS = 16
"""How many questions a registry is asked at one time."""
RESERVED_REGISTRY_QUESTIONS = 4
"""How many of these are reserved for keys that are pinned or known as good."""
UNKNOWN_ROOTS = 20
"""How many questions about other keys are allowed in a burst, such as after a restart."""
UNKNOWN_ROOTS_PER_SECOND = 2.0
"""How many more of these questions are allowed each second. People replace their keys once in months."""
MAX_REMEMBERED_ROOTS = 1_024
"""How many answers of each kind are remembered."""

_log = logging.getLogger("accredit.net")
_Keys = tuple[HybridPublicKey, ...]


class Registry(NamedTuple):
    """A registry: its base URL, the pinned keys with their owners' names, and the authorities that may have issued its
    certificate (None: those that this machine trusts)."""

    url: str
    pins: Mapping[HybridPublicKey, str]
    trust: ssl.SSLContext | None = None


class Registries:
    """All registries. `clock` returns seconds."""

    def __init__(self, registries: Sequence[Registry], clock: Callable[[], float] = time.monotonic) -> None:
        """Raises `ConfigurationError` for a URL that must not be asked."""
        self._replaced = RecentlyUsed[HybridPublicKey, bool](MAX_REMEMBERED_ROOTS)
        self._asked = [_Asked(index, each, self._replaced, clock) for index, each in enumerate(registries)]

    async def name(self, key: HybridPublicKey) -> str | None:
        """Return the name of the person whose root this key is, or None if it is not a root ([replaced] to [away])."""
        for asked in self._asked:
            name = None if key in self._replaced else await asked.name(key)
            if name is not None and key not in self._replaced:
                return name
        return None

    async def aclose(self) -> None:
        """Cancel all questions."""
        for asked in self._asked:
            await asked.aclose()


class _Asked:
    def __init__(
        self,
        index: int,
        registry: Registry,
        replaced: RecentlyUsed[HybridPublicKey, bool],
        clock: Callable[[], float],
    ) -> None:
        why = "what comes in the clear can be anybody's"
        check_url(f"proofs.registries[{index}].url", registry.url, why, clear_on_loopback=False)
        self._registry = registry
        self._replaced = replaced
        self._clock = clock
        self._good = RecentlyUsed[HybridPublicKey, tuple[_Keys, float]](MAX_REMEMBERED_ROOTS)
        self._bad = RecentlyUsed[str, float](MAX_REMEMBERED_ROOTS)
        self._asking: dict[HybridPublicKey, asyncio.Task[None]] = {}
        self._strangers = Budget(UNKNOWN_ROOTS, UNKNOWN_ROOTS_PER_SECOND, clock)

    async def name(self, key: HybridPublicKey) -> str | None:
        name = self._known(key)
        if name is None:
            task = self._asking.get(key) or self._begin(key)
            if task is not None:
                await asyncio.wait([task])  # unlike `await`, no cancelled caller cancels the question
            name = self._known(key)
        return name

    async def aclose(self) -> None:
        for task in list(self._asking.values()):
            task.cancel()
        await asyncio.gather(*self._asking.values(), return_exceptions=True)

    def _known(self, key: HybridPublicKey) -> str | None:
        keys, until = self._good.get(key) or ((), -math.inf)
        if self._clock() >= until:
            return None
        return next((self._registry.pins[each] for each in keys if each in self._registry.pins), None)

    def _begin(self, key: HybridPublicKey) -> asyncio.Task[None] | None:
        """Begin a question. Return None if none may be asked now ([remembered] to [strangers])."""
        if self._clock() < (self._bad.get(key.id) or -math.inf):
            return None
        known = key in self._registry.pins or key in self._good
        room = MAX_REGISTRY_QUESTIONS - (0 if known else RESERVED_REGISTRY_QUESTIONS)
        if len(self._asking) >= room or not (known or self._strangers.take()):
            return None
        task = self._asking[key] = asyncio.create_task(self._ask(key))
        return task

    async def _ask(self, key: HybridPublicKey) -> None:
        url = f"{self._registry.url.rstrip('/')}/v1/registry/principals/{key.id}"
        try:
            body = await fetch(
                url,
                max_bytes=MAX_REGISTRY_BYTES,
                timeout=REGISTRY_ANSWER_SECONDS,
                redirects=0,
                context=self._registry.trust,
            )
            keys = succession(RegistryAnswer.decode(body), key, self._registry.pins.keys())
        except (KeySetError, WireError) as error:
            self._bad.put(key.id, self._clock() + REGISTRY_RETRY_SECONDS)
            _log.warning("%s is no root by %s: %s", key.id, self._registry.url, error)
        else:
            for each in keys[:-1]:
                self._replaced.put(each, True)
            self._good.put(key, (keys, self._clock() + REGISTRY_SECONDS))
        finally:
            self._asking.pop(key, None)
