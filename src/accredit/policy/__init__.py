"""The decision of a call: who may do what, and on whose authority. Pure: it yields what it needs (`needs`).

`catalog` which scope a target needs · `drill` the gateway's own tools · `facts` the values that constraints test ·
`guarded_call` one call, and what binds a proof to it · `decide` the steps, in order · `decision` their settings and
results · `uses` how often a certificate may be used · `evaluators` evaluation of constraints that the protocol does not
define · `refusals` what a client is told · `needs` what a decision asks of the world, and its answers · `passing` what
is removed from and added to a message on its way · `lists` what is listed · `tasks` the owners of tasks · `within`
calls that a running call makes by itself.
"""

from accredit.policy.catalog import MCP_SCOPES, OWN_SCOPE, Catalog, Entry, scope_fault
from accredit.policy.decide import decide
from accredit.policy.decision import CONSTRAINT_REFUSALS, Authority, Decision, Flow, Policy
from accredit.policy.evaluators import with_own
from accredit.policy.facts import Facts, facts_fault
from accredit.policy.guarded_call import (
    GUARDED,
    LISTS,
    PROOF,
    PROOFS,
    TASK_CHANGES,
    TASK_LIST,
    TASKS,
    GuardedCall,
    digest_in_steps,
    guarded_call_from_values,
    guarded_call_in_steps,
    guarded_call_of,
    is_guarded,
    looks_guarded,
    may_guard,
    payload_digest,
    proofs_in,
)
from accredit.policy.needs import drive
from accredit.policy.within import check_given, check_within

__all__ = [
    "CONSTRAINT_REFUSALS",
    "GUARDED",
    "LISTS",
    "MCP_SCOPES",
    "OWN_SCOPE",
    "PROOF",
    "PROOFS",
    "TASKS",
    "TASK_CHANGES",
    "TASK_LIST",
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
    "decide",
    "digest_in_steps",
    "drive",
    "facts_fault",
    "guarded_call_from_values",
    "guarded_call_in_steps",
    "guarded_call_of",
    "is_guarded",
    "looks_guarded",
    "may_guard",
    "payload_digest",
    "proofs_in",
    "scope_fault",
    "with_own",
]
