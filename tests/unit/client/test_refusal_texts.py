"""What a person is told of a refusal, and what is never in it."""

import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from mcp_types import ErrorData
from tests.world.agents import agent_files, save_delegation
from tests.world.authorization import GATEWAY, Trust

from accredit.cli import app
from accredit.client import ProofPresenter
from accredit.client.refusals import Caller, explain_refusal, mark_uncovered, public_data, refusal_of
from accredit.consent.call import CallTerms, is_for_call
from accredit.errors import ProofRefused
from accredit.keys import DelegationFile, SigningKey, write_key
from accredit.limits import MAX_TOLD_REASON_CHARS
from accredit.ratify import CallFacts, Extension
from accredit.ratify.constraints import MaxAmount, MaxRate
from accredit.ratify.scopes import SENSITIVE_SCOPES

pytestmark = pytest.mark.holds("client/refusals")

SCOPE_DENIED = {"error": "ratify_scope_denied", "tool": "send_email", "target": "send_email"}


@pytest.fixture(scope="module")
def trust() -> Trust:
    return Trust()


CLAIMED = {"_meta": {"ratify_verifier": GATEWAY}}


def held(key: Any, *delegations: Any) -> ProofPresenter:
    """What an agent of a gateway that is named proves itself with."""
    return ProofPresenter(key, delegations, gateway_id=GATEWAY)


def told(
    presenter: ProofPresenter | None, error: str, code: int = -31003, *, called: object = "send_email", **data: object
) -> str:
    told = {"error": error, **CLAIMED, **data}
    found = refusal_of(ErrorData(code=code, message=f"{error}: the gateway's words", data=told))
    assert found is not None
    return explain_refusal(found, Caller(presenter), "tools/call", called)


def granted_by(text: str) -> list[str]:
    """The words of the command that is suggested; none if there is none."""
    (line, *more) = [*(line for line in text.splitlines() if line.startswith("  accredit grant")), ""]
    assert more in ([], [""])
    return shlex.split(line)


def test_a_person_reads_what_was_asked_what_is_covered_and_what_would_allow_it(trust: Trust, tmp_path: Path) -> None:
    files = agent_files(tmp_path, trust, "email:read", "mcp:resource")
    presenter = held(files.key, files.delegation)
    text = told(presenter, "ratify_scope_denied", required_scope="email:send", target="send_email")
    terms = '{"params":{"gateway":"mail-gateway","method":"tools/call","target":["send_email"],"v":1},'
    assert text.splitlines() == [
        "Not allowed: nobody has allowed this agent send_email (ratify_scope_denied).",
        "It needs the scope email:send: the gateway mail-gateway says so, and this program can't check that."
        " This agent's delegation covers email:read, mcp:resource.",
        "Whoever may allow it does so with this command, where PATH is their private key:",
        f"  accredit grant --issuer PATH --agent {tmp_path}/agent.key.pub --scope email:send"
        f""" --constraint '{terms}"type":"dev.accredit.call"}}' --rate 5/1h --expires 1h"""
        f" --out {tmp_path}/email-send.json",
        f"Then add --delegation {tmp_path}/email-send.json to the arguments of `accredit connect`.",
    ]


def test_of_a_tool_without_a_scope_a_person_reads_what_gives_it_one(trust: Trust, tmp_path: Path) -> None:
    files = agent_files(tmp_path, trust, "email:read")
    first, *advice = told(held(files.key, files.delegation), "unknown_tool", -32602, target="new").splitlines()
    assert first == "Not allowed: the gateway's words (unknown_tool)."
    assert "`accredit check --fix`" in advice[0]
    assert "`accredit reload`" in advice[0]
    assert len(advice) == 1


def test_the_command_does_what_it_says(trust: Trust, tmp_path: Path) -> None:
    folder = tmp_path / "a folder's name"
    folder.mkdir()
    files = agent_files(folder, trust, "email:read")
    presenter = held(files.key, files.delegation)
    text = told(presenter, "ratify_scope_denied", required_scope="custom:$(deploy)", called="$(deploy) 'it'")
    assert "$(deploy)\\u0020" in text  # no name of the server's is a word by itself where a terminal wraps the line
    write_key(tmp_path / "boss.key", trust.owner)
    (line,) = [line for line in text.splitlines() if line.startswith("  accredit grant")]
    words = [str(tmp_path / "boss.key") if word == "PATH" else word for word in shlex.split(line)]
    assert CliRunner().invoke(app, words[1:], standalone_mode=False).exit_code == 0
    new = ProofPresenter(files.key, [files.delegation, folder / "custom-deploy.json"])
    assert new.granted == {"email:read", "custom:$(deploy)"}
    (rate, call) = new.chain_for("custom:$(deploy)")[0].constraints
    assert call == CallTerms(gateway=GATEWAY, method="tools/call", target=("$(deploy) 'it'",)).constraint()
    assert rate == MaxRate(5, 3600)


@pytest.mark.parametrize(
    "scope",
    ["identity:delegate", "identity:prove", "email:*", "*", "comms:*", *sorted(SENSITIVE_SCOPES)],
)
def test_a_server_has_no_grant_suggested_of_what_lets_an_agent_delegate__nor_of_what_is_sensitive(
    scope: str, trust: Trust, tmp_path: Path
) -> None:
    files = agent_files(tmp_path, trust, "email:read")
    for presenter in (held(files.key, files.delegation), None):
        for error, code in (("ratify_scope_denied", -31003), ("missing_ratify_proof", -31001)):
            assert not granted_by(told(presenter, error, code, required_scope=scope))


@pytest.mark.parametrize("called", [None, 7, "", "a<b", "\x1b[31m", "\u202e", "s" * 2_000, "\ud800"])
def test_nor_of_what_can_not_be_bound_to_a_call__or_to_a_gateway(called: object, trust: Trust, tmp_path: Path) -> None:
    files = agent_files(tmp_path, trust, "email:read")
    named, nobody = held(files.key, files.delegation), ProofPresenter(files.key, [files.delegation])
    assert not granted_by(told(named, "ratify_scope_denied", required_scope="email:send", called=called))
    text = told(nobody, "ratify_scope_denied", required_scope="email:send")
    assert not granted_by(text)
    assert "an unknown server says so" in text
    assert "No command is suggested" in text
    for id in ("", 7, None, called):
        text = told(None, "missing_ratify_proof", -31001, required_scope="email:send", _meta={"ratify_verifier": id})
        assert not granted_by(text)


def test_what_is_suggested_is_good_at_no_other_gateway_and_for_nothing_else(trust: Trust, tmp_path: Path) -> None:
    files = agent_files(tmp_path, trust, "email:read")
    words = granted_by(told(held(files.key, files.delegation), "ratify_scope_denied", required_scope="email:send"))
    write_key(tmp_path / "boss.key", trust.owner)
    words[words.index("PATH")] = str(tmp_path / "boss.key")
    assert CliRunner().invoke(app, words[1:], standalone_mode=False).exit_code == 0
    (_, call) = ProofPresenter(files.key, [tmp_path / "email-send.json"]).chain_for("email:send")[0].constraints
    assert isinstance(call, Extension)
    for name, gateway, good in (("send_email", GATEWAY, True), ("send_email", "x", False), ("pay", GATEWAY, False)):
        facts = CallFacts(verifier_id=gateway, method="tools/call", target=name, arguments={}, params_digest=bytes)
        assert is_for_call(call, facts) is good


def test_who_has_no_key_yet_is_told_to_make_one() -> None:
    text = told(None, "missing_ratify_proof", -31001, required_scope="email:send", target="send_email")
    assert "accredit keys new agent.key --kind agent" in text
    assert "covers nothing" in text
    assert "--agent agent.key.pub" in text
    assert "add --key agent.key --delegation email-send.json" in text


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        ("ratify_expired", -31003, "accredit grant"),
        ("ratify_revoked", -31003, "withdrawn"),
        ("ratify_constraint_denied", -31003, "by its constraints"),
        ("ratify_untrusted_root", -31004, "as a root"),
        ("gateway_changed", -31020, "--gateway-id"),
        ("gateway_mismatch", -31020, "--gateway-id"),
        ("gateway_unknown", -31020, "--gateway-id"),
        ("missing_token", -31011, "--token-env"),
        ("invalid_token", -31010, "--token-env"),
        ("ratify_replayed", -31005, "the gateway's words"),
        ("record_unavailable", -31006, "the gateway's words"),
        ("too_many_challenges", -31007, "the gateway's words"),
        ("unknown_tool", -32602, "the gateway's words"),
    ],
)
def test_each_refusal_says_what_helps(error: str, code: int, says: str) -> None:
    assert says in told(None, error, code, required_scope="email:send", target="send_email")


def test_the_advice_after_a_constraint_names_what_to_change_and_keeps_all_other_constraints(
    trust: Trust, tmp_path: Path
) -> None:
    limits = (MaxAmount("EUR", 100), MaxRate(10, 3600))
    granted = DelegationFile(trust.chain("payments:send", constraints=limits))
    (tmp_path / "delegation.json").write_bytes(granted.encode())
    write_key(tmp_path / "agent.key", trust.agent)
    presenter = held(tmp_path / "agent.key", tmp_path / "delegation.json")
    reason = "constraint_denied: cert 0: constraint[0] (max_amount): amount 250.00 EUR exceeds max 100.00 EUR"
    text = told(presenter, "ratify_constraint_denied", required_scope="payments:send", reason=reason)
    (line,) = [line for line in text.splitlines() if line.startswith("  accredit grant")]
    assert "and LIMIT what they allow" in text
    assert "--rate 10/1h --max-amount LIMIT --expires" in line
    write_key(tmp_path / "boss.key", trust.owner)
    given = {"PATH": str(tmp_path / "boss.key"), "LIMIT": "300EUR"}
    words = [given.get(word, word) for word in shlex.split(line)]
    assert CliRunner().invoke(app, words[1:], standalone_mode=False).exit_code == 0
    (new,) = ProofPresenter(tmp_path / "agent.key", [tmp_path / "payments-send.json"]).chains_for("payments:send")
    limits = [each for each in new[0].constraints if not isinstance(each, Extension)]
    assert set(limits) == {MaxAmount("EUR", 300), MaxRate(10, 3600)}


def test_where_a_fact_is_unknown_the_advice_is_the_catalog_or_a_delegation_without_the_constraint(
    trust: Trust, tmp_path: Path
) -> None:
    chain = trust.chain("payments:send", constraints=(MaxAmount("EUR", 100), MaxRate(10, 3600)))
    presenter = held(SigningKey(trust.agent.public(), trust.agent.signer()), chain)
    reason = "constraint_unverifiable: cert 0: constraint[0] (max_amount): no requested amount in context"
    text = told(presenter, "ratify_constraint_unverifiable", required_scope="payments:send", reason=reason)
    assert "`facts` in the tool's table" in text
    assert "--rate 10/1h --expires" in text
    assert "--max-amount" not in text


def test_another_gateway_s_id_and_the_known_one_are_both_named_whole() -> None:
    known, found = "0" * 31 + "1", "f" * 31 + "e"
    text = told(None, "gateway_changed", -31020, pinned=known, found=found)
    assert f"was {known}, and now says that it is {found}; nothing was signed" in text


def test_a_grant_is_not_proposed_where_it_would_not_help() -> None:
    for error, code in [("ratify_replayed", -31005), ("too_many_challenges", -31007), ("unknown_tool", -32602)]:
        assert "accredit grant" not in told(None, error, code, required_scope="email:send")


def test_by_a_clock_that_is_behind_the_clock_is_named__and_no_new_delegation(trust: Trust, tmp_path: Path) -> None:
    files = agent_files(tmp_path, trust)
    new = save_delegation(tmp_path / "new.json", trust.chain("email:send", begins=3_600))
    late = ProofPresenter(files.key, [new], gateway_id=GATEWAY, patient=True)
    text = told(late, "missing_ratify_proof", required_scope="email:send", target="send_email")
    assert text.startswith(f"Not allowed: {new} is not valid yet: it begins at ")
    assert "timedatectl" in text
    assert "accredit grant" not in text
    # With another delegation that is good, the call lacks a scope: a grant helps.
    good = save_delegation(tmp_path / "good.json", trust.chain("email:read"))
    both = ProofPresenter(files.key, [new, good], gateway_id=GATEWAY, patient=True)
    assert "accredit grant" in told(both, "ratify_scope_denied", required_scope="mcp:prompt", target="x")


@pytest.mark.parametrize(("ahead", "told_as"), [(3598, "60 minutes"), (61, "1 minute"), (12, "12 seconds")])
def test_by_a_clock_that_is_ahead_a_person_reads_no_negative_age(ahead: int, told_as: str) -> None:
    message = f"ratify_invalid: stale_challenge: challenge is -{ahead} seconds old (max 30)"
    found = refusal_of(ErrorData(code=-31003, message=message, data={"error": "ratify_invalid"}))
    assert found is not None
    first, clocks = explain_refusal(found, Caller(None), "tools/call", "send_email").splitlines()
    says = f"the proof was made {told_as} in the future: is this machine's clock right?"
    assert first == f"Not allowed: {says} (ratify_invalid)."
    assert "`accredit doctor`" in clocks


@pytest.mark.parametrize("fault", ["expired", "missing", "foreign"])
def test_of_a_delegation_that_can_t_be_used_a_person_reads_one_command(
    fault: str, trust: Trust, tmp_path: Path
) -> None:
    files = agent_files(tmp_path, trust, "email:read")
    file = tmp_path / "old.json"
    if fault == "expired":
        save_delegation(file, trust.chain("email:read", ends=-1))
    elif fault == "foreign":
        save_delegation(file, Trust().chain("email:read"))
    presenter = ProofPresenter(files.key, [file], gateway_id=GATEWAY, patient=True)
    text = told(presenter, "missing_ratify_proof", -31001, required_scope="email:read", target="list_inbox")
    assert str(file) in text
    assert text.count("accredit grant") == 1
    assert "SCOPE" not in text


def test_a_gateways_words_are_bounded_and_steer_no_terminal() -> None:
    text = told(None, "ratify_scope_denied", required_scope="\x1b[31m" + "s" * 5_000, target="t" * 5_000)
    assert len(text) < 1_000
    assert "\x1b" not in text
    assert "accredit grant" not in text


def test_a_long_reason_is_told_to_its_end__up_to_a_bound() -> None:
    reason = f"constraint_denied: cert 0: constraint[0] (resource_path): {'/a' * 80} is not below /b"
    refusal = ProofRefused({"error": "ratify_constraint_denied"}, f"ratify_constraint_denied: {reason}")
    assert f"Not allowed: {reason} (ratify_constraint_denied)." in explain_refusal(
        refusal, Caller(None), "tools/call", "x"
    )
    endless = ProofRefused({"error": "ratify_invalid"}, "\x1b" + "r" * 100_000)
    told = explain_refusal(endless, Caller(None), "tools/call", "x")
    assert told == f"Not allowed: ?{'r' * (MAX_TOLD_REASON_CHARS - 1)} (ratify_invalid)."


@pytest.mark.parametrize(
    ("code", "data"),
    [(-32602, {"error": "no"}), (-32000, None), (-31003, None), (-31003, "x"), (-31003, {"error": 3}), (-32603, [])],
)
def test_other_errors_are_no_refusals(code: int, data: Any) -> None:
    assert refusal_of(ErrorData(code=code, message="no", data=data)) is None


def test_a_host_never_gets_a_challenge() -> None:
    data = {**SCOPE_DENIED, "_meta": {"ratify_challenge": {"challenge": "c2VjcmV0"}}}
    assert public_data(data) == SCOPE_DENIED
    assert "c2VjcmV0" not in explain_refusal(ProofRefused(data, "m", -31002), Caller(None), "tools/call", "x")


def test_a_tool_that_is_not_covered_says_so_before_its_own_words() -> None:
    tool: dict[str, object] = {"name": "x", "description": "Does x.", "_meta": {"ratify_scope": "a:b"}}
    assert mark_uncovered(tool)["description"] == "[Not covered by this agent's delegation: needs a:b] Does x."
    assert mark_uncovered({"name": "x", "_meta": {"ratify_scope": "a:b"}})["description"] == (
        "[Not covered by this agent's delegation: needs a:b]"
    )
