"""Keys of tokens in files."""

import json
import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tests.world.issuer import IssuerKey, key_set_text

from accredit.errors import ConfigurationError
from accredit.keys import kept_token_key, load_key_set, load_token_key, make_token_key, write_token_key
from accredit.limits import MAX_PEM_BYTES


def pem(key: ec.EllipticCurvePrivateKey, password: bytes | None = None) -> bytes:
    protection = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, protection)


def private(path: Path, data: bytes) -> Path:
    path.touch(0o600)
    path.write_bytes(data)
    return path


def test_a_key_is_written_and_read_back(tmp_path: Path) -> None:
    key = make_token_key()
    write_token_key(tmp_path / "t.key", key)
    assert load_token_key(tmp_path / "t.key").private_numbers() == key.private_numbers()
    assert stat.S_IMODE((tmp_path / "t.key").stat().st_mode) == 0o600
    (public,) = load_key_set(tmp_path / "t.key.pub").keys
    assert public.key == key.public_key()


def test_where_no_key_can_be_made_it_is_said_how_to_make_one_before(tmp_path: Path) -> None:
    missing = tmp_path / "missing/t.key"
    with pytest.raises(ConfigurationError, match=r"can't write .*\n.*`accredit token keygen .*t\.key`"):
        kept_token_key(missing)


@pytest.mark.parametrize("there", ["t.key", "t.key.pub"])
def test_no_key_is_lost(there: str, tmp_path: Path) -> None:
    (tmp_path / there).write_bytes(b"precious")
    with pytest.raises(ConfigurationError, match="exists already"):
        write_token_key(tmp_path / "t.key", make_token_key())
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"precious"]
    write_token_key(tmp_path / "t.key", make_token_key(), replace=True)
    load_token_key(tmp_path / "t.key")


def test_a_private_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    write_token_key(tmp_path / "t.key", make_token_key())
    (tmp_path / "t.key").chmod(0o640)
    with pytest.raises(ConfigurationError, match="others can read"):
        load_token_key(tmp_path / "t.key")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PEM",
        pem(ec.generate_private_key(ec.SECP384R1())),
        pem(make_token_key(), b"password"),
        b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
        b"x" * (MAX_PEM_BYTES + 1),
    ],
)
def test_what_is_no_such_key_does_not_sign(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError):
        load_token_key(private(tmp_path / "t.key", data))


def test_the_public_half_does_not_sign(tmp_path: Path) -> None:
    write_token_key(tmp_path / "t.key", make_token_key())
    with pytest.raises(ConfigurationError, match="not a private P-256 key"):
        load_token_key(tmp_path / "t.key.pub")


def test_a_private_key_is_no_key_set__it_is_not_to_be_passed_around(tmp_path: Path) -> None:
    write_token_key(tmp_path / "t.key", make_token_key())
    with pytest.raises(ConfigurationError, match="not a public key"):
        load_key_set(tmp_path / "t.key")


def test_a_pem_file_may_begin_with_words(tmp_path: Path) -> None:
    write_token_key(tmp_path / "t.key", make_token_key())
    (tmp_path / "words.pem").write_bytes(b"The key of the gateway\n" + (tmp_path / "t.key.pub").read_bytes())
    assert len(load_key_set(tmp_path / "words.pem").keys) == 1


def test_a_set_is_read_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "jwks.json").write_bytes(key_set_text(IssuerKey("a"), IssuerKey("b")))
    assert [key.kid for key in load_key_set(tmp_path / "jwks.json").keys] == ["a", "b"]


@pytest.mark.parametrize("text", [json.dumps({"keys": []}), json.dumps({"keys": [{"kty": "oct", "k": "AAAA"}]}), "{}"])
def test_a_file_without_a_key_that_can_be_used_stops_the_start(text: str, tmp_path: Path) -> None:
    (tmp_path / "jwks.json").write_text(text)
    with pytest.raises(ConfigurationError, match=r"jwks\.json"):
        load_key_set(tmp_path / "jwks.json")
