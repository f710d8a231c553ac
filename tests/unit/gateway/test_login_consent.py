"""Groups that are read again by several at once. A provider takes a refresh token that comes twice for a stolen one."""

import asyncio
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.world.decisions import Known
from tests.world.issuer import IssuerKey
from tests.world.raw_server import PATIENCE

from accredit.base.clock import unix_seconds
from accredit.errors import OAuthError
from accredit.gateway.front.door.flows import Flows
from accredit.gateway.front.door.login import LoginConsent
from accredit.gateway.oauth_settings import IdpSettings, OAuthSettings
from accredit.keys import make_key
from accredit.oauth.forms import Parameters
from accredit.oauth.openid import Person
from accredit.ports import AuthorizationCode, Grant, Login
from accredit.ratify import Grant as Draft
from accredit.ratify import issue_delegation
from accredit.ratify.hybrid import SEED_BYTES
from accredit.ratify.scopes import DELEGATE
from accredit.rounds.sealing import KeyRing
from accredit.stores import parse_store_url

pytestmark = pytest.mark.holds("gateway/front/door/login", "read-again")

RING = KeyRing([b"k" * 32])
CLIENT, RESOURCE = "accredit-client:" + "0a" * 16, "https://mcp.example.com/mcp"


class Rotating:
    """A provider that replaces its refresh token at each use. It answers when `may_answer` is set, and refuses when
    `may_refuse` is."""

    def __init__(self) -> None:
        self.newest = "token 0"
        self.came: list[str] = []
        self.is_asked = asyncio.Event()
        self.may_answer, self.may_refuse = asyncio.Event(), asyncio.Event()

    async def login_url(self, redirect_uri: str, state: str, secret: str) -> str:
        return redirect_uri

    async def log_in(self, answer: Parameters, redirect_uri: str, secret: str, now: int) -> Person:
        return Person("ada", "Ada", frozenset({"mail-users"}), self.newest)

    async def read_again(self, refresh_token: str, now: int) -> Person:
        self.came.append(refresh_token)
        is_good = refresh_token == self.newest
        if is_good:
            self.newest = f"token {len(self.came)}"
        given = self.newest
        self.is_asked.set()
        await (self.may_answer if is_good else self.may_refuse).wait()
        if not is_good:
            raise OAuthError("invalid_grant", "the identity provider says that this login is over")
        return Person("ada", "Ada", frozenset({"mail-users"}), given)


class Gateway:
    """One of the gateways of a store."""

    def __init__(self, folder: Path, people: Rotating) -> None:
        url = parse_store_url("sqlite:///gateway.db", folder)
        self.door, self.store = url.open_door(RING), url.open()
        owner, front = make_key("human", "Owner", 0), make_key("agent", "Front", 0)
        scopes, now = ("email:read", DELEGATE), unix_seconds()
        draft = Draft(
            subject=front.public_key, cert_id="0a" * 16, scope=scopes, issued_at=now - 5, expires_at=now + 900
        )
        chain = (issue_delegation(owner.signer(), draft, vocabulary=scopes),)
        idp = IdpSettings("https://idp.example", "c", "s", front.signer(), chain, {"mail-users": ("email:read",)})
        settings = OAuthSettings("https://mcp.example.com", "mail", IssuerKey(None).private, consent="idp", idp=idp)
        self.consent = LoginConsent(settings, idp, people, Flows(settings, self.door, RING), self.store, Known())

    async def log_in(self, *scopes: str, name: bytes = b"l") -> Login:
        """A login that has begun, with the provider's first token."""
        now = unix_seconds()
        grant = await self.door.begin(
            CLIENT, "ada", RESOURCE, secrets.token_bytes(2 * SEED_BYTES), ends=now + 900, now=now
        )
        known = {"login": "token 0", "checked": now - 9, "provider": "https://idp.example", "chain": b"[]"}
        code = AuthorizationCode(CLIENT, "http://127.0.0.1:1/", "c", RESOURCE, scopes or ("email:read",))
        kept = await self.door.approve(
            grant, lambda one: replace(one, **known), name * 32, code, ends=now + 60, now=now
        )
        login = await self.door.redeem(name * 32, lambda _: True, login=name * 32, token=name * 32, now=now)
        assert kept
        assert isinstance(login, Login)
        return login

    async def grant(self, login: Login) -> Grant | None:
        """The grant as it is now."""
        return await self.door.change(login.grant, lambda one: one, now=unix_seconds())


@asynccontextmanager
async def gateways(folder: Path) -> AsyncGenerator[tuple[Rotating, Gateway, Gateway]]:
    people = Rotating()
    both = [Gateway(folder, people) for _ in range(2)]
    try:
        async with asyncio.timeout(PATIENCE):
            yield people, both[0], both[1]
    finally:
        for each in both:
            await each.door.aclose()
            await each.store.aclose()


async def test_in_one_gateway_each_reads_with_the_token_that_the_one_before_was_given(tmp_path: Path) -> None:
    async with gateways(tmp_path) as (people, one, _):
        login = await one.log_in()
        people.may_answer.set()
        people.may_refuse.set()
        await asyncio.gather(*(one.consent.check_again(login) for _ in range(5)))
        assert people.came == [f"token {number}" for number in range(5)]
        grant = await one.grant(login)
        assert grant is not None
        assert grant.login == people.newest


async def test_a_host_that_gives_up_and_asks_again_is_not_taken_for_a_thief(tmp_path: Path) -> None:
    """The first request ends while the provider is asked: the answer is kept all the same, and used by the next."""
    async with gateways(tmp_path) as (people, one, _):
        login = await one.log_in()
        first = asyncio.create_task(one.consent.check_again(login))
        await people.is_asked.wait()
        first.cancel()
        again = asyncio.create_task(one.consent.check_again(login))
        people.may_answer.set()
        people.may_refuse.set()
        await again
        assert first.cancelled()
        assert people.came == ["token 0", "token 1"]
        grant = await one.grant(login)
        assert grant is not None
        assert grant.login == people.newest


@pytest.mark.parametrize("is_kept_first", [True, False])
async def test_over_two_gateways_the_provider_s_newest_token_is_kept__or_the_login_ends(
    tmp_path: Path, is_kept_first: bool
) -> None:
    """Both have sent the same token, and one is refused. If the other's answer is kept by then, it counts for both;
    else everything ends, as after a theft."""
    async with gateways(tmp_path) as (people, one, other):
        login = await one.log_in()
        first = asyncio.create_task(one.consent.check_again(login))
        await people.is_asked.wait()
        people.is_asked.clear()
        second = asyncio.create_task(other.consent.check_again(login))
        await people.is_asked.wait()
        assert people.came == ["token 0", "token 0"]
        if is_kept_first:
            people.may_answer.set()
            await first
            people.may_refuse.set()
            await second
            grant = await other.grant(login)
            assert grant is not None
            assert grant.login == people.newest
        else:
            for gate, task in ((people.may_refuse, second), (people.may_answer, first)):
                gate.set()
                with pytest.raises(OAuthError) as caught:
                    await task
                assert caught.value.error == "invalid_grant"
            assert await other.grant(login) is None


async def test_who_has_left_a_group_keeps_no_login_of_it_by_a_smaller_one_that_another_gateway_renews(
    tmp_path: Path,
) -> None:
    """An app has two logins of a person, one with more scopes, and renews both at once, at two gateways. The provider
    takes the refresh token once, for the smaller login. The other one must not pass by that: nobody has seen that the
    person's groups still give its scopes."""
    async with gateways(tmp_path) as (people, one, other):
        larger, smaller = await one.log_in("email:read", "email:send"), await one.log_in("email:read", name=b"m")
        first = asyncio.create_task(one.consent.check_again(smaller))
        await people.is_asked.wait()
        people.is_asked.clear()
        second = asyncio.create_task(other.consent.check_again(larger))
        await people.is_asked.wait()
        people.may_answer.set()
        await first
        people.may_refuse.set()
        with pytest.raises(OAuthError, match="its groups no longer give"):
            await second
        assert people.came == ["token 0", "token 0", "token 1"]
        assert await other.grant(larger) is None
