"""A person is asked about requests to an HTTP API and messages to an agent: the real gateway and desk, our clients."""

import asyncio
import json
from collections.abc import AsyncIterator, Generator
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
from tests.world.a2a import send
from tests.world.a2a_agents import ScriptedAgent
from tests.world.authorization import Trust
from tests.world.command import Serving, accredit, wait_until
from tests.world.desk import PASSPHRASE, Desk, write_locked
from tests.world.http_apis import EchoApi
from tests.world.scripted_desk import ScriptedDesk, allows, says, waits
from tests.world.terminal import Terminal

from accredit.client import AccreditedA2A, AccreditedHttp, ProofPresenter
from accredit.client.asking import NO_DESK, OLD_DESK, denial_message
from accredit.consent.asks import Ask
from accredit.errors import ConfigurationError, ProofRefused
from accredit.keys import make_key, write_key

pytestmark = [pytest.mark.slow, pytest.mark.holds("client/asking")]

TRUST = Trust()
MAIL, HELPER = "mail-gateway/mail", "mail-gateway/helper"
ROUTE = "POST /messages/{id}/send"
HELLO = ["text: hello"]
CONFIG = """
[gateway]
id = "mail-gateway"
[store]
url = "sqlite:///accredit.db"
[proofs]
mode = "required"
[[proofs.roots]]
name = "Ada"
public_key_file = "owner.key.pub"
[attest]
mode = "record"
key_file = "gateway.key"
[servers.mail]
protocol = "http"
url = "http://127.0.0.1:{api}"
path = "/api/mail"
[servers.mail.routes."POST /messages/{{id}}/send"]
scope = "email:send"
[servers.mail.routes."DELETE /messages/{{id}}"]
scope = "custom:delete"
sensitive = true
[servers.helper]
protocol = "a2a"
url = "http://127.0.0.1:{agent}/"
path = "/agents/helper"
scope = "custom:ask"
[servers.helper.skills.summarize]
scope = "email:read"
[servers.helper.skills.wipe]
scope = "comms:email:delete"
"""


class Place(NamedTuple):
    """A gateway in front of an API and an agent."""

    folder: Path
    api: EchoApi
    agent: ScriptedAgent
    gateway: Serving

    @property
    def mail(self) -> str:
        return f"http://127.0.0.1:{self.gateway.port}/api/mail"

    @property
    def helper(self) -> str:
        return f"http://127.0.0.1:{self.gateway.port}/agents/helper"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Generator[Place]:
    folder = tmp_path_factory.mktemp("place")
    for name, key in (("owner", TRUST.owner), ("agent", TRUST.agent), ("gateway", make_key("gateway", "Gateway", 0))):
        write_key(folder / f"{name}.key", key)
    with EchoApi() as api, ScriptedAgent() as agent:
        (folder / "accredit.toml").write_text(CONFIG.format(api=api.port, agent=agent.port))
        with Serving("--config", "accredit.toml", folder=folder) as gateway:
            yield Place(folder, api, agent, gateway)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[ScriptedDesk]:
    with ScriptedDesk(tmp_path, waits) as desk:
        monkeypatch.setenv("ACCREDIT_DESK_SOCKET", str(desk.path))
        yield desk


def is_old(_ask: Ask) -> dict[str, Any]:
    """The desk knows asks about calls of MCP alone."""
    return {"error": "bad_ask"}


def presenter(place: Place, *chains: Any) -> ProofPresenter:
    return ProofPresenter(place.folder / "agent.key", chains, may_ask=True)


def asks_of_mail(place: Place, *chains: Any, hold: float = 60, **how: Any) -> httpx2.AsyncClient:
    auth = AccreditedHttp(presenter(place, *chains), MAIL, hold=hold)
    return httpx2.AsyncClient(auth=auth, timeout=60, **how)


def asks_of_helper(place: Place, *chains: Any, hold: float = 60) -> httpx2.AsyncClient:
    transport = AccreditedA2A(httpx2.AsyncHTTPTransport(), presenter(place, *chains), HELPER, place.helper, hold=hold)
    return httpx2.AsyncClient(transport=transport, timeout=60)


async def message(client: httpx2.AsyncClient, url: str, params: object, method: str = "SendMessage") -> dict[str, Any]:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    answer = await client.post(url, json=body, headers={"a2a-version": "1.0"})
    return answer.json()


@pytest.mark.holds("client/http_apis", "asks")
async def test_what_the_person_allows_reaches_the_api__once_and_for_this_path_and_body(
    place: Place, desk: ScriptedDesk
) -> None:
    desk.script = allows(TRUST.owner)
    before = len(place.api.seen)
    async with asks_of_mail(place) as client:
        sent = await client.post(f"{place.mail}/messages/7/send?copy=1", json={"to": "ada", "text": "Hello"})
        assert (sent.status_code, sent.json()) == (200, {"to": "ada", "text": "Hello"})
        (ask,) = desk.asks
        assert (ask.method, ask.target, ask.gateway.id) == ("POST", ROUTE, MAIL)
        assert ask.gateway.url == f"http://127.0.0.1:{place.gateway.port}"
        assert ask.request.target == "/api/mail/messages/7/send?copy=1"
        assert (ask.body, ask.refusal.required_scope) == ({"to": "ada", "text": "Hello"}, "email:send")
        # One yes is for one request: the same again is asked about again.
        desk.script = says("deny")
        for target, body in (("7/send?copy=1", {"to": "ada", "text": "Hello"}), ("8/send?copy=1", {})):
            with pytest.raises(ProofRefused) as refused:
                await client.post(f"{place.mail}/messages/{target}", json=body)
            assert refused.value.__notes__ == [denial_message("Ada", desk.asks[-1].code)]
        desk.script = allows(TRUST.owner)
        gone = await client.request("DELETE", f"{place.mail}/messages/7")
        assert gone.status_code == 200  # a challenge was signed with what the person gave
    assert [line.split()[:2] for line, _ in place.api.seen[before:]] == [
        ["POST", "/messages/7/send?copy=1"],
        ["DELETE", "/messages/7"],
    ]


@pytest.mark.holds("http_api/call", "constrained")
async def test_an_answer_is_good_for_no_other_path_query_or_body(place: Place, desk: ScriptedDesk) -> None:
    desk.script = allows(TRUST.owner)
    answers: list[Any] = []
    agent = presenter(place)
    allow = agent.allow

    def keep(chain: Any) -> None:
        answers.append(chain)
        allow(chain)

    agent.allow = keep
    held = AccreditedHttp(agent, MAIL, hold=60)

    class Unsent(httpx2.AsyncBaseTransport):
        """Keeps back what has a proof, so that what was allowed stays unused."""

        def __init__(self) -> None:
            self.inner = httpx2.AsyncHTTPTransport()

        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            if "ratify-proof" in request.headers:
                return httpx2.Response(200)
            return await self.inner.handle_async_request(request)

        async def aclose(self) -> None:
            await self.inner.aclose()

    async with httpx2.AsyncClient(auth=held, transport=Unsent()) as client:
        await client.post(f"{place.mail}/messages/7/send?copy=1", content=b'{"to":"ada"}')
    (chain,) = answers
    before = len(place.api.seen)
    thief = ProofPresenter(place.folder / "agent.key", [chain])
    routes = {"POST /api/mail/messages/{id}/send": "email:send"}
    async with httpx2.AsyncClient(auth=AccreditedHttp(thief, MAIL, routes=routes)) as client:
        for target, body in (
            ("8/send?copy=1", b'{"to":"ada"}'),
            ("7/send?copy=2", b'{"to":"ada"}'),
            ("7/send", b'{"to":"ada"}'),
            ("7/send?copy=1", b'{"to": "ada"}'),
            ("7/send?copy=1", b'{"to":"eve"}'),
            ("7/send?copy=1", b""),
        ):
            refused = await client.post(f"{place.mail}/messages/{target}", content=body)
            assert (refused.status_code, refused.json()["error"]) == (403, "ratify_constraint_denied")
        assert len(place.api.seen) == before
        passed = await client.post(f"{place.mail}/messages/7/send?copy=1", content=b'{"to":"ada"}')
        assert passed.status_code == 200


@pytest.mark.holds("client/http_apis", "asks")
async def test_a_body_that_is_no_text_is_asked_about_by_its_digest__and_a_book_is_not_asked_about(
    place: Place, desk: ScriptedDesk
) -> None:
    desk.script = allows(TRUST.owner)
    async with asks_of_mail(place) as client:
        sent = await client.post(f"{place.mail}/messages/7/send", content=b"\xff\xd8picture")
        assert sent.content == b"\xff\xd8picture"
        assert "body" not in desk.asks[0].params
        assert desk.asks[0].request.body_size == 9
        with pytest.raises(ProofRefused) as refused:
            await client.post(f"{place.mail}/messages/7/send", content=b"x" * 70_000)
        assert "Nobody can be asked for this call: it has 70," in refused.value.__notes__[0]
    assert len(desk.asks) == 1


@pytest.mark.holds("client/http_apis", "asks", "pinned", "one-scope")
@pytest.mark.parametrize(
    ("said", "problem", "raises"),
    [
        ({"verifier": "mail-gateway/other"}, {}, "gateway_changed"),
        ({"scope": "payments:send"}, {}, ""),
        ({}, {"required_scope": "payments:send"}, ""),
        ({"error": "ratify_invalid"}, {}, ""),
        ({}, {"target": 7}, ""),
        ({"workspace": "accredit/authorize/v1"}, {}, ""),
        ({"workspace": ""}, {}, ""),
    ],
)
async def test_an_api_that_lies_has_nobody_asked(
    said: dict[str, str], problem: dict[str, object], raises: str, place: Place, desk: ScriptedDesk
) -> None:
    sent: list[httpx2.Request] = []

    def lies(request: httpx2.Request) -> httpx2.Response:
        sent.append(request)
        told = {
            "error": "ratify_scope_denied",
            "verifier": MAIL,
            "workspace": "accredit/http/v1",
            "scope": "email:send",
        }
        data = {"error": "ratify_scope_denied", "required_scope": "email:send", "target": "GET /messages"}
        if len(sent) > 1:
            told, data = told | said, data | problem
        header = "Ratify " + ", ".join(f'{name}="{value}"' for name, value in told.items())
        content = json.dumps({"code": -31003, "detail": "no", "data": data}).encode()
        kind = {"content-type": "application/problem+json", "www-authenticate": header}
        return httpx2.Response(403, headers=kind, content=content)

    chain = TRUST.chain("email:send", "payments:send", known=("payments:send",))
    async with asks_of_mail(place, chain, transport=httpx2.MockTransport(lies)) as client:
        if raises:
            with pytest.raises(ProofRefused, match=raises):
                await client.get("http://api.example/messages")
        else:
            assert (await client.get("http://api.example/messages")).status_code == 403
    assert not desk.asks


class _Endless(httpx2.AsyncByteStream):
    """The body of an answer that nobody should read."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        raise AssertionError("the body was read")
        yield b""


@pytest.mark.holds("client/http_apis", "asks")
@pytest.mark.parametrize("coding", [{"content-encoding": "zstd"}, {"transfer-encoding": "chunked"}])
async def test_an_answer_whose_length_is_not_the_one_that_it_says_is_left_to_the_caller(
    coding: dict[str, str], place: Place, desk: ScriptedDesk
) -> None:
    kind = {"content-type": "application/problem+json", "content-length": "300"}
    transport = httpx2.MockTransport(lambda _: httpx2.Response(403, headers=kind | coding, stream=_Endless()))
    client = asks_of_mail(place, transport=transport)
    async with client, client.stream("GET", "http://api.example/messages") as response:
        assert response.status_code == 403
    assert not desk.asks


async def test_without_a_desk_the_refusal_says_so__and_who_gives_up_withdraws_the_ask(
    place: Place, desk: ScriptedDesk
) -> None:
    async with asks_of_mail(place) as client:
        call = asyncio.ensure_future(client.post(f"{place.mail}/messages/7/send", content=b"hello"))
        while not desk.asks:
            await asyncio.sleep(0.01)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        desk.wait_for(lambda: any(each.get("withdraw") == desk.asks[0].digest.hex() for each in desk.said))
        desk.script = is_old
        with pytest.raises(ProofRefused) as refused:
            await client.post(f"{place.mail}/messages/7/send", content=b"hello")
        assert refused.value.__notes__ == [OLD_DESK]
        desk.leave()
        with pytest.raises(ProofRefused) as refused:
            await client.post(f"{place.mail}/messages/7/send", content=b"hello")
        assert refused.value.__notes__ == [NO_DESK]
    with (
        pytest.raises(ConfigurationError, match="AsyncClient"),
        httpx2.Client(auth=AccreditedHttp(presenter(place), MAIL, hold=60)) as sync,
    ):
        sync.get(f"{place.mail}/messages")


@pytest.mark.holds("client/agents", "asks")
async def test_a_message_that_the_person_allows_reaches_the_agent__and_its_task_can_be_asked_for(
    place: Place, desk: ScriptedDesk
) -> None:
    desk.script = allows(TRUST.owner)
    before = len(place.agent.seen)
    async with asks_of_helper(place) as client:
        for skill, scopes in (
            ("summarize", ("custom:ask", "email:read")),
            ("", ("custom:ask", "email:read", "comms:email:delete")),
        ):
            sent = await message(client, place.helper, send(skill=skill))
            assert "result" in sent, sent
            ask = desk.asks[-1]
            assert (ask.method, ask.target, ask.params) == ("SendMessage", skill, send(skill=skill))
            assert (ask.gateway.id, ask.gateway.url, ask.refusal.scopes) == (HELPER, place.helper, scopes)
        assert "result" in await message(client, place.helper, {"id": "t-1"}, "GetTask")
        desk.script = says("deny")
        for method in ("SendMessage", "SendStreamingMessage"):
            with pytest.raises(ProofRefused) as refused:
                await message(client, place.helper, send("another", skill="summarize"), method)
            assert refused.value.__notes__ == [denial_message("Ada", desk.asks[-1].code)]
    assert len(place.agent.seen) == before + 3


@pytest.mark.holds("client/agents", "asks", "one-scope", "all-scopes")
@pytest.mark.parametrize(
    "told",
    [
        {"required_scope": "payments:send"},
        {"required_scope": "custom:ask", "required_scopes": ["custom:ask", "payments:send"]},
        {"required_scope": None},
    ],
)
async def test_an_agent_that_names_other_scopes_later_has_nobody_asked(
    told: dict[str, object], place: Place, desk: ScriptedDesk
) -> None:
    sent: list[httpx2.Request] = []

    def lies(request: httpx2.Request) -> httpx2.Response:
        sent.append(request)
        data: dict[str, object] = {"error": "ratify_scope_denied", "required_scope": "custom:ask"}
        data |= {"required_scopes": ["custom:ask", "email:read"]} | (told if len(sent) > 1 else {})
        error = {"code": -31003, "message": "no", "data": data}
        return httpx2.Response(200, json={"jsonrpc": "2.0", "id": 1, "error": error})

    chain = TRUST.chain("custom:ask", known=("custom:ask",))
    transport = AccreditedA2A(httpx2.MockTransport(lies), presenter(place, chain), HELPER, place.helper, hold=60)
    async with httpx2.AsyncClient(transport=transport) as client:
        assert "error" in await message(client, place.helper, send(skill="summarize"))
    assert (len(sent), desk.asks) == (2, [])


async def test_a_real_desk_shows_the_request__and_a_person_in_a_terminal_allows_it(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "person"
    write_locked(folder / "config" / "accredit", TRUST.owner)
    with Desk(folder) as desk:
        monkeypatch.setenv("ACCREDIT_DESK_SOCKET", str(desk.socket))

        def waiting() -> list[dict[str, Any]]:
            return desk.tell({"list": True})["asks"]

        def approve(code: str) -> str:
            with Terminal("approve", code, "--once", folder=desk.folder, env=desk.env) as terminal:
                terminal.wait_for("assphrase")
                terminal.types(f"{PASSPHRASE}\n")
                assert terminal.end() == 0, terminal.seen
                return terminal.seen

        async with asks_of_mail(place) as mail, asks_of_helper(place) as helper:
            url = f"{place.mail}/messages/7/send"
            for call, title, rows in (
                (mail.post(url, json={"to": "ada"}), "asks to POST /api/mail/messages/7/send on", ["to: ada"]),
                (mail.post(url, content=b"\xff"), "asks to POST", ["/body_size: 1", "the body is no text"]),
                (message(helper, place.helper, send(skill="summarize")), "asks to send a message for summarize", HELLO),
                (message(helper, place.helper, send()), "asks to send a message for any skill on", HELLO),
            ):
                sent = asyncio.ensure_future(call)
                await asyncio.to_thread(wait_until, lambda: bool(waiting()))
                (ask,) = waiting()
                listed = await asyncio.to_thread(accredit, "asked", folder=folder, env=desk.env)
                seen = " ".join((await asyncio.to_thread(approve, ask["code"])).split())
                assert title in seen, seen
                assert all(row in seen for row in rows), seen
                assert ("POST /api/mail" if "POST" in title else "a message for") in listed.stdout
                answer = await sent
                if isinstance(answer, httpx2.Response):
                    assert answer.status_code == 200
                else:
                    assert "result" in answer
        assert desk.journal.count('"event":"allowed"') == 4, desk.journal
    root = ("--root", "owner.key.pub")
    verified = accredit("log", "verify", "--config", "accredit.toml", *root, folder=place.folder)
    assert verified.returncode == 0, verified.stdout + verified.stderr
