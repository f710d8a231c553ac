"""Session tokens that accredit issues: a peer verifies them, and so does the verifier."""

import base64
import hashlib
import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from msgspec.structs import replace
from tests.world.issuer import NOW

from accredit.errors import ConfigurationError
from accredit.tokens.issued import SessionGrant, issue_session_token, public_jwk
from accredit.tokens.key_sets import read_key_set
from accredit.tokens.verify import Issuer, TokenVerifier

pytestmark = pytest.mark.holds("tokens/issued")

KEY = ec.generate_private_key(ec.SECP256R1())
GRANT = SessionGrant(
    issuer="accredit",
    subject="agent-7",
    audience="mail-gateway",
    issued_at=NOW,
    expires_at=NOW + 900,
    token_id="t-1",
    allowed_tools=("send", "list"),
    denied_tools=("drop",),
    policy_digest="ab",
    session="5e55.tag",
)
KEYS = read_key_set(json.dumps({"keys": [public_jwk(KEY.public_key())]}).encode())


def peer_reads(text: str) -> dict[str, Any]:
    options: Any = {"verify_exp": False, "verify_iat": False}
    return jwt.decode(text, KEY.public_key(), ["ES256"], options, audience="mail-gateway", issuer="accredit")


def test_a_peer_verifies_it() -> None:
    text = issue_session_token(KEY, GRANT)
    assert peer_reads(text) == {
        "iss": "accredit",
        "sub": "agent-7",
        "aud": "mail-gateway",
        "iat": NOW,
        "exp": NOW + 900,
        "jti": "t-1",
        "allowed_tools": ["send", "list"],
        "denied_tools": ["drop"],
        "policy_digest": "ab",
        "session": "5e55.tag",
    }
    assert jwt.get_unverified_header(text) == {"alg": "ES256", "kid": public_jwk(KEY.public_key())["kid"], "typ": "JWT"}


def test_the_verifier_verifies_it() -> None:
    verifier = TokenVerifier([Issuer("accredit", "mail-gateway")])
    presented = verifier.read(issue_session_token(KEY, GRANT))
    token = verifier.verify(presented, KEYS, NOW)
    assert (token.subject, token.allowed_tools, token.denied_tools) == ("agent-7", {"send", "list"}, {"drop"})
    assert (token.policy_digest, token.session, token.kid) == ("ab", "5e55.tag", KEYS.keys[0].kid)


def test_no_tools_named_is_not_no_tools_allowed() -> None:
    grant = replace(GRANT, allowed_tools=None, denied_tools=(), policy_digest=None, session=None)
    unbounded = peer_reads(issue_session_token(KEY, grant))
    assert not {"allowed_tools", "denied_tools", "policy_digest", "session"} & set(unbounded)
    assert peer_reads(issue_session_token(KEY, replace(GRANT, allowed_tools=())))["allowed_tools"] == []


@pytest.mark.parametrize(
    "changes",
    [
        {"subject": ""},
        {"audience": ""},
        {"issuer": ""},
        {"token_id": ""},
        {"session": ""},
        {"expires_at": NOW},
        {"allowed_tools": ("t" * 20_000,)},
    ],
)
def test_a_token_that_nobody_could_use_is_not_signed(changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        issue_session_token(KEY, replace(GRANT, **changes))


def test_a_key_of_another_curve_does_not_sign() -> None:
    with pytest.raises(ConfigurationError, match="P-256"):
        issue_session_token(ec.generate_private_key(ec.SECP384R1()), GRANT)


def test_the_id_of_a_key_is_its_thumbprint() -> None:
    jwk = public_jwk(KEY.public_key())
    canonical = f'{{"crv":"P-256","kty":"EC","x":"{jwk["x"]}","y":"{jwk["y"]}"}}'  # RFC 7638 section 3
    expected = base64.urlsafe_b64encode(hashlib.sha256(canonical.encode()).digest()).decode().rstrip("=")
    assert jwk["kid"] == expected
