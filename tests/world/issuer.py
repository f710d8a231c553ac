"""An issuer of tokens: keys that rotate, tokens as an authorization server signs them, and that server over a socket.

Tokens are signed by PyJWT's own encoder, so that what verifies them here has a peer. `RunningIssuer` is a small
OAuth 2.1 authorization server (RFC 8414 metadata, RFC 7591 registration, codes with PKCE, resource indicators, RFC 7662
introspection) that approves whoever asks. I/O of `RunningIssuer`: sockets on 127.0.0.1.
"""

import asyncio
import base64
import hashlib
import json
import secrets
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, quote_plus, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm
from tests.world.raw_server import Connection, Handler, RawRequest, RawServer

from accredit.tokens.introspection import Introspection

AUDIENCE = "http://127.0.0.1:8484/mcp"
NOW = 1_790_000_000
"""The time of tests that choose it: unix seconds."""

CLIENT, SECRET = "gw:1 é", "s3cret+/=&%: marked"
"""The client, and its secret, that may ask about tokens."""

_CURVES: dict[str, ec.EllipticCurve] = {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1(), "ES512": ec.SECP521R1()}


class IssuerKey:
    """A key pair under an id, for one algorithm."""

    def __init__(self, kid: str | None = "key-1", algorithm: str = "ES256", bits: int = 2048) -> None:
        self.kid = kid
        self.algorithm = algorithm
        self.private: Any
        if algorithm in _CURVES:
            self.private = ec.generate_private_key(_CURVES[algorithm])
        elif algorithm == "EdDSA":
            self.private = ed25519.Ed25519PrivateKey.generate()
        else:
            self.private = rsa.generate_private_key(65_537, bits)

    def jwk(self, **changes: object) -> dict[str, object]:
        """The public key as an issuer publishes it; None takes a member away."""
        public = self.private.public_key()
        maker = {"E": ECAlgorithm, "R": RSAAlgorithm, "P": RSAAlgorithm}[self.algorithm[0]]
        members = (OKPAlgorithm if self.algorithm == "EdDSA" else maker).to_jwk(public, as_dict=True)
        members.pop("key_ops", None)
        found = {**members, "kid": self.kid, "use": "sig", "alg": self.algorithm, **changes}
        return {name: value for name, value in found.items() if value is not None}

    def sign(self, claims: Mapping[str, object], headers: Mapping[str, object] | None = None) -> str:
        """A token that says this."""
        own = {"kid": self.kid} if self.kid is not None else {}
        return jwt.encode(dict(claims), self.private, self.algorithm, {**own, **(headers or {})})


def key_set_text(*keys: IssuerKey) -> bytes:
    """A JWK set."""
    return json.dumps({"keys": [key.jwk() for key in keys]}).encode()


def claims(issuer: str = "https://issuer.example", now: int = NOW, /, **changes: object) -> dict[str, object]:
    """Claims of a good token, with changes; None takes a claim away."""
    found = {
        "iss": issuer,
        "sub": "agent-7",
        "aud": AUDIENCE,
        "iat": now,
        "exp": now + 600,
        "jti": "token-1",
        **changes,
    }
    return {name: value for name, value in found.items() if value is not None}


def answer_now(body: bytes, status: str = "200 OK", *headers: str) -> Handler:
    """A handler that answers so what was read before."""
    lines = "".join(f"{header}\r\n" for header in headers)
    head = f"HTTP/1.1 {status}\r\n{lines}Content-Length: {len(body)}\r\n\r\n".encode()
    return lambda connection: connection.send(head, body)


def answer(body: bytes, status: str = "200 OK", *headers: str) -> Handler:
    """A handler that answers each request so."""
    send = answer_now(body, status, *headers)

    async def serve(connection: Connection) -> None:
        while await connection.request():
            await send(connection)

    return serve


class RunningIssuer:
    """`async with RunningIssuer() as issuer`. `jwks`, where it is set, answers everything in its place; `introspects`
    answers what was asked about a token. `active` has what is said about the tokens that are good, `introspected` the
    forms that asked; where `held` is, answers to them wait for it."""

    def __init__(self) -> None:
        self.key = IssuerKey()
        self.published = [self.key]
        self.jwks: Handler | None = None
        self.lifetime = 600
        self.says: dict[str, object] = {}
        self.active: dict[str, dict[str, object]] = {}
        self.introspected: list[dict[str, str]] = []
        self.held: asyncio.Event | None = None
        self.introspects: Handler | None = None
        self.places = ["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"]
        self._server = RawServer(self._serve)
        self._codes: dict[str, dict[str, str]] = {}

    async def __aenter__(self) -> "RunningIssuer":
        await self._server.__aenter__()
        return self

    async def __aexit__(self, *raised: Any) -> None:
        await self._server.__aexit__(*raised)

    @property
    def url(self) -> str:
        """The issuer's name, which is where it is."""
        return f"http://127.0.0.1:{self._server.port}"

    @property
    def jwks_url(self) -> str:
        """Where its key set is."""
        return f"{self.url}/jwks.json"

    @property
    def fetches(self) -> int:
        """Connections that were accepted so far: each fetch of the key set is one."""
        return self._server.accepted

    @property
    def requests(self) -> list[RawRequest]:
        """What was asked for."""
        return self._server.requests

    @property
    def introspection(self) -> Introspection:
        """Where it is asked about tokens, and as whom."""
        return Introspection(f"{self.url}/introspect", CLIENT, SECRET)

    def opaque(self, **changes: object) -> str:
        """A good token of this moment that is no JWT, with changes to what is said about it."""
        token = secrets.token_urlsafe(24)
        self.active[token] = claims(self.url, int(time.time()), **{"active": True, "token_type": "Bearer", **changes})
        return token

    def rotate(self) -> None:
        """A new key signs from now on; the old one is still published."""
        self.key = IssuerKey(f"key-{len(self.published) + 1}")
        self.published.append(self.key)

    def token(self, **changes: object) -> str:
        """A good token of this moment, with changes."""
        return self.key.sign(claims(self.url, int(time.time()), **changes))

    async def _serve(self, connection: Connection) -> None:
        if self.jwks is not None:
            await self.jwks(connection)
            return
        while (request := await connection.request()) is not None:
            if urlsplit(request.target).path == "/introspect":
                self.introspected.append({name: values[0] for name, values in parse_qs(request.body.decode()).items()})
                if self.held is not None:
                    await self.held.wait()
                if self.introspects is not None:
                    await self.introspects(connection)
                    return
            status, headers, body = self._answer(request)
            lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            head = f"HTTP/1.1 {status}\r\n{lines}Content-Length: {len(body)}\r\n\r\n"
            await connection.send(head.encode(), body)

    def _answer(self, request: RawRequest) -> tuple[str, dict[str, str], bytes]:
        target = urlsplit(request.target)
        query = {name: values[0] for name, values in parse_qs(target.query).items()}
        form = {name: values[0] for name, values in parse_qs(request.body.decode("latin-1")).items()}
        match target.path:
            case "/jwks.json":
                return _json(json.loads(key_set_text(*self.published)))
            case place if place in self.places:
                return _json(self.metadata())
            case "/register":
                return _json({**json.loads(request.body), "client_id": secrets.token_hex(8)}, "201 Created")
            case "/authorize":
                code = secrets.token_hex(16)
                self._codes[code] = query
                granted = urlencode({"code": code, "state": query.get("state", ""), "iss": self.url})
                return "302 Found", {"Location": f"{query['redirect_uri']}?{granted}"}, b""
            case "/token":
                return self._redeem(form)
            case "/introspect":
                pair = base64.b64encode(f"{quote_plus(CLIENT)}:{quote_plus(SECRET)}".encode()).decode()
                if request.header("authorization") != f"Basic {pair}":
                    return _json({"error": "invalid_client"}, "401 Unauthorized")
                return _json(self.active.get(form["token"], {"active": False}))
            case _:
                return "404 Not Found", {}, b""

    def metadata(self) -> dict[str, object]:
        """What it says of itself, with `says`."""
        return {
            "issuer": self.url,
            "jwks_uri": self.jwks_url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "registration_endpoint": f"{self.url}/register",
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none"],
            "authorization_response_iss_parameter_supported": True,
            **self.says,
        }

    def _redeem(self, form: dict[str, str]) -> tuple[str, dict[str, str], bytes]:
        asked = self._codes.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if asked is None or asked.get("code_challenge") != challenge:
            return _json({"error": "invalid_grant"}, "400 Bad Request")
        scope = asked.get("scope", "")
        token = self.token(aud=asked.get("resource", AUDIENCE), scope=scope or None)
        return _json({"access_token": token, "token_type": "Bearer", "expires_in": self.lifetime, "scope": scope})


def _json(value: object, status: str = "200 OK") -> tuple[str, dict[str, str], bytes]:
    return status, {"Content-Type": "application/json"}, json.dumps(value).encode()
