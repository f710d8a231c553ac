"""What a desk takes from whoever answers at a gateway's address."""

import asyncio
import http.server
import json
import socket
import threading
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from accredit.base.clock import unix_seconds
from accredit.client.pins import gateways_met
from accredit.console import gateways
from accredit.console.gateways import MAX_ASKED_GATEWAYS, GatewayHealth, Gateways
from accredit.errors import ConfigurationError
from accredit.limits import MAX_HEALTH_BYTES

pytestmark = [pytest.mark.slow, pytest.mark.holds("console/gateways")]


class Answering(http.server.BaseHTTPRequestHandler):
    """Says what a test says."""

    status, body, headers_said, asked = 200, b"", {}, []

    def do_GET(self) -> None:
        Answering.asked.append((self.path, dict(self.headers)))
        self.send_response_only(self.status)
        for name, value in {"Content-Length": str(len(self.body)), **self.headers_said}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    Answering.asked = []
    Answering.status, Answering.body, Answering.headers_said = 200, b"", {}
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


def asked(known: dict[str, str]) -> list[GatewayHealth]:
    return asyncio.run(Gateways(lambda: known).ask())


def told(port: int, body: object, status: int = 200, **headers: str) -> GatewayHealth:
    Answering.body = body if isinstance(body, bytes) else json.dumps(body).encode()
    Answering.status, Answering.headers_said = status, headers
    (said,) = asked({f"http://127.0.0.1:{port}/mcp?secret=1": "mail"})
    return said


@pytest.mark.holds("console/gateways", "environment", "bounds")
def test_what_readyz_says_is_taken__and_no_secret_goes_along(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    body = {"status": "not ready", "store": True, "servers": {"a": False}, "odd": "text", "refused": {"x": 1}}
    said = told(port, body, 503, Date=formatdate(unix_seconds() + 100, usegmt=True))
    assert (said.status, dict(said.parts), said.problem) == ("not ready", {"store": True, "server a": False}, "")
    assert said.clock_ahead is not None
    assert 95 < said.clock_ahead <= 100
    ((path, headers),) = Answering.asked
    assert path == "/readyz"
    assert not {"Authorization", "Cookie"} & headers.keys()


@pytest.mark.holds("console/gateways", "bounds")
@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 200), (b"[]", 200), (b'{"status": "fine"}', 200), (b'{"status": ["ok"]}', 200), (b"[" * 50_000, 200),
        ({"status": "ok"}, 404), ({"status": "ok"}, 301), (b'{"status": "ok", "x": "' + b"y" * MAX_HEALTH_BYTES, 200),
    ],
)  # fmt: skip
def test_what_is_no_gateway_of_ours_says_nothing(port: int, body: object, status: int) -> None:
    said = told(port, body, status, Location="/elsewhere")
    assert said.status == ""
    assert said.problem
    assert len(Answering.asked) == 1


def test_a_date_that_can_t_be_read_is_no_clock__and_one_within_its_second_is_right(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for date in ("", "x", "Mon, 99 Nov 2026 08:00:00 GMT", "Mon, 23 Nov 999999 08:00:00 GMT"):
        assert told(port, {"status": "ok"}, Date=date).clock_ahead is None
    monkeypatch.setattr(gateways, "unix_ms", lambda: 1_800_000_000_400)
    for said, ahead in ((1_800_000_000, 0), (1_799_999_990, -9.4), (1_800_000_010, 9.6)):
        found = told(port, {"status": "ok"}, Date=formatdate(said, usegmt=True)).clock_ahead
        assert found == pytest.approx(ahead, abs=1e-3)


@pytest.mark.holds("console/gateways", "https")
def test_what_comes_in_the_clear_does_not_count__and_odd_addresses_are_not_asked() -> None:
    known = {
        "ftp://a/": "a", "http://": "b", "http://[::1": "c", "stdio": "d", "http://h:99999/": "e",
        "https://localhost:1/x": "f", "https://localhost:1/y": "g", "http://192.0.2.1:1/": "h",
    }  # fmt: skip
    found = Gateways(lambda: known).addresses()
    assert found == {"https://localhost:1": ("f", "g"), "http://192.0.2.1:1": ("h",)}
    assert [each.counts for each in asked({"http://127.0.0.1:1/": "x"})] == [True]
    many = {f"http://127.0.0.1:1/{each}": "x" for each in range(5)} | {
        f"http://127.0.0.{each}:1": "y" for each in range(100)
    }
    assert len(asked(many)) == MAX_ASKED_GATEWAYS


async def test_a_gateway_is_asked_whether_it_goes_by_a_list__and_says_nothing_of_what_nobody_asked(port: int) -> None:
    Answering.body = json.dumps({"status": "ok", "list": True, "revocations": True}).encode()
    known_ones = Gateways(lambda: {f"http://127.0.0.1:{port}/mcp": "mail"})

    async def ask(*lists: str) -> GatewayHealth:
        (said,) = await known_ones.ask(lists)
        return said

    assert (await ask()).has_list is None
    said = await ask("b" * 64, "a" * 64)
    assert (said.has_list, said.parts) == (True, {"revocations": True})
    for odd in (1, "true", None, [True]):
        Answering.body = json.dumps({"status": "ok", "list": odd}).encode()
        assert (await ask(f"{odd}"[:1] * 64)).has_list is None
    assert [path for path, _ in Answering.asked][:2] == ["/readyz", f"/readyz?list={'a' * 64}&list={'b' * 64}"]


@pytest.mark.slow
@pytest.mark.holds("console/gateways", "pause")
def test_one_that_does_not_answer_holds_up_nobody_twice() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.setblocking(False)
        known_ones = Gateways(lambda: {f"http://127.0.0.1:{silent.getsockname()[1]}/": "x"})
        for _ in range(3):
            (said,) = asyncio.run(known_ones.ask(anew=True))
            assert (said.status, "no answer within" in said.problem) == ("", True)
        silent.accept()[0].close()
        with pytest.raises(BlockingIOError):
            silent.accept()


def test_of_many_gateways_some_are_asked__and_the_others_counted(port: int) -> None:
    Answering.body = b'{"status":"ok"}'
    known = {f"http://127.0.0.{number + 1}:{port}/": "x" for number in range(MAX_ASKED_GATEWAYS + 5)}
    known_ones = Gateways(lambda: known)
    assert len(asyncio.run(known_ones.ask())) == MAX_ASKED_GATEWAYS
    assert known_ones.not_asked == 5


def test_a_file_of_known_gateways_that_is_none_is_said_to_be(tmp_path: Path) -> None:
    file = tmp_path / "known_gateways.json"
    assert gateways_met(tmp_path) == {}
    for text in ("[]", '{"a": 1}', "x", "[" * 10_000):
        file.write_text(text, "utf-8")
        with pytest.raises(ConfigurationError, match="is not"):
            gateways_met(tmp_path)
        assert Gateways(lambda: gateways_met(tmp_path)).addresses() == {}
    file.write_text('{"http://a/": "id"}', "utf-8")
    assert gateways_met(tmp_path) == {"http://a/": "id"}
