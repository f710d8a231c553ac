"""One server's decisions: `policy.decide` for what comes to it, and on whose word the running call is allowed.

It waits for the store and for the revocation lists; no I/O of its own.
"""

import contextlib
import logging
from collections.abc import Callable, Generator
from contextvars import ContextVar
from typing import NamedTuple

from msgspec.structs import replace

from accredit.errors import AccreditError
from accredit.policy import Asked, Authority, Catalog, Decision, Entry, Policy, decide, drive, refusals
from accredit.policy.lists import ToolView
from accredit.ports import ProofStore, Revocations
from accredit.ratify import IdentityStatus, VerifyResult
from accredit.server.requirements import named_scopes

_log = logging.getLogger("accredit.server")


class Judge:
    """What a guard was given, put together. `clock` is in unix seconds.

    The policy's catalog holds no tools: what a tool asks for is found where the tool is.
    """

    def __init__(
        self,
        policy: Policy,
        store: ProofStore,
        revocations: Revocations,
        *,
        filter_tools: bool,
        clock: Callable[[], int],
    ) -> None:
        self._policy = policy
        self._store = store
        self._revocations = revocations
        self._filter_tools = filter_tools
        self._clock = clock

    async def decide(self, asked: Asked, entry: Entry | None) -> Decision:
        """The decision of one call; `entry` is what the tool that is called asks for."""
        now = self._clock()
        vocabulary = named_scopes().union(self._policy.vocabulary)
        policy = replace(self._policy, catalog=self._catalog(asked, entry), vocabulary=vocabulary)
        decision = await drive(decide(asked, policy, now), self._store, self._revocations, now)
        if decision.fault is not None:
            _log.warning("a call was refused: %s", _named(decision.fault))
        return decision

    def check_within(self, decision: Decision, asked: Asked, entry: Entry | None) -> None:
        """Whether a call that was decided may make another one by itself. Raises `ProofRefused`.

        It runs on the same word, whose constraints were held against the facts of the first call alone.
        """
        if (asked.method, asked.target) == (decision.asked.method, decision.asked.target):
            return
        authority = decision.authority
        wanted = self._catalog(asked, entry).find(asked.method, asked.target)
        if wanted is None:
            raise refusals.unknown_target(asked)
        if authority is None or wanted.sensitive:
            raise refusals.missing_proof(asked, wanted, self._policy.verifier_id, self._policy.binding)
        if not wanted.allows(authority.granted_scope):
            result = VerifyResult(
                valid=False,
                identity_status=IdentityStatus.SCOPE_DENIED,
                human_id=authority.principal_id,
                agent_id=authority.agent_id,
                error_reason=f'scope_denied: required scope "{wanted.scope}" not in effective delegation scope',
            )
            raise refusals.denied(asked, wanted, result, granted=authority.granted_scope)

    def view(self, decision: Decision) -> ToolView:
        """How whoever sent a list request gets to see the tools."""
        authority = decision.authority
        return ToolView(
            catalog=self._policy.catalog,
            verifier_id=self._policy.verifier_id,
            binding=self._policy.binding,
            granted=authority.granted_scope if authority is not None and self._filter_tools else None,
        )

    @contextlib.contextmanager
    def standing(self, decision: Decision) -> Generator[None]:
        """The decision stands while the call runs."""
        token = _standing.set(_Standing(self, decision))
        try:
            yield
        finally:
            _standing.reset(token)

    def decided(self) -> Decision | None:
        """The decision of this judge under which the caller runs, or None."""
        standing = _standing.get()
        return standing.decision if standing is not None and standing.judge is self else None

    def _catalog(self, asked: Asked, entry: Entry | None) -> Catalog:
        tools = {asked.target: entry} if entry is not None else {}
        return replace(self._policy.catalog, tools=tools)


class _Standing(NamedTuple):
    judge: Judge
    decision: Decision


_standing: ContextVar[_Standing | None] = ContextVar("accredit_standing", default=None)


def current_authority() -> Authority | None:
    """On whose word the running tool, resource or prompt was called; None outside of a call."""
    standing = _standing.get()
    return standing.decision.authority if standing is not None else None


def _named(fault: Exception) -> str:
    # Only the texts of our own errors are known to quote no secret.
    return str(fault) if isinstance(fault, AccreditError) else type(fault).__name__
