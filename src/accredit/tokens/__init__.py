"""Bearer tokens: their places in a request, their validity, their rights, and the challenges to clients. No I/O.

- `carried`: finds and removes them
- `claims`: reads them
- `key_sets`, `discovery`: the keys of their issuers, and where these are
- `introspection`: asking an issuer about tokens that are not JWTs
- `verify`: the verifier and its cache, and what a valid token may do
- `challenges`: the headers and the metadata document for clients
- `issued`: tokens that accredit issues itself, to clients and to the server behind it
- `access`: tokens that the gateway gets for that server
"""

from accredit.tokens.access import (
    AccessGrant,
    AccessToken,
    ExchangeableToken,
    GrantType,
    SubjectToken,
    error_word,
    exchangeable,
    read_access_token,
    subject_key,
)
from accredit.tokens.carried import (
    FoundTokens,
    Source,
    declares_token,
    find_tokens,
    without_authorization,
    without_tokens,
)
from accredit.tokens.challenges import challenge, metadata, metadata_paths, metadata_url
from accredit.tokens.claims import Claims, VerifiedToken
from accredit.tokens.introspection import Introspection
from accredit.tokens.issued import IdentityGrant, SessionGrant, issue_session_token, public_jwk, sign_token
from accredit.tokens.key_sets import ALGORITHMS, KeySet, read_key_set, read_public_key
from accredit.tokens.verify import (
    Issuer,
    TokenVerifier,
    UnverifiedToken,
    check_policy,
    check_present,
    check_session,
    check_tool,
    may_use,
    policy_digest,
)

__all__ = [
    "ALGORITHMS",
    "AccessGrant",
    "AccessToken",
    "Claims",
    "ExchangeableToken",
    "FoundTokens",
    "GrantType",
    "IdentityGrant",
    "Introspection",
    "Issuer",
    "KeySet",
    "SessionGrant",
    "Source",
    "SubjectToken",
    "TokenVerifier",
    "UnverifiedToken",
    "VerifiedToken",
    "challenge",
    "check_policy",
    "check_present",
    "check_session",
    "check_tool",
    "declares_token",
    "error_word",
    "exchangeable",
    "find_tokens",
    "issue_session_token",
    "may_use",
    "metadata",
    "metadata_paths",
    "metadata_url",
    "policy_digest",
    "public_jwk",
    "read_access_token",
    "read_key_set",
    "read_public_key",
    "sign_token",
    "subject_key",
    "without_authorization",
    "without_tokens",
]
