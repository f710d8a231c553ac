"""The how-to on other signers holds: with GnuPG, whose signatures hold more than their bytes, as far as records that
verify; with sigstore, which needs the network, as far as the key."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from securesystemslib.dsse import Envelope as PeerEnvelope
from securesystemslib.signer import (
    Key,  # pyright: ignore[reportPrivateImportUsage]
    SigstoreKey,  # pyright: ignore[reportPrivateImportUsage]
)
from tests.world.raw_server import PATIENCE
from tests.world.signed_log import configure, record, verified

from accredit.attest import Stored, encode_envelope
from accredit.errors import ConfigurationError
from accredit.keys import make_key, write_key
from accredit.keys.record_signers import load_record_key
from accredit.stores.audit_log.reader import LogFile

# A newer Python warns of any fork beside a thread, and a test runner has some.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")]


PAGE = (Path(__file__).parents[2] / "docs/how-to/sign-records.md").read_text("utf-8")


def by_the_how_to(name: str, folder: Path, *arguments: str) -> str:
    """Runs a script of the page, which writes `records.json`; returns the URI that it prints."""
    found = re.search(rf"<!-- {name} -->\n```python\n(.*?)```", PAGE, re.DOTALL)
    assert found
    told = (sys.executable, "-W", "ignore", "-c", found[1], *arguments)
    return subprocess.run(told, check=True, capture_output=True, text=True, cwd=folder, timeout=PATIENCE).stdout.strip()


def peer_key(path: Path) -> Key:
    """As the page on verification without accredit reads it."""
    other = json.loads(path.read_text("utf-8"))
    kind = SigstoreKey if other["keytype"].startswith("sigstore") else Key
    return kind.from_dict(other.pop("keyid"), other)


@pytest.fixture
def keyring() -> Iterator[str]:
    """A folder for GnuPG, with a short name: its sockets lie there."""
    with TemporaryDirectory(prefix="gnupg") as home:
        yield home
        subprocess.run(["gpgconf", "--homedir", home, "--kill", "all"], check=False, capture_output=True)


def gpg(home: str, *arguments: str) -> str:
    told = ("gpg", "--homedir", home, "--batch", "--passphrase", "", *arguments)
    return subprocess.run(told, check=True, capture_output=True, text=True, timeout=PATIENCE).stdout


@pytest.mark.skipif(shutil.which("gpg") is None, reason="GnuPG is not installed")
def test_gnupg_signs_the_log(tmp_path: Path, keyring: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write_key(tmp_path / "gateway.key", make_key("gateway", "Gate", 0))
    monkeypatch.chdir(tmp_path)
    gpg(keyring, "--quick-gen-key", "records", "rsa2048", "sign")
    listed = gpg(keyring, "--with-colons", "--list-keys").splitlines()
    fingerprint = next(line.split(":")[9] for line in listed if line.startswith("fpr"))
    uri = by_the_how_to("gnupg", tmp_path, fingerprint.lower(), keyring)
    key = peer_key(tmp_path / "records.json")
    record(configure(tmp_path, uri, "records.json"))
    found = verified(tmp_path, "gateway.key.pub", "records.json")
    assert (found.valid, found.records) == (True, 2)
    with LogFile(tmp_path / "accredit.db") as log:
        signed = [each.entry.envelope for each in log.entries() if each.record() and isinstance(each.entry, Stored)]
    for envelope in signed:
        assert "other_headers" in json.loads(envelope.signatures[0].members)
        assert PeerEnvelope.from_dict(json.loads(encode_envelope(envelope))).verify([key], threshold=1)
    assert len(signed) == 2
    for private in os.scandir(f"{keyring}/private-keys-v1.d"):
        os.unlink(private)
    with pytest.raises(ConfigurationError, match="does not sign"):
        record(configure(tmp_path, uri, "records.json"))


def test_the_how_to_writes_a_key_of_sigstore(tmp_path: Path) -> None:
    assert by_the_how_to("sigstore", tmp_path) == "sigstore:"
    key = peer_key(tmp_path / "records.json")
    assert key.keyval["issuer"] == "https://token.actions.githubusercontent.com"
    assert load_record_key(tmp_path / "records.json").id == key.keyid
