"""For a server's author: `require` beside a tool, `ProofGuard` in front of the server. Such a server needs no gateway.

- `requirements`: what tools require. `tokens`: whose bearer tokens are accepted.
- `assemble`: makes a `judge`, which decides, from the author's arguments.
- `gate`: stands in front of a server, and drops unreadable answers to its requests for input.
- `sdk`: the guard for the official SDK. `lowlevel`: what the SDK's low-level server needs in addition.
- `fastmcp`: the guard for FastMCP, with the same names. Import it by itself: it needs the optional dependency.
"""

from accredit.server.gate import current_dropped_keys, drop_unreadable_answers
from accredit.server.judge import current_authority, current_token
from accredit.server.requirements import Requirement, require
from accredit.server.sdk import ProofGuard
from accredit.server.tokens import TokenRules, TrustedIssuer

__all__ = [
    "ProofGuard",
    "Requirement",
    "TokenRules",
    "TrustedIssuer",
    "current_authority",
    "current_dropped_keys",
    "current_token",
    "drop_unreadable_answers",
    "require",
]
