"""One server's decisions (`policy.decide`), and the authority of the running call.

Awaits the store and the revocation lists; no I/O of its own. Where proofs are not judged, the token alone decides; it
was verified before (`tokens`).
"""

import contextlib
import logging
from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import NamedTuple, cast

from msgspec.structs import replace

from accredit.base.text import excerpt
from accredit.errors import AccreditError, FrameError
from accredit.jsonrpc.methods import TARGET_MEMBER, TASKS, is_known
from accredit.policy import refusals
from accredit.policy.catalog import Catalog, Entry
from accredit.policy.decide import decide
from accredit.policy.decision import Authority, Policy, drive
from accredit.policy.guarded_call import GuardedCall, guarded_call_from_values
from accredit.policy.lists import ListView
from accredit.policy.within import check_given, check_within
from accredit.ports import ProofStore, Revocations
from accredit.server.arguments import Read
from accredit.server.requirements import mark_judged, named_scopes
from accredit.server.tokens import Tokens
from accredit.tokens.claims import VerifiedToken

MAX_OPEN_TOOLS = 100
"""For how many tools without a requirement a guard logs a warning. A client may call tools of a low-level server by any
name."""

_PLAIN = Catalog(own_tools={})

_log = logging.getLogger("accredit.server")


class Proofs(NamedTuple):
    """How proofs are judged. The policy's catalog holds no tools: a tool's requirement is found together with the
    tool."""

    policy: Policy
    store: ProofStore
    revocations: Revocations
    filter_tools: bool


class TargetInfo(NamedTuple):
    """A server's target: its listed name ("": it does not exist), and its requirement (None if no proof could allow
    it). Also says whether it declares `_token` itself, which function reads its arguments (None: they reach it
    unchanged), and whether its author wrote the requirement beside it."""

    name: str = ""
    entry: Entry | None = None
    takes_token: bool = False
    read: Read | None = None
    written: bool = False


def find_plain(method: str, target: str) -> TargetInfo:
    """Return the facts of a resource or prompt without a requirement of its own, whether or not it exists."""
    return TargetInfo(target, _PLAIN.find(method, target))


class Allowed(NamedTuple):
    """An allowed call, or an allowed list request: its authority (None for a list without a proof), its token, and its
    target."""

    call: GuardedCall
    authority: Authority | None = None
    token: VerifiedToken | None = None
    found: TargetInfo = TargetInfo()

    def is_for(self, method: str, target: str, arguments: object) -> bool:
        """Return whether exactly this call was allowed. Missing arguments count as empty ones."""
        call = self.call
        return (call.method, call.target, call.arguments or {}) == (method, target, arguments or {})


class Judge:
    """The parts of a guard that decide. If a part is None, its checks are not made. `clock` returns unix seconds.

    `methods` are methods that are not MCP's, but pass where proofs or tokens are required.
    """

    def __init__(
        self,
        proofs: Proofs | None,
        tokens: Tokens | None,
        clock: Callable[[], int],
        methods: Collection[str] = (),
    ) -> None:
        self._proofs = proofs
        self.tokens = tokens
        self._clock = clock
        self._methods = methods
        self._open_tools: set[str] = set()

    def names(self, method: str, revision: str) -> bool:
        """Return whether a method is known in this revision of MCP, and so may pass or be decided."""
        required = self._proofs is not None or (self.tokens is not None and self.tokens.required)
        if method in TASKS:
            return not required  # only the gateway stores the owners of tasks
        return not required or is_known(method, revision) or method in self._methods

    async def decide(self, call: GuardedCall, found: TargetInfo, token: VerifiedToken | None) -> Allowed:
        """Decide on one call of the found target. Raises the refusal.

        Raises `FrameError` for params that no proof can be bound to.
        """
        self._check_found(call, found, token)
        if self._proofs is None:
            return Allowed(call, None, token, found)
        now = self._clock()
        _, store, revocations, _ = self._proofs
        policy = _policy(self._proofs, call, found)
        decision = await drive(decide(call, policy, now, token), store, revocations, now)
        if isinstance(decision.fault, FrameError):  # the params have no digest
            raise decision.fault
        if decision.fault is not None:
            _log.warning("a call was refused: %s", _error_text(decision.fault))
        if decision.refusal is not None:
            raise decision.refusal
        _check_given(call, found, decision.authority, policy, now)
        return Allowed(call, decision.authority, token, found)

    def enters(self, method: str, target: str, arguments: object) -> bool:
        """Return whether a request that reaches the server's functions is the allowed call itself. That is true only
        once: any other request that reaches them while the call runs is a further call, made by the running one."""
        standing = _standing.get()
        allowed = self.decided()
        if standing is None or standing.entered or allowed is None or not allowed.is_for(method, target, arguments):
            return False
        standing.entered = True
        return True

    def within(
        self, allowed: Allowed, method: str, target: str, arguments: object, found: TargetInfo
    ) -> AbstractContextManager[None]:
        """Check that an allowed call, while it runs, may make this other call on the same authority (`policy.within`).
        Return the context to run that in, as `standing` does. Raises `ProofRefused` and `TokenError`."""
        call = _call_within(method, target, arguments)
        self._check_found(call, found, allowed.token)
        if self._proofs is not None:
            now, policy = self._clock(), _policy(self._proofs, call, found)
            check_within(call, allowed.authority, policy, now)
            _check_given(call, found, allowed.authority, policy, now)
        return self._runs(_Standing(self, allowed, entered=True), found)

    def view(self, allowed: Allowed) -> ListView:
        """Return the sender's view of lists: which items are shown, and how they are annotated."""
        if self._proofs is None:
            return ListView(catalog=Catalog(own_tools={}), token=allowed.token)
        authority, policy = allowed.authority, self._proofs.policy
        return ListView(
            catalog=policy.catalog,
            verifier_id=policy.verifier_id,
            binding=policy.binding,
            granted=authority.granted_scope if authority is not None and self._proofs.filter_tools else None,
            token=allowed.token,
        )

    def _check_found(self, call: GuardedCall, found: TargetInfo, token: VerifiedToken | None) -> None:
        """Check that the target exists, that a proof could allow it, and that the token may use it under its listed
        name, whatever name the client used."""
        tool = call.method == "tools/call"
        if tool and self.tokens is not None:
            self.tokens.check_tool(found.name or call.target, token)
        if tool and found.name and found.entry is None:
            self.warn_of_open_tool(found.name)
        if call.guarded and ((tool and not found.name) or (self._proofs is not None and found.entry is None)):
            raise refusals.unknown_target(call)

    def warn_of_open_tool(self, name: str) -> None:
        """Log, once, that a tool has no requirement, so that each call of it is refused."""
        if self._proofs is None or name in self._open_tools or len(self._open_tools) >= MAX_OPEN_TOOLS:
            return
        self._open_tools.add(name)
        _log.warning(
            'the tool "%s" has no @require, so each call of it is refused: write @require("SCOPE") over its function'
            " (low-level: name it in tools=), or give the guard a default_tool_scope",
            excerpt(name),
        )

    def standing(self, allowed: Allowed | None) -> AbstractContextManager[None]:
        """Return a context manager to use while a request runs. Within it, `decided` returns `allowed`, and
        `current_authority` returns its authority. None stands for an undecided request."""
        return self._runs(_Standing(self, allowed), allowed.found if allowed is not None else TargetInfo())

    @contextlib.contextmanager
    def _runs(self, standing: "_Standing", found: TargetInfo) -> Generator[None]:
        before = _standing.set(standing)
        try:
            with mark_judged(by_requirement=found.written or self._proofs is None):
                yield
        finally:
            _standing.reset(before)

    def decided(self) -> Allowed | None:
        """Return the running call if this judge has allowed it, or None."""
        standing = _standing.get()
        return standing.allowed if standing is not None and standing.judge is self else None

    def asked(self) -> bool:
        """Return whether a request that passed this judge is running, decided or not. If none is running, the server's
        own code is calling its functions."""
        standing = _standing.get()
        return standing is not None and standing.judge is self


@dataclass(slots=True)
class _Standing:
    """A running request. `entered` is set once the allowed call has reached the server's functions."""

    judge: Judge
    allowed: Allowed | None
    entered: bool = False


_standing: ContextVar[_Standing | None] = ContextVar("accredit_standing", default=None)


def current_authority() -> Authority | None:
    """Return the authority of the running call of a tool, resource or prompt; None outside of a call."""
    standing = _standing.get()
    return standing.allowed.authority if standing is not None and standing.allowed is not None else None


def current_token() -> VerifiedToken | None:
    """Return the token of the running tool, resource or prompt: its issuer, subject and scopes.

    None outside of a call, for a guard without `tokens`, and for a call that came without a token.
    """
    standing = _standing.get()
    return standing.allowed.token if standing is not None and standing.allowed is not None else None


def _policy(proofs: Proofs, call: GuardedCall, found: TargetInfo) -> Policy:
    policy = proofs.policy
    vocabulary = named_scopes().union(policy.vocabulary)
    return replace(policy, catalog=_catalog(policy, call, found.entry), vocabulary=vocabulary)


def _check_given(call: GuardedCall, found: TargetInfo, authority: Authority | None, policy: Policy, now: int) -> None:
    """Check the constraints on an allowed call for the arguments as the target gets them (`arguments`)."""
    if found.read is None or authority is None or not any(cert.constraints for cert in authority.chain):
        return
    given = found.read(cast("Mapping[str, object]", call.arguments or {}))
    if given is not None:
        check_given(replace(call, arguments=given), authority, policy, now)


def _catalog(policy: Policy, call: GuardedCall, entry: Entry | None) -> Catalog:
    if entry is None:
        return policy.catalog
    match call.method:
        case "tools/call":
            return replace(policy.catalog, tools={call.target: entry})
        case "resources/read":
            return replace(policy.catalog, resource=entry)
        case _:
            return replace(policy.catalog, prompt=entry)


def _call_within(method: str, target: str, arguments: object) -> GuardedCall:
    params = {TARGET_MEMBER[method]: target} | ({"arguments": arguments} if method != "resources/read" else {})
    try:
        return guarded_call_from_values(method, params, "", None)
    except FrameError:  # a value that is not JSON has no facts, so no constraint on them can be verified
        return GuardedCall(method, target, "", b"", None, None)


def _error_text(fault: Exception) -> str:
    # Only the texts of our own errors are known to quote no secret.
    return str(fault) if isinstance(fault, AccreditError) else type(fault).__name__
