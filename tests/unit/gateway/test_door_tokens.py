"""What is asked, and given, for a refresh token: nothing for one that is not the newest, and nothing that would prove
nothing."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from tests.world.authorization import CATALOG, GATEWAY, Trust
from tests.world.decisions import Known
from tests.world.front_door import CHALLENGE, VERIFIER
from tests.world.guests import CHATGPT, CLAUDE, CONNECT, FrontDoor, Visit
from tests.world.stores import RING

from accredit.base.clock import unix_seconds
from accredit.errors import OAuthError
from accredit.gateway.front.door.flows import Flows
from accredit.gateway.front.door.requests import Endpoint
from accredit.gateway.front.door.tokens import TOKENS, Tokens
from accredit.gateway.oauth_settings import IdpSettings
from accredit.oauth.forms import Parameters
from accredit.policy.decision import Policy
from accredit.ports import AuthorizationCode, Login
from accredit.ratify import CertificateCache
from accredit.rounds.sealing import KeyRing
from accredit.stores.door.steps import Door


@pytest.fixture(scope="module")
def trust() -> Trust:
    return Trust()


class Asking:
    """A way of consent that counts how often it is asked whether a login may be renewed."""

    def __init__(self) -> None:
        self.asked = 0

    async def check_again(self, login: Login) -> None:
        self.asked += 1


class Gateway:
    """A front door with one client, to which the owner has consented. `roots` are the endpoint's."""

    def __init__(self, trust: Trust) -> None:
        self.front = FrontDoor(trust)
        self.roots = {trust.owner.public_key: "Owner"}
        self.consent, self.revocations = Asking(), Known()
        self.visit: Visit
        self.before: Tokens | None = None
        self.others: tuple[str, ...] = ()
        """Other endpoints of the gateway."""

    @property
    def flows(self) -> Flows:
        return Flows(self.front.settings, self.front.door, RING)

    async def give(self, **fields: str) -> Mapping[str, Any]:
        """The answer to a token request."""
        policy = Policy(
            verifier_id=GATEWAY,
            roots=self.roots,
            catalog=CATALOG,
            vocabulary=CATALOG.vocabulary(),
            cert_cache=CertificateCache(),
        )
        settings, url = self.front.settings, self.front.endpoint
        endpoints = {each: Endpoint(each, policy) for each in (url, *self.others)}
        self.before = Tokens(settings, endpoints, self.consent, self.flows, self.revocations, self.before)
        return await self.before.give(Parameters({"client_id": CLAUDE, "resource": url, **fields}))

    async def code(self) -> dict[str, str]:
        """What the client sends for its first tokens."""
        self.visit = await self.front.visit()
        now, code = unix_seconds(), self.flows.draw_tagged(b"code")
        given = AuthorizationCode(CLAUDE, CONNECT, CHALLENGE, self.front.endpoint, ("email:read",))
        digest = hashlib.sha256(code.encode()).digest()
        assert await self.front.door.approve(self.visit.grant, lambda one: one, digest, given, ends=now + 60, now=now)
        return {"grant_type": "authorization_code", "code": code, "code_verifier": VERIFIER}

    async def refresh(self, token: str) -> Mapping[str, Any]:
        """New tokens."""
        return await self.give(grant_type="refresh_token", refresh_token=token)

    async def is_over(self) -> bool:
        """Whether the grant was forgotten, with its key."""
        return await self.front.door.change(self.visit.grant, lambda one: one, now=unix_seconds()) is None


@pytest.mark.holds("gateway/front/door/tokens", "rotation")
async def test_nobody_is_asked_for_a_refresh_token_of_which_one_half_alone_is_right(trust: Trust) -> None:
    """Else whoever has half a token, or a used one, makes the gateway show the provider a person's own token."""
    gateway = Gateway(trust)
    first = (await gateway.give(**await gateway.code()))["refresh_token"]
    second = (await gateway.refresh(first))["refresh_token"]
    assert gateway.consent.asked == 1
    with pytest.raises(OAuthError, match="invalid_grant"):
        await gateway.refresh(second[:43] + "x" * 43)
    with pytest.raises(OAuthError, match="invalid_grant"):
        await gateway.refresh(second)
    assert gateway.consent.asked == 1


@pytest.mark.holds("gateway/front/door/tokens", "rotation")
async def test_nobody_is_asked_for_a_refresh_token_that_another_client_brings(trust: Trust) -> None:
    gateway = Gateway(trust)
    token = (await gateway.give(**await gateway.code()))["refresh_token"]
    with pytest.raises(OAuthError, match="invalid_grant"):
        await gateway.give(grant_type="refresh_token", refresh_token=token, client_id=CHATGPT)
    assert gateway.consent.asked == 0
    assert await gateway.refresh(token)


@pytest.mark.holds("gateway/front/door/tokens", "code", "rotation")
async def test_neither_a_code_nor_a_refresh_token_is_good_for_another_endpoint_of_the_gateway(trust: Trust) -> None:
    """What a person let an app do at one server would let it in at all others."""
    gateway = Gateway(trust)
    other = gateway.front.settings.endpoint("/other")
    gateway.others = (other,)
    code = await gateway.code()
    with pytest.raises(OAuthError, match="invalid_grant"):
        await gateway.give(**code, resource=other)
    token = (await gateway.give(**await gateway.code()))["refresh_token"]
    with pytest.raises(OAuthError, match="invalid_grant"):
        await gateway.give(grant_type="refresh_token", refresh_token=token, resource=other)
    assert gateway.consent.asked == 0
    assert await gateway.refresh(token)


@pytest.mark.holds("gateway/front/door/tokens", "rotation")
async def test_a_client_that_is_struck_from_the_list_renews_nothing__and_goes_on_once_it_is_back(trust: Trust) -> None:
    gateway = Gateway(trust)
    token = (await gateway.give(**await gateway.code()))["refresh_token"]
    settings = gateway.front.settings
    gateway.front.settings = replace(settings, clients=(CHATGPT,))
    with pytest.raises(OAuthError, match="no longer let in"):
        await gateway.refresh(token)
    assert gateway.consent.asked == 0
    gateway.front.settings = settings
    assert await gateway.refresh(token)


class Unasked:
    """A store that nobody may ask."""

    async def write(self, make: Any, *, alike: bool = False) -> Any:
        raise AssertionError("the store was asked")

    read = write

    async def aclose(self) -> None: ...


@pytest.mark.holds("gateway/front/door/flows", "known-again")
@pytest.mark.holds("gateway/front/door/tokens", "rate")
async def test_what_somebody_has_invented_asks_no_store__and_keeps_nobody_from_refreshing(trust: Trust) -> None:
    """Behind a proxy all have one address, so a share of each address would be everybody's."""
    gateway = Gateway(trust)
    token = (await gateway.give(**await gateway.code()))["refresh_token"]
    real, gateway.front.door = gateway.front.door, Door(RING, Unasked())
    others = (Flows(gateway.front.settings, real, KeyRing([b"o" * 32])), gateway.flows)
    drawn = (others[0].draw_tagged(b"login"), others[1].draw_tagged(b"code"), "x" * 43, f"{token[:42]}~", token[:42])
    for number in range(2 * TOKENS):
        with pytest.raises(OAuthError, match="invalid_grant"):
            await gateway.refresh(f"{drawn[number % len(drawn)]}{'x' * 43}")
    gateway.front.door = real
    assert await gateway.refresh(token)


@pytest.mark.holds("gateway/front/door/tokens", "rate")
async def test_who_has_one_old_token_takes_no_more_than_its_share__from_how_many_addresses_they_come(
    trust: Trust,
) -> None:
    gateway, other = Gateway(trust), Gateway(trust)
    old = (await gateway.give(**await gateway.code()))["refresh_token"]
    errors: list[str] = []
    for _ in range(2 * TOKENS):
        try:
            await gateway.refresh(f"{old[:43]}{'x' * 43}")
        except OAuthError as error:
            errors.append(error.error)
    assert {*errors} == {"invalid_grant", "temporarily_unavailable"}
    other.before = gateway.before
    assert await other.give(**await other.code())


def _revoke(gateway: Gateway) -> None:
    gateway.revocations.revoked.update(each["cert_id"] for each in json.loads(gateway.visit.grant.chain))


def _trust_nobody(gateway: Gateway) -> None:
    gateway.roots.clear()


def _log_in_elsewhere(gateway: Gateway) -> None:
    idp = IdpSettings("https://idp.example", "accredit", "s", gateway.front.trust.agent.signer(), (), {})
    gateway.front.settings = replace(gateway.front.settings, consent="idp", idp=idp)


@pytest.mark.holds("gateway/front/door/tokens", "proves")
@pytest.mark.parametrize("change", [_revoke, _trust_nobody, _log_in_elsewhere])
async def test_no_token_is_given_that_proves_nothing(trust: Trust, change: Callable[[Gateway], None]) -> None:
    """A client that gets tokens, and is refused with each, never asks its person to consent again."""
    for is_first in (True, False):
        gateway = Gateway(trust)
        fields = await gateway.code()
        if not is_first:
            token = (await gateway.give(**fields))["refresh_token"]
            fields = {"grant_type": "refresh_token", "refresh_token": token}
        change(gateway)
        with pytest.raises(OAuthError, match="invalid_grant"):
            await gateway.give(**fields)
        assert await gateway.is_over()
        assert gateway.consent.asked == 0
