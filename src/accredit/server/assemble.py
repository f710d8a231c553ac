"""From what a server's author writes to a `Judge`. Reads key files and revocation lists.

This is the one module of `server` that chooses adapters (`keys`, `stores`): a guard is made by a server's author, in a
line, and there is no `app` above it that could hand them over.
"""

import logging
from collections.abc import Callable, Iterable
from pathlib import Path

from accredit.errors import ConfigurationError
from accredit.keys import load_public_key
from accredit.limits import CHALLENGE_WINDOW_SECONDS
from accredit.policy import MCP_SCOPES, Catalog, Entry, Policy, scope_fault
from accredit.ports import ProofStore
from accredit.ratify import CertificateCache, HybridPublicKey, derive_id, zone_names
from accredit.ratify.needs import clock
from accredit.server.judge import Judge
from accredit.server.requirements import entry_of
from accredit.stores import RevocationLists, open_store, store_file

_log = logging.getLogger("accredit.server")
_BINDINGS = ("optional", "required")

Root = str | Path | HybridPublicKey
"""A public key file, or a key."""


class Guard:
    """What both guards are made from. It decides nothing by itself: see `ProofGuard`."""

    def __init__(
        self,
        roots: Iterable[Root],
        gateway_id: str,
        *,
        default_tool_scope: str = "",
        binding: str = "optional",
        freshness_seconds: int = 30,
        challenge_seconds: int = 60,
        revocation_files: Iterable[str | Path] = (),
        store: str | ProofStore = "memory:",
        filter_tools: bool = True,
        clock: Callable[[], int] = clock,
    ) -> None:
        """Reads the keys and lists. Raises `ConfigurationError`.

        The arguments are the settings of the same names in `[proofs]` and `[gateway]` (contract, section 2); paths are
        relative to the working directory. `store` is a URL, or a store that somebody else closes. `clock` gives the
        time in unix seconds.
        """
        _check(gateway_id, default_tool_scope, binding)
        _check_seconds("freshness_seconds", freshness_seconds)
        _check_seconds("challenge_seconds", challenge_seconds)
        zone_names()
        pinned = _pinned(roots)
        self._default_tool = Entry(scope=default_tool_scope) if default_tool_scope else None
        policy = Policy(
            verifier_id=gateway_id,
            roots=pinned,
            catalog=Catalog(),
            vocabulary=MCP_SCOPES | ({default_tool_scope} if default_tool_scope else set[str]()),
            binding_required=binding == "required",
            freshness_seconds=freshness_seconds,
            challenge_seconds=challenge_seconds,
            cert_cache=CertificateCache(),
        )
        lists = RevocationLists(
            [Path(path) for path in revocation_files],
            {derive_id(key): key for key in pinned},
            store=store_file(store, Path()) if isinstance(store, str) else None,
            on_problem=lambda problem: _log.warning("revocation lists: %s", problem),
        )
        lists.load()
        self._owns_store = isinstance(store, str)
        self._store = open_store(store, Path()) if isinstance(store, str) else store
        self._judge = Judge(policy, self._store, lists, filter_tools=filter_tools, clock=clock)

    def entry(self, function: object) -> Entry | None:
        """What a tool that is made of this function asks for."""
        return entry_of(function) or self._default_tool

    async def aclose(self) -> None:
        """Closes the store, where a URL named it."""
        if self._owns_store:
            await self._store.aclose()


def _pinned(roots: Iterable[Root]) -> dict[HybridPublicKey, str]:
    """The keys of the principals whose delegations count, and their names."""
    if isinstance(roots, str | Path):
        raise ConfigurationError("roots is one path, and a list is asked for", f"write roots=[{str(roots)!r}]")
    pinned: dict[HybridPublicKey, str] = {}
    for root in roots:
        if isinstance(root, HybridPublicKey):
            pinned[root] = derive_id(root)
            continue
        key = load_public_key(Path(root))
        if key.kind != "human":
            raise ConfigurationError(
                f"roots: {root} is a key of kind {key.kind!r}", "name the public key of the principal who grants"
            )
        pinned[key.public_key] = key.name
    if not pinned:
        raise ConfigurationError("roots names nobody, so no proof could count", 'write roots=["owner.key.pub"]')
    return pinned


def _check(gateway_id: str, default_tool_scope: str, binding: str) -> None:
    if not gateway_id or not gateway_id.isprintable():
        raise ConfigurationError("gateway_id is no text that can be printed", 'write gateway_id="mail"')
    fault = scope_fault(default_tool_scope) if default_tool_scope else None
    if fault:
        raise ConfigurationError(f"default_tool_scope {fault}", 'write default_tool_scope="mcp:tool", or leave it out')
    if binding not in _BINDINGS:
        raise ConfigurationError(f"binding can't be {binding!r}", f"write one of {', '.join(_BINDINGS)}")


def _check_seconds(name: str, seconds: int) -> None:
    if not 1 <= seconds <= CHALLENGE_WINDOW_SECONDS:
        raise ConfigurationError(f"{name} is {seconds}", f"write 1 to {CHALLENGE_WINDOW_SECONDS}")
