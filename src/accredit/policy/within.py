"""Judges a call that a running call makes inside a server, on the authority of the running call.

A second case is an allowed call whose arguments the server reads differently. It is judged in the same way, by
[constraints] alone (`check_given`).

- [target] The target is in the catalog, and needs no challenge of its own, as no agent is there to sign one.
- [scope] The scopes that all certificates grant cover the target.
- [constraints] The constraints of every certificate hold for the facts of the new call, which include its own name and
  arguments: a tool must not do for an agent what the agent itself may not do. A rate counts the agent's own calls, so
  the new call takes no further use.

Not checked: the proof, which was for the running call; times and revocations, which were checked when that call began;
and quotas.
"""

from accredit.policy import refusals
from accredit.policy.constraint_words import why_refused
from accredit.policy.decide import ProofCheck
from accredit.policy.decision import Authority, Policy
from accredit.policy.guarded_call import GuardedCall
from accredit.policy.tasks import ONE_SERVER
from accredit.ratify.terms import Terms
from accredit.ratify.verify import constraints_fault


def check_within(call: GuardedCall, authority: Authority | None, policy: Policy, now: int) -> None:
    """Check a call within a running one. `now` is in unix seconds. Raises `ProofRefused`."""
    entry = policy.catalog.find(call.method, call.target)
    if entry is None:
        raise refusals.unknown_target(call)
    if authority is None or entry.sensitive:
        raise refusals.missing_proof(call, entry, policy.verifier_id, policy.binding)
    inner = _Within(call, entry, policy, now, None, ONE_SERVER, None, None)
    if not entry.allows(authority.granted_scope):
        raise inner.scope_denied(authority, entry.scope)
    inner.check(authority)


def check_given(call: GuardedCall, authority: Authority, policy: Policy, now: int) -> None:
    """Check an allowed call's constraints for its final arguments ([constraints]). `now` is in unix seconds.

    Raises `ProofRefused`.
    """
    entry = policy.catalog.find(call.method, call.target)
    _Within(call, entry, policy, now, None, ONE_SERVER, None, None).check(authority)


class _Within(ProofCheck):
    """The new call as a `ProofCheck` of its own, without a proof."""

    def check(self, authority: Authority) -> None:
        """Check [constraints]. Raises `ProofRefused`."""
        policy, facts = self._policy, self._facts()
        terms = Terms(
            now=self._now,
            vocabulary=policy.vocabulary,
            context=facts,
            constraint_evaluators=policy.constraint_evaluators,
        )
        fault = constraints_fault(authority.chain, terms)
        if fault is None:
            return
        words = why_refused(fault.error_reason, authority.chain, facts, self._call, self.entry)
        raise self._denied(authority, fault.identity_status, fault.error_reason, words)

    def _used(self, cert_id: str, window_s: int) -> int:
        return 0
