"""Builds the settings of the front door for OAuth clients, from `[oauth]`. Reads key files, a secret, a delegation.

Checked in this order; each failure is a `ConfigurationError` that names the setting at fault:

- nothing else in `[oauth]` is set without `oauth.enabled`: otherwise people would believe that the gateway lets hosts
  in;
- proofs are required: a token gives no power of its own, but stands for a proof that the gateway makes;
- there is a public URL, which is no issuer of `[[tokens.issuers]]`, and no endpoint has a path of the front door;
- the allow-list has no http or private address without `private_documents`;
- grants must outlive a restart: if the store does, the keys that seal the grants are in a file;
- there is a configuration file, beside which the key of session tokens is. A gateway that starts makes a missing one;
- `[oauth.idp]` is there if, and only if, people log in. Its key is an agent's and not the gateway's own. Its delegation
  is a chain to that key, valid now, that may be passed on, and covers the scopes of each group.

Not checked: whether clients reach the public URL, or the gateway reaches the identity provider.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from accredit.base.clock import unix_seconds
from accredit.config.attest import gateway_id, own_key_file
from accredit.config.identity import session_token_key
from accredit.config.load import Loaded
from accredit.config.oauth_schema import OAuthIdp
from accredit.config.sources import secret_text
from accredit.config.store import store_of
from accredit.errors import ConfigurationError, WireError, named_key
from accredit.gateway.oauth_settings import IdpSettings, OAuthSettings
from accredit.keys import DelegationFile, SigningKey, load_signing_key, read_file
from accredit.limits import MAX_PROOF_BUNDLE_BYTES
from accredit.oauth.answers import METADATA_PATH
from accredit.oauth.uris import is_pattern
from accredit.ratify import verify_chain
from accredit.ratify.scopes import DELEGATE

if TYPE_CHECKING:
    from accredit.ratify import DelegationCert


def build_oauth(loaded: Loaded, environ: Mapping[str, str], *, starting: bool = False) -> OAuthSettings | None:
    """Return how OAuth clients are let in, or None if they are not. Raises `ConfigurationError`.

    If the gateway is not `starting`, no key is written: in place of a missing key a temporary one is made.
    """
    table = loaded.config.oauth
    if not table.enabled:
        _check_meant(loaded)
        return None
    if loaded.api is not None:
        return None
    public_url = _checked_url(loaded)
    _check_clients(loaded)
    _check_lasting(loaded)
    if loaded.file is None:
        raise ConfigurationError(
            "oauth.enabled is set and there is no configuration file beside which the key of its tokens could be",
            "write [oauth] into accredit.toml, and name that file with --config",
        )
    return OAuthSettings(
        public_url=public_url,
        gateway_id=gateway_id(loaded),
        key=session_token_key(loaded.file.parent, "oauth", starting=starting),
        consent=table.consent,
        registration=table.registration,
        clients=None if table.clients is None else tuple(table.clients),
        access_seconds=table.access_seconds,
        refresh_seconds=table.refresh_days * 86_400,
        hold_seconds=table.hold_seconds,
        private_documents=table.private_documents,
        idp=_idp(loaded, table.idp, environ),
    )


def _check_meant(loaded: Loaded) -> None:
    """Refuse settings of the front door where `oauth.enabled` is not set."""
    named = [key for section, key in loaded.origins if section == "oauth"]
    if named and "enabled" not in named:
        raise ConfigurationError(
            f"oauth.{named[0]} is set and oauth.enabled is not: no OAuth client would be let in",
            "set oauth.enabled = true, or false if that is meant",
        )


def _checked_url(loaded: Loaded) -> str:
    config = loaded.config
    if config.proofs.mode != "required":
        raise ConfigurationError(
            "oauth.enabled is set, and proofs are not required: an OAuth client would be asked for what nobody else is",
            'set proofs.mode = "required"',
        )
    url = config.oauth.public_url
    if url is None:
        raise ConfigurationError(
            "oauth.enabled is set, and oauth.public_url is not: it is what clients know the gateway by",
            'set oauth.public_url, such as "https://mcp.example.com"',
        )
    if any(each.issuer == url for each in config.tokens.issuers):
        raise ConfigurationError(
            "oauth.public_url is an issuer of tokens.issuers, too: two keys would sign in one name",
            "remove that issuer from [[tokens.issuers]]",
        )
    path = config.gateway.path
    if path == METADATA_PATH or path == "/oauth" or path.startswith("/oauth/"):
        raise ConfigurationError(
            f"{path} is a path of the front door, and an endpoint is there", "give that endpoint another path"
        )
    return url


def _check_clients(loaded: Loaded) -> None:
    table = loaded.config.oauth
    for each in table.clients or ():
        if not is_pattern(each, private=table.private_documents):
            raise ConfigurationError(
                f"oauth.clients: {each} is not the https URL of a public host",
                "name clients by https URLs, or set oauth.private_documents = true in a test",
            )


def _check_lasting(loaded: Loaded) -> None:
    config = loaded.config
    if store_of(loaded).lasting is not None and config.cluster.keys_file is None and config.rounds.keys_file is None:
        raise ConfigurationError(
            "oauth.enabled is set, and cluster.keys_file is not: what clients were granted could not be opened after"
            " a restart",
            "(umask 077; openssl rand -base64 32 > cluster.keys), and set cluster.keys_file",
        )


def _idp(loaded: Loaded, table: OAuthIdp | None, environ: Mapping[str, str]) -> IdpSettings | None:
    """Return how people log in, or None if they consent at their desks."""
    if (loaded.config.oauth.consent == "idp") != (table is not None):
        raise ConfigurationError(
            'oauth.consent = "idp" and the table [oauth.idp] go together, and one of them is missing',
            'set both, or neither: then people consent at their desks (oauth.consent = "desk")',
        )
    if table is None:
        return None
    key = _front_key(loaded, Path(table.key_file))
    chain = _chain(Path(table.delegation), key)
    for group, scopes in table.groups.items():
        missing = sorted({*scopes} - {*chain[0].scope})
        if missing:
            raise ConfigurationError(
                f"oauth.idp.groups: {group} may pass on {missing[0]}, which is not in oauth.idp.delegation",
                "grant it to the key of oauth.idp.key_file, or take it out of the group",
            )
    return IdpSettings(
        issuer=table.issuer,
        client_id=table.client_id,
        client_secret=secret_text(table.client_secret, "oauth.idp.client_secret", environ),
        signer=key.signer,
        chain=chain,
        groups={group: tuple(scopes) for group, scopes in table.groups.items()},
        recheck_seconds=table.recheck_hours * 3600,
    )


def _front_key(loaded: Loaded, path: Path) -> SigningKey:
    with named_key("oauth.idp.key_file"):
        key = load_signing_key(path)
    own = own_key_file(loaded)
    if key.about.kind != "agent" or (own is not None and own.resolve() == path.resolve()):
        raise ConfigurationError(
            f"oauth.idp.key_file: {path} is the key of {key.about.name}, which is of kind {key.about.kind}",
            "make one of its own: accredit keys new front.key --kind agent",
        )
    return key


def _chain(path: Path, key: SigningKey) -> "tuple[DelegationCert, ...]":
    with named_key("oauth.idp.delegation"):
        content = read_file(path, MAX_PROOF_BUNDLE_BYTES).data
    try:
        chain = DelegationFile.decode(content).delegations
    except WireError as error:
        raise _unusable(path, f"it is no delegation ({error.reason})") from None
    leaf = chain[0]
    if leaf.subject_pub_key != key.about.public_key:
        raise _unusable(path, "it is for another key than that of oauth.idp.key_file")
    if DELEGATE not in leaf.scope:
        raise _unusable(path, f"it is without {DELEGATE}, so nothing of it can be passed on")
    result = verify_chain(chain, now=unix_seconds(), vocabulary={each for cert in chain for each in cert.scope})
    if not result.valid:
        raise _unusable(path, f"it proves nothing: {result.error_reason}")
    return chain


def _unusable(path: Path, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"oauth.idp.delegation: {path}: {why}",
        f"accredit grant --agent front.key.pub --scope {DELEGATE}, with a --scope for each of the groups' ones",
    )
