"""What is good once when an app logs in is brought to three gateways at once: one of them takes it. I/O: sockets.

Each round is a login: a person's different answers to one ask, a request of their desk, the digits that the page wants,
and then the code or, in every other round, the refresh token that came of it. In the end the login is over, since a
code or a token was used twice.

While machines fail, a request may go unanswered, and then its login is given up. But nothing is good twice for that,
and a login of which a client was told that it is over does not go on once all is repaired.
"""

import asyncio
import contextlib
import itertools
import re
import secrets
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from html import unescape
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
from tests.chaos.checker import FIRST, SPENT, UNKNOWN, Operation, unsound
from tests.chaos.fleet import PUBLIC_URL, Fleet
from tests.world.front_door import CHALLENGE, VERIFIER, form, json_of, yes_to
from tests.world.replicated import Place

from accredit.base.clock import unix_seconds
from accredit.consent.desk_requests import DeskRequest
from accredit.consent.held import ClientAsk
from accredit.keys import PrivateKeyFile

COPIES = 9
FEW_COPIES = 3
"""Of digits as many as a person has tries, since a further one would end the ask; of a desk's requests as few, since
gateways take few of them in one person's name."""
_CALLBACK = "http://127.0.0.1:9/callback"
_PAUSE_SECONDS = 0.5
_AT_ONCE = 3
_OVER, _TOO_MANY, _FAILED, _NO_ANSWER = 400, 429, 500, 599

Ask = Callable[[Place], Awaitable[httpx2.Response]]
Copies = Sequence[tuple[str | None, httpx2.Response]]
"""What each copy was told: FIRST, SPENT or UNKNOWN, with the answer."""


async def play_logins(fleet: Fleet, rounds: int) -> list[str]:
    """Plays so many logins at gateways that let apps in; returns what did not hold."""
    async with _app(fleet) as app:
        for number in range(rounds):
            await app.log_in(number)
        await app.find_whether_they_are_over()
        told = app.told(f"{rounds} logins")
        given_up = [f"login {number} was given up" for number in app.given_up]
        missing = [each for each in ("answer", "request", "digits", "code", "token") if not told[each, FIRST]]
        return [*unsound(app.history), *app.broken, *given_up, *(f"no {each} was taken" for each in missing)]


async def play_logins_under(name: str, play: Awaitable[None], repair: Callable[[], None], fleet: Fleet) -> list[str]:
    """Plays logins, `_AT_ONCE` at a time, for as long as something goes wrong; returns what did not hold."""
    async with _app(fleet) as app:
        playing = asyncio.ensure_future(play)
        numbers = itertools.count()

        async def log_in() -> None:
            while not playing.done():
                await app.log_in(next(numbers))

        await asyncio.gather(*(log_in() for _ in range(_AT_ONCE)))
        await playing
        await asyncio.to_thread(repair)
        while not await app.log_in(next(numbers)):
            await asyncio.sleep(_PAUSE_SECONDS)
        await app.find_whether_they_are_over()
        app.told(f"{next(numbers)} logins under {name}, {len(app.given_up)} given up")
        return [f"{name}: {each}" for each in (*unsound(app.history), *app.broken)]


@contextlib.asynccontextmanager
async def _app(fleet: Fleet) -> AsyncGenerator["_App"]:
    async with httpx2.AsyncClient(trust_env=False, timeout=60, headers={"host": "127.0.0.1"}) as http:
        places, people = [each.place for each in fleet.gateways.values()], [each.owner for each in fleet.trusts]
        yield _App(http, places, people)


class _GivenUp(Exception):
    """A request of a login went unanswered."""


class _App:
    """An app that logs in again and again, its browser, and the person's desk."""

    def __init__(self, http: httpx2.AsyncClient, places: Sequence[Place], people: Sequence[PrivateKeyFile]) -> None:
        self._http = http
        self._places = places
        self._people = people
        self._over: dict[int, Ask] = {}
        """The last refresh of each login that is to be over."""
        self._begun = time.monotonic()
        self.history: list[Operation] = []
        self.broken: list[str] = []
        self.given_up: list[int] = []

    def told(self, what: str) -> Counter[tuple[str, str]]:
        """Prints and returns how often each kind of copy was told what."""
        told = Counter((each.key.partition(" ")[0], each.answer or "unknown") for each in self.history)
        words = ", ".join(f"{count} {name} {answer}" for (name, answer), count in sorted(told.items()))
        print(f"{what}: {words}; {time.monotonic() - self._begun:.0f} s", flush=True)
        return told

    async def log_in(self, number: int) -> bool:
        """One round; returns whether it came to its end."""
        try:
            await self._log_in(number)
        except _GivenUp:
            self.given_up.append(number)
            return False
        return True

    async def find_whether_they_are_over(self) -> None:
        """Finds out whether a login goes on of which a client was told that it is over."""
        for number, refresh in self._over.items():
            for place in self._places:
                while (found := await self._tried(place, refresh)).status_code >= _FAILED:
                    await asyncio.sleep(_PAUSE_SECONDS)  # a moment ago it was cut off
                if found.status_code != _OVER:
                    self.broken.append(f"login {number} goes on")

    async def _log_in(self, number: int) -> None:
        first, person = self._places[number % len(self._places)], self._people[number % len(self._people)]
        about = {"redirect_uris": [_CALLBACK], "client_name": "App"}
        registered = await self._asked(first, lambda at: self._http.post(f"{_url(at)}/oauth/register", json=about))
        app = json_of(registered)["client_id"]
        query = {
            "response_type": "code", "client_id": app, "redirect_uri": _CALLBACK, "code_challenge": CHALLENGE,
            "code_challenge_method": "S256", "resource": f"{PUBLIC_URL}/mcp", "scope": "email:read",
        }  # fmt: skip
        page = await self._asked(first, lambda at: self._http.get(f"{_url(at)}/oauth/authorize?{urlencode(query)}"))
        cookie = page.headers["set-cookie"].partition(";")[0]
        asked = await self._asked(first, self._press(page, cookie, "begin"))
        digits = await self._answered(number, person, _found(r'class="code">([^<]+)<', asked.text))
        confirming = self._press(asked, cookie, "confirm", digits=digits)
        told = await self._copies(f"digits {number}", [confirming] * FEW_COPIES, is_first=303, is_spent=400)
        code = parse_qs(urlsplit(_first(told).headers["location"]).query)["code"][0]
        fields = {"client_id": app, "resource": f"{PUBLIC_URL}/mcp"}
        redeem = self._token(grant_type="authorization_code", code=code, code_verifier=VERIFIER, **fields)
        if number % 2:
            told = await self._copies(f"code {number}", [redeem] * COPIES, is_first=200, is_spent=400)
        token = json_of(_first(told) if number % 2 else await self._asked(first, redeem))["refresh_token"]
        refresh = self._token(grant_type="refresh_token", refresh_token=token, **fields)
        if not number % 2:
            told = await self._copies(f"token {number}", [refresh] * COPIES, is_first=200, is_spent=400)
            refresh = self._token(
                grant_type="refresh_token", refresh_token=json_of(_first(told))["refresh_token"], **fields
            )
        if any(answer == SPENT for answer, _ in told):
            self._over[number] = refresh

    async def _answered(self, number: int, person: PrivateKeyFile, code: str) -> str:
        """The person's desk fetches the ask, and brings answers; return the digits that it is told."""
        fetch = self._desk(person, "fetch", code=code)
        told = await self._copies(f"request {number}", [fetch] * FEW_COPIES, is_first=200, is_spent=404)
        ask = ClientAsk.from_dict(json_of(_first(told))["ask"])
        answers = [self._desk(person, "answer", code=code, answer=yes_to(ask, person)) for _ in range(FEW_COPIES)]
        told = await self._copies(f"answer {number}", answers, is_first=200, is_spent=404)
        return json_of(_first(told))["digits"]

    async def _copies(self, key: str, copies: Sequence[Ask], *, is_first: int, is_spent: int) -> Copies:
        answers = {is_first: FIRST, is_spent: SPENT}

        async def one(ask: Ask, place: Place) -> tuple[str | None, httpx2.Response]:
            clock = asyncio.get_running_loop().time
            begun, found = clock(), await self._tried(place, ask)
            answer = answers.get(found.status_code, UNKNOWN)
            self.history.append(Operation(key, begun, clock(), answer, str(place.port)))
            return answer, found

        places = self._places
        return await asyncio.gather(*(one(ask, places[place % len(places)]) for place, ask in enumerate(copies)))

    async def _tried(self, place: Place, ask: Ask) -> httpx2.Response:
        """Ask, and again for as long as it is too often: nothing has come of that. What can't be reached has the status
        `_NO_ANSWER`."""
        try:
            while (found := await ask(place)).status_code == _TOO_MANY:
                await asyncio.sleep(_PAUSE_SECONDS)
        except httpx2.TransportError:
            return httpx2.Response(_NO_ANSWER)
        return found

    async def _asked(self, place: Place, ask: Ask) -> httpx2.Response:
        """Ask once. Raises `_GivenUp` if there is no answer."""
        found = await self._tried(place, ask)
        if found.status_code >= _FAILED:
            raise _GivenUp
        return found

    def _press(self, page: httpx2.Response, cookie: str, button: str, **fields: str) -> Ask:
        whole = form(flow=unescape(_found(r'name="flow" value="([^"]+)"', page.text)), do=button, **fields)
        headers = {**whole["headers"], "origin": PUBLIC_URL, "sec-fetch-site": "same-origin", "cookie": cookie}
        return lambda at: self._http.post(f"{_url(at)}/oauth/authorize", content=whole["content"], headers=headers)

    def _token(self, **fields: str) -> Ask:
        return lambda at: self._http.post(f"{_url(at)}/oauth/token", **form(**fields))

    def _desk(self, person: PrivateKeyFile, op: str, **members: object) -> Ask:
        nonce, now = secrets.token_hex(16), unix_seconds()
        request = DeskRequest(gateway=PUBLIC_URL, nonce=nonce, at=now, op=op, person=person.id, **members)  # pyright: ignore[reportArgumentType]
        body = request.signed(person.signer()).encode()
        return lambda at: self._http.post(f"{_url(at)}/.well-known/accredit/asks", content=body)


def _first(copies: Copies) -> httpx2.Response:
    found = [answer for told, answer in copies if told == FIRST]
    if not found:
        raise _GivenUp
    return found[0]


def _found(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    assert match is not None, text
    return match[1]


def _url(at: Place) -> str:
    return f"http://{at.host}:{at.port}"
