"""Consent by people who log in at an identity provider. They pass on scopes to an app. The delegation to the app is
signed with the gateway's key (`[oauth.idp]`), to which a person has signed a delegation.

- [own-browser] The provider's `state` is sealed for the browser that began (`flows`). So a login can't be begun in one
  browser and finished in another.
- [once] Over all gateways of one store, each answer of the provider, and each form of the page, is accepted only once.
- [groups] A person may pass on the scopes of their groups that the app asks for and the delegation covers: never one of
  a sensitive tool, a wildcard, or the right to delegate. They tick which. Only scopes for reading are ticked
  beforehand.
- [passed-on] While the delegation to the gateway's key is revoked, or its root is not trusted, nobody is sent to log
  in, and nothing is signed.
- [signed] What is signed is for the client's new key, for the shown tools at this gateway's id, and ends with the first
  of `refresh_days` and the delegations above it.
- [changed] If the app's name, or the address of its answers, has changed since the last consent, the page says so.
- [read-again] Groups are read again at each refresh. If they no longer give what was passed on, or the provider says
  that the login is over, everything that was granted ends. If the provider does not answer, nothing is renewed.
"""

import asyncio
import hashlib
import secrets
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import msgspec
from msgspec.structs import replace

from accredit.consent.call import CallTerms
from accredit.consent.shown import in_quotes
from accredit.errors import ChallengesFull, IssueError, OAuthError, StoreUnavailable
from accredit.gateway.front.door.flows import BEGUN_SECONDS, SECRET_BYTES, Flow, Flows, SubmittedForm, key_of
from accredit.gateway.front.door.pages import Page, ended_page, tick_page
from accredit.gateway.front.door.requests import Endpoint, Wanted
from accredit.gateway.front.door.tokens import may_prove
from accredit.gateway.oauth_settings import IdpSettings, OAuthSettings
from accredit.limits import ASK_SECONDS
from accredit.oauth.answers import AUTHORIZE_PATH, LOGIN_PATH
from accredit.oauth.clients import Client, changes_of
from accredit.ports import Grant, Login, People, ProofStore, Revocations, Spending
from accredit.ratify import Grant as Draft
from accredit.ratify import issue_delegation
from accredit.ratify.hybrid import SEED_BYTES
from accredit.ratify.scopes import DELEGATE, intersect, is_sensitive

_T = TypeVar("_T")

MAX_LOGIN_STATE_CHARS = 6_000
"""The most characters of the `state` for the provider: it is in a URL, and commonly a server takes heads of 8 KiB."""
MAX_TICKS = 24
"""The most scopes that one page offers: people read no more, and a form has a bounded number of fields."""


class LoginConsent:
    """Has people log in. `store` remembers which answers and forms were already accepted ([once])."""

    def __init__(
        self,
        settings: OAuthSettings,
        idp: IdpSettings,
        people: People,
        flows: Flows,
        store: ProofStore,
        revocations: Revocations,
    ) -> None:
        self._settings = settings
        self._idp = idp
        self._people = people
        self._flows = flows
        self._store = store
        self._revocations = revocations
        self._redirect_uri = settings.public_url + LOGIN_PATH
        self._working = set[asyncio.Task[Any]]()
        self._reading = WeakValueDictionary[bytes, asyncio.Lock]()

    async def begin(self, wanted: Wanted, browser: str) -> str:
        """Return the provider's URL at which the person logs in. Raises `OAuthError` and `StoreUnavailable`."""
        if not await may_prove(self._idp.chain, wanted.policy, self._revocations):
            raise OAuthError("access_denied", "the delegation that the gateway passes on was taken back")
        secret = secrets.token_urlsafe(SECRET_BYTES)
        flow = Flow(wanted.request, self._flows.clock() + ASK_SECONDS, secret=secret)
        state = self._flows.seal(flow, browser, "state", most=MAX_LOGIN_STATE_CHARS)
        return await self._finish(self._people.login_url(self._redirect_uri, state, secret))

    async def go_on(self, going: SubmittedForm, wanted: Wanted, browser: str) -> Page | str:
        """Return the next page, or the URL of the client to go to. Raises `OAuthError` and `StoreUnavailable`."""
        flow = going.flow
        if not flow.subject:
            return await self._finish(self._log_in(going, wanted, browser))
        if going.do not in ("allow", "cancel"):
            return ended_page("This page can't go on", "The form is not whole. Begin again in your app.")
        ticked = tuple(each for each in flow.offered if going.form.get(f"scope {each}"))
        if going.do == "allow" and not ticked:
            return self._page(flow, wanted, browser, "Tick what the app may do, or cancel.")
        await self._take(flow, b"form")
        if going.do == "cancel":
            return self._flows.refusal(flow, "the person has cancelled")
        return await self._allow(flow, wanted, ticked)

    async def check_again(self, login: Login) -> None:
        """Read a person's groups again ([read-again]). Raises `OAuthError` and `StoreUnavailable`."""
        await self._finish(self._read_again(login))

    async def _finish(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Finish an exchange with the provider, even if nobody waits for it any more: what the provider gives can be
        used once only."""
        task = asyncio.create_task(work)
        self._working.add(task)
        task.add_done_callback(self._note_end)
        await asyncio.wait([task])
        return task.result()

    def _note_end(self, task: asyncio.Task[Any]) -> None:
        self._working.discard(task)
        if not task.cancelled():
            task.exception()  # maybe nobody waits for it

    async def _log_in(self, going: SubmittedForm, wanted: Wanted, browser: str) -> Page | str:
        """Take what the provider has sent back, and ask the person ([once] and [groups])."""
        flow, now = going.flow, self._flows.clock()
        await self._take(flow, b"login")
        person = await self._people.log_in(going.form, self._redirect_uri, flow.secret, now)
        offered = self._offered(person.groups, wanted)
        if not offered:
            why = f"Nothing of what this app asks for is given by your groups{_as(person.name)}."
            return ended_page("You can't let this app in", why, 403)
        begun = (flow.request.client_id, person.subject, flow.request.resource, self._flows.draw(2 * SEED_BYTES))
        grant = await self._flows.door.begin(*begun, ends=now + BEGUN_SECONDS, now=now)
        known = {"login": person.refresh_token, "provider": self._idp.issuer}
        kept = await self._flows.door.change(grant, lambda one: replace(one, **known), now=now)
        if kept is None:
            return ended_page("This has ended", "Another login came between. Begin again in your app.")
        asked = replace(
            flow, subject=person.subject, name=person.name, offered=offered, checked=now, ends=now + BEGUN_SECONDS
        )
        return self._page(asked, wanted, browser, *_changes(wanted.client, grant))

    def _page(self, flow: Flow, wanted: Wanted, browser: str, *notes: str) -> Page:
        endpoint = Endpoint(flow.request.resource, wanted.policy)
        ticks = [(each, endpoint.tools((each,)), each in endpoint.reading) for each in flow.offered]
        return tick_page(wanted, self._flows.seal(flow, browser), AUTHORIZE_PATH, ticks, flow.name, notes)

    async def _allow(self, flow: Flow, wanted: Wanted, ticked: tuple[str, ...]) -> Page | str:
        """Sign what the person has ticked ([signed])."""
        idp, now, policy = self._idp, self._flows.clock(), wanted.policy
        if not await may_prove(idp.chain, policy, self._revocations):
            return self._flows.refusal(flow, "the delegation that the gateway passes on was taken back")
        seeds = self._flows.draw(2 * SEED_BYTES)
        begun = (flow.request.client_id, flow.subject, flow.request.resource, seeds)
        known = await self._flows.door.begin(*begun, ends=now + BEGUN_SECONDS, now=now)
        if not known.login:
            await self._flows.door.end_grant(known)
            return self._flows.refusal(flow, "the login has ended")
        target = Endpoint(flow.request.resource, policy).tools(ticked)
        draft = Draft(
            subject=key_of(seeds).public_key,
            cert_id=secrets.token_hex(16),
            scope=ticked,
            issued_at=now,
            expires_at=min(now + self._settings.refresh_seconds, *(each.expires_at for each in idp.chain)),
            constraints=(CallTerms(gateway=policy.verifier_id, method="tools/call", target=target).constraint(),),
        )
        vocabulary = {*ticked, *(each for cert in idp.chain for each in cert.scope)}
        try:
            leaf = issue_delegation(idp.signer, draft, parents=idp.chain, vocabulary=vocabulary)
        except IssueError:
            return self._flows.refusal(flow, "oauth.idp.delegation does not let this be passed on")
        seen = msgspec.json.encode(wanted.client)

        def change(grant: Grant) -> Grant:
            return replace(grant, seen=seen, login=known.login, checked=flow.checked, provider=known.provider)

        return await self._flows.give_code(flow, flow.subject, seeds, (leaf, *idp.chain), change)

    async def _read_again(self, login: Login) -> None:
        lock = self._reading.setdefault(hashlib.sha256(login.grant.seeds).digest(), asyncio.Lock())
        async with lock:  # a provider may take a refresh token that is used twice for a stolen one
            await self._read_groups(login)

    async def _read_groups(self, login: Login) -> None:
        door, now = self._flows.door, self._flows.clock()
        grant = await door.change(login.grant, lambda one: one, now=now)
        over = OAuthError("invalid_grant", "the login has ended: its groups no longer give what was passed on")
        if grant is None:
            raise over
        if grant.provider != self._idp.issuer:  # which is not shown another one's token
            await door.end_grant(grant)
            raise over
        try:
            person = await self._people.read_again(grant.login, now)
        except OAuthError as error:
            if error.error != "invalid_grant":
                raise
            since = await door.change(grant, lambda one: one, now=now)
            if since is not None and since.checked > grant.checked:
                # Another gateway has read them meanwhile, perhaps for a login with fewer scopes than this one. A new
                # login alone has not.
                await self._read_groups(login)
                return
            await door.end_grant(grant)
            raise
        if person.subject != grant.subject or not {*login.scopes} <= self._given(person.groups):
            await door.end_grant(grant)
            raise over
        token = person.refresh_token or grant.login
        if await door.change(grant, lambda one: replace(one, login=token, checked=now), now=now) is None:
            raise over

    def _offered(self, groups: Iterable[str], wanted: Wanted) -> tuple[str, ...]:
        """Return the scopes that a person with these groups can pass on to an app ([groups])."""
        given = self._given(groups) & Endpoint(wanted.request.resource, wanted.policy).scopes
        return tuple(each for each in wanted.request.scopes if each in given)[:MAX_TICKS]

    def _given(self, groups: Iterable[str]) -> frozenset[str]:
        of_groups = {each for group in groups for each in self._idp.groups.get(group, ())}
        covered = intersect(each.scope for each in self._idp.chain)
        return frozenset(
            each
            for each in of_groups.intersection(covered)
            if not (each.endswith("*") or each == DELEGATE or is_sensitive(each))
        )

    async def _take(self, flow: Flow, what: bytes) -> None:
        """Note that a step of a login (`what`) was taken. Refuse it if it was taken before ([once]). Raises
        `OAuthError`."""
        name = hashlib.sha256(b"accredit login 1 %b %b" % (what, flow.secret.encode("ascii"))).digest()
        now = self._flows.clock()
        try:
            spent = await self._store.spend(name, name, issued=False, keep_until=flow.ends, now=now)
        except ChallengesFull:
            raise StoreUnavailable("no room to remember one more login") from None
        if spent is not Spending.FIRST:
            raise OAuthError("access_denied", "this was answered before: begin again in your app")


def _changes(client: Client, grant: Grant) -> tuple[str, ...]:
    """Return what has changed since the person's last consent to an app, in words ([changed])."""
    if not grant.seen:
        return ()
    known = msgspec.json.decode(grant.seen, type=Client)
    words = {
        "name": f"When you let it in last, it called itself “{in_quotes(known.name)}”.",
        "redirect": "Since you let it in last, it has named other addresses to which its answers may go.",
    }
    return tuple(words[each] for each in changes_of(client, known))


def _as(name: str) -> str:
    return f": you are logged in as “{in_quotes(name)}”" if name else ""
