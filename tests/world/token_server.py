"""An authorization server that gives a gateway tokens for a server behind it, and a server that wants them. Real ES256
tokens, signed and verified by PyJWT. I/O: sockets on 127.0.0.1.
"""

import asyncio
import base64
import json
import time
from typing import Any, Self
from urllib.parse import parse_qsl, unquote_plus

import jwt
from tests.world.calls import compact, http
from tests.world.issuer import IssuerKey
from tests.world.raw_server import Connection, Handler, RawRequest, RawServer

from accredit.tokens.access import AccessGrant, GrantType

MAIL = "https://mail.example"
CLIENT, SECRET = "gw:1 é", "s3cret+/=&%: marked"
ISSUED = "urn:ietf:params:oauth:token-type:access_token"
_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"


class TokenServer:
    """`async with TokenServer(subjects) as idp`. It exchanges the tokens that the key of `subjects` has signed.

    `asked` are the forms that came, `given` the tokens. Where `instead` is set, it answers; where `held` is, answers
    wait for it. `members` are added to each answer, and None takes one away.
    """

    def __init__(self, subjects: IssuerKey | None = None) -> None:
        self.key = IssuerKey("idp-1")
        self.subjects = subjects
        self.lifetime: int | None = 600
        self.asked: list[dict[str, str]] = []
        self.given: list[str] = []
        self.members: dict[str, Any] = {}
        self.instead: Handler | None = None
        self.held: asyncio.Event | None = None
        self._server = RawServer(self._serve)

    async def __aenter__(self) -> Self:
        await self._server.__aenter__()
        return self

    async def __aexit__(self, *raised: Any) -> None:
        if self.held is not None:
            self.held.set()
        await self._server.__aexit__(*raised)

    @property
    def url(self) -> str:
        """The token endpoint."""
        return f"http://127.0.0.1:{self._server.port}/token"

    @property
    def requests(self) -> list[RawRequest]:
        """What was asked for."""
        return self._server.requests

    def grant(self, type: GrantType = "client_credentials", **changes: str) -> AccessGrant:
        """How a gateway asks here for tokens for `MAIL`."""
        return AccessGrant(
            **{
                "type": type,
                "token_url": self.url,
                "client_id": CLIENT,
                "client_secret": SECRET,
                "audience": MAIL,
                "scope": "mail:send mail:read",
                **changes,
            }  # type: ignore[arg-type]
        )

    def subject_of(self, token: str) -> str:
        """Who a token is of. Raises what PyJWT raises for one that is not for `MAIL`."""
        return jwt.decode(token, self.key.private.public_key(), ["ES256"], audience=MAIL)["sub"]

    async def _serve(self, connection: Connection) -> None:
        if self.instead is not None:
            await self.instead(connection)
            return
        while (request := await connection.request()) is not None:
            form = dict(parse_qsl(request.body.decode("ascii"), strict_parsing=True, errors="strict"))
            self.asked.append(form)
            if self.held is not None:
                await self.held.wait()
            status, answer = self._answer(request, form)
            await connection.send(http(compact(answer), status=status))

    def _answer(self, request: RawRequest, form: dict[str, str]) -> tuple[str, dict[str, Any]]:
        if request.method != "POST" or request.header("content-type") != "application/x-www-form-urlencoded":
            return "400 Bad Request", {"error": "invalid_request"}
        scheme, _, pair = (request.header("authorization") or "").partition(" ")
        client, _, secret = base64.b64decode(pair).decode("ascii").partition(":")
        if (scheme, unquote_plus(client), unquote_plus(secret)) != ("Basic", CLIENT, SECRET):
            return "401 Unauthorized", {"error": "invalid_client"}
        subject = CLIENT
        if form["grant_type"] == _EXCHANGE:
            assert self.subjects is not None
            try:
                said = jwt.decode(
                    form["subject_token"],
                    self.subjects.private.public_key(),
                    ["ES256"],
                    options={"verify_aud": False, "require": ["sub", "exp"]},
                )
            except jwt.PyJWTError:
                return "400 Bad Request", {"error": "invalid_grant", "error_description": form["subject_token"]}
            if form["subject_token_type"] != ISSUED:
                return "400 Bad Request", {"error": "invalid_request"}
            subject = said["sub"]
        elif form["grant_type"] != "client_credentials":
            return "400 Bad Request", {"error": "unsupported_grant_type"}
        return "200 OK", self._given(subject, form)

    def _given(self, subject: str, form: dict[str, str]) -> dict[str, Any]:
        now = int(time.time())
        said = {
            "iss": self.url,
            "sub": subject,
            "aud": form.get("audience", form.get("resource", "")),
            "exp": now + 600,
        }
        self.given.append(self.key.sign({**said, "iat": now, "jti": str(len(self.given))}))
        answer = {
            "access_token": self.given[-1],
            "token_type": "Bearer",
            "expires_in": self.lifetime,
            "issued_token_type": ISSUED if form["grant_type"] == _EXCHANGE else None,
            **self.members,
        }
        return {name: value for name, value in answer.items() if value is not None}


class Guarded:
    """The handler of a `RawServer` that lets only requests with a token of `idp` through to `handler`, and none with
    one of `withdrawn`. `subjects` are whose requests came through, `refused` the other tokens, which it echoes."""

    def __init__(self, idp: TokenServer, handler: Handler) -> None:
        self._idp = idp
        self._handler = handler
        self.withdrawn: set[str] = set()
        self.refuses_all = False
        self.subjects: list[str] = []
        self.refused: list[str] = []

    async def __call__(self, connection: Connection) -> None:
        await self._handler(_Checked(connection, self))  # type: ignore[arg-type]

    async def admits(self, connection: Connection, request: RawRequest) -> bool:
        """Whether a request has a good token; else it is answered."""
        fields = [value for name, value in request.headers if name == "authorization"]
        token = fields[0].removeprefix("Bearer ") if len(fields) == 1 else ""
        try:
            if token in self.withdrawn or self.refuses_all:
                raise jwt.InvalidTokenError
            self.subjects.append(self._idp.subject_of(token))
        except jwt.PyJWTError:
            self.refused.append(token)
            echoed = (("WWW-Authenticate", f'Bearer realm="{token}"'), ("Authorization", f"Bearer {token}"))
            body = compact({"jsonrpc": "2.0", "id": None, "error": {"code": -1, "message": f"bad token {token}"}})
            await connection.send(http(body, status="401 Unauthorized", headers=echoed))
            return False
        return True


class _Checked:
    """A connection whose requests were checked."""

    def __init__(self, connection: Connection, guard: Guarded) -> None:
        self._connection = connection
        self._guard = guard

    async def request(self) -> RawRequest | None:
        while (request := await self._connection.request()) is not None:
            if await self._guard.admits(self._connection, request):
                return request
        return None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def text_of(answer: bytes) -> str:
    """An answer's error message, and its `data`."""
    error = json.loads(answer)["error"]
    return f"{error['message']}: {error.get('data')}"
