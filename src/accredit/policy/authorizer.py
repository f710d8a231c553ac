"""Authorizes a caller by a bearer token: the same checks in the gateway and in a guarded server. Awaits key sets, and
issuers' answers.

- [verified] One of the configured issuers has issued the token. Its signature shows that or, if it is not a JWT of
  theirs, the answer of the one issuer that is asked about such tokens (`tokens.verify`). If the token names a gateway's
  configuration, that must be the one in force. If it names a session, the message must have come in that session.
- [tool] A called tool must be one that the token allows, and the token must have the scope that the tool requires.

The callers determine where in a message a token may be, and which of several decides (`tokens.carried`).
"""

from collections.abc import Callable, Mapping, Sequence

from accredit.base.clock import unix_seconds
from accredit.ports import KeySets
from accredit.tokens.claims import VerifiedToken
from accredit.tokens.verify import Issuer, TokenVerifier, check_policy, check_present, check_session, check_tool


class TokenAuthorizer:
    """Judges the tokens for one server. `tool_scopes` maps a tool's name to the scope that a token needs for it.
    `clock` returns unix seconds."""

    def __init__(
        self,
        issuers: Sequence[Issuer],
        keys: KeySets,
        tool_scopes: Mapping[str, str],
        *,
        required: bool,
        policy_digest: str = "",
        clock: Callable[[], int] = unix_seconds,
    ) -> None:
        """Raise `ConfigurationError` if an issuer is named twice."""
        self._verifier = TokenVerifier(issuers)
        self._keys = keys
        self._tool_scopes = tool_scopes
        self.required = required
        self._policy_digest = policy_digest
        self._clock = clock

    async def verify(self, text: str, session: str = "") -> VerifiedToken:
        """Verify a token that came in a session ([verified]). Raises `TokenError` and `KeysUnavailable`."""
        presented = self._verifier.read(text)
        if presented.introspection is not None:
            claims = await self._keys.introspect(presented.issuer, text)
            token = self._verifier.verify_introspected(presented, claims, self._clock())
        else:
            keys = await self._keys.keys(presented.issuer.issuer, presented.kid)
            token = self._verifier.verify(presented, keys, self._clock())
        check_policy(token, self._policy_digest)
        check_session(token, session)
        return token

    def require(self, token: VerifiedToken | None) -> None:
        """Raise `MissingToken` if a token is required and there is none."""
        if self.required:
            check_present(token)

    def check_tool(self, tool: str, token: VerifiedToken | None) -> None:
        """Check whether the token allows a tool ([tool]). Raises `InsufficientScope`. Raises `MissingToken` if there is
        no token, but the tool requires a scope."""
        check_tool(token, tool, self._tool_scopes.get(tool, ""))
