"""Exchanges the front door's codes and refresh tokens for new tokens, and ends logins.

- [code] A code is exchanged once, with the verifier of its challenge, and only as it was issued: to the same client,
  for the same redirect URI and endpoint.
- [rotation] A refresh token is exchanged once, for at most the granted scopes. A client that is no longer on the
  allow-list gets nothing. Where people log in, their groups are read first: while the provider does not answer, nothing
  is renewed, and the refresh token stays valid. A token that is not the newest ends its login, without asking the
  provider, however soon it comes after the newest: a client that sent one token twice, and a thief who was a second
  faster than the client, look the same (RFC 9700 section 4.14.2).
- [proves] A token is given only if calls with it could be allowed. If a certificate of the delegation is revoked, its
  root is no longer one of the endpoint's, or the gateway now asks for consent in another way, everything that was
  granted ends.
- [rate] Each code and token has a tag, so an invented one is refused without asking the store, and does not count
  towards any rate. For the others there is one rate, of which one login or one code gets a small part, whatever
  addresses its requests come from.
- [revoke] An access token or a refresh token can end its login. The answer does not say whether there was a login.
"""

import secrets
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Protocol

from accredit.base.budget import PeerBudget
from accredit.errors import InvalidToken, OAuthError
from accredit.gateway.admission.guests import read_chain
from accredit.gateway.front.door.flows import SECRET_BYTES, SECRET_CHARS, Flows, key_of
from accredit.gateway.front.door.requests import Endpoint
from accredit.gateway.oauth_settings import OAuthSettings
from accredit.oauth.access_tokens import FrontToken, mint_access_token, verify_access_token
from accredit.oauth.answers import token_answer
from accredit.oauth.forms import Parameters
from accredit.oauth.requests import CodeGrant, RefreshGrant, fits, read_grant, read_revocation, reduce_scopes
from accredit.policy.decision import Policy
from accredit.ports import AuthorizationCode, Grant, Login, Rejected, Revocations
from accredit.ratify import DelegationCert

TOKENS, TOKENS_PER_SECOND = 200, 50.0
"""How many requests with codes and refresh tokens are taken in a burst, and each second: each is a few transactions of
the store."""
TOKEN_SHARES = 20
"""Of these, one login or code gets at most one in so many: 10, and 2.5 a second. A client refreshes four times an
hour."""

_GONE = "the code or refresh token is not good: it is over, used, or for something else"


class Renewing(Protocol):
    """Decides whether logins may be renewed, depending on how people consent."""

    async def check_again(self, login: Login) -> None:
        """Check whether a login may be renewed. Raises `OAuthError` if not, and `StoreUnavailable`."""
        ...


class Tokens:
    """Gives tokens, with the budget of the one `before`. Its methods raise `OAuthError` and `StoreUnavailable`."""

    def __init__(
        self,
        settings: OAuthSettings,
        endpoints: Mapping[str, Endpoint],
        consent: Renewing,
        flows: Flows,
        revocations: Revocations,
        before: "Tokens | None" = None,
    ) -> None:
        self._settings = settings
        self._endpoints = endpoints
        self._consent = consent
        self._flows = flows
        self._door = flows.door
        self._clock = flows.clock
        self._revocations = revocations
        fresh = PeerBudget(TOKENS, TOKENS_PER_SECOND, shares=TOKEN_SHARES)
        self._budget: PeerBudget = before._budget if before is not None else fresh

    async def give(self, form: Parameters) -> dict[str, object]:
        """Return the answer to a token request."""
        grant = read_grant(form, self._endpoints, private=self._settings.private_documents)
        return await (self._redeem(grant) if isinstance(grant, CodeGrant) else self._rotate(grant))

    async def revoke(self, form: Parameters) -> None:
        """End the login of a token ([revoke])."""
        asked = read_revocation(form, private=self._settings.private_documents)
        name = self._login_of(asked.token)
        if name is not None:
            await self._door.end_login(name, client_id=asked.client_id, now=self._clock())

    async def _redeem(self, grant: CodeGrant) -> dict[str, object]:
        """Give tokens for a code ([code])."""

        def is_for(given: AuthorizationCode) -> bool:
            return (
                given.client_id == grant.client_id
                and given.resource == grant.resource
                and grant.redirect_uri in ("", given.redirect_uri)
                and fits(grant.verifier, given.challenge)
            )

        self._check_known(b"code", grant.code)
        name, secret = self._flows.draw_tagged(b"login"), secrets.token_urlsafe(SECRET_BYTES)
        login = await self._door.redeem(
            _digest(grant.code), is_for, login=_digest(name), token=_digest(name + secret), now=self._clock()
        )
        if isinstance(login, Rejected):
            raise OAuthError("invalid_grant", _GONE)
        await self._check_proves(login.grant)
        return self._tokens_of(login, _digest(name), name + secret, login.scopes)

    async def _rotate(self, grant: RefreshGrant) -> dict[str, object]:
        """Give new tokens for a refresh token ([rotation])."""
        name, old = grant.refresh_token[:SECRET_CHARS], _digest(grant.refresh_token)
        self._check_known(b"login", name)
        stands = await self._door.login(_digest(name), now=self._clock())
        if stands is None or (stands.grant.client_id, stands.grant.resource) != (grant.client_id, grant.resource):
            raise OAuthError("invalid_grant", _GONE)
        scopes = stands.scopes
        if secrets.compare_digest(stands.token, old):  # else it was used before, and ends the login below
            scopes = reduce_scopes(grant.scopes, stands.scopes)
            if not self._settings.lets_in(grant.client_id):
                raise OAuthError("invalid_grant", "this client is no longer let in here (oauth.clients)")
            await self._check_proves(stands.grant)
            await self._consent.check_again(stands)
        fresh = name + secrets.token_urlsafe(SECRET_BYTES)
        login = await self._door.rotate(
            _digest(name), old, _digest(fresh), client_id=grant.client_id, now=self._clock()
        )
        if isinstance(login, Rejected):
            raise OAuthError("invalid_grant", _GONE)
        return self._tokens_of(login, _digest(name), fresh, scopes)

    def _check_known(self, kind: bytes, secret: str) -> None:
        """Check that a code, or a login's name, is one of ours, and does not come too often ([rate])."""
        if not self._flows.has_tagged(kind, secret):
            raise OAuthError("invalid_grant", _GONE)
        if not self._budget.take(secret):
            raise OAuthError("temporarily_unavailable", "too many requests for tokens")

    async def _check_proves(self, grant: Grant) -> None:
        """Check that calls with a token of this grant could be allowed ([proves]). If not, end the grant."""
        chain = read_chain(grant.chain, key_of(grant.seeds).public_key)
        is_good = (
            chain is not None
            and grant.provider == self._settings.provider
            and await may_prove(chain.certificates, self._endpoints[grant.resource].policy, self._revocations)
        )
        if not is_good:
            await self._door.end_grant(grant)
            raise OAuthError("invalid_grant", "what was signed for this client was taken back, or counts no more")

    def _tokens_of(self, login: Login, name: bytes, refresh: str, scopes: tuple[str, ...]) -> dict[str, object]:
        now, settings = self._clock(), self._settings
        ends = min(now + settings.access_seconds, login.ends)
        token = FrontToken(
            issuer=settings.public_url,
            subject=login.grant.subject,
            resource=login.grant.resource,
            client_id=login.grant.client_id,
            login=name.hex(),
            token_id=secrets.token_hex(16),
            scope=" ".join(scopes),
            issued_at=now,
            expires_at=ends,
        )
        return token_answer(mint_access_token(settings.key, token), ends - now, refresh, scopes)

    def _login_of(self, token: str) -> bytes | None:
        """Return the name of the login that a token belongs to, or None for what is no token of ours."""
        if token.count(".") != 2 or not token.isascii():
            name = token[:SECRET_CHARS]
            return _digest(name) if len(token) == 2 * SECRET_CHARS and self._flows.has_tagged(b"login", name) else None
        for resource in self._endpoints:
            try:
                settings = self._settings
                found = verify_access_token(token, settings.public_url, resource, settings.keys, self._clock())
            except InvalidToken:
                continue
            return bytes.fromhex(found.login)
        return None


async def may_prove(chain: Sequence[DelegationCert], policy: Policy, revocations: Revocations) -> bool:
    """Return whether a chain, leaf first, may prove something: none of it is revoked, and its root may be trusted.
    Each call checks more than this. Raises `StoreUnavailable`."""
    if not policy.may_trust(chain[-1].issuer_pub_key):
        return False
    return not any([await revocations.is_revoked(each.cert_id) for each in chain])


def _digest(secret: str) -> bytes:
    return sha256(secret.encode("ascii")).digest()
