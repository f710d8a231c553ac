"""Checks the login of people at the identity provider in `[oauth.idp]`: the delegation to the gateway's key, the scopes
that members of groups may pass on to apps, and the provider's metadata and keys. I/O: the network, bounded, without
credentials.

Not checked: the gateway's client secret at the provider, and whether the provider's id tokens have `groups`. Only a
login shows these.
"""

import asyncio
from collections.abc import Iterator

import msgspec
from msgspec import Struct

from accredit.base.clock import unix_seconds
from accredit.config.build import build_all_settings
from accredit.errors import ConfigurationError, KeySetError
from accredit.gateway.front.door.requests import Endpoint
from accredit.gateway.oauth_settings import IdpSettings
from accredit.gateway.settings import GatewaySettings
from accredit.limits import MAX_KEY_SET_BYTES
from accredit.net.fetch import fetch, public_address
from accredit.oauth import openid
from accredit.oauth.answers import LOGIN_PATH
from accredit.ops.doctor.engine import Result, bad, good, note
from accredit.ops.doctor.surroundings import Surroundings
from accredit.tokens.claims import NOT_JSON
from accredit.tokens.discovery import MAX_METADATA_BYTES, is_elsewhere, metadata_urls_of, read_key_set_url
from accredit.tokens.key_sets import ALGORITHMS, read_key_set

PROVIDER_SECONDS = 5.0
"""How long a provider has for its metadata, and for its keys."""
PASSED_ON_DAYS = 7
"""From how many days before its end the doctor says that a delegation ends, with all that was passed on under it."""

_DAY = 86_400


class _Told(Struct, frozen=True):
    """The optional members of a provider's metadata that are checked here. A missing one is None."""

    code_challenge_methods_supported: tuple[str, ...] | None = None
    token_endpoint_auth_methods_supported: tuple[str, ...] | None = None
    id_token_signing_alg_values_supported: tuple[str, ...] | None = None
    scopes_supported: tuple[str, ...] | None = None
    claims_supported: tuple[str, ...] | None = None


_read = msgspec.json.Decoder(_Told).decode


def look_at_logins(at: Surroundings) -> Iterator[Result]:
    """Yield findings about the identity provider, if people log in at one."""
    if at.loaded is None or at.loaded.config.oauth.idp is None or not at.loaded.config.oauth.enabled:
        return
    try:
        servers = build_all_settings(at.loaded, at.environ)
    except ConfigurationError:
        return  # which the look at the configuration says
    oauth = servers[0].oauth
    if oauth is None or oauth.idp is None:
        return
    yield from check_delegation(oauth.idp, servers, unix_seconds())
    yield from check_groups(oauth.idp, servers, oauth.public_url)
    if not at.is_own:
        yield note("login", f"{oauth.idp.issuer} was not asked", "with --config FILE it is")
        return
    try:
        body, keys = asyncio.run(_ask(oauth.idp.issuer))
    except KeySetError as error:
        where = metadata_urls_of(oauth.idp.issuer)[0]
        remedy = "set oauth.idp.issuer to the very text that the provider's metadata has, and look whether it answers"
        yield bad("login", f"{where}: {error}: nobody can log in", remedy)
        return
    yield from check_provider(oauth.idp.issuer, body, keys)
    what = f"{oauth.idp.issuer} has to know {oauth.public_url}{LOGIN_PATH} as a redirect URI"
    yield good("login", f"{what} of its client {oauth.idp.client_id}")


def check_delegation(idp: IdpSettings, servers: list[GatewaySettings], now: int) -> Iterator[Result]:
    """Yield findings about the delegation to the gateway's key. The caller has already checked that it is for this
    key."""
    who = idp.chain[-1].issuer_id
    policies = [each.proofs.policy for each in servers if each.proofs is not None]
    if not any(each.may_trust(idp.chain[-1].issuer_pub_key) for each in policies):
        what = f"oauth.idp.delegation was signed by {who}, who is none of [[proofs.roots]]: no login lets an app in"
        yield bad("login", what, "name the public key of who has signed it in [[proofs.roots]], or have a root sign it")
        return
    left = min(each.expires_at for each in idp.chain) - now
    if left < PASSED_ON_DAYS * _DAY:
        what = f"oauth.idp.delegation ends in {max(left, 0) // 3600} hours, and with it all that was passed on under it"
        yield note("login", what, "have it signed again (accredit grant), and reload the gateway")
    else:
        yield good("login", f"oauth.idp.delegation is good for {left // _DAY} days")


def check_groups(idp: IdpSettings, servers: list[GatewaySettings], url: str) -> Iterator[Result]:
    """Yield findings about the scopes that members of groups may pass on to apps."""
    if not idp.groups:
        what = "oauth.idp.groups names no group: whoever logs in can let no app in"
        yield bad("login", what, 'name what people of a group may pass on: groups = { "mail-users" = ["email:read"] }')
    policies = [each.proofs.policy for each in servers if each.proofs is not None]
    offered = frozenset[str]().union(*(Endpoint(url, each).scopes for each in policies))
    for group, scopes in idp.groups.items():
        unused = sorted({*scopes} - offered)
        if unused:
            what = (
                f"oauth.idp.groups: {group} has {unused[0]}, which is the scope of no tool, or of sensitive ones alone"
            )
            yield note("login", what, "it is never offered: take it out, or name a tool with it under [tools]")


def check_provider(issuer: str, body: bytes, keys: bytes) -> Iterator[Result]:
    """Yield findings about a provider's metadata and keys: the endpoints, and all else that a login needs."""
    try:
        openid.read_provider(body, issuer)
        told = _read(body)
        found = read_key_set(keys)
    except KeySetError as error:
        yield bad(
            "login", f"{issuer}: {error}: nobody can log in", "correct what the provider publishes, or the issuer"
        )
        return
    except NOT_JSON:
        yield bad(
            "login", f"{issuer}: its metadata has a member of another type", "correct what the provider publishes"
        )
        return
    methods, algorithms = told.code_challenge_methods_supported, told.id_token_signing_alg_values_supported
    if methods is None:
        yield note(
            "login", f"{issuer} does not say that it knows PKCE (S256)", "look whether it does: each login uses it"
        )
    elif "S256" not in methods:
        yield bad("login", f"{issuer} knows no PKCE with S256", "switch it on for this client: each login uses it")
    if "client_secret_basic" not in (told.token_endpoint_auth_methods_supported or ("client_secret_basic",)):
        what = f"{issuer} takes no client_secret_basic, by which the gateway shows its secret"
        yield bad("login", what, "allow client_secret_basic for this client")
    usable = {each for key in found.keys for each in key.algorithms}.intersection(algorithms or ALGORITHMS)
    if not usable:
        what = f"{issuer} signs id tokens by {', '.join(algorithms or ()) or 'keys'} that count for nothing here"
        yield bad("login", what, f"have it sign with one of {', '.join(sorted(ALGORITHMS))}, and publish that key")
    if told.scopes_supported is not None and "offline_access" not in told.scopes_supported:
        what = f"{issuer} has no scope offline_access: without a refresh token nobody can log in"
        yield note("login", what, "look whether it gives this client a refresh token without it")
    if told.claims_supported is not None and "groups" not in told.claims_supported:
        what = f"{issuer} does not say that its id tokens have groups: who has none can let no app in"
        yield note("login", what, "map people's groups to the claim groups of the id token, also at each refresh")
    if usable:
        yield good(
            "login", f"{issuer} is the issuer that its metadata names, and signs with {', '.join(sorted(usable))}"
        )


async def _ask(issuer: str) -> tuple[bytes, bytes]:
    """Return a provider's metadata and keys, as the gateway fetches them. Raises `KeySetError`."""
    place = metadata_urls_of(issuer)[0]
    body = await fetch(place, max_bytes=MAX_METADATA_BYTES, timeout=PROVIDER_SECONDS, redirects=0)
    url = read_key_set_url(body, issuer)
    way = public_address if is_elsewhere(url, issuer) else None
    return body, await fetch(url, max_bytes=MAX_KEY_SET_BYTES, timeout=PROVIDER_SECONDS, redirects=0, resolve=way)
