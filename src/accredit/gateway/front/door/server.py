"""The endpoints of the gateway's authorization server, for all endpoints of the gateway.

- [routes] `METADATA_PATH` is read with GET. `/oauth/authorize` is a page (GET), and takes its own form (POST).
  `/oauth/token`, `/oauth/revoke` and `/oauth/register` take POST. `/oauth/register` is there if it is enabled.
- [asked] Below `ASKED_PATH` is a page about each call that waits for a person. Its code can be guessed, so it shows no
  arguments, and is looked up at a bounded rate.
- [no-redirector] Nobody is redirected to a client before they have pressed a button: an erroneous request gets a page,
  whose link names the client's host (RFC 9700 section 4.11.2). Otherwise links to the gateway would lead wherever a
  stranger's document says. Where people log in, they are sent to the configured provider at once.
- [own-form] A form is refused if the browser says that another origin sent it, or if it was not made for this browser's
  cookie (`flows`). What an identity provider sends back to `/oauth/login` must be for this cookie, too. Other endpoints
  look at no cookie.
- [public-clients] A client that asks for tokens is identified by its code or refresh token alone. Such a request is
  refused if it has an Authorization header.
- [rate] Requests for authorization, registrations, forms and revocations have a bounded rate, and one peer gets at most
  half of it; beyond that the answer is 429. Forms of a person who has logged in count for that person. For codes and
  refresh tokens see `tokens`.
- [no-store] No answer with a token, and no error, is kept by a cache.
"""

import re
import secrets
from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

from accredit.base.budget import PeerBudget
from accredit.base.clock import unix_seconds
from accredit.consent.asks import Ask, read_code
from accredit.errors import AskError, LoginUnavailable, OAuthError, StoreUnavailable
from accredit.gateway.front.door.flows import SECRET_BYTES, SECRET_CHARS, Flows, SubmittedForm
from accredit.gateway.front.door.pages import Page, asked_page, ended_page, wrong_page
from accredit.gateway.front.door.requests import Endpoint, Wanted, WrongRequest, find_client, read_wanted
from accredit.gateway.front.door.tokens import Tokens
from accredit.gateway.front.exchange import Exchange
from accredit.gateway.headers import JSON, RawHeaders
from accredit.gateway.holding import HeldAsks
from accredit.gateway.oauth_settings import REGISTERED_SECONDS, OAuthSettings
from accredit.jsonrpc.encode import to_json
from accredit.oauth.answers import (
    ASKED_PATH,
    AUTHORIZE_PATH,
    LOGIN_PATH,
    METADATA_PATH,
    REGISTER_PATH,
    REVOKE_PATH,
    TOKEN_PATH,
    error_answer,
    server_metadata,
    status_of,
)
from accredit.oauth.clients import MAX_CLIENT_BYTES, read_registration, registration_answer
from accredit.oauth.forms import MAX_FORM_BYTES, Parameters, read_parameters
from accredit.oauth.uris import GIVEN_ID
from accredit.ports import ClientSource

REVOCATIONS = 200
"""How many revocations are taken in a burst: each verifies a token, or is a transaction of the store."""
REVOCATIONS_PER_SECOND = 50.0
"""How many more of them with each second."""
REGISTRATIONS = 100
"""How many clients register in a burst. Known hosts do it once for each person."""
REGISTRATIONS_PER_SECOND = 1.0
"""How many more of them with each second. The number of those that are kept is bounded, too."""
AUTHORIZATIONS = 200
"""How many requests for authorization are looked at in a burst: each may look a client up in the store."""
AUTHORIZATIONS_PER_SECOND = 50.0
"""How many more of them with each second. Each leads to a page that a person has to read."""
FORMS = 50
"""How many forms of pages are taken in a burst: each may make a key, and is a transaction of the store."""
FORMS_PER_SECOND = 5.0
"""How many more of them with each second."""
LOOKS = 50
"""How many pages about waiting calls are looked up in a burst. Who guesses codes needs a million such bursts."""
LOOKS_PER_SECOND = 2.0
"""How many more of them with each second."""
DOOR_RETRY_SECONDS = 2
"""What `Retry-After` says where a rate was exceeded, or a store does not answer."""

_METHODS = {
    METADATA_PATH: ("GET",),
    AUTHORIZE_PATH: ("GET", "POST"),
    LOGIN_PATH: ("GET",),
    TOKEN_PATH: ("POST",),
    REVOKE_PATH: ("POST",),
    REGISTER_PATH: ("POST",),
}
_NO_STORE = (b"cache-control", b"no-store")
_FORM = b"application/x-www-form-urlencoded"
_COOKIE = "accredit-consent"
_TOO_MANY = ended_page("Too many at once", "Go back, and try again in a minute.", 429)
_RANDOM = re.compile(rf"[A-Za-z0-9_-]{{{SECRET_CHARS}}}")


class _Budgets:
    """What strangers may ask for, in one process."""

    def __init__(self) -> None:
        self.revocations = PeerBudget(REVOCATIONS, REVOCATIONS_PER_SECOND)
        self.registrations = PeerBudget(REGISTRATIONS, REGISTRATIONS_PER_SECOND)
        self.authorizations = PeerBudget(AUTHORIZATIONS, AUTHORIZATIONS_PER_SECOND)
        self.forms = PeerBudget(FORMS, FORMS_PER_SECOND)
        self.looks = PeerBudget(LOOKS, LOOKS_PER_SECOND)


class Consent(Protocol):
    """A way for people to consent: at their desk, or by logging in."""

    async def begin(self, wanted: Wanted, browser: str) -> Page | str:
        """Return the first page for a request, or the URL where the person logs in. Raises `OAuthError`."""
        ...

    async def go_on(self, going: SubmittedForm, wanted: Wanted, browser: str) -> Page | str:
        """Return the next page, or the URL of the client to go to. Raises `OAuthError` and `StoreUnavailable`."""
        ...


class FrontDoor:
    """Serves the authorization server. It is made anew at a reload, with the budgets of the one `before`. `clock`
    returns unix seconds."""

    def __init__(
        self,
        settings: OAuthSettings,
        endpoints: Mapping[str, Endpoint],
        consent: Consent,
        flows: Flows,
        tokens: Tokens,
        documents: ClientSource,
        holding: HeldAsks,
        before: "FrontDoor | None" = None,
        *,
        clock: Callable[[], int] = unix_seconds,
    ) -> None:
        self._settings = settings
        self._endpoints = endpoints
        self._consent = consent
        self._flows = flows
        self.tokens = tokens
        self._documents = documents
        self._door = flows.door
        self._holding = holding
        self._budgets = before._budgets if before is not None else _Budgets()
        self._clock = clock
        there = {REGISTER_PATH: settings.registration, LOGIN_PATH: settings.consent == "idp"}
        self._absent = {path for path, is_there in there.items() if not is_there}
        scopes = frozenset[str]().union(*(each.scopes for each in endpoints.values()))
        self._metadata = to_json(server_metadata(settings.public_url, scopes, registration=settings.registration))
        self._cookie = f"__Host-{_COOKIE}" if settings.is_secure else _COOKIE

    def has(self, path: str) -> bool:
        """Return whether a path is the front door's."""
        return path in _METHODS or path.startswith(ASKED_PATH)

    async def serve(self, exchange: Exchange, path: str) -> None:
        """Answer a request for one of the front door's paths ([routes]). Its host has been checked. Raises
        `RequestError`."""
        if path not in _METHODS:
            await self._show_asked(exchange, path)
            return
        methods = _METHODS[path] if path not in self._absent else ()
        if exchange.head.method not in methods:
            status = 405 if methods else 404
            headers = [(b"allow", ", ".join(methods).encode())] if methods else []
            await self._answer(exchange, status, {"error": "invalid_request"}, headers)
        elif path == METADATA_PATH:
            await exchange.reply(200, self._metadata, [JSON])
        elif path in (AUTHORIZE_PATH, LOGIN_PATH):
            await self._authorize(exchange, path)
        else:
            await self._answer_client(exchange, path)

    async def _show_asked(self, exchange: Exchange, path: str) -> None:
        """Answer a request for a page below `ASKED_PATH` ([asked])."""
        page = ended_page("Nobody waits for an answer here", "The call was answered, or has ended.", 404)
        try:
            if exchange.head.method == "GET" and self._budgets.looks.take(exchange.peer):
                held = await self._holding.find_code(read_code(path.removeprefix(ASKED_PATH)))
                if held is not None and held.answer is None and isinstance(held.ask, Ask):
                    page = asked_page(held.ask)
        except (AskError, StoreUnavailable):
            pass
        await _show(exchange, page)

    async def _authorize(self, exchange: Exchange, path: str) -> None:
        try:
            if path == LOGIN_PATH:
                await self._go_on(exchange, read_parameters(exchange.head.query), "state")
            elif exchange.head.method == "GET":
                await self._begin(exchange)
            else:
                self._check_own_form(exchange)
                await self._go_on(exchange, await self._form(exchange), "flow")
        except WrongRequest as error:
            await _show(exchange, wrong_page(error.detail, error.location))
        except LoginUnavailable:
            why = "The identity provider does not answer. Try again soon."
            await _show(exchange, ended_page("You can't log in now", why, 503))
        except OAuthError as error:
            await _show(exchange, ended_page("This request can't be answered", f"{error.error}: {error.detail}."))
        except StoreUnavailable:
            await _show(exchange, ended_page("Not now", "The gateway can't look that up for now. Try again soon.", 503))

    async def _begin(self, exchange: Exchange) -> None:
        if not self._budgets.authorizations.take(exchange.peer):
            await _show(exchange, _TOO_MANY)
            return
        query = read_parameters(exchange.head.query)
        where = (self._settings, self._endpoints, self._documents, self._door)
        wanted = await read_wanted(query, *where, self._clock(), exchange.peer)
        browser = self._browser(exchange) or secrets.token_urlsafe(SECRET_BYTES)
        secure = "; Secure" if self._settings.is_secure else ""
        cookie = f"{self._cookie}={browser}; Path=/; HttpOnly; SameSite=Lax{secure}"
        await _show(exchange, await self._consent.begin(wanted, browser), [(b"set-cookie", cookie.encode("ascii"))])

    async def _go_on(self, exchange: Exchange, form: Parameters, field: str) -> None:
        """Go on with what the browser brings back in the parameter `field`."""
        browser = self._browser(exchange)
        going = self._flows.read(form, browser, field)._replace(peer=exchange.peer)
        if not self._budgets.forms.take(going.flow.subject or exchange.peer):
            await _show(exchange, _TOO_MANY)
            return
        request = going.flow.request
        where = (self._settings, self._documents, self._door)
        client = await find_client(request.client_id, *where, self._clock(), exchange.peer)
        endpoint = self._endpoints.get(request.resource)
        if endpoint is None:
            raise OAuthError("invalid_target", "the endpoint is gone")
        wanted = Wanted(request, client, endpoint.tools(request.scopes), endpoint.policy)
        await _show(exchange, await self._consent.go_on(going, wanted, browser))

    def _check_own_form(self, exchange: Exchange) -> None:
        """Check where a form comes from, if the browser says that ([own-form])."""
        headers = exchange.head.headers
        origin, site = headers.get(b"origin"), headers.get(b"sec-fetch-site", b"same-origin")
        if site != b"same-origin" or (origin is not None and origin != self._settings.public_url.encode("ascii")):
            raise OAuthError("access_denied", "another site has sent this form")

    def _browser(self, exchange: Exchange) -> str:
        """Return the random value of the browser's cookie, or ""."""
        # Not by http.cookies: in some supported versions of Python a quoted value takes it seconds (CVE-2024-7592).
        for cookie in exchange.head.headers.get(b"cookie", b"").decode("latin-1").split(";"):
            name, _, value = cookie.strip().partition("=")
            if name == self._cookie and _RANDOM.fullmatch(value):  # it is sent back in a header
                return value
        return ""

    async def _form(self, exchange: Exchange) -> Parameters:
        kind = exchange.head.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if kind != _FORM:
            raise OAuthError("invalid_request", "a form is asked for (application/x-www-form-urlencoded)")
        return read_parameters(await exchange.body(MAX_FORM_BYTES))

    async def _answer_client(self, exchange: Exchange, path: str) -> None:
        """Answer a program, not a person."""
        try:
            if path == REGISTER_PATH:
                await self._answer(exchange, 201, await self._register(exchange))
                return
            if exchange.credentials:
                raise OAuthError("invalid_client", "clients are public ones here: none has a secret")
            form = await self._form(exchange)
            if path == REVOKE_PATH:
                if not self._budgets.revocations.take(exchange.peer):
                    raise OAuthError("temporarily_unavailable", "too many revocations")
                await self.tokens.revoke(form)
                await self._answer(exchange, 200, {})
                return
            await self._answer(exchange, 200, await self.tokens.give(form), [(b"pragma", b"no-cache")])
        except OAuthError as error:
            is_later = error.error == "temporarily_unavailable"
            status = 429 if is_later and not isinstance(error, LoginUnavailable) else status_of(error)
            headers = [(b"retry-after", b"%d" % DOOR_RETRY_SECONDS)] if is_later else []
            await self._answer(exchange, status, error_answer(error), headers)
        except StoreUnavailable:
            error = OAuthError("temporarily_unavailable", "the gateway can't look that up for now")
            await self._answer(exchange, 503, error_answer(error), [(b"retry-after", b"%d" % DOOR_RETRY_SECONDS)])

    async def _register(self, exchange: Exchange) -> dict[str, object]:
        body = await exchange.body(MAX_CLIENT_BYTES)
        given = GIVEN_ID + secrets.token_hex(16)
        client = read_registration(body, given)
        if self._settings.clients is not None and not self._settings.lets_in(given):
            raise OAuthError("access_denied", "only listed clients are let in here (oauth.clients)")
        if not self._budgets.registrations.take(exchange.peer):
            raise OAuthError("temporarily_unavailable", "too many clients register")
        now = self._clock()
        answer = registration_answer(client, now)
        await self._door.register(given, msgspec.json.encode(answer), ends=now + REGISTERED_SECONDS, now=now)
        return answer

    async def _answer(
        self, exchange: Exchange, status: int, members: Mapping[str, object], headers: RawHeaders | None = None
    ) -> None:
        await exchange.reply(status, to_json(members), [JSON, _NO_STORE, *(headers or [])])


async def _show(exchange: Exchange, page: Page | str, headers: RawHeaders | None = None) -> None:
    """Show a page, or send the browser on to a URL, which it then requests with GET (status 303)."""
    if isinstance(page, Page):
        await exchange.reply(page.status, page.html(), [*page.headers(), *(headers or [])])
        return
    location = [(b"location", page.encode("ascii")), _NO_STORE, (b"referrer-policy", b"no-referrer")]
    await exchange.reply(303, b"", [*location, *(headers or [])])
