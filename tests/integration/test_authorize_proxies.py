"""Real proxies in front of a real API: whatever way a request is spelled, what reaches the API is what was decided."""

import re
from collections.abc import Generator
from pathlib import Path
from typing import NamedTuple

import httpx2
import pytest
from tests.world.authorization import GATEWAY, Trust
from tests.world.command import Serving
from tests.world.http_apis import (
    NAME,
    AskingProxy,
    EchoApi,
    is_there,
    presenter_of,
    proof_for,
    raw_request,
    write_gateway,
)
from tests.world.ports import reserved_port
from tests.world.spellings import SPELLINGS, lenient

from accredit.client import AccreditedHttp

pytestmark = [pytest.mark.slow, pytest.mark.holds("gateway/front/authorize", "family", "answer")]


class Scene(NamedTuple):
    trust: Trust
    api: EchoApi
    port: int
    gateway: Serving

    def send(self, method: str, target: str, scope: str = "email:read", **more: str) -> tuple[int, str]:
        """A request with a proof for exactly what is sent, by an agent that may only read and send mail."""
        chain = self.trust.chain("email:read", "email:send")
        proof = proof_for(self.trust, method, target, scope, chain=chain)
        return raw_request(self.port, f"{method} {target}", [("Ratify-Proof", proof), *more.items()])


@pytest.fixture(scope="module", params=["nginx", "caddy"])
def scene(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Generator[Scene]:
    kind = request.param
    if not is_there(kind):
        pytest.skip(f"{kind} is not installed")
    folder, trust = tmp_path_factory.mktemp(kind), Trust()
    file = write_gateway(folder, trust, kind, 'identity = "jwt"\n')
    with reserved_port() as port, EchoApi() as api, Serving("--config", str(file), folder=folder) as gateway:
        found = re.search(r"metrics and health at http://[^ :]*:(\d+)/metrics", gateway.stderr)
        assert found
        with AskingProxy(kind, folder, port=port, api=api.port, admin=int(found[1])):
            yield Scene(trust, api, port, gateway)


def test_a_proved_request_reaches_the_api_once__without_its_proof_and_with_whom_it_is_from(scene: Scene) -> None:
    scene.api.seen.clear()
    assert scene.send("GET", "/messages/7?x=1", **{"Accredit-Identity": "forged"})[0] == 200
    ((line, headers),) = scene.api.seen
    assert line.startswith("GET /messages/7?x=1 HTTP/1.")
    assert "ratify-proof" not in headers
    assert headers["accredit-identity"].count(".") == 2


def test_a_request_without_a_proof_is_told_what_it_needs_and_reaches_nobody(scene: Scene) -> None:
    scene.api.seen.clear()
    status, answer = raw_request(scene.port, "GET /messages")
    assert status == 401
    assert re.search(
        r'www-authenticate: Ratify error="missing_ratify_proof".*scope="email:read"', answer, re.IGNORECASE
    )
    assert scene.send("DELETE", "/messages/7", "custom:delete")[0] in (401, 403)
    assert scene.send("GET", "/admin/keys", "custom:admin")[0] == 403
    assert scene.api.seen == []


def test_the_method_is_the_client_s__not_that_of_a_header(scene: Scene) -> None:
    scene.api.seen.clear()
    for name in ("X-Original-Method", "X-Forwarded-Method", "X-HTTP-Method-Override", "X_Original_Method"):
        status, _ = scene.send("PUT", "/messages", **{name: "GET"})
        assert status == 403, name
    for name in ("X-Original-URI", "X-Forwarded-Uri"):
        status, _ = scene.send("GET", "/admin/keys", **{name: "/messages"})
        assert status == 403, name
    assert all(line.startswith("GET /messages ") for line, _ in scene.api.seen)
    assert not scene.api.seen


def test_an_agent_s_client_finds_out_that_a_proxy_asks(scene: Scene, tmp_path: Path) -> None:
    scene.api.seen.clear()
    auth = AccreditedHttp(presenter_of(scene.trust, tmp_path, "email:read", "email:send"), f"{GATEWAY}/{NAME}")
    with httpx2.Client(auth=auth) as client:
        assert client.get(f"http://127.0.0.1:{scene.port}/messages?x=1").status_code == 200
        sent = client.post(f"http://127.0.0.1:{scene.port}/messages/5/send", content=b"hello")
        assert (sent.status_code, sent.content) == (200, b"hello")
    assert len(scene.api.seen) == 2


def test_no_spelling_of_a_path_leads_where_its_proof_does_not(scene: Scene) -> None:
    """Whoever may read messages sends hundreds of spellings, each with a proof for the very target. What reaches the
    API is, however carelessly it is read, a message."""
    scene.api.seen.clear()
    assert len(SPELLINGS) > 400
    spellings = SPELLINGS[:: max(1, len(SPELLINGS) // 150)]
    passed = [each for each in spellings if scene.send("GET", each)[0] == 200]
    assert len(scene.api.seen) == len(passed)
    for line, _ in scene.api.seen:
        method, target, _ = line.split(" ")
        read = lenient(target)
        assert (method, read[:1], len(read) <= 2) == ("GET", ["messages"], True), line
    assert not any("admin" in each for each in passed if "messages" not in each)


def test_an_api_is_closed_where_the_gateway_is_away(scene: Scene) -> None:
    scene.api.seen.clear()
    scene.gateway.process.kill()
    scene.gateway.process.wait()
    assert scene.send("GET", "/messages")[0] >= 500
    assert scene.api.seen == []
