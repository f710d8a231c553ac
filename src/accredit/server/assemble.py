"""Builds a `Judge` from a server author's arguments. Reads key files and revocation lists.

This is the only module of `server` that chooses adapters (`keys`, `net`, `stores`). A server's author makes a guard in
one line, so there is no `app` above it that could pass them in.
"""

import logging
import os
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from accredit.base.clock import unix_seconds
from accredit.base.text import one_line
from accredit.errors import ConfigurationError
from accredit.keys import load_key_set, load_root
from accredit.limits import CHALLENGE_WINDOW_SECONDS
from accredit.net import IssuerKeys
from accredit.net.fetch import check_url
from accredit.net.registries import Registries, Registry
from accredit.policy.catalog import MCP_SCOPES, Catalog, Entry, scope_fault
from accredit.policy.decision import Policy
from accredit.policy.evaluators import with_own
from accredit.policy.guarded_call import may_guard
from accredit.ports import ProofStore
from accredit.ratify import CertificateCache, Evaluator, HybridPublicKey, derive_id, zone_names
from accredit.server.arguments import Read
from accredit.server.gate import Gate
from accredit.server.judge import Judge, Proofs, TargetInfo, find_plain
from accredit.server.requirements import entry_of, hides_requirement
from accredit.server.tokens import TokenRules, Tokens, TrustedIssuer
from accredit.stores import InMemory, StoreUrl, open_revocations, parse_store_url
from accredit.tokens.carried import declares_token
from accredit.tokens.discovery import can_be_asked
from accredit.tokens.introspection import Introspection
from accredit.tokens.key_sets import KeySet
from accredit.tokens.verify import Issuer

_log = logging.getLogger("accredit.server")
_BINDINGS = ("optional", "required")
_T = TypeVar("_T")

_Root = str | Path | HybridPublicKey
"""A public key, or the path of its file."""


class GuardFileError(ConfigurationError, SystemExit):
    """A key file of a guard can't be used. A server can handle this error as a `ConfigurationError`. If it does not,
    Python prints one line without a traceback, as for a `SystemExit`."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what, remedy)
        self.code = f"accredit: {one_line(what)}: {one_line(remedy)}"


class Guard:
    """The code that the guards for both SDKs share. It decides nothing by itself: see `ProofGuard`."""

    def __init__(
        self,
        roots: Iterable[_Root] | None,
        gateway_id: str,
        *,
        default_tool_scope: str = "",
        binding: str = "optional",
        freshness_seconds: int = 30,
        challenge_seconds: int = 60,
        revocation_files: Iterable[str | Path] = (),
        store: str | ProofStore = "memory:",
        filter_tools: bool = True,
        tokens: TokenRules | None = None,
        methods: Iterable[str] = (),
        constraint_evaluators: Mapping[str, Evaluator] | None = None,
        registries: Mapping[str, Iterable[_Root]] | None = None,
        clock: Callable[[], int] = unix_seconds,
    ) -> None:
        """Read the keys and lists. Raises `ConfigurationError`.

        The arguments are the settings of the same names in `[proofs]` and `[gateway]`; paths are relative to the
        working directory. If `roots` is None, proofs are not judged, only `tokens`. `store` is a URL, or a store that
        its owner closes. `methods` are the server's own methods that pass without a decision. `constraint_evaluators`
        has the evaluators of constraints that extensions define, by type. `registries` maps the URLs of registries to
        the keys that are pinned there: a key that has replaced one of them is a root. `clock` returns unix seconds.
        """
        _check(gateway_id, default_tool_scope, binding)
        _check_seconds(freshness_seconds=freshness_seconds, challenge_seconds=challenge_seconds)
        _check_list("revocation_files", revocation_files)
        zone_names()
        self._default_tool = Entry(scope=default_tool_scope) if default_tool_scope else None
        self.scoped_tools = frozenset(tokens.tool_scopes if tokens is not None else ())
        self._tokens = _tokens(tokens, clock, proofs=roots is not None) if tokens is not None else None
        if roots is None:
            _check_judges(self._tokens, registries)
            self._owned_store = None
            self._judge = Judge(None, self._tokens, clock, _check_methods(methods))
            return
        pinned = _load_roots(roots, needed=not registries)
        asked = _load_registries(registries or {}, pinned)
        policy = Policy(
            verifier_id=gateway_id,
            roots=pinned,
            catalog=Catalog(own_tools={}),
            vocabulary=MCP_SCOPES | ({default_tool_scope} if default_tool_scope else set[str]()),
            binding_required=binding == "required",
            freshness_seconds=freshness_seconds,
            challenge_seconds=challenge_seconds,
            bind_agent=tokens is not None and tokens.bind_agent,
            cert_cache=CertificateCache(),
            constraint_evaluators=with_own(constraint_evaluators or {}),
            find_root=Registries(asked).name if asked else None,
        )
        url = _store_url(store)
        keys = {derive_id(key): key for known in (pinned, *(each.pins for each in asked)) for key in known}
        url.check_tables()
        opened = url.open(clock()) if isinstance(store, str) else store
        lists = open_revocations(url, opened, [Path(path) for path in revocation_files], keys, _report)
        self._owned_store = opened if isinstance(store, str) else None
        self._judge = Judge(Proofs(policy, opened, lists, filter_tools), self._tokens, clock, _check_methods(methods))

    def found(self, name: str, function: object, input_schema: Mapping[str, Any], read: Read | None) -> TargetInfo:
        """Return a tool and the requirement of its function. `function` is None if the tool is not made from a
        function."""
        entry = written = None
        if function is not None and not hides_requirement(function):
            written = entry_of(function)
            entry = written or self._default_tool
        declares = self._tokens is not None and declares_token(msgspec.json.encode(input_schema))
        return TargetInfo(name, entry, declares, read, written is not None)

    def found_other(self, method: str, name: str, function: object) -> TargetInfo:
        """Return the facts of a resource or prompt, with the requirement of the function behind it (None: there is no
        function)."""
        if function is None or hides_requirement(function):
            return TargetInfo(name)
        entry = entry_of(function)
        return TargetInfo(name, entry, written=True) if entry is not None else find_plain(method, name)

    def warn_of_open_tools(self, tools: Iterable[tuple[str, object, Mapping[str, Any] | None]]) -> None:
        """Log which of these functions are tools that no proof can allow, as they have no requirement. Each comes with
        its name and, for a tool, its schema."""
        for name, function, schema in tools:
            if schema is not None and self.found(name, function, {}, None).entry is None:
                self._judge.warn_of_open_tool(name)

    def gate_in(self, middleware: Iterable[object]) -> Gate | None:
        """Return this guard's gate if it is among a server's middleware, or None."""
        return next((each for each in middleware if isinstance(each, Gate) and each.judge is self._judge), None)

    async def aclose(self) -> None:
        """Close the store, if it was opened from a URL, and cancel all fetches."""
        if self._owned_store is not None:
            await self._owned_store.aclose()
        if self._tokens is not None:
            await self._tokens.aclose()


def _report(problem: str) -> None:
    _log.warning("revocation lists: %s", problem)


def _tokens(rules: TokenRules, clock: Callable[[], int], *, proofs: bool) -> Tokens:
    if not rules.issuers:
        raise ConfigurationError("tokens names no issuer: nobody's tokens would count", "name one: TrustedIssuer(...)")
    _check_said(required=rules.required, bind_agent=rules.bind_agent)
    if rules.bind_agent and not (rules.required and proofs):
        raise ConfigurationError(
            "bind_agent ties each call's token to its proof, and a call may come without one of them",
            "give roots and leave required, or leave out bind_agent",
        )
    for tool, scope in rules.tool_scopes.items():
        if not isinstance(scope, str) or scope.split() != [scope]:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(
                f"tool_scopes: {scope!r} of {tool!r} is no scope", f'write tool_scopes={{{tool!r}: "mail:send"}}'
            )
    for issuer in rules.issuers:
        _check_list("algorithms", issuer.algorithms)
        _check_list("required_scopes", issuer.required_scopes)
    issuers = [
        Issuer(
            each.issuer,
            each.audience,
            tuple(each.algorithms),
            tuple(each.required_scopes),
            introspection=_introspection(each),
        )
        for each in rules.issuers
    ]
    keys = IssuerKeys({each.issuer: _keys(each) for each in rules.issuers})
    return Tokens(issuers, keys, rules.tool_scopes, required=rules.required, clock=clock)


def _introspection(issuer: TrustedIssuer) -> Introspection | None:
    url, client_id = issuer.introspection_url, issuer.introspection_client_id
    secret = issuer.introspection_client_secret
    if url is client_id is secret is None:
        return None
    if not (url and client_id and secret):
        raise ConfigurationError(
            f"who asks {issuer.issuer} about tokens says who asks",
            "give introspection_url, introspection_client_id and introspection_client_secret together, or none of them",
        )
    check_url("introspection_url", url, "the client's secret would go there in the clear")
    return Introspection(url, client_id, secret)


def _keys(issuer: TrustedIssuer) -> KeySet | str | None:
    if issuer.key_file is None and (issuer.jwks_url is not None or can_be_asked(issuer.issuer)):
        return issuer.jwks_url
    if issuer.key_file is None and issuer.introspection_url is not None:
        return KeySet((), b"")
    if issuer.key_file is not None and issuer.jwks_url is None:
        return _read(Path(issuer.key_file), load_key_set)
    raise ConfigurationError(f"the keys of {issuer.issuer} are in one place", "give one of jwks_url and key_file")


def _read(path: Path, read: Callable[[Path], _T]) -> _T:
    """Return what a key file holds. Raises `GuardFileError`."""
    if not os.path.lexists(path):
        private = shlex.quote(str(path).removesuffix(".pub"))
        make = f"make one with `accredit keys new {private} --kind human`" if read is load_root else "make one"
        raise GuardFileError(
            f"can't read {path}: there is no file {path.absolute()}",
            f"put the public key there, or {make}, or correct the path",
        )
    try:
        return read(path)
    except ConfigurationError as error:
        raise GuardFileError(error.what, error.remedy) from None


def _load_roots(roots: Iterable[_Root], name: str = "roots", *, needed: bool = True) -> dict[HybridPublicKey, str]:
    """Return the public keys of the trusted principals, with their names."""
    _check_list(name, roots)
    pinned: dict[HybridPublicKey, str] = {}
    for root in roots:
        if isinstance(root, HybridPublicKey):
            pinned[root] = derive_id(root)
            continue
        key = _read(Path(root), load_root)
        pinned[key.public_key] = key.name
    if not pinned and needed:
        raise ConfigurationError(f"{name} names nobody, so no proof could count", 'name a key: ["owner.key.pub"]')
    return pinned


def _load_registries(registries: Mapping[str, Iterable[_Root]], roots: Mapping[HybridPublicKey, str]) -> list[Registry]:
    """Return the registries with their pinned keys. None of these keys may be in `roots` as well: otherwise it would
    still be a root after it was replaced."""
    found = [Registry(url, _load_roots(pins, f"registries[{url!r}]")) for url, pins in registries.items()]
    for name in (name for each in found for key, name in each.pins.items() if key in roots):
        raise ConfigurationError(f"{one_line(name)} is in registries and in roots", "take it out of roots")
    return found


def _check_judges(tokens: Tokens | None, registries: object) -> None:
    if tokens is None or registries:
        raise ConfigurationError("nothing would be judged: neither proofs nor tokens", 'write roots=["owner.key.pub"]')


def _check(gateway_id: str, default_tool_scope: str, binding: str) -> None:
    if not gateway_id or not gateway_id.isprintable():
        raise ConfigurationError("gateway_id is no text that can be printed", 'write gateway_id="mail"')
    fault = scope_fault(default_tool_scope) if default_tool_scope else None
    if fault:
        raise ConfigurationError(f"default_tool_scope {fault}", 'write default_tool_scope="mcp:tool", or leave it out')
    if binding not in _BINDINGS:
        raise ConfigurationError(f"binding can't be {binding!r}", f"write one of {', '.join(_BINDINGS)}")


def _check_methods(methods: Iterable[str]) -> frozenset[str]:
    _check_list("methods", methods)
    named = frozenset(methods)
    guarded = next((method for method in named if may_guard(method)), None)
    if guarded is not None:
        raise ConfigurationError(
            f"methods names {guarded!a}, which is decided, or could be taken for what is", "leave it out"
        )
    return named


def _check_list(name: str, given: object) -> None:
    if isinstance(given, str | Path):
        raise ConfigurationError(f"{name} is one text, and a list is asked for", f"write {name}=[{str(given)!r}]")


def _store_url(store: object) -> StoreUrl:
    # None is the result of a failed lookup. With it, or with a path, each call would fail.
    if store is None or isinstance(store, Path):
        raise ConfigurationError(f"store is {store!r}, no URL", 'write store="sqlite:///proofs.db", or leave it out')
    return parse_store_url(store, Path()) if isinstance(store, str) else InMemory()


def _check_said(**named: bool) -> None:
    # None, the result of a failed lookup, would require nothing.
    for name, said in named.items():
        if not isinstance(said, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"{name} is {said!r}", f"write {name}=True or {name}=False")


def _check_seconds(**named: int) -> None:
    for name, seconds in named.items():
        if not 1 <= seconds <= CHALLENGE_WINDOW_SECONDS:
            raise ConfigurationError(f"{name} is {seconds}", f"write 1 to {CHALLENGE_WINDOW_SECONDS}")


def check_scoped(missing: Collection[str]) -> None:
    """Check that `missing`, the tools that `tool_scopes` names but the server lacks, is empty. Raises
    `ConfigurationError`."""
    if missing:
        raise ConfigurationError(f"tool_scopes names {min(missing)!a}, and there is no such tool", "name a tool")


def check_requirements(functions: Iterable[tuple[str, object, Mapping[str, Any] | None]]) -> None:
    """Check that none of these functions hides a requirement, and that a tool's schema has the arguments that its facts
    name. Each function comes with its name and, for a tool, its schema. Raises `ConfigurationError`."""
    for name, function, schema in functions:
        entry = entry_of(function)
        missing = (
            entry.facts.arguments.difference(schema.get("properties", ())) if entry and schema is not None else None
        )
        if missing:
            raise ConfigurationError(
                f"{name!a} takes a fact from {min(missing)!a}, which is none of the arguments that it lists",
                "point facts at an argument by the name that clients see",
            )
        if hides_requirement(function):
            raise ConfigurationError(
                f"{name!a} has no requirement, and is made of what holds one with a requirement, or overrides one",
                "put @require beside @mcp.tool(), over all other decorators",
            )
