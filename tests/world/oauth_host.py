"""An OAuth client, made by hand, that asks a gateway's front door. I/O: HTTP to the door."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from urllib.parse import urlencode

import httpx2
from tests.world.front_door import CHALLENGE, VERIFIER, Browser, FrontDoor, form, json_of
from tests.world.oauth_client import CALLBACK


class Host:
    """An OAuth client, made by hand, and the browser of whoever uses it."""

    def __init__(self, door: FrontDoor, http: httpx2.AsyncClient, id: str) -> None:
        self.door, self.http, self.id = door, http, id
        self.open = AsyncExitStack()

    async def browser(self) -> Browser:
        """Another browser."""
        found = Browser()
        self.open.push_async_callback(found.aclose)
        return found

    def ask(self, **changes: str) -> str:
        """The URL of an authorization request."""
        members = {
            "response_type": "code",
            "client_id": self.id,
            "redirect_uri": CALLBACK,
            "code_challenge": CHALLENGE,
            "code_challenge_method": "S256",
            "resource": self.door.endpoint,
            "scope": "email:read",
            "state": "s",
            **changes,
        }
        return f"{self.door.url}/oauth/authorize?{urlencode({name: value for name, value in members.items() if value})}"

    async def code(self) -> str:
        """A code, for which a person has said yes."""
        browser = await self.browser()
        await browser.get(self.ask())
        await browser.press("begin", self.door.url)
        await browser.press("confirm", self.door.url, digits=await self.door.say_yes(browser.code))
        assert "code" in browser.told, (browser.status, browser.location, browser.page)
        return browser.told["code"]

    async def post(self, path: str, **fields: str) -> httpx2.Response:
        """Posts a form."""
        return await self.http.post(f"{self.door.url}/oauth/{path}", **form(client_id=self.id, **fields))

    async def redeem(self, code: str, **changes: str) -> httpx2.Response:
        """Brings a code."""
        fields = {"code": code, "code_verifier": VERIFIER, "resource": self.door.endpoint, "redirect_uri": CALLBACK}
        return await self.post("token", **{"grant_type": "authorization_code", **fields, **changes})

    async def refresh(self, token: str, **changes: str) -> httpx2.Response:
        """Brings a refresh token."""
        fields = {"refresh_token": token, "resource": self.door.endpoint}
        return await self.post("token", **{"grant_type": "refresh_token", **fields, **changes})

    async def call(self, token: str | None, tool: str = "list_inbox", **arguments: Any) -> httpx2.Response:
        """Calls a tool in the era without sessions."""
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "host", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        params = {"name": tool, "arguments": arguments, "_meta": meta}
        headers = {
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": "2026-07-28",
            "mcp-method": "tools/call",
            "mcp-name": tool,
            **({"authorization": f"Bearer {token}"} if token else {}),
        }
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        return await self.http.post(self.door.endpoint, json=message, headers=headers)


@asynccontextmanager
async def host(door: FrontDoor) -> AsyncGenerator[Host]:
    async with httpx2.AsyncClient(trust_env=False, timeout=60) as http:
        about = {"redirect_uris": [CALLBACK], "client_name": "Host"}
        registered = await http.post(f"{door.url}/oauth/register", json=about)
        assert registered.status_code == 201
        one = Host(door, http, json_of(registered)["client_id"])
        async with one.open:
            yield one
