"""Consent by a person at their desk: the page with the code, the six digits, and the code for the client.

The gateway can grant nothing here. A key is made for the client's agent, and an ask is held that names it. Whoever
types the page's code at their desk is asked, and may sign a delegation to that key. What is going on is sealed into the
page's form (`flows`).

- [asked-after-yes] A visit to a URL asks nobody: an ask begins with *Continue*.
- [digits] After the yes, the desk shows digits. The client gets its code only if these are typed into the page on which
  it all began. So somebody who makes a person type a code gets nothing, and a person who types a stranger's code loses
  nothing.
- [trusted] The person who answered is one of the endpoint's roots, or may be one according to a registry. Each call
  checks that again.
- [once] An answered ask is taken once. What was signed is used only for the key of this very form.
"""

from functools import partial

import msgspec
from msgspec.structs import replace

from accredit.consent.asks import AskedGateway, Asker
from accredit.consent.held import MAX_CLIENT_TOOLS, AskedTool, AskingClient, ClientAsk
from accredit.errors import AskError, AskGone, AsksFull, UnusableAnswer
from accredit.gateway.front.door.flows import Flow, Flows, SubmittedForm, key_of
from accredit.gateway.front.door.pages import Page, begin_page, code_page, ended_page
from accredit.gateway.front.door.requests import Wanted
from accredit.gateway.holding import HeldAsks
from accredit.gateway.oauth_settings import OAuthSettings
from accredit.limits import ASK_SECONDS, MAX_AGENT_NAME_LENGTH_BYTES
from accredit.oauth.answers import AUTHORIZE_PATH
from accredit.ports import Login
from accredit.ratify.hybrid import SEED_BYTES

_BUSY = "Too many connections are waiting for an answer. Try again in a few minutes."


class DeskConsent:
    """Gets people's consent by asks that they answer at their desks. `browser` is the random value of a browser's
    cookie."""

    def __init__(self, settings: OAuthSettings, holding: HeldAsks, flows: Flows) -> None:
        self._settings = settings
        self._holding = holding
        self._flows = flows

    async def begin(self, wanted: Wanted, browser: str) -> Page:
        """Return the first page for a request. Raises `OAuthError` if it is too long for a form."""
        flow = Flow(wanted.request, self._flows.clock() + ASK_SECONDS)
        return begin_page(wanted, self._flows.seal(flow, browser), AUTHORIZE_PATH)

    async def check_again(self, login: Login) -> None:
        """Do nothing: what a person signed is valid until it expires or is revoked."""

    async def go_on(self, going: SubmittedForm, wanted: Wanted, browser: str) -> Page | str:
        """Handle the button that was pressed. Return the next page, or the client's URL to redirect to. Raises
        `StoreUnavailable`."""
        if going.do == "cancel":
            return await self._refuse(going.flow, "the person has cancelled")
        if going.do == "begin" and not going.flow.ask:
            return await self._ask(going, wanted, browser)
        if going.do == "confirm" and going.flow.ask:
            return await self._confirm(going, wanted, browser)
        return ended_page("This page can't go on", "The form is not whole. Begin again in your app.")

    async def _ask(self, going: SubmittedForm, wanted: Wanted, browser: str) -> Page:
        """Make a key, and hold an ask for it ([asked-after-yes])."""
        seeds = self._flows.draw(2 * SEED_BYTES)
        try:
            ask = self._client_ask(wanted, seeds)
            held = await self._holding.hold(ask, going.peer)
        except AsksFull:
            return ended_page("Too many at once", _BUSY, 429)
        except (AskError, AskGone):
            return ended_page("This can't be asked", "The app asks for more than a person can be shown.")
        begun = replace(going.flow, ask=held.row.key, seeds=seeds, ends=ask.expires_at)
        return code_page(wanted, self._flows.seal(begun, browser), AUTHORIZE_PATH, held.ask.code)

    def _client_ask(self, wanted: Wanted, seeds: bytes) -> ClientAsk:
        request, client, now = wanted.request, wanted.client, self._flows.clock()
        name = client.name.encode()[:MAX_AGENT_NAME_LENGTH_BYTES].decode("utf-8", "ignore")
        return ClientAsk(
            accredit_client_ask=1,
            id=self._flows.draw(16).hex(),
            asked_at=now,
            expires_at=now + ASK_SECONDS,
            agent=Asker(name, key_of(seeds).public_key),
            gateway=AskedGateway(wanted.policy.verifier_id, self._settings.public_url),
            client=AskingClient(client.id, name, request.redirect_uri),
            endpoint=request.resource,
            tools=tuple(map(AskedTool, wanted.tools[:MAX_CLIENT_TOOLS])),
            scopes=request.scopes,
            until=now + self._settings.refresh_seconds,
        )

    async def _confirm(self, going: SubmittedForm, wanted: Wanted, browser: str) -> Page | str:
        """Compare the digits, and give the client its code ([digits] and [once])."""
        flow = going.flow
        held = await self._holding.find(flow.ask)
        if held is None:
            return ended_page("This has ended", "Nobody has answered in time. Begin again in your app.")
        sealed = self._flows.seal(flow, browser)
        if held.answer is None:
            note = "Nobody has answered at a desk yet. Your desk shows the digits after your yes."
            return code_page(wanted, sealed, AUTHORIZE_PATH, held.ask.code, note)
        if held.answer.decision != "allow":
            return await self._refuse(flow, "the person has said no")
        try:
            taken = await self._holding.confirm(flow.ask, going.form.get("digits"))
            if taken is None:
                note = "These are not the digits that the desk shows."
                return code_page(wanted, sealed, AUTHORIZE_PATH, held.ask.code, note)
            chain = taken.chain(self._flows.clock())
        except AskGone:
            return ended_page("This has ended", "The digits were wrong too often. Begin again in your app.")
        except UnusableAnswer:
            return await self._refuse(flow, "the desk's answer can't be used")
        if not wanted.policy.may_trust(chain[-1].issuer_pub_key):
            return await self._refuse(flow, "the gateway does not trust who has answered")
        seen = msgspec.json.encode(wanted.client)
        change = partial(replace, seen=seen)
        return await self._flows.give_code(flow, chain[-1].issuer_id, flow.seeds, chain, change)

    async def _refuse(self, flow: Flow, why: str) -> str:
        if flow.ask:
            await self._holding.store.take(flow.ask, now=self._flows.clock())
        return self._flows.refusal(flow, why)
