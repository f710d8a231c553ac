"""The official SDK's OAuth flow for a user who agrees to everything. I/O: HTTP to the issuer that it is sent to."""

from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

CALLBACK = "http://127.0.0.1:1/callback"


class MemoryTokens:
    """Where the SDK keeps what it gets. `history` has all tokens, the newest last."""

    def __init__(self) -> None:
        self.history: list[OAuthToken] = []
        self._client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        """The newest token."""
        return self.history[-1] if self.history else None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Keeps a token."""
        self.history.append(tokens)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """How the client is registered."""
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Keeps how the client is registered."""
        self._client = client_info


class AgreeableUser:
    """`auth` is what an httpx2 client is given; `asked` are the authorization requests that the user agreed to."""

    def __init__(self, server_url: str) -> None:
        self.tokens = MemoryTokens()
        self.asked: list[dict[str, str]] = []
        self._answer = AuthorizationCodeResult(code="", state=None)
        about = OAuthClientMetadata(
            redirect_uris=[AnyUrl(CALLBACK)],
            client_name="test",
            grant_types=["authorization_code"],
            token_endpoint_auth_method="none",
        )
        self.auth = OAuthClientProvider(server_url, about, self.tokens, self._visit, self._returned)

    async def _visit(self, url: str) -> None:
        self.asked.append({name: values[0] for name, values in parse_qs(urlsplit(url).query).items()})
        async with httpx2.AsyncClient(trust_env=False) as browser:
            answer = await browser.get(url)
        sent = {name: values[0] for name, values in parse_qs(urlsplit(answer.headers["location"]).query).items()}
        self._answer = AuthorizationCodeResult(code=sent["code"], state=sent["state"], iss=sent["iss"])

    async def _returned(self) -> AuthorizationCodeResult:
        return self._answer
