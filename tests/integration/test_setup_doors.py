"""`accredit init` and `check` at URLs that are not quite right, locked, or of the older transport."""

import json
import ssl
import subprocess
import sys
import threading
import tomllib
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tests.world import sse_server
from tests.world.agents import MAIL_SERVER
from tests.world.certificates import write_certificate
from tests.world.command import Serving, accredit, environment, wait_until
from tests.world.connected import Connected
from tests.world.ports import reserved_port
from tests.world.raw_server import PATIENCE
from tests.world.warm import Warm, python

from accredit.keys import make_key, write_key

pytestmark = pytest.mark.holds("asking/probe")

TOKEN = {"DOOR_TOKEN": "sesame"}


class Door(BaseHTTPRequestHandler):
    """An MCP server at `/mcp/` for who brings the token; `/mcp` leads there, `/away` to another server."""

    teams: ClassVar[list[str | None]] = []

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.teams.append(self.headers["X-Team"])
        if self.path == "/mcp":
            self._answer(307, Location="/mcp/")
        elif self.path == "/away":
            self._answer(308, Location="http://127.0.0.1:9/mcp?key=secret")
        elif self.path == "/round":
            self._answer(307, Location="/round")
        elif self.path != "/mcp/":
            self._answer(404)
        elif self.headers["Authorization"] != "Bearer sesame":
            self._answer(401, b"", **{"WWW-Authenticate": "Bearer"})
        elif "id" not in asked:
            self._answer(202)
        else:
            self._answer(200, json.dumps({"jsonrpc": "2.0", "id": asked["id"], **_result(asked)}).encode())

    def do_GET(self) -> None:
        self._answer(405)

    def _answer(self, status: int, body: bytes = b"", /, **headers: str) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Type": "application/json", "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def _result(asked: dict[str, Any]) -> dict[str, Any]:
    match asked["method"]:
        case "initialize":
            info = {"name": "door", "version": "1"}
            return {"result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}}
        case "tools/list":
            return {"result": {"tools": [{"name": "open", "inputSchema": {"type": "object"}}]}}
        case _:
            return {"error": {"code": -32601, "message": "Method not found"}}


@pytest.fixture(scope="module")
def door() -> Generator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.mark.slow
def test_a_redirect_is_followed_at_init__the_right_url_is_written_and_the_token_by_its_name(
    door: str, tmp_path: Path
) -> None:
    done = accredit("init", f"{door}/mcp", "--token-env", "DOOR_TOKEN", folder=tmp_path, env=TOKEN)
    assert done.returncode == 0, done
    assert f"the server is at {door}/mcp/" in done.stderr
    text = (tmp_path / "accredit.toml").read_text("utf-8")
    headers = {"Authorization": {"env": "DOOR_TOKEN", "scheme": "Bearer"}}
    assert tomllib.loads(text)["upstream"] == {"url": f"{door}/mcp/", "headers": headers}
    assert "sesame" not in text
    assert accredit("check", folder=tmp_path, env=TOKEN).returncode == 0
    assert "DOOR_TOKEN" in accredit("check", folder=tmp_path).stderr


@pytest.mark.parametrize(
    ("command", "path", "words"),
    [
        ("init", "/mcp/", "wants authorization (HTTP 401)"),
        ("check", "/mcp/", "--token-env NAME"),
        ("init", "/away", "redirects to another server, http://127.0.0.1:9/mcp, and that is not followed"),
        ("init", "/round", "redirects again and again"),
        ("check", "/mcp", "and a gateway follows no redirects"),
        ("init", "/nothing", "Not Found"),
    ],
)
def test_what_is_wrong_with_a_url_is_told_in_words(
    command: str, path: str, words: str, door: str, tmp_path: Path
) -> None:
    done = accredit(command, f"{door}{path}", folder=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr
    assert "secret" not in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["init", "check"])
def test_headers_reach_the_server_that_is_asked(command: str, door: str, tmp_path: Path) -> None:
    Door.teams.clear()
    options = ("--token-env", "DOOR_TOKEN", "--header", "X-Team=mail")
    accredit(command, f"{door}/mcp/", *options, folder=tmp_path, env=TOKEN)
    assert set(Door.teams) == {"mail"}


@pytest.mark.slow
def test_a_certificate_that_is_not_trusted_is_told_with_what_helps(tmp_path: Path) -> None:
    write_certificate(tmp_path)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        url = f"https://127.0.0.1:{server.server_address[1]}/mcp/"
        done = accredit("init", url, "--dir", "guarded", folder=tmp_path)
        assert done.returncode == 2
        assert "certificate" in done.stderr
        assert "SSL_CERT_FILE" in done.stderr
        assert not (tmp_path / "guarded").exists()
        trusting = {**TOKEN, "SSL_CERT_FILE": str(tmp_path / "cert.pem")}
        options = ("--dir", "guarded", "--token-env", "DOOR_TOKEN")
        assert accredit("init", url, *options, folder=tmp_path, env=trusting).returncode == 0
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_headers_are_for_a_url(tmp_path: Path) -> None:
    done = accredit("init", "--header", "X-Team=mail", "--", "cat", folder=tmp_path)
    assert done.returncode == 2
    assert "a command reads no headers" in done.stderr


def test_a_redirect_of_the_upstream_is_in_the_gateways_log_in_words(door: str, tmp_path: Path) -> None:
    with Serving(f"{door}/mcp", folder=tmp_path) as gateway:
        done = accredit("check", gateway.url, folder=tmp_path)
        assert done.returncode == 2
        assert "status 307 to /mcp/ (upstream.url has to name it)" in done.stderr
        wait_until(lambda: "a redirect to the same path with a slash at its end" in gateway.stderr)


@pytest.mark.slow
@pytest.mark.parametrize("beside", ["sse", "mcp"])
def test_a_server_of_the_older_transport_is_set_up__and_the_gateway_serves_it(beside: str, tmp_path: Path) -> None:
    with Warm(
        [sys.executable, str(sse_server.__file__)], stdout=subprocess.PIPE, env=environment(), text=True
    ) as server:
        try:
            assert server.stdout is not None
            url = server.stdout.readline().strip()
            done = accredit("init", url.removesuffix("sse") + beside, folder=tmp_path)
            assert done.returncode == 0, done
            assert tomllib.loads((tmp_path / "accredit.toml").read_text("utf-8"))["upstream"] == {"url": url}
            assert accredit("check", folder=tmp_path).returncode == 0
            assert (
                accredit("keys", "new", "owner.key", "--kind", "human", "--no-passphrase", folder=tmp_path).returncode
                == 0
            )
            with (
                Serving("--config", "accredit.toml", folder=tmp_path) as gateway,
                Connected(tmp_path, gateway.url) as host,
            ):
                host.initialize()
                assert host.ask("tools/list")["result"]["tools"]
        finally:
            server.kill()
            server.wait(PATIENCE)


def test_a_gateway_for_hosts_that_log_in_is_made_whole__and_doctor_and_drill_are_not_kept_out(tmp_path: Path) -> None:
    """Without a proof all is 401 there, also what these ask: they would call a good gateway a bad one."""
    wrong = accredit("init", "--oauth", "http://mcp.example.com", "--", "nothing", folder=tmp_path)
    assert (wrong.returncode, "oauth.public_url" in wrong.stderr, [*tmp_path.iterdir()]) == (2, True, [])
    with reserved_port() as port:
        url = f"http://127.0.0.1:{port}"
        made = accredit("init", "--oauth", url, "--", python(), str(MAIL_SERVER), folder=tmp_path)
        assert made.returncode == 0, made.stderr
        assert f"do so at {url}" in made.stdout
        assert (tmp_path / "cluster.keys").stat().st_mode & 0o777 == 0o600
        configuration = tmp_path / "accredit.toml"
        configuration.write_text(configuration.read_text("utf-8").replace("port = 8484", f"port = {port}"), "utf-8")
        write_key(tmp_path / "owner.key", make_key("human", "Owner", 1_700_000_000))
        with Serving("--config", "accredit.toml", "--port", str(port), folder=tmp_path):
            env = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
            looked = accredit("doctor", "--config", "accredit.toml", folder=tmp_path, env=env)
            for good in (f"gateway: {url} is ok", f"do so at {url}"):
                assert good in " ".join(looked.stdout.split()), looked.stdout
            drilled = accredit("drill", "--issuer", "owner.key", "--config", "accredit.toml", folder=tmp_path)
            assert drilled.returncode == 0, drilled.stdout + drilled.stderr
