"""Nothing that is changed, taken away or exchanged in what is kept of a call goes unnamed, whoever changed it: also
where the record was signed anew to match, as who has the gateway's key can do."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace
from tests.unit.ratify.world import AGENT, HOLDERS, HOUR, HUMAN, NOW, STRANGER, certificate, chain, constraint
from tests.world.records import DENY, GATEWAY
from tests.world.signed_calls import PARAMS, SESSION, SignedCall, judged, lied, read_back, said, signed_call

from accredit.attest import CallRecord, Statement, sha256_hex, timestamp
from accredit.consent.call import CallTerms, request_digest
from accredit.policy.evidence import Auditor, Evidence, ProvenPart, sentence

pytestmark = pytest.mark.holds("attest/canonical")

GOOD = signed_call()
CERTIFICATES: list[dict[str, Any]] = json.loads(GOOD.certificates or b"")
PROOF: dict[str, Any] = json.loads(GOOD.proof or b"")
OTHER_AGENT = HOLDERS[5]


def verdicts(call: SignedCall, **options: Any) -> tuple[bool | None, bool | None]:
    found = judged(call, **options)
    return found.allowed.verified, found.signed.verified


def changes(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[str, Any]]:
    """The tree with one thing changed, or taken away, for each value in it; and what was done."""
    if isinstance(tree, dict):
        for name, value in tree.items():
            yield f"{(*path, name)} gone", {key: each for key, each in tree.items() if key != name}
            for what, changed in changes(value, (*path, name)):
                yield what, tree | {name: changed}
    elif isinstance(tree, list):
        for at, value in enumerate(tree):
            yield f"{(*path, at)} gone", [*tree[:at], *tree[at + 1 :]]
            yield f"{(*path, at)} twice", [*tree[: at + 1], *tree[at:]]
            for what, changed in changes(value, (*path, at)):
                yield what, [*tree[:at], changed, *tree[at + 1 :]]
        if len(tree) > 1:
            yield f"{path} in another order", tree[::-1]
        if not tree:
            yield f"{path} more", [{"type": "time_window", "start": "00:00", "end": "23:59", "tz": "UTC"}]
    elif isinstance(tree, int):
        yield f"{path} + 1", tree + 1
    else:
        last = {"A": "B"}.get(tree[:1], "A") if tree else "A"
        yield f"{path} other", last + tree[1:]


CHANGED_CERTIFICATES = dict(changes(CERTIFICATES))
CHANGED_PROOFS = dict(changes(PROOF))


def test_an_honest_call_is_proved() -> None:
    agent = ProvenPart(HOLDERS[2].id, "2027-01-15T08:00:00Z", True)
    assert judged(GOOD) == Evidence(ProvenPart("Owner", "2027-01-15T09:00:00Z", True), agent)


@pytest.mark.holds("policy/evidence", "chain")
@pytest.mark.parametrize("what", CHANGED_CERTIFICATES)
def test_a_certificate_that_was_changed_allows_nothing(what: str) -> None:
    changed = CHANGED_CERTIFICATES[what]
    assert judged(GOOD._replace(certificates=json.dumps(changed).encode())).allowed.verified is False
    found = judged(lied(GOOD, certificates=changed))
    assert (found.allowed.verified, bool(found.allowed.why)) == (False, True)


@pytest.mark.holds("policy/evidence", "proof", "context")
@pytest.mark.parametrize("what", CHANGED_PROOFS)
def test_a_proof_that_was_changed_signs_nothing(what: str) -> None:
    changed = CHANGED_PROOFS[what]
    assert verdicts(GOOD._replace(proof=json.dumps(changed).encode())) == (True, False)
    found = judged(lied(GOOD, proof=changed))
    assert (found.allowed.verified, found.signed.verified, bool(found.signed.why)) == (True, False, True)


@pytest.mark.holds("policy/evidence", "context")
@pytest.mark.parametrize(
    ("member", "value", "word"),
    [
        ("verifier_id", "other-gateway", "gateway"),
        ("agent_id", STRANGER.id, "agent"),
        ("session_id", "s-2", "session"),
        ("session_id", "", "session"),
        ("required_scope", "files:write", "scope"),
        ("operation", "resources/read", "method"),
        ("resource_id", "write_file", "target"),
        ("payload_digest", bytes(32), "params"),
        ("payload_digest", b"", "params"),
        ("requested_path", "/", "protocol"),
        ("workspace_id", "accredit/http/v1", "protocol"),
        ("invocation_id", "1", "protocol"),
    ],
)
def test_a_proof_that_an_agent_made_for_something_else_signs_nothing_here(member: str, value: Any, word: str) -> None:
    elsewhere = signed_call(**{member: value})
    found = judged(lied(GOOD, proof=json.loads(elsewhere.proof or b"")))
    assert (found.allowed.verified, found.signed.verified) == (True, False)
    assert word in found.signed.why


@pytest.mark.holds("policy/evidence", "chain", "proof")
def test_a_proof_of_another_agent__or_of_another_time__signs_nothing() -> None:
    certs = (certificate(HOLDERS[1], OTHER_AGENT.public_key), chain(2)[1])
    other = signed_call(certs, OTHER_AGENT)
    assert verdicts(other) == (True, True)
    assert verdicts(lied(GOOD, proof=json.loads(other.proof or b""))) == (True, False)
    assert verdicts(lied(GOOD, certificates=json.loads(other.certificates or b""))) == (False, False)
    for seconds, verified in ((300, True), (301, False), (-300, True), (-301, False)):
        assert verdicts(signed_call(challenge_at=NOW - seconds)) == (True, verified), seconds


@pytest.mark.holds("policy/evidence", "chain", "proof", "context")
@pytest.mark.parametrize(
    "members",
    [
        {"gateway": "other-gateway"},
        {"verifier_id": "other-gateway"},
        {"gateway": "other-gateway", "verifier_id": "other-gateway"},
        {"target": "write_file"},
        {"method": "resources/read"},
        {"session": "s-2"},
        {"session": None},
        {"scope": "files:write"},
        {"granted_scope": "files:write"},
        {"granted_scope": None, "scope": "files:write"},
        {"subject": "ab" * 32},
        {"subject": "ab" * 32, "call_sha256": "ab" * 32},
        {"call_sha256": "ab" * 32},
        {"call_sha256": None},
        {"request_sha256": "ab" * 32},
        {"principal_id": STRANGER.id},
        {"agent_id": STRANGER.id},
        {"cert_ids": ("cert-1",)},
        {"chain_sha256": "ab" * 32},
        {"proof_sha256": "ab" * 32},
        {"received": timestamp((NOW + HOUR + 1) * 1000)},
        {"received": timestamp((NOW - HOUR - 1) * 1000)},
        {"received": timestamp((NOW + 301) * 1000)},
    ],
)
def test_a_record_that_says_something_else_is_contradicted(members: dict[str, Any]) -> None:
    found = judged(said(GOOD, **members))
    assert False in (found.allowed.verified, found.signed.verified)
    for part in (found.allowed, found.signed):
        assert bool(part.why) is (part.verified is not True)


@pytest.mark.holds("policy/evidence", "chain")
def test_whoever_begins_a_chain_is_no_person_that_is_trusted() -> None:
    certs = (certificate(STRANGER, AGENT.public_key),)
    call = signed_call(certs, AGENT)
    assert verdicts(call) == (None, True)
    assert judged(call).allowed[0] == STRANGER.id
    assert "no key of yours" in judged(call).allowed.why
    assert verdicts(call, only_these=True) == (False, True)
    assert verdicts(GOOD, roots={}) == (None, True)
    assert verdicts(signed_call((certificate(STRANGER, AGENT.public_key, scope=()),), AGENT)) == (False, True)


def test_what_was_not_kept_is_not_proved__and_not_contradicted() -> None:
    assert verdicts(GOOD._replace(certificates=None)) == (None, True)
    for missing in (None, b""):
        assert verdicts(GOOD._replace(proof=missing)) == (True, False), "it is said to be kept"
    for now, told in ((NOW, None), (NOW + 310, None), (NOW + 311, False), (NOW - 311, False)):
        auditor = Auditor({HUMAN.public_key: "Owner"}, now=now)
        unshown, lost = auditor.judge(*GOOD._replace(proof=None)), auditor.judge(*GOOD._replace(proof=b""))
        assert unshown is not None
        assert lost is not None
        assert unshown.signed.verified is told, "it may not be shown yet"
        assert lost.signed.verified is False
    assert verdicts(said(GOOD._replace(proof=None), proof="digest")) == (True, None)
    unbound = {"bound": False, "proof": "digest", "verifier_id": None, "request_sha256": None, "call_sha256": None}
    assert verdicts(said(GOOD, **unbound)) == (True, None)


def old(call: SignedCall, **members: Any) -> SignedCall:
    """The call as version 2 recorded it."""
    record = call.decision.predicate
    assert isinstance(record, CallRecord)
    assert record.authority is not None
    none = dict.fromkeys(
        ("proof", "proof_sha256", "verifier_id", "request_sha256", "call_sha256", "granted_scope"), None
    )
    changed = replace(record, authority=replace(record.authority, **(none | members)))
    return call._replace(decision=read_back(Statement(changed, call.decision.sha256, 2)))


def test_a_record_of_version_2_shows_who_allowed_it__and_not_who_signed() -> None:
    assert verdicts(old(GOOD)) == (True, None)
    assert verdicts(old(GOOD, scope="files:write")) == (None, None), "the tool may have accepted another one"
    assert verdicts(old(lied(GOOD, certificates=CHANGED_CERTIFICATES["(0, 'scope', 0) other"]))) == (False, None)
    assert verdicts(old(lied(GOOD, certificates=[{"cert_id": "cc"}]))) == (None, None)
    assert verdicts(old(lied(GOOD, certificates=[{"cert_id": "cc"}])), only_these=True) == (False, None)


class TestTheSentence:
    def told(self, call: SignedCall, names: dict[str, str] | None = None, **options: Any) -> str:
        record = call.decision.predicate
        assert isinstance(record, CallRecord)
        return sentence(record, judged(call, **options), {HOLDERS[2].id: "Agent"} if names is None else names)

    def test_says_who_allowed_what__who_signed_it__and_who_recorded_it(self) -> None:
        assert self.told(GOOD) == (
            "Owner allowed Agent to call read_file at mail-gateway until 2027-01-15;"
            " Agent signed this call at 2027-01-15T08:00:00Z; mail-gateway recorded it."
        )

    @pytest.mark.parametrize(
        ("members", "act"),
        [
            ({"protocol": "http", "method": "GET", "target": "GET /a"}, 'request "GET /a" at mail-gateway'),
            ({"protocol": "authorize", "method": "GET", "target": ""}, "request at mail-gateway"),
            ({"protocol": "a2a", "method": "SendMessage", "target": "sum"}, "ask for sum at mail-gateway"),
            ({"protocol": "a2a", "method": "SendStreamingMessage", "target": ""}, "ask for any skill at mail-gateway"),
            ({"protocol": "a2a", "method": "ListTasks", "target": ""}, "ListTasks at mail-gateway"),
            ({"server": "mail"}, "call read_file at mail (mail-gateway)"),
            ({"method": "x at evil\x1b"}, '"x at evil?" read_file at mail-gateway'),
        ],
    )
    def test_says_in_words_what_was_asked_for__by_whichever_protocol(self, members: dict[str, Any], act: str) -> None:
        record = said(GOOD, **members).decision.predicate
        assert isinstance(record, CallRecord)
        told = sentence(record, judged(GOOD), {HOLDERS[2].id: "Agent"})
        assert told.startswith(f"Owner allowed Agent to {act} until 2027-01-15;")

    def test_says_no_more_than_is_proved(self) -> None:
        person, agent = HUMAN.id, f"agent {HOLDERS[2].id}"
        compared = self.told(GOOD, roots={})
        assert compared.startswith(f"{person} (compared with no key of yours) allowed Agent to call read_file")
        assert "Owner" not in compared
        assert f"that {agent} signed this call is mail-gateway's word" in self.told(old(GOOD), names={})
        forged = self.told(said(GOOD, subject="ab" * 32, principal_name="Ada"))
        assert "Agent is not shown to have signed this call (its proof is for another call" in forged
        refused = self.told(GOOD, roots={}, only_these=True)
        assert refused.startswith("nobody is shown to have allowed Agent to call read_file at mail-gateway (the chain")

    def test_holds_what_others_chose_as_a_string(self) -> None:
        text = self.told(said(GOOD, target='x" until 2099; Eve\x1b[2J\u202e'))
        assert '"x\\" until 2099; Eve?[2J?"' in text
        assert text.isprintable()


def test_a_chain_that_was_good_for_one_call_is_not_for_one_that_came_when_it_had_ended__or_had_not_begun() -> None:
    """What was verified of a chain is not verified anew: but at each call's own time it has to be good."""
    auditor = Auditor({HUMAN.public_key: "Owner"})
    for at, verified in ((NOW, True), (NOW + HOUR + 1, False), (NOW, True), (NOW - 2 * HOUR, False), (NOW, True)):
        call = said(GOOD, received=timestamp(at * 1000))
        found = auditor.judge(*call)
        assert found is not None
        assert (found.allowed.verified, at) == (verified, at)


def test_only_allowed_calls_are_judged() -> None:
    record = GOOD.decision.predicate
    assert isinstance(record, CallRecord)
    refused = Statement(replace(record, decision=replace(DENY, enforced=True)), GOOD.decision.sha256, 3)
    assert Auditor({}).judge(refused, None, None) is None
    nobody = Statement(replace(record, authority=None), GOOD.decision.sha256, 3)
    found = Auditor({}).judge(nobody, None, None)
    assert found is not None
    assert [part.verified for part in found[:2]] == [None, None]
    assert isinstance(nobody.predicate, CallRecord)
    assert "nobody is shown to have allowed whoever called" in sentence(nobody.predicate, found, {})


def constrained(*members: Any) -> SignedCall:
    return signed_call((certificate(constraints=tuple(members)),), AGENT)


@pytest.mark.holds("policy/evidence", "constraints")
def test_constraints_that_the_record_answers_hold__and_the_others_are_listed() -> None:
    now = timestamp(NOW * 1000)[11:16]
    window = constraint(type="time_window", start=now, end=now, tz="UTC")
    here = CallTerms(gateway=GATEWAY, method="tools/call", target=("read_file",), params_sha256=PARAMS.hex())
    held = judged(constrained(window, here.constraint()))
    assert (held.allowed.verified, held.unanswered) == (True, ())
    closed = constraint(type="time_window", start="00:00", end="00:01", tz="UTC")
    wrong = [replace(here, gateway="other"), replace(here, method="prompts/get"), replace(here, target=("write_file",))]
    for each in (closed, *(terms.constraint() for terms in wrong)):
        assert verdicts(constrained(each)) == (False, True)
    open_ends = (
        constraint(type="max_rate", count=1, window_s=60),
        constraint(type="max_amount", max_amount=5, currency="EUR"),
        constraint(type="com.example.other"),
        replace(here, params_sha256="ab" * 32).constraint(),
        replace(here, params_sha256=UNSET, args={"/to": ("ab" * 32,)}).constraint(),
        replace(here, definition="ab" * 32).constraint(),
    )
    found = judged(constrained(*open_ends))
    assert (found.allowed.verified, len(found.unanswered)) == (True, len(open_ends))


@pytest.mark.holds("policy/evidence", "constraints", "path")
@pytest.mark.parametrize(("protocol", "sent"), [("http", PARAMS.hex()), ("authorize", "")])
def test_a_constraint_for_one_request_is_answered_only_for_who_knows_its_path(protocol: str, sent: str) -> None:
    route, path = "POST /messages/{id}/send", "/api/mail/messages/7/send"

    def answered(digest: str, target: str | None) -> bool:
        terms = CallTerms(gateway=GATEWAY, method="POST", target=(route,), params_sha256=digest)
        call = said(constrained(terms.constraint()), protocol=protocol, method="POST", target=route)
        found = Auditor({HUMAN.public_key: "Owner"}, target=target).judge(*call)
        assert found is not None
        assert found.allowed.verified is True
        return not found.unanswered

    digest = request_digest(path, sent).hex()
    assert answered(digest, path)
    assert not any(answered(digest, target) for target in (None, "", "/api/mail/messages/8/send", "/\ud800"))
    assert not answered(PARAMS.hex(), path), "the body's digest alone names no request"


def test_sealed_sessions_and_servers_of_a_gateway_are_known_by_their_names() -> None:
    assert verdicts(said(GOOD, session=f"sha256:{sha256_hex(SESSION.encode())[:32]}")) == (True, True)
    call = signed_call(verifier_id=f"{GATEWAY}/mail")
    of_server = said(call, server="mail", verifier_id=f"{GATEWAY}/mail")
    assert verdicts(of_server) == (True, True)
    assert verdicts(said(of_server, server="files")) == (True, False)
    assert verdicts(said(GOOD, server="mail")) == (True, True), "at the merged endpoint"


def test_a_request_that_only_looks_at_a_task_needs_no_scope() -> None:
    call = signed_call(operation="tasks/get", resource_id="t-1", required_scope="")
    assert verdicts(said(call, method="tasks/get", target="t-1", granted_scope=None)) == (True, True)
    changes = signed_call(operation="tasks/cancel", resource_id="t-1")
    assert verdicts(said(changes, method="tasks/cancel", target="t-1")) == (True, True)
    assert verdicts(said(changes, method="tasks/cancel", target="t-1", granted_scope=None, scope="x:y"))[0] is False
    listed = signed_call(operation="tasks/list", resource_id="", required_scope="", payload_digest=b"")
    members = {"method": "tasks/list", "target": None, "scope": "", "granted_scope": None, "call_sha256": None}
    assert verdicts(said(listed, **members)) == (True, True)


def test_the_texts_are_read_however_they_are_laid_out() -> None:
    loose = GOOD._replace(
        certificates=json.dumps(CERTIFICATES, indent=1).encode(), proof=json.dumps(PROOF, indent=1).encode()
    )
    assert verdicts(loose) == (True, True)
