"""The facts that the checks judge: values found in a configuration and its environment, or why they are unknown. No
I/O."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from accredit.config.load import Loaded
from accredit.gateway.settings import GatewaySettings
from accredit.ops.doctor.engine import Found
from accredit.stores import StoreUrl
from accredit.stores.postgres.condition import DatabaseCondition
from accredit.stores.rules import DiskSpace, SchemaState


class FileFound(NamedTuple):
    """A file that the configuration names: its role, and whether it is secret. `fault` says what is wrong with its
    permissions ("" if nothing), and `command` fixes that. `is_there` says whether the file exists."""

    what: str
    path: Path
    is_secret: bool
    fault: str = ""
    command: str = ""
    is_there: bool = True
    is_others: bool = False
    """Whether the only fault is that the file has another owner."""


class SinkFound(NamedTuple):
    """A sink of the log, and the time of the first entry that it lacks (unix seconds; None if it has all)."""

    name: str
    waiting_since: int | None


class Process(NamedTuple):
    """A process of the gateway: its user, and its limit of descriptors."""

    pid: int
    user: int
    descriptors: int


class HealthReport(NamedTuple):
    """The status and parts that the gateway reports at /readyz."""

    status: str
    parts: Mapping[str, bool]


class Facts(NamedTuple):
    """Everything that the checks judge by."""

    loaded: Loaded
    now: int
    """The current time in unix seconds."""
    settings: Found[Sequence[GatewaySettings]]
    store: Found[StoreUrl]
    files: Found[Sequence[FileFound]]
    certificate_until: Found[int | None]
    """When the endpoint's certificate expires (unix seconds); None without one."""
    lists: Found[tuple[int, int]]
    """How many revocation lists are in force, and how many certificates they revoke."""
    database: Found[DatabaseCondition | None]
    file_schema: Found[SchemaState | None]
    disk_space: Found[DiskSpace]
    sinks: Found[Sequence[SinkFound]]
    drilled: Found[int | None]
    """The time of the last recorded drill (unix seconds); None if there is none."""
    is_synchronised: Found[bool]
    """Whether the kernel reports a synchronized clock."""
    health: Found[HealthReport]
    processes: Found[Sequence[Process]]
    listens_outside: Found[bool]
    """Whether the gateway's port is open on an address that others can reach."""
