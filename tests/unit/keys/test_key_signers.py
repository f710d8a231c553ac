"""A gateway's key file signs the log, and its public half verifies it."""

from pathlib import Path

import pytest
from tests.world.records import NOW_MS

from accredit.attest import checkpoint_payload, verify_envelope
from accredit.errors import ConfigurationError
from accredit.keys import KeyKind, load_log_signer, load_public_key, log_key, log_signer, make_key, write_key

PAYLOAD = checkpoint_payload("ab" * 16, 3, "cd" * 32, NOW_MS)


def test_what_a_key_file_signs_its_public_half_verifies(tmp_path: Path) -> None:
    path = tmp_path / "gateway.key"
    write_key(path, make_key("gateway", "Mail gateway", 1))
    signer, key = load_log_signer(path), log_key(load_public_key(tmp_path / "gateway.key.pub"))
    assert signer.id == key.id
    assert verify_envelope(signer.summary(PAYLOAD), [key]).sha256 == "cd" * 32


def test_a_signer_never_shows_its_key() -> None:
    private = make_key("gateway", "Mail gateway", 1)
    assert repr(log_signer(private)) == f"<LogSigner {private.id}>"


@pytest.mark.parametrize(("kind", "suffix"), [("human", ""), ("agent", ""), ("gateway", ".pub")])
def test_only_a_gateways_private_key_signs_the_log__not_a_persons(tmp_path: Path, kind: KeyKind, suffix: str) -> None:
    path = tmp_path / "some.key"
    write_key(path, make_key(kind, "Some", 1))
    with pytest.raises(ConfigurationError, match=r"gateway|public key"):
        load_log_signer(path.with_name(path.name + suffix))
