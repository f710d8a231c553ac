"""Who answers the decision's questions, as configured; and that nothing is open before processes fork."""

import secrets
import threading
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from tests.world.children import children
from tests.world.delegations import NOW, World
from tests.world.logs import records_in
from tests.world.records import GATEWAY, decided
from tests.world.running import run

from accredit.app.assemble import Ports, assemble, renew_ports
from accredit.config.load import load
from accredit.config.proofs import build_proofs, vocabulary_of
from accredit.errors import ConfigurationError
from accredit.keys import make_key, write_key
from accredit.ports import Spending
from accredit.ratify import issue_revocation_list
from accredit.rounds import KeyRing

TEXT = """
[gateway]
id = "gate"
[proofs]
mode = "required"
[[proofs.roots]]
name = "Owner"
public_key_file = "owner.key.pub"
"""


@pytest.fixture(scope="module")
def world() -> World:
    return World()


@pytest.fixture
def folder(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_key(tmp_path / "owner.key", world.owner)
    write_key(tmp_path / "agent.key", world.agent)
    monkeypatch.chdir("/")
    return tmp_path


def assembled(folder: Path, text: str) -> Ports:
    file = folder / "accredit.toml"
    file.write_text(text, "utf-8")
    loaded = load(file, {}, {})
    return assemble(loaded, build_proofs(loaded, vocabulary=vocabulary_of(loaded)))


def test_with_proofs_off_nobody_is_asked(folder: Path) -> None:
    assert assembled(folder, '[proofs]\nmode = "off"\n[tools.a]\nscope = "email:send"\n') == Ports()
    assert assembled(folder, "") == Ports()


@pytest.mark.parametrize("store", ["", '[store]\nurl = "sqlite:///accredit.db"\n'])
def test_a_challenge_is_spent_once_in_the_store_that_is_named(store: str, folder: Path) -> None:
    threads = set(threading.enumerate())
    ports = assembled(folder, TEXT + store)
    assert set(threading.enumerate()) <= threads
    assert not (folder / "accredit.db").exists()

    async def spend() -> list[Spending]:
        assert ports.store is not None
        challenge = secrets.token_bytes(32)
        try:
            return [
                await ports.store.spend(challenge, b"request", issued=False, keep_until=NOW + 1, now=NOW)
                for _ in range(2)
            ]
        finally:
            await ports.store.aclose()

    assert run(spend()) == [Spending.FIRST, Spending.SPENT]
    assert (folder / "accredit.db").exists() == bool(store)


def test_a_revoked_certificate_is_known_from_the_roots_list(world: World, folder: Path) -> None:
    (folder / "revoked.json").write_bytes(issue_revocation_list(world.owner.signer(), ("cert-1",), NOW).text())
    ports = assembled(folder, TEXT + '[proofs.revocation]\nfiles = ["revoked.json"]\n')

    async def ask() -> list[bool]:
        assert ports.revocations is not None
        return [await ports.revocations.is_revoked(cert) for cert in ("cert-1", "cert-2")]

    assert run(ask()) == [True, False]


def test_a_reload_that_turns_proofs_off_and_one_that_turns_them_on_again_forget_no_list(
    world: World, folder: Path
) -> None:
    list_file, text = folder / "revoked.json", TEXT + '[proofs.revocation]\nfiles = ["revoked.json"]\n'
    list_file.write_bytes(issue_revocation_list(world.owner.signer(), ("cert-1",), NOW).text())
    ports = assembled(folder, text)
    (folder / "accredit.toml").write_text(text.replace('"required"', '"off"'), "utf-8")
    loaded = load(folder / "accredit.toml", {}, {})
    ports = renew_ports(ports, loaded, build_proofs(loaded, vocabulary=vocabulary_of(loaded)))
    list_file.write_bytes(issue_revocation_list(world.owner.signer(), (), NOW - 1).text())
    (folder / "accredit.toml").write_text(text, "utf-8")
    loaded = load(folder / "accredit.toml", {}, {})
    with pytest.raises(ConfigurationError, match="older than the one in force"):
        renew_ports(ports, loaded, build_proofs(loaded, vocabulary=vocabulary_of(loaded)))


def test_another_issuers_list_counts_where_its_key_is_named_and_else_stops_the_start(
    world: World, folder: Path
) -> None:
    (folder / "revoked.json").write_bytes(issue_revocation_list(world.agent.signer(), ("cert-1",), NOW).text())
    text = TEXT + '[proofs.revocation]\nfiles = ["revoked.json"]\n'
    with pytest.raises(ConfigurationError, match=world.agent.id):
        assembled(folder, text)
    assert assembled(folder, text + 'public_key_files = ["agent.key.pub"]\n').revocations is not None
    with pytest.raises(ConfigurationError, match=r"proofs\.revocation\.public_key_files\[0\]"):
        assembled(folder, text + 'public_key_files = ["nobody.key.pub"]\n')


def test_a_missing_folder_stops_the_start(folder: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"revoked\.json"):
        assembled(folder, TEXT + '[proofs.revocation]\nfiles = ["lists/revoked.json"]\n')
    with pytest.raises(ConfigurationError, match=r"store\.url"):
        assembled(folder, TEXT + '[store]\nurl = "sqlite:///no/such.db"\n')


def test_lists_are_looked_for_beside_the_file(world: World, folder: Path) -> None:
    (folder / "lists").mkdir()
    (folder / "lists" / "r.json").write_bytes(issue_revocation_list(world.owner.signer(), (), NOW).text())
    assert assembled(folder, TEXT + '[proofs.revocation]\nfiles = ["lists/r.json"]\n').revocations is not None


@pytest.mark.parametrize("mode", ["record", "durable"])
@pytest.mark.parametrize("other", [False, True])
def test_records_are_signed_beside_the_gateway__but_those_of_another_signer_where_it_was_opened(
    mode: str, other: bool, folder: Path
) -> None:
    write_key(folder / "gateway.key", make_key("gateway", "gateway", NOW))
    text = f'[gateway]\nid = "{GATEWAY}"\n[attest]\nmode = "{mode}"\nkey_file = "gateway.key"\n[store]\nurl = "sqlite:///accredit.db"\n'
    if other:
        key = Ed25519PrivateKey.generate()
        (folder / "records.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        (folder / "records.pem").chmod(0o600)
        public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        (folder / "records.pem.pub").write_bytes(public)
        text = text.replace(
            "[store]", 'signer = "file2:records.pem"\nsigner_public_key_file = "records.pem.pub"\n[store]'
        )
    records = assembled(folder, text).records
    assert records is not None
    assert children() == []  # processes may fork until the first record

    async def record() -> list[int]:
        await records.begin(decided())
        beside = children()
        await records.aclose()
        return beside

    assert len(run(record())) == (0 if other else 1)
    assert len(records_in(folder / "accredit.db")) == 2


def test_after_a_reload_the_front_door_s_memory_is_sealed_with_the_new_keys__in_the_same_store(folder: Path) -> None:
    file = folder / "accredit.toml"
    oauth = '[store]\nurl = "sqlite:///accredit.db"\n[oauth]\nenabled = true\npublic_url = "https://mcp.example"\n'
    file.write_text(TEXT + oauth, "utf-8")
    loaded = load(file, {}, {})
    proofs = build_proofs(loaded, vocabulary=vocabulary_of(loaded))
    old, new = b"o" * 32, b"n" * 32
    before = assemble(loaded, proofs, KeyRing([old]))
    after = renew_ports(before, loaded, proofs, KeyRing([new, old]))
    last = renew_ports(after, loaded, proofs, KeyRing([new]))

    async def look() -> list[bytes | None]:
        assert before.door is not None
        assert after.door is not None
        assert last.door is not None
        await before.door.register("one", b"1", ends=NOW, now=NOW)
        await after.door.register("two", b"2", ends=NOW, now=NOW)
        try:
            doors = (before.door, after.door, last.door)
            return [await door.registered(each, now=NOW) for door in doors for each in ("one", "two")]
        finally:
            await last.door.aclose()

    assert run(look()) == [b"1", None, b"1", b"2", None, b"2"]
