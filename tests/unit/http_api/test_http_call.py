"""A proof for a request is good for that request alone: no other, at no other gateway, by no other protocol."""

from base64 import b64decode
from hashlib import sha256
from typing import Any

import pytest
from msgspec.structs import replace
from tests.unit.ratify.world import NOW, constraint
from tests.world.decisions import Deployment, call, draw, granted, prove, with_proof

from accredit.consent.call import CallTerms
from accredit.http_api.call import HttpCall, http_call
from accredit.http_api.facts import http_facts
from accredit.http_api.routes import RouteMatch, RouteTable
from accredit.http_api.targets import read_target
from accredit.http_api.wire import encode_proof_header
from accredit.policy.catalog import Catalog, Entry
from accredit.policy.quotas import Quota, Quotas
from accredit.ratify import ProofBundle, encode_proof_bundle

ROUTES = {
    "GET /messages": Entry(scope="email:read"),
    "POST /messages/{id}/send": Entry(scope="email:send"),
    "DELETE /messages/{id}": Entry(scope="comms:email:delete"),
    "POST /pay": Entry(
        scope="payments:send", facts=http_facts({"amount": "body:/amount", "currency": "query:currency"})
    ),
}
TABLE = RouteTable(ROUTES)
CATALOG = Catalog(routes=ROUTES)
VERIFIER = "mail-gateway/api"


def deployment(**changes: Any) -> Deployment:
    return Deployment(verifier_id=VERIFIER, catalog=CATALOG, binding_required=True, server="api", **changes)


def request(
    method: str = "GET",
    target: str = "/messages",
    body: bytes = b"",
    *,
    proofs: tuple[bytes, ...] = (),
    protocol: Any = "http",
    json_body: bool = False,
) -> HttpCall:
    read = read_target(target.encode())
    match = TABLE.find(method, read)
    entry = CATALOG.find(method, match.route) if match is not None else None
    return http_call(protocol, method, read, match, entry, proofs, body, json_body=json_body)


def bundle(to: HttpCall, verifier: str = VERIFIER, **more: Any) -> ProofBundle:
    entry = CATALOG.find(to.method, to.target)
    return prove(to=to, scope=entry.scope if entry is not None else "", verifier=verifier, **more)


def proven(to: HttpCall, **more: Any) -> HttpCall:
    found = with_proof(to, bundle(to, **more))
    assert isinstance(found, HttpCall)
    return found


def test_a_proof_for_a_request_allows_it_once() -> None:
    api = deployment()
    asked = proven(request("POST", "/messages/5/send?now=1", b"hello"))
    assert api.decides(asked).refusal is None
    assert api.error(asked) == "ratify_replayed"


@pytest.mark.holds("http_api/call", "binding")
@pytest.mark.parametrize(
    "other",
    [
        request("POST", "/messages/5/send", b"hello"),
        request("POST", "/messages/6/send?now=1", b"hello"),
        request("POST", "/messages/5/send?now=1", b"hellO"),
        request("POST", "/messages/5/send?now=1"),
        request("DELETE", "/messages/5", b"hello"),
    ],
)
def test_it_is_good_for_no_other_request(other: HttpCall) -> None:
    asked = proven(request("POST", "/messages/5/send?now=1", b"hello"))
    error = deployment().error(replace(other, proof=asked.proof))
    assert error == "ratify_invalid"


@pytest.mark.holds("http_api/call", "binding")
def test_it_is_good_at_no_other_server() -> None:
    asked = proven(request(), verifier="mail-gateway/other")
    assert deployment().error(asked) == "ratify_invalid"
    assert deployment().error(proven(request(), verifier="mail-gateway")) == "ratify_invalid"


@pytest.mark.holds("http_api/call", "protocol")
def test_a_proof_for_one_protocol_is_good_at_no_other__in_both_directions() -> None:
    http, authorize = request(protocol="http"), request(protocol="authorize")
    assert deployment().error(replace(authorize, proof=proven(http).proof)) == "ratify_invalid"
    assert deployment().error(replace(http, proof=proven(authorize).proof)) == "ratify_invalid"
    # MCP's, bound and unbound, at HTTP
    listing = call("list_inbox")
    for proof in (prove(granted(), to=listing, verifier=VERIFIER), prove(granted())):
        assert deployment().error(with_proof(http, proof)) == "ratify_invalid"
        assert deployment().error(with_proof(authorize, proof)) == "ratify_invalid"
    # HTTP's at MCP, where binding is optional
    mcp = Deployment(verifier_id=VERIFIER)
    assert mcp.error(with_proof(listing, prove(granted(), to=listing, verifier=VERIFIER))) == ""
    for each in (http, authorize):
        assert mcp.error(with_proof(listing, bundle(each))) == "ratify_invalid"


@pytest.mark.holds("http_api/call", "protocol")
def test_a_challenge_for_one_protocol_s_server_is_none_at_another() -> None:
    api, other = deployment(), deployment()
    other.store = api.store
    asked = request("DELETE", "/messages/5")
    refusal = api.decides(asked).refusal
    assert refusal is not None
    assert refusal.error == "ratify_challenge_required"
    other.policy = replace(api.policy, server="mail")
    issued = refusal.data["_meta"]["ratify_challenge"]  # pyright: ignore[reportIndexIssue]
    challenge = b64decode(issued["challenge"])  # pyright: ignore[reportUnknownArgumentType]
    assert other.error(proven(asked, challenge=challenge)) == "ratify_challenge_required"
    assert api.error(proven(asked, challenge=challenge)) == ""


@pytest.mark.holds("http_api/call", "one-header")
def test_a_proof_in_another_form_is_invalid__and_not_missing() -> None:
    good = encode_proof_header(encode_proof_bundle(bundle(request())))
    assert deployment().error(request(proofs=(good,))) == ""
    for proofs in ((good, good), (good + b"=",), (b"",), (b"a", good), (good[1:],)):
        assert deployment().error(request(proofs=proofs)) == "ratify_invalid"
    assert deployment().error(request()) == "missing_ratify_proof"


def test_a_client_is_told_where_a_proof_goes__and_a_route_that_nobody_named_is_refused_first() -> None:
    missing = deployment().decides(request()).refusal
    assert missing is not None
    assert "the header Ratify-Proof" in missing.message
    unknown = deployment().decides(request("PATCH", "/messages", proofs=(b"x",))).refusal
    assert unknown is not None
    assert (unknown.error, unknown.code) == ("unknown_route", -32602)
    assert "/messages" not in unknown.message


def test_constraints_and_quotas_see_the_facts_of_the_request() -> None:
    chain = granted(constraints=(constraint(type="max_amount", max_amount=10, currency="EUR"),))

    def pay(amount: str, **how: Any) -> str:
        to = request("POST", "/pay?currency=EUR", b'{"amount":%b}' % amount.encode(), json_body=True, **how)
        return deployment().error(with_proof(to, prove(chain, to=to, scope="payments:send", verifier=VERIFIER)))

    assert pay("10") == ""
    assert pay("11") == "ratify_constraint_denied"
    assert pay('1,"amount":11') == "ratify_constraint_unverifiable"
    quota = Quota(by="agent", tools=frozenset({"GET /messages"}), window_s=60, window="60s", most=1)
    api = deployment(quotas=Quotas((quota,), "api"))
    assert [api.error(proven(request(), at=NOW, challenge=draw())) for _ in range(2)] == ["", "quota_exceeded"]


@pytest.mark.holds("http_api/call", "path-kept-short")
def test_what_is_kept_names_no_path() -> None:
    asked = request("POST", "/messages/secret/send?q=secret", b"secret")
    kept = asked.signed_context(VERIFIER, "agent", "email:send")
    assert kept.requested_path == "sha256:" + sha256(b"/messages/secret/send?q=secret").hexdigest()
    assert "secret" not in repr(kept)
    assert kept.workspace_id == "accredit/http/v1"
    assert asked.target == "POST /messages/{id}/send"


@pytest.mark.holds("http_api/call", "constrained")
@pytest.mark.parametrize("protocol", ["http", "authorize"])
def test_a_certificate_for_one_request_is_for_no_other_path_query_or_body(protocol: Any) -> None:
    body = b'{"to":"ada"}' if protocol == "http" else b""
    asked = request("POST", "/messages/7/send?a=1", body, protocol=protocol)
    digest = asked.call_digest().hex()
    terms = CallTerms(gateway=VERIFIER, method="POST", target=("POST /messages/{id}/send",), params_sha256=digest)
    chain = granted("email:send", constraints=(terms.constraint(),))

    def error(target: str, sent: bytes = body) -> str:
        return deployment().error(proven(request("POST", target, sent, protocol=protocol), chain=chain))

    assert error("/messages/7/send?a=1") == ""
    for other in ("/messages/8/send?a=1", "/messages/7/send?a=2", "/messages/7/send"):
        assert error(other) == "ratify_constraint_denied"
    if protocol == "http":  # a proxy that asks passes no body on
        assert error("/messages/7/send?a=1", b"other") == "ratify_constraint_denied"
    # What bound the body alone, before paths were covered, is for no request.
    old = CallTerms(gateway=VERIFIER, method="POST", target=terms.target, params_sha256=sha256(body).hexdigest())
    chain = granted("email:send", constraints=(old.constraint(),))
    assert error("/messages/7/send?a=1") == "ratify_constraint_denied"


def test_a_match_without_an_entry_has_no_facts() -> None:
    read = read_target(b"/messages")
    assert http_call("http", "GET", read, RouteMatch("GET /messages", {}), None, ()).arguments == {}
