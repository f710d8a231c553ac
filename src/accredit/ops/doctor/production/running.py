"""Asks the gateway on this machine for its health, and finds its processes. I/O: one connection to the configured
address, /proc.

- Connects to the configured address, with an allowed `Host` and no credential. The size of the answer is bounded.
- With TLS, only the configuration's own certificate is accepted, whatever names are in it.
- The gateway's processes are those with a socket that listens on its port. Only root can see other users' processes.
- Any listener on the port counts, whichever process it belongs to: command-line options may override the configuration.
"""

import os
import re
import socket
import ssl
from collections.abc import Iterator, Sequence
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import cast

import msgspec

from accredit.base.addresses import is_loopback_host
from accredit.config.schema import Config
from accredit.keys import read_file
from accredit.limits import HEALTH_SECONDS, MAX_HEALTH_BYTES, MAX_PEM_CHAIN_BYTES
from accredit.ops.doctor.engine import Found, Unknown
from accredit.ops.doctor.production.facts import HealthReport, Process

MAX_LOOKED_AT_DESCRIPTORS = 200_000
"""The most descriptors of this machine's processes that are searched for the gateway's listener."""


_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - it is asked there
_LISTENS = "0A"
_LOOPBACK = re.compile("[0-9A-F]{6}7F|0{24}01000000|0{16}FFFF0000[0-9A-F]{6}7F")
"""Matches loopback addresses as the kernel writes them, in 32-bit little-endian words: 127.0.0.0/8, ::1, and the former
mapped to IPv6."""
_SOCKET = re.compile(r"socket:\[(\d+)\]")
_LIMIT = re.compile(r"^Max open files\s+(\d+|unlimited)\s", re.MULTILINE)
_USER = re.compile(r"^Uid:\s+\d+\s+(\d+)", re.MULTILINE)
_UNLIMITED = 1 << 30
_NOT_RUNNING = "no gateway runs here that could be asked"


def health_found(config: Config) -> Found[HealthReport]:
    """Return what the gateway reports at /readyz."""
    gateway = config.gateway
    if gateway.port == 0:
        return Unknown("gateway.port is 0: nobody knows where it listens")
    host = _ANY.get(gateway.host, gateway.host).strip("[]")
    allowed = next((each for each in gateway.allowed_hosts if not is_loopback_host(each)), gateway.allowed_hosts[0])
    asked = f"GET /readyz HTTP/1.1\r\nHost: {allowed}\r\nConnection: close\r\n\r\n".encode("latin-1", "replace")
    try:
        with socket.create_connection((host, gateway.port), HEALTH_SECONDS) as plain:
            certificate = gateway.tls_cert_file
            with plain if certificate is None else _start_tls(plain, Path(certificate)) as connection:
                connection.sendall(asked)
                answer = HTTPResponse(connection)
                answer.begin()
                return _health(answer.status, answer.read(MAX_HEALTH_BYTES + 1))
    except ConnectionRefusedError:
        return Unknown(_NOT_RUNNING)
    except ssl.SSLCertVerificationError:
        return Unknown(
            "what answers has another certificate than tls_cert_file: start the gateway anew, or see who it is"
        )
    except (OSError, HTTPException, ValueError) as error:
        return Unknown(f"what listens there does not answer as a gateway ({type(error).__name__})")


def _start_tls(plain: socket.socket, certificate: Path) -> ssl.SSLSocket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    # Trust exactly this certificate, not others by the same issuer.
    first = read_file(certificate, MAX_PEM_CHAIN_BYTES).data.decode("ascii", "replace").partition("-----END")
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cadata=f"{first[0]}-----END CERTIFICATE-----\n")
    return context.wrap_socket(plain)


def _health(status: int, body: bytes) -> Found[HealthReport]:
    try:
        members = msgspec.json.decode(body, type=dict[str, object]) if status in (200, 503) else {}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        members = {}
    said, servers = members.get("status"), members.pop("servers", None)
    if not isinstance(said, str):
        return Unknown(f"what listens there does not answer as a gateway (status {status})")
    parts = {name: each for name, each in members.items() if isinstance(each, bool)}
    if isinstance(servers, dict):
        each_server = cast("dict[str, object]", servers)
        parts |= {f"server {name}": each for name, each in each_server.items() if isinstance(each, bool)}
    return HealthReport(said, parts)


def processes_found(config: Config) -> Found[Sequence[Process]]:
    """Return the processes that listen on the gateway's port."""
    if not Path("/proc/self/fd").is_dir():
        return Unknown("this system does not show which process listens where")
    inodes = {inode for _, inode in _listening(config.gateway.port)}
    if not inodes:
        return Unknown(_NOT_RUNNING)
    found = [each for pid in _holders(inodes) if (each := _process(pid)) is not None]
    return found or Unknown("the gateway is another user's: run this as that user, or as root")


def listens_outside(config: Config) -> Found[bool]:
    """Return whether the gateway's port is open on an address that others can reach."""
    if not Path("/proc/net/tcp").is_file():
        return Unknown("this system does not show what listens where")
    return any(_LOOPBACK.fullmatch(address) is None for address, _ in _listening(config.gateway.port))


def _listening(port: int) -> Iterator[tuple[str, str]]:
    """Yield the listening addresses of a port, in the kernel's notation, with their inodes."""
    for table in ("tcp", "tcp6"):
        try:
            lines = Path("/proc/net", table).read_text("ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            _, local, _, state, *rest = line.split()
            if state == _LISTENS and int(local.rpartition(":")[2], 16) == port:
                yield local.rpartition(":")[0], rest[5]


def _holders(inodes: set[str]) -> Iterator[int]:
    left = MAX_LOOKED_AT_DESCRIPTORS
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            names = os.listdir(folder / "fd")
        except OSError:
            continue
        left -= len(names)
        if left < 0:
            return
        for name in names:
            try:
                named = _SOCKET.fullmatch(os.readlink(folder / "fd" / name))
            except OSError:
                continue
            if named is not None and named[1] in inodes:
                yield int(folder.name)
                break


def _process(pid: int) -> Process | None:
    try:
        user = _USER.search(Path(f"/proc/{pid}/status").read_text())
        limit = _LIMIT.search(Path(f"/proc/{pid}/limits").read_text())
    except OSError:
        return None
    if user is None or limit is None:
        return None
    return Process(pid, int(user[1]), _UNLIMITED if limit[1] == "unlimited" else int(limit[1]))
