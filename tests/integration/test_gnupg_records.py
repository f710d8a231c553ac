"""GnuPG signs records: the one signer of securesystemslib whose signatures hold more, and that needs no network."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from securesystemslib.dsse import Envelope as PeerEnvelope
from securesystemslib.signer import GPGSigner  # pyright: ignore[reportPrivateImportUsage]
from tests.world.signed_log import configure, record, verified

from accredit.attest import Stored, encode_envelope
from accredit.errors import ConfigurationError
from accredit.keys import make_key, write_key
from accredit.stores.log_file import LogFile

# A newer Python warns of any fork beside a thread, and a test runner has some.
pytestmark = [
    pytest.mark.skipif(shutil.which("gpg") is None, reason="GnuPG is not installed"),
    pytest.mark.filterwarnings("ignore:This process:DeprecationWarning"),
]


@pytest.fixture
def keyring() -> Iterator[str]:
    """A folder for GnuPG, with a short name: its sockets lie there."""
    with TemporaryDirectory(prefix="gnupg") as home:
        yield home
        subprocess.run(["gpgconf", "--homedir", home, "--kill", "all"], check=False, capture_output=True)


def gpg(home: str, *arguments: str) -> str:
    told = ("gpg", "--homedir", home, "--batch", "--passphrase", "", *arguments)
    return subprocess.run(told, check=True, capture_output=True, text=True, timeout=30).stdout


def test_gnupg_signs_the_log(tmp_path: Path, keyring: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write_key(tmp_path / "gateway.key", make_key("gateway", "Gate", 0))
    monkeypatch.chdir(tmp_path)
    gpg(keyring, "--quick-gen-key", "records", "rsa2048", "sign")
    listed = gpg(keyring, "--with-colons", "--list-keys").splitlines()
    fingerprint = next(line.split(":")[9] for line in listed if line.startswith("fpr"))
    uri, key = GPGSigner.import_(fingerprint.lower(), keyring)
    (tmp_path / "gpg.json").write_text(json.dumps({"keyid": key.keyid, **key.to_dict()}), "utf-8")
    record(configure(tmp_path, uri, "gpg.json"))
    found = verified(tmp_path, "gateway.key.pub", "gpg.json")
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
        record(configure(tmp_path, uri, "gpg.json"))
