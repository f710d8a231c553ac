"""A person's key at rest: whoever has the file and not the passphrase has nothing, and a hostile file takes nothing."""

import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id
from msgspec.structs import replace

from accredit.errors import ConfigurationError, WrongPassphrase
from accredit.keys import (
    KeyFile,
    LockedKeyFile,
    load_log_signer,
    load_public_key,
    load_signing_key,
    lock_key,
    make_key,
    read_key,
    unlock_key,
    write_key,
)
from accredit.keys.passphrase import passphrase_bytes, unlock
from accredit.ratify.hybrid import signature_fault

KEY = make_key("human", "Owner", 1_800_000_000)
TYPED = "correct horse b\u00e4ttery"
LOCKED = lock_key(KEY, passphrase_bytes(TYPED))
MEMBERS: dict[str, Any] = json.loads(LOCKED.encode())


def typed(text: str = TYPED) -> Any:
    def ask(_key: KeyFile) -> bytearray:
        return passphrase_bytes(text)

    return ask


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "owner.key"
    write_key(path, LOCKED)
    return path


def written(path: Path, **changes: Any) -> Path:
    path.write_text(json.dumps(MEMBERS | {"seed": MEMBERS["seed"] | changes}))
    return path


def test_the_file_is_as_the_reference_says__others_can_open_it() -> None:
    seed = MEMBERS["seed"]
    assert {name: seed[name] for name in ("kdf", "memory_kib", "passes", "lanes")} == {
        "kdf": "argon2id", "memory_kib": 65_536, "passes": 3, "lanes": 4,
    }  # fmt: skip
    assert set(seed) == {"kdf", "memory_kib", "passes", "lanes", "salt", "nonce", "box"}
    sealed = LOCKED.seed
    derived = Argon2id(salt=sealed.salt, length=32, iterations=3, lanes=4, memory_cost=65_536).derive(TYPED.encode())
    plain = AESGCM(derived).decrypt(sealed.nonce, sealed.box, None)
    assert plain == KEY.seed.ed25519 + KEY.seed.ml_dsa_65


def test_the_passphrase_opens_it_and_its_owner_signs(path: Path) -> None:
    key = load_signing_key(path, typed())
    assert key.about == KEY.public()
    assert signature_fault(b"message", key.signer.sign(b"message"), KEY.public_key) is None


def test_who_it_belongs_to_is_known_without_the_passphrase(path: Path) -> None:
    read = read_key(path)
    assert isinstance(read, LockedKeyFile)
    assert read.public() == load_public_key(path.with_name("owner.key.pub")) == KEY.public()
    with pytest.raises(ConfigurationError, match="private key, and a public one"):
        load_public_key(path)


def test_nothing_of_the_seeds_is_in_the_file(path: Path) -> None:
    plain = json.loads(KEY.encode())["seed"]
    for seed in (*plain.values(), KEY.seed.ed25519.hex(), TYPED):
        assert seed not in path.read_text("utf-8")


@pytest.mark.holds("keys/passphrase", "normalization")
def test_a_passphrase_typed_in_another_normal_form_is_the_same(path: Path) -> None:
    assert load_signing_key(path, typed("correct horse ba\u0308ttery")).about == KEY.public()


@pytest.mark.holds("keys/passphrase", "sealing")
@pytest.mark.parametrize("text", ["correct horse", TYPED + " ", TYPED.upper(), "x"])
def test_another_passphrase_opens_nothing_and_is_not_quoted(text: str, path: Path) -> None:
    with pytest.raises(WrongPassphrase) as caught:
        load_signing_key(path, typed(text))
    assert KEY.id in caught.value.what
    assert text not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.holds("keys/passphrase", "sealing")
@pytest.mark.parametrize("member", ["salt", "nonce", "box"])
def test_a_file_that_was_changed_opens_with_no_passphrase(member: str, path: Path) -> None:
    changed = bytearray(getattr(LOCKED.seed, member))
    changed[-1] ^= 1
    with pytest.raises(WrongPassphrase):
        unlock(replace(LOCKED, seed=replace(LOCKED.seed, **{member: bytes(changed)})), passphrase_bytes(TYPED))


@pytest.mark.holds("keys/passphrase", "sealing")
def test_seeds_of_another_key_in_the_box_are_not_taken() -> None:
    other = make_key("human", "Eve", 1_800_000_000)
    swapped = replace(lock_key(other, passphrase_bytes(TYPED)), id=KEY.id, public_key=KEY.public_key)
    with pytest.raises(WrongPassphrase):
        unlock(swapped, passphrase_bytes(TYPED))


@pytest.mark.holds("keys/passphrase", "cost")
@pytest.mark.parametrize(
    "changes",
    [
        {"kdf": "scrypt"},
        {"memory_kib": 68_719_476_736},
        {"memory_kib": 1_048_577},
        {"memory_kib": 8},
        {"memory_kib": -1},
        {"memory_kib": "65536"},
        {"passes": 0},
        {"passes": 1_000_000_000},
        {"lanes": 0},
        {"lanes": 4_096},
        {"salt": "AAAA"},
        {"nonce": "AAAA"},
        {"box": ""},
        {"more": 1},
    ],
)
def test_a_hostile_file_can_t_take_the_machine(changes: dict[str, Any], path: Path) -> None:
    with pytest.raises(ConfigurationError, match="not a key file"):
        load_signing_key(written(path, **changes), typed())


@pytest.mark.slow
def test_the_passphrase_is_gone_from_memory_once_it_was_used(path: Path) -> None:
    taken: list[bytearray] = []

    def ask(_key: KeyFile) -> bytearray:
        taken.append(passphrase_bytes("wrong"))
        return taken[-1]

    with pytest.raises(WrongPassphrase):
        load_signing_key(path, ask)
    lock_key(KEY, last := passphrase_bytes(TYPED))
    assert not any(taken[0])
    assert not any(last)


def test_where_nobody_is_asked_a_key_under_a_passphrase_does_not_sign(path: Path) -> None:
    for load in (load_signing_key, load_log_signer):
        with pytest.raises(ConfigurationError, match="nobody is asked"):
            load(path)
    with pytest.raises(ConfigurationError, match="nobody is asked"):
        unlock_key(path, LOCKED, None)


@pytest.mark.parametrize("text", ["", "\ud800"])
def test_what_can_be_no_passphrase_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError):
        passphrase_bytes(text)


def test_two_files_of_one_key_and_one_passphrase_have_nothing_in_common() -> None:
    again = lock_key(KEY, passphrase_bytes(TYPED)).seed
    assert {again.salt, again.nonce, again.box}.isdisjoint({LOCKED.seed.salt, LOCKED.seed.nonce, LOCKED.seed.box})
