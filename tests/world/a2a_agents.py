"""An agent that speaks A2A 1.0, scripted, and a gateway in front of it. I/O: loopback."""

import json
import threading
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from secrets import token_bytes
from typing import Any, NamedTuple, Self

import httpx2
from tests.world.a2a import CATALOG, SCOPE, VERSIONS, said, task, update
from tests.world.authorization import GATEWAY, Trust
from tests.world.decisions import Known
from tests.world.running import RunningGateway

from accredit.a2a.call import call_of
from accredit.a2a.requests import read_request
from accredit.base.clock import unix_seconds
from accredit.base.steps import at_one_go
from accredit.gateway import create_app
from accredit.gateway.settings import AgentSettings, ApiUpstream, GatewaySettings, HttpUpstream, ProofSettings
from accredit.http_api.routes import RouteTable
from accredit.http_api.wire import encode_proof_header
from accredit.ratify import DelegationCert, encode_proof_bundle, present
from accredit.stores import MemoryStore

NAME = "helper"
VERIFIER = f"{GATEWAY}/{NAME}"
PATH = "/agents/helper"
ALL = ("email:read", "email:send", "comms:email:delete")
CARD = {
    "name": "Helper",
    "description": "Helps",
    "version": "1",
    "supportedInterfaces": [{"url": "http://10.0.0.5", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
    "capabilities": {"streaming": True},
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": [{"id": id, "name": id, "description": id, "tags": []} for id in ("summarize", "wipe")],
}

Says = Callable[[dict[str, Any]], object]


class Raw(NamedTuple):
    """What an agent answers as it is: its type, and its pieces."""

    kind: str
    pieces: Iterable[bytes]
    status: int = 200


def events(*results: object, id: object = 1) -> Raw:
    """A stream of results."""
    return Raw(
        "text/event-stream",
        [
            b"data: " + json.dumps({"jsonrpc": "2.0", "id": id, "result": each}).encode() + b"\r\n\r\n"
            for each in results
        ],
    )


class ScriptedAgent:
    """An agent that keeps the tasks that it has made, and lets a test say what else it answers (`says`). It notes each
    request and its headers."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.tasks: dict[str, dict[str, object]] = {}
        self.says: Says = self.answer
        self.card: object = CARD
        agent = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                agent.seen.append({"path": self.path})
                self._send(Raw("application/json", [json.dumps(agent.card).encode()]))

            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
                agent.seen.append(asked)
                agent.headers.append({name.lower(): value for name, value in self.headers.items()})
                said = agent.says(asked)
                if not isinstance(said, Raw):
                    whole = {"jsonrpc": "2.0", "id": asked["id"], "result": said}
                    said = Raw("application/json", [json.dumps(whole).encode()])
                self._send(said)

            def _send(self, said: Raw) -> None:
                self.send_response(said.status)
                self.send_header("content-type", said.kind)
                self.send_header("connection", "close")
                self.end_headers()
                for piece in said.pieces:
                    self.wfile.write(piece)
                    self.wfile.flush()

            def log_message(self, format: str, *args: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]

    def answer(self, asked: dict[str, Any]) -> object:
        """What a simple agent answers: each message that names no task makes one."""
        params, method = asked["params"], asked["method"]
        if method in ("SendMessage", "SendStreamingMessage"):
            id = params["message"].get("taskId") or f"t-{len(self.tasks) + 1}"
            context = params["message"].get("contextId") or f"c-{id}"
            self.tasks[id] = task(id, context)
            if method == "SendMessage":
                return {"task": self.tasks[id]}
            return events({"task": self.tasks[id]}, update(id, context), id=asked["id"])
        if method == "ListTasks":
            return {"tasks": [*self.tasks.values()], "nextPageToken": "", "pageSize": 50, "totalSize": len(self.tasks)}
        if method == "GetExtendedAgentCard":
            return self.card
        if method == "SubscribeToTask":
            return events({"task": self.tasks[params["id"]]}, id=asked["id"])
        if method in ("GetTask", "CancelTask"):
            return self.tasks[params["id"]]
        return {"message": said()}

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def proof_for(
    trust: Trust,
    body: bytes,
    *,
    scope: str | None = None,
    verifier: str = VERIFIER,
    chain: Iterable[DelegationCert] | None = None,
    challenge: bytes | None = None,
) -> str:
    """The value of the header with a proof for one request."""
    call = call_of(at_one_go(read_request(body, VERSIONS)))
    needs = SCOPE if call.sends or call.changes_task else ""
    context = call.session_context(verifier, trust.agent.id, needs if scope is None else scope)
    found = tuple(chain) if chain is not None else trust.chain(*ALL, known=("comms:email:delete",))
    made = present(found, trust.agent.signer(), challenge or token_bytes(32), unix_seconds(), session_context=context)
    return encode_proof_header(encode_proof_bundle(made)).decode()


class AgentScene(NamedTuple):
    """An agent behind a gateway, and the owner whose word counts there."""

    agent: ScriptedAgent
    url: str
    trust: Trust

    async def post(
        self, method: str, params: object, *, id: object = 1, headers: Any = (), trust: Trust | None = None, **how: Any
    ) -> httpx2.Response:
        """The answer to a request with a proof; with `bare`, without one."""
        body = json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode()
        fields = {"content-type": "application/json", "a2a-version": "1.0", **dict(headers)}
        if not how.pop("bare", False):
            fields.setdefault("ratify-proof", proof_for(trust or self.trust, body, **how))
        async with httpx2.AsyncClient() as client:
            return await client.post(self.url, content=body, headers=fields)

    async def ask(self, method: str, params: object, **how: Any) -> dict[str, Any]:
        """The response to a request, which has status 200."""
        response = await self.post(method, params, **how)
        assert response.status_code == 200, response.text
        return response.json()


@asynccontextmanager
async def agent_scene(
    *,
    policy: dict[str, Any] | None = None,
    agent: AgentSettings | None = None,
    trust: Trust | None = None,
    **more: Any,
) -> AsyncGenerator[AgentScene]:
    """A scripted agent behind a gateway in this process."""
    trust = trust or Trust()
    given: dict[str, Any] = {"store": MemoryStore(), "revocations": Known()}
    given |= {name: more.pop(name) for name in ("store", "records", "tasks", "key_sets") if name in more}
    more |= {"records": more.pop("record")} if "record" in more else {}
    with ScriptedAgent() as scripted:
        behind = HttpUpstream(f"http://127.0.0.1:{scripted.port}/rpc")
        upstream = ApiUpstream("a2a", RouteTable(()), None, behind, (), agent or AgentSettings())
        terms = {
            "verifier_id": VERIFIER,
            "catalog": CATALOG,
            "binding_required": True,
            "server": NAME,
            **(policy or {}),
        }
        proofs = ProofSettings(trust.policy(**terms), required=not terms.get("observes"))
        settings = GatewaySettings(upstream, server=NAME, proofs=proofs, path=PATH, **more)
        async with RunningGateway(create_app([settings], **given)) as gateway:
            yield AgentScene(scripted, f"http://127.0.0.1:{gateway.port}{PATH}", trust)
