"""`accredit log verify CALL.json --root` and `log show`: who allowed one call, and who signed it, by keys of one's
own."""

import asyncio
import json
from typing import Any

import pytest
from msgspec.structs import replace
from tests.unit.ops.conftest import KEY, Folder
from tests.unit.policy.test_evidence import old
from tests.unit.ratify.world import AGENT, HOLDERS, HUMAN, NOW, STRANGER, certificate, chain, constraint
from tests.world.decisions import call as one_call
from tests.world.decisions import proven
from tests.world.in_process import Done, Run
from tests.world.proved_calls import calls_come_now, recorded
from tests.world.recorded import thread
from tests.world.records import NOW_MS, OK, POLICY, decided
from tests.world.signed_calls import SignedCall, lied, said, signed_call

from accredit.attest import CallBundle, encode_call_bundle, encode_statement, recorded_chain
from accredit.keys import PrivateKeyFile, log_signer, read_key
from accredit.keys.formats import KEY_FILE_VERSION, KeyFile
from accredit.ops.log_place import keys_by_kind
from accredit.stores.audit_log.queue import QueuedRecords

__all__ = ["calls_come_now"]

GOOD = signed_call()
ROOT = ("--root", "owner.key.pub")


@pytest.fixture(autouse=True)
def roots(folder: Folder) -> None:
    """The public keys of the person who allowed the call, and of somebody else."""
    for name, key in (("owner", HUMAN), ("stranger", STRANGER)):
        about = KeyFile(KEY_FILE_VERSION, "human", name.title(), key.id, 1, key.public_key)
        (folder.path / f"{name}.key.pub").write_bytes(about.text())


def written(folder: Folder, call: SignedCall) -> str:
    """The bundle of a call, signed by the gateway."""
    key = read_key(folder.path / "gateway.key")
    assert isinstance(key, PrivateKeyFile)
    signer = log_signer(key)
    envelope = signer.record(encode_statement(call.decision))
    bundle = CallBundle((envelope,), call.certificates, proof=call.proof)
    (folder.path / "call.json").write_bytes(encode_call_bundle(bundle))
    return "call.json"


def verified(run: Run, folder: Folder, call: SignedCall, *options: str) -> tuple[int, Any]:
    done = run("log", "verify", written(folder, call), *KEY, "--json", *options)
    found = json.loads(done.out)
    assert found["valid"] is (done.code == 0)
    return done.code, [found[part]["verified"] for part in ("allowed", "signed", "recorded")]


def test_an_auditor_sees_who_allowed_and_who_signed_a_call(run: Run, folder: Folder) -> None:
    assert verified(run, folder, GOOD, *ROOT) == (0, [True, True, True])
    done = run("log", "verify", "call.json", *KEY, *ROOT)
    assert done.code == 0
    assert (
        f"Owner allowed agent {HOLDERS[2].id} to call read_file at mail-gateway until 2027-01-15; agent"
        f" {HOLDERS[2].id} signed this call at 2027-01-15T08:00:00Z; mail-gateway recorded it."
    ) in done.words
    assert "ok: the records of this call verify" in done.words


def test_the_sentence_comes_first__and_calls_the_gateway_by_the_name_in_the_key_that_was_given(
    run: Run, folder: Folder, gateway_key: PrivateKeyFile
) -> None:
    """An auditor who has to look for it below the ids of two records does not read it."""
    done = run("log", "verify", written(folder, said(GOOD, gateway=gateway_key.id)), *KEY, *ROOT)
    assert done.out.startswith("Owner allowed agent ")
    assert "Mail gateway recorded it." in " ".join(done.out.split())


def test_without_a_key_of_ones_own_nobody_is_called_by_a_name(run: Run, folder: Folder) -> None:
    call = said(GOOD, principal_name="Mallory")
    assert verified(run, folder, call) == (0, [None, True, True])
    done = run("log", "verify", "call.json", *KEY)
    assert f"{HUMAN.id} (compared with no key of yours) allowed" in done.words
    assert verified(run, folder, call, "--root", "stranger.key.pub") == (1, [False, True, True])
    assert verified(run, folder, call, "--root", "stranger.key.pub", *ROOT) == (0, [True, True, True])


def test_a_gateway_that_lies_is_named(run: Run, folder: Folder) -> None:
    certificates = json.loads(GOOD.certificates or b"")
    certificates[0]["scope"] = ["files:write"]
    for call, part in (
        (lied(GOOD, certificates=certificates), "allowed"),
        (said(GOOD, subject="ab" * 32), "signed"),
        (said(GOOD, granted_scope="files:write"), "allowed"),
    ):
        done = run("log", "verify", written(folder, call), *KEY, *ROOT)
        assert (done.code, f"BAD: {part}: " in done.words) == (1, True)
        assert "ok:" not in done.words


def test_that_an_agent_signed_a_call_without_its_proof_is_the_gateways_word(run: Run, folder: Folder) -> None:
    kept_nothing = said(GOOD._replace(proof=None), proof="digest")
    for call in (kept_nothing, old(GOOD._replace(proof=None))):
        assert verified(run, folder, call, *ROOT) == (0, [True, None, True])
        assert "signed this call is mail-gateway's word" in run("log", "verify", "call.json", *KEY, *ROOT).words


def test_another_calls_proof_in_the_bundle_is_bad(run: Run, folder: Folder) -> None:
    for call in (GOOD._replace(proof=signed_call(resource_id="other").proof), GOOD._replace(certificates=b"[]")):
        done = run("log", "verify", written(folder, call), *KEY, *ROOT)
        assert (done.code, "of the decision" in done.words) == (1, True)


def test_who_exports_a_call_is_told_that_what_the_agent_signed_is_not_in_it_yet(
    run: Run, folder: Folder, calls_come_now: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An auditor who opens such a file a day later would take it for a forged one."""
    made = recorded(folder.path / "kept.db", proven(one_call(), bound=True))

    def exported(seconds: int) -> tuple[bool, bool]:
        monkeypatch.setattr("accredit.ops.log_export.unix_seconds", lambda: NOW + seconds)
        done = run("log", "export", "--store", "sqlite:///kept.db", "--call", made.call.id, "--bundle")
        return json.loads(done.out)["proof"] is None, "--wait waits" in done.err

    assert exported(1) == (True, True)
    assert exported(1_000) == (False, False)


def test_who_waits_exports_what_the_agent_signed(
    run: Run, folder: Folder, calls_come_now: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = recorded(folder.path / "kept.db", proven(one_call(), bound=True))
    slept = [0]
    monkeypatch.setattr("accredit.ops.log_export.unix_seconds", lambda: NOW + 1 + sum(slept))
    monkeypatch.setattr("accredit.ops.log_export.time.sleep", slept.append)
    words = ("log", "export", "--store", "sqlite:///kept.db", "--call", made.call.id)
    done = run(*words, "--bundle", "--wait")
    assert json.loads(done.out)["proof"] is not None
    assert f"waiting {sum(slept)} seconds" in done.err
    assert sum(slept) > 0
    assert run(*words, "--wait").code == 2


def test_what_is_not_answered_is_listed(run: Run, folder: Folder) -> None:
    limited = certificate(constraints=(constraint(type="max_rate", count=1, window_s=60),))
    done = run("log", "verify", written(folder, signed_call((limited,), AGENT)), *KEY, *ROOT)
    assert (done.code, "not answered by the record: certificate 0: max_rate" in done.words) == (0, True)


def test_the_lines_of_a_log_have_no_certificates_to_hold_against_a_person(run: Run, folder: Folder) -> None:
    run("log", "export", "--store", "sqlite:///accredit.db", "--out", "calls.jsonl")
    done = run("log", "verify", "calls.jsonl", *KEY, *ROOT)
    assert (done.code, done.out) == (2, "")


def test_of_a_refused_call_nothing_is_proved(run: Run, folder: Folder) -> None:
    run("log", "export", "--store", "sqlite:///accredit.db", "--call", folder.denied.call.id, "--bundle", "--out", "no")
    found = json.loads(run("log", "verify", "no", *KEY, *ROOT, "--json").out)
    assert (found["valid"], found["allowed"], found["signed"], found["recorded"]) == (True, None, None, None)


def shown(run: Run, folder: Folder, *options: str, **changed: Any) -> Done:
    """What `log show` says of a call that is in the store, on a real chain, where its proof is not kept."""
    certs = chain(1)
    texts = recorded_chain(cert.encode() for cert in certs)
    call = decided(certificates=texts.text)
    assert call.authority is not None
    members = {
        "principal_id": HUMAN.id,
        "agent_id": AGENT.id,
        "cert_ids": (certs[0].cert_id,),
        "chain_sha256": texts.sha256,
        "scope": "files:read",
        "granted_scope": "files:read",
    }
    call = replace(call, authority=replace(call.authority, **(members | changed)))

    async def make() -> None:
        key = read_key(folder.path / "gateway.key")
        assert isinstance(key, PrivateKeyFile)
        records = QueuedRecords(
            thread(folder.path / "accredit.db", log_signer(key)),
            durable=True,
            policy_digest=POLICY,
            on_problem=pytest.fail,
            clock=lambda: NOW_MS,
        )
        await records.begin(call)
        await records.finish(call, OK)
        await records.aclose()

    asyncio.run(make())
    (folder.path / "accredit.toml").write_text(
        '[store]\nurl = "sqlite:///accredit.db"\n[attest]\nkey_file = "gateway.key"\n'
        '[[proofs.roots]]\nname = "Ada"\npublic_key_file = "owner.key.pub"\n'
    )
    return run("log", "show", call.call.id, *options)


def test_log_show_says_the_same__by_the_configurations_own_roots(run: Run, folder: Folder) -> None:
    done = shown(run, folder)
    assert done.code == 0
    assert f"Ada allowed agent {AGENT.id} to call send_email at mail-gateway until 2027-01-15" in done.words
    assert "signed this call is mail-gateway's word" in done.words
    found = shown(run, folder, "--json").json
    assert [found[part]["verified"] for part in ("allowed", "signed", "recorded")] == [True, None, True]
    (folder.path / "owner.key.pub").unlink()
    assert f"{HUMAN.id} (compared with no key of yours) allowed" in shown(run, folder).words


def test_log_show_names_a_gateway_by_the_key_that_is_passed_in__as_log_verify_does(run: Run, folder: Folder) -> None:
    words = shown(run, folder, *KEY, "--store", "sqlite:///accredit.db").words
    assert "to call send_email at mail-gateway until 2027-01-15" in words


def test_every_command_that_shows_a_call_says_the_same_of_it(run: Run, folder: Folder) -> None:
    agent = KeyFile(KEY_FILE_VERSION, "agent", "Assistant", HOLDERS[2].id, 1, HOLDERS[2].public_key)
    (folder.path / "assistant.key.pub").write_bytes(agent.text())
    known = (written(folder, GOOD), *KEY, "--known", "assistant.key.pub")
    inspected = ("inspect", "call.json", *KEY, "--key", "owner.key.pub", "--key", "assistant.key.pub")
    said_by = [
        run(*command, "--json").json
        for command in (("log", "verify", *known, *ROOT), ("log", "list", *known, *ROOT), inspected)
    ]
    for told in said_by:
        assert told["sentence"] == (
            "Owner allowed Assistant to call read_file at mail-gateway until 2027-01-15; Assistant signed this call at"
            " 2027-01-15T08:00:00Z; mail-gateway recorded it."
        )
        assert {part: told[part] for part in ("allowed", "signed", "recorded", "unanswered")} == {
            part: said_by[0][part] for part in ("allowed", "signed", "recorded", "unanswered")
        }
    for command in (("log", "verify", *known, *ROOT), inspected):
        done = run(*command)
        assert (done.code, said_by[0]["sentence"] in done.words) == (0, True)
        assert (
            "allowed verified by both signatures in each certificate: Owner, until 2027-01-15T09:00:00Z" in done.words
        )
        assert f"over this very call: Assistant ({HOLDERS[2].id}), at 2027-01-15T08:00:00Z" in done.words
        assert "recorded verified by the signature over the record: mail-gateway, at 2027-01-15T08:00:00" in done.words
    assert "allowed by" in run("log", "list", *known, *ROOT).out
    assert run("log", "list", *known, *ROOT).out.rstrip().endswith(f"Assistant ({HOLDERS[2].id})  Owner")


def test_whoever_names_no_person_sees_a_keys_id_wherever_a_call_is_shown(run: Run, folder: Folder) -> None:
    call = written(folder, said(GOOD, principal_name="Mallory"))
    for command in (("log", "list", call, *KEY), ("inspect", call, *KEY), ("inspect", call, *KEY, *KEY)):
        done = run(*command)
        assert (done.code, f"{HUMAN.id} (compared with no key of yours)" in done.words) == (0, True)
        assert run(*command, "--json").json["allowed"]["who"] == HUMAN.id
    unverified = run("log", "list", call)
    assert ("allowed by" in unverified.out, "nothing of this is verified" in unverified.err) == (False, True)
    assert run("inspect", call, "--key", "owner.key.pub", "--json").json["sentence"] is None


def test_of_the_keys_that_are_inspected_with_only_a_persons_may_have_allowed_a_call(folder: Folder) -> None:
    """A gateway's own would let it allow its calls, an agent's its own."""
    agent = KeyFile(KEY_FILE_VERSION, "agent", "Assistant", AGENT.id, 1, AGENT.public_key)
    (folder.path / "assistant.key.pub").write_bytes(agent.text())
    files = [folder.path / f"{name}.key.pub" for name in ("gateway", "owner", "assistant")]
    trusted, people, names = keys_by_kind(files)
    assert people == {HUMAN.public_key: "Owner"}
    assert HUMAN.id not in {key.id for key in trusted}, "nor does a person's key sign records"
    assert {names[key.id] for key in trusted} == {"Mail gateway", "Assistant"}


def test_what_contradicts_a_record_is_named_wherever_it_is_shown(run: Run, folder: Folder) -> None:
    call = written(folder, said(GOOD, subject="ab" * 32))
    listed = run("log", "list", call, *KEY, *ROOT)
    assert "BAD: signed: its proof is for another call" in listed.words
    assert run("log", "list", call, *KEY, *ROOT, "--json").json["verified"] is False
    done = run("inspect", call, *KEY, "--key", "owner.key.pub")
    assert (done.code, "signed BAD: its proof is for another call" in done.words) == (1, True)
    assert run("inspect", call, *KEY, "--key", "owner.key.pub", "--json").code == 1
    other = written(folder, GOOD)
    assert (
        "BAD: allowed: the chain begins with none"
        in run("log", "list", other, *KEY, "--root", "stranger.key.pub").words
    )


def test_only_one_call_is_listed_of_a_file(run: Run, folder: Folder) -> None:
    run("log", "export", "--store", "sqlite:///accredit.db", "--out", "calls.jsonl")
    for arguments in (("calls.jsonl",), ("owner.key.pub",), (written(folder, GOOD), "--follow")):
        done = run("log", "list", *arguments, *KEY)
        assert (done.code, done.out) == (2, "")
    assert run("log", "list", "call.json", *KEY, "--tool", "other").out.count("\n") == 1


def test_a_list_says_who_allowed_each_call__by_the_configurations_own_roots(run: Run, folder: Folder) -> None:
    shown(run, folder)
    told = {row["call"]: row for row in map(json.loads, run("log", "list", "--json").out.splitlines())}
    assert sorted(
        {row["allowed"]["who"] for row in told.values() if row["allowed"] and row["allowed"]["verified"]}
    ) == ["Ada"]
    assert "Ada" in run("log", "list").out
    assert f"{HUMAN.id} (compared" in run("log", "list", "--store", "sqlite:///accredit.db", *KEY).words
    named = run("log", "list", "--store", "sqlite:///accredit.db", *KEY, "--root", "owner.key.pub")
    assert ("Owner" in named.out, "compared with" in named.out) == (True, False)
    call = next(call for call, row in told.items() if row["allowed"] and row["allowed"]["verified"])
    asked = run("log", "show", call, "--root", "stranger.key.pub")
    assert (asked.code, "allowed BAD: the chain begins with none" in asked.words) == (1, True)


def test_log_show_names_what_contradicts_a_record__and_believes_none_that_was_not_verified(
    run: Run, folder: Folder
) -> None:
    done = shown(run, folder, principal_id=STRANGER.id, principal_name="Ada")
    assert (done.code, "allowed BAD: its chain is from, or for, somebody else" in done.words) == (1, True)
    unverified = shown(run, folder, "--store", "sqlite:///accredit.db", principal_id=STRANGER.id)
    assert (unverified.code, "allowed BAD" in unverified.words, "recorded it" in unverified.words) == (0, False, False)
    found = shown(run, folder, "--store", "sqlite:///accredit.db", "--json").json
    assert (found["allowed"], found["signed"], found["recorded"]) == (None, None, None)


def test_only_a_person_s_key_is_a_root__a_gateway_s_own_would_let_it_allow_its_calls(run: Run, folder: Folder) -> None:
    done = run("log", "verify", written(folder, GOOD), *KEY, "--root", "gateway.key.pub")
    assert (done.code, "is a key of kind 'gateway'" in done.err) == (2, True)


def test_with_required_proofs_nothing_of_a_call_is_taken_on_the_gateways_word(run: Run, folder: Folder) -> None:
    required = (*ROOT, "--require-proofs")
    assert verified(run, folder, GOOD, *required) == (0, [True, True, True])
    assert verified(run, folder, GOOD._replace(certificates=None), *ROOT)[0] == 0
    for call in (GOOD._replace(proof=None), GOOD._replace(certificates=None), old(GOOD._replace(proof=None))):
        assert verified(run, folder, call, *required)[0] == 1
    done = run("log", "verify", written(folder, GOOD._replace(certificates=None)), *KEY, *required)
    assert "BAD: allowed: proofs are required, and its certificates are not there" in done.words
    assert verified_parts(run, folder, "--no-proofs") == [None, None, None]
    assert run("log", "verify", "call.json", *KEY, "--no-proofs", *required).code == 2


def verified_parts(run: Run, folder: Folder, *options: str) -> list[Any]:
    found = json.loads(run("log", "verify", written(folder, GOOD), *KEY, "--json", *options).out)
    return [found[part] for part in ("allowed", "signed", "recorded")]


@pytest.mark.slow
def test_a_whole_log_is_held_against_what_its_calls_prove(run: Run, folder: Folder) -> None:
    store = ("--store", "sqlite:///accredit.db", *KEY)
    found = json.loads(run("log", "verify", *store, "--json").out)
    assert (found["valid"], found["proved"], found["not_proved"]) == (True, 0, 3)
    done = run("log", "verify", *store, "--require-proofs")
    assert (done.code, "proofs are required, and" in done.words) == (1, True)
    assert run("log", "verify", *store, "--root", "stranger.key.pub").code == 1
    found = json.loads(run("log", "verify", *store, "--no-proofs", "--json").out)
    assert (found["valid"], found["proved"]) == (True, None)
    run("log", "export", *store[:2], "--out", "calls.jsonl")
    assert run("log", "verify", "calls.jsonl", *KEY).code == 0
    done = run("log", "verify", "calls.jsonl", *KEY, "--require-proofs")
    assert (done.code, "proofs are required, and" in done.words) == (1, True)
