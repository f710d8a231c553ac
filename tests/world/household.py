"""A person's desk beside a real gateway whose store it names: delegations, agents that call, and a page to look with.
I/O: processes, files in the test's folder."""

import contextlib
import http.client
import json
import secrets
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

from tests.world.agents import AgentFiles, agent_files, save_delegation
from tests.world.authorization import Trust
from tests.world.command import Serving
from tests.world.connected import Connected
from tests.world.desk import Desk
from tests.world.raw_server import PATIENCE

from accredit.base.clock import unix_seconds
from accredit.keys import PrivateKeyFile, make_key, write_key
from accredit.ratify import DelegationCert, Grant, issue_delegation

DAY = 86_400
VOCABULARY = ("email:read", "email:send", "mcp:resource", "mcp:prompt", "mcp:tool", "identity:delegate")
INBOX = {"name": "list_inbox", "arguments": {}}


class Household:
    """The owner and their keys in the desk's folder, an agent, a sub-agent, and the gateway's files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.trust = Trust()
        self.sub = make_key("agent", "Helper", unix_seconds())
        self.config = folder / "config" / "accredit"
        self.config.mkdir(parents=True)
        write_key(self.config / "gateway.key", make_key("gateway", "mail", unix_seconds()))
        self.files: AgentFiles = agent_files(self.config, self.trust, "email:read")
        self.parent = self.trust.chain("email:read", "email:send", "identity:delegate")
        self.child = passed_on(self.trust.agent, self.sub, "email:read")
        save_delegation(self.config / "parent.json", self.parent)
        save_delegation(self.config / "helper.json", (self.child, *self.parent))
        write_key(self.config / "helper.key", self.sub)
        self.configuration = self.config / "accredit.toml"
        text = self.configuration.read_text("utf-8").replace('"memory:"', '"sqlite:///gateway.db"')
        self.configuration.write_text(text + '[attest]\nmode = "durable"\nkey_file = "gateway.key"\n', "utf-8")
        (self.config / "desk.toml").write_text('[desk]\nstore = "sqlite:///gateway.db"\n', "utf-8")

    @contextlib.contextmanager
    def gateway(self) -> Generator[Serving]:
        """The gateway, as it runs."""
        with Serving("--config", "accredit.toml", folder=self.config) as serving:
            yield serving

    def desk(self, *arguments: str) -> Desk:
        """The person's desk."""
        return Desk(self.folder, *arguments, owner=self.trust.owner)

    def calls(self, gateway: Serving, who: str = "agent", delegation: str = "parent") -> Any:
        """An agent reads the inbox; the result, or the error."""
        key, held = self.config / f"{who}.key", self.config / f"{delegation}.json"
        options = ("--key", str(key), "--delegation", str(held), "--ask", "off")
        with Connected(self.config, gateway.url, *options) as host:
            host.initialize()
            told = host.ask("tools/call", INBOX)
            return told.get("result") or told["error"]


def passed_on(issuer: PrivateKeyFile, to: PrivateKeyFile, *scope: str, cert_id: str = "") -> DelegationCert:
    """A certificate by which an agent passes on what it holds."""
    now = unix_seconds()
    grant = Grant(
        subject=to.public_key,
        cert_id=cert_id or secrets.token_hex(16),
        scope=scope,
        issued_at=now - 60,
        expires_at=now + 3_600,
    )
    return issue_delegation(issuer.signer(), grant, vocabulary=VOCABULARY)


class Told:
    """A page's requests without a browser: signed in by the desk's link."""

    def __init__(self, url: str, port: int, link: str) -> None:
        self.url, self.port = url, port
        self.headers = {"origin": url, "sec-fetch-site": "same-origin", "content-type": "application/json"}
        key = link.rpartition("#k=")[2]
        bearer = self.send("/api/login", {"key": key})[1]["bearer"]
        self.headers["authorization"] = f"Bearer {bearer}"

    def get(self, path: str) -> tuple[int, Any]:
        """Reads."""
        return self._request("GET", path, None, {})

    def send(self, path: str, said: object, **headers: str | None) -> tuple[int, Any]:
        """Writes; a header of None is left out."""
        return self._request("POST", path, json.dumps(said), headers)

    def _request(self, method: str, path: str, body: str | None, headers: Mapping[str, str | None]) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        sent = {name: value for name, value in {**self.headers, **headers}.items() if value is not None}
        connection.request(method, path, body, sent)
        answer = connection.getresponse()
        said = json.loads(answer.read())
        connection.close()
        return answer.status, said


def told_by(desk: Desk) -> Told:
    """A page of this desk."""
    return Told(desk.url, desk.port, desk.new_link())
