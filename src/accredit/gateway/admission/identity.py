"""`[upstream] identity = "jwt"`: a token in a header tells the server on whose authority a request is made.

So the server need not trust the network: a request that bypasses the gateway has no such token. Reads the clock and
randomness.

- [whose] A request gets a token if, and only if, it is made on somebody's authority (`policy.passing.CallerIdentity`).
  These get none: the gateway's own requests, requests that open or resume a stream, and notifications.
- [fresh] The token is made when the request is sent, and is valid for `IDENTITY_SECONDS`. It is for this one server:
  `aud` is the server's URL without its query, which may hold a key.
- [call-id] `call_id` is the call's id in the records. Without records it is random.
- [one-caller] A header names one caller, so a batch with requests in it is refused.

A client's own header of that name is never forwarded (`forwarding`).
"""

import secrets

from accredit.base.clock import unix_seconds
from accredit.errors import ConfigurationError, RequestError
from accredit.gateway.headers import JSON, RawHeaders
from accredit.gateway.settings import IdentitySettings
from accredit.gateway.upstream.reply import Reply
from accredit.jsonrpc.encode import INVALID_REQUEST, to_json
from accredit.jsonrpc.frames import Frame, Request
from accredit.jsonrpc.requests import Batch
from accredit.policy.passing import CallerIdentity
from accredit.tokens.issued import IdentityGrant, public_jwk, sign_token

IDENTITY_SECONDS = 60
"""The lifetime of the gateway's token for the server behind it: long enough for a slow server whose clock is slightly
off, and too short to be of use to somebody who reads it in a log."""


KEYS_PATH = "/.well-known/accredit/jwks.json"
_ID_BYTES = 16


class Identity:
    """Makes the tokens of one gateway. `upstream` is the server's URL."""

    def __init__(self, settings: IdentitySettings, upstream: str) -> None:
        self._settings = settings
        self.header = settings.header.lower().encode("ascii")
        self._audience = settings.audience or upstream.partition("?")[0]
        self._keys = to_json({"keys": [public_jwk(settings.key.public_key())]})

    def fields(self, speaker: CallerIdentity | None) -> RawHeaders:
        """Return the header fields that tell the server on whose authority a request is made. Raises `RequestError` if
        no token can be made."""
        if speaker is None:
            return []
        authority, token, now = speaker.authority, speaker.token, unix_seconds()
        gateway = self._settings.gateway_id
        grant = IdentityGrant(
            issuer=gateway,
            audience=self._audience,
            subject=speaker.subject,
            actor={"sub": gateway},
            scope=" ".join(speaker.scopes),
            call_id=speaker.call_id or secrets.token_hex(_ID_BYTES),
            issued_at=now,
            expires_at=now + IDENTITY_SECONDS,
            token_id=secrets.token_hex(_ID_BYTES),
            principal=authority.principal_id if authority is not None else None,
            token_issuer=token.issuer if token is not None else None,
            token_subject=token.subject if token is not None else None,
        )
        try:
            return [(self.header, sign_token(self._settings.key, grant).encode("ascii"))]
        except ConfigurationError:
            detail = "Invalid Request: more is granted to this agent than a header for the server can say"
            raise RequestError(INVALID_REQUEST, detail) from None

    async def serve(self, reply: Reply) -> None:
        """Serve the public keys to anybody who asks. Raises `RequestError`."""
        if reply.head.method not in ("GET", "HEAD"):
            raise RequestError(INVALID_REQUEST, "Method not allowed", status=405)
        await reply.reply(200, self._keys, [JSON])


def check_single(message: Frame | Batch) -> None:
    """Refuse a batch with requests in it ([one-caller]). Raises `RequestError`."""
    if isinstance(message, Batch) and any(isinstance(frame, Request) for frame in message.frames):
        detail = "Invalid Request: no batches here: each request goes on with a head of its own"
        raise RequestError(INVALID_REQUEST, detail, word="batch")
