"""Gateways that share a database, as operators run them, and HAProxy in front. I/O: processes, files, sockets."""

import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.world.authorization import Trust
from tests.world.command import Serving, accepts, accredit
from tests.world.replicated import DATABASE, GATEWAYS, Place, Replicated, wait_for
from tests.world.warm import COMMAND

from accredit.keys import write_key

ID = "mail-gateway"
_CONFIGURATION = """
[gateway]
id = "{id}"
host = "{place.host}"
port = {place.port}
allowed_hosts = ["127.0.0.1", "{place.host}"]
drain_seconds = 2
grace_seconds = 5
[upstream]
url = "{upstream}"
[proofs]
mode = "required"
{roots}
[tools.send_email]
scope = "email:send"
sensitive = true
[cluster]
keys_file = "cluster.keys"
[attest]
mode = "{records}"
key_file = "gateway.key"
[store]
url = "{store}"
replicas = "{replicas}"
"""
PUBLIC_URL = "https://mcp.example.com"
_DOOR = f"""
[tools.list_inbox]
scope = "email:read"
[oauth]
enabled = true
public_url = "{PUBLIC_URL}"
registration = true
"""
_ROOT = """
[[proofs.roots]]
name = "Owner {number}"
public_key_file = "owner{number}.key.pub"
"""
_BALANCER = """
global
  maxconn 2000
defaults
  mode http
  timeout connect 1s
  timeout client 60s
  timeout server 60s
  timeout check 4s
frontend all
  bind {place.host}:{place.port}
  default_backend gateways
backend gateways
  balance roundrobin
  option redispatch
  option httpchk
  http-check send meth GET uri {check} hdr Host 127.0.0.1
  default-server check inter 500ms fall 1 rise 1
"""


class Gateway:
    """One `accredit serve`; it is started anew at the same place after it was ended."""

    def __init__(self, name: str, place: Place, folder: Path, command: Sequence[str], env: Mapping[str, str]) -> None:
        self.name = name
        self.place = place
        self.folder = folder
        self._command = (*place.within, *command)
        self.environment = env
        """More of the environment that it is started with."""
        self._serving: Serving | None = None
        self.ended: list[str] = []
        """What those wrote to stderr that have ended."""

    @property
    def pid(self) -> int:
        """Its process."""
        assert self._serving is not None
        return self._serving.process.pid

    @property
    def children(self) -> set[int]:
        """The processes that it has started: the one that writes the log."""
        assert self._serving is not None
        return self._serving.workers

    @property
    def running(self) -> bool:
        """Whether its process is there."""
        return self._serving is not None and self._serving.process.poll() is None

    @property
    def stderr(self) -> str:
        """What it and those before it wrote."""
        return "".join([*self.ended, self._serving.stderr if self._serving else ""])

    def start(self) -> None:
        """Starts it, and waits until it listens."""
        arguments = ["--config", "accredit.toml", "--port", str(self.place.port)]
        if self.place.within:
            arguments.append("--insecure")
        serving = Serving(*arguments, folder=self.folder, env=self.environment, command=self._command)
        self._serving = serving.__enter__()

    def kill(self) -> None:
        """Kills it and all that it has started."""
        if self._serving is not None:
            self._serving.__exit__(None, None, None)
            self.ended.append(self._serving.stderr)
            self._serving = None

    def stop(self) -> int:
        """Has it end, and gives its exit code."""
        assert self._serving is not None
        self._serving.stop()
        code = self._serving.wait()
        self.kill()
        return code

    def send(self, number: signal.Signals) -> None:
        """Sends it a signal."""
        assert self._serving is not None
        self._serving.stop(number)


class Fleet:
    """The gateways, the keys that they trust, and what is in front of them."""

    def __init__(
        self,
        folder: Path,
        servers: Replicated,
        places: Mapping[str, Place],
        upstream: str,
        *,
        records: str = "off",
        replicas: str = "required",
        command: Sequence[str] = COMMAND,
        env: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        """`places` are the gateways', and "balancer" is HAProxy's; `env` is more of the environment by gateway."""
        self.folder = folder
        self.trusts = [Trust(), Trust()]
        self.records = records
        self._replicas = replicas
        self._balancer: subprocess.Popen[bytes] | None = None
        self._balancer_at = places.get("balancer")
        hosts = ",".join(f"{node.place.host}:{node.place.port}" for node in servers.nodes.values())
        self.store = f"postgresql://{GATEWAYS}@{hosts}/{DATABASE}"
        self.gateways = {
            name: Gateway(name, place, self._prepared(name, place, upstream), command, (env or {}).get(name, {}))
            for name, place in places.items()
            if name != "balancer"
        }

    @property
    def doors(self) -> dict[str, Place]:
        """Where clients may ask, by name."""
        found = {name: gateway.place for name, gateway in self.gateways.items()}
        if self._balancer is not None and self._balancer_at is not None:
            found["balancer"] = self._balancer_at
        return found

    def start(self, check: str = "/readyz") -> None:
        """Starts the gateways, and HAProxy where there is one, which asks them at `check` whether they are well."""
        for gateway in self.gateways.values():
            gateway.start()
        if self._balancer_at is not None:
            servers = [f"  server {each.name} {each.place.host}:{each.place.port}\n" for each in self.gateways.values()]
            file = self.folder / "haproxy.cfg"
            file.write_text(_BALANCER.format(place=self._balancer_at, check=check) + "".join(servers))
            self._balancer = subprocess.Popen(
                [*self._balancer_at.within, "haproxy", "-db", "-f", str(file)],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            at = self._balancer_at
            wait_for(lambda: accepts(at.port, at.host), "haproxy has not started")

    def stop_recording(self) -> None:
        """Starts the gateways again without records, for what would record the same hundreds of thousands of times."""
        self.records = "off"
        self._again(lambda text: text.replace('mode = "durable"', 'mode = "off"'))

    def let_apps_in(self) -> None:
        """Starts the gateways again with a front door."""
        self._again(lambda text: text + _DOOR)

    def _again(self, edit: Callable[[str], str]) -> None:
        for gateway in self.gateways.values():
            gateway.stop()
            file = gateway.folder / "accredit.toml"
            file.write_text(edit(file.read_text()))
            gateway.start()

    def close(self) -> None:
        """Ends all."""
        if self._balancer is not None:
            self._balancer.kill()
            self._balancer.wait()
        for gateway in self.gateways.values():
            gateway.kill()

    def _prepared(self, name: str, place: Place, upstream: str) -> Path:
        folder = self.folder / name
        folder.mkdir()
        for number, trust in enumerate(self.trusts):
            write_key(folder / f"owner{number}.key", trust.owner)
        keys = folder / "cluster.keys"
        keys.write_text("YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWE=\n")
        keys.chmod(0o600)
        assert accredit("keys", "new", "gateway.key", "--kind", "gateway", folder=folder).returncode == 0
        roots = "".join(_ROOT.format(number=number) for number in range(len(self.trusts)))
        text = _CONFIGURATION.format(
            id=ID, place=place, upstream=upstream, roots=roots, records=self.records, store=self.store,
            replicas=self._replicas,
        )  # fmt: skip
        (folder / "accredit.toml").write_text(text)
        return folder


def has_balancer() -> bool:
    """Whether HAProxy is installed."""
    return shutil.which("haproxy") is not None
