"""The digest that identifies a configuration in records (`policy.digest`). Reads the public keys' files.

It is the SHA-256 of the RFC 8785 form of `{"SECTION": {"KEY": value}}`. The values are the effective ones, whatever
their origin, as `accredit config show` prints them, without `gateway.host`, `gateway.port` and
`gateway.trusted_proxies`. In them:

- a file that says who may do what (`FileUse.is_policy`), such as one of public keys, is represented by its content,
  `{"sha256": hex}`, or by `null` if it can't be read;
- a secret is represented by the name of its source (a file, an environment variable). A value that is, or may be, a
  secret written into the configuration itself is masked; so is the query of a URL;
- a file or folder in the configuration's own folder is represented by its relative name, so that a copy elsewhere has
  the same digest;
- `servers`, `quotas` and `proofs.registries` are left out if they are empty, and so are keys that the server's kind
  does not use: those of HTTP APIs for an MCP server, and those of agents for a server that is no agent. So a
  configuration without them has the same digest as before these keys existed;
- `oauth` is left out if it is not enabled;
- `admin` and `telemetry` are left out: they decide nothing.

It is not the `policy_digest` of session tokens, which covers the file's bytes.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

from accredit.attest import canonical, sha256_hex
from accredit.config.apis import OF_AGENTS
from accredit.config.load import Loaded
from accredit.config.named_files import NamedFile, named_files
from accredit.config.schema import SECTIONS
from accredit.config.show import list_settings
from accredit.config.values import Place
from accredit.errors import AttestationError, ConfigurationError
from accredit.keys import read_file
from accredit.limits import MAX_KEY_SET_BYTES

_OF_APIS = ("protocol", "path", "forward_headers", "proxy", "routes")
_LISTENS = (("gateway", "host"), ("gateway", "port"), ("gateway", "trusted_proxies"))
"""Keys that say how clients reach the gateway, and decide nothing."""


def policy_digest(loaded: Loaded) -> str:
    """Return the digest, 64 lower-case hex characters. Raises `ConfigurationError` for a value without an RFC 8785
    form."""
    tree: dict[str, dict[str, object]] = {section: {} for section in SECTIONS}
    for section, key, value in _values(loaded):
        tree[section][key] = value
    later = [section for section in ("servers", "quotas") if not tree[section]]
    if not loaded.config.oauth.enabled:
        later.append("oauth")
    for section in ("admin", "telemetry", *later):
        del tree[section]
    try:
        return sha256_hex(canonical(json.dumps(tree).encode()))
    except AttestationError:
        raise ConfigurationError(
            "a value of the configuration has no canonical form (RFC 8785), and records name the configuration by that",
            "look for numbers that are infinite, or of hundreds of digits",
        ) from None


def _values(loaded: Loaded) -> Iterator[tuple[str, str, object]]:
    files = {each.place: _portable(each, loaded) for each in named_files(loaded) if not each.use.scheme}
    for row in list_settings(loaded):
        key = row.section, row.key
        if key not in _LISTENS and (row.value or key != ("proofs", "registries")):
            value = _without_later_keys(row.value) if row.section == "servers" else row.value
            yield *key, _with_files(value, key, files)


def _with_files(value: object, place: Place, files: Mapping[Place, object]) -> object:
    """Return a value in which each file's name is replaced by what represents the file: the entry of `files` for its
    place."""
    if isinstance(value, list):
        return [_with_files(each, (*place, at), files) for at, each in enumerate(cast("list[object]", value))]
    if isinstance(value, dict):
        table = cast("dict[str, object]", value)
        return {name: _with_files(each, (*place, name), files) for name, each in table.items()}
    return files.get(place, value)


def _portable(file: NamedFile, loaded: Loaded) -> object:
    """Return what represents a file or folder: its content if it says who may do what, else its name, which is relative
    in the configuration's own folder."""
    if file.use.is_policy:
        return _content(file.path)
    is_beside = loaded.file is not None and file.path.is_relative_to(loaded.file.parent)
    return str(file.path.relative_to(loaded.file.parent) if loaded.file is not None and is_beside else file.path)


def _content(path: Path) -> dict[str, str] | None:
    try:
        return {"sha256": sha256_hex(read_file(path, MAX_KEY_SET_BYTES).data)}
    except ConfigurationError:  # reported where the file is needed
        return None


def _without_later_keys(server: object) -> object:
    """Return a server's table without the keys that this kind of server does not use."""
    table = cast("dict[str, object]", server)
    later = OF_AGENTS if table["protocol"] != "a2a" else ()
    later = (*_OF_APIS, *later) if table["protocol"] == "mcp" else later
    return {key: each for key, each in table.items() if key not in later}
