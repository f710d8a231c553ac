"""What an agent presents, for whom it signs, and what it never signs."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw
from tests.world.agents import agent_files, save_delegation
from tests.world.authorization import GATEWAY, Trust
from tests.world.decisions import finished

from accredit.base.clock import unix_seconds
from accredit.client import ProofPresenter
from accredit.client.pins import GatewayPin
from accredit.client.presenter import MAX_PRESENTED, Challenge
from accredit.client.proving import Prover
from accredit.consent.call import CallTerms
from accredit.errors import ConfigurationError, ProofRefused
from accredit.keys import SigningKey, make_key
from accredit.limits import CLOCK_LEAD_SECONDS
from accredit.policy.decide import decide
from accredit.policy.decision import drive
from accredit.policy.guarded_call import GuardedCall, guarded_call_from_values
from accredit.ratify import Grant, issue_delegation
from accredit.ratify.constraints import MaxRate, TimeWindow
from accredit.stores import MemoryStore, RevocationLists

DAY = 86_400
NO_REVOCATIONS = RevocationLists((), {})


@pytest.fixture(scope="module")
def trust() -> Trust:
    return Trust()


def signing_key(trust: Trust) -> SigningKey:
    return SigningKey(trust.agent.public(), trust.agent.signer())


def presenter(trust: Trust, *grants: tuple[str, ...], **options: Any) -> ProofPresenter:
    chains = [trust.chain(*scopes) for scopes in (grants or ((),))]
    return ProofPresenter(signing_key(trust), chains, **options)


def inbox(session: str = "", **arguments: object) -> GuardedCall:
    return guarded_call_from_values("tools/call", {"name": "list_inbox", "arguments": arguments}, session, None)


def with_proof(call: GuardedCall, proof: dict[str, object]) -> GuardedCall:
    raw = Raw(json.dumps(proof).encode())
    return GuardedCall(call.method, call.target, call.session_id, call.digest, call.arguments, raw)


def verdict(trust: Trust, call: GuardedCall, proof: dict[str, object], *, ahead: int = 0, **policy: Any) -> str:
    """What a gateway says whose clock is so much ahead: "" where the call is allowed."""
    now = unix_seconds() + ahead
    given = trust.policy(binding_required=True, **policy)
    decision = finished(drive(decide(with_proof(call, proof), given, now), MemoryStore(), NO_REVOCATIONS, now))
    return "" if decision.refusal is None else decision.refusal.error


# --- what is signed ---------------------------------------------------------------------------------


@pytest.mark.holds("client/presenter", "exact-call")
def test_a_proof_is_good_for_its_call_and_for_no_other(trust: Trust) -> None:
    proof = presenter(trust).prove(inbox(folder="all"), "email:read", GATEWAY)
    assert verdict(trust, inbox(folder="all"), proof) == ""
    assert verdict(trust, inbox(folder="spam"), proof) == "ratify_invalid"
    assert verdict(trust, inbox("another-session", folder="all"), proof) == "ratify_invalid"
    assert verdict(trust, inbox(folder="all"), proof, verifier_id="another-gateway") == "ratify_invalid"


def test_every_proof_is_over_a_challenge_of_its_own(trust: Trust) -> None:
    agent = presenter(trust)
    proofs = [agent.prove(inbox(), "email:read", GATEWAY) for _ in range(3)]
    assert len({str(proof["challenge"]) for proof in proofs}) == 3


def test_a_proof_for_a_list_is_bound_too(trust: Trust) -> None:
    call = guarded_call_from_values("tools/list", {"cursor": "2"}, "", None)
    assert verdict(trust, call, presenter(trust).prove(call, "", GATEWAY)) == ""


def test_an_agent_whose_clock_is_a_little_ahead_is_still_believed(trust: Trust) -> None:
    proof = presenter(trust).prove(inbox(), "email:read", GATEWAY)
    assert verdict(trust, inbox(), proof, ahead=-CLOCK_LEAD_SECONDS) == ""


def test_a_proof_for_no_gateway_is_made_for_nobody_but_who_wrote_that_it_may_be(trust: Trust) -> None:
    with pytest.raises(ConfigurationError, match="good for any call at many"):
        presenter(trust).prove(inbox(), "email:read")
    agent = ProofPresenter(signing_key(trust), [trust.chain()], binding="none")
    proof = agent.prove(inbox(), "email:read")
    assert "session_context" not in proof
    assert verdict(trust, inbox(), proof) == "ratify_invalid"


# --- which delegation -------------------------------------------------------------------------------


@pytest.mark.holds("client/presenter", "order")
def test_the_delegation_that_covers_the_call_is_presented(trust: Trust) -> None:
    agent = presenter(trust, ("email:read", "mcp:tool"), ("email:send",))
    assert agent.chain_for("email:send")[0].scope == ("email:send",)
    assert agent.chain_for("email:read")[0].scope == ("email:read", "mcp:tool")
    assert agent.granted == {"email:read", "mcp:tool", "email:send"}


@pytest.mark.holds("client/presenter", "order")
def test_where_none_covers_it_the_one_that_covers_most_is_presented(trust: Trust) -> None:
    agent = presenter(trust, ("email:send",), ("email:read", "mcp:tool"))
    assert agent.chain_for("files:write")[0].scope == ("email:read", "mcp:tool")


def test_an_expired_delegation_is_presented_last_and_covers_nothing(trust: Trust) -> None:
    chains = [trust.chain("email:send", "email:read", ends=DAY), trust.chain("email:read", ends=3 * DAY)]
    now = [unix_seconds()]
    agent = ProofPresenter(signing_key(trust), chains, clock=lambda: now[0])
    now[0] += 2 * DAY
    assert agent.chain_for("email:send")[0].scope == ("email:read",)
    assert agent.granted == {"email:read"}
    now[0] += 2 * DAY
    assert agent.granted == frozenset()
    assert agent.chain_for("email:send")  # the gateway then says why


# --- what is taken ----------------------------------------------------------------------------------


def test_files_are_read(trust: Trust, tmp_path: Path) -> None:
    files = agent_files(tmp_path, trust)
    agent = ProofPresenter(str(files.key), [str(files.delegation)])
    assert agent.agent_id == trust.agent.id
    assert agent.key_path == files.key


@pytest.mark.holds("client/presenter", "usable")
def test_a_delegation_for_another_agent_is_refused(trust: Trust, tmp_path: Path) -> None:
    files = agent_files(tmp_path, trust, key=make_key("agent", "Other", 0))
    with pytest.raises(ConfigurationError, match="not for") as caught:
        ProofPresenter(files.key, [files.delegation])
    named = f"--agent {files.key}.pub --scope SCOPE --expires 30d --out delegation.json"
    assert f"accredit grant --issuer PATH {named}" in caught.value.remedy


@pytest.mark.holds("client/presenter", "usable")
def test_an_expired_delegation_is_refused_at_the_start(trust: Trust, tmp_path: Path) -> None:
    files = agent_files(tmp_path, trust)
    old = save_delegation(tmp_path / "old.json", trust.chain("email:read", ends=-1))
    with pytest.raises(ConfigurationError, match=r"old\.json has expired") as caught:
        ProofPresenter(files.key, [old])
    assert "accredit grant" in caught.value.remedy


@pytest.mark.holds("client/presenter", "usable")
def test_a_delegation_that_was_changed_is_refused(trust: Trust, tmp_path: Path) -> None:
    files = agent_files(tmp_path, trust, "email:read")
    text = files.delegation.read_text("utf-8")
    files.delegation.write_text(text.replace("email:read", "email:send"), "utf-8")
    with pytest.raises(ConfigurationError, match="proves nothing: bad_signature"):
        ProofPresenter(files.key, [files.delegation])


@pytest.mark.holds("client/presenter", "usable")
def test_a_patient_presenter_says_what_is_wrong_and_uses_a_file_once_it_is_good(trust: Trust, tmp_path: Path) -> None:
    files = agent_files(tmp_path, trust, "email:read")
    late, old = tmp_path / "late.json", save_delegation(tmp_path / "old.json", trust.chain("email:send", ends=-1))
    presenter = ProofPresenter(files.key, [late, old], patient=True)
    assert [each.what.partition(str(tmp_path))[0] for each in presenter.faults] == ["there is no delegation ", ""]
    assert (presenter.granted, presenter.principals, presenter.chains_for("email:read")) == (frozenset(), (), ())
    with pytest.raises(ConfigurationError, match="no delegation to present"):
        presenter.chain_for("email:read")
    late.write_text("{}", "utf-8")
    assert "is not a delegation" in presenter.faults[0].what
    late.unlink()
    files.delegation.replace(late)
    assert presenter.granted == {"email:read"}
    (fault,) = presenter.faults
    assert fault.what.startswith(f"{old} has expired (at 20")
    assert fault.remedy.endswith(
        f"--scope email:send --expires 30d --out {old} --force`, where PATH is their private key"
    )


def test_the_command_that_renews_loses_no_constraint(trust: Trust, tmp_path: Path) -> None:
    files = agent_files(tmp_path, trust)
    limited = trust.chain("email:read", ends=-1, constraints=(MaxRate(1, 60),))
    old = save_delegation(tmp_path / "old.json", limited)
    (fault,) = ProofPresenter(files.key, [old], patient=True).faults
    assert fault.remedy == "ask its principal for a new one: `accredit grant`"


def test_what_is_no_delegation_is_refused(trust: Trust, tmp_path: Path) -> None:
    files = agent_files(tmp_path, trust)
    with pytest.raises(ConfigurationError, match="is not a delegation"):
        ProofPresenter(files.key, [files.key.with_name("agent.key.pub")])
    with pytest.raises(ConfigurationError, match="no delegation"):
        ProofPresenter(files.key, [])


def test_a_scope_that_only_a_catalog_knows_is_taken__the_gateway_judges_it(trust: Trust) -> None:
    grant = Grant(
        subject=trust.agent.public_key,
        cert_id="c" * 32,
        scope=("anything:goes",),
        issued_at=unix_seconds(),
        expires_at=unix_seconds() + DAY,
    )
    chain = (issue_delegation(trust.owner.signer(), grant, vocabulary=["anything:goes"]),)
    assert ProofPresenter(signing_key(trust), [chain]).granted == {"anything:goes"}


def test_nothing_of_the_key_shows(trust: Trust) -> None:
    assert repr(presenter(trust)) == f"<ProofPresenter {trust.agent.id}>"


# --- challenges -------------------------------------------------------------------------------------


def asking(challenge: bytes = bytes(32), expires_in: int = 86_400, verifier_id: object = GATEWAY) -> dict[str, object]:
    """The data of a -31002."""
    asked = {
        "challenge": base64.b64encode(challenge).decode(),
        "expires_at": unix_seconds() + expires_in,
        "verifier_id": verifier_id,
        "binding": "optional",
    }
    return {"error": "ratify_challenge_required", "_meta": {"ratify_challenge": asked}}


def test_a_gateways_challenge_is_signed_for_the_call(trust: Trust) -> None:
    agent, store = presenter(trust), MemoryStore()
    call = guarded_call_from_values("tools/call", {"name": "send_email", "arguments": {}}, "", None)
    policy, now = trust.policy(binding_required=True), unix_seconds()
    refusal = finished(drive(decide(call, policy, now), store, NO_REVOCATIONS, now)).refusal
    assert refusal is not None
    challenge = agent.accept_challenge(refusal.data, GatewayPin(GATEWAY))
    proof = agent.prove(call, "email:send", GATEWAY, challenge=challenge)
    decision = finished(drive(decide(with_proof(call, proof), policy, now), store, NO_REVOCATIONS, now))
    assert decision.refusal is None


@pytest.mark.holds("client/presenter", "challenge")
@pytest.mark.parametrize(
    ("data", "why"),
    [
        (asking(bytes(31)), "has not 32 bytes"),
        (asking(bytes(33)), "has not 32 bytes"),
        (asking(expires_in=-1), "expired already"),
        (asking(verifier_id=""), "does not say whose"),
        (asking(verifier_id=None), "can't be read"),
        (asking(verifier_id="another"), "mail-gateway, and now says that it is another"),
        ({"_meta": {"ratify_challenge": {"challenge": "%", "expires_at": 1, "verifier_id": "x"}}}, "can't be read"),
        ({"_meta": {"ratify_challenge": {"expires_at": True}}}, "can't be read"),
        ({"_meta": []}, "can't be read"),
        ({}, "can't be read"),
    ],
)
def test_a_challenge_that_is_not_this_gateways_own_is_never_signed(
    data: dict[str, object], why: str, trust: Trust
) -> None:
    with pytest.raises(ProofRefused, match=why):
        presenter(trust).accept_challenge(data, GatewayPin(GATEWAY))


def test_what_is_accepted_is_the_gateways_word(trust: Trust) -> None:
    data = asking(b"\x07" * 32)
    accepted = presenter(trust).accept_challenge(data, GatewayPin(GATEWAY))
    assert isinstance(accepted, Challenge)
    assert accepted.challenge == b"\x07" * 32


@pytest.mark.holds("client/presenter", "order")
def test_a_delegation_that_the_clock_refuses_comes_last(trust: Trust) -> None:
    now = unix_seconds() % DAY // 60
    start, end = (f"{at // 60:02}:{at % 60:02}" for at in ((now + 120) % 1440, (now + 180) % 1440))
    never_now = TimeWindow(start=start, end=end, tz="UTC")
    chains = [trust.chain("email:read", constraints=(never_now,)), trust.chain("email:read", "mcp:tool")]
    agent = ProofPresenter(signing_key(trust), chains)
    assert [chain[0].scope for chain in agent.chains_for("email:read", inbox())] == [
        ("email:read", "mcp:tool"),
        ("email:read",),
    ]
    assert len(ProofPresenter(signing_key(trust), chains * 4).chains_for("email:read", inbox())) == MAX_PRESENTED


# --- what a person allowed when asked ---------------------------------------------------------------


def for_calls(trust: Trust, *scope: str, **terms: Any) -> tuple[Any, ...]:
    """A delegation for certain calls alone."""
    named: dict[str, Any] = {"gateway": GATEWAY, "method": "tools/call", "target": ("list_inbox",)} | terms
    return trust.chain(*scope, constraints=(CallTerms(**named).constraint(), MaxRate(5, 3_600)))


def who_asks(trust: Trust, *chains: Any, **options: Any) -> ProofPresenter:
    return ProofPresenter(signing_key(trust), chains, may_ask=True, **options)


@pytest.mark.holds("client/presenter", "order")
def test_one_for_certain_calls_is_presented_for_no_other(trust: Trust) -> None:
    other, here = for_calls(trust, "email:read", target=("send_email",)), for_calls(trust, "email:read")
    agent = who_asks(trust, other, here)
    assert agent.chains_for("email:read", inbox(), GATEWAY) == (here,)
    assert agent.chains_for("email:read", inbox(), "another") == ()
    digest = inbox(folder="all").call_digest().hex()
    agent = who_asks(trust, for_calls(trust, "email:read", params_sha256=digest))
    assert agent.chains_for("email:read", inbox(folder="spam"), GATEWAY) == ()
    assert len(agent.chains_for("email:read", inbox(folder="all"), GATEWAY)) == 1


@pytest.mark.holds("client/presenter", "order")
def test_one_for_certain_calls_is_presented_for_the_tasks_that_came_of_them(trust: Trust) -> None:
    agent = who_asks(trust, for_calls(trust, "email:read"))
    asked = guarded_call_from_values("tasks/get", {"taskId": "t-1"}, "", None)
    assert len(agent.chains_for("", asked, GATEWAY)) == 1
    assert agent.chains_for("", asked, "another") == ()


@pytest.mark.holds("client/presenter", "order")
def test_one_that_ends_with_a_definition_is_presented__only_the_gateway_knows_which_is_in_force(trust: Trust) -> None:
    ended, good = (for_calls(trust, "email:read", definition=each * 64) for each in "ab")
    agent = who_asks(trust, ended, good)
    assert agent.chains_for("email:read", inbox(), GATEWAY) == (ended, good)
    assert agent.chains_for("email:read", inbox(), "another") == ()


@pytest.mark.holds("client/presenter", "order")
def test_where_nobody_is_asked_it_is_presented_all_the_same__its_refusal_says_why(trust: Trust) -> None:
    chain = for_calls(trust, "email:read", target=("send_email",))
    agent = ProofPresenter(signing_key(trust), [chain])
    assert agent.chains_for("email:read", inbox(), GATEWAY) == (chain,)


@pytest.mark.holds("client/presenter", "order")
def test_no_gateway_sees_a_delegation_that_is_for_another__whatever_it_asks_for(trust: Trust) -> None:
    elsewhere, plain = for_calls(trust, "payments:send", gateway="another"), trust.chain("email:read")
    agent = ProofPresenter(signing_key(trust), [elsewhere, plain])
    for scope in ("payments:send", "email:read", "files:write", ""):
        for call in (inbox(), None):
            assert agent.chains_for(scope, call, GATEWAY) == (plain,)
    assert agent.chains_for("payments:send", inbox(), "another") == (elsewhere,)
    alone = ProofPresenter(signing_key(trust), [elsewhere], gateway_id=GATEWAY)
    assert alone.chains_for("payments:send", inbox(), GATEWAY) == ()
    shown = agent.prove(inbox(), "payments:send", GATEWAY)["delegations"]
    assert shown == agent.prove(inbox(), "email:read", GATEWAY)["delegations"]
    with pytest.raises(ConfigurationError, match="no delegation to present"):
        alone.prove(inbox(), "payments:send", GATEWAY)
    prover = Prover(alone)
    attempt = prover.attempt("tools/call", {"name": "list_inbox", "arguments": {}})
    assert attempt is not None
    assert prover.again(attempt, -31001, {"required_scope": "payments:send", "_meta": {}}) is None


@pytest.mark.holds("client/presenter", "order")
def test_a_gateway_that_was_only_met_sees_the_first_delegation_and_what_names_it__however_many_scopes_it_names(
    trust: Trust,
) -> None:
    first, second = trust.chain("email:read"), trust.chain("payments:send", "email:read")
    here, there = for_calls(trust, "email:send"), for_calls(trust, "files:write", gateway="another")
    agent = ProofPresenter(signing_key(trust), [there, first, second, here])
    scopes = ("email:read", "email:send", "payments:send", "files:write", "identity:delegate", "")
    seen = {id(chain) for scope in scopes for chain in agent.chains_for(scope, inbox(), GATEWAY, met=True)}
    assert seen == {id(first), id(here)}
    assert agent.chains_for("email:read", inbox(), met=True) == (first,)  # to who says nothing of itself
    met, named = (
        agent.pin("http://gateway.example/mcp"),
        ProofPresenter(signing_key(trust), [first], gateway_id=GATEWAY),
    )
    met.meet(GATEWAY)
    assert agent.granted_at(met) == {"email:read", "email:send"}
    assert agent.granted_at(named.pin()) == {"email:read", "email:send", "payments:send"}


@pytest.mark.holds("client/presenter", "person-allowed")
def test_delegations_that_were_named_come_before_what_was_allowed(trust: Trust) -> None:
    named, allowed = trust.chain("email:read"), for_calls(trust, "email:read")
    agent = who_asks(trust, named)
    agent.allow(allowed)
    assert agent.chains_for("email:read", inbox(), GATEWAY) == (named, allowed)


@pytest.mark.holds("client/presenter", "order", "person-allowed")
@pytest.mark.holds("client/proving", "next-delegation")
def test_what_was_allowed_last_is_tried_however_many_there_are(trust: Trust) -> None:
    agent = who_asks(trust, *(trust.chain("email:read") for _ in range(MAX_PRESENTED + 2)))
    agent.allow(last := for_calls(trust, "email:read"))
    assert agent.chains_for("email:read", inbox(), GATEWAY)[-1] == last


@pytest.mark.holds("client/presenter", "person-allowed")
def test_a_yes_to_one_call_is_never_written_and_others_are_read_again(trust: Trust, tmp_path: Path) -> None:
    files = agent_files(tmp_path, trust)
    agent = ProofPresenter(files.key, (), may_ask=True)
    agent.allow(for_calls(trust, "email:read", params_sha256=inbox().call_digest().hex()))
    assert not (tmp_path / "grants").exists()
    agent.allow(kept := for_calls(trust, "email:read"))
    again = ProofPresenter(files.key, (), may_ask=True)
    assert again.chains_for("email:read", inbox(), GATEWAY) == (kept,)
    with pytest.raises(ConfigurationError):
        ProofPresenter(files.key, ())  # not without asking


@pytest.mark.holds("client/presenter", "person-allowed")
def test_a_grant_that_is_put_there_later_counts_without_a_restart(trust: Trust, tmp_path: Path) -> None:
    """A host goes on running: a person would be asked for what they have just signed."""
    files = agent_files(tmp_path, trust)
    agent = ProofPresenter(files.key, (), may_ask=True)
    folder = tmp_path / "grants"
    folder.mkdir()
    save_delegation(folder / "by-hand.json", later := trust.chain("email:read"))
    for _ in range(2):
        assert agent.chains_for("email:read", inbox(), GATEWAY) == (later,)
    agent.allow(asked := for_calls(trust, "email:send"))
    assert agent.granted == {"email:read", "email:send"}
    assert len(agent.chains_for("email:send", None, GATEWAY)) == 1 == len({each[0].cert_id for each in (asked,)})


@pytest.mark.holds("client/presenter", "order")
def test_a_gateway_that_nobody_named_is_shown_one_delegation_that_allows_something(trust: Trust) -> None:
    """What `install --adopt` signs only says who the agent is: whatever its person signs later would never be shown."""
    who, first, second = trust.chain("identity:prove"), trust.chain("email:read"), trust.chain("email:send")
    agent = who_asks(trust, who, first, second)
    assert agent.chains_for("email:read", inbox(), GATEWAY, met=True) == (first,)
    assert agent.chains_for("email:send", inbox(), GATEWAY, met=True) == (first,)
    assert who_asks(trust, who).chains_for("email:read", inbox(), GATEWAY, met=True) == (who,)


@pytest.mark.holds("client/presenter", "person-allowed")
def test_what_lies_among_the_grants_and_is_none_is_not_presented(trust: Trust, tmp_path: Path) -> None:
    files = agent_files(tmp_path, trust)
    folder = tmp_path / "grants"
    folder.mkdir()
    stranger = Trust()
    save_delegation(folder / "stranger.json", stranger.chain("email:read"))
    save_delegation(folder / "over.json", trust.chain("email:read", begins=-9, ends=-1))
    (folder / "broken.json").write_text("{")
    agent = ProofPresenter(files.key, (), may_ask=True)
    assert agent.granted == frozenset()
    assert sorted(each.name for each in folder.iterdir()) == ["broken.json", "stranger.json"]


def test_what_proves_nothing_is_not_taken_for_an_answer(trust: Trust) -> None:
    agent = who_asks(trust)
    with pytest.raises(ConfigurationError):
        agent.allow(Trust().chain("email:read"))
    with pytest.raises(ConfigurationError):
        agent.chain_for("email:read")
    assert agent.granted == frozenset()
