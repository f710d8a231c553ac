"""The effective configuration, value by value with its origin, and without its secrets. No I/O."""

from dataclasses import dataclass
from typing import cast

from msgspec.structs import replace

from accredit.config.load import Loaded
from accredit.config.schema import SECRETS, SECTIONS, Auth, Server
from accredit.config.section import Section
from accredit.config.values import SecretFrom

_MASK = "***"


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One key: its value as JSON data, and the kind and name of the source that set it."""

    section: str
    key: str
    value: object
    origin: str
    source: str | None


def list_settings(loaded: Loaded) -> list[SettingRow]:
    """Return every key, in the schema's order."""
    rows: list[SettingRow] = []
    for section in SECTIONS:
        for key, value in getattr(loaded.config, section).items():
            kind, name = loaded.origins.get((section, key), ("default", None))
            rows.append(SettingRow(section, key, _mask_value(section, key, value), kind, name))
    return rows


def _mask_value(section: str, key: str, value: object) -> object:
    if isinstance(value, Server):
        return {name: _mask_value("upstream", name, each) for name, each in value.items()}
    if (section, key) in SECRETS:
        table = cast("dict[str, object]", value)
        return {name: text.members() if isinstance(text, SecretFrom) else _MASK for name, text in table.items()}
    if section == "upstream" and key == "url" and isinstance(value, str):
        return _without_query(value)
    if section == "upstream" and key == "urls":
        return [_without_query(url) for url in cast("list[str]", value)]
    return _plain(value)


def _without_query(url: str) -> str:
    """Return a URL with its query masked: a query may contain a key."""
    return f"{url.partition('?')[0]}?{_MASK}" if "?" in url else url


def _plain(value: object) -> object:
    if isinstance(value, Auth):
        return replace(value, token_url=_without_query(value.token_url)).members()
    if isinstance(value, Section):
        return value.members()
    return [_plain(item) for item in cast("list[object]", value)] if isinstance(value, list) else value
