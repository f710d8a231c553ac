"""The decision of a call: who may do what, and on whose authority. Pure: it does no I/O. Questions to the outside are
yielded (needs, in `decision`).

- `decide`: the steps of a decision, in their order; `decision` has their settings, their questions to the outside and
  how these are answered, and their result
- `guarded_call`: one call, and the hash that binds a proof to it
- `catalog`: the scope that a target needs
- `facts`: the values that constraints check; `evaluators`: for constraints that the protocol does not define
- `uses`, `quotas`: how often a certificate may be used, and how many calls anybody may make
- `refusals`: the errors that clients get
- `passing`: removes members from a message, and adds others
- `lists`: filters lists; `merging`: names at the endpoint of several servers
- `tasks`: the owners of tasks
- `within`: calls that a running call makes by itself
- `drill`: the gateway's own tools, and what they answer
- `evidence`, `replaying`, `suggesting`: what recorded calls prove, how they would be decided now, and which grants they
  need
"""

import typing

from accredit.base.deferred import names_of as _names_of

if typing.TYPE_CHECKING:
    from accredit.policy.catalog import MCP_SCOPES, OWN_SCOPE, Catalog, Entry, scope_fault
    from accredit.policy.decision import CONSTRAINT_REFUSALS, Authority, Decision, Flow, Policy, drive
    from accredit.policy.evaluators import with_own
    from accredit.policy.facts import Facts, facts_fault
    from accredit.policy.guarded_call import (
        GUARDED,
        LISTS,
        PROOF,
        PROOFS,
        GuardedCall,
        digest_in_steps,
        guarded_call_from_values,
        guarded_call_in_steps,
        guarded_call_of,
        looks_guarded,
        may_guard,
        payload_digest,
        proofs_in,
    )
    from accredit.policy.within import check_given, check_within
else:  # imported on first use: who verifies records needs neither decisions nor the JSON-RPC that they are about.
    __getattr__ = _names_of(
        __name__,
        {
            "Authority": "decision",
            "Catalog": "catalog",
            "check_given": "within",
            "check_within": "within",
            "CONSTRAINT_REFUSALS": "decision",
            "Decision": "decision",
            "digest_in_steps": "guarded_call",
            "drive": "decision",
            "Entry": "catalog",
            "Facts": "facts",
            "facts_fault": "facts",
            "Flow": "decision",
            "GUARDED": "guarded_call",
            "guarded_call_from_values": "guarded_call",
            "guarded_call_in_steps": "guarded_call",
            "guarded_call_of": "guarded_call",
            "GuardedCall": "guarded_call",
            "LISTS": "guarded_call",
            "looks_guarded": "guarded_call",
            "may_guard": "guarded_call",
            "MCP_SCOPES": "catalog",
            "OWN_SCOPE": "catalog",
            "payload_digest": "guarded_call",
            "Policy": "decision",
            "PROOF": "guarded_call",
            "PROOFS": "guarded_call",
            "proofs_in": "guarded_call",
            "scope_fault": "catalog",
            "with_own": "evaluators",
        },
    )

__all__ = [
    "CONSTRAINT_REFUSALS",
    "GUARDED",
    "LISTS",
    "MCP_SCOPES",
    "OWN_SCOPE",
    "PROOF",
    "PROOFS",
    "Authority",
    "Catalog",
    "Decision",
    "Entry",
    "Facts",
    "Flow",
    "GuardedCall",
    "Policy",
    "check_given",
    "check_within",
    "digest_in_steps",
    "drive",
    "facts_fault",
    "guarded_call_from_values",
    "guarded_call_in_steps",
    "guarded_call_of",
    "looks_guarded",
    "may_guard",
    "payload_digest",
    "proofs_in",
    "scope_fault",
    "with_own",
]
