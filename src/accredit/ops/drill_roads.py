"""Sends the calls of a drill, and reads their answers. I/O: HTTP.

- [mcp] A call of a tool, in one era. In the legacy era none is in a session, as only a server could begin one.
- [http] A request to an HTTP API behind the gateway, for one of the gateway's own routes.
- [a2a] A message to an agent behind the gateway, for one of the gateway's own skills.
- [authorize] A proxy's question whether it may forward such a request, in that proxy's form.
- [one-connection] Each call has a connection of its own, so that it may reach any worker.
- [bound] An answer is read up to `MAX_REFUSAL_BYTES`, and within the time of one call.
"""

import asyncio
import json
from collections.abc import Mapping
from hashlib import sha256
from typing import NamedTuple, Protocol, cast

import httpx2
from msgspec import Struct

from accredit.a2a.shapes import VERSION
from accredit.base.version import version_text
from accredit.gateway.settings import Proxy
from accredit.http_api.call import HttpCall
from accredit.http_api.wire import PROOF_HEADER, encode_proof_header
from accredit.jsonrpc.encode import to_json
from accredit.jsonrpc.methods import AGENT_SKILL, META_CAPABILITIES, META_CLIENT_INFO, META_VERSION, Era
from accredit.limits import MAX_REFUSAL_BYTES
from accredit.ops.drill_agents import mcp_call
from accredit.policy.agent_call import PROTOCOL, AgentCall
from accredit.policy.drill import DRILL_PASSED, DRILL_PATHS, DRILLS
from accredit.policy.guarded_call import PROOF, GuardedCall, payload_digest
from accredit.ratify import ProofBundle
from accredit.tokens.carried import Source

_REVISIONS = {Era.LEGACY: "2025-11-25", Era.MODERN: "2026-07-28"}
_SEND = "SendMessage"
_PATHS = dict(zip(sorted(DRILLS), (path.decode("ascii") for path in sorted(DRILL_PATHS)), strict=True))
"""The path of the route that stands for each tool."""
_ASKING: dict[Proxy, tuple[str, str]] = {
    "nginx": ("x-original-method", "x-original-uri"),
    "traefik": ("x-forwarded-method", "x-forwarded-uri"),
    "caddy": ("x-forwarded-method", "x-forwarded-uri"),
}
"""The headers in which each proxy names the request that it asks about. Envoy needs none: its question itself has that
request's method and path."""

Params = dict[str, object]


class DrillAnswer(NamedTuple):
    """An answer: a `result`, or an error's `code` and word. `status` is 0 if there was no readable answer."""

    status: int
    code: int | None = None
    error: str = ""
    result: Mapping[str, object] | None = None
    data: Mapping[str, object] = {}


class Endpoint(Struct, frozen=True, kw_only=True):
    """An endpoint under test. `host` is its `Host` header if that differs from the one in `url`. `tokens` says where
    the endpoint looks for tokens: in the header or in `_meta`, or None."""

    server: str
    url: str
    host: str
    gateway_id: str
    binding_required: bool
    tokens: Source | None
    token_required: bool
    bind_agent: bool


class Road(Protocol):
    """A way to an endpoint. `name` is what the report calls it: an era, or a protocol."""

    endpoint: Endpoint
    name: str
    has_sessions: bool
    asks_back: bool
    """Whether a call can be answered with a state that it has to bring back."""
    signs_arguments: bool

    def call_of(self, params: Mapping[str, object], session: str) -> GuardedCall:
        """Return the call that an agent signs."""
        ...

    async def send(self, params: Params, proof: ProofBundle | None, token: str) -> DrillAnswer:
        """Make a call of a drill: `params` are a tool's name and its arguments. Raises nothing for a bad answer."""
        ...


class McpRoad:
    """Calls tools over MCP ([mcp])."""

    has_sessions = signs_arguments = True

    def __init__(self, client: httpx2.AsyncClient, endpoint: Endpoint, era: Era) -> None:
        self.endpoint = endpoint
        self.name = era.value
        self.asks_back = era is Era.MODERN
        self._client = client
        self._era = era

    def call_of(self, params: Mapping[str, object], session: str) -> GuardedCall:
        """Return the call that an agent signs."""
        return mcp_call(params, session)

    async def send(self, params: Params, proof: ProofBundle | None, token: str) -> DrillAnswer:
        """Make a call of a tool."""
        meta: Params = {} if proof is None else {PROOF: proof.to_dict()}
        headers = {"mcp-protocol-version": _REVISIONS[self._era]}
        if self._era is Era.MODERN:
            headers |= {"mcp-method": "tools/call", "mcp-name": cast("str", params["name"])}
            meta = {**meta, META_VERSION: _REVISIONS[self._era], META_CAPABILITIES: {}}
            meta[META_CLIENT_INFO] = {"name": "accredit drill", "version": version_text()}
        if token and self.endpoint.tokens == "header":
            headers["authorization"] = f"Bearer {token}"
        elif token and self.endpoint.tokens == "meta":
            meta = {**meta, "token": token}
        elif token:
            params = {**params, "arguments": {**cast("Params", params["arguments"]), "_token": token}}
        sent = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {**params, "_meta": meta}}
        content = json.dumps(sent, separators=(",", ":")).encode()
        headers["content-type"] = "application/json"
        return _rpc_answer(*await _ask(self._client, self.endpoint, "POST", self.endpoint.url, content, headers))


class AgentRoad:
    """The road of an agent ([a2a])."""

    name = PROTOCOL
    has_sessions = asks_back = False
    signs_arguments = True

    def __init__(self, client: httpx2.AsyncClient, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._client = client

    def call_of(self, params: Mapping[str, object], session: str) -> GuardedCall:
        """Return the message that an agent signs. It is in no session."""
        sent = _message(params)
        return AgentCall(_SEND, cast("str", params["name"]), session, payload_digest(sent), sent, None)

    async def send(self, params: Params, proof: ProofBundle | None, token: str) -> DrillAnswer:
        """Send a message."""
        headers = {"content-type": "application/json", "a2a-version": VERSION, **_credentials(proof, token)}
        content = to_json({"jsonrpc": "2.0", "id": 1, "method": _SEND, "params": _message(params)})
        return _rpc_answer(*await _ask(self._client, self.endpoint, "POST", self.endpoint.url, content, headers))


class ApiRoad:
    """The road of an HTTP API ([http]), or of the proxy in front of one ([authorize])."""

    has_sessions = asks_back = False

    def __init__(self, client: httpx2.AsyncClient, endpoint: Endpoint, path: str, proxy: Proxy | None) -> None:
        """`path` is the API's path on the gateway. Proofs cover it, but not the path for a proxy's questions."""
        self.endpoint = endpoint
        self.name = "http" if proxy is None else "authorize"
        self.signs_arguments = proxy is None
        self._client = client
        self._path = path if proxy is None else ""
        self._proxy = proxy

    def call_of(self, params: Mapping[str, object], session: str) -> GuardedCall:
        """Return the request that an agent signs. It is in no session."""
        return HttpCall(
            method="POST",
            target="",
            session_id=session,
            digest=sha256(self._body(params)).digest(),
            arguments={},
            proof=None,
            protocol="http" if self._proxy is None else "authorize",
            requested_path=self._path + _PATHS[cast("str", params["name"])],
        )

    async def send(self, params: Params, proof: ProofBundle | None, token: str) -> DrillAnswer:
        """Make a request, or ask about it."""
        path = _PATHS[cast("str", params["name"])]
        url, method, headers = self.endpoint.url, "POST", {"content-type": "application/json"}
        if self._proxy in _ASKING:
            method, headers = "GET", dict(zip(_ASKING[self._proxy], ("POST", path), strict=True))
        else:
            url += path
        headers |= _credentials(proof, token)
        status, body = await _ask(self._client, self.endpoint, method, url, self._body(params), headers)
        problem = _read_object(body)
        if status == 204 or (status == 403 and problem.get("error") == DRILL_PASSED):
            return DrillAnswer(status, result={})
        return _refusal(status, problem)

    def _body(self, params: Mapping[str, object]) -> bytes:
        return to_json(params["arguments"]) if self._proxy is None else b""


def _message(params: Mapping[str, object]) -> Params:
    """Return the params of a message for the skill that stands for a tool."""
    parts = [{"text": to_json(params["arguments"]).decode()}]
    message = {"messageId": "drill", "role": "ROLE_USER", "parts": parts}
    return {"message": message, "metadata": {AGENT_SKILL: params["name"]}}


def _credentials(proof: ProofBundle | None, token: str) -> dict[str, str]:
    """Return the headers with a proof and a token, as far as there are any."""
    headers = {"authorization": f"Bearer {token}"} if token else {}
    if proof is not None:
        headers[PROOF_HEADER] = encode_proof_header(to_json(proof.to_dict())).decode("ascii")
    return headers


async def _ask(
    client: httpx2.AsyncClient, endpoint: Endpoint, method: str, url: str, content: bytes, headers: dict[str, str]
) -> tuple[int, bytes]:
    """Send a request, and return its answer's status and body; 0 if there is none that could be read ([bound])."""
    if endpoint.host:
        headers["host"] = endpoint.host
    try:
        async with (
            asyncio.timeout(client.timeout.read),  # of the whole: byte by byte, one could last for ever
            client.stream(method, url, content=content, headers=headers) as answer,
        ):
            body = bytearray()
            async for chunk in answer.aiter_bytes():
                body += chunk
                if len(body) > MAX_REFUSAL_BYTES:
                    return 0, b""
            return answer.status_code, bytes(body)
    except (httpx2.HTTPError, httpx2.StreamError, OSError):
        return 0, b""


def _rpc_answer(status: int, body: bytes) -> DrillAnswer:
    """Return the result or the error of a JSON-RPC response."""
    message = _read_object(body)
    if "result" in message:
        return DrillAnswer(status, result=object_in(message["result"]))
    return _refusal(status, object_in(message.get("error")))


def _refusal(status: int, error: Mapping[str, object]) -> DrillAnswer:
    """Return the code, word and data of a JSON-RPC error, or of a problem document with the same members."""
    code, data = error.get("code"), object_in(error.get("data"))
    word = data.get("error")
    known = code if isinstance(code, int) and not isinstance(code, bool) else None
    return DrillAnswer(status, known, word if isinstance(word, str) else "", data=data)


def _read_object(body: bytes) -> Mapping[str, object]:
    try:
        return object_in(json.loads(body))
    except (ValueError, RecursionError):
        return {}


def object_in(value: object) -> Mapping[str, object]:
    """Return a JSON object, or an empty one for any other text."""
    return cast("Mapping[str, object]", value) if isinstance(value, dict) else {}
