"""`POST /token`: a local agent's first session token, for the secret that the gateway wrote to a file.

In this order; the first that fails decides:

1. the peer is on loopback, as the connection says: 403. What a header says of it does not count;
2. the body is one JSON object of `secret` and `agent`, within `MAX_BOOTSTRAP_BYTES`: 400, 413;
3. the secret was not used yet, and `MAX_BOOTSTRAP_ATTEMPTS` were not wrong: 410;
4. the secret is right, compared in constant time: 403;
5. the agent's name can go into a token: 400.

Only an answer with a token uses the secret up. Not checked: that the agent has a key of that id. Behind a proxy on the
same machine every peer is on loopback: the secret is what counts then.
"""

import hmac
import logging
import secrets
from dataclasses import replace
from typing import Any

import msgspec
from msgspec import Struct

from accredit.base.addresses import is_loopback_address
from accredit.base.clock import unix_seconds
from accredit.base.log_events import log_event
from accredit.errors import ConfigurationError, RequestError
from accredit.gateway.front.exchange import Exchange
from accredit.gateway.headers import JSON
from accredit.gateway.settings import BootstrapSettings
from accredit.jsonrpc.encode import INVALID_REQUEST, to_json
from accredit.tokens import SessionGrant, issue_session_token

MAX_BOOTSTRAP_BYTES = 4_096
"""Bytes of the request for it: a secret and a name."""
MAX_BOOTSTRAP_AGENT_CHARS = 256
"""Characters of an agent's name there; the id of a key has 32."""
MAX_BOOTSTRAP_ATTEMPTS = 10
"""Wrong secrets until the right one is useless, too: whoever can read the file needs one attempt."""


PATH = "/token"
_log = logging.getLogger("accredit.gateway.bootstrap")


class _TokenRequest(Struct, forbid_unknown_fields=True):
    """The body of a request. Its `repr` shows nothing of it."""

    secret: str
    agent: str

    def __repr__(self) -> str:
        return "<token request>"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return []


_read = msgspec.json.Decoder(_TokenRequest).decode


class _Attempts:
    def __init__(self) -> None:
        self.left = MAX_BOOTSTRAP_ATTEMPTS


class Bootstrap:
    """Serves `/token`: gives one token, once."""

    def __init__(self, settings: BootstrapSettings, before: "Bootstrap | None" = None) -> None:
        """After a reload the secret is that of `before`, and what was used of it stays used."""
        self._settings = settings if before is None else replace(settings, secret=before._settings.secret)
        self._attempts = _Attempts() if before is None else before._attempts

    async def serve(self, exchange: Exchange, peer: str) -> None:
        """Answer a POST; `peer` is the address that it comes from. Raises `RequestError`."""
        if not is_loopback_address(peer):
            raise RequestError(INVALID_REQUEST, "Forbidden: tokens are given on loopback only", status=403)
        wanted = _read_request(await exchange.body(MAX_BOOTSTRAP_BYTES))
        # From here on nothing waits: two requests can't both find the secret unused.
        if self._attempts.left <= 0:
            raise RequestError(INVALID_REQUEST, "Gone: the secret was used, or guessed at too often", status=410)
        if not hmac.compare_digest(wanted.secret.encode("utf-8", "replace"), self._settings.secret.encode()):
            self._attempts.left -= 1
            raise RequestError(INVALID_REQUEST, "Forbidden: this is not the secret", status=403)
        token = self._issue(wanted.agent)
        self._attempts.left = 0
        self._settings.used()
        log_event(_log, logging.INFO, "bootstrap_token_given")
        answer = {"access_token": token, "token_type": "Bearer", "expires_in": self._settings.ttl_seconds}
        await exchange.reply(200, to_json(answer), [JSON, (b"cache-control", b"no-store")])

    def _issue(self, agent: str) -> str:
        """Return a new token for an agent. Raises `RequestError` (rule 5)."""
        settings, now = self._settings, unix_seconds()
        if not agent or len(agent) > MAX_BOOTSTRAP_AGENT_CHARS or not agent.isprintable():
            raise RequestError(INVALID_REQUEST, "Invalid Request: the agent has no name that can be printed")
        grant = SessionGrant(
            issuer=settings.issuer,
            subject=agent,
            audience=settings.audience,
            issued_at=now,
            expires_at=now + settings.ttl_seconds,
            token_id=secrets.token_hex(16),
            policy_digest=settings.policy_digest or None,
        )
        try:
            return issue_session_token(settings.key, grant)
        except ConfigurationError:
            raise RequestError(INVALID_REQUEST, "Invalid Request: no token can be made for this agent") from None


def _read_request(body: bytes) -> _TokenRequest:
    try:
        return _read(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise RequestError(INVALID_REQUEST, "Invalid Request: the body is no object of secret and agent") from None
