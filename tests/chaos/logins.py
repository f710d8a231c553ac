"""What is good once when an app logs in is brought to three gateways at once: one of them takes it. I/O: sockets.

Each round is a login: a person's different answers to one ask, a request of their desk, the digits that the page wants,
and then the code or, in every other round, the refresh token that came of it. In the end the login is over, since a
code or a token was used twice.
"""

import asyncio
import re
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
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
_TOO_MANY = 429

Ask = Callable[[Place], Awaitable[httpx2.Response]]
Copies = Sequence[tuple[str | None, httpx2.Response]]
"""What each copy was told: FIRST, SPENT or UNKNOWN, with the answer."""


async def play_logins(fleet: Fleet, rounds: int) -> list[str]:
    """Plays so many logins at gateways that let apps in; returns what did not hold."""
    async with httpx2.AsyncClient(trust_env=False, timeout=60, headers={"host": "127.0.0.1"}) as http:
        app = _App(http, [each.place for each in fleet.gateways.values()], [each.owner for each in fleet.trusts])
        begun = time.monotonic()
        for number in range(rounds):
            await app.log_in(number)
        told = Counter((each.key.partition(" ")[0], each.answer or "unknown") for each in app.history)
        words = ", ".join(f"{count} {name} {answer}" for (name, answer), count in sorted(told.items()))
        print(f"{rounds} logins: {words}; {time.monotonic() - begun:.0f} s", flush=True)
        missing = [each for each in ("answer", "request", "digits", "code", "token") if not told[each, FIRST]]
        return [*unsound(app.history), *app.broken, *(f"no {each} was taken" for each in missing)]


class _App:
    """An app that logs in again and again, its browser, and the person's desk."""

    def __init__(self, http: httpx2.AsyncClient, places: Sequence[Place], people: Sequence[PrivateKeyFile]) -> None:
        self._http = http
        self._places = places
        self._people = people
        self._person = people[0]
        self.history: list[Operation] = []
        self.broken: list[str] = []

    async def log_in(self, number: int) -> None:
        """One round."""
        first, self._person = self._places[number % len(self._places)], self._people[number % len(self._people)]
        about = {"redirect_uris": [_CALLBACK], "client_name": "App"}
        registered = await self._asked(first, lambda at: self._http.post(f"{_url(at)}/oauth/register", json=about))
        app = json_of(registered)["client_id"]
        query = {
            "response_type": "code", "client_id": app, "redirect_uri": _CALLBACK, "code_challenge": CHALLENGE,
            "code_challenge_method": "S256", "resource": f"{PUBLIC_URL}/mcp", "scope": "email:read",
        }  # fmt: skip
        page = await self._http.get(f"{_url(first)}/oauth/authorize?{urlencode(query)}")
        cookie = page.headers["set-cookie"].partition(";")[0]
        asked = await self._asked(first, self._press(page, cookie, "begin"))
        digits = await self._answered(number, _found(r'class="code">([^<]+)<', asked.text))
        confirming = self._press(asked, cookie, "confirm", digits=digits)
        told = await self._copies(f"digits {number}", [confirming] * FEW_COPIES, is_first=303, is_spent=400)
        code = parse_qs(urlsplit(_first(told).headers["location"]).query)["code"][0]
        fields = {"client_id": app, "resource": f"{PUBLIC_URL}/mcp"}
        redeem = self._token(grant_type="authorization_code", code=code, code_verifier=VERIFIER, **fields)
        if number % 2:
            told = await self._copies(f"code {number}", [redeem] * COPIES, is_first=200, is_spent=400)
        token = json_of(_first(told) if number % 2 else await redeem(first))["refresh_token"]
        refresh = self._token(grant_type="refresh_token", refresh_token=token, **fields)
        if not number % 2:
            told = await self._copies(f"token {number}", [refresh] * COPIES, is_first=200, is_spent=400)
            refresh = self._token(
                grant_type="refresh_token", refresh_token=json_of(_first(told))["refresh_token"], **fields
            )
        late = await asyncio.gather(*(refresh(each) for each in self._places))
        self.broken += [f"login {number} goes on" for each in late if each.status_code != 400]

    async def _answered(self, number: int, code: str) -> str:
        """The person's desk fetches the ask, and brings answers; return the digits that it is told."""
        fetch = self._desk("fetch", code=code)
        told = await self._copies(f"request {number}", [fetch] * FEW_COPIES, is_first=200, is_spent=404)
        ask = ClientAsk.from_dict(json_of(_first(told))["ask"])
        answers = [self._desk("answer", code=code, answer=yes_to(ask, self._person)) for _ in range(FEW_COPIES)]
        told = await self._copies(f"answer {number}", answers, is_first=200, is_spent=404)
        return json_of(_first(told))["digits"]

    async def _copies(self, key: str, copies: Sequence[Ask], *, is_first: int, is_spent: int) -> Copies:
        answers = {is_first: FIRST, is_spent: SPENT}

        async def one(ask: Ask, place: Place) -> tuple[str | None, httpx2.Response]:
            clock = asyncio.get_running_loop().time
            begun, found = clock(), await self._asked(place, ask)
            answer = answers.get(found.status_code, UNKNOWN)
            self.history.append(Operation(key, begun, clock(), answer, str(place.port)))
            return answer, found

        places = self._places
        return await asyncio.gather(*(one(ask, places[place % len(places)]) for place, ask in enumerate(copies)))

    async def _asked(self, place: Place, ask: Ask) -> httpx2.Response:
        """Ask, and again for as long as it is too often: nothing has come of that."""
        while (found := await ask(place)).status_code == _TOO_MANY:
            await asyncio.sleep(_PAUSE_SECONDS)
        return found

    def _press(self, page: httpx2.Response, cookie: str, button: str, **fields: str) -> Ask:
        whole = form(flow=unescape(_found(r'name="flow" value="([^"]+)"', page.text)), do=button, **fields)
        headers = {**whole["headers"], "origin": PUBLIC_URL, "sec-fetch-site": "same-origin", "cookie": cookie}
        return lambda at: self._http.post(f"{_url(at)}/oauth/authorize", content=whole["content"], headers=headers)

    def _token(self, **fields: str) -> Ask:
        return lambda at: self._http.post(f"{_url(at)}/oauth/token", **form(**fields))

    def _desk(self, op: str, **members: object) -> Ask:
        nonce, now = secrets.token_hex(16), unix_seconds()
        request = DeskRequest(gateway=PUBLIC_URL, nonce=nonce, at=now, op=op, person=self._person.id, **members)  # pyright: ignore[reportArgumentType]
        body = request.signed(self._person.signer()).encode()
        return lambda at: self._http.post(f"{_url(at)}/.well-known/accredit/asks", content=body)


def _first(copies: Copies) -> httpx2.Response:
    found = [answer for told, answer in copies if told == FIRST]
    assert found, [(answer.status_code, answer.text) for _, answer in copies]
    return found[0]


def _found(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    assert match is not None, text
    return match[1]


def _url(at: Place) -> str:
    return f"http://{at.host}:{at.port}"
