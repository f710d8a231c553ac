"""From an OpenAPI document to a proved request, with the real commands: init, add, check, serve, and a client."""

import json
import re
import threading
import tomllib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.world.command import Serving, accredit
from tests.world.http_apis import EchoApi
from tests.world.warm import python

from accredit.client import AccreditedHttp, ProofPresenter
from accredit.keys import load_public_key

pytestmark = [pytest.mark.slow, pytest.mark.holds("setup/documents", "named-only")]
MAIL_SERVER = Path(__file__).parents[2] / "examples/mail_server.py"
PAGE = Path(__file__).parents[2] / "docs/how-to/http-api.md"
PATHS: dict[str, Any] = {
    "/messages": {"get": {"operationId": "list"}},
    "/messages/{id}": {"get": {}, "put": {"operationId": "replace"}, "delete": {"operationId": "drop"}},
}


def document(folder: Path, url: str = "/", **more: Any) -> Path:
    found = {"openapi": "3.1.0", "info": {"title": "Mail"}, "servers": [{"url": url}], "paths": {**PATHS, **more}}
    file = folder / "openapi.json"
    file.write_text(json.dumps(found))
    return file


def run(folder: Path, *words: str, code: int = 0) -> str:
    done = accredit(*words, folder=folder)
    assert done.returncode == code, done.stderr + done.stdout
    return done.stdout + done.stderr


def test_the_how_to_leads_from_a_document_to_a_proved_request(tmp_path: Path) -> None:
    found = re.findall(r"```console\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    init, *others, serve, check = [line.split()[1:] for body in found for line in body.splitlines()]
    assert serve == ["serve"]
    with EchoApi() as echo:
        document(tmp_path, f"http://127.0.0.1:{echo.port}/v1")
        told = run(tmp_path, *init)
        assert "4 routes, 1 of them sensitive" in told
        assert f"http://127.0.0.1:{echo.port}/v1, and on the gateway at /api/mail" in told
        for words in others:
            more = ["--scope", "custom:mail:drop"] if words[0] == "grant" else []
            run(tmp_path, *words, *more)
        run(tmp_path, *check)
        gateway_id = load_public_key(tmp_path / "gateway.key.pub").id
        presenter = ProofPresenter(tmp_path / "agent.key", [tmp_path / "delegation.json"])
        with (
            Serving(folder=tmp_path) as gateway,
            httpx2.Client(auth=AccreditedHttp(presenter, f"{gateway_id}/mail")) as client,
        ):
            base = f"http://127.0.0.1:{gateway.port}/api/mail"
            assert client.get(f"{base}/messages?limit=3").status_code == 200
            assert client.delete(f"{base}/messages/7").status_code == 200
            assert client.put(f"{base}/messages/7", content=b"x").status_code == 403
            assert client.post(f"{base}/messages/7").status_code == 403
        lines = [line for line, _ in echo.seen]
        assert lines == ["GET /v1/messages?limit=3 HTTP/1.1", "DELETE /v1/messages/7 HTTP/1.1"]


def test_nothing_is_left_behind_by_an_init_that_fails(tmp_path: Path) -> None:
    document(tmp_path)
    before = {*tmp_path.iterdir()}
    for words in (
        ("--openapi", "openapi.json", "--server", "mail"),
        ("--openapi", "openapi.json", "http://127.0.0.1:9"),
        ("--openapi", "none.json", "--server", "mail"),
        ("--openapi", "http://127.0.0.1:1/openapi.json", "--server", "mail"),
        ("--openapi", "openapi.json", "http://127.0.0.1:9/?key=1", "--server", "mail"),
        ("--openapi", "openapi.json", "--server", "mail", "--", "python", "x.py"),
        ("--proxy", "nginx", "http://127.0.0.1:9", "--server", "mail"),
    ):
        told = run(tmp_path, "init", *words, code=2)
        assert told.startswith("error: ")
        assert len(told.splitlines()) == 2
    assert {*tmp_path.iterdir()} == before


def test_add_writes_an_api_beside_a_server__for_a_proxy_as_well__and_a_server_beside_an_api(tmp_path: Path) -> None:
    document(tmp_path, "https://api.example/v1")
    run(tmp_path, "init", "--openapi", "openapi.json", "--server", "mail", "--proxy", "nginx")
    told = run(tmp_path, "add", "more", "--openapi", "openapi.json", "http://127.0.0.1:9/x", "--json")
    assert json.loads(told)["routes"][0] == {"route": "GET /messages", "scope": "custom:more:read", "sensitive": False}
    means = tomllib.loads((tmp_path / "accredit.toml").read_text())
    assert means["admin"] == {"port": 9464}
    assert means["servers"]["mail"]["proxy"] == "nginx"
    assert "DELETE /v1/messages/{id}" in means["servers"]["mail"]["routes"]
    assert (means["servers"]["more"]["url"], means["servers"]["more"]["path"]) == ("http://127.0.0.1:9/x", "/api/more")
    run(tmp_path, "add", "tools", "--", python(), str(MAIL_SERVER))
    assert "tools" in json.loads((tmp_path / "accredit.lock").read_text())["servers"]
    run(tmp_path, "check", "mail", "--openapi", "openapi.json")
    assert "name one of mail, more" in run(tmp_path, "check", "--openapi", "openapi.json", code=2)
    assert "--openapi DOCUMENT" in run(tmp_path, "check", "mail", code=2)


def test_an_existing_server_keeps_its_catalog_when_an_api_joins_it(tmp_path: Path) -> None:
    document(tmp_path, "https://api.example/v1")
    old = '[upstream]\nurl = "http://127.0.0.1:9/mcp"\n[tools.send]\nscope = "email:send"\n[proofs]\nmode = "observe"\n'
    (tmp_path / "accredit.toml").write_text(old)
    assert "--name-existing" in run(tmp_path, "add", "api", "--openapi", "openapi.json", code=2)
    run(tmp_path, "add", "api", "--openapi", "openapi.json", "--name-existing", "mail")
    servers = tomllib.loads((tmp_path / "accredit.toml").read_text())["servers"]
    assert servers["mail"]["tools"] == {"send": {"scope": "email:send"}}
    assert servers["api"]["protocol"] == "http"
    assert not (tmp_path / "accredit.lock").exists()


def test_check_fails_for_drift__and_fix_writes_what_is_missing(tmp_path: Path) -> None:
    document(tmp_path, "https://api.example/v1")
    run(tmp_path, "init", "--openapi", "openapi.json", "--server", "mail")
    document(tmp_path, "https://api.example/v1", **{"/keys": {"get": {}}, "/messages": {"post": {}}})
    told = run(tmp_path, "check", "--openapi", "openapi.json", code=1)
    assert "GET /keys: it has no route, and it is refused: accredit check --fix writes one" in told
    assert "GET /messages: no operation of the document, which has POST there" in told
    told = run(tmp_path, "check", "mail", "--openapi", "openapi.json", "--fix", code=1)
    assert "2 routes of mail" in told
    assert "GET /keys:" not in told


class Documents:
    """A server that has documents, and notes what it is asked for."""

    def __init__(self, answers: dict[str, tuple[int, dict[str, str], bytes]]) -> None:
        self.asked: list[tuple[str, dict[str, str]]] = []
        asked = self.asked

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
                status, headers, body = answers[self.path]
                self.send_response(status)
                for name, value in {**headers, "content-length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self) -> "Documents":
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()


def test_a_document_is_fetched_without_the_apis_token__and_its_relative_server_is_beside_it(tmp_path: Path) -> None:
    found = json.dumps({"openapi": "3.0.3", "servers": [{"url": "/v1"}], "paths": PATHS}).encode()
    away = {"location": "http://localhost.example/x"}
    answers = {
        "/docs/openapi.json": (200, {}, found),
        "/moved": (307, {"location": "/docs/openapi.json"}, b""),
        "/away": (307, away, b""),
        "/gone": (404, {}, b"no"),
    }
    with Documents(answers) as there:
        run(tmp_path, "init", "--openapi", f"{there.url}/docs/openapi.json", "--server", "a", "--dir", "a")
        assert tomllib.loads((tmp_path / "a/accredit.toml").read_text())["servers"]["a"]["url"] == f"{there.url}/v1"
        words = ("--openapi", f"{there.url}/moved", "https://mine.example", "--server", "b", "--dir", "b")
        done = accredit("init", *words, "--token-env", "TOKEN", folder=tmp_path, env={"TOKEN": "secret-token"})
        assert done.returncode == 0, done.stderr
        assert not [headers for _, headers in there.asked if "secret-token" in str(headers)]
        assert [path for path, _ in there.asked] == ["/docs/openapi.json", "/moved", "/docs/openapi.json"]
        for path in ("/away", "/gone"):
            told = run(tmp_path, "init", "--openapi", f"{there.url}{path}", "--server", "c", "--dir", "c", code=2)
            assert "no OpenAPI document from" in told
            assert not (tmp_path / "c").exists()
