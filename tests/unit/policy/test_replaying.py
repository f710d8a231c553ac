"""Recorded calls by another configuration: decided by the real `decide` where the log says enough, and open elsewhere.

A record is made as the gateway makes one: of what `decide` says of a real proof.
"""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace
from tests.unit.ratify.world import AGENT, HUMAN, NOW, STRANGER
from tests.world.decisions import CATALOG, VERIFIER, Deployment, call, granted, policy, proven

from accredit.attest import (
    CallDecision,
    CallRecord,
    Place,
    RecordedAuthority,
    RecordedDecision,
    RecordedToken,
    decision_payload,
    decode_statement,
)
from accredit.attest.canonical import RecordedParams
from accredit.attest.statements import GENESIS, Call
from accredit.consent.call import CallTerms
from accredit.limits import MAX_RECORDED_TARGET
from accredit.pins.definitions import Pins
from accredit.policy.catalog import Catalog, Entry
from accredit.policy.decision import Policy
from accredit.policy.guarded_call import GuardedCall
from accredit.policy.merging import MergedCatalog
from accredit.policy.quotas import Quota, Quotas
from accredit.policy.replaying import OPEN, ReplayConfiguration, Replayer, ServerTerms, TokenTerms, Verdict, was_allowed
from accredit.ratify import Constraint, DelegationCert
from accredit.ratify.constraints import MaxAmount, MaxRate, TimeWindow

PLACE = Place(writer="ab" * 16, sequence=1, previous=GENESIS)
OLD, NEW = "01" * 32, "02" * 32
Chain = Sequence[DelegationCert]


def configured(now: Policy | None = None, **more: Any) -> ReplayConfiguration:
    """A configuration with one server."""
    pins, scopes = more.pop("pins", None), more.pop("token_scopes", {})
    return ReplayConfiguration(VERIFIER, more.pop("digest", NEW), {"": ServerTerms(now, pins, scopes)}, **more)


def record(
    asked: GuardedCall, chain: Chain | None = None, *, bound: bool = False, full: bool = False, **more: Any
) -> tuple[CallRecord, bytes]:
    """What the log holds of a call that was decided by the world's policy, and the digest of its params."""
    asked = proven(asked, chain, bound=bound) if chain is not None else asked
    decision = Deployment(**more.pop("policy", {})).decides(asked)
    proved, refusal, entry = decision.proved, decision.refusal, decision.entry
    authority = None
    if proved is not None:
        authority = RecordedAuthority(
            principal_id=proved.principal_id,
            agent_id=proved.agent_id,
            cert_ids=proved.cert_ids,
            chain_sha256="ee" * 32,
            scope=entry.scope if entry is not None else "",
            bound=proved.bound,
            proof="digest",
            proof_sha256="e0" * 32,
            verifier_id=VERIFIER if proved.bound else None,
            request_sha256="e1" * 32 if proved.bound else None,
        )
    verdict = "allow" if refusal is None else "challenge" if refusal.error == "ratify_challenge_required" else "deny"
    params = json.dumps({"name": asked.target, "arguments": asked.arguments}).encode() if full else None
    made = CallDecision(
        gateway=VERIFIER,
        call=Call(id="cd" * 16, method=asked.method, target=asked.target[:MAX_RECORDED_TARGET]),
        params=RecordedParams(asked.digest.hex(), params),
        decision=RecordedDecision(
            verdict=verdict, error=more.pop("error", None) or (refusal.error if refusal is not None else None)
        ),
        received_ms=more.pop("at", NOW) * 1000,
        policy_digest=more.pop("digest", OLD),
        authority=authority,
        token=more.pop("token", None),
    )
    made = replace(made, call=replace(made.call, **more))
    found = decode_statement(decision_payload(made, PLACE, NOW * 1000)).predicate
    assert isinstance(found, CallRecord)
    return found, asked.digest


def again(found: tuple[CallRecord, bytes], to: ReplayConfiguration, chain: Chain | None = None) -> Verdict:
    return Replayer(to).decide(*found, chain)


def without(*tools: str) -> Catalog:
    return replace(CATALOG, tools={name: entry for name, entry in CATALOG.tools.items() if name not in tools})


def scoped(tool: str, **entry: Any) -> Catalog:
    return replace(CATALOG, tools={**CATALOG.tools, tool: Entry(**entry)})


def only(*targets: str, gateway: str = VERIFIER, **terms: Any) -> Constraint:
    """A constraint that allows these tools alone."""
    return CallTerms(gateway=gateway, method="tools/call", target=targets, **terms).constraint()


INBOX = call("list_inbox")
PAY = call("pay", {"amount": 5, "currency": "EUR"})
READS, ALL = granted("email:read"), granted()


@pytest.mark.holds("policy/replaying", "known")
@pytest.mark.parametrize(
    ("asked", "chain"),
    [(INBOX, READS), (INBOX, granted("email:send")), (INBOX, None), (call("wipe"), None), (call("nothing"), READS)],
)
def test_by_the_same_rules_a_call_is_decided_as_it_was(asked: GuardedCall, chain: Chain | None) -> None:
    found = record(asked, chain)
    verdict = again(found, configured(policy()), chain)
    assert (verdict.allows, verdict.open) == (was_allowed(found[0]), "")
    if not verdict.allows:
        assert found[0].decision is not None
        assert verdict.error == found[0].decision.error


@pytest.mark.holds("policy/replaying", "known")
@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"catalog": without("list_inbox")}, "unknown_tool"),
        ({"catalog": scoped("list_inbox", scope="custom:other")}, "ratify_invalid_scope"),
        ({"roots": {STRANGER.public_key: "Somebody"}}, "ratify_untrusted_root"),
        ({"binding_required": True}, "ratify_invalid"),
        ({"catalog": scoped("list_inbox", scope="email:read", marked_sensitive=True)}, ""),
        ({"observes": True}, ""),
    ],
)
def test_what_another_catalog_or_root_or_binding_changes_is_seen(changes: dict[str, Any], error: str) -> None:
    assert again(record(INBOX, READS), configured(policy(**changes)), READS) == Verdict(not error, error)


def test_what_was_refused_passes_where_the_catalog_asks_for_less() -> None:
    found = record(INBOX, granted("email:send"))
    other = configured(policy(catalog=scoped("list_inbox", scope="email:read", accepts=("email:send",))))
    assert again(found, other, granted("email:send")) == Verdict(True)
    named = configured(policy(catalog=scoped("nothing", scope="email:read")))
    assert again(record(call("nothing"), READS, policy={"observes": True}), named, READS) == Verdict(True)


def test_a_chain_holds_as_of_the_time_of_the_call() -> None:
    found, digest = record(INBOX, READS)
    later = replace(found, times=replace(found.times, received="2030-01-01T00:00:00.000Z"))
    assert again((later, digest), configured(policy()), READS).error == "ratify_expired"


def test_a_chain_that_nobody_signed_so_proves_nothing() -> None:
    forged = (replace(READS[0], scope=("email:read", "payments:send")),)
    assert again(record(INBOX, READS), configured(policy()), forged).error == "ratify_invalid"


@pytest.mark.holds("policy/replaying", "unknown")
@pytest.mark.parametrize(
    ("constraint", "why"),
    [
        (MaxAmount(max_amount=10, currency="EUR"), "arguments"),
        (MaxRate(count=9, window_s=60), "uses"),
        (TimeWindow(start="00:00", end="23:59", tz="UTC"), ""),
        (only("pay", "wipe"), ""),
        (only("pay", params_sha256=PAY.digest.hex()), ""),
        (only("pay", args={"/currency": (hashlib.sha256(b'"EUR"').hexdigest(),)}), "arguments"),
    ],
)
def test_a_constraint_that_the_log_does_not_hold_the_facts_of_leaves_the_answer_open(
    constraint: Constraint, why: str
) -> None:
    chain = granted(constraints=(constraint,))
    found = record(PAY, chain)
    assert was_allowed(found[0])
    assert again(found, configured(policy()), chain) == Verdict(not why, open=why)
    refused = again(found, configured(policy(catalog=without("pay"))), chain)
    assert (refused.allows, refused.open) == (False, ""), "what refuses it for certain is certain"
    full = record(PAY, chain, full=True)
    assert again(full, configured(policy()), chain).open == ("uses" if why == "uses" else "")


@pytest.mark.holds("policy/replaying", "unknown")
def test_with_arguments_on_record_their_constraints_are_judged_by_the_new_catalog() -> None:
    chain = granted(constraints=(MaxAmount(max_amount=10, currency="EUR"),))
    found = record(PAY, chain, full=True)
    no_facts = configured(policy(catalog=scoped("pay", scope="payments:send")))
    assert again(found, no_facts, chain).error == "ratify_constraint_unverifiable"


def test_a_grant_for_other_targets_refuses_the_call_for_certain() -> None:
    chain = granted(constraints=(MaxAmount(max_amount=10, currency="EUR"), only("pay", gateway="another")))
    found = record(PAY, granted())
    assert again(found, configured(policy()), chain).error == "ratify_constraint_denied"


@pytest.mark.holds("policy/replaying", "unknown")
@pytest.mark.parametrize(
    ("error", "why"),
    [
        ("ratify_invalid", "proof"),
        ("ratify_revoked", "proof"),
        ("ratify_untrusted_root", "proof"),
        ("invalid_token", "token"),
    ],
)
def test_what_was_not_good_then_is_not_on_record(error: str, why: str) -> None:
    found = record(INBOX, error=error)
    tokens = TokenTerms(True, ["https://issuer.example"]) if why == "token" else TokenTerms()
    assert again(found, configured(policy(), tokens=tokens)) == Verdict(False, open=why)
    if why == "proof":
        gone = again(found, configured(policy(catalog=without("list_inbox"))))
        assert gone == Verdict(False, "unknown_tool")


@pytest.mark.parametrize("error", ["ratify_replayed", "ratify_expired"])
def test_what_no_configuration_changes_stays_refused(error: str) -> None:
    assert again(record(INBOX, error=error), configured(policy())) == Verdict(False, error)


@pytest.mark.holds("policy/replaying", "final-refusals")
@pytest.mark.parametrize("error", ["invalid_params", "header_mismatch", "invalid_request_state"])
def test_what_its_message_was_refused_for_is_no_question_of_configuration(error: str) -> None:
    for now in (policy(), None):
        assert again(record(INBOX, READS, error=error), configured(now), READS) == Verdict(False, error)


@pytest.mark.holds("policy/replaying", "unknown")
def test_requests_about_tasks__names_that_were_cut__and_other_gateways_are_left_open() -> None:
    assert again(record(call("t", method="tools/call"), method="tasks/get"), configured(policy())).open == "task"
    assert again(record(call("x" * 3_000)), configured(policy())).open == "cut"
    foreign, digest = record(INBOX)
    assert again((replace(foreign, gateway="another"), digest), configured(policy())).open == "gateway"
    assert again(record(INBOX, READS), configured(policy()), None).open == "chain"


@pytest.mark.holds("policy/replaying", "same-settings")
def test_what_can_not_be_told_is_unchanged_where_this_very_configuration_decided() -> None:
    chain = granted(constraints=(MaxAmount(max_amount=10, currency="EUR"),))
    assert again(record(PAY, chain, digest=NEW), configured(policy()), chain) == Verdict(True)
    assert again(record(INBOX, error="ratify_invalid", digest=NEW), configured(policy())).open == ""


@pytest.mark.holds("policy/replaying", "exclusions")
def test_a_certificate_that_was_revoked_since_is_no_other_configuration() -> None:
    world = Deployment()
    found = record(INBOX, READS)
    world.known.revoked.add(READS[0].cert_id)
    assert world.error(proven(INBOX, READS)) == "ratify_revoked"
    assert again(found, configured(world.policy), READS) == Verdict(True)


@pytest.mark.holds("policy/replaying", "unknown")
def test_pins_are_held_against_the_definition_that_was_noted() -> None:
    was, other = "aa" * 32, "bb" * 32
    noted = record(INBOX, READS, definition=was)
    assert again(noted, configured(policy(), pins=Pins(tools={"list_inbox": was})), READS) == Verdict(True)
    changed = again(noted, configured(policy(), pins=Pins(tools={"list_inbox": other})), READS)
    assert changed == Verdict(False, "definition_changed")
    unknown = again(record(INBOX, READS), configured(policy(), pins=Pins(tools={"list_inbox": was})), READS)
    assert unknown.open == "definition"
    warned = Pins(tools={"list_inbox": was}, enforced=False)
    assert again(noted, configured(policy(), pins=warned), READS) == Verdict(True)
    refused = record(INBOX, READS, error="definition_changed", definition=was)
    assert again(refused, configured(None, pins=Pins(tools={"list_inbox": was}))).open == "definition"


def test_with_proofs_off_each_call_is_allowed() -> None:
    for found in (record(INBOX), record(call("nothing")), record(INBOX, granted("email:send"))):
        assert again(found, configured(None)) == Verdict(True)


def test_tokens_are_judged_as_far_as_they_are_on_record() -> None:
    token = RecordedToken(issuer="https://issuer.example", subject=AGENT.id, sha256="ff" * 32)
    known = TokenTerms(True, ["https://issuer.example"])
    with_token = record(INBOX, READS, token=token)
    assert again(with_token, configured(policy(), tokens=known), READS) == Verdict(True)
    assert again(record(INBOX, READS), configured(policy(), tokens=known), READS) == Verdict(False, "missing_token")
    other = TokenTerms(True, ["https://other.example"])
    assert again(with_token, configured(policy(), tokens=other), READS) == Verdict(False, "invalid_token")
    scopes = configured(policy(), tokens=known, token_scopes={"list_inbox": "read"})
    assert again(with_token, scopes, READS).open == "token"
    tied = configured(policy(bind_agent=True), tokens=known)
    assert again(with_token, tied, READS) == Verdict(True)
    stolen = record(INBOX, READS, token=replace(token, subject=HUMAN.id))
    assert again(stolen, tied, READS) == Verdict(False, "ratify_invalid")


def test_a_server_that_is_there_no_more_refuses__and_a_name_with_two_meanings_is_left_open() -> None:
    merged = Catalog(tools={"inbox": Entry(scope="email:read")})
    own = Catalog(tools={"mail__inbox": Entry(scope="custom:own"), **merged.tools})
    servers = {"mail": ServerTerms(policy(catalog=own))}
    whole = ServerTerms(policy(catalog=MergedCatalog(by_server={"mail": own})))
    found = record(call("mail__inbox"), READS, server="mail", policy={"observes": True})
    assert again(found, ReplayConfiguration(VERIFIER, NEW, servers, whole), READS).open == "endpoint"
    assert again(found, ReplayConfiguration(VERIFIER, NEW, servers), READS) == Verdict(False, "ratify_scope_denied")
    assert again(found, configured(policy()), READS) == Verdict(False, "no_server")


@pytest.mark.holds("policy/replaying", "exclusions")
def test_what_a_quota_has_left_is_not_known() -> None:
    assert again(record(INBOX, READS, error="quota_exceeded"), configured(policy()), READS).open == "uses"
    calls = Quota(by="agent", tools=frozenset("*"), window_s=60, window="60s", most=1)
    assert again(record(INBOX, READS), configured(policy(quotas=Quotas((calls,)))), READS) == Verdict(True)


@pytest.mark.holds("policy/replaying", "unknown")
def test_a_call_that_a_new_quota_can_not_count_is_not_said_to_pass_as_it_did() -> None:
    sums = Quota(by="agent", tools=frozenset("*"), window_s=60, window="60s", most=9_000_000, fact="amount")
    now = configured(policy(quotas=Quotas((sums,))))
    assert again(record(INBOX, READS), now, READS).open == "arguments"
    assert again(record(INBOX, READS, full=True), now, READS) == Verdict(False, "quota_exceeded")
    assert again(record(PAY, ALL, full=True), now, ALL) == Verdict(True)
    by_subject = replace(sums, by="subject", fact="")
    nobody_s = configured(policy(quotas=Quotas((by_subject,))))
    assert not again(record(INBOX, READS, full=True), nobody_s, READS).allows


@pytest.mark.holds("policy/replaying", "same-settings")
def test_a_lock_that_is_new_is_not_passed_over_as_the_digest_is_the_same() -> None:
    """`policy.digest` covers no lock, and where there is one definitions are enforced without a word of the
    configuration."""
    was, other = "aa" * 32, "bb" * 32
    pinned = Pins(tools={"list_inbox": other})
    for now in (policy(), None):
        to = configured(now, digest=NEW, pins=pinned)
        assert again(record(INBOX, READS, digest=NEW), to, READS).open == "definition"
        assert again(record(INBOX, READS, digest=NEW, definition=was), to, READS).error == "definition_changed"
        assert again(record(INBOX, READS, digest=NEW, definition=other), to, READS) == Verdict(True)
        nobody = record(INBOX, digest=NEW, error="definition_changed")
        assert again(nobody, to).open == "definition", "a lock that was renewed would let it pass"


def test_each_open_answer_has_words() -> None:
    assert {"arguments", "uses", "definition", "proof", "token", "task"} < OPEN.keys()


@pytest.mark.holds("policy/replaying", "unknown")
def test_whether_a_delegation_for_one_request_was_for_that_path_is_unknown() -> None:
    asked, digest = record(call("list_inbox"), granted("email:read"))
    made = replace(asked, call=replace(asked.call, method="GET", target="GET /{id}", protocol="http"))
    terms = CallTerms(gateway=VERIFIER, method="GET", target=("GET /{id}",), params_sha256=digest.hex())
    chain = granted("email:read", constraints=(terms.constraint(),))
    now = policy(catalog=Catalog(routes={"GET /{id}": Entry(scope="email:read")}))
    again = Replayer(ReplayConfiguration(VERIFIER, NEW, {"": ServerTerms(now)}))
    assert again.decide(made, digest, chain) == Verdict(False, open="arguments")


def test_a_request_to_an_api_is_decided_by_the_route_that_it_has_now__where_that_is_certain() -> None:
    entry = Entry(scope="email:read")
    asked, digest = record(call("list_inbox"), granted("email:read"))
    policies = {name: policy(catalog=Catalog(routes={f"GET /{name}": entry})) for name in ("{id}", "{key}")}

    def verdict(now: str | None, error: str = "") -> Verdict:
        decision = RecordedDecision(verdict="deny", error=error) if error else asked.decision
        made = replace(asked, call=replace(asked.call, method="GET", target="GET /{id}", protocol="http"))
        terms = ServerTerms(policies["{key}"], route_now={"GET /{id}": now}.__getitem__)
        again = Replayer(ReplayConfiguration(VERIFIER, NEW, {"": terms}))
        return again.decide(replace(made, decision=decision), digest, granted("email:read"))

    assert verdict("GET /{key}") == Verdict(True)
    assert verdict("") == Verdict(False, "unknown_route")
    assert verdict(None) == Verdict(False, open="route")
    assert verdict("GET /{key}", "unknown_route") == Verdict(False, open="route")
