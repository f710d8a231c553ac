"""What the gateway answers to a proxy that asks about a request: which request, and whether it may go on."""

import asyncio
import re
from base64 import b64decode
from pathlib import Path
from typing import Any

import jwt
import msgspec
import pytest
from msgspec import Raw
from msgspec.structs import replace
from tests.world.authorization import Trust
from tests.world.decisions import Known
from tests.world.http_apis import (
    KNOWN,
    NAME,
    Answered,
    api_settings,
    ask,
    asked_by,
    proof_for,
)
from tests.world.logs import Log, read, records_in
from tests.world.proved_calls import statement_of
from tests.world.running import run
from tests.world.tokened import Tokened

from accredit.attest import Statement
from accredit.errors import StoreUnavailable
from accredit.gateway import create_app
from accredit.gateway.app import Gateway
from accredit.gateway.settings import AUTHORIZE_PATH, GatewaySettings, IdentitySettings, RecordSettings, TokenSettings
from accredit.keys import make_token_key
from accredit.policy.catalog import Catalog, Entry
from accredit.policy.evidence import Auditor
from accredit.policy.quotas import Quota, Quotas
from accredit.policy.replaying import ReplayConfiguration, Replayer, ServerTerms
from accredit.ratify import DelegationCert
from accredit.ratify.constraints import MaxAmount
from accredit.stores import MemoryStore

pytestmark = pytest.mark.holds("gateway/api_server")

Headers = list[tuple[str, str]]
TRUST = Trust()


def gateway(proxy: str = "nginx", policy: dict[str, Any] | None = None, **more: Any) -> Gateway:
    ports = {name: more.pop(name) for name in ("store", "records", "key_sets") if name in more}
    more |= {"records": more.pop("record")} if "record" in more else {}
    settings: GatewaySettings = api_settings(TRUST, asked_by(proxy), policy, **more)
    given: dict[str, Any] = {"store": MemoryStore(), "revocations": Known(), **ports}
    return create_app([settings], **given)


def of_nginx(method: str, target: str, proof: str | None = None) -> Headers:
    found = [("X-Original-Method", method), ("X-Original-URI", target)]
    return [*found, ("Ratify-Proof", proof)] if proof is not None else found


def answer(headers: Headers, app: Gateway | None = None, **how: Any) -> Answered:
    return asyncio.run(ask(app or gateway(), headers, **how))


def parameters(told: Answered) -> dict[str, str]:
    scheme, _, rest = told.headers["www-authenticate"].partition(" ")
    assert scheme == "Ratify"
    return dict(re.findall(r'(\w+)="([^"]*)"', rest))


READ = ("GET", "/messages")


@pytest.mark.holds("gateway/front/authorize", "answer")
def test_a_request_with_its_proof_goes_on__and_nothing_is_stored_of_any_answer() -> None:
    app = gateway()
    good = of_nginx(*READ, proof_for(TRUST, *READ, "email:read"))
    told = answer(good, app)
    assert (told.status, told.body, told.headers) == (204, b"", {"cache-control": "no-store"})
    again = answer(good, app)
    assert (again.status, again.headers["cache-control"], again.said["error"]) == (401, "no-store", "ratify_replayed")


@pytest.mark.holds("gateway/front/authorize", "answer")
def test_a_refusal_says_what_would_help() -> None:
    told = answer(of_nginx(*READ))
    assert told.status == 401
    assert parameters(told) == {
        "error": "missing_ratify_proof",
        "verifier": "mail-gateway/mail",
        "workspace": "accredit/authorize/v1",
        "scope": "email:read",
        "binding": "required",
    }
    other = answer(of_nginx(*READ, proof_for(TRUST, *READ, "email:read", chain=TRUST.chain("email:send"))))
    assert (other.status, parameters(other)["error"]) == (403, "ratify_scope_denied")
    unknown = answer(of_nginx("PUT", "/messages"))
    assert (unknown.status, parameters(unknown)["error"], unknown.said["code"]) == (403, "unknown_route", -32602)
    unclear = answer(of_nginx("GET", "/messages/../admin"))
    assert (unclear.status, parameters(unclear)["error"], unclear.said["status"]) == (403, "unclear_target", 403)


def test_a_sensitive_route_asks_for_a_challenge__which_is_good_for_that_request_once() -> None:
    app, asked = gateway(), ("DELETE", "/messages/5")
    told = answer(of_nginx(*asked, proof_for(TRUST, *asked, "custom:delete")), app)
    assert (told.status, parameters(told)["error"]) == (401, "ratify_challenge_required")
    challenge = b64decode(parameters(told)["challenge"])
    other = answer(
        of_nginx(
            "DELETE", "/messages/6", proof_for(TRUST, "DELETE", "/messages/6", "custom:delete", challenge=challenge)
        ),
        app,
    )
    assert other.status == 401
    good = of_nginx(*asked, proof_for(TRUST, *asked, "custom:delete", challenge=challenge))
    assert [answer(good, app).status for _ in range(2)] == [204, 401]


@pytest.mark.holds("gateway/front/authorize", "answer")
def test_what_can_t_be_decided_is_a_503() -> None:
    class Broken(MemoryStore):
        async def look(self, *_: Any, **__: Any) -> Any:
            raise StoreUnavailable("gone")

    told = answer(of_nginx(*READ, proof_for(TRUST, *READ, "email:read")), gateway(store=Broken()))
    assert told.status == 503
    assert told.headers["cache-control"] == "no-store"


@pytest.mark.holds("gateway/front/authorize", "family")
@pytest.mark.parametrize("proxy", ["nginx", "caddy", "traefik", "envoy"])
def test_each_proxy_s_request_is_read_where_it_says_it(proxy: str) -> None:
    target = "/messages/7?x=1"
    header = ("Ratify-Proof", proof_for(TRUST, "GET", target, "email:read"))
    if proxy == "envoy":
        told = answer([header], gateway(proxy), path=f"{AUTHORIZE_PATH}{NAME}/messages/7", query="x=1")
    else:
        prefix = "X-Original" if proxy == "nginx" else "X-Forwarded"
        uri = f"{prefix}-URI"
        told = answer([(f"{prefix}-Method", "GET"), (uri, target), header], gateway(proxy), method="POST")
    assert told.status == 204, told.body


@pytest.mark.holds("gateway/admission/api_gate", "target")
@pytest.mark.holds("gateway/front/authorize", "family")
@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("X-Original-Method", "GET")],
        [("X-Original-URI", "/messages")],
        [("X-Forwarded-Method", "GET"), ("X-Forwarded-Uri", "/messages")],
        [*of_nginx(*READ), ("X-Original-URI", "/messages")],
        [*of_nginx(*READ), ("X-Original-Method", "GET")],
        [*of_nginx(*READ), ("X_Original_URI", "/messages")],
        [*of_nginx(*READ), ("X.Original.Method", "GET")],
        [*of_nginx(*READ), ("X-Forwarded-Uri", "/admin/keys")],
        [*of_nginx(*READ), ("X-Forwarded-Method", "DELETE")],
        [*of_nginx(*READ), ("X_Forwarded_Method", "GET")],
        [("X-Original-Method", "GET"), ("X-Original-URI", "")],
        [("X-Original-Method", "GET"), ("X-Original-URI", "http://api/messages")],
        [("X-Original-Method", "GET"), ("X-Original-URI", "//messages")],
        [("X-Original-Method", "get"), ("X-Original-URI", "/messages")],
        [*of_nginx(*READ), ("X-HTTP-Method-Override", "DELETE")],
        [*of_nginx(*READ), ("X_HTTP_Method", "DELETE")],
    ],
)
def test_what_is_not_said_once_and_clearly_is_refused__also_with_a_proof(headers: Headers) -> None:
    told = answer([*headers, ("Ratify-Proof", proof_for(TRUST, *READ, "email:read"))])
    assert told.status == 403


@pytest.mark.holds("gateway/front/authorize", "family")
def test_envoy_s_request_is_not_taken_from_headers_that_a_client_sent() -> None:
    proof = ("Ratify-Proof", proof_for(TRUST, *READ, "email:read"))
    at = {"path": f"{AUTHORIZE_PATH}{NAME}/admin/keys"}
    assert answer([proof, *of_nginx(*READ)], gateway("envoy"), **at).status == 403
    assert answer([proof], gateway("envoy"), path=AUTHORIZE_PATH + NAME).status == 403
    assert answer([proof], gateway("envoy"), path=f"{AUTHORIZE_PATH}{NAME}/messages").status == 204


def test_another_name_is_not_found__and_mcp_is_not_served_here() -> None:
    assert answer(of_nginx(*READ), path=AUTHORIZE_PATH + "other").status == 404
    assert answer(of_nginx(*READ), path=AUTHORIZE_PATH).status == 404


@pytest.mark.holds("gateway/front/authorize", "no-body")
@pytest.mark.parametrize("how", [{"body": b"x"}, {"protocol": "http"}, {"verifier": "mail-gateway"}])
def test_a_proof_for_the_same_request_elsewhere_is_none_here(how: dict[str, Any]) -> None:
    asked = ("POST", "/messages/5/send")
    assert answer(of_nginx(*asked, proof_for(TRUST, *asked, "email:send"))).status == 204
    told = answer(of_nginx(*asked, proof_for(TRUST, *asked, "email:send", **how)))
    assert (told.status, told.said["error"]) == (403, "ratify_invalid")


@pytest.mark.holds("gateway/admission/api_gate", "override")
@pytest.mark.parametrize(
    "query",
    [
        "_method=DELETE",
        "a=1&_METHOD=x",
        "%5fmethod=x",
        "_%6dethod=x",
        ".method=x",
        "[method=x",
        "a;_method=x",
        "+_method=x",
        "%20_method=x",
        "_method[]=x",
        "_method",
        "%EF%BC%BFmethod=x",
        "%ff=1",
    ],
)
def test_a_query_that_names_another_method_is_refused(query: str) -> None:
    target = f"/messages?{query}"
    told = answer(of_nginx("GET", target, proof_for(TRUST, "GET", target, "email:read")))
    assert (told.status, told.said["error"]) == (403, "unclear_target")
    fine = "/messages?method=x&a_method=1"
    assert answer(of_nginx("GET", fine, proof_for(TRUST, "GET", fine, "email:read"))).status == 204


def test_facts_of_the_query_are_held_against_constraints__and_quotas_count_routes() -> None:
    chain = TRUST.chain("payments:send", known=KNOWN, constraints=(MaxAmount(max_amount=10.0, currency="EUR"),))

    def pay(amount: str) -> Answered:
        asked = ("POST", f"/pay?amount={amount}")
        return answer(of_nginx(*asked, proof_for(TRUST, *asked, "payments:send", chain=chain)))

    assert pay("10").status == 204
    assert pay("10.5").said["error"] == "ratify_constraint_denied"
    assert pay("5&amount=50").said["error"] == "ratify_constraint_unverifiable"
    quota = Quota(by="agent", tools=frozenset({"GET /messages"}), window_s=60, window="60s", most=1)
    app = gateway(policy={"quotas": Quotas((quota,), NAME)})
    found = [answer(of_nginx(*READ, proof_for(TRUST, *READ, "email:read")), app) for _ in range(2)]
    assert [each.status for each in found] == [204, 403]
    assert found[1].said["error"] == "quota_exceeded"
    assert int(found[1].headers["retry-after"]) > 0


@pytest.mark.holds("gateway/admission/call_gate", "record")
def test_the_decision_is_one_record__without_path_query_or_outcome(tmp_path: Path) -> None:
    target = "/messages/secret-id?q=secret"

    async def main() -> list[Answered]:
        async with Log(tmp_path / "log.db") as log:
            app = gateway(records=log.port, record=RecordSettings("mail-gateway"))
            good = of_nginx("GET", target, proof_for(TRUST, "GET", target, "email:read"))
            return [
                await ask(app, good),
                await ask(app, of_nginx("GET", target)),
                await ask(app, of_nginx("PUT", target)),
            ]

    found = run(main())
    assert [each.status for each in found] == [204, 401, 403]
    records = records_in(tmp_path / "log.db")
    assert [(each.phase, each.call.protocol, each.call.method, each.call.target) for each in records] == [
        ("decision", "authorize", "GET", "GET /messages/{id}"),
        ("decision", "authorize", "GET", "GET /messages/{id}"),
        ("decision", "authorize", "PUT", ""),
    ]
    assert [each.decision and each.decision.verdict for each in records] == ["allow", "deny", "deny"]
    assert b"secret" not in b"".join(path.read_bytes() for path in tmp_path.glob("log.db*") if path.is_file())


@pytest.mark.holds("gateway/admission/call_gate", "decision")
def test_where_proofs_are_observed_all_goes_on__but_for_what_is_unclear() -> None:
    app = gateway(policy={"observes": True})
    assert answer(of_nginx(*READ), app).status == 204
    assert answer(of_nginx("PUT", "/nowhere"), app).status == 204
    assert answer(of_nginx("GET", "/messages//"), app).status == 403


@pytest.mark.holds("gateway/front/authorize", "identity")
def test_the_api_is_told_on_whose_authority_a_request_comes() -> None:
    key = make_token_key()
    identity = IdentitySettings(key, "mail-gateway", audience=NAME)
    app = gateway(identity=identity)
    told = answer(of_nginx(*READ, proof_for(TRUST, *READ, "email:read")), app)
    claims = jwt.decode(told.headers["accredit-identity"], key.public_key(), ["ES256"], audience=NAME)
    assert claims["sub"] == TRUST.agent.id
    assert "accredit-identity" not in answer(of_nginx(*READ), app).headers
    nobody = answer(of_nginx(*READ), gateway(identity=identity, policy={"observes": True}))
    assert (nobody.status, nobody.headers["accredit-identity"]) == (204, "")


@pytest.mark.holds("policy/evidence", "path")
async def test_the_record_proves_who_signed__to_whoever_says_what_was_asked_for(tmp_path: Path) -> None:
    target = "/messages/7?x=1"

    async with Log(tmp_path / "log.db") as log:
        app = gateway(records=log.port, record=RecordSettings("mail-gateway"))
        await ask(app, of_nginx("GET", target, proof_for(TRUST, "GET", target, "email:read")))
    (record,) = records_in(tmp_path / "log.db")
    with read(tmp_path / "log.db") as log:
        certificates, proof = log.kept_of(record)
        statement = statement_of(log, record)
    assert proof is not None
    people = {TRUST.owner.public_key: "Owner"}
    for said, verified in ((target, True), (None, None), ("/messages/8", None)):
        found = Auditor(people, target=said).judge(statement, certificates, proof)
        assert found is not None
        assert (found.allowed.verified, found.signed.verified) == (True, verified), found
    for said, verified in ((target, True), (None, None), ("/messages/8", False)):
        found = Auditor(people, target=said, one_call=True).judge(statement, certificates, proof)
        assert found is not None
        assert (found.allowed.verified, found.signed.verified) == (True, verified), found
    other = Statement(replace(record, call=replace(record.call, protocol="http")), statement.sha256, statement.version)
    lied = Auditor(people, target=target).judge(other, certificates, proof)
    assert lied is not None
    assert (lied.signed.verified, "protocol" in lied.signed.why) == (False, True)


@pytest.mark.holds("gateway/admission/call_gate", "token")
def test_where_a_token_is_required_a_proof_alone_does_not_do__and_a_token_for_mcp_is_none_here() -> None:
    issuer = Tokened()
    here = "http://127.0.0.1:8484/v1/ratify/authorize/mail"
    tokens = TokenSettings((replace(issuer.issuer, audience=here),), here)
    app = gateway(tokens=tokens, key_sets=issuer.key_sets)

    def sent(authorization: str | None) -> Answered:
        fields = [("Authorization", authorization)] if authorization is not None else []
        return answer([*of_nginx(*READ, proof_for(TRUST, *READ, "email:read")), *fields], app)

    without = sent(None)
    assert (without.status, without.said["code"]) == (401, -31011)
    assert without.headers["www-authenticate"].startswith("Bearer")
    assert sent(f"Bearer {issuer.token()}").said["error"] == "invalid_token"
    assert sent(f"Bearer {issuer.token(aud=here)}").status == 204


async def test_a_request_that_is_decided_anew_is_decided_as_one__and_not_let_through_as_what_nobody_guards(
    tmp_path: Path,
) -> None:
    async with Log(tmp_path / "log.db") as log:
        app = gateway(records=log.port, record=RecordSettings("mail-gateway"))
        await ask(app, of_nginx(*READ, proof_for(TRUST, *READ, "email:read")))
        await ask(app, of_nginx(*READ))
    allowed, refused = records_in(tmp_path / "log.db")
    with read(tmp_path / "log.db") as log:
        certificates, _ = log.kept_of(allowed)
    chain = [DelegationCert.decode(bytes(each)) for each in msgspec.json.decode(certificates or b"", type=list[Raw])]
    proofs = api_settings(TRUST, asked_by("nginx")).proofs
    assert proofs is not None
    elsewhere = replace(proofs.policy, catalog=Catalog(routes={"GET /other": Entry(scope="email:read")}))
    dearer = replace(proofs.policy, catalog=Catalog(routes={"GET /messages": Entry(scope="custom:other")}))
    for policy, errors in (
        (proofs.policy, ("", "missing_ratify_proof")),
        (elsewhere, ("unknown_route", "unknown_route")),
        (dearer, ("ratify_scope_denied", "missing_ratify_proof")),
    ):
        replayer = Replayer(ReplayConfiguration("mail-gateway", "d", {NAME: ServerTerms(policy)}))
        found = [replayer.decide(record, bytes(32), known) for record, known in ((allowed, chain), (refused, None))]
        assert tuple(each.error for each in found) == errors
        assert [each.allows for each in found] == [not errors[0], False]
