"""A gateway on another machine, as a person's desk reaches it: `accredit desk --at URL`. I/O: the network, bounded.

- [address] A URL is https, or http to this machine, with no path: the gateway's public URL. Each request names it, so
  that no other gateway can use it.
- [environment] No proxy from the environment is used, no redirect is followed, and no credentials are sent.
- [bounds] An answer must come within `GATEWAY_SECONDS`, and have at most `MAX_GATEWAY_ANSWER_BYTES`. A list is asked
  for once in `GATEWAY_REST_SECONDS` at most, also of a gateway that answers at once.
- [session] For lists and fetches, a key in this process's memory is certified by the person's, for 12 hours. So a desk
  whose key is locked can wait for asks, but can't answer them.
- [as-local] An ask from a gateway elsewhere is accepted under the same conditions as one of this machine: its agent has
  signed it, and it is for this person. Anything else that the gateway says is shown as the gateway's own claim, or not
  at all. A client's ask has to name this gateway's URL. A gateway's id is its own claim, too: it is shown to the person
  before they sign for that gateway.

Each answer is signed by the person's key, even a no. If the key is locked, no answer is sent, and the ask runs out.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import httpx2
import msgspec
from msgspec import UNSET

from accredit.base.addresses import is_loopback_host
from accredit.base.log_events import log_event
from accredit.consent.asks import Ask
from accredit.consent.desk_requests import ASKS_PATH, DESK_SESSION_SECONDS, DeskRequest, DeskSession
from accredit.consent.held import AnyAsk, ClientAsk, read_held
from accredit.consent.shown import in_quotes
from accredit.console.book import PendingAsk
from accredit.console.desk import Desk
from accredit.errors import ConfigurationError, ConsentError, DeskError
from accredit.net.fetch import JSON_HEADERS, NETWORK_ERRORS, plain_client, read_body
from accredit.ratify import HybridPrivateKey, HybridSigner
from accredit.ratify.hybrid import SEED_BYTES

GATEWAY_SECONDS = 40.0
"""How long a gateway elsewhere may take for an answer: it holds a list for 20 s if there is nothing new."""
MAX_GATEWAY_ANSWER_BYTES = 131_072
"""The most bytes of such an answer: an ask has 96 KiB."""
GATEWAY_REST_SECONDS = 5.0
"""The least time from one question for a list to the next. A gateway answers at once if it does not know the desk, or
more desks wait there than may, or if it wants the desk to sign without end."""
MAX_GATEWAYS_ELSEWHERE = 16
"""How many gateways elsewhere a desk asks: each takes a connection and a request every 20 s."""

_HEADERS = {**JSON_HEADERS, "content-type": "application/json"}
_UNANSWERED = (*NETWORK_ERRORS, RecursionError)  # the last for a body that is no JSON
_logger = logging.getLogger("accredit.console")


def read_address(text: str) -> str:
    """Return the public URL of a gateway elsewhere, without a slash at its end ([address]). Raises
    `ConfigurationError`."""
    remedy = "name the gateway's public_url, such as https://mcp.example.com"
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        raise ConfigurationError(f"{text!a} is no URL", remedy) from None
    host = parts.hostname or ""
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback_host(host)):
        raise ConfigurationError(f"{text!a} is not https", remedy)
    if not host or "@" in parts.netloc or parts.query or parts.fragment or parts.path not in ("", "/"):
        raise ConfigurationError(f"{text!a} is more than a gateway's address", remedy)
    return text.rstrip("/")


def read_addresses(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the public URLs of gateways elsewhere, each once. Raises `ConfigurationError`, also for too many."""
    found = tuple(dict.fromkeys(map(read_address, texts)))
    if len(found) > MAX_GATEWAYS_ELSEWHERE:
        raise ConfigurationError(
            f"{len(found)} gateways elsewhere are more than {MAX_GATEWAYS_ELSEWHERE}", "name fewer of them"
        )
    return found


class GatewayElsewhere:
    """Asks one gateway. `person` is the id of the person's key, `clock` returns unix seconds."""

    def __init__(
        self, url: str, person: str, clock: Callable[[], int], transport: httpx2.AsyncBaseTransport | None = None
    ) -> None:
        self.url = url
        self._person = person
        self._clock = clock
        self._transport = transport

    async def ask(
        self, op: str, signer: HybridSigner, session: DeskSession | None = None, **members: Any
    ) -> Mapping[str, Any] | None:
        """Send a signed request, and return the answer; None if the gateway does not know the person, or such an ask.
        Raises `DeskError` without a proper answer ([environment] and [bounds])."""
        given: dict[str, Any] = {
            "gateway": self.url,
            "nonce": secrets.token_hex(16),
            "at": self._clock(),
            "op": op,
            "person": self._person,
            "session": UNSET if session is None else session,
            **members,
        }
        request = DeskRequest(**given).signed(signer)
        try:
            async with asyncio.timeout(GATEWAY_SECONDS):
                status, body = await self._post(request.encode())
            answer = msgspec.json.decode(body, type=dict[str, Any]) if status == 200 else None
        except _UNANSWERED as error:
            raise DeskError("elsewhere", f"{self.url} does not answer ({type(error).__name__})") from None
        if answer is None and status != 404:
            raise DeskError("elsewhere", f"{self.url} does not answer (status {status})")
        return answer

    async def fetch(self, code: str, signer: HybridSigner, session: DeskSession | None = None) -> AnyAsk:
        """Return the ask with this code, as the gateway holds it. Raises `DeskError`."""
        answer = await self.ask("fetch", signer, session, code=code)
        if answer is None:
            raise DeskError("unknown", f"no ask at {self.url} has this code, or it knows no key of yours")
        try:
            ask = read_held(msgspec.json.encode(answer.get("ask")))
        except ConsentError as error:
            said = in_quotes(str(error))  # it names members of what the gateway has sent
            raise DeskError("bad_ask", f"{self.url} shows no good ask: “{said}”") from None
        if ask.code != code:
            raise DeskError("bad_ask", f"{self.url} shows another ask")
        if isinstance(ask, ClientAsk) and not all(map(self.has, (ask.gateway.url, ask.endpoint))):
            raise DeskError("bad_ask", f"{self.url} shows a client of another gateway")
        return ask

    async def take_back(self, cert_id: str, signer: HybridSigner) -> bool:
        """End what the person has signed with this id. Return whether the gateway kept anything of it. Raises
        `DeskError`."""
        return await self.ask("revoke", signer, certificate=cert_id) is not None

    def has(self, url: str) -> bool:
        """Return whether a URL is this gateway's."""
        return url == self.url or url.startswith(f"{self.url}/")

    async def _post(self, body: bytes) -> tuple[int, bytes]:
        async with (
            plain_client(
                MAX_GATEWAY_ANSWER_BYTES, headers=_HEADERS, timeout=GATEWAY_SECONDS, transport=self._transport
            ) as client,
            client.stream("POST", f"{self.url}{ASKS_PATH}", content=body) as answer,
        ):
            found = await read_body(answer, MAX_GATEWAY_ANSWER_BYTES)
            if found is None:
                raise ValueError("too long")
            return answer.status_code, found


class Watch:
    """Takes the asks that wait at one gateway into the desk, and brings the answers back. `show` is called with each
    ask that the person has not seen."""

    def __init__(self, gateway: GatewayElsewhere, desk: Desk, show: Callable[[PendingAsk], None]) -> None:
        self._gateway = gateway
        self._desk = desk
        self._show = show
        self._key = HybridPrivateKey(secrets.token_bytes(SEED_BYTES), secrets.token_bytes(SEED_BYTES))
        self._session: DeskSession | None = None
        self._answering: set[asyncio.Task[None]] = set()
        self._problem = ""

    async def run(self) -> None:
        """Watch until cancelled."""
        known: tuple[str, ...] = ()
        loop = asyncio.get_running_loop()
        while True:
            rests_until = loop.time() + GATEWAY_REST_SECONDS
            try:
                known = await self._look(known)
                self._told("")
            except DeskError as error:
                self._told(error.reason)
                rests_until = loop.time() + GATEWAY_REST_SECONDS
            await asyncio.sleep(rests_until - loop.time())

    async def _look(self, known: tuple[str, ...]) -> tuple[str, ...]:
        """Wait for other codes than the `known` ones, take what is new, and return the codes. Raises `DeskError`."""
        session = await self._certified()
        answer = await self._gateway.ask("list", self._key, session, known=known)
        if answer is None:
            raise DeskError("elsewhere", f"{self._gateway.url} does not know {self._desk.person.name}'s key")
        codes = answer.get("codes")
        if not isinstance(codes, list):
            raise DeskError("elsewhere", f"{self._gateway.url} gives no list of codes")
        taken = [str(code) for code in codes]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        for code in taken:
            if code not in known:
                with suppress(DeskError):  # ended meanwhile, or more of one agent than a person is shown
                    self._take(await self._gateway.fetch(code, self._key, session))
        return tuple(taken)

    def _take(self, ask: AnyAsk) -> None:
        if not isinstance(ask, Ask):  # a client's is for whoever has its code, and pushed to nobody
            return
        asked, is_news = self._desk.take(ask, f"a client of {self._gateway.url}")
        if is_news:
            self._show(asked)
            task = asyncio.ensure_future(self._bring(asked))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)

    async def _bring(self, asked: PendingAsk) -> None:
        await asked.answered.wait()
        answer, keys = asked.answer, self._desk.keys
        if answer is None or answer.decision == "later":
            return
        if answer.decision == "deny" and keys.state not in ("open", "unlocked"):
            return
        try:
            signer = await keys.signer(f"Passphrase to send the answer to {self._gateway.url}", each=False)
            if await self._gateway.ask("answer", signer, code=asked.ask.code, answer=answer) is None:
                self._told(f"{self._gateway.url} did not take the answer to {asked.ask.code}")
        except DeskError as error:
            self._told(error.reason)

    async def _certified(self) -> DeskSession:
        """Return the session, certified by the person if none is good any more ([session]). Raises `DeskError`."""
        now = self._desk.now()
        if self._session is None or self._session.until <= now:
            url = self._gateway.url
            signer = await self._desk.keys.signer(f"Passphrase to ask {url} for asks, for 12 hours", each=False)
            until = self._desk.now() + DESK_SESSION_SECONDS - 60  # clocks differ
            self._session = DeskSession(self._key.public_key, until).signed(signer)
        return self._session

    def _told(self, problem: str) -> None:
        """Log a problem with the gateway, unless it is the same as before."""
        if problem and problem != self._problem:
            log_event(_logger, logging.WARNING, "a gateway elsewhere", detail=problem)
        self._problem = problem
