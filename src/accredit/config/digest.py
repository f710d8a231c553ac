"""The digest that identifies a configuration in records (`policy.digest`). Reads the public keys' files.

It is the SHA-256 of the RFC 8785 form of `{"SECTION": {"KEY": value}}`. The values are the effective ones, whatever
their origin, as `accredit config show` prints them, without `gateway.host`, `gateway.port` and
`gateway.trusted_proxies`. In them:

- a file of public keys is represented by its content, `{"sha256": hex}`, or by `null` if it can't be read;
- a secret is represented by the name of its source (a file, an environment variable). A value that is, or may be, a
  secret written into the configuration itself is masked; so is the query of a URL;
- a file in the configuration's own folder is represented by its relative name, so that a copy elsewhere has the same
  digest;
- `servers`, `quotas` and `proofs.registries` are left out if they are empty, and so are an MCP server's keys that only
  HTTP APIs use, and every other server's keys that only agents use. So a configuration without them has the same digest
  as before these keys existed;
- `oauth` is left out if it is not enabled;
- `admin` and `telemetry` are left out: they decide nothing.

It is not the `policy_digest` of session tokens, which covers the file's bytes.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from accredit.attest import canonical, sha256_hex
from accredit.config.apis import OF_AGENTS
from accredit.config.load import Loaded, folder_of
from accredit.config.schema import FILES, SECTIONS
from accredit.config.show import list_settings
from accredit.errors import AttestationError, ConfigurationError
from accredit.keys import read_file
from accredit.limits import MAX_KEY_SET_BYTES

_OF_APIS = ("protocol", "path", "forward_headers", "proxy", "routes")
_LISTENS = (("gateway", "host"), ("gateway", "port"), ("gateway", "trusted_proxies"))
"""Keys that say how clients reach the gateway, and decide nothing."""
PUBLIC_KEYS = {
    ("proofs", "roots"): ("public_key_file",),
    ("proofs", "registries"): ("pins", "ca_file"),
    ("proofs", "revocation"): ("public_key_files",),
    ("oauth", "idp"): ("delegation",),
    ("tokens", "issuers"): ("public_key_file", "jwks_file"),
    ("attest", "signer_public_key_file"): (),
    ("attest", "public_key_files"): (),
}
"""The keys whose values name public key files. If a value is a table, its members that name such files are listed."""


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
    for row in list_settings(loaded):
        key = row.section, row.key
        if key == ("proofs", "registries") and not row.value:
            continue
        if key in PUBLIC_KEYS:
            yield *key, _with_contents(row.value, PUBLIC_KEYS[key], folder_of(loaded, key))
        elif key not in _LISTENS:
            yield *key, _make_relative(row.value, loaded) if key in FILES or row.section == "servers" else row.value


def _with_contents(value: object, members: tuple[str, ...], folder: Path) -> object:
    """Replace each file name by the digest of the file's content. The value itself may be a file name, or a list of
    them, or a table with file names in its `members`."""
    if isinstance(value, list):
        return [_with_contents(each, members, folder) for each in cast("list[object]", value)]
    if isinstance(value, dict):
        table = cast("dict[str, object]", value)
        return table | {name: _with_contents(table[name], (), folder) for name in members}
    return _content(folder / value) if isinstance(value, str) else value


def _content(path: Path) -> dict[str, str] | None:
    try:
        return {"sha256": sha256_hex(read_file(path, MAX_KEY_SET_BYTES).data)}
    except ConfigurationError:  # reported where the file is needed
        return None


def _make_relative(value: object, loaded: Loaded) -> object:
    """Return a path in the configuration's folder relative to that folder, and any other value as it is. For a server's
    table, return the table with its `cwd` treated in this way."""
    if isinstance(value, dict):
        server = cast("dict[str, object]", value)
        later = OF_AGENTS if server["protocol"] != "a2a" else ()
        later = (*_OF_APIS, *later) if server["protocol"] == "mcp" else later
        kept = {key: each for key, each in server.items() if key not in later}
        return kept | {"cwd": _make_relative(server["cwd"], loaded)}
    if isinstance(value, str) and loaded.file is not None and Path(value).is_relative_to(loaded.file.parent):
        return str(Path(value).relative_to(loaded.file.parent))
    return value
