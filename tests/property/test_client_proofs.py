"""What an agent signs is what a gateway reads, whatever is in the call; and nothing that a gateway says breaks it."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp.shared.message import SessionMessage
from mcp_types import ErrorData, JSONRPCError, JSONRPCRequest, JSONRPCResponse, jsonrpc_message_adapter
from pydantic import ValidationError
from tests.world.authorization import GATEWAY, Trust

from accredit.client import ProofPresenter
from accredit.client.headers import RoutingHeaders
from accredit.client.proving import Prover
from accredit.client.refusals import explained, refusal_of
from accredit.client.streams import ProvingTransport
from accredit.errors import RequestError
from accredit.jsonrpc.frames import Request
from accredit.jsonrpc.requests import decode_request
from accredit.keys import SigningKey
from accredit.policy import guarded_call_of
from accredit.ratify import decode_proof_bundle

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

    def start_soon(self, _: object, item: SessionMessage) -> None:
        self.sent.append(item.message)


def asking(presenter: ProofPresenter, request: JSONRPCRequest) -> ProvingTransport:
    transport = wrapped(presenter)
    transport._tasks = Wire()  # pyright: ignore[reportAttributeAccessIssue]
    transport._sent(SessionMessage(request))
    return transport


@given(
    method=st.sampled_from(["tools/call", "tools/list", "resources/read"]),
    errors=st.lists(st.tuples(st.sampled_from([-31001, -31002, -31003, -31004, -32000]), HOSTILE | JSON), max_size=6),
)
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
        assert refusal is None or "Not allowed" in explained(refusal, presenter)
        break
    assert len(wire.sent) <= 2


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
