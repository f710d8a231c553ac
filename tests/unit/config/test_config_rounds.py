"""The keys that `requestState` is sealed with: read from a file that nobody else can read, and never shown."""

import base64
from pathlib import Path

import pytest

from accredit.config.build import build_settings
from accredit.config.load import load
from accredit.config.store import build_rounds
from accredit.errors import ConfigurationError
from accredit.gateway.settings import RoundsSettings
from accredit.limits import MAX_KEY_FILE_BYTES
from accredit.rounds import FlowState, KeyRing

KEYS = [b"a" * 32, b"b" * 32]
BINDING, NONCE = b"d" * 32, bytes(12)
STATE = FlowState("mine", "f", 1, 2_000_000_000)


def key_file(folder: Path, *keys: bytes, mode: int = 0o600) -> Path:
    path = folder / "rounds.keys"
    path.write_bytes(b"".join(base64.b64encode(key) + b"\n" for key in keys))
    path.chmod(mode)
    return path


def built(folder: Path, text: str, environ: dict[str, str] | None = None) -> RoundsSettings:
    file = folder / "accredit.toml"
    file.write_text(text, "utf-8")
    return build_rounds(load(file, environ or {}, {}))


def opens(ring: KeyRing, key: bytes) -> bool:
    return ring.open(KeyRing([key]).seal(STATE, BINDING, NONCE), BINDING, 0) == STATE


def test_the_first_key_of_the_file_seals_and_all_open(tmp_path: Path) -> None:
    key_file(tmp_path, *KEYS)
    rounds = built(tmp_path, '[rounds]\nkeys_file = "rounds.keys"\nstate_seconds = 5\n')
    assert rounds.state_seconds == 5
    assert rounds.ring.seal(STATE, BINDING, NONCE) == KeyRing(KEYS[:1]).seal(STATE, BINDING, NONCE)
    assert all(opens(rounds.ring, key) for key in KEYS)


def test_without_a_file_each_start_draws_a_key_of_its_own(tmp_path: Path) -> None:
    first, second = built(tmp_path, ""), built(tmp_path, "[rounds]\n")
    assert first.state_seconds == 600
    sealed = {rounds.ring.seal(STATE, BINDING, NONCE) for rounds in (first, second)}
    assert len(sealed) == 2
    assert "KeyRing object" in repr(first)


def test_it_is_part_of_the_gateways_settings__so_that_forked_workers_share_it(tmp_path: Path) -> None:
    key_file(tmp_path, *KEYS)
    (tmp_path / "accredit.toml").write_text('[upstream]\nurl = "http://u/"\n[rounds]\nkeys_file = "rounds.keys"\n')
    settings = build_settings(load(tmp_path / "accredit.toml", {}, {}), {}, workers=2)
    assert opens(settings.rounds.ring, KEYS[1])


def test_a_path_of_the_environment_is_relative_to_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    key_file(tmp_path / "here", KEYS[1])
    monkeypatch.chdir(tmp_path / "here")
    assert opens(built(tmp_path, "", {"ACCREDIT_ROUNDS__KEYS_FILE": "rounds.keys"}).ring, KEYS[1])


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o601])
def test_keys_that_others_can_read_are_refused(mode: int, tmp_path: Path) -> None:
    path = key_file(tmp_path, *KEYS, mode=mode)
    with pytest.raises(
        ConfigurationError, match=rf"rounds.keys_file: others can read .*\(mode {mode:04o}\)"
    ) as refused:
        built(tmp_path, '[rounds]\nkeys_file = "rounds.keys"\n')
    assert f"chmod 600 {path}" in refused.value.remedy
    path.chmod(0o400)
    assert built(tmp_path, '[rounds]\nkeys_file = "rounds.keys"\n')


def test_a_file_that_is_not_there_says_how_it_is_made(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"rounds\.keys_file: there is no ") as refused:
        built(tmp_path, '[rounds]\nkeys_file = "no keys"\n')
    assert refused.value.remedy == f"(umask 077; openssl rand -base64 32 > '{tmp_path}/no keys') makes it"


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "holds 0 keys"),
        (b"secret\n", "line 1"),
        (b"\xff\xfesecret", "line 1"),
        (b"\n" * (MAX_KEY_FILE_BYTES + 1), f"more than {MAX_KEY_FILE_BYTES} bytes"),
    ],
)
def test_a_file_that_holds_no_keys_stops_the_start_and_is_not_quoted(content: bytes, what: str, tmp_path: Path) -> None:
    key_file(tmp_path).write_bytes(content)
    with pytest.raises(ConfigurationError, match=what) as refused:
        built(tmp_path, '[rounds]\nkeys_file = "rounds.keys"\n')
    assert "rounds.keys_file" in refused.value.what
    assert "secret" not in str(refused.value)


def test_a_folder_in_its_place_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"rounds\.keys_file: can.t read .*: Is a directory"):
        built(tmp_path, '[rounds]\nkeys_file = "."\n')


@pytest.mark.parametrize("text", ["state_seconds = 0", "state_seconds = 86401", "keys_file = 1", "key_file = 'a'"])
def test_a_wrong_value_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="rounds"):
        built(tmp_path, f"[rounds]\n{text}\n")
