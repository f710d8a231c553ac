"""Where the lock is, when it has to be there, and that a broken one stops the start."""

from pathlib import Path

import pytest
from tests.world.changing_server import definitions, pins

from accredit.config.load import load
from accredit.config.pins import build_pins, read_pinned
from accredit.errors import ConfigurationError
from accredit.pins.lock import LOCK_FILE, write_lock

pytestmark = pytest.mark.holds("config/pins")

GOOD = write_lock({"upstream": definitions()})
MODES = ("enforce", "warn", "off", "")


def written(folder: Path, mode: str = "", lock: bytes | None = GOOD, more: str = "") -> Path:
    file = folder / "accredit.toml"
    file.write_text(f'[pins]\nmode = "{mode}"\n{more}' if mode else f"[pins]\n{more}", "utf-8")
    if lock is not None:
        (folder / LOCK_FILE).write_bytes(lock)
    return file


@pytest.mark.parametrize("mode", MODES)
def test_definitions_are_enforced_where_there_is_a_lock__unless_the_file_says_something_else(
    mode: str, tmp_path: Path
) -> None:
    found = build_pins(load(written(tmp_path, mode, more="fresh_seconds = 7\n"), {}, {}))
    assert found == (pins(enforced=mode != "warn", fresh_seconds=7) if mode != "off" else None)
    assert read_pinned(load(tmp_path / "accredit.toml", {}, {})) is not None


@pytest.mark.parametrize("mode", MODES)
def test_a_mode_that_needs_a_lock_does_not_start_without_one(mode: str, tmp_path: Path) -> None:
    loaded = load(written(tmp_path, mode, None), {}, {})
    if mode in ("enforce", "warn"):
        with pytest.raises(ConfigurationError, match=r"accredit\.lock") as caught:
            build_pins(loaded)
        assert "accredit pin" in caught.value.remedy
    else:
        assert build_pins(loaded) is None
        assert read_pinned(loaded) is None


def test_a_lock_that_lies_in_the_folder_is_not_read_where_no_file_is_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / LOCK_FILE).write_bytes(b"broken")
    assert build_pins(load(None, {}, {})) is None
    with pytest.raises(ConfigurationError, match="there is none"):
        build_pins(load(None, {"ACCREDIT_PINS__MODE": "enforce"}, {}))


@pytest.mark.parametrize(
    "lock",
    [b"", b"{}", GOOD[:-9], GOOD.replace(b"pay", b"Pay", 1), write_lock({"mail": definitions()}), write_lock({})],
)
def test_a_lock_that_does_not_pin_this_server_stops_the_start(lock: bytes, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError):
        build_pins(load(written(tmp_path, lock=lock), {}, {}))
    assert build_pins(load(written(tmp_path, "off", lock), {}, {})) is None


def test_what_is_no_file_is_refused__a_link_to_nowhere_too(tmp_path: Path) -> None:
    file = written(tmp_path, lock=None)
    (tmp_path / LOCK_FILE).symlink_to("nowhere")
    with pytest.raises(ConfigurationError, match="can't read"):
        build_pins(load(file, {}, {}))
    (tmp_path / LOCK_FILE).unlink()
    (tmp_path / LOCK_FILE).mkdir()
    with pytest.raises(ConfigurationError, match=r"accredit\.lock"):
        build_pins(load(file, {}, {}))
