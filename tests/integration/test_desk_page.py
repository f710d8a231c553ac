"""The desk's page, attacked over HTTP: the real process, and requests that no browser of the person would send."""

import http.client
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.world.desk import Agent, Desk, Line
from tests.world.raw_server import PATIENCE

from accredit.console.admission import MAX_PAGE_BODY_BYTES

pytestmark = [
    pytest.mark.holds("console/api"),
    pytest.mark.holds("console/page_views"),
    pytest.mark.holds("console/admission"),
    pytest.mark.holds("console/api"),
]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with Desk(tmp_path_factory.mktemp("desk")) as running:
        yield running


class Page:
    """What a browser of the person sends; `changes` are headers that others would send, None for none."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.bearer = ""

    def signed_in(self) -> "Page":
        key = self.desk.new_link().rpartition("#k=")[2]
        status, said = self.post("/api/login", {"key": key})
        assert status == 200
        self.bearer = said["bearer"]
        return self

    def post(self, path: str, said: Any, **changes: str | None) -> tuple[int, Any]:
        return self.request("POST", path, json.dumps(said).encode(), **changes)

    def get(self, path: str, **changes: str | None) -> tuple[int, Any]:
        return self.request("GET", path, None, **changes)

    def request(self, method: str, path: str, body: bytes | None, **changes: str | None) -> tuple[int, Any]:
        address = f"127.0.0.1:{self.desk.port}"
        headers: dict[str, str | None] = {"host": address, "authorization": f"Bearer {self.bearer}"}
        if body is not None:
            headers |= {"origin": f"http://{address}", "sec-fetch-site": "same-origin"}
            headers |= {"content-type": "application/json", "content-length": str(len(body))}
        headers |= {name.replace("_", "-"): value for name, value in changes.items()}
        return exchange(self.desk.port, method, path, headers, body)


def exchange(
    port: int, method: str, path: str, headers: Mapping[str, str | None], body: bytes | None
) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    for name, value in headers.items():
        if value is not None:
            connection.putheader(name, value)
    connection.endheaders(body)
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    assert answer.getheader("content-security-policy", "").startswith("default-src 'none'")
    assert answer.getheader("cache-control") == "no-store"
    assert answer.getheader("set-cookie") is None
    return answer.status, json.loads(data or "null") if answer.getheader("content-type") == "application/json" else data


def pending(desk: Desk, agent: Agent | None = None) -> tuple[Line, str, str]:
    """An ask that waits: its connection, its code, its digest."""
    line, ask = Line(desk.socket), (agent or Agent()).ask()
    said = line.tell({"ask": ask.to_dict()})
    assert said["state"] == "pending", said
    return line, said["code"], ask.digest.hex()


@pytest.mark.parametrize("path", ["/", "/a/7KQ4-M2", "/static/main.js", "/api/events", "/api/asks/7KQ4-M2"])
@pytest.mark.parametrize("host", ["localhost:{port}", "evil.example:{port}", "127.0.0.1", "[::1]:{port}"])
def test_a_rebound_name_reads_nothing(desk: Desk, path: str, host: str) -> None:
    page = Page(desk).signed_in()
    assert page.get(path, host=host.format(port=desk.port))[0] == 421


def test_a_page_of_another_port_signs_nothing_and_reads_nothing(desk: Desk) -> None:
    page = Page(desk).signed_in()
    line, code, key = pending(desk)
    shown = page.get(f"/api/asks/{code}")[1]
    decision = {"decision": "allow", "offer": "once", "ask": key, "nonce": shown["nonce"]}
    other = f"http://127.0.0.1:{desk.port + 1}"
    for changes in (
        {"origin": other},
        {"origin": other, "sec_fetch_site": "same-site"},
        {"sec_fetch_site": "cross-site"},
        {"origin": None},
        {"content_type": "text/plain"},
        {"authorization": None},
        {"authorization": "Bearer x"},
    ):
        assert page.post(f"/api/asks/{code}", decision, **changes)[0] in (401, 403, 415)
    assert page.get(f"/api/asks/{code}", sec_fetch_site="same-site")[0] == 403
    assert page.get(f"/api/asks/{code}", authorization=None)[0] == 401
    # none of this has spent the nonce
    assert page.post(f"/api/asks/{code}", decision) == (200, {"state": "allowed"})
    line.__exit__()


@pytest.mark.holds("console/desk", "pending-ask", "nonce", "choice")
def test_a_decision_names_its_ask_and_its_nonce__and_what_is_refused_spends_neither(desk: Desk) -> None:
    page = Page(desk).signed_in()
    line, code, key = pending(desk)
    other_line, other_code, other_key = pending(desk)
    shown, other = (page.get(f"/api/asks/{each}")[1] for each in (code, other_code))
    good = {"decision": "allow", "offer": "once", "ask": key, "nonce": shown["nonce"]}
    for changes, status in (
        ({"nonce": other["nonce"]}, 403),
        ({"nonce": ""}, 403),
        ({"nonce": "\ud800"}, 403),
        ({"ask": other_key}, 404),
        ({"offer": "like"}, 400),  # it is new: only this one call
        ({"offer": "everything"}, 400),
        ({"calls": 100}, 400),
        ({"decision": "always"}, 400),
        ({"decision": "deny", "nonce": "x"}, 403),
    ):
        assert page.post(f"/api/asks/{code}", good | changes)[0] == status, changes
    assert page.post(f"/api/asks/{other_code}", good)[0] == 404
    assert page.post(f"/api/asks/{code}", good) == (200, {"state": "allowed"})
    line.__exit__()
    other_line.__exit__()


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b"[" * 4_000, b'{"decision": 1}', b"null"])
def test_bytes_that_are_no_decision_decide_nothing(desk: Desk, body: bytes) -> None:
    page = Page(desk).signed_in()
    line, code, _ = pending(desk)
    assert page.request("POST", f"/api/asks/{code}", body)[0] == 400
    assert desk.tell({"show": code})["state"] == "pending"
    desk.tell({"deny": code})
    line.__exit__()


def test_a_body_past_its_bound_is_not_read(desk: Desk) -> None:
    page = Page(desk).signed_in()
    assert page.post("/api/login", {"key": "x" * MAX_PAGE_BODY_BYTES})[0] == 413


@pytest.mark.parametrize(
    "path",
    [
        *("/static/../desk.py", "/static/%2e%2e/desk.py", "/static/", "/static/desk.toml", "/a/", "/a/x/y", "/a/%00"),
        *("/etc/passwd", "//", "/api", "/api/", "/api/asks", "/api/unlock", "/api/asks/x/../../lock", "/favicon.ico"),
        *("/api/people/", "/api/health/", "/api/health%0A", "/%0A"),  # which a router may take for others
    ],
)
@pytest.mark.holds("console/admission", "route")
def test_there_is_nothing_but_the_page(desk: Desk, path: str) -> None:
    assert Page(desk).signed_in().get(path)[0] == 404


@pytest.mark.holds("console/admission", "route")
def test_what_is_asked_with_another_method_is_not_known(desk: Desk) -> None:
    page = Page(desk).signed_in()
    assert page.request("HEAD", "/api/health", None)[0] == 404
    assert (
        page.get("/api/lock") == page.post("/api/health", {}) == page.post("/other", {}) == (404, {"error": "unknown"})
    )
    assert page.post("/", {}) == page.post("/static/main.js", {}) == (405, {"error": "method"})


@pytest.mark.holds("console/admission", "static")
def test_nothing_that_a_page_is_given_holds_the_key(desk: Desk) -> None:
    page = Page(desk).signed_in()
    line, code, _ = pending(desk)
    texts = json.dumps([page.get(f"/api/asks/{code}")[1], desk.tell({"show": code}), desk.tell({"list": True})])
    seed = json.loads((desk.config / "owner.key").read_text("utf-8"))["seed"]
    held = texts + desk.journal + desk.stderr
    assert [value for value in seed.values() if value in held] == []
    assert "nonce" not in json.dumps([desk.tell({"show": code}), desk.tell({"list": True})])
    desk.tell({"deny": code})
    line.__exit__()


@pytest.mark.holds("console/serving", "loopback")
def test_the_desk_listens_on_loopback_only(desk: Desk) -> None:
    wanted = f":{desk.port:04X}"
    listening = [
        line.split()[1]
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{table}").read_text("ascii").splitlines()[1:]
        if line.split()[1].endswith(wanted) and line.split()[3] == "0A"
    ]
    assert listening == [f"0100007F{wanted}"]
