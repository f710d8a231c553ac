"""What a verified token may do. No I/O.

A good token that may not do this is a 403. Lists and calls agree on its tools: both ask `may_use`. A scope that a tool
asks for does not hide the tool: a client can get a token with it only when it sees what it lacks.
"""

import hashlib

from accredit.errors import InsufficientScope, InvalidToken
from accredit.tokens.claims import VerifiedToken


def policy_digest(configuration: bytes) -> str:
    """Return what a token calls a policy: the SHA-256 of the configuration's bytes, in lowercase hex."""
    return hashlib.sha256(configuration).hexdigest()


def check_policy(token: VerifiedToken, digest: str) -> None:
    """A token that names a policy is good under that one only; `digest` is today's. Raises `InvalidToken`."""
    if token.policy_digest is not None and token.policy_digest != digest:
        raise InvalidToken("issued under another policy", "the token was issued under another configuration")


def check_session(token: VerifiedToken, session: str) -> None:
    """A token that names a session is good in that one only; `session` is the id of the one that it came in, as its
    client knows it, or "" where there is none. Raises `InvalidToken`."""
    if token.session is not None and token.session != session:
        raise InvalidToken("names another session", "the token is good in one session, and this is not it")


def may_use(token: VerifiedToken, tool: str) -> bool:
    """Return whether its `allowed_tools` and `denied_tools` let a token use a tool; what is in both is denied."""
    return tool not in token.denied_tools and (token.allowed_tools is None or tool in token.allowed_tools)


def check_tool(token: VerifiedToken, tool: str, token_scope: str = "") -> None:
    """Whether a token may call a tool, which may ask for a scope. Raises `InsufficientScope`."""
    if not may_use(token, tool):
        raise InsufficientScope("not one of the token's tools", "the token may not use this tool")
    if token_scope and token_scope not in token.scopes:
        raise InsufficientScope("lacks the tool's scope", "the token lacks the scope of this tool", (token_scope,))
