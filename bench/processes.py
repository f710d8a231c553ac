"""Upstream, nginx and gateway: each a process that is started for the length of a `with` block."""

import contextlib
import getpass
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from bench.errors import BenchError

ROOT = Path(__file__).resolve().parent.parent
NGINX = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")

_START_SECONDS = 30.0
_STOP_SECONDS = 10.0
_POLL_SECONDS = 0.02
_LISTENING = re.compile(r"listening on (http://\S+)")


@dataclass(frozen=True, slots=True)
class Server:
    """A running server: where it answers, and the process that it and its children descend from."""

    url: str
    pid: int


@contextlib.contextmanager
def upstream(module: str, folder: Path) -> Generator[Server, None, None]:
    """One of our own upstreams, which print where they listen."""
    command = [sys.executable, "-m", f"bench.{module}"]
    with _running(command, ROOT, os.environ, folder / f"{module}.log") as process:
        yield Server(_announced(process, folder / f"{module}.log"), process.pid)


@contextlib.contextmanager
def gateway(upstream_url: str, folder: Path) -> Generator[Server, None, None]:
    """`accredit serve` with its defaults."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ACCREDIT_")}
    command = [str(Path(sys.executable).with_name("accredit")), "serve", upstream_url, "--port", "0"]
    log = folder / "gateway.log"
    with _running(command, folder, environment, log) as process:
        yield Server(_announced(process, log), process.pid)


@contextlib.contextmanager
def configured(
    toml: str,
    folder: Path,
    name: str,
    *,
    command: Sequence[str] = (str(Path(sys.executable).with_name("accredit")),),
    options: Sequence[str] = (),
    patience: float = _START_SECONDS,
) -> Generator[Server, None, None]:
    """`accredit serve` with a configuration file of its own in `folder` and these options; `command` stands in for
    `accredit`, and has `patience` seconds to start."""
    stem = re.sub(r"[^a-z]+", "-", name.lower())
    file, log = folder / f"{stem}.toml", folder / f"{stem}.log"
    file.write_text(toml)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ACCREDIT_")}
    with _running([*command, "serve", "--config", str(file), *options], folder, environment, log) as process:
        yield Server(_announced(process, log, patience), process.pid)


@contextlib.contextmanager
def nginx(upstream_url: str, folder: Path) -> Generator[Server, None, None]:
    """nginx with its own defaults, but for keep-alive to the upstream and no files for large answers."""
    if NGINX is None:
        raise BenchError("nginx is not installed")
    port = free_port()
    config = folder / "nginx.conf"
    config.write_text(_nginx_config(port, urlsplit(upstream_url).netloc, folder))
    log = folder / "nginx.log"
    command = [NGINX, "-p", str(folder), "-c", str(config), "-e", str(log), "-g", "daemon off;"]
    with _running(command, folder, os.environ, log) as process:
        _wait_open(process, port, log)
        yield Server(f"http://127.0.0.1:{port}/mcp", process.pid)


@contextlib.contextmanager
def proxy(command: Sequence[str], port: int, log: Path) -> Generator[Server, None, None]:
    """A proxy of any make, which listens on `port`."""
    with _running([*command], ROOT, os.environ, log) as process:
        _wait_open(process, port, log)
        yield Server(f"http://127.0.0.1:{port}/mcp", process.pid)


def _nginx_config(port: int, target: str, folder: Path) -> str:
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = "\n".join(f"  {kind}_temp_path {folder}/{kind};" for kind in kinds)
    # Started as root, nginx would run its worker as somebody who may not read this folder.
    user = f"user {getpass.getuser()};" if os.getuid() == 0 else ""
    return f"""{user}
worker_processes 1;
pid {folder}/nginx.pid;
events {{ worker_connections 1024; }}
http {{
  access_log off;
{temporary}
  keepalive_requests 1000000000;
  client_max_body_size 4m;
  upstream mcp {{ server {target}; keepalive 64; keepalive_requests 1000000000; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://mcp;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_max_temp_file_size 0;
    }}
  }}
}}
"""


@contextlib.contextmanager
def _running(
    command: list[str], folder: Path, environment: Mapping[str, str], log: Path
) -> Generator[subprocess.Popen[bytes], None, None]:
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _announced(process: subprocess.Popen[bytes], log: Path, patience: float = _START_SECONDS) -> str:
    """The URL that the process has printed, as soon as it has."""
    for _ in _until_started(process, log, patience):
        found = _LISTENING.search(log.read_text(errors="replace"))
        if found is not None:
            return found[1]
    raise AssertionError


def _wait_open(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    for _ in _until_started(process, log):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
            return


def _until_started(process: subprocess.Popen[bytes], log: Path, patience: float = _START_SECONDS) -> Iterator[None]:
    """Yields until the caller has seen what it waits for; raises when the process ended or takes too long."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline and process.poll() is None:
        yield
        time.sleep(_POLL_SECONDS)
    raise BenchError(f"{process.args!r} did not start: {log.read_text(errors='replace')[-500:]}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
