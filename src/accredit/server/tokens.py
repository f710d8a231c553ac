"""A guarded server's bearer tokens: found, verified, removed. Awaits key sets.

- [places] A token may be in the Authorization header (over HTTP), in `arguments._token` unless the tool itself declares
  that argument, or in `_meta.token`. The first one present decides (`tokens.carried`).
- [verification] The token is verified (`policy.authorizer`). One that names a gateway's configuration, or a session, is
  not valid here.
- [removal] All tokens are removed, also those that did not decide.

A server's middleware answers only with JSON-RPC errors. Statuses 401 and 403 with `WWW-Authenticate` come from a
gateway, or from the SDK's own authorization. Not checked here: that a session belongs to the subject who opened it;
each message is judged by its own token.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from mcp.server.context import ServerRequestContext
from starlette.requests import Request

from accredit.errors import TokenError
from accredit.policy.authorizer import TokenAuthorizer
from accredit.tokens.carried import ARGUMENT, META, FoundTokens, find_tokens, without_authorization
from accredit.tokens.claims import VerifiedToken

_log = logging.getLogger("accredit.server")
_SOURCES = ("header", "argument", "meta")

Context = ServerRequestContext[Any, Any]


@dataclass(frozen=True, slots=True)
class TrustedIssuer:
    """An issuer whose tokens are accepted: `issuer` as in their `iss`, for this `audience`, signed with one of
    `algorithms`.

    The keys are at `jwks_url` (https, or http on loopback), or in `key_file`: a JWK set, or a public key in PEM.
    Without either, they are where the metadata of `issuer` says. All its tokens must have `required_scopes`.

    Only one issuer may be asked about tokens that are not JWTs: at `introspection_url` (RFC 7662), as
    `introspection_client_id` with `introspection_client_secret`.
    """

    issuer: str
    audience: str
    jwks_url: str | None = None
    key_file: str | Path | None = None
    algorithms: Sequence[str] = ("ES256",)
    required_scopes: Sequence[str] = ()
    introspection_url: str | None = None
    introspection_client_id: str | None = None
    introspection_client_secret: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class TokenRules:
    """The bearer tokens that a guard accepts. The members are named as in `[tokens]` of a gateway's configuration.

    With `required`, calls and lists need a token; otherwise one may be missing, but must be valid if present. With
    `bind_agent`, the token's subject must be the id of the agent that made the proof. `tool_scopes` maps a tool's name
    to the scope that a token needs for it.
    """

    issuers: Sequence[TrustedIssuer]
    required: bool = True
    bind_agent: bool = False
    tool_scopes: Mapping[str, str] = field(default_factory=dict[str, str])


class Tokens(TokenAuthorizer):
    """Judges the tokens of one server's clients."""

    async def of(self, ctx: Context, *, argument_is_the_tools: bool) -> VerifiedToken | None:
        """Return the verified token of a message, or None ([places] and [verification]). Raises `TokenError` and
        `KeysUnavailable`."""
        try:
            text = _find_tokens(ctx).deciding(_SOURCES, argument_is_the_tools=argument_is_the_tools)
            if text is not None:
                return await self.verify(text)
            self.require(None)
        except TokenError as error:
            _log.info("a token was refused: %s", error.reason)
            raise
        return None

    async def aclose(self) -> None:
        """Cancel all fetches."""
        await self._keys.aclose()


def without_tokens(ctx: Context, *, argument_is_the_tools: bool) -> Context:
    """Remove all tokens ([removal]). Returns the same object if there are none."""
    changes: dict[str, Any] = {}
    params = dict(ctx.params or {})
    for holder, name in (("arguments", ARGUMENT), ("_meta", META)):
        object_members = _members(params, holder)
        if name in object_members and not (holder == "arguments" and argument_is_the_tools):
            params[holder] = _without(object_members, name)
            changes["params"] = params
    if META in (ctx.meta or {}):
        changes["meta"] = _without(cast("Mapping[str, object]", ctx.meta), META)
    request = _request(ctx)
    if request is not None:
        scope = {**request.scope, "headers": without_authorization(request.scope["headers"])}
        changes["request"] = Request(scope, request.receive)
    return replace(ctx, **changes) if changes else ctx


def _find_tokens(ctx: Context) -> FoundTokens:
    request = _request(ctx)
    # The raw fields: a mapping would hide a second Authorization header.
    header = find_tokens(request.scope["headers"], {}).header if request is not None else None
    return FoundTokens(header, _text(ctx, "arguments", ARGUMENT), _text(ctx, "_meta", META))


def _request(ctx: Context) -> Request | None:
    """Return the HTTP request, if it has an Authorization header."""
    request = cast("Request", ctx.request) if isinstance(ctx.request, Request) else None
    return request if request is not None and "authorization" in request.headers else None


def _text(ctx: Context, holder: str, name: str) -> str | None:
    """Return a token's text: None if it is absent, "" if it can't be a token."""
    object_members = _members(ctx.params or {}, holder)
    if name not in object_members:
        return None
    text = object_members[name]
    return text if isinstance(text, str) else ""


def _members(params: Mapping[str, object], holder: str) -> Mapping[str, object]:
    holder_value = params.get(holder)
    return cast("Mapping[str, object]", holder_value) if isinstance(holder_value, Mapping) else {}


def _without(object_members: Mapping[str, object], name: str) -> dict[str, object]:
    return {member: value for member, value in object_members.items() if member != name}
