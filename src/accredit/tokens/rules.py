"""The rights of a verified token. No I/O.

If a valid token lacks a right, the answer is a 403. Lists and calls agree on which tools a token may use, as both ask
`may_use`. A tool is listed even if the token lacks its scope: a client must see the scope to get a token that has it.
"""

import hashlib

from accredit.errors import InsufficientScope, InvalidToken, MissingToken
from accredit.tokens.claims import VerifiedToken


def policy_digest(configuration: bytes) -> str:
    """Return the digest by which a token names a policy, the SHA-256 of the configuration's bytes, in lower-case
    hex."""
    return hashlib.sha256(configuration).hexdigest()


def check_policy(token: VerifiedToken, digest: str) -> None:
    """Check that a token names either no policy or the current one, whose digest is `digest`. Raises `InvalidToken`."""
    if token.policy_digest is not None and token.policy_digest != digest:
        raise InvalidToken("issued under another policy", "the token was issued under another configuration")


def check_session(token: VerifiedToken, session: str) -> None:
    """Check that a token names either no session or this one. Raises `InvalidToken`.

    `session` is the session's id as the client knows it, "" without a session.
    """
    if token.session is not None and token.session != session:
        raise InvalidToken("names another session", "the token is good in one session, and this is not it")


def may_use(token: VerifiedToken, tool: str) -> bool:
    """Return whether `allowed_tools` and `denied_tools` let a token use a tool. A tool in both is refused."""
    return tool not in token.denied_tools and (token.allowed_tools is None or tool in token.allowed_tools)


def check_present(token: VerifiedToken | None) -> None:
    """Check that a token was sent, for a call that requires one. Raises `MissingToken`."""
    if token is None:
        raise MissingToken("no token", "a bearer token is required")


def check_tool(token: VerifiedToken | None, tool: str, token_scope: str = "") -> None:
    """Check that a token may call a tool. `token_scope` is the scope that the tool requires of tokens, "" if it
    requires none. Without a token, only a tool that requires none may be called.

    Raises `InsufficientScope` or `MissingToken`. Raises `TypeError` for a scope that is no text, such as the None of a
    lookup that found nothing.
    """
    if not isinstance(token_scope, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"token_scope is {type(token_scope).__name__}, not a text: refuse an unknown tool first")
    if token is None:
        if token_scope:
            raise MissingToken("no token for a tool that asks for its scope", "this tool needs a bearer token")
        return
    if not may_use(token, tool):
        raise InsufficientScope("not one of the token's tools", "the token may not use this tool")
    if token_scope and token_scope not in token.scopes:
        raise InsufficientScope("lacks the tool's scope", "the token lacks the scope of this tool", (token_scope,))
