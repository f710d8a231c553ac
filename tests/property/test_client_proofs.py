"""What an agent signs is what a gateway reads, whatever is in the call; and nothing that a gateway says breaks it."""

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mcp.shared.message import SessionMessage
from mcp_types import ErrorData, JSONRPCError, JSONRPCRequest, JSONRPCResponse, jsonrpc_message_adapter
from pydantic import ValidationError
from tests.world.authorization import GATEWAY, Trust

from accredit.base.clock import unix_seconds
from accredit.client import ProofPresenter
from accredit.client.headers import RoutingHeaders
from accredit.client.presenter import MAX_PROOFS_OF_REQUEST
from accredit.client.proving import Prover, TokenTakers
from accredit.client.refusals import Caller, explain_refusal, refusal_of
from accredit.client.streams import ProvingTransport
from accredit.errors import ProofRefused, RequestError
from accredit.jsonrpc.frames import Request
from accredit.jsonrpc.requests import decode_request
from accredit.keys import SigningKey
from accredit.policy.guarded_call import guarded_call_from_values, guarded_call_of
from accredit.ratify import decode_proof_bundle
from accredit.refusals import BY_WORD

pytestmark = pytest.mark.slow

SESSION = "5e551017"
SCALARS = st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False)
JSON: st.SearchStrategy[Any] = st.recursive(
    SCALARS | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(["list_inbox", "\u20ac", "a b", ""]) | st.text(max_size=6)


@pytest.fixture(scope="module")
def presenter() -> ProofPresenter:
    trust = Trust()
    return ProofPresenter(SigningKey(trust.agent.public(), trust.agent.signer()), [trust.chain()], gateway_id=GATEWAY)


@pytest.fixture(scope="module")
def agent() -> Callable[[str], ProofPresenter]:
    """Makes an agent's presenter, of delegations of which several cover each scope, for the gateway that it names."""
    trust = Trust()
    grants = [("email:read", "email:send"), ("email:send", "payments:send"), ("payments:send", "email:read")] * 2
    key, chains = SigningKey(trust.agent.public(), trust.agent.signer()), [trust.chain(*scopes) for scopes in grants]
    return lambda gateway_id: ProofPresenter(key, chains, gateway_id=gateway_id)


def wrapped(presenter: ProofPresenter) -> ProvingTransport:
    """The transport, not connected: what it makes of messages needs no wire."""
    return ProvingTransport(None, Prover(presenter, session_id=lambda: SESSION))  # pyright: ignore[reportArgumentType]


@given(uri=NAMES, more=st.dictionaries(st.text(max_size=6), JSON, max_size=3), meta=st.none() | st.just({"a": 1}))
@settings(max_examples=80)
def test_a_gateway_reads_from_the_wire_what_was_signed(
    presenter: ProofPresenter, uri: str, more: dict[str, Any], meta: dict[str, Any] | None
) -> None:
    params = {**more, "uri": uri} | ({} if meta is None else {"_meta": meta})
    request = JSONRPCRequest(jsonrpc="2.0", id=7, method="resources/read", params=params)
    item = wrapped(presenter)._sent(SessionMessage(request))
    assert item is not None
    sent = item.message
    # As the SDK's transport writes it: see `StreamableHTTPTransport._handle_post_request`.
    text = json.dumps(sent.model_dump(by_alias=True, mode="json", exclude_unset=True), ensure_ascii=False)
    try:
        read = decode_request(text.encode())
        assert isinstance(read, Request)
        asked = guarded_call_of(read, SESSION)
    except (RequestError, UnicodeEncodeError):
        return  # no gateway reads it: nothing could be signed for it
    assert asked is not None
    assert asked.proof is not None
    bundle = decode_proof_bundle(bytes(asked.proof))
    assert bundle.session_context == asked.session_context(GATEWAY, bundle.agent_id, "mcp:resource")


HOSTILE = st.fixed_dictionaries(
    {},
    optional={
        "error": JSON | st.sampled_from(["missing_ratify_proof", "ratify_scope_denied"]),
        "required_scope": JSON | st.sampled_from(["email:read", "a:\ud800"]),
        "target": JSON,
        "_meta": JSON
        | st.fixed_dictionaries(
            {},
            optional={
                "ratify_verifier": JSON | st.just(GATEWAY),
                "ratify_challenge": JSON
                | st.fixed_dictionaries(
                    {
                        "challenge": JSON | st.binary(max_size=40).map(lambda raw: raw.hex()),
                        "expires_at": JSON,
                        "verifier_id": JSON | st.just(GATEWAY),
                    }
                ),
            },
        ),
    },
)


class Wire:
    """Takes what is sent again."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def start_soon(self, _send: object, _stream: object, item: SessionMessage) -> None:
        self.sent.append(item.message)


def asking(presenter: ProofPresenter, request: JSONRPCRequest) -> ProvingTransport:
    transport = wrapped(presenter)
    transport._tasks = transport._write = Wire()  # pyright: ignore[reportAttributeAccessIssue]
    transport._sent(SessionMessage(request))
    return transport


@given(
    method=st.sampled_from(["tools/call", "tools/list", "resources/read"]),
    errors=st.lists(st.tuples(st.sampled_from([-31001, -31002, -31003, -31004, -32000]), HOSTILE | JSON), max_size=6),
)
@example(method="tools/list", errors=[(-31003, None), (-31001, None)] * 3)
@settings(max_examples=80)
def test_no_refusal_breaks_an_agent__and_none_keeps_it_busy(
    presenter: ProofPresenter, method: str, errors: list[tuple[int, Any]]
) -> None:
    request = JSONRPCRequest(jsonrpc="2.0", id=7, method=method, params={"name": "x", "uri": "y"})
    transport = asking(presenter, request)
    wire: Any = transport._tasks
    id: Any = 7
    for code, data in errors:
        told: Any = transport._received(
            SessionMessage(JSONRPCError(jsonrpc="2.0", id=id, error=ErrorData(code=code, message="no", data=data)))
        )
        if told is None:
            id = wire.sent[-1].id
            continue
        assert told.message.id == 7
        refusal = refusal_of(told.message.error)
        assert refusal is None or "Not allowed" in explain_refusal(refusal, Caller(presenter), method, "x")
        break
    assert len(wire.sent) <= 2


def challenge(nonce: bytes, id: str) -> dict[str, object]:
    return {
        "challenge": base64.b64encode(nonce).decode(),
        "expires_at": unix_seconds() + 60,
        "verifier_id": id,
    }


CHALLENGES = st.builds(challenge, st.binary(min_size=32, max_size=32), st.sampled_from([GATEWAY, "another"]))
REFUSALS = st.tuples(
    st.sampled_from([-31001, -31002, -31003, -31004, -31005]),
    st.fixed_dictionaries(
        {
            "error": st.sampled_from([*sorted(BY_WORD), "x"]),
            "required_scope": st.sampled_from(["email:read", "email:send", "payments:send", "files:write"]),
            "_meta": st.fixed_dictionaries(
                {}, optional={"ratify_verifier": st.sampled_from([GATEWAY, "another"]), "ratify_challenge": CHALLENGES}
            ),
        }
    ),
)


@given(
    method=st.sampled_from(["tools/call", "resources/read", "prompts/get"]),
    arguments=st.sampled_from([{}, {"_token": "t"}]),
    place=st.sampled_from(["", "http://gateway.example/mcp", "mail"]),
    pinned=st.sampled_from(["", GATEWAY]),
    errors=st.lists(REFUSALS, min_size=1, max_size=40),
)
@settings(max_examples=60)
def test_whatever_a_hostile_server_refuses_with_its_proofs_are_few__for_one_gateway_and_for_what_was_asked(
    agent: Callable[[str], ProofPresenter],
    method: str,
    arguments: dict[str, str],
    place: str,
    pinned: str,
    errors: list[Any],
) -> None:
    prover = Prover(agent(pinned), place, lambda: SESSION)
    asked: dict[str, object] = {"name": "x", "arguments": arguments, "uri": "y"}
    attempt = prover.attempt(method, asked)
    assert attempt is not None
    going, proofs, asked_again = prover.proved(attempt), list[dict[str, Any]](), 0
    readings = [guarded_call_from_values(method, each, SESSION, None) for each in TokenTakers().readings(method, asked)]
    for code, data in errors:
        meta: Any = going.get("_meta", {})
        proofs += [meta["ratify_proof"]] if "ratify_proof" in meta else []
        assert {name: value for name, value in going.items() if name != "_meta"} == asked
        try:
            again = prover.again(attempt, code, data)
        except ProofRefused:
            break
        if again is None:
            break
        going, asked_again = again, asked_again + 1
    assert len(proofs) <= MAX_PROOFS_OF_REQUEST
    assert asked_again <= 2 * MAX_PROOFS_OF_REQUEST
    bundles = [decode_proof_bundle(json.dumps(each).encode()) for each in proofs]
    assert not bundles or place or pinned
    ids = {pinned} if pinned else {GATEWAY, "another"}
    scopes = set[str]()
    for bundle in bundles:
        good = [
            (id, scope, call.session_context(id, bundle.agent_id, scope))
            for call in readings
            for id in ids
            for scope in ("email:read", "email:send", "payments:send", "files:write", "mcp:resource", "mcp:prompt")
        ]
        found = [(id, scope) for id, scope, context in good if context == bundle.session_context]
        assert found
        ids = {found[0][0]}  # from the first proof on it is for one gateway
        scopes.add(found[0][1])
    assert len(scopes) <= 2  # what was assumed, and what the server named first


TOOLS = JSON | st.lists(
    JSON
    | st.fixed_dictionaries(
        {},
        optional={
            "name": JSON,
            "inputSchema": JSON,
            "description": JSON,
            "_meta": JSON
            | st.fixed_dictionaries(
                {"ratify_scope": JSON | st.just("email:read")}, optional={"ratify_verifier": JSON | st.just(GATEWAY)}
            ),
        },
    ),
    max_size=4,
)


@given(result=st.fixed_dictionaries({}, optional={"tools": TOOLS, "cacheScope": JSON, "protocolVersion": JSON}))
@settings(max_examples=80)
def test_no_list_breaks_an_agent(presenter: ProofPresenter, result: dict[str, Any]) -> None:
    try:
        message = jsonrpc_message_adapter.validate_python({"jsonrpc": "2.0", "id": 7, "result": result})
    except ValidationError:
        return
    assert isinstance(message, JSONRPCResponse)
    transport = asking(presenter, JSONRPCRequest(jsonrpc="2.0", id=7, method="tools/list", params={}))
    told: Any = transport._received(SessionMessage(message))
    assert told is None or told.message.id == 7
    headers = RoutingHeaders()
    headers.learn("tools/list", result)
    headers.learn("initialize", result)
