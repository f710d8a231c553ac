"""What the checklist goes by: what was found out of a configuration and the place where it runs, or why it was not. No
I/O.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from accredit.config import Loaded
from accredit.gateway.settings import GatewaySettings
from accredit.stores import StoreUrl
from accredit.stores.postgres.condition import DatabaseCondition

T = TypeVar("T")


class Unknown(NamedTuple):
    """Why something could not be found out."""

    why: str


Found = T | Unknown


class FileFound(NamedTuple):
    """A file that the configuration names: what it is, whether it is a secret, and what is wrong with its rights ("" if
    nothing), with the command that mends it; `is_there` is whether there is such a file at all."""

    what: str
    path: Path
    is_secret: bool
    fault: str = ""
    command: str = ""
    is_there: bool = True
    is_others: bool = False
    """Whether the fault is only that somebody else than who asks owns it."""


class SinkFound(NamedTuple):
    """Whom the log is sent on to, and when the first entry was made that it does not have (unix seconds; None if it has
    all)."""

    name: str
    waiting_since: int | None


class LogFound(NamedTuple):
    """What a log says: to whom it is sent on."""

    sinks: tuple[SinkFound, ...]


class FileStore(NamedTuple):
    """An SQLite file: its schema's version (None if there is no file yet)."""

    schema: int | None


class Room(NamedTuple):
    """Bytes of the file system that the store is on."""

    free: int
    size: int


class Process(NamedTuple):
    """A process of the gateway: its user, and how many descriptors it may have."""

    pid: int
    user: int
    descriptors: int


class Health(NamedTuple):
    """What the gateway says at /readyz: its status and its parts."""

    status: str
    parts: Mapping[str, bool]


class Facts(NamedTuple):
    """All of it."""

    loaded: Loaded
    now: int
    """Unix seconds."""
    settings: Found[Sequence[GatewaySettings]]
    store: Found[StoreUrl]
    files: Found[Sequence[FileFound]]
    certificate_until: Found[int | None]
    """When the endpoint's certificate ends (unix seconds); None without one."""
    lists: Found[tuple[int, int]]
    """Revocation lists in force, and certificates in them."""
    database: Found[DatabaseCondition | None]
    file_store: Found[FileStore | None]
    room: Found[Room]
    log: Found[LogFound]
    drilled: Found[int | None]
    """When the last drill was recorded (unix seconds)."""
    is_synchronised: Found[bool]
    """Whether the kernel says that the clock is kept in step."""
    health: Found[Health]
    processes: Found[Sequence[Process]]
    listens_outside: Found[bool]
    """Whether something listens on the gateway's port at an address that is not this machine's alone."""
