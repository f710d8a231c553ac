"""People log in at a real identity provider, tick what an app may do, and the app's calls go through with proofs under
the delegation that a person signed for the gateway. What they have no group for, or lose, goes through no more."""

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Generator
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit, urlunsplit

import httpx2
import pytest
from msgspec.structs import replace
from tests.world.authorization import Trust
from tests.world.command import accredit
from tests.world.decisions import Known
from tests.world.front_door import Browser, json_of
from tests.world.guests import CLAUDE
from tests.world.guests import FrontDoor as Front
from tests.world.oauth_client import CALLBACK
from tests.world.oauth_host import Host, host
from tests.world.openid_provider import LoginDoor, Provider, running_provider
from tests.world.ports import reserved_port
from tests.world.raw_server import PATIENCE, Connection, RawServer
from tests.world.stores import RING

from accredit.base.clock import unix_seconds
from accredit.errors import OAuthError
from accredit.gateway.front.door.flows import Flows
from accredit.gateway.front.door.login import LoginConsent
from accredit.gateway.oauth_settings import IdpSettings
from accredit.oauth.forms import Parameters
from accredit.oauth.openid import Person
from accredit.stores import MemoryStore

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[LoginDoor, Provider]]:
    with reserved_port() as port, reserved_port() as other:
        door = LoginDoor(tmp_path_factory.mktemp("door"), port, f"http://127.0.0.1:{other}")
        with running_provider(other, door) as provider, door.serving():
            yield door, provider


@pytest.fixture
def door(doors: tuple[LoginDoor, Provider]) -> LoginDoor:
    return doors[0]


@pytest.fixture
def provider(doors: tuple[LoginDoor, Provider]) -> Provider:
    doors[1].tell("ada", ada=["mail-users", "searchers"])
    return doors[1]


async def tokens_of(door: LoginDoor, one: Host, *ticks: str, scope: str = "email:read") -> dict[str, str]:
    browser = await one.browser()
    await door.follow(browser, one.ask(scope=scope))
    await browser.press("allow", door.url, **{f"scope {each}": "yes" for each in ticks or ("email:read",)})
    return json_of(await one.redeem(browser.told["code"]))


@pytest.mark.holds("gateway/front/door/login", "groups", "signed")
async def test_a_person_logs_in__ticks__and_the_app_calls_that_and_no_more(door: LoginDoor, provider: Provider) -> None:
    async with host(door) as one:
        browser = await one.browser()
        await door.follow(browser, one.ask(scope="email:read email:search email:send mcp:tool"))
        assert "logged in as “<bdi>Ada</bdi>”" in browser.page
        assert all(each in browser.page for each in ("list_inbox", "search", "Host", "127.0.0.1"))
        assert "send_email" not in browser.page
        await browser.press("allow", door.url)
        assert "Tick what" in browser.page
        await browser.press("allow", door.url, **{"scope email:read": "yes", "scope email:send": "yes"})
        assert (browser.told["iss"], browser.told["state"]) == (door.url, "s")
        tokens = json_of(await one.redeem(browser.told["code"]))
        assert tokens["scope"] == "email:read"
        answer = await one.call(tokens["access_token"])
        assert not json_of(answer)["result"].get("isError")
        for tool, scope in (("search", "email:search"), ("send_email", "email:send")):
            refused = await one.call(tokens["access_token"], tool)
            assert refused.status_code == 403
            said = refused.headers["www-authenticate"]
            assert 'error="insufficient_scope"' in said
            assert scope in said


@pytest.mark.holds("gateway/front/door/login", "read-again")
async def test_a_lost_group_ends_the_login_at_the_next_refresh__with_its_access_tokens(
    door: LoginDoor, provider: Provider
) -> None:
    async with host(door) as one:
        tokens = await tokens_of(door, one)
        provider.tell(ada=["mail-users"])  # what was not passed on is not missed
        tokens = json_of(await one.refresh(tokens["refresh_token"]))
        assert (await one.call(tokens["access_token"])).status_code == 200
        provider.tell(ada=["searchers"])
        assert json_of(await one.refresh(tokens["refresh_token"]))["error"] == "invalid_grant"
        assert (await one.call(tokens["access_token"])).status_code == 401
        provider.tell(ada=["mail-users"])
        assert json_of(await one.refresh(tokens["refresh_token"]))["error"] == "invalid_grant"


@pytest.mark.holds("gateway/front/door/login", "read-again")
async def test_a_person_who_has_left_has_no_login_any_more(door: LoginDoor, provider: Provider) -> None:
    async with host(door) as one:
        provider.tell("bob", bob=["mail-users"])
        tokens = await tokens_of(door, one)
        provider.tell("ada", bob=None)
        assert json_of(await one.refresh(tokens["refresh_token"]))["error"] == "invalid_grant"
        assert (await one.call(tokens["access_token"])).status_code == 401


@pytest.mark.holds("gateway/front/door/login", "groups")
async def test_who_is_in_no_group_lets_nothing_in(door: LoginDoor, provider: Provider) -> None:
    async with host(door) as one:
        browser = await one.browser()
        provider.tell(ada=["senders", "strangers"])
        await door.follow(browser, one.ask(scope="email:read email:send"))
        assert browser.status == 403
        assert not browser.location


@pytest.mark.holds("gateway/front/door/server", "no-redirector")
async def test_who_does_not_log_in_is_sent_nowhere__and_who_cancels_is(door: LoginDoor, provider: Provider) -> None:
    async with host(door) as one:
        browser = await one.browser()
        provider.tell("")
        await door.follow(browser, one.ask())
        assert browser.status == 400
        assert not browser.location
        provider.tell("ada")
        other = await one.browser()
        await door.follow(other, one.ask())
        await other.press("cancel", door.url)
        assert (other.told["error"], other.told["iss"]) == ("access_denied", door.url)


async def _returned(door: LoginDoor, browser: Browser, url: str) -> str:
    """The URL to which the provider sends a browser back."""
    await door.follow(browser, url, door.callback)
    assert browser.location.startswith(door.callback)
    return browser.location


def _with(url: str, **changes: str) -> str:
    parts = urlsplit(url)
    values = {name: each[0] for name, each in parse_qs(parts.query).items()}
    return urlunsplit(parts._replace(query=urlencode({**values, **changes})))


@pytest.mark.holds("gateway/front/door/login", "own-browser", "once")
@pytest.mark.holds("gateway/front/door/flows", "own-browser")
async def test_a_callback_is_good_in_the_browser_that_began__and_once(door: LoginDoor, provider: Provider) -> None:
    async with host(door) as one:
        mine, theirs = await one.browser(), await one.browser()
        callback = await _returned(door, mine, one.ask())
        await door.follow(theirs, one.ask())  # with a cookie of its own, and logged in
        await theirs.get(callback)
        assert theirs.status == 400
        assert "another browser" in theirs.page
        await mine.get(callback)
        page = mine.page
        assert "Allow" in page
        await mine.get(callback)
        assert "answered before" in mine.page
        for _ in range(2):
            theirs.page = page
            await theirs.press("allow", door.url, **{"scope email:read": "yes"})
            assert not theirs.location
        mine.page = page
        await mine.press("allow", door.url, **{"scope email:read": "yes"})
        assert mine.told["code"]
        mine.page = page
        await mine.press("allow", door.url, **{"scope email:read": "yes"})
        assert not mine.location


@pytest.mark.holds("oauth/openid", "one-secret", "issuer-named")
async def test_two_logins_of_one_browser_can_not_be_mixed(door: LoginDoor, provider: Provider) -> None:
    async with host(door) as one:
        browser = await one.browser()
        first = await _returned(door, browser, one.ask(state="first"))
        second = await _returned(door, browser, one.ask(state="second", scope="email:search"))
        code = parse_qs(urlsplit(second).query)["code"][0]
        await browser.get(_with(first, code=code))
        assert browser.status == 400
        assert "Allow" not in browser.page
        third = await _returned(door, browser, one.ask())
        await browser.get(_with(third, iss="https://elsewhere.example"))
        assert "another identity provider" in browser.page
        form = await _returned(door, browser, one.ask())
        state = parse_qs(urlsplit(form).query)["state"][0]
        await browser.get(f"{door.callback}?{urlencode({'state': state})}")
        assert browser.status == 400
        assert "Allow" not in browser.page


@pytest.mark.holds("gateway/front/door/flows", "new-key")
async def test_who_consents_again_ends_what_was_granted_before(door: LoginDoor, provider: Provider) -> None:
    async with host(door) as one:
        before = await tokens_of(door, one)
        after = await tokens_of(door, one, "email:search", scope="email:search email:read")
        assert after["scope"] == "email:search"
        assert (await one.call(before["access_token"])).status_code == 401
        assert (await one.call(after["access_token"], "search", query="x")).status_code == 200


async def test_an_ended_login_is_over_at_once(door: LoginDoor, provider: Provider) -> None:
    async with host(door) as one:
        tokens = await tokens_of(door, one)
        assert (await one.post("revoke", token=tokens["refresh_token"])).status_code == 200
        assert (await one.call(tokens["access_token"])).status_code == 401
        assert json_of(await one.refresh(tokens["refresh_token"]))["error"] == "invalid_grant"


@pytest.mark.holds("gateway/front/door/login", "read-again")
@pytest.mark.holds("net/identity_provider", "away")
async def test_while_the_provider_is_away_nothing_is_renewed__and_nothing_is_lost(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with reserved_port() as port, reserved_port() as other:
        door = LoginDoor(tmp_path_factory.mktemp("door"), port, f"http://127.0.0.1:{other}")
        with door.serving():
            async with host(door) as one:
                with running_provider(other, door):
                    tokens = await tokens_of(door, one)
                away = await one.refresh(tokens["refresh_token"])
                assert (away.status_code, json_of(away)["error"]) == (503, "temporarily_unavailable")
                assert (await one.call(tokens["access_token"])).status_code == 200
                browser = await one.browser()
                await browser.get(f"{door.callback}?state=s&code=c")
                assert browser.status == 400


@pytest.mark.holds("gateway/front/door/login", "passed-on")
async def test_what_a_person_has_taken_back_from_the_gateway_ends_with_all_that_was_passed_on_under_it(
    tmp_path: Path,
) -> None:
    """In mid-session: the app's token proves nothing, it gets no other one, and nobody is sent to log in for one."""

    with reserved_port() as port, reserved_port() as other:
        door = LoginDoor(tmp_path, port, f"http://127.0.0.1:{other}")
        with running_provider(other, door), door.serving():
            async with host(door) as one:
                tokens = await tokens_of(door, one)
                assert "result" in json_of(await one.call(tokens["access_token"]))
                words = ("--issuer", "owner.key", "--store", "sqlite:///gateway.db")
                done = await asyncio.to_thread(accredit, "revoke", door.passed_on, *words, folder=door.folder)
                assert done.returncode == 0, done.stderr
                async with asyncio.timeout(PATIENCE):
                    while "result" in json_of(await one.call(tokens["access_token"])):
                        await asyncio.sleep(0.05)
                renewed = await one.refresh(tokens["refresh_token"])
                assert (renewed.status_code, json_of(renewed)["error"]) == (400, "invalid_grant")
                assert (await one.call(tokens["access_token"])).status_code == 401
                browser = await one.browser()
                await browser.get(one.ask())
                assert (browser.status, browser.location) == (400, "")
                assert "was taken back" in browser.page


@pytest.mark.holds("ops/doctor/logins")
def test_the_doctor_asks_the_provider__and_says_what_to_register_there(doors: tuple[LoginDoor, Provider]) -> None:
    door, provider = doors
    done = accredit("doctor", "--config", "accredit.toml", "--json", folder=door.folder)
    found = [each for each in json.loads(done.stdout)["findings"] if each["subject"] == "login"]
    assert {each["level"] for each in found} <= {"good", "note"}, found
    assert any(f"{door.callback} as a redirect URI" in each["what"] for each in found)
    assert any(each["what"].startswith(f"{provider.url} is the issuer") for each in found)
    assert door.secret not in done.stdout


def test_the_doctor_says_that_a_provider_does_not_answer(tmp_path: Path) -> None:
    with reserved_port() as port, reserved_port() as other:
        door = LoginDoor(tmp_path, port, f"http://127.0.0.1:{other}")
        done = accredit("doctor", "--config", "accredit.toml", "--json", folder=door.folder)
    found = [each for each in json.loads(done.stdout)["findings"] if each["subject"] == "login"]
    assert [each["what"] for each in found if each["level"] == "bad" and "nobody can log in" in each["what"]]


@pytest.mark.holds("gateway/front/desk_asks", "revoke")
async def test_who_has_signed_for_the_gateway_ends_what_was_passed_on__with_their_key(tmp_path: Path) -> None:
    with reserved_port() as port, reserved_port() as other:
        door = LoginDoor(tmp_path, port, f"http://127.0.0.1:{other}")
        with running_provider(other, door), door.serving():
            async with host(door) as one:
                tokens = await tokens_of(door, one)
                assert (await one.call(tokens["access_token"])).status_code == 200
                words = ("revoke", door.passed_on, "--issuer", "owner.key", "--at", door.url)
                done = await asyncio.to_thread(accredit, *words, folder=door.folder)
                assert done.returncode == 0, done.stderr
                assert "has ended" in done.stdout
                assert (await one.call(tokens["access_token"])).status_code == 401
                assert json_of(await one.refresh(tokens["refresh_token"]))["error"] == "invalid_grant"
                done = await asyncio.to_thread(accredit, *words, folder=door.folder)
                assert done.returncode == 1


@pytest.mark.holds("gateway/front/door/login", "changed")
async def test_an_app_that_calls_itself_otherwise_than_at_the_last_consent_is_shown_as_such(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    about: dict[str, object] = {"client_name": "Host", "redirect_uris": [CALLBACK]}

    async def publish(connection: Connection) -> None:
        while await connection.request() is not None:
            body = json.dumps(about).encode()
            await connection.send(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode(), body)

    async def consent(door: LoginDoor, id: str) -> str:
        async with httpx2.AsyncClient(trust_env=False) as http:
            one = Host(door, http, id)
            async with one.open:
                browser = await one.browser()
                await door.follow(browser, one.ask())
                page = browser.page
                await browser.press("allow", door.url, **{"scope email:read": "yes"})
                assert browser.told["code"]
                return page

    with reserved_port() as port, reserved_port() as other:
        door = LoginDoor(tmp_path_factory.mktemp("door"), port, f"http://127.0.0.1:{other}")
        with running_provider(other, door):
            async with RawServer(publish) as publisher:
                about["client_id"] = id = publisher.url.rpartition("/")[0] + "/client.json"
                for name in ("Host", "Host", "Other"):  # the gateway starts anew: a document is remembered for a while
                    about["client_name"] = name
                    with door.serving():
                        page = await consent(door, id)
                        assert ("it called itself “Host”" in page) == (name == "Other")


class _Provider:
    """A provider whom the gateway asks `again` about a login that it has."""

    def __init__(self, again: Callable[[], Awaitable[Person]]) -> None:
        self._again = again

    async def login_url(self, redirect_uri: str, state: str, secret: str) -> str:
        raise NotImplementedError

    async def log_in(self, answer: Parameters, redirect_uri: str, secret: str, now: int) -> Person:
        raise NotImplementedError

    async def read_again(self, refresh_token: str, now: int) -> Person:
        return await self._again()


async def check_again(
    front: Front, name: str, idp: IdpSettings, again: Callable[[], Awaitable[Person]], now: int
) -> None:
    """Has the gateway look again after the login of this name."""
    flows = Flows(front.settings, front.door, RING)
    consent = LoginConsent(front.settings, idp, _Provider(again), flows, MemoryStore(), Known())
    login = await front.door.login(bytes.fromhex(name), now=now)
    assert login is not None
    await consent.check_again(login)


@pytest.mark.holds("gateway/front/door/login", "read-again")
async def test_a_new_login_renews_no_earlier_one(trust: Trust) -> None:
    """A person who has lost a group, and whose login is over, logs in anew just as their app refreshes."""
    front, now = Front(trust), unix_seconds()
    visit = await front.visit()
    idp = IdpSettings("https://idp.example", "accredit", "s3cret", trust.agent.signer(), (), {})
    known = {"login": "old", "checked": now - 9, "provider": idp.issuer}
    grant = await front.door.change(visit.grant, lambda one: replace(one, **known), now=now)
    assert grant is not None

    async def meanwhile() -> Person:
        await front.door.change(grant, lambda one: replace(one, login="new"), now=now)
        raise OAuthError("invalid_grant", "the identity provider says that this login is over")

    with pytest.raises(OAuthError, match="invalid_grant"):
        await check_again(front, visit.name, idp, meanwhile, now)
    assert await front.door.login(bytes.fromhex(visit.name), now=now) is None


@pytest.mark.holds("gateway/front/door/login", "read-again")
async def test_another_provider_than_that_of_a_login_ends_it__and_is_not_shown_its_token(trust: Trust) -> None:
    async def shown() -> Person:
        raise AssertionError("the other provider was asked")

    front, now = Front(trust), unix_seconds()
    visit = await front.visit()
    known = {"login": "secret", "checked": now, "provider": "https://before.example"}
    assert await front.door.change(visit.grant, lambda one: replace(one, **known), now=now) is not None
    idp = IdpSettings("https://idp.example", "accredit", "s3cret", trust.agent.signer(), (), {})
    with pytest.raises(OAuthError, match="invalid_grant"):
        await check_again(front, visit.name, idp, shown, now)
    assert await front.door.login(bytes.fromhex(visit.name), now=now) is None


@pytest.mark.holds("gateway/front/door/login", "read-again")
@pytest.mark.parametrize("is_same", [True, False])
async def test_another_person_s_groups_renew_nobody_s_login(trust: Trust, *, is_same: bool) -> None:
    front, now = Front(trust), unix_seconds()
    visit = await front.visit(CLAUDE, "email:read")
    idp = IdpSettings(
        "https://idp.example", "accredit", "s3cret", trust.agent.signer(),
        front.sign(trust.agent.signer(), "email:read"), {"mail-users": ("email:read",)},
    )  # fmt: skip
    known = {"login": "secret", "checked": now, "provider": idp.issuer}
    assert await front.door.change(visit.grant, lambda one: replace(one, **known), now=now) is not None

    async def named() -> Person:
        return Person(visit.grant.subject if is_same else "another", "Ada", frozenset(["mail-users"]), "")

    with contextlib.nullcontext() if is_same else pytest.raises(OAuthError, match="invalid_grant"):
        await check_again(front, visit.name, idp, named, now)
    assert (await front.door.login(bytes.fromhex(visit.name), now=now) is not None) is is_same
