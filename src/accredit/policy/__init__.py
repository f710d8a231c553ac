"""The decision of a call: who may do what, and on whose word. Pure: it asks for what it needs (`needs`).

`catalog` which scope a target needs · `facts` what constraints are held against · `guarded_call` one call, and what
binds a proof to it · `decide` the steps, in their order · `evaluators` who judges what the protocol does not define ·
`refusals` what a client is told · `needs`, `drive` the questions to the world and who answers them · `passing` what is
removed from and added to what passes · `lists` what is listed.
"""

from accredit.policy.catalog import MCP_SCOPES, OWN_SCOPE, Catalog, Entry, scope_fault
from accredit.policy.decide import CONSTRAINT_REFUSALS, Authority, Decision, Flow, Policy, decide
from accredit.policy.drive import drive
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
    asked,
    asked_of,
    is_guarded,
    looks_guarded,
    may_guard,
    payload_digest,
    proofs_in,
)

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
    "asked",
    "asked_of",
    "decide",
    "drive",
    "facts_fault",
    "is_guarded",
    "looks_guarded",
    "may_guard",
    "payload_digest",
    "proofs_in",
    "scope_fault",
    "with_own",
]
