"""What keeps people from logging in is said before they try: where it is, and what mends it."""

import json
from typing import Any

import pytest
from tests.world.authorization import CATALOG, GATEWAY, Trust
from tests.world.issuer import IssuerKey

from accredit.gateway.oauth_settings import IdpSettings
from accredit.gateway.settings import GatewaySettings, HttpUpstream, ProofSettings
from accredit.ops.doctor.logins import PASSED_ON_DAYS, check_delegation, check_groups, check_provider
from accredit.policy.decision import Policy
from accredit.ratify import CertificateCache
from accredit.tokens.issued import public_jwk

pytestmark = pytest.mark.holds("ops/doctor/logins")

ISSUER = "https://idp.example"
DAY = 86_400


def provider(**changes: Any) -> bytes:
    members = {
        "issuer": ISSUER,
        "jwks_uri": f"{ISSUER}/keys",
        "authorization_endpoint": f"{ISSUER}/login",
        "token_endpoint": f"{ISSUER}/token",
        "code_challenge_methods_supported": ["plain", "S256"],
        "id_token_signing_alg_values_supported": ["ES256", "HS256"],
        "scopes_supported": ["openid", "offline_access"],
        "claims_supported": ["sub", "groups"],
        **changes,
    }
    return json.dumps({name: value for name, value in members.items() if value is not None}).encode()


KEYS = json.dumps({"keys": [public_jwk(IssuerKey(None).private.public_key())]}).encode()


def test_of_a_provider_with_all_that_a_login_needs_nothing_is_said_but_that() -> None:
    (found,) = check_provider(ISSUER, provider(), KEYS)
    assert (found.state, "ES256" in found.what, "HS256" in found.what) == ("good", True, False)


@pytest.mark.parametrize(
    ("changes", "level", "says"),
    [
        ({"issuer": f"{ISSUER}/"}, "bad", "another issuer"),
        ({"token_endpoint": "http://idp.example/token"}, "bad", "no https URL"),
        ({"token_endpoint": None}, "bad", "the endpoints of a login"),
        ({"code_challenge_methods_supported": ["plain"]}, "bad", "no PKCE with S256"),
        ({"code_challenge_methods_supported": None}, "note", "does not say that it knows PKCE"),
        ({"code_challenge_methods_supported": "S256"}, "bad", "of another type"),
        ({"token_endpoint_auth_methods_supported": ["client_secret_post"]}, "bad", "no client_secret_basic"),
        ({"id_token_signing_alg_values_supported": ["HS256"]}, "bad", "signs id tokens by HS256"),
        ({"scopes_supported": ["openid"]}, "note", "no scope offline_access"),
        ({"claims_supported": ["sub"]}, "note", "have groups"),
    ],
)
def test_what_a_login_lacks_is_said_in_words__with_what_mends_it(
    changes: dict[str, Any], level: str, says: str
) -> None:
    found = [each for each in check_provider(ISSUER, provider(**changes), KEYS) if each.state != "good"]
    assert [(each.state, says in each.what, bool(each.remedy)) for each in found] == [(level, True, True)]
    assert found[0].what.startswith(ISSUER)


@pytest.mark.parametrize("keys", [b"", b"[]", b'{"keys": []}', b'{"keys": [{"kty": "oct", "k": "AAAA"}]}'])
def test_keys_that_verify_nothing_are_told(keys: bytes) -> None:
    assert "bad" in {each.state for each in check_provider(ISSUER, provider(), keys)}


def servers(*roots: Any) -> list[GatewaySettings]:
    policy = Policy(
        verifier_id=GATEWAY,
        roots=dict.fromkeys(roots, "Owner"),
        catalog=CATALOG,
        vocabulary=CATALOG.vocabulary(),
        cert_cache=CertificateCache(),
    )
    return [GatewaySettings(HttpUpstream("http://127.0.0.1:1/mcp"), proofs=ProofSettings(policy, required=True))]


def test_a_delegation_that_no_root_has_signed__or_that_ends_soon__is_told() -> None:
    trust = Trust()
    idp = IdpSettings(ISSUER, "c", "s3cret", trust.agent.signer(), trust.chain(ends=9 * DAY), {})
    now = idp.chain[0].expires_at - 9 * DAY
    (found,) = check_delegation(idp, servers(trust.owner.public_key), now)
    assert (found.state, "9 days" in found.what) == ("good", True)
    (found,) = check_delegation(idp, servers(trust.owner.public_key), now + (9 - PASSED_ON_DAYS) * DAY + 1)
    assert (found.state, "hours" in found.what, "sign" in found.remedy) == ("note", True, True)
    (found,) = check_delegation(idp, servers(trust.stranger.public_key), now)
    assert (found.state, trust.owner.id in found.what, "[[proofs.roots]]" in found.remedy) == ("bad", True, True)
    assert "s3cret" not in repr(found)


def test_groups_that_can_pass_on_nothing_are_told() -> None:
    trust = Trust()
    groups = {"readers": ("email:read",), "senders": ("email:read", "email:send"), "others": ("files:read",)}
    idp = IdpSettings(ISSUER, "c", "s", trust.agent.signer(), trust.chain(), groups)
    found = list(check_groups(idp, servers(trust.owner.public_key), "https://mcp.example.com"))
    assert [(each.state, each.what.split()[1]) for each in found] == [("note", "senders"), ("note", "others")]
    idp = IdpSettings(ISSUER, "c", "s", trust.agent.signer(), trust.chain(), {})
    assert [each.state for each in check_groups(idp, servers(trust.owner.public_key), "https://mcp.example.com")] == [
        "bad"
    ]
