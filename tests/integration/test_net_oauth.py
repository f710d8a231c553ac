"""The official SDK's client meets our refusals, finds the issuer by our metadata, and comes back with a good token."""

import json
import time
from collections.abc import Callable

import httpx2
import pytest
from tests.world.issuer import RunningIssuer
from tests.world.oauth_client import AgreeableUser
from tests.world.raw_server import Connection, RawServer
from tests.world.running import run

from accredit.errors import MissingToken, TokenError
from accredit.net import IssuerKeys
from accredit.tokens import (
    Issuer,
    TokenVerifier,
    VerifiedToken,
    challenge,
    check_tool,
    find_tokens,
    metadata,
    metadata_paths,
    metadata_url,
)

pytestmark = pytest.mark.holds("tokens/challenges")


class Resource:
    """A protected resource, made of nothing but what `accredit.tokens` and `accredit.net` give."""

    def __init__(self, issuer: RunningIssuer, required_scopes: tuple[str, ...], tool_scope: str) -> None:
        self.seen: list[VerifiedToken] = []
        self.refused: list[int] = []
        self._issuer = issuer
        self._required = required_scopes
        self._tool_scope = tool_scope
        self._keys = IssuerKeys({issuer.url: issuer.jwks_url})
        self.server = RawServer(self._serve)

    @property
    def _settings(self) -> Issuer:
        return Issuer(self._issuer.url, self.server.url, required_scopes=self._required)

    async def aclose(self) -> None:
        await self._keys.aclose()

    async def _serve(self, connection: Connection) -> None:
        verifier = TokenVerifier([self._settings])
        while (request := await connection.request()) is not None:
            if request.target in metadata_paths("/mcp"):
                await send(connection, 200, json.dumps(metadata(self.server.url, [self._settings])).encode())
                continue
            try:
                headers = [(name.encode(), value.encode()) for name, value in request.headers]
                text = find_tokens(headers, {}).deciding(("header",))
                if text is None:
                    raise MissingToken("none")
                presented = verifier.read(text)
                keys = await self._keys.keys(presented.issuer.issuer, presented.kid)
                token = verifier.verify(presented, keys, int(time.time()))
                check_tool(token, "send", self._tool_scope)
            except TokenError as error:
                self.refused.append(error.status)
                value = challenge(error, metadata_url(self.server.url))
                await send(connection, error.status, b"{}", f"WWW-Authenticate: {value}\r\n")
            else:
                self.seen.append(token)
                await send(connection, 200, b'{"ok":true}')


async def send(connection: Connection, status: int, body: bytes, more: str = "") -> None:
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n{more}Content-Length: {len(body)}\r\n\r\n"
    await connection.send(head.encode(), body)


def calls(
    number: int,
    required_scopes: tuple[str, ...] = (),
    tool_scope: str = "",
    between: Callable[[RunningIssuer], None] = lambda _issuer: None,
) -> tuple[Resource, AgreeableUser, list[int]]:
    """A client that knows only the resource's URL makes some calls; the statuses of their final answers."""

    async def main() -> tuple[Resource, AgreeableUser, list[int]]:
        async with RunningIssuer() as issuer:
            resource = Resource(issuer, required_scopes, tool_scope)
            async with resource.server as server:
                user = AgreeableUser(server.url)
                statuses: list[int] = []
                async with httpx2.AsyncClient(auth=user.auth, trust_env=False) as client:
                    for _ in range(number):
                        statuses.append((await client.post(server.url, json={})).status_code)
                        between(issuer)
                await resource.aclose()
            return resource, user, statuses

    return run(main())


def test_a_client_finds_the_issuer_and_comes_back_with_a_token() -> None:
    resource, user, statuses = calls(2)
    assert (statuses, resource.refused) == ([200, 200], [401])
    assert len(user.tokens.history) == 1
    assert user.asked[0]["resource"] == resource.server.url  # so the token is for this server and no other
    assert resource.seen[0] == resource.seen[1]


def test_a_client_asks_for_the_scopes_that_the_metadata_names() -> None:
    resource, user, statuses = calls(1, required_scopes=("mail", "files"))
    assert (statuses, resource.refused) == ([200], [401])
    assert user.asked[0]["scope"] == "mail files"
    assert resource.seen[0].scopes == {"mail", "files"}


def test_a_client_that_lacks_a_tools_scope_learns_which_and_comes_back() -> None:
    resource, user, statuses = calls(2, tool_scope="mail:send")
    assert statuses == [403, 200]  # the SDK steps up once in a call, and the first has used that for its 401
    assert resource.refused == [401, 403, 403]
    assert "mail:send" in user.asked[-1]["scope"].split()
    assert "mail:send" in resource.seen[0].scopes


def test_a_new_key_of_the_issuer_does_not_end_tokens_of_the_old_one() -> None:
    resource, user, statuses = calls(2, between=RunningIssuer.rotate)
    assert (statuses, resource.refused) == ([200, 200], [401])
    assert len(user.tokens.history) == 1


@pytest.mark.parametrize("claim", [{"aud": "https://other.example"}, {"exp": 7}])
def test_a_token_of_this_issuer_that_is_not_good_here_is_refused(claim: dict[str, object]) -> None:
    async def main() -> tuple[int, str]:
        async with RunningIssuer() as issuer:
            resource = Resource(issuer, (), "")
            async with resource.server as server, httpx2.AsyncClient(trust_env=False) as client:
                text = issuer.token(**{"aud": server.url, **claim})
                answer = await client.post(server.url, headers={"Authorization": f"Bearer {text}"})
                await resource.aclose()
                return answer.status_code, answer.headers["www-authenticate"]

    status, value = run(main())
    assert status == 401
    assert value.startswith("Bearer resource_metadata=")
    assert 'error="invalid_token"' in value
