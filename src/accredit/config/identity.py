"""Builds the signed header that tells a server who calls: `[upstream] identity = "jwt"`. Reads the signing key, or
makes it.

Checked in this order; each failure is a `ConfigurationError` that names the setting at fault:

- `identity_header` is set only with "jwt", and its name is not one that something else sets;
- the server is reached by a URL: a command reads no headers;
- there is a configuration file: the signing key is in `identity.key` beside it. A key kept only in memory would change
  with every start;
- the gateway has an id, which the tokens name;
- the signing key is P-256 in PEM, and only its owner may read it. If it is missing, a gateway that starts makes it.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from accredit.config.attest import gateway_id
from accredit.config.load import Loaded
from accredit.errors import ConfigurationError, named_key
from accredit.gateway.forwarding import same_name
from accredit.gateway.settings import ApiUpstream, HttpUpstream, IdentitySettings, StdioUpstream, check_reads_headers
from accredit.keys import is_there, kept_token_key, load_token_key, make_token_key

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

IDENTITY_KEY_FILE = "identity.key"
"""The name of the file, in the configuration's folder, that holds the key for signing this header."""


def build_identity(
    loaded: Loaded, upstream: HttpUpstream | StdioUpstream | ApiUpstream, *, starting: bool
) -> IdentitySettings | None:
    """Return the settings of the header that tells the server who calls, or None if there is none. Raises
    `ConfigurationError`.

    If the gateway is not `starting`, no key is written: in place of a missing key a temporary one is made.
    """
    table, place = loaded.config.upstream, loaded.place("upstream")
    if table.identity != "jwt":
        if ("upstream", "identity_header") in loaded.origins:
            raise ConfigurationError(
                f'{place}.identity_header is set and {place}.identity is "{table.identity}": nothing would be in it',
                f'set {place}.identity = "jwt", or remove {place}.identity_header',
            )
        return None
    header = table.identity_header
    for key, names in (
        (f"{place}.headers", table.headers),
        ("gateway.forward_headers", loaded.config.gateway.forward_headers),
    ):
        if any(same_name(name, header) for name in names):
            raise ConfigurationError(
                f"{key} holds {header}, which {place}.identity_header says is the gateway's own",
                f"remove it from {key}, or give {place}.identity_header another name",
            )
    check_reads_headers(upstream, place)
    if loaded.file is None:
        raise ConfigurationError(
            f'{place}.identity is "jwt" and there is no configuration file beside which {IDENTITY_KEY_FILE} could be',
            f"write {place}.identity into accredit.toml, and name that file with --config",
        )
    gateway = gateway_id(loaded)
    key = session_token_key(loaded.file.parent, f"{place}.identity", starting=starting)
    return IdentitySettings(key, gateway, header, loaded.server)


def session_token_key(folder: Path, place: str, *, starting: bool) -> "EllipticCurvePrivateKey":
    """Return the key of session tokens that is in a configuration's folder. A missing one is made, and written if the
    gateway is `starting`. Raises `ConfigurationError` that names `place`."""
    path = folder / IDENTITY_KEY_FILE
    with named_key(place):
        if is_there(path):
            return load_token_key(path)
        return kept_token_key(path) if starting else make_token_key()
