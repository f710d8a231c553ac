"""Records are signed through securesystemslib, by key files and what stands for a KMS; no other key passes."""

import asyncio
import json
import subprocess
import sys
from asyncio import CancelledError
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from securesystemslib.dsse import Envelope as PeerEnvelope
from securesystemslib.signer import SSlibKey  # pyright: ignore[reportPrivateImportUsage]
from tests.world import recorded
from tests.world.record_signers import KINDS, Kms, key_pair, kms_registered
from tests.world.recorded import records_at, records_of
from tests.world.records import DENY, decided
from tests.world.signed_log import configure, record, verified

from accredit.attest import Stored, encode_envelope, verify_log
from accredit.config.attest import build_records
from accredit.config.load import load
from accredit.errors import AttestationError, ConfigurationError, StoreUnavailable
from accredit.keys import make_key, write_key
from accredit.keys.record_signers import SECRET_VARIABLE, load_record_key, load_record_signer, sign_trial
from accredit.ops.log_place import public_keys
from accredit.stores.audit_log.reader import LogFile

pytestmark = pytest.mark.holds("keys/record_signers")

KEYS = ("gateway.key.pub", "records.pem.pub")


@pytest.fixture
def kms() -> Iterator[Kms]:
    with kms_registered() as registered:
        yield registered


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_key(tmp_path / "gateway.key", make_key("gateway", "Gate", 0))
    key_pair(tmp_path / "records.pem")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.holds("keys/record_signers", "pem")
@pytest.mark.parametrize("kind", KINDS)
def test_what_a_key_file_signs_verifies_here_and_with_a_stock_verifier(folder: Path, kind: str) -> None:
    key_pair(folder / "other.pem", kind)
    record(configure(folder, "file2:other.pem", "other.pem.pub"))
    found = verified(folder, "gateway.key.pub", "other.pem.pub")
    assert (found.valid, found.records) == (True, 2)
    peer = SSlibKey.from_crypto(load_pem_public_key((folder / "other.pem.pub").read_bytes()))
    with LogFile(folder / "accredit.db") as log:
        signed = [each.entry.envelope for each in log.entries() if each.record() and isinstance(each.entry, Stored)]
    for envelope in signed:
        assert PeerEnvelope.from_dict(json.loads(encode_envelope(envelope))).verify([peer], threshold=1)
    assert len(signed) == 2


def test_the_configurations_own_keys_verify_its_log(folder: Path) -> None:
    config = configure(folder)
    record(config)
    with LogFile(folder / "accredit.db") as log:
        assert log.verify(public_keys([], config)).valid


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        (("gateway.key.pub",), "not known here"),
        (("records.pem.pub",), "not known here"),
        (("gateway.key.pub", "other.pem.pub"), "not known here"),
    ],
)
def test_a_log_does_not_verify_without_both_of_its_keys(folder: Path, keys: tuple[str, ...], reason: str) -> None:
    key_pair(folder / "other.pem")
    record(configure(folder))
    fault = verified(folder, *keys).fault
    assert fault is not None
    assert reason in fault.reason


def test_a_record_whose_signature_or_payload_was_changed_is_found(folder: Path) -> None:
    signer = load_record_signer("file2:records.pem", folder / "records.pem.pub", folder)
    key = load_record_key(folder / "records.pem.pub")
    signature = signer.sign(b"said")
    assert (signer.id, repr(signer)) == (key.id, f"<RecordSigner {key.id}>")
    key.check(signature, b"said")
    good = signature.data
    for bad in (b"", good[:-1], bytes([good[0] ^ 1]) + good[1:]):
        with pytest.raises(AttestationError):
            key.check(signature._replace(data=bad), b"said")
    with pytest.raises(AttestationError, match="not good"):
        key.check(signature, b"unsaid")


def test_the_signer_of_records_signs_no_checkpoint__it_would_not_outlive_its_algorithm(folder: Path) -> None:
    record(configure(folder))
    with LogFile(folder / "accredit.db") as log:
        entries = [each.entry for each in log.entries()]
    checkpoint = entries[-1]
    assert isinstance(checkpoint, Stored)
    forged = checkpoint.envelope.signatures[0]._replace(key_id=load_record_key(folder / "records.pem.pub").id)
    entries[-1] = checkpoint._replace(envelope=checkpoint.envelope._replace(signatures=(forged,)))
    fault = verify_log(entries, public_keys([folder / key for key in KEYS])).fault
    assert fault is not None
    assert "for records alone" in fault.reason


@pytest.mark.holds("keys/record_signers", "public-key", "file")
@pytest.mark.parametrize(
    ("signer", "public", "word"),
    [
        ("", "records.pem.pub", "belong together"),
        ("file2:records.pem", "", "belong together"),
        ("file2:none.pem", "records.pem.pub", "can't read"),
        ("file2:records.pem.pub", "records.pem.pub", "others can read"),
        ("file2:open.pem", "records.pem.pub", "others can read"),
        ("file2:gateway.key", "records.pem.pub", "not a private key"),
        ("file2:other.pem", "records.pem.pub", "is not the private key of"),
        ("file2:ed25519.pem", "records.pem.pub", "is not the private key of"),
        ("file2:records.pem", "gateway.key.pub", "not a public key"),
        ("file2:records.pem", "records.pem", "not a public key"),
        ("nowhere:1", "records.pem.pub", "scheme is not known"),
    ],
)
def test_a_signer_that_can_not_sign_stops_the_start(folder: Path, signer: str, public: str, word: str) -> None:
    key_pair(folder / "other.pem")
    key_pair(folder / "open.pem")
    key_pair(folder / "ed25519.pem", "ed25519")
    (folder / "open.pem").chmod(0o640)
    with pytest.raises(ConfigurationError, match=word) as refused:
        build_records(load(configure(folder, signer, public), {}, {}))
    assert refused.value.remedy


@pytest.mark.holds("keys/record_signers", "other-schemes")
def test_the_signers_secret_comes_from_the_environment(folder: Path, kms: Kms, monkeypatch: pytest.MonkeyPatch) -> None:
    kms.add(folder / "records.pem")
    with pytest.raises(ConfigurationError, match=SECRET_VARIABLE):
        sign_trial("testkms:pin", folder / "records.pem.pub", folder)
    monkeypatch.setenv(SECRET_VARIABLE, "swordfish")
    sign_trial("testkms:pin", folder / "records.pem.pub", folder)
    assert kms.secrets == ["swordfish"]


@pytest.mark.holds("keys/record_signers", "other-schemes")
def test_a_kms_signs_the_log(folder: Path, kms: Kms) -> None:
    kms.add(folder / "records.pem")
    record(configure(folder, "testkms:key"))
    assert verified(folder, *KEYS).valid
    assert kms.signed == 2


def test_a_signer_that_fails_leaves_no_record_and_says_nothing_of_its_secrets(folder: Path, kms: Kms) -> None:
    kms.add(folder / "records.pem")
    signer = load_record_signer("testkms:key", folder / "records.pem.pub", folder)
    kms.fault = "swordfish is not the PIN"
    with pytest.raises(StoreUnavailable, match="OSError") as failed:
        signer.sign(b"said")
    assert "swordfish" not in str(failed.value)
    kms.fault = None
    assert signer.sign(b"said")


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, CancelledError])
def test_a_signer_that_would_end_the_thread_of_the_log_only_fails__or_no_call_would_pass_until_a_restart(
    error: type[BaseException], folder: Path, kms: Kms
) -> None:
    def ends() -> None:
        raise error

    kms.add(folder / "records.pem")
    signer = load_record_signer("testkms:key", folder / "records.pem.pub", folder)
    kms.deed = ends
    with pytest.raises(StoreUnavailable, match=error.__name__):
        signer.sign(b"said")
    kms.deed = None
    assert signer.sign(b"said")


async def test_while_a_signer_hangs_others_write_to_the_same_file__or_it_would_stop_all_gateways(
    folder: Path, kms: Kms
) -> None:
    kms.add(folder / "records.pem")
    signer = load_record_signer("testkms:key", folder / "records.pem.pub", folder)
    asked, answers = Event(), Event()

    def hangs() -> None:
        asked.set()
        answers.wait()

    hanging, other = (records_at(folder / "accredit.db", signer=each) for each in (signer, None))
    try:
        await hanging.start()
        await other.start()
        kms.deed = hangs
        waiting = asyncio.ensure_future(hanging.begin(decided()))
        await asyncio.to_thread(asked.wait)
        await other.begin(decided(decision=DENY))
        assert not waiting.done()
        kms.deed = None
        answers.set()
        await waiting
    finally:
        answers.set()
        await hanging.aclose()
        await other.aclose()
    key = load_record_key(folder / "records.pem.pub")
    assert (recorded.verified(folder / "accredit.db", key).valid, len(records_of(folder / "accredit.db"))) == (True, 3)


def test_what_a_kms_says_beside_its_signature_is_not_kept__its_key_does_not_verify_it(folder: Path, kms: Kms) -> None:
    kms.add(folder / "records.pem")
    kms.members = {"region": "north"}
    record(configure(folder, "testkms:key"))
    assert verified(folder, *KEYS).valid
    with LogFile(folder / "accredit.db") as log:
        entries = [each.entry for each in log.entries()]
    assert not any(each.envelope.signatures[0].members for each in entries if isinstance(each, Stored))


def test_a_signature_of_another_key_is_not_used__a_rotated_key_would_break_the_log(folder: Path, kms: Kms) -> None:
    kms.add(folder / "records.pem")
    signer = load_record_signer("testkms:key", folder / "records.pem.pub", folder)
    kms.key = generate_private_key(SECP256R1())
    with pytest.raises(StoreUnavailable, match="the signature is not good"):
        signer.sign(b"said")


@pytest.mark.slow
def test_without_such_a_signer_securesystemslib_is_not_loaded() -> None:
    code = "import sys, accredit.app, accredit.ops.log_place; sys.exit('securesystemslib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=30).returncode == 0
