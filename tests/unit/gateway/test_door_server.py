"""What strangers, and people who have logged in, may ask of the front door: at a bounded rate, and at nobody else's
expense."""

from typing import Any

import pytest
from tests.world.asgi import Told
from tests.world.authorization import CATALOG, GATEWAY, Trust
from tests.world.decisions import Known
from tests.world.front_door import CHALLENGE
from tests.world.guests import FrontDoor as World
from tests.world.oauth_client import CALLBACK
from tests.world.stores import RING

from accredit.base.clock import unix_seconds
from accredit.errors import OAuthError
from accredit.gateway.front.door.desk import DeskConsent
from accredit.gateway.front.door.flows import SECRET_CHARS, Flow, Flows
from accredit.gateway.front.door.requests import Endpoint
from accredit.gateway.front.door.server import AUTHORIZATIONS, FORMS, FrontDoor
from accredit.gateway.front.door.tokens import Tokens
from accredit.gateway.holding import HeldAsks
from accredit.oauth.clients import Client
from accredit.oauth.requests import Authorization
from accredit.policy.decision import Policy
from accredit.ratify import CertificateCache
from accredit.stores.asks import Asks
from accredit.stores.door.steps import Door

pytestmark = pytest.mark.holds("gateway/front/door/server", "rate")

GIVEN = "accredit-client:" + "0a" * 16
BROWSER = "b" * SECRET_CHARS


class CountedDoor(Door):
    """A store that counts how often a client is looked up."""

    looked_up = 0

    def registered(self, client_id: str, *, now: int) -> Any:
        self.looked_up += 1
        return super().registered(client_id, now=now)


class NoDocuments:
    """A network without clients' documents."""

    async def client(self, url: str, peer: str) -> Client:
        raise OAuthError("invalid_client", "there is none")

    async def aclose(self) -> None: ...


class Gateway:
    """A front door at a desk, whose requests come from the addresses that a test names."""

    def __init__(self) -> None:
        self.store = CountedDoor(RING)
        world = World(Trust(), self.store, registration=True)
        self.flows = Flows(world.settings, self.store, RING)
        policy = Policy(
            verifier_id=GATEWAY,
            roots={world.trust.owner.public_key: "Owner"},
            catalog=CATALOG,
            vocabulary=CATALOG.vocabulary(),
            cert_cache=CertificateCache(),
        )
        self.endpoint = world.endpoint
        endpoints = {world.endpoint: Endpoint(world.endpoint, policy)}
        holding = HeldAsks(Asks(), RING)
        consent = DeskConsent(world.settings, holding, self.flows)
        tokens = Tokens(world.settings, endpoints, consent, self.flows, Known())
        self.door = FrontDoor(world.settings, endpoints, consent, self.flows, tokens, NoDocuments(), holding)

    async def told(self, told: Told, peer: str) -> int:
        """The status that a peer gets at `/oauth/authorize`."""
        told.exchange.peer = peer
        await self.door.serve(told.exchange, "/oauth/authorize")
        assert (told.status == 429) is (b"Too many at once" in told.body)
        return told.status

    async def visit(self, peer: str) -> int:
        """The status of a request for authorization by a client that nobody knows."""
        return await self.told(Told("GET", query=f"client_id={GIVEN}&redirect_uri={CALLBACK}".encode()), peer)

    async def press(self, peer: str, subject: str = "") -> int:
        """The status of a form that goes nowhere, by somebody who has logged in, or has not."""
        request = Authorization(
            client_id=GIVEN,
            redirect_uri=CALLBACK,
            state="s",
            challenge=CHALLENGE,
            resource=self.endpoint,
            scopes=("email:read",),
        )
        flow = Flow(request, unix_seconds() + 60, subject=subject)
        body = f"flow={self.flows.seal(flow, BROWSER)}&do=nothing".encode()
        cookie = f"accredit-consent={BROWSER}".encode()
        headers = ((b"content-type", b"application/x-www-form-urlencoded"), (b"cookie", cookie))
        return await self.told(Told("POST", headers, body), peer)


async def test_a_stranger_has_the_store_read_at_a_bounded_rate__and_keeps_nobody_else_from_beginning() -> None:
    gateway = Gateway()
    found = [await gateway.visit("stranger") for _ in range(2 * AUTHORIZATIONS)]
    assert {*found} == {400, 429}
    assert gateway.store.looked_up == found.count(400)
    assert await gateway.visit("somebody") == 400


async def test_who_has_logged_in_has_forms_of_their_own__at_whatever_addresses__and_takes_no_one_else_s() -> None:
    """In an office, or behind a proxy, many people have one address; and one person may have many addresses."""
    gateway = Gateway()
    found = [await gateway.press(f"address {number}", "alice") for number in range(2 * FORMS)]
    assert {*found} == {400, 429}
    assert gateway.store.looked_up == found.count(400)
    assert await gateway.press("address 1", "bob") == 400
    assert await gateway.press("address 1") == 400
