"""An HTTP API, what its agents prove, and proxies in front of it that ask the gateway. I/O: loopback, processes."""

import contextlib
import json
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterable
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from secrets import token_bytes
from typing import Any, NamedTuple, Self

from tests.world.authorization import GATEWAY, Trust
from tests.world.command import wait_until
from tests.world.raw_server import PATIENCE

from accredit.app.admin import AdminApp
from accredit.base.clock import unix_seconds
from accredit.client import ProofPresenter
from accredit.gateway.app import Gateway
from accredit.gateway.front.asgi import AsgiExchange
from accredit.gateway.front.endpoint import answer
from accredit.gateway.settings import AUTHORIZE_PATH, ApiUpstream, GatewaySettings, ProofSettings
from accredit.http_api.call import Protocol, request_hash, session_context
from accredit.http_api.facts import http_facts
from accredit.http_api.routes import RouteTable
from accredit.http_api.wire import encode_proof_header
from accredit.keys import write_key
from accredit.policy.catalog import Catalog, Entry
from accredit.ratify import DelegationCert, encode_proof_bundle, present
from accredit.telemetry.board import Board

NAME = "mail"
VERIFIER = f"{GATEWAY}/{NAME}"
ENTRIES = {
    "GET /messages": Entry(scope="email:read"),
    "GET /messages/{id}": Entry(scope="email:read"),
    "POST /messages/{id}/send": Entry(scope="email:send"),
    "DELETE /messages/{id}": Entry(scope="custom:delete", marked_sensitive=True),
    "POST /pay": Entry(scope="payments:send", facts=http_facts({"amount": "query:amount", "currency": "EUR"})),
    "GET /admin/keys": Entry(scope="custom:admin"),
}
SCOPES = {route: entry.scope for route, entry in ENTRIES.items()}
KNOWN = ("custom:delete", "custom:admin", "payments:send")


def api_settings(trust: Trust, api: ApiUpstream, policy: dict[str, Any] | None = None, **more: Any) -> GatewaySettings:
    """The settings of the API."""
    catalog = Catalog(routes=ENTRIES)
    given = {"verifier_id": VERIFIER, "catalog": catalog, "binding_required": True, "server": NAME, **(policy or {})}
    proofs = ProofSettings(trust.policy(**given), required=not given.get("observes"))
    members: dict[str, Any] = {"path": AUTHORIZE_PATH + NAME, **more}
    return GatewaySettings(api, server=NAME, proofs=proofs, **members)


def asked_by(proxy: Any) -> ApiUpstream:
    """The API behind another proxy."""
    return ApiUpstream("authorize", RouteTable(ENTRIES), proxy)


def proof_for(
    trust: Trust,
    method: str,
    target: str,
    scope: str,
    *,
    body: bytes = b"",
    protocol: Protocol = "authorize",
    verifier: str = VERIFIER,
    chain: Iterable[DelegationCert] | None = None,
    challenge: bytes | None = None,
) -> str:
    """The value of the header with a proof for one request."""
    asked = request_hash(method, target, sha256(body).digest(), scope)
    context = session_context(protocol, verifier, trust.agent.id, asked)
    found = tuple(chain) if chain is not None else trust.chain("email:read", "email:send", *KNOWN, known=KNOWN)
    made = present(found, trust.agent.signer(), challenge or token_bytes(32), unix_seconds(), session_context=context)
    return encode_proof_header(encode_proof_bundle(made)).decode()


class Answered(NamedTuple):
    """What an ASGI application said."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def said(self) -> dict[str, Any]:
        """The problem."""
        return json.loads(self.body)


async def ask(
    gateway: Gateway,
    headers: Iterable[tuple[str, str]],
    *,
    method: str = "GET",
    path: str = AUTHORIZE_PATH + NAME,
    query: str = "",
) -> Answered:
    """What the admin listener answers to a proxy's question."""
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode("latin-1"),
        "query_string": query.encode("latin-1"),
        "headers": [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers],
    }
    exchange = AsgiExchange(scope, receive, send, gateway.routes.rooms)
    await answer(exchange, AdminApp(gateway, Board(1), "127.0.0.1").serve)
    told = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return Answered(sent[0]["status"], told, b"".join(each.get("body", b"") for each in sent[1:]))


class EchoApi:
    """An API that notes each request line and its headers, and answers 200, or with `says`: a status and headers."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, dict[str, str]]] = []
        self.says: tuple[int, dict[str, str]] = (200, {})
        seen, api = self.seen, self

        class Handler(BaseHTTPRequestHandler):
            def _answer(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                body = self.rfile.read(length)
                seen.append((self.requestline, {name.lower(): value for name, value in self.headers.items()}))
                status, headers = api.says
                self.send_response(status)
                for name, value in {**headers, "content-length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_DELETE = do_PUT = do_HEAD = _answer

            def log_message(self, format: str, *args: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


_NGINX = """
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log warn;
events {{ }}
http {{
  access_log off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port};
    large_client_header_buffers 4 192k;
    auth_request /_ratify;
    auth_request_set $who $upstream_http_accredit_identity;
    location / {{
      proxy_set_header Ratify-Proof "";
      proxy_set_header Accredit-Identity $who;
      proxy_pass http://127.0.0.1:{api};
    }}
    location = /_ratify {{
      internal;
      auth_request off;
      proxy_pass http://127.0.0.1:{admin}/v1/ratify/authorize/mail;
      proxy_pass_request_body off;
      proxy_set_header Content-Length "";
      proxy_set_header X-Original-Method $request_method;
      proxy_set_header X-Original-URI $request_uri;
      proxy_buffer_size 64k; proxy_buffers 4 64k; proxy_busy_buffers_size 64k;
    }}
  }}
}}
"""
_CADDY = """
{{
  admin off
  auto_https off
}}
http://127.0.0.1:{port} {{
  forward_auth 127.0.0.1:{admin} {{
    uri /v1/ratify/authorize/mail
    copy_headers Accredit-Identity
  }}
  request_header -Ratify-Proof
  reverse_proxy 127.0.0.1:{api}
}}
"""


class AskingProxy:
    """A real proxy in front of an API, which asks at a gateway's admin listener."""

    def __init__(self, kind: str, folder: Path, *, port: int, api: int, admin: int) -> None:
        self.port = port
        configuration = folder / f"{kind}.conf"
        text = {"nginx": _NGINX, "caddy": _CADDY}[kind]
        configuration.write_text(text.format(folder=folder, port=port, api=api, admin=admin))
        command = {
            "nginx": ["nginx", "-e", str(folder / "error.log"), "-c", str(configuration)],
            "caddy": ["caddy", "run", "--config", str(configuration), "--adapter", "caddyfile"],
        }[kind]
        environment = {"HOME": str(folder), "PATH": "/usr/sbin:/usr/bin:/bin"}
        self._errors = (folder / f"{kind}.log").open("wb")
        self._process = subprocess.Popen(command, env=environment, stdout=self._errors, stderr=self._errors)

    def __enter__(self) -> Self:
        wait_until(self._listens)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(PATIENCE)
        self._errors.close()

    def _listens(self) -> bool:
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", self.port)) == 0


def is_there(proxy: str) -> bool:
    """Whether a proxy is installed."""
    return shutil.which(proxy, path="/usr/sbin:/usr/bin:/bin") is not None


def raw_request(port: int, line: str, headers: Iterable[tuple[str, str]] = (), body: bytes = b"") -> tuple[int, str]:
    """The status and the whole answer to a request line sent as it is."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as client:
        fields = [("Host", f"127.0.0.1:{port}"), ("Connection", "close"), *headers]
        if body:
            fields.append(("Content-Length", str(len(body))))
        head = "".join(f"{name}: {value}\r\n" for name, value in fields)
        client.sendall(f"{line} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + body)
        answer = b""
        with contextlib.suppress(ConnectionError):  # whoever refuses a long head does not read its end
            while chunk := client.recv(65_536):
                answer += chunk
    text = answer.decode("latin-1")
    return (int(text.split(" ", 2)[1]) if text else 0), text


def write_gateway(folder: Path, trust: Trust, proxy: str, more: str = "") -> Path:
    """The files of a gateway that a proxy asks."""
    write_key(folder / "owner.key", trust.owner)
    routes = "".join(
        f"[servers.{NAME}.routes.{json.dumps(route)}]\nscope = {json.dumps(entry.scope)}\n"
        f"sensitive = {str(entry.marked_sensitive).lower()}\n"
        for route, entry in ENTRIES.items()
    )
    file = folder / "accredit.toml"
    file.write_text(
        f'[gateway]\nid = "{GATEWAY}"\n[admin]\nport = 0\n[proofs]\nmode = "required"\n'
        '[[proofs.roots]]\nname = "Owner"\npublic_key_file = "owner.key.pub"\n'
        f'[servers.{NAME}]\nprotocol = "authorize"\nproxy = "{proxy}"\n{more}{routes}'
    )
    return file


def presenter_of(trust: Trust, folder: Path, *scope: str) -> ProofPresenter:
    """The agent's means of proof, with a delegation of the owner's."""
    write_key(folder / "agent.key", trust.agent)
    return ProofPresenter(folder / "agent.key", [trust.chain(*scope, known=KNOWN)])
