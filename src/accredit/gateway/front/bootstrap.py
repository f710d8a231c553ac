"""`POST /token`: gives a local agent its first session token, in return for the secret that the gateway wrote to a
file.

These are checked in this order, and the first that fails decides the status:

- [loopback] the connection comes from loopback, and so does the request according to trusted proxies, else 403;
- [body] the body is one JSON object of `secret` and `agent`, else 400, within `MAX_BOOTSTRAP_BYTES`, else 413;
- [attempts] the secret is unused, and fewer than `MAX_BOOTSTRAP_ATTEMPTS` wrong ones have come before, else 410;
- [secret] the secret is right, compared in constant time, else 403;
- [name] the agent's name can go into a token, else 400.

Only an answer with a token uses the secret up. Not checked: that the agent has a key with that name as its id. Behind a
proxy on the same machine that is not a trusted one, every request seems to come from loopback. Then only the secret
protects.
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
from accredit.tokens.issued import SessionGrant, issue_session_token

MAX_BOOTSTRAP_BYTES = 4_096
"""How many bytes the body of such a request may have. It holds a secret and a name."""
MAX_BOOTSTRAP_AGENT_CHARS = 256
"""How many characters the agent's name may have. The id of a key has 32."""
MAX_BOOTSTRAP_ATTEMPTS = 10
"""After this many wrong secrets the right one is void as well. Somebody who can read the file needs only one
attempt."""


PATH = "/token"
_log = logging.getLogger("accredit.gateway.bootstrap")


class _TokenRequest(Struct, forbid_unknown_fields=True):
    """A request's body. Its `repr` hides the content."""

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
    """Serves `/token`: issues one token, once."""

    def __init__(self, settings: BootstrapSettings, before: "Bootstrap | None" = None) -> None:
        """`before` is the previous object, before a reload. Its secret is kept, and so is whether that was used."""
        self._settings = settings if before is None else replace(settings, secret=before._settings.secret)
        self._attempts = _Attempts() if before is None else before._attempts

    async def serve(self, exchange: Exchange) -> None:
        """Answer a POST. Raises `RequestError`."""
        if not (is_loopback_address(exchange.address) and is_loopback_address(exchange.client)):
            raise RequestError(INVALID_REQUEST, "Forbidden: tokens are given on loopback only", status=403)
        wanted = _read_request(await exchange.body(MAX_BOOTSTRAP_BYTES))
        # No await from here on: two requests can't both find the secret unused.
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
        """Issue a token for an agent. Raises `RequestError` for an invalid name ([name])."""
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
