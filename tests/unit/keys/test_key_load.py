"""Keys in their files: a private one is private, and neither half is taken for the other."""

import json
import os
import stat
from pathlib import Path

import pytest
from tests.world.records import NOW_MS

from accredit.attest import checkpoint_payload, verify_envelope
from accredit.errors import ConfigurationError
from accredit.keys import (
    KeyKind,
    PrivateKeyFile,
    load_log_signer,
    load_public_key,
    load_signing_key,
    log_key,
    log_signer,
    make_key,
    public_path,
    read_key,
    write_key,
)
from accredit.ratify.hybrid import signature_fault

pytestmark = pytest.mark.holds("keys/load")

KEY = make_key("agent", "Mailer", 1_800_000_000)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "agent.key"
    write_key(path, KEY)
    return path


def test_both_halves_are_written(path: Path) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert public_path(path).name == "agent.key.pub"
    assert read_key(path) == KEY
    assert read_key(public_path(path)) == load_public_key(public_path(path)) == KEY.public()
    assert "seed" not in json.loads(public_path(path).read_bytes())


def test_a_loaded_key_signs(path: Path) -> None:
    key = load_signing_key(path)
    assert key.about == KEY.public()
    assert signature_fault(b"message", key.signer.sign(b"message"), KEY.public_key) is None


@pytest.mark.parametrize("bits", [0o640, 0o604, 0o620, 0o602, 0o610, 0o601])
def test_a_private_key_that_others_have_any_right_to_is_refused(bits: int, path: Path) -> None:
    path.chmod(bits)
    for read in (read_key, load_signing_key, load_public_key):
        with pytest.raises(ConfigurationError, match="others can read") as caught:
            read(path)
        assert f"{bits:04o}" in caught.value.what
        assert caught.value.remedy.startswith("chmod 600 ")


def test_a_stricter_mode_is_fine(path: Path) -> None:
    path.chmod(0o400)
    assert isinstance(read_key(path), PrivateKeyFile)


def test_a_public_key_may_be_read_by_all(path: Path) -> None:
    public_path(path).chmod(0o666)
    assert load_public_key(public_path(path)).id == KEY.id


def test_the_wrong_half_is_refused(path: Path) -> None:
    with pytest.raises(ConfigurationError, match="private key, and a public one"):
        load_public_key(path)
    with pytest.raises(ConfigurationError, match="can't sign"):
        load_signing_key(public_path(path))


def test_the_remedy_names_the_public_half__unless_the_private_one_has_its_name(path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_public_key(path)
    assert caught.value.remedy == f"name {path}.pub"
    mistaken = path.replace(public_path(path))
    with pytest.raises(ConfigurationError) as caught:
        load_public_key(mistaken)
    assert ".pub.pub" not in caught.value.remedy
    assert "to be kept secret" in caught.value.remedy


@pytest.mark.parametrize("there", ["agent.key", "agent.key.pub"])
def test_neither_half_is_written_where_one_is_there(there: str, tmp_path: Path) -> None:
    (tmp_path / there).write_bytes(b"precious")
    with pytest.raises(ConfigurationError, match=there):
        write_key(tmp_path / "agent.key", KEY)
    assert os.listdir(tmp_path) == [there]
    assert (tmp_path / there).read_bytes() == b"precious"


def test_both_are_replaced_when_that_is_meant(path: Path) -> None:
    other = make_key("agent", "Other", 0)
    write_key(path, other, replace=True)
    assert read_key(path) == other
    assert read_key(public_path(path)) == other.public()


def test_a_private_key_is_not_left_without_its_public_half(tmp_path: Path) -> None:
    longest = os.pathconf(tmp_path, "PC_NAME_MAX") - len(".") - len(".0123456789abcdef")
    path = tmp_path / ("k" * longest)  # the name of the file that becomes the .pub is too long, by that
    with pytest.raises(ConfigurationError, match="can't write"):
        write_key(path, KEY)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "not one JSON value"),
        (b"[]", "not a key file"),
        (b'{"seed": 1, "seed": 2}', "duplicate"),
        (b"-----BEGIN PRIVATE KEY-----", "not one JSON value"),
        (KEY.public().encode().replace(b'"accredit_key":1', b'"accredit_key":2'), "accredit_key: version 2"),
        (KEY.public().encode().replace(KEY.id.encode(), b"0" * 32), "id: not the id"),
    ],
)
def test_another_file_is_refused_with_the_reason(content: bytes, what: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError) as caught:
        read_key(path)
    assert "not a key file" in caught.value.what
    assert what in caught.value.what


def test_a_refusal_never_quotes_a_seed(path: Path) -> None:
    members = json.loads(path.read_bytes())
    secret = members["seed"]["ed25519"]
    for broken in (
        members | {"seed": {"ed25519": secret, "ml_dsa_65": secret}},
        members | {"seed": {"ed25519": secret + "=", "ml_dsa_65": secret}},
        members | {"seed": secret},
        members | {"seed": {"note": secret}},
    ):
        path.write_text(json.dumps(broken))
        with pytest.raises(ConfigurationError) as caught:
            read_key(path)
        assert secret not in str(caught.value)


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 257])
def test_a_key_has_a_name_that_can_be_printed(name: str) -> None:
    with pytest.raises(ConfigurationError, match="--name"):
        make_key("human", name, 0)


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
