"""The gate in front of a server: every message passes here before anything else of the server sees it.

It is a middleware of the official SDK, on which FastMCP is built as well, and the outermost one. So it sees `params` as
the client sent them, and the result as the client gets it. (The SDK's own hook for extensions sees only `tools/call`.)
If other middleware stands before it, all guarded messages are refused, and the server does not start. In this order:

- [authorization-meta] A client's `_meta["dev.accredit/authorization"]` is removed from any message, however it is
  spelled.
- [decision] `tools/call`, `resources/read`, `prompts/get` and the lists are decided: first by the token (`tokens`),
  then by the proof (`policy.decide`), each only if it is judged here. A refusal is a JSON-RPC error. Other methods of
  the revision pass. A request with a method that neither the revision nor the guard names (an extension's, tasks) gets
  -32601; such a notification is dropped.
- [removal] Proof and token are removed, the token from any message. An allowed call carries the authorization in its
  `_meta`, as behind the gateway.
- [answers] Unreadable answers to a server's input requests are dropped. If one entry of `inputResponses` is wrapped in
  `{method, result}`, or is not an object, the SDK refuses the whole request (-32602), and the tool's handler never
  runs. Here the handler is told the keys of such entries, so that it can ask again.
- [lists] A list says what each of its items requires. Items that the client could not use are left out.

The SDK has already parsed the message. So a proof is judged in a form that is written from the parsed message: of
repeated members only the last is left, and numbers have lost their spelling. The signatures are not affected, as they
cover the values.

A proof is bound to its call by a digest. The digest is over the parsed `params` without `_meta`, and without a `_token`
that is removed. Apart from that it covers exactly the members that the client sent, including `"arguments": null`.

Not checked here: messages that the server's own code sends; and whether the other entries of `inputResponses` are valid
answers. The SDK refuses a bare entry that is not a result of any kind.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, cast

import msgspec
from mcp.server.context import CallNext, HandlerResult
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from msgspec import Raw
from pydantic import BaseModel

from accredit.errors import AccreditError, ConfigurationError, FrameError, KeysUnavailable, ProofRefused, TokenError
from accredit.jsonrpc.encode import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND
from accredit.jsonrpc.requests import check_meta
from accredit.policy import refusals
from accredit.policy.catalog import Entry
from accredit.policy.guarded_call import GUARDED, LISTS, PROOFS, GuardedCall, guarded_call_from_values, proofs_in
from accredit.policy.lists import KINDS, OWN_MEMBERS, Kind, ListView
from accredit.policy.passing import AUTHORIZATION, authorization, is_claim
from accredit.rounds import partition_input_responses
from accredit.rounds.results import INPUT_REQUIRED_METHODS
from accredit.server.judge import Allowed, Judge, TargetInfo
from accredit.server.tokens import Context, without_tokens
from accredit.tokens.claims import VerifiedToken

Find = Callable[[Context, str, str], Awaitable[TargetInfo]]
"""Returns the server's target for a guarded method. For the list of templates, it finds a template by its text."""

_NO_PROOF = Raw(b"")
_RESPONSES = "inputResponses"
_dropped: ContextVar[tuple[str, ...]] = ContextVar("accredit_dropped_keys", default=())
_log = logging.getLogger("accredit.server")


class Gate:
    """Decides on each message to one server. `among` returns all middleware of that server, the outermost first."""

    def __init__(self, judge: Judge, find: Find, among: Callable[[], Iterable[object]]) -> None:
        self.judge = judge
        self._find = find
        self._among = among

    def check_place(self) -> None:
        """Check that nothing stands before this gate. Raises `ConfigurationError`."""
        check_first(self, self._among())

    async def __call__(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Check one message, decide on it, and pass it on ([authorization-meta] to [lists]). Raises `MCPError`."""
        try:
            check_meta(_meta(ctx))
        except FrameError as error:
            raise MCPError(INVALID_REQUEST, f"Invalid Request: {error.detail}") from None
        if not self.judge.names(ctx.method, ctx.protocol_version):
            return drop_unnamed(ctx)
        if not is_judged(ctx):
            with self.judge.standing(None):
                return await call_next(_context_for_server(self._without_tokens(ctx, TargetInfo()), None))
        allowed, for_server = await self._admit(ctx)
        with self.judge.standing(allowed):
            result = await drop_unreadable_answers(for_server, call_next)
        kind = KINDS.get(ctx.method)
        return result if kind is None else await self._shown(ctx, result, self.judge.view(allowed), kind)

    async def _admit(self, ctx: Context) -> tuple[Allowed, Context]:
        """Decide on a message. Return the allowed call, and the message for the server ([decision] and [removal]).
        Raises `MCPError` for a refusal."""
        call = _guarded_call(ctx)
        try:
            found = await self._found(ctx, call)
            token = await self._token(ctx, found)
            bare = self._without_tokens(ctx, found)
            allowed = await self.judge.decide(call if bare is ctx else _guarded_call(bare), found, token)
        except (ProofRefused, TokenError, KeysUnavailable, FrameError) as error:
            raise to_mcp_error(error) from error.__cause__
        return allowed, _context_for_server(bare, allowed)

    async def _found(self, ctx: Context, call: GuardedCall) -> TargetInfo:
        if ctx.method not in GUARDED:
            return TargetInfo()
        try:
            self.check_place()
            return await self._find(ctx, call.method, call.target)
        except Exception as error:  # fail closed if a provider of tools fails
            raise refusals.no_decision(call, None) from error

    async def _token(self, ctx: Context, tool: TargetInfo) -> VerifiedToken | None:
        tokens = self.judge.tokens
        return await tokens.of(ctx, argument_is_the_tools=tool.takes_token) if tokens is not None else None

    def _without_tokens(self, ctx: Context, tool: TargetInfo) -> Context:
        # If tokens are not judged here, they are the server's own.
        return without_tokens(ctx, argument_is_the_tools=tool.takes_token) if self.judge.tokens is not None else ctx

    async def _shown(self, ctx: Context, result: HandlerResult, view: ListView, kind: Kind) -> HandlerResult:
        tools = kind.method == "tools/call"
        if not tools and not view.edits(kind):
            return result
        dumped = isinstance(result, BaseModel)
        listed = result.model_dump(by_alias=True, mode="json", exclude_none=True) if dumped else result
        if not isinstance(listed, dict) or not isinstance(listed.get(kind.items), list):
            return result
        shown: list[dict[str, Any]] = []
        for item in cast("list[dict[str, Any]]", listed[kind.items]):
            named = item[kind.key]
            method = ctx.method if kind.key == "uriTemplate" else kind.method
            entry = (await self._find(ctx, method, named)).entry
            if view.shown(kind, named, entry):
                shown.append({**item, "_meta": annotate_meta(item.get("_meta"), entry, view)})
        private = {"cacheScope": "private"} if view.private(kind) else {}
        return {**listed, kind.items: shown, **private}


async def drop_unreadable_answers(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Drop unreadable answers ([answers]), as a middleware of the SDK:
    `MCPServer("mail", middleware=[drop_unreadable_answers])`.

    For a server without a guard; a guard does this by itself.
    """
    params = ctx.params or {}
    asks = ctx.method in INPUT_REQUIRED_METHODS
    accepted, dropped = partition_input_responses(params.get(_RESPONSES) if asks else None)
    if dropped:
        ctx = replace(ctx, params={**params, _RESPONSES: accepted})
    # Set even if nothing was dropped: a request that a handler makes must not see its caller's keys.
    before = _dropped.set(tuple(dropped))
    try:
        return await call_next(ctx)
    finally:
        _dropped.reset(before)


def current_dropped_keys() -> tuple[str, ...]:
    """Return the keys of unreadable answers for the running tool, resource or prompt, so that it can ask again."""
    return _dropped.get()


def put_first(one: Any, among: list[Any]) -> None:
    """Move an object to the front of a list."""
    among[:] = [one, *(each for each in among if each is not one)]


def check_first(one: object, among: Iterable[object]) -> None:
    """Check that a guard comes before all middleware except other guards. Raises `ConfigurationError`."""
    for each in among:
        if each is one:
            return
        if not isinstance(each, type(one)):
            break
    fault = ConfigurationError(
        "the guard does not stand before all other middleware", "call guard.protect(server) once that was added"
    )
    _log.error("nothing runs: %s", fault)
    raise fault


def annotate_meta(meta: Mapping[str, Any] | None, entry: Entry | None, view: ListView) -> dict[str, Any]:
    """Return the `_meta` of a listed item, with the guard's own members about proofs in place of the server's."""
    kept = {name: value for name, value in (meta or {}).items() if name not in OWN_MEMBERS}
    return {**kept, **view.annotations(entry)}


def is_judged(ctx: Context) -> bool:
    """Return whether a message is a request that needs a decision."""
    return ctx.request_id is not None and (ctx.method in GUARDED or ctx.method in LISTS)


def drop_unnamed(ctx: Context) -> None:
    """Drop a notification of an unknown method. Raises `MCPError` for a request."""
    if ctx.request_id is not None:
        raise MCPError(METHOD_NOT_FOUND, "Method not found")


def _context_for_server(ctx: Context, allowed: Allowed | None) -> Context:
    """Return the message as the server gets it; tokens are removed elsewhere ([authorization-meta] and [removal])."""
    params = ctx.params or {}
    meta = _meta(ctx)
    kept = {name: value for name, value in meta.items() if not _is_ours(name)}
    claim = _authorization_meta(ctx.method, allowed)
    if not claim and len(kept) == len(meta):
        return ctx
    known = {name: value for name, value in (ctx.meta or {}).items() if not _is_ours(name)}
    return replace(ctx, params={**params, "_meta": {**kept, **claim}}, meta=cast("Any", {**known, **claim}))


def _is_ours(name: str) -> bool:
    return name in PROOFS or is_claim(name)


def to_mcp_error(error: AccreditError) -> MCPError:
    """Return the JSON-RPC error of a refusal."""
    match error:
        case ProofRefused():
            return MCPError(error.code, error.message, dict(error.data))
        case TokenError():
            return MCPError(error.code, f"{error.error}: {error.detail}", {"error": error.error})
        case FrameError():
            return MCPError(INVALID_PARAMS, f"Invalid params: {error.detail}")
        case KeysUnavailable():
            retry = {"retry_after_seconds": error.retry_after}
            return MCPError(INTERNAL_ERROR, "Tokens can't be verified for now", retry)
        case _:
            return undecided_error()


def undecided_error() -> MCPError:
    """Return the error for a request that would run without a decision, for whatever reason."""
    return MCPError(INTERNAL_ERROR, "the call was not decided")


def _authorization_meta(method: str, allowed: Allowed | None) -> dict[str, object]:
    """Return the authorization of a call, as a member of `_meta`. For a list that came without a proof, return no
    member."""
    if allowed is None or (allowed.authority is None and (allowed.token is None or method not in GUARDED)):
        return {}
    text = msgspec.json.encode(authorization(allowed.authority, allowed.token))
    # Via JSON, so that it looks as it does behind the gateway.
    return {AUTHORIZATION: msgspec.json.decode(text)}


def _guarded_call(ctx: Context) -> GuardedCall:
    meta = _meta(ctx)
    proofs = proofs_in({name: _text(meta[name]) for name in PROOFS if name in meta})
    try:
        return guarded_call_from_values(ctx.method, ctx.params or {}, _session_id(ctx), *proofs)
    except FrameError as error:
        raise to_mcp_error(error) from None


def _meta(ctx: Context) -> Mapping[str, object]:
    meta = (ctx.params or {}).get("_meta")
    return cast("Mapping[str, object]", meta) if isinstance(meta, Mapping) else {}


def _text(proof: object) -> Raw:
    try:
        return Raw(msgspec.json.encode(proof))
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError):
        return _NO_PROOF  # such as a lone surrogate, which no proof holds


def _session_id(ctx: Context) -> str:
    # If there are sessions, the transport has checked the header's; a modern request has none.
    headers = getattr(ctx.request, "headers", None)
    if headers is None or ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return ""
    return headers.get("mcp-session-id") or ""
