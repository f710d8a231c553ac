"""From a URL to a store."""

from pathlib import Path

import pytest

from accredit.errors import ConfigurationError
from accredit.stores import InMemory, MemoryStore, SqliteStore, parse_store_url

pytestmark = [
    pytest.mark.holds("stores/opening"),
    pytest.mark.holds("stores/kinds"),
    pytest.mark.holds("stores/lasting"),
]


def test_the_store_in_memory(tmp_path: Path) -> None:
    assert isinstance(parse_store_url("memory:", tmp_path).open(), MemoryStore)
    assert parse_store_url("memory:", tmp_path) == InMemory()


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///accredit.db", "{}/accredit.db"),
        ("sqlite:///sub/accredit.db", "{}/sub/accredit.db"),
        ("sqlite:///{}/accredit.db", "{}/accredit.db"),
        ("sqlite:////tmp/accredit.db", "/tmp/accredit.db"),
    ],
)
def test_a_file_is_relative_to_the_configuration_unless_it_has_four_slashes(
    url: str, path: str, tmp_path: Path
) -> None:
    (tmp_path / "sub").mkdir()
    found = parse_store_url(url.format(tmp_path), tmp_path)
    assert isinstance(found.open(), SqliteStore)
    assert found.file == Path(path.format(tmp_path))
    assert not Path(path.format(tmp_path)).exists()


@pytest.mark.parametrize(
    "url",
    [
        *("", "memory", "memory://", "Memory:", "store.db", "sqlite:", "sqlite://", "sqlite://store.db", "sqlite:///"),
        *("sqlite:////", "sqlite:///folder/", "sqlite:///a\0b", "sqlite:///a\nb", "sqlite:///store.db?mode=ro"),
        *("redis://127.0.0.1", "postgresql:127.0.0.1/db", "postgresql://127.0.0.1", "sqlite:///nowhere/store.db"),
    ],
)
def test_what_is_no_store_stops_the_start_and_says_what_to_write(url: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse_store_url(url, tmp_path)
    assert "store.url" in refused.value.what
    assert "\n" not in refused.value.what
    assert refused.value.remedy


def test_a_password_in_a_url_is_not_shown(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse_store_url("redis://user:secret@127.0.0.1", tmp_path)
    assert "secret" not in str(refused.value)
