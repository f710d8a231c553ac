"""`accredit inspect`: files in words, and whether their signatures are good."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.world.delegations import DAY, World, prove, tampered
from tests.world.in_process import Refused, Run, Save

from accredit.base.clock import unix_seconds
from accredit.ratify import DelegationCert, issue_revocation_list
from accredit.ratify.constraints import Extension, MaxAmount
from accredit.ratify.structures import UNTIL_REVOKED

pytestmark = pytest.mark.holds("ops/inspect")


@pytest.fixture
def chain(world: World) -> tuple[DelegationCert, DelegationCert]:
    now = unix_seconds()
    parent = world.grant("comms:*", "identity:delegate", begins=now - 2 * DAY, ends=now + 7 * DAY - 1)
    leaf = world.grant("comms:email:send", issuer=world.agent, to=world.sub, begins=now - 3600, ends=UNTIL_REVOKED,
                       constraints=(MaxAmount(currency="USD", max_amount=500),))  # fmt: skip
    return leaf, parent


def test_a_delegation_in_words(
    run: Run, save: Save, world: World, chain: tuple[DelegationCert, DelegationCert]
) -> None:
    done = run("inspect", save(*chain), "--key", "owner.key.pub", "--key", "sub.key.pub")
    assert done.code == 0
    leaf, parent = chain
    for said in (
        "a delegation of 2 certificates, leaf first",
        f"certificate 0 {leaf.cert_id} from {world.agent.id} to Helper ({world.sub.id})",
        f"certificate 1 {parent.cert_id} from Owner ({world.owner.id}) to {world.agent.id}",
        "constraints at most 500 USD in one call",
        "signed 1 hour ago",
        "signed 2 days ago",
        "ends until revoked",
        "expires in 6 days",
        "identity:delegate (sensitive)",
        "signatures good",
        "grants now comms:email:send",
    ):
        assert said in done.words, said


def test_a_delegation_for_programs(run: Run, save: Save, chain: tuple[DelegationCert, DelegationCert]) -> None:
    done = run("inspect", save(*chain), "--json")
    assert done.code == 0
    leaf, parent = done.json["certificates"]
    assert done.json["type"] == "delegation"
    assert done.json["granted_scope"] == ["comms:email:send"]
    assert done.json["signatures_good"] is True
    assert (leaf["cert_id"], parent["cert_id"]) == (chain[0].cert_id, chain[1].cert_id)
    assert (leaf["until_revoked"], parent["until_revoked"]) == (True, False)
    assert leaf["constraints"] == [{"type": "max_amount", "currency": "USD", "max_amount": 500}]
    assert parent["fault"] is None


def test_one_certificate_alone_is_a_chain_of_one(run: Run, folder: Path, world: World) -> None:
    (folder / "cert.json").write_bytes(world.grant("files:read").encode())
    assert run("inspect", "cert.json", "--json").json["type"] == "delegation"


def test_a_signature_that_is_not_good(run: Run, save: Save, chain: tuple[DelegationCert, DelegationCert]) -> None:
    changed = tampered(chain[1], expires_at=UNTIL_REVOKED)
    done = run("inspect", save(chain[0], changed))
    assert done.code == 1
    assert "signatures BAD: Ed25519 signature invalid" in done.words
    assert "grants now nothing: bad_signature" in done.words
    done = run("inspect", "delegation.json", "--json")
    assert (done.code, done.json["signatures_good"]) == (1, False)
    assert done.json["certificates"][1]["fault"] == "Ed25519 signature invalid"
    assert done.json["granted_scope"] == []


def test_a_chain_that_does_not_hang_together(run: Run, save: Save, world: World) -> None:
    done = run("inspect", save(world.grant("files:read", to=world.sub), world.grant("files:read")))
    assert done.code == 1
    assert "not issued by the subject of the certificate after it" in done.words


def test_an_expired_delegation_is_well_signed_and_grants_nothing(run: Run, save: Save, world: World) -> None:
    now = unix_seconds()
    done = run("inspect", save(world.grant("files:read", begins=now - 9 * DAY, ends=now - 3 * DAY)))
    assert done.code == 0
    assert "expired 3 days ago" in done.words
    assert "grants now nothing: delegation certificate has expired" in done.words


def test_a_proof(run: Run, save: Save, world: World, chain: tuple[DelegationCert, DelegationCert]) -> None:
    bundle = prove(chain, world.sub, unix_seconds() - 60, session_context=bytes(32))
    done = run("inspect", save(bundle, name="proof.json"), "--key", "sub.key.pub")
    assert done.code == 0
    for said in (
        "a proof over a delegation of 2 certificates",
        f"agent Helper ({world.sub.id})",
        "made 1 minute ago",
        "bound to a call yes",
        "turn of a stream no",
        "certificate 1",
    ):
        assert said in done.words, said
    done = run("inspect", "proof.json", "--json")
    assert (done.json["type"], done.json["bound"], done.json["fault"]) == ("proof", True, None)
    assert done.json["signatures_good"] is True


def test_a_proof_that_the_agent_did_not_sign(
    run: Run, save: Save, world: World, chain: tuple[DelegationCert, DelegationCert]
) -> None:
    bundle = replace(prove(chain, world.sub, unix_seconds()), challenge=bytes(32))
    done = run("inspect", save(bundle, name="proof.json"))
    assert done.code == 1
    assert "signatures BAD: Ed25519 signature invalid certificate 0" in done.words
    done = run("inspect", "proof.json", "--json")
    assert (done.code, done.json["signatures_good"]) == (1, False)
    stream = prove(chain, world.sub, unix_seconds(), stream_id=bytes(32), stream_seq=7)
    assert "turn of a stream 7" in run("inspect", save(stream, name="stream.json")).words


def test_a_revocation_list(run: Run, save: Save, world: World) -> None:
    revoked = issue_revocation_list(world.owner.signer(), ["one", "two"], unix_seconds() - 3600)
    name = save(revoked, name="revoked.json")
    unchecked = run("inspect", name)
    assert unchecked.code == 0
    assert "signatures not checked: name the issuer's public key with --key" in unchecked.words
    assert run("inspect", name, "--json").json["signatures_good"] is None
    checked = run("inspect", name, "--key", "owner.key.pub")
    assert checked.code == 0
    for said in ("2 revoked certificates", f"Owner ({world.owner.id})", "as of 1 hour ago", "revoked one revoked two"):
        assert said in checked.words
    assert "signatures good" in checked.words
    members = run("inspect", name, "--key", "owner.key.pub", "--json").json
    assert (members["revoked_certs"], members["signatures_good"]) == (["one", "two"], True)


def test_a_revocation_list_that_was_changed(run: Run, save: Save, world: World) -> None:
    revoked = replace(issue_revocation_list(world.owner.signer(), ["one"], unix_seconds()), revoked_certs=())
    name = save(revoked, name="revoked.json")
    done = run("inspect", name, "--key", "owner.key.pub")
    assert done.code == 1
    assert "BAD" in done.words
    done = run("inspect", name, "--key", "owner.key.pub", "--json")
    assert (done.code, done.json["signatures_good"]) == (1, False)


@pytest.mark.parametrize("name", ["owner.key", "owner.key.pub"])
def test_a_key(name: str, run: Run, world: World) -> None:
    done = run("inspect", name)
    assert (done.code, world.owner.id in done.words) == (0, True)
    assert "seed" not in done.out
    members = run("inspect", name, "--json").json
    assert (members["type"], members["id"]) == ("key", world.owner.id)
    assert "seed" not in members
    assert ("private key" in done.err) == (name == "owner.key")


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "not JSON"),
        (b"\xff", "not UTF-8"),
        (b'{"a": 1, "a": 2}', "duplicate"),
        (b"[" * 100_000, "nested"),
        (b"[]", "nothing that accredit knows"),
        (b'{"hello": 1}', "nothing that accredit knows"),
        (b'{"delegations": 1}', "not a delegation: DelegationFile.delegations"),
        (b'{"challenge": 1}', "not a proof"),
        (b'{"revoked_certs": 1}', "not a revocation list"),
        (b'{"cert_id": 1}', "not a delegation certificate"),
        (b'{"accredit_key": 1}', "not a key file"),
    ],
)
def test_another_file(content: bytes, word: str, refused: Refused, folder: Path) -> None:
    (folder / "file").write_bytes(content)
    assert word in refused("inspect", "file")[0]


def test_a_file_that_is_too_long(refused: Refused, folder: Path) -> None:
    (folder / "file").write_bytes(b" " * 4_194_305)
    assert "more than 4194304 bytes" in refused("inspect", "file")[0]


def test_wrong_use(refused: Refused, folder: Path) -> None:
    assert "missing" in refused("inspect", "missing")[0]
    assert "FILE" in refused("inspect")[0]
    assert "private key" in refused("inspect", "owner.key.pub", "--key", "owner.key")[0]
    (folder / "owner.key").chmod(0o644)
    assert "others can read" in refused("inspect", "owner.key")[0]


def test_what_others_wrote_can_not_steer_the_terminal(run: Run, save: Save, world: World) -> None:
    hostile = "\x1b]0;evil\x07\u202e[bold]x[/bold]:warning:\n"
    cert = world.grant("custom:" + hostile, constraints=(Extension(hostile, {hostile: hostile}),))
    done = run("inspect", save(replace(cert, cert_id=hostile), name="evil.json"))
    assert done.code == 1
    assert "\\x1b]0;evil\\x07\\u202e[bold]x[/bold]:warning:\\n" in done.out
    assert not {"\x1b", "\x07", "\u202e"} & set(done.out)
    assert json.loads(run("inspect", "evil.json", "--json").out)["certificates"][0]["cert_id"] == hostile
