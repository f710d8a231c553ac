"""A gateway with a front door, a browser at its pages, and the person who answers at a desk. I/O: a process, sockets on
loopback, files in the test's folder.

The person's answers go into the gateway's store as its endpoint for desks puts them there.
"""

import asyncio
import base64
import contextlib
import re
import secrets
import subprocess
from collections.abc import AsyncGenerator, Generator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
import msgspec
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.shared.auth import OAuthClientMetadata
from msgspec import UNSET
from pydantic import AnyUrl
from tests.world.agents import agent_files
from tests.world.authorization import Trust
from tests.world.command import Serving
from tests.world.oauth_client import CALLBACK, MemoryTokens
from tests.world.raw_server import PATIENCE

from accredit.base.clock import unix_seconds
from accredit.canonical import canonical
from accredit.consent.answers import Answer
from accredit.consent.asks import Ask
from accredit.consent.call import CallTerms
from accredit.consent.held import AnyAsk, ClientAsk
from accredit.gateway.holding import HeldAsks, OpenAsk
from accredit.keys import PrivateKeyFile, make_key, write_key
from accredit.ratify import Grant, issue_delegation
from accredit.ratify.wire import tree
from accredit.rounds.sealing import parse_keys
from accredit.stores import parse_store_url

VOCABULARY = ("email:read", "email:send", "email:search", "mcp:resource", "mcp:prompt", "mcp:tool", "payments:send")
VERIFIER, CHALLENGE = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk", "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
_ASKED = re.compile(r"/oauth/asked/([0-9A-Z]{4}-[0-9A-Z]{2})")
_PAGE = re.compile(r"http://\S+/oauth/authorize\?[^\s\x1b\"')]+")


class FrontDoor:
    """The files of a gateway that lets OAuth clients in, at a port that is reserved for it. `more` are further keys of
    `[oauth]`."""

    def __init__(self, folder: Path, port: int, more: str = "") -> None:
        self.folder = folder
        self.trust = Trust()
        agent_files(folder, self.trust, "email:read")
        write_key(folder / "gateway.key", make_key("gateway", "mail", unix_seconds()))
        keys = base64.b64encode(secrets.token_bytes(32)).decode()
        (folder / "cluster.keys").write_text(keys + "\n", "ascii")
        (folder / "cluster.keys").chmod(0o600)
        self.port = port
        self.url = f"http://127.0.0.1:{self.port}"
        self.configuration = folder / "accredit.toml"
        text = self.configuration.read_text("utf-8").replace('"memory:"', '"sqlite:///gateway.db"')
        oauth = f'[oauth]\nenabled = true\npublic_url = "{self.url}"\nprivate_documents = true\n{more}\n'
        attest = '[attest]\nmode = "durable"\nkey_file = "gateway.key"\n[cluster]\nkeys_file = "cluster.keys"\n'
        self.configuration.write_text(text + oauth + attest, "utf-8")
        self._ring = parse_keys(keys)

    @property
    def endpoint(self) -> str:
        """The URL of its endpoint, which clients know."""
        return f"{self.url}/mcp"

    @contextlib.contextmanager
    def serving(self) -> Generator[Serving]:
        """The gateway, as it runs."""
        with Serving("--config", "accredit.toml", "--port", str(self.port), folder=self.folder) as gateway:
            yield gateway

    @contextlib.asynccontextmanager
    async def _holding(self) -> AsyncGenerator[HeldAsks]:
        holding = HeldAsks(parse_store_url("sqlite:///gateway.db", self.folder).open_asks(), self._ring)
        try:
            yield holding
        finally:
            await holding.aclose()

    async def asked(self, code: str) -> OpenAsk | None:
        """What somebody is asked who types a code at their desk."""
        async with self._holding() as holding:
            return await holding.find_code(code)

    async def hold(self, ask: ClientAsk) -> OpenAsk:
        """Hold a client's ask, as the gateway's page does."""
        async with self._holding() as holding:
            return await holding.hold(ask)

    async def waiting_for(self, query: str) -> str:
        """The code of a call that waits for the owner, by its argument `query`; waits until there is one."""
        until = asyncio.get_running_loop().time() + PATIENCE
        async with self._holding() as holding:
            while asyncio.get_running_loop().time() < until:
                for code in await holding.waiting(self.trust.owner.id):
                    held = await holding.find_code(code)
                    if held is not None and isinstance(held.ask, Ask) and held.ask.arguments.get("query") == query:
                        return code
                await asyncio.sleep(0.05)
        raise AssertionError("nobody asks")

    async def say_yes(self, code: str, by: PrivateKeyFile | None = None) -> str:
        """The owner, or somebody else, types a code at their desk, and says yes; the digits that they see. A yes to a
        call is for that very call."""
        async with self._holding() as holding:
            held = await holding.find_code(code)
            assert held is not None
            assert await holding.answer(held, answer_text(yes_to(held.ask, by or self.trust.owner)))
            return held.digits

    async def let_in(self, page: str) -> str:
        """The owner, to whom a host has shown this page, lets it in; the URL by which their browser goes back to it."""
        browser = Browser()
        await browser.get(page)
        await browser.press("begin", page)
        await browser.press("confirm", page, digits=await self.say_yes(browser.code))
        await browser.aclose()
        assert browser.location, browser.page
        return browser.location

    def watch(self, program: subprocess.Popen[str]) -> str:
        """Lets a program in that logs in, and prints the page for the browser; what it prints until its end. If it
        prints the page of a call that waits, the owner allows it."""
        assert program.stdout is not None
        printed: list[str] = []
        visited = False
        try:
            for line in program.stdout:
                printed.append(line)
                page = _PAGE.search(line)
                if page is not None and not visited:
                    visited = True
                    back = asyncio.run(self.let_in(page[0]))
                    httpx2.get(back, trust_env=False, timeout=PATIENCE)
                for code in _ASKED.findall(line):
                    asyncio.run(self.say_yes(code))
        finally:
            program.kill()
        return "".join(printed)

    async def say_no(self, code: str) -> None:
        """The owner types a code at their desk, and says no."""
        async with self._holding() as holding:
            held = await holding.find_code(code)
            assert held is not None
            assert await holding.answer(held, answer_text(Answer(ask=held.ask.digest.hex(), decision="deny")))


def yes_to(ask: AnyAsk, by: PrivateKeyFile) -> Answer:
    """A person's yes to a client, or to a call, with a certificate of its own."""
    if isinstance(ask, Ask):
        digest, target, scope, ends = ask.params_sha256, (ask.target,), (ask.refusal.required_scope,), ask.expires_at
    else:
        digest, target, scope, ends = UNSET, tuple(each.name for each in ask.tools), ask.scopes, ask.until
    terms = CallTerms(gateway=ask.gateway.id, method="tools/call", target=target, params_sha256=digest)
    grant = Grant(
        subject=ask.agent.public_key,
        cert_id=secrets.token_hex(16),
        scope=scope,
        issued_at=unix_seconds() - 1,
        expires_at=ends,
        constraints=(terms.constraint(),),
    )
    certificate = issue_delegation(by.signer(), grant, vocabulary=VOCABULARY)
    return Answer(ask=ask.digest.hex(), decision="allow", certificates=(certificate,))


def told_by(location: str) -> dict[str, str]:
    """What a client learns from the URL by which a browser comes back."""
    return {name: values[0] for name, values in parse_qs(urlsplit(location).query).items()}


def answer_text(answer: Answer) -> bytes:
    """An answer in wire form."""
    return canonical(tree(answer))


class Browser:
    """A browser without script: it keeps cookies, fills in the form of its page, and follows nothing by itself."""

    def __init__(self) -> None:
        self.client = httpx2.AsyncClient(trust_env=False)
        self.page = ""
        self.headers: httpx2.Headers | None = None
        self.location = ""
        self.status = 0

    async def get(self, url: str) -> None:
        """Visits a URL."""
        self._take(await self.client.get(url))

    async def press(self, button: str, url: str, **fields: str) -> None:
        """Presses a button of the page's form; again while the gateway says that too many came at once."""
        form = re.search(r'name="flow" value="([^"]+)"', self.page)
        assert form is not None, self.page
        origin = "/".join(url.split("/")[:3])
        data = urlencode({"flow": unescape(form[1]), "do": button, **fields}).encode()
        headers = {
            "content-type": "application/x-www-form-urlencoded",
            "origin": origin,
            "sec-fetch-site": "same-origin",
        }
        answer = await self.client.post(f"{origin}/oauth/authorize", content=data, headers=headers)
        while answer.status_code == 429:
            await asyncio.sleep(0.2)
            answer = await self.client.post(f"{origin}/oauth/authorize", content=data, headers=headers)
        self._take(answer)

    @property
    def code(self) -> str:
        """The code that the page shows."""
        found = re.search(r'class="code">([^<]+)<', self.page)
        assert found is not None, self.page
        return found[1]

    @property
    def told(self) -> dict[str, str]:
        """What the browser brings to the client's redirect URI."""
        return told_by(self.location)

    async def aclose(self) -> None:
        """Closes it."""
        await self.client.aclose()

    def _take(self, answer: httpx2.Response) -> None:
        self.page, self.headers, self.status = answer.text, answer.headers, answer.status_code
        self.location = answer.headers.get("location", "")


class Person:
    """The owner, who uses the official SDK's client and answers at their desk. `auth` is what an httpx2 client gets."""

    def __init__(self, door: FrontDoor, scope: str | None = None) -> None:
        self.tokens = MemoryTokens()
        self.visited: list[str] = []
        self._door = door
        self._answer = AuthorizationCodeResult(code="", state=None)
        about = OAuthClientMetadata(
            redirect_uris=[AnyUrl(CALLBACK)],
            client_name="SDK",
            grant_types=["authorization_code", "refresh_token"],
            token_endpoint_auth_method="none",
            scope=scope,
        )
        self.auth = OAuthClientProvider(door.endpoint, about, self.tokens, self._visit, self._returned)

    async def _visit(self, url: str) -> None:
        self.visited.append(url)
        told = told_by(await self._door.let_in(url))
        self._answer = AuthorizationCodeResult(code=told["code"], state=told.get("state"), iss=told["iss"])

    async def _returned(self) -> AuthorizationCodeResult:
        return self._answer


def form(**fields: str) -> dict[str, Any]:
    """A form's body and header for httpx2."""
    return {
        "content": urlencode(fields).encode(),
        "headers": {"content-type": "application/x-www-form-urlencoded"},
    }


def json_of(answer: httpx2.Response) -> dict[str, Any]:
    """The JSON of an answer."""
    return msgspec.json.decode(answer.content)
