"""Where each machine of a run is: in a network namespace of its own, or on 127.0.0.1 beside the others.

I/O: processes, and namespaces that end with this process. They need root and Linux' `ip`; this process is then in one
itself, which is the switch between the others (`go_inside`). There a line between two machines can be cut without a
word to either of them, as by a cable that is pulled, or made slow.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from tests.world.ports import reserved_port
from tests.world.replicated import Place

INSIDE = "ACCREDIT_CHAOS_INSIDE"
NETWORK = "10.99.0."
_NOWHERE = "02:00:00:00:00:01"
_TRIAL = "ip link set lo up && ip link add br0 type bridge && ip link add v0 type veth peer name v1"
_DELAYED = (
    ("netem", "delay", "30ms", "20ms", "loss", "2%"),
    ("tbf", "rate", "400kbit", "burst", "4kb", "limit", "8kb"),
)
"""Lines that delay and lose packets: as they are told to where the kernel knows `netem`, else by having little room."""


class Loopback:
    """All machines on 127.0.0.1, each with its own ports."""

    name = "separate processes on 127.0.0.1 (network namespaces need root, `ip` and `unshare`)"
    can_cut = False

    def __init__(self) -> None:
        self._ports = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ports.close()

    def place(self, machine: str, port: int) -> Place:
        """A place for a program on a machine; here the port is any that is free."""
        return Place("127.0.0.1", self._ports.enter_context(reserved_port()))

    def cut(self, one: str, other: str) -> None:
        """Has nothing that one of them sends reach the other."""
        raise NotImplementedError

    def slow(self, *machines: str) -> str:
        """Makes the lines of machines slow and lossy; gives how."""
        raise NotImplementedError

    def heal(self) -> None:
        """Makes all lines whole and quick."""


class Namespaces(Loopback):
    """Each machine in a namespace, and this process in the one that joins them."""

    name = "network namespaces, one for each machine"
    can_cut = True

    def __init__(self) -> None:
        super().__init__()
        self._machines: dict[str, subprocess.Popen[bytes]] = {}
        self._cuts: list[tuple[str, str]] = []
        self._slow: list[str] = []
        _run("ip", "link", "add", "br0", "type", "bridge")
        _run("ip", "address", "add", f"{NETWORK}1/24", "dev", "br0")
        _run("ip", "link", "set", "br0", "up")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for holder in self._machines.values():
            holder.communicate()
        super().__exit__(kind, error, trace)

    def place(self, machine: str, port: int) -> Place:
        """A place on a machine, which is made when it is first named; "switch" is this process's own."""
        if machine == "switch":
            return Place(f"{NETWORK}1", port)
        if machine not in self._machines:
            self._add(machine)
        return Place(self._address(machine), port, self._within(machine))

    def cut(self, one: str, other: str) -> None:
        """Has each of two machines send to an address that nobody has what is for the other."""
        for here, there in ((one, other), (other, one)):
            self._on(here, "ip", "neigh", "replace", self._address(there), "lladdr", _NOWHERE, "dev", "eth0")
            self._cuts.append((here, there))

    def slow(self, *machines: str) -> str:
        """Makes what machines send slow, and some of it get lost."""
        kind = next(each for each in _DELAYED if self._shaped(machines[0], each))
        for machine in machines[1:]:
            assert self._shaped(machine, kind)
        self._slow.extend(machines)
        return " ".join(kind)

    def heal(self) -> None:
        """Makes all lines whole and quick."""
        for here, there in self._cuts:
            self._on(here, "ip", "neigh", "del", self._address(there), "dev", "eth0")
        for machine in self._slow:
            self._on(machine, "tc", "qdisc", "del", "dev", "eth0", "root")
        self._cuts, self._slow = [], []

    def _shaped(self, machine: str, kind: Sequence[str]) -> bool:
        command = [*self._within(machine), "tc", "qdisc", "add", "dev", "eth0", "root", *kind]
        return subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode == 0

    def _add(self, machine: str) -> None:
        holder = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "echo; read _"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert holder.stdout is not None
        holder.stdout.readline()
        self._machines[machine] = holder
        outside = f"v-{machine}"
        _run("ip", "link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", str(holder.pid))
        _run("ip", "link", "set", outside, "master", "br0", "up")
        self._on(machine, "ip", "address", "add", f"{self._address(machine)}/24", "dev", "eth0")
        self._on(machine, "ip", "link", "set", "eth0", "up")
        self._on(machine, "ip", "link", "set", "lo", "up")

    def _address(self, machine: str) -> str:
        return f"{NETWORK}{10 + list(self._machines).index(machine)}"

    def _within(self, machine: str) -> Sequence[str]:
        return ("nsenter", f"--net=/proc/{self._machines[machine].pid}/ns/net", "--")

    def _on(self, machine: str, *words: str) -> None:
        _run(*self._within(machine), *words)


def go_inside(arguments: Sequence[str]) -> None:
    """Runs this program anew in a namespace, where that is allowed; else returns."""
    if os.environ.get(INSIDE) or os.geteuid() or not all(map(shutil.which, ("ip", "unshare", "nsenter", "tc"))):
        return
    inside = ["unshare", "--net", "--mount", "--propagation", "private"]
    if subprocess.run([*inside, "sh", "-c", _TRIAL], check=False, stderr=subprocess.DEVNULL).returncode == 0:
        os.environ[INSIDE] = "yes"
        # what is killed leaves things in shared memory, which are gone with this namespace
        begin = ["sh", "-c", 'ip link set lo up; mount -t tmpfs shm /dev/shm; exec "$@"', "sh"]
        os.execvp("unshare", [*inside, *begin, sys.executable, "-m", "tests.chaos", *arguments])


def network() -> Loopback:
    """What there is."""
    return Namespaces() if os.environ.get(INSIDE) else Loopback()


def _run(*words: str) -> None:
    subprocess.run(words, check=True)
