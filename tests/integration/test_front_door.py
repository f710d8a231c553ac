"""Hosts that speak only OAuth: the official SDK's client logs in, a person at their desk says yes, and calls go through
with proofs that the gateway makes. What strangers and thieves try beside it comes to nothing."""

import asyncio
import re
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from html import unescape
from pathlib import Path
from urllib.parse import quote

import httpx2
import pytest
from mcp import ClientSession
from mcp.client.session import ClientRequestContext, ElicitationFnT
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitRequestParams, ElicitRequestURLParams, ElicitResult
from tests.world.command import accredit
from tests.world.connected import Connected
from tests.world.front_door import VERIFIER, FrontDoor, Person, form, json_of
from tests.world.oauth_client import CALLBACK
from tests.world.oauth_host import Host, host
from tests.world.ports import reserved_port
from tests.world.terminal import Terminal

from accredit.base.clock import unix_seconds
from accredit.keys import make_key, write_key

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Generator[FrontDoor]:
    with reserved_port() as port:
        found = FrontDoor(tmp_path_factory.mktemp("door"), port, "registration = true")
        with found.serving():
            yield found


@asynccontextmanager
async def session(
    door: FrontDoor, auth: httpx2.Auth | None, show: ElicitationFnT | None = None
) -> AsyncGenerator[ClientSession]:
    async with (
        httpx2.AsyncClient(auth=auth, trust_env=False, timeout=60) as http,
        streamable_http_client(door.endpoint, http_client=http) as (read, write),
        ClientSession(read, write, elicitation_callback=show) as client,
    ):
        await client.initialize()
        yield client


async def test_the_sdk_s_client_logs_in__and_calls_what_the_person_allowed(door: FrontDoor) -> None:
    person = Person(door, "email:read")
    async with session(door, person.auth) as client:
        tools = await client.list_tools()
        assert [each.name for each in tools.tools]
        answer = await client.call_tool("list_inbox", {})
        assert not answer.is_error
    assert len(person.visited) == 1


@pytest.mark.holds("gateway/admission/held_answer", "progress", "page")
async def test_the_sdk_s_client_is_told_why_its_call_waits__shows_the_page__and_gets_the_answer(
    door: FrontDoor,
) -> None:
    person, told, shown = Person(door, "email:read"), list[str | None](), list[str]()

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        told.append(message)

    async def show(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        assert isinstance(params, ElicitRequestURLParams)
        shown.append(params.url)
        await door.say_yes(params.url.rpartition("/")[2])
        return ElicitResult(action="accept")

    async with session(door, person.auth, show) as client:
        asked = {"to": "a@example.com", "subject": "held"}
        answer = await client.call_tool("send_email", asked, progress_callback=progress)
        assert not answer.is_error, answer
    assert len(shown) == 1
    assert "Waiting for a person: send_email, code" in (told[0] or "")


async def test_a_person_lets_an_app_in_with_the_real_command__and_a_stranger_s_key_is_told_nothing(
    door: FrontDoor, tmp_path: Path
) -> None:
    """`accredit connect-app` asks the gateway, shows the app, signs, and shows the digits that the page wants."""
    owner, stranger = tmp_path / "owner" / "accredit", tmp_path / "stranger" / "accredit"
    for each in (owner, stranger):
        each.mkdir(parents=True)
    write_key(owner / "owner.key", door.trust.owner)
    write_key(stranger / "me.key", make_key("human", "Nobody", unix_seconds()))

    def connect(code: str, home: Path, answer: str = "") -> tuple[int, str]:
        env = {"XDG_CONFIG_HOME": str(home.parent)}
        with Terminal("connect-app", code, "--at", door.url, folder=tmp_path, env=env) as terminal:
            if answer:
                terminal.wait_for("Let it in")
                terminal.types(f"{answer}\n")
            return terminal.end(), terminal.seen

    async with host(door) as one:
        browser = await one.browser()
        await browser.get(one.ask())
        await browser.press("begin", door.url)
        shown = browser.code
        code, seen = await asyncio.to_thread(connect, shown, stranger)
        assert (code, "list_inbox" in seen) == (1, False)
        code, seen = await asyncio.to_thread(connect, shown, owner, "y")
        assert code == 0, seen
        assert "list_inbox" in seen
        digits = re.findall(r": (\d{6})\b", seen)
        await browser.press("confirm", door.url, digits=digits[-1])
        tokens = json_of(await one.redeem(browser.told["code"]))
        answer = json_of(await one.call(tokens["access_token"]))
        assert not answer["result"].get("isError")
        code, _ = await asyncio.to_thread(connect, shown, owner)
        assert code == 1, "it is answered once"
        (cert_id,) = re.findall(r"signed ([0-9a-f]{32})\b", seen)
        for key, status in ((stranger / "me.key", 1), (owner / "owner.key", 0)):
            words = ("revoke", cert_id, "--issuer", str(key), "--at", door.url)
            done = await asyncio.to_thread(accredit, *words, folder=tmp_path)
            assert done.returncode == status, done.stderr
            answer = await one.call(tokens["access_token"])
            assert answer.status_code == (200 if status else 401)
        assert (await one.refresh(tokens["refresh_token"])).status_code == 400


@pytest.mark.holds("gateway/front/door/tokens", "code")
@pytest.mark.holds("gateway/front/door/server", "no-store")
async def test_a_code_is_good_once__and_its_second_use_ends_what_came_of_the_first(door: FrontDoor) -> None:
    async with host(door) as one:
        code = await one.code()
        given = await one.redeem(code)
        assert given.headers["cache-control"] == "no-store"
        tokens = json_of(given)
        assert (await one.call(tokens["access_token"])).status_code == 200
        again = await one.redeem(code)
        assert again.headers["cache-control"] == "no-store"
        assert (again.status_code, json_of(again)["error"]) == (400, "invalid_grant")
        assert (await one.call(tokens["access_token"])).status_code == 401
        assert json_of(await one.refresh(tokens["refresh_token"]))["error"] == "invalid_grant"


@pytest.mark.holds("gateway/front/door/tokens", "code")
@pytest.mark.parametrize(
    "change",
    [
        {"code_verifier": "v" * 43},
        {"redirect_uri": "http://127.0.0.1:2/callback"},
        {"client_id": "accredit-client:" + "0a" * 16},
    ],
)
async def test_a_stolen_code_gives_nothing__and_is_used_up(door: FrontDoor, change: dict[str, str]) -> None:
    async with host(door) as one:
        code = await one.code()
        thief = Host(door, one.http, change.pop("client_id", one.id))
        assert json_of(await thief.redeem(code, **change))["error"] == "invalid_grant"
        assert json_of(await one.redeem(code))["error"] == "invalid_grant"


@pytest.mark.holds("gateway/front/door/tokens", "rotation")
async def test_a_stolen_refresh_token_ends_the_login_once_both_have_used_it(door: FrontDoor) -> None:
    async with host(door) as one:
        first = json_of(await one.redeem(await one.code()))
        second = json_of(await one.refresh(first["refresh_token"]))
        assert (await one.call(second["access_token"])).status_code == 200
        assert json_of(await one.refresh(second["refresh_token"], scope="email:send"))["error"] == "invalid_scope"
        assert json_of(await one.refresh(first["refresh_token"]))["error"] == "invalid_grant"
        assert json_of(await one.refresh(second["refresh_token"]))["error"] == "invalid_grant"
        assert (await one.call(second["access_token"])).status_code == 401


@pytest.mark.holds("gateway/front/door/tokens", "revoke")
@pytest.mark.parametrize("kind", ["access_token", "refresh_token"])
async def test_a_revoked_login_is_over_at_once__and_who_has_no_token_learns_nothing(door: FrontDoor, kind: str) -> None:
    async with host(door) as one:
        tokens = json_of(await one.redeem(await one.code()))
        other = Host(door, one.http, "accredit-client:" + "0a" * 16)
        for token in ("nothing", "a.b.c", "ä" * 86, tokens[kind]):
            assert (await other.post("revoke", token=token)).status_code == 200
        assert (await one.call(tokens["access_token"])).status_code == 200
        assert (await one.post("revoke", token=tokens[kind])).status_code == 200
        assert (await one.call(tokens["access_token"])).status_code == 401
        assert json_of(await one.refresh(tokens["refresh_token"]))["error"] == "invalid_grant"


@pytest.mark.holds("gateway/front/door/desk", "digits", "asked-after-yes", "once")
@pytest.mark.holds("gateway/front/door/flows", "own-browser")
async def test_a_page_that_is_forwarded_to_another_browser_gets_nothing(door: FrontDoor) -> None:
    async with host(door) as one:
        mine, theirs = await one.browser(), await one.browser()
        await mine.get(one.ask())
        assert 'class="code"' not in mine.page
        await mine.press("begin", door.url)
        digits = await door.say_yes(mine.code)
        page = theirs.page = mine.page
        await theirs.press("confirm", door.url, digits=digits)
        assert theirs.status == 400
        assert not theirs.location
        await mine.press("confirm", door.url, digits="")
        assert not mine.location
        await mine.press("confirm", door.url, digits=digits)
        assert mine.told["iss"] == door.url
        mine.page = theirs.page = page
        for browser in (mine, theirs):
            await browser.press("confirm", door.url, digits=digits)
            assert not browser.location


@pytest.mark.holds("gateway/front/door/desk", "digits")
async def test_digits_are_guessed_three_times_at_most(door: FrontDoor) -> None:
    async with host(door) as one:
        browser = await one.browser()
        await browser.get(one.ask())
        await browser.press("begin", door.url)
        await browser.press("confirm", door.url, digits="000000")
        assert "Nobody has answered" in browser.page
        digits = await door.say_yes(browser.code)
        wrong = f"{(int(digits) + 1) % 1_000_000:06}"
        for _ in range(2):
            await browser.press("confirm", door.url, digits=wrong)
            assert "not the digits" in browser.page
        page = browser.page
        await browser.press("confirm", door.url, digits=wrong)
        assert "has ended" in browser.page
        browser.page = page
        await browser.press("confirm", door.url, digits=digits)
        assert not browser.location


async def test_a_no_at_the_desk__and_a_cancel__go_back_to_the_client(door: FrontDoor) -> None:
    async with host(door) as one:
        browser = await one.browser()
        await browser.get(one.ask())
        await browser.press("begin", door.url)
        await door.say_no(browser.code)
        await browser.press("confirm", door.url, digits="000000")
        assert (browser.told["error"], browser.told["iss"], browser.told["state"]) == (
            "access_denied",
            door.url,
            "s",
        )
        await browser.get(one.ask())
        await browser.press("cancel", door.url)
        assert browser.told["error"] == "access_denied"


@pytest.mark.holds("gateway/front/door/requests", "client-first")
@pytest.mark.holds("gateway/front/door/server", "no-redirector")
@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"redirect_uri": "https://evil.example/cb"}, ""),
        ({"client_id": "accredit-client:" + "0b" * 16}, ""),
        ({"client_id": "https://claude.ai/"}, ""),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"resource": "https://evil.example/mcp"}, "invalid_target"),
        ({"resource": ""}, "invalid_target"),
        ({"scope": "email:send"}, "invalid_scope"),
        ({"scope": "admin"}, "invalid_scope"),
        ({"response_type": "token"}, "unsupported_response_type"),
    ],
)
async def test_nobody_is_sent_anywhere_but_where_the_client_said(
    door: FrontDoor, change: dict[str, str], error: str
) -> None:
    async with host(door) as one:
        browser = await one.browser()
        await browser.get(one.ask(**change))
        assert (browser.status, browser.location) == (400, "")
        link = re.search(r'<a href="([^"]+)">', browser.page)
        assert (link is not None) is bool(error)
        if link is not None:
            assert unescape(link[1]).startswith(f"{CALLBACK}?error={error}&")
            assert "iss=" + quote(door.url, "") in link[1]


@pytest.mark.holds("gateway/front/door/server", "own-form")
async def test_another_site_s_form_is_not_taken(door: FrontDoor) -> None:
    async with host(door) as one:
        browser = await one.browser()
        await browser.get(one.ask())
        fields = {"flow": browser.page.partition('name="flow" value="')[2].partition('"')[0], "do": "begin"}
        for headers in ({"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}, {"origin": "null"}):
            taken = form(**fields)
            taken["headers"] |= headers
            answer = await browser.client.post(f"{door.url}/oauth/authorize", **taken)
            assert (answer.status_code, "another site" in answer.text) == (400, True)
        taken = form(**fields)
        taken["headers"]["host"] = "evil.example"
        assert (await browser.client.post(f"{door.url}/oauth/authorize", **taken)).status_code == 403


@pytest.mark.holds("gateway/front/door/pages", "no-script", "not-kept", "escaped")
async def test_a_page_runs_nothing__is_in_no_frame__and_goes_to_the_redirect_s_origin_alone(door: FrontDoor) -> None:
    async with host(door) as one:
        about = {"redirect_uris": [CALLBACK], "client_name": '<script>alert(1)</script>" \u202e'}
        registered = json_of(await one.http.post(f"{door.url}/oauth/register", json=about))
        browser = await one.browser()
        await browser.get(one.ask(client_id=registered["client_id"]))
        assert browser.headers is not None
        policy = browser.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert policy.endswith("form-action 'self' http://127.0.0.1:1")
        assert browser.headers["cache-control"] == "no-store"
        assert "<script" not in browser.page
        assert "\u202e" not in browser.page
        assert "; Path=/; HttpOnly; SameSite=Lax" in browser.headers["set-cookie"]
        assert "Any program on your computer" in browser.page


@pytest.mark.holds("gateway/front/callers", "introduced")
async def test_who_brings_neither_a_token_nor_a_proof_is_told_where_to_log_in(door: FrontDoor) -> None:
    async with host(door) as one:
        answer = await one.call(None)
        told = answer.headers["www-authenticate"]
        assert (answer.status_code, json_of(answer)["error"]["code"]) == (401, -31001)
        place = told.partition('resource_metadata="')[2].partition('"')[0]
        about = json_of(await one.http.get(place))
        assert (about["resource"], about["authorization_servers"]) == (door.endpoint, [door.url])
        server = json_of(await one.http.get(f"{door.url}/.well-known/oauth-authorization-server"))
        assert server["issuer"] == door.url
        begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}
        accepts = {"accept": "application/json, text/event-stream"}
        assert (await one.http.post(door.endpoint, json=begin, headers=accepts)).status_code == 401


async def test_no_token_is_on_record_or_in_the_log(door: FrontDoor) -> None:
    async with host(door) as one:
        code = await one.code()
        tokens = json_of(await one.redeem(code))
        assert (await one.call(tokens["access_token"])).status_code == 200
        for path in filter(Path.is_file, door.folder.iterdir()):
            data = path.read_bytes()
            for secret in (code, tokens["access_token"], tokens["refresh_token"]):
                assert secret.encode() not in data, path


@pytest.mark.holds("client/proving", "beginning", "begin-again")
def test_our_own_client_shows_a_proof_as_it_begins(door: FrontDoor) -> None:
    chain = door.folder / "delegation.json"
    options = ("--key", str(door.folder / "agent.key"), "--delegation", str(chain), "--ask", "off")
    with Connected(door.folder, door.endpoint, *options) as told:
        told.initialize()
        answer = told.ask("tools/call", {"name": "list_inbox", "arguments": {}})
        assert "result" in answer, answer


@pytest.mark.holds("gateway/front/door/flows", "new-key")
async def test_who_consents_again_ends_what_was_granted_before(door: FrontDoor) -> None:
    async with host(door) as one:
        first = json_of(await one.redeem(await one.code()))
        second = json_of(await one.redeem(await one.code()))
        assert (await one.call(first["access_token"])).status_code == 401
        assert (await one.call(second["access_token"])).status_code == 200


@pytest.mark.holds("gateway/front/door/server", "routes", "public-clients")
async def test_each_endpoint_takes_its_methods__and_no_client_s_secret(door: FrontDoor) -> None:
    async with host(door) as one:
        for method, path in (("GET", "token"), ("PUT", "authorize"), ("GET", "register"), ("GET", "revoke")):
            assert (await one.http.request(method, f"{door.url}/oauth/{path}")).status_code == 405
        posted = await one.http.post(f"{door.url}/.well-known/oauth-authorization-server")
        assert posted.status_code == 405
        code = await one.code()
        assert json_of(await one.redeem(code, client_secret="s"))["error"] == "invalid_client"
        fields = form(client_id=one.id, grant_type="authorization_code", code=code, code_verifier=VERIFIER)
        fields["headers"]["authorization"] = "Basic YTpi"
        assert (await one.http.post(f"{door.url}/oauth/token", **fields)).status_code == 401
        assert (await one.http.post(f"{door.url}/oauth/token", json={})).status_code == 400
        assert (await one.redeem(code)).status_code == 200


@pytest.mark.holds("gateway/front/door/server", "asked")
async def test_a_call_that_waits_has_a_page_without_its_arguments(door: FrontDoor) -> None:
    async with host(door) as one:
        tokens = json_of(await one.redeem(await one.code()))
        waiting = asyncio.create_task(one.call(tokens["access_token"], "search", query="a secret"))
        browser, code = await one.browser(), await door.waiting_for("a secret")
        await browser.get(f"{door.url}/oauth/asked/{code}")
        assert (browser.status, "search" in browser.page, "a secret" in browser.page) == (200, True, False)
        assert "“an app without a host: Host”" in browser.page
        assert "accredit-client:" not in browser.page
        for other in ("0000-00", "x", "..%2f", "nothing/else"):
            await browser.get(f"{door.url}/oauth/asked/{other}")
            assert browser.status == 404
        waiting.cancel()


@pytest.mark.holds("gateway/admission/guest_asks", "no")
async def test_a_no_to_a_waiting_call_stays_one(door: FrontDoor) -> None:
    async with host(door) as one:
        tokens = json_of(await one.redeem(await one.code()))
        waiting = asyncio.create_task(one.call(tokens["access_token"], "search", query="another"))
        held = await door.waiting_for("another")
        await door.say_no(held)
        again = await one.call(tokens["access_token"], "search", query="another")
        for answer in (await waiting, again):
            assert "the answer was no" in json_of(answer)["error"]["message"]


@pytest.mark.holds("gateway/front/door/tokens", "rate")
async def test_a_flood_of_invented_codes_and_tokens_keeps_nobody_at_the_same_address_out(door: FrontDoor) -> None:
    async with host(door) as one:
        tokens = json_of(await one.redeem(await one.code()))
        for _ in range(5):
            flood = [*(one.redeem("c" * 43) for _ in range(25)), *(one.refresh("r" * 86) for _ in range(25))]
            found = await asyncio.gather(*flood, one.refresh(tokens["refresh_token"]))
            assert {each.status_code for each in found[:-1]} == {400}
            assert found[-1].status_code == 200
            tokens = json_of(found[-1])


@pytest.mark.holds("gateway/front/door/server", "rate")
@pytest.mark.parametrize("is_trusted", [True, False])
async def test_behind_a_proxy_who_floods_uses_up_their_own_half__and_nobody_else_says_where_they_are(
    tmp_path: Path, *, is_trusted: bool
) -> None:
    """Each of the flood's requests claims another address. Of a proxy that is named its own word counts: the last."""

    with reserved_port() as port:
        door = FrontDoor(tmp_path, port, "registration = true")
        if is_trusted:
            text = door.configuration.read_text("utf-8")
            proxies = 'trusted_proxies = ["127.0.0.1"]'
            door.configuration.write_text(text.replace("[gateway]\n", f"[gateway]\n{proxies}\n"), "utf-8")
        with door.serving():
            async with host(door) as one:
                about = {"redirect_uris": ["https://app.example/back"], "client_name": "App"}

                async def register(*hops: str) -> int:
                    headers = {"x-forwarded-for": ", ".join(hops)}
                    return (await one.http.post(f"{door.url}/oauth/register", json=about, headers=headers)).status_code

                statuses: list[int] = []
                while 429 not in statuses[-50:] and len(statuses) < 2_000:
                    claims = [f"192.0.2.{each}" for each in range(50)]
                    statuses += await asyncio.gather(*(register(claim, "198.51.100.1") for claim in claims))
                assert {*statuses} == {201, 429}
                others = await asyncio.gather(*(register("198.51.100.2") for _ in range(20)))
                assert ({*others} == {201}) is is_trusted


async def test_a_flood_of_forms_is_stopped_before_the_store__and_no_cookie_adds_a_header(tmp_path: Path) -> None:
    with reserved_port() as port:
        door = FrontDoor(tmp_path, port, "registration = true")
        with door.serving():
            async with host(door) as one:
                browser = await one.browser()
                bad = 'accredit-consent="' + "a" * 32 + '\\015\\012X-Evil: 1"'  # 43 characters, once it is read
                found = await browser.client.get(one.ask(), headers={"cookie": bad})
                assert (found.status_code, "x-evil" in found.headers) == (200, False)
                await browser.get(one.ask())
                fields = {"flow": browser.page.partition('name="flow" value="')[2].partition('"')[0], "do": "begin"}
                refused: list[httpx2.Response] = []
                while not refused:  # some come while the bucket is refilled: the slower the machine, the more
                    posts = (browser.client.post(f"{door.url}/oauth/authorize", **form(**fields)) for _ in range(150))
                    answers = await asyncio.gather(*posts)
                    assert {each.status_code for each in answers} <= {200, 429}
                    refused = [each for each in answers if each.status_code == 429]
                assert all("try again in a minute" in each.text for each in refused)


@pytest.mark.holds("gateway/front/door/desk", "trusted")
async def test_the_yes_of_somebody_whom_the_gateway_does_not_trust_gives_no_code(door: FrontDoor) -> None:
    async with host(door) as one:
        browser = await one.browser()
        await browser.get(one.ask())
        await browser.press("begin", door.url)
        digits = await door.say_yes(browser.code, by=door.trust.stranger)
        await browser.press("confirm", door.url, digits=digits)
        assert browser.told["error"] == "access_denied"
