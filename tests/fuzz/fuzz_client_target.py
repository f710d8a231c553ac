"""What the fuzzer of the client runs: a hostile server's bytes, to an agent that knows a real gateway elsewhere.

Everything between the bytes and the host is the product: messages are read and counted, refusals answered with proofs,
lists looked through, and what goes to a host is written. The oracle: nothing but the promised errors is raised, no
proof is bound to nothing or to the gateway that is known elsewhere, and one request gets a few at most.

Each line of an input is what the server says next. `@ID@` stands for the id of the request that it saw last.
"""

import asyncio
import json
import math
from contextlib import suppress
from itertools import pairwise
from typing import Any

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCRequest, JSONRPCResponse
from tests.fuzz.fuzz_gate_target import Hole
from tests.world.authorization import GATEWAY, SCOPES, Trust

from accredit.client import ProofPresenter
from accredit.client.budgets import Budgets
from accredit.client.headers import RoutingHeaders
from accredit.client.messages import encode_message, read_message
from accredit.client.presenter import MAX_PROOFS_OF_REQUEST
from accredit.client.proving import Prover
from accredit.client.refusals import Caller, explain_refusal, refusal_of
from accredit.client.streams import ProvingTransport
from accredit.errors import FrameError
from accredit.jsonrpc.sse import SseParser
from accredit.keys import SigningKey
from accredit.limits import MAX_ANSWER_BYTES
from accredit.policy.guarded_call import guarded_call_from_values
from accredit.ratify import decode_proof_bundle

URL = "http://stranger.example/mcp"
KNOWN = {"http://gateway.example/mcp": GATEWAY}
TRUST = Trust()
ASKED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("tools/list", {}),
    ("tools/call", {"name": "list_inbox", "arguments": {}}),
    ("resources/read", {"uri": "mail://inbox"}),
)
_KEY = SigningKey(TRUST.agent.public(), TRUST.agent.signer())
_CHAINS = [TRUST.chain("email:read", "mcp:resource"), TRUST.chain("email:send", "payments:send")]


def _refusal(code: int, word: str, scope: str, meta: dict[str, Any]) -> bytes:
    data = {"error": word, "required_scope": scope, "target": "list_inbox", "_meta": meta}
    message = {"jsonrpc": "2.0", "id": "@ID@", "error": {"code": code, "message": word, "data": data}}
    return json.dumps(message).replace('"@ID@"', "@ID@").encode()


def _result(result: dict[str, Any]) -> bytes:
    return b'{"jsonrpc":"2.0","id":@ID@,"result":%b}' % json.dumps(result).encode()


def _challenge(id: str) -> dict[str, Any]:
    nonce = "bm5ubm5ubm5ubm5ubm5ubm5ubm5ubm5ubm5ubm5ubm4="
    return {"ratify_challenge": {"challenge": nonce, "expires_at": 4_102_444_800, "verifier_id": id}}


def corpus() -> dict[str, bytes]:
    """What the fuzzer begins with, by name; `claims` and `challenges` get proofs that are bound to the stranger."""
    listed = {"tools": [{"name": "list_inbox", "inputSchema": {}, "_meta": {"ratify_scope": "email:read"}}]}
    missing = ("missing_ratify_proof", "email:read")
    stranger, known = {"ratify_verifier": "evil"}, {"ratify_verifier": GATEWAY}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": {"requestedSchema": {}}}
    return {
        "answers": b"\n".join([_result(listed), _result({"content": []}), _result({"contents": []})]),
        "claims": b"\n".join([_result(listed), *[_refusal(-31001, *missing, stranger)] * 3]),
        "challenges": b"\n".join([_result(listed), *[_refusal(-31002, "x", "email:read", _challenge("evil"))] * 9]),
        "poses": b"\n".join([_result(listed), *[_refusal(-31001, *missing, known)] * 3]),
        "poses-later": b"\n".join([_result(listed), *[_refusal(-31002, "x", "email:read", _challenge(GATEWAY))] * 9]),
        "refuses": b"\n".join(
            _refusal(-31003, word, scope, stranger)
            for word in ("ratify_scope_denied", "ratify_constraint_denied")
            for scope in SCOPES.values()
        ),
        "asks": b"\n".join([json.dumps(asked).encode()] * 3 + [b'data: {"jsonrpc":"2.0","method":"x"}', b"", b"[[[["]),
    }


class _Server:
    """Takes what the client writes."""

    def __init__(self) -> None:
        self.sent: list[JSONRPCRequest] = []

    async def send(self, item: SessionMessage) -> None:
        if isinstance(item.message, JSONRPCRequest):
            self.sent.append(item.message)


def one_input(data: bytes) -> tuple[int, int]:
    """One run of the fuzzer: how many messages came through, and how many proofs went out. Whatever raises here is a
    defect."""
    return asyncio.run(_connection(data.split(b"\n")))


async def _connection(lines: list[bytes]) -> tuple[int, int]:
    presenter = ProofPresenter(_KEY, _CHAINS)
    presenter._met = dict(KNOWN)  # pyright: ignore[reportPrivateUsage]
    server, budgets, told = _Server(), Budgets(), 0
    transport: Any = ProvingTransport(None, Prover(presenter, URL), heard=budgets.heard)  # pyright: ignore[reportArgumentType]
    transport._write = server
    transport._to_host, refusals = anyio.create_memory_object_stream[Any](math.inf)
    with suppress(FrameError):
        list(SseParser(MAX_ANSWER_BYTES).feed(b"\n".join(lines)))
    waiting, firsts = iter(lines), list[int]()
    async with transport._to_host, refusals, anyio.create_task_group() as transport._tasks:
        for number, (method, params) in enumerate(ASKED):
            request = JSONRPCRequest(jsonrpc="2.0", id=number, method=method, params=params)
            firsts.append(len(server.sent))
            changed = transport._sent(SessionMessage(request))
            if changed is None:
                break  # it poses as a gateway that is known elsewhere
            await server.send(changed)
            answered = False
            while not answered and (line := next(waiting, None)) is not None:
                message = await _heard(
                    line.replace(b"@ID@", json.dumps(server.sent[-1].id).encode()), transport, budgets
                )
                await asyncio.sleep(0)
                answered = message is not None and getattr(message, "id", None) == number
                told += message is not None
                _look_at(message, method, presenter)
    for first, end in pairwise([*firsts, len(server.sent)]):
        check_proofs(server.sent[first:end])
    return told, sum(_proof_in(each) is not None for each in server.sent)


async def _heard(line: bytes, transport: Any, budgets: Budgets) -> Any:
    try:
        item = budgets.heard(await read_message(line))
    except FrameError:
        return None
    passed = None if item is None else await transport._answered(item)
    return passed.message if isinstance(passed, SessionMessage) else None


def _look_at(message: Any, method: str, presenter: ProofPresenter) -> None:
    """What `connect` does with a message."""
    if message is None:
        return
    json.loads(encode_message(message))
    if isinstance(message, JSONRPCResponse):
        RoutingHeaders().learn(method, message.result)
    if isinstance(message, JSONRPCError) and (refusal := refusal_of(message.error)) is not None:
        explain_refusal(refusal, Caller(presenter, URL), method, "list_inbox")


def _proof_in(request: JSONRPCRequest) -> Any:
    return ((request.params or {}).get("_meta") or {}).get("ratify_proof")


def check_proofs(sent: list[JSONRPCRequest]) -> None:
    """Raises `Hole` for a proof that is good at another gateway, and for too many of one request."""
    proofs = [(each, proof) for each in sent if (proof := _proof_in(each)) is not None]
    if len(proofs) > MAX_PROOFS_OF_REQUEST:
        raise Hole(f"{len(proofs)} proofs of one request")
    for request, proof in proofs:
        bundle = decode_proof_bundle(json.dumps(proof).encode())
        call = guarded_call_from_values(request.method, request.params or {}, "", None)
        scopes = {"", "mcp:resource", *SCOPES.values(), *(scope for cert in bundle.delegations for scope in cert.scope)}
        if bundle.session_context in {
            b"",
            *(call.session_context(GATEWAY, bundle.agent_id, scope) for scope in scopes),
        }:
            raise Hole("a proof that a real gateway takes")
