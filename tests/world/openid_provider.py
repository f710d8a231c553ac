"""A real identity provider, the registry's `oidc-provider` on Node, and a front door where people log in at it. I/O:
`npm` once, a process, sockets on loopback, files in the test's folder."""

import contextlib
import fcntl
import os
import secrets
import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import httpx2
import pytest
from tests.conformance.node import NodeMissing, find_node
from tests.world.agents import save_delegation
from tests.world.front_door import Browser, FrontDoor

from accredit.base.clock import unix_seconds
from accredit.keys import make_key, write_key
from accredit.ratify import Grant, issue_delegation
from accredit.ratify.scopes import DELEGATE

_HERE = Path(__file__).parent / "openid"
_INSTALL_SECONDS = 300
GROUPS = '{ "mail-users" = ["email:read"], "searchers" = ["email:search"], "senders" = ["email:send"] }'


class Provider:
    """The provider, while it runs. `people` have names and groups, by their `sub`; the one who is `here` is logged in
    without a page."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.here = "ada"
        self.people: dict[str, dict[str, Any]] = {"ada": {"name": "Ada", "groups": ["mail-users", "searchers"]}}

    def tell(self, here: str | None = None, **groups: list[str] | None) -> None:
        """Changes who is here, and people's groups; None: that person is gone."""
        self.here = self.here if here is None else here
        for name, of_person in groups.items():
            if of_person is None:
                del self.people[name]
            else:
                self.people[name] = {"name": name.title(), "groups": of_person}
        answer = httpx2.put(f"{self.url}/test", json={"here": self.here, "people": self.people}, trust_env=False)
        assert answer.status_code == 204


class LoginDoor(FrontDoor):
    """A front door where people log in at `issuer`."""

    def __init__(self, folder: Path, port: int, issuer: str, more: str = "") -> None:
        idp = (
            f'registration = true\nconsent = "idp"\n{more}\n[oauth.idp]\nissuer = "{issuer}"\nclient_id = "accredit"\n'
            f'client_secret = {{ file = "idp.secret" }}\nkey_file = "front.key"\ndelegation = "front.json"\n'
            f"groups = {GROUPS}\n"
        )
        super().__init__(folder, port, idp)
        self.secret = secrets.token_urlsafe(32)
        (folder / "idp.secret").write_text(self.secret + "\n", "ascii")
        (folder / "idp.secret").chmod(0o600)
        self.front = make_key("agent", "Front", unix_seconds())
        write_key(folder / "front.key", self.front)
        scopes = ("email:read", "email:search", "email:send", DELEGATE)
        now = unix_seconds()
        self.passed_on = secrets.token_hex(16)
        grant = Grant(
            subject=self.front.public_key,
            cert_id=self.passed_on,
            scope=scopes,
            issued_at=now - 5,
            expires_at=now + 86_400,
        )
        save_delegation(folder / "front.json", (issue_delegation(self.trust.owner.signer(), grant, vocabulary=scopes),))

    @property
    def callback(self) -> str:
        """Where the provider sends browsers back to."""
        return f"{self.url}/oauth/login"

    async def follow(self, browser: Browser, url: str, until: str = "") -> None:
        """A browser visits a URL, and follows redirects until it is sent to a URL that begins with `until`, or to a
        client, or has a page."""
        await browser.get(url)
        while browser.location and not browser.location.startswith(until or "http://127.0.0.1:1/"):
            await browser.get(url := urljoin(url, browser.location))


@contextlib.contextmanager
def running_provider(port: int, door: LoginDoor) -> Generator[Provider]:
    """The provider, on a reserved port, that knows one client: the door."""
    try:
        node = find_node()
    except NodeMissing:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("Node with npm is missing")
        raise
    with (_HERE / "package.json").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (_HERE / "node_modules" / "oidc-provider").exists():
            install = [*node.npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
            subprocess.run(install, cwd=_HERE, check=True, timeout=_INSTALL_SECONDS, stdout=subprocess.DEVNULL)
    command = [node.node, str(_HERE / "provider.mjs"), str(port), door.callback, door.secret]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            while (line := process.stdout.readline().strip()) != "ready":
                assert line or process.poll() is None, "the provider has ended"
            provider = Provider(f"http://127.0.0.1:{port}")
            provider.tell()
            yield provider
        finally:
            process.kill()
