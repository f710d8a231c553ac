"""Shows the page of an ask in a host that opens pages (URL elicitation). No I/O of its own.

- [declared] A host is asked to show a page only if it declares that it can (`elicitation.url`): a legacy host (MCP up
  to 2025-11-25) in `initialize`, a modern one in each request. The page's address is on the loopback, and holds no
  secret.
- [decline] *Decline* means no. Any other answer is ignored: only the person's key allows a call.
- [legacy-pages] In the legacy era the request to show the page is open while the call is held, and ends with it.
- [modern-pages] In the modern era the call is not held: it is answered with the request to show the page
  (`input_required`). The host repeats the call with the state that came with that request. The state is sealed for this
  very call, and not forwarded. A call that is already in a server's rounds is held instead.

The page only shows the ask. Opening it gives no rights.
"""

import asyncio
import secrets
from collections.abc import Callable
from typing import Any, NamedTuple

from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse, RequestId
from msgspec import Struct

from accredit.base.clock import unix_seconds
from accredit.base.text import one_line
from accredit.base.values import members_of
from accredit.consent.asks import LEG_MEMBERS, Ask, params_digest
from accredit.errors import ConsentError, SealError
from accredit.jsonrpc.methods import META_CAPABILITIES, TARGET_MEMBER
from accredit.rounds.sealing import KEY_BYTES, NONCE_BYTES, FlowState, KeyRing, state_binding
from accredit.tokens.carried import ARGUMENT

_ENTRY = "accredit"
"""The key of our request among `inputRequests`."""


class Page(Struct):
    """A page that the host was asked to show. `declined` is set once the person declines there."""

    id: str
    elicitation: str
    declined: asyncio.Event
    is_open: bool = True


class ReturnedRequest(NamedTuple):
    """A modern request that came back after a page was shown, without the members that we had added, and whether the
    person declined the ask."""

    request: JSONRPCRequest
    code: str
    declined: bool


class Pages:
    """The pages of one connection. `send` sends a message to the host."""

    def __init__(self, send: Callable[[JSONRPCMessage], None]) -> None:
        self._send = send
        self._shows = False
        self._open: dict[RequestId, Page] = {}
        self._keys = KeyRing([secrets.token_bytes(KEY_BYTES)])

    def begin(self, initialize: JSONRPCRequest) -> None:
        """Learn from a legacy host's `initialize` whether it shows pages ([declared])."""
        self._shows = _declares_url((initialize.params or {}).get("capabilities"))

    def show(self, ask: Ask, url: str) -> Page | None:
        """Ask a legacy host to show an ask's page; None if it does not show pages."""
        if not self._shows:
            return None
        page = Page(f"accredit-page-{ask.id}-{secrets.token_hex(4)}", ask.id, asyncio.Event())
        self._open[page.id] = page
        params = {**_elicitation(ask, url), "elicitationId": page.elicitation}
        self._send(JSONRPCRequest(jsonrpc="2.0", id=page.id, method="elicitation/create", params=params))
        return page

    def close(self, page: Page) -> None:
        """Tell the host that the page is not needed any more ([legacy-pages])."""
        self._open.pop(page.id, None)
        params: dict[str, Any] = {"elicitationId": page.elicitation}
        method = "notifications/elicitation/complete"
        if page.is_open:
            params, method = {"requestId": page.id, "reason": "the call is decided"}, "notifications/cancelled"
        self._send(JSONRPCNotification(jsonrpc="2.0", method=method, params=params))

    def settles(self, answer: JSONRPCResponse | JSONRPCError) -> bool:
        """Handle the host's answer about a page ([decline]). Return False for any other message."""
        page = self._open.get(answer.id) if answer.id is not None else None
        if page is None:
            return isinstance(answer.id, str) and answer.id.startswith("accredit-page-")
        page.is_open = False
        if isinstance(answer, JSONRPCResponse) and answer.result.get("action") == "decline":
            page.declined.set()
        return True

    def asks_by_page(self, request: JSONRPCRequest) -> bool:
        """Return whether to answer a modern request by asking its host to show a page ([declared], [modern-pages])."""
        params = request.params or {}
        declared = members_of(params.get("_meta")).get(META_CAPABILITIES)
        return _declares_url(declared) and "requestState" not in params and "inputResponses" not in params

    def input_required(self, ask: Ask, url: str, agent_id: str) -> dict[str, Any]:
        """Return the result that asks a modern host to show an ask's page ([modern-pages])."""
        sealed = FlowState(None, ask.code, 1, ask.expires_at)
        binding = _binding(agent_id, ask.method, ask.target, ask.params)
        return {
            "resultType": "input_required",
            "inputRequests": {_ENTRY: {"method": "elicitation/create", "params": _elicitation(ask, url)}},
            "requestState": self._keys.seal(sealed, binding, secrets.token_bytes(NONCE_BYTES)),
        }

    def resumed(self, request: JSONRPCRequest, agent_id: str) -> ReturnedRequest | None:
        """If a request brings back a state of ours, return it without that state; else None ([modern-pages])."""
        params = request.params or {}
        state, member = params.get("requestState"), TARGET_MEMBER.get(request.method)
        if not isinstance(state, str) or member is None:
            return None
        plain = {name: value for name, value in params.items() if name not in LEG_MEMBERS}
        try:
            binding = _binding(agent_id, request.method, str(plain.get(member)), plain)
            opened = self._keys.open(state, binding, unix_seconds())
        except (SealError, ConsentError):
            return None
        answer = members_of(members_of(params.get("inputResponses")).get(_ENTRY))
        declined = answer.get("action") == "decline"
        kept = {name: value for name, value in params.items() if name == "_meta" or name in plain}
        return ReturnedRequest(request.model_copy(update={"params": kept}), opened.flow, declined)


def _binding(agent_id: str, method: str, target: str, params: dict[str, Any]) -> bytes:
    """Return the data that binds a state to its call. An argument that may be a credential is left out, as it may be
    from the ask. Raises `ConsentError`."""
    named = members_of(params.get("arguments"))
    if named:
        params = {**params, "arguments": {name: each for name, each in named.items() if name != ARGUMENT}}
    return state_binding(("ask", agent_id), method, target, params_digest(params))


def _elicitation(ask: Ask, url: str) -> dict[str, Any]:
    message = (
        f"{one_line(ask.target)} needs your permission (code {ask.code}). The page shows the call."
        f" If it is not signed in, run: accredit desk open {ask.code}"
    )
    return {"mode": "url", "message": message, "url": f"{url}/a/{ask.code}"}


def _declares_url(capabilities: object) -> bool:
    return "url" in members_of(members_of(capabilities).get("elicitation"))
