"""A signer of records that can't sign stops the start, with words that help and without those that tell a secret."""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from securesystemslib.signer import SigstoreSigner  # pyright: ignore[reportPrivateImportUsage]
from tests.world.record_signers import Kms, key_pair, kms_registered
from tests.world.signed_log import configure

from accredit.app.assemble import assemble
from accredit.cli import main
from accredit.config.load import load
from accredit.errors import ConfigurationError
from accredit.keys import make_key, record_signers, write_key
from accredit.keys.record_signers import TRIAL, sign_trial

# A newer Python warns of any fork beside a thread, and a test runner has some.
pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")


@pytest.fixture
def kms() -> Iterator[Kms]:
    with kms_registered() as registered:
        yield registered


@pytest.fixture
def folder(tmp_path: Path, kms: Kms, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_key(tmp_path / "gateway.key", make_key("gateway", "Gate", 0))
    key_pair(tmp_path / "records.pem")
    kms.add(tmp_path / "records.pem")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def start(folder: Path, signer: str = "testkms:key", public: str = "records.pem.pub") -> None:
    assemble(load(configure(folder, signer, public), {}, {}), None)


def refusal(folder: Path, signer: str = "testkms:key", public: str = "records.pem.pub") -> ConfigurationError:
    with pytest.raises(ConfigurationError) as refused:
        start(folder, signer, public)
    assert refused.value.remedy
    assert "swordfish" not in str(refused.value)
    return refused.value


def test_a_signer_that_signs_is_no_obstacle__and_nothing_of_it_is_open_here(folder: Path, kms: Kms) -> None:
    start(folder)
    assert kms.signed == 0  # it was in another process


def test_what_is_signed_can_not_be_taken_for_a_record(folder: Path, kms: Kms) -> None:
    sign_trial("testkms:key", folder / "records.pem.pub", folder)
    assert kms.messages == [TRIAL]
    assert not TRIAL.startswith(b"DSSEv1")


def test_a_key_without_the_permission_to_sign_stops_the_start(folder: Path, kms: Kms) -> None:
    kms.fault = "swordfish may not sign"
    found = refusal(folder)
    assert found.what == "attest.signer: the testkms: signer can be opened and does not sign (OSError)"
    assert "permitted to sign" in found.remedy


def test_another_public_key_stops_the_start(folder: Path, kms: Kms) -> None:
    kms.key = generate_private_key(SECP256R1())
    found = refusal(folder)
    assert "does not verify: the signature is not good" in found.what
    assert "attest.signer_public_key_file" in found.remedy


def test_a_signer_that_can_not_be_opened_stops_the_start(folder: Path) -> None:
    assert "can't be opened (OSError)" in refusal(folder, "testkms:broken").what


def hang() -> None:
    signal.sigwait([signal.SIGUSR1])


def crash() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def end() -> None:
    sys.exit("swordfish")


@pytest.mark.parametrize(
    ("deed", "word"), [(hang, "has not signed in 0.1 s"), (crash, "has crashed"), (end, "has crashed")]
)
def test_a_signer_that_hangs_or_crashes_does_not_take_the_gateway_with_it(
    folder: Path, kms: Kms, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str],
    deed: Callable[[], None], word: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(record_signers, "SIGNER_TRIAL_SECONDS", 0.1 if deed is hang else 30.0)
    kms.deed = deed
    assert word in refusal(folder).what
    assert "swordfish" not in "".join(capfd.readouterr())


def ask() -> None:
    os.write(1, b"open this page\n")  # as sigstore's signer does, where a person is to log in


def test_what_a_signer_prints_stays_out_of_a_conversation_on_stdout(
    folder: Path, kms: Kms, capfd: pytest.CaptureFixture[str]
) -> None:
    kms.deed = ask
    start(folder)
    printed = capfd.readouterr()
    assert (printed.out, printed.err) == ("", "open this page\n")


def test_what_a_signer_needs_and_is_not_installed_is_said(folder: Path) -> None:
    found = refusal(folder, "gcpkms:projects/p")
    assert found.what == "attest.signer: what gcpkms: needs is not installed"
    assert "gcpkms" in found.remedy


def test_sigstore_is_a_signer_like_others__and_it_is_said_that_it_is_not_installed(folder: Path) -> None:
    uri, key = SigstoreSigner.import_("https://ci.example/gateway", "https://issuer.example")
    (folder / "sigstore.json").write_text(json.dumps({"keyid": key.keyid, **key.to_dict()}), "utf-8")
    found = refusal(folder, uri, "sigstore.json")
    assert found.what == "attest.signer: what sigstore: needs is not installed"
    assert "sigstore" in found.remedy.partition(":")[2]


def accredit(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["accredit", *arguments])
    return main()


@pytest.mark.slow
def test_config_check_has_a_trial_signed(
    folder: Path, kms: Kms, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(folder, "testkms:key")
    assert accredit(monkeypatch, "config", "check") == 0
    assert "ok: attest.signer has signed a trial" in capsys.readouterr().out
    kms.fault = "no permission"
    assert accredit(monkeypatch, "config", "check") == 2
    assert "does not sign" in capsys.readouterr().err
    configure(folder, "testkms:key", mode="off")
    assert accredit(monkeypatch, "config", "check") == 0
    assert "attest.signer" not in capsys.readouterr().out


@pytest.mark.parametrize("command", [("serve", "--port", "0"), ("wrap",)])
def test_neither_serve_nor_wrap_starts(
    folder: Path,
    kms: Kms,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: tuple[str, ...],
) -> None:
    configure(folder, "testkms:key")
    kms.fault = "no permission"
    named = ("--config", "accredit.toml", "--", sys.executable, "-c", "raise SystemExit")
    assert accredit(monkeypatch, *command, *named) == 2
    assert "does not sign" in capsys.readouterr().err
