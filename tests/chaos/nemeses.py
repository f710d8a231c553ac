"""What goes wrong in a run, each by its name. I/O: the machines that are given.

Each begins with everything in order and ends with everything repaired, as an operator repairs it: servers are started
and promoted, and gateways only where they were ended. While it lasts agents call.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable, Set
from typing import NamedTuple, TypeVar

from tests.chaos.agents import LOST, RESET, UNKNOWN
from tests.chaos.fleet import Fleet, Gateway
from tests.chaos.network import Loopback
from tests.world.postgres import faketime
from tests.world.replicated import Replicated

T = TypeVar("T")
_RELOADS = 20
"""How often gateways are told to reload in one run; a third of these find a file that is broken."""
_WAITING = "FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND application_name = 'accredit'"
_OURS = "FROM pg_stat_activity WHERE application_name = 'accredit'"


class Machines(NamedTuple):
    """All that there is."""

    network: Loopback
    servers: Replicated
    fleet: Fleet
    seconds: float
    """How long something lasts."""
    notes: list[str]


class Nemesis(NamedTuple):
    """`may` be are, beside answers and refusals, errors that leave it open what became of a call, and lost
    connections where it is a gateway that is taken from clients."""

    play: Callable[[Machines], Awaitable[None]]
    may: Set[str] = frozenset({UNKNOWN})
    needs: str = ""
    """"namespaces", "disks", "clocks", "records" or "balancer"."""


async def quiet(machines: Machines) -> None:
    """Nothing goes wrong."""
    await asyncio.sleep(machines.seconds)


async def kill_gateway(machines: Machines) -> None:
    """A gateway is killed, and started again."""
    gateway = machines.fleet.gateways["g2"]
    await _do(gateway.kill)
    await asyncio.sleep(machines.seconds)
    await _do(gateway.start)


async def stop_gateway(machines: Machines) -> None:
    """A gateway stands still, and goes on."""
    gateway = machines.fleet.gateways["g3"]
    gateway.send(signal.SIGSTOP)
    await asyncio.sleep(machines.seconds)
    gateway.send(signal.SIGCONT)


async def rolling_restart(machines: Machines) -> None:
    """One gateway after the other is ended as a deployment ends it, and started again."""
    for gateway in machines.fleet.gateways.values():
        code = await _do(gateway.stop)
        assert code == 0, f"{gateway.name} ended with {code}"
        await _do(gateway.start)
        await asyncio.sleep(1)


async def reload(machines: Machines) -> None:
    """All gateways are told again and again to read their configurations, which change between two of these."""
    files = {name: each.folder / "accredit.toml" for name, each in machines.fleet.gateways.items()}
    texts = {name: file.read_text("utf-8") for name, file in files.items()}
    for number in range(_RELOADS):
        for name, gateway in machines.fleet.gateways.items():
            more = f'\n[tools.unused_{number}]\nscope = "un:used"\n' if number % 2 else "\n[broken"
            files[name].write_text(texts[name] + (more if number % 3 else ""), "utf-8")
            gateway.send(signal.SIGHUP)
        await asyncio.sleep(machines.seconds / _RELOADS)
    for name, gateway in machines.fleet.gateways.items():
        files[name].write_text(texts[name], "utf-8")
        gateway.send(signal.SIGHUP)
    await asyncio.sleep(1)


async def kill_log(machines: Machines) -> None:
    """The process that writes a gateway's log is killed."""
    for gateway in machines.fleet.gateways.values():
        for pid in gateway.children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await asyncio.sleep(machines.seconds / 3)


async def kill_backend(machines: Machines) -> None:
    """A server's process for one connection is killed, and with it, as the server sees to, all others."""
    primary = machines.servers.primary
    pid = (await _do(primary.run, f"SELECT pid {_OURS} LIMIT 1")).strip()
    with contextlib.suppress(ProcessLookupError):
        os.kill(int(pid), signal.SIGKILL)
    await asyncio.sleep(machines.seconds)


async def end_connections(machines: Machines) -> None:
    """An administrator ends all connections of gateways, again and again."""
    for _ in range(10):
        await _do(machines.servers.primary.ask, f"SELECT pg_terminate_backend(pid) {_OURS}")
        await asyncio.sleep(machines.seconds / 10)


async def kill_primary(machines: Machines) -> None:
    """The primary is lost; a standby is promoted."""
    await _do(machines.servers.primary.kill)
    await asyncio.sleep(1)
    await _do(machines.servers.promote)
    await asyncio.sleep(machines.seconds)


async def switch_over(machines: Machines) -> None:
    """A standby is promoted, and the old primary ended, without a pause between."""
    await _do(machines.servers.promote)
    await asyncio.sleep(machines.seconds)


async def crash_primary(machines: Machines) -> None:
    """The primary is killed, and started again as it is."""
    primary = machines.servers.primary
    await _do(primary.kill)
    await asyncio.sleep(1)
    await _do(primary.start)
    await asyncio.sleep(machines.seconds)


async def stop_primary(machines: Machines) -> None:
    """The primary stands still, and goes on."""
    machines.servers.primary.pause()
    await asyncio.sleep(machines.seconds)
    machines.servers.primary.resume()


async def stop_and_promote(machines: Machines) -> None:
    """The primary stands still, a standby is promoted, and then the old one goes on beside the new one."""
    old = machines.servers.primary
    old.pause()
    await asyncio.sleep(1)
    await _do(lambda: machines.servers.promote(isolated=True))
    await asyncio.sleep(machines.seconds / 2)
    old.resume()
    await asyncio.sleep(machines.seconds)


async def isolate_primary(machines: Machines) -> None:
    """The primary is cut off from its standbys and not from its clients; a standby is promoted."""
    old, standbys = machines.servers.primary, machines.servers.standbys
    if machines.network.can_cut:
        for node in standbys:
            await _do(machines.network.cut, old.name, node.name)
    else:
        await _do(machines.servers.cut, *standbys)
    await asyncio.sleep(1)
    await _do(lambda: machines.servers.promote(isolated=True))
    await asyncio.sleep(2 * machines.seconds)


async def stop_standbys(machines: Machines) -> None:
    """Both standbys stand still: no commit ends."""
    standbys = machines.servers.standbys
    for node in standbys:
        node.pause()
    await asyncio.sleep(machines.seconds)
    for node in standbys:
        node.resume()


async def cancel_waits(machines: Machines) -> None:
    """An administrator cancels the waits for standbys that are gone; then the primary is lost."""
    await _lose_waits(machines, "pg_cancel_backend")


async def end_waits(machines: Machines) -> None:
    """An administrator ends the connections that wait for standbys that are gone; then the primary is lost."""
    await _lose_waits(machines, "pg_terminate_backend")


async def _lose_waits(machines: Machines, how: str) -> None:
    await _do(machines.servers.cut, *machines.servers.standbys)
    for _ in range(20):
        await _do(machines.servers.primary.ask, f"SELECT {how}(pid) {_WAITING}")
        await asyncio.sleep(machines.seconds / 20)
    await _do(machines.servers.primary.kill)
    await _do(machines.servers.promote)
    await asyncio.sleep(machines.seconds)


async def fill_disk(machines: Machines) -> None:
    """The primary's disk is full, and stays so for a while."""
    primary = machines.servers.primary
    ballast = primary.data.parent / "ballast"
    with ballast.open("ab", buffering=0) as file:
        for _ in range(20):
            with contextlib.suppress(OSError):
                while file.write(bytes(1 << 20)) == 1 << 20:
                    pass
            await asyncio.sleep(machines.seconds / 10)
    ballast.unlink()


async def slow_lines(machines: Machines) -> None:
    """What the primary and a gateway send comes late, and some of it not at all."""
    how = await _do(machines.network.slow, machines.servers.primary.name, "g1")
    machines.notes.append(f"slow lines: {how}")
    await asyncio.sleep(2 * machines.seconds)


async def half_open(machines: Machines) -> None:
    """A gateway and the primary don't reach each other any more, and neither is told."""
    machines.network.cut("g1", machines.servers.primary.name)
    await asyncio.sleep(2 * machines.seconds)


async def clocks_off(machines: Machines) -> None:
    """Gateways' clocks are set off by 10 seconds, one each way, then by 10 minutes, then right again."""
    files = {name: machines.fleet.folder / f"clock-{name}" for name in ("g1", "g2")}
    for name in files:
        files[name].write_text("+0\n")
        await _restarted(machines.fleet.gateways[name], {"FAKETIME_TIMESTAMP_FILE": str(files[name]), **_faked()})
    for off in (10, 600, 0):
        files["g1"].write_text(f"+{off}\n")
        files["g2"].write_text(f"-{off}\n")
        await asyncio.sleep(machines.seconds)
    for name in files:
        await _restarted(machines.fleet.gateways[name], {})


async def _restarted(gateway: Gateway, environment: dict[str, str]) -> None:
    """Kills and starts one: with the library that fakes the time Python's way of waiting for a process fails."""
    gateway.environment = environment
    await _do(gateway.kill)
    await _do(gateway.start)


def _faked() -> dict[str, str]:
    return {"LD_PRELOAD": str(faketime()), "FAKETIME_CACHE_DURATION": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


async def clock_of_the_new_primary(machines: Machines) -> None:
    """A standby whose clock is ahead by 10 minutes is promoted; then the other one is, whose clock is right."""
    servers = machines.servers
    for node in servers.standbys:
        node.environment = {"FAKETIME": "+600" if node is servers.standbys[0] else "+0", **_faked()}
        await _do(node.kill)
        await _do(node.start)
    ahead, right = servers.standbys
    await _do(servers.cut, right)  # so that the one which is ahead has received the most
    await asyncio.sleep(1)
    await _do(servers.promote)
    assert servers.primary is ahead, "the one that had received less was promoted"
    await asyncio.sleep(machines.seconds)
    await _do(servers.promote)
    await asyncio.sleep(machines.seconds / 2)
    for node in (ahead, right):
        node.environment = {}


async def _do(what: Callable[..., T], *arguments: object) -> T:
    return await asyncio.to_thread(what, *arguments)


_NONE, _ANY = frozenset[str](), frozenset({UNKNOWN, LOST, RESET})
NEMESES: dict[str, Nemesis] = {
    "quiet": Nemesis(quiet, _NONE),
    "rolling-restart": Nemesis(rolling_restart, frozenset({RESET}), needs="balancer"),
    "reload": Nemesis(reload, _NONE),
    "kill-gateway": Nemesis(kill_gateway, _ANY),
    "clocks": Nemesis(clocks_off, _ANY, needs="clocks"),
    "stop-gateway": Nemesis(stop_gateway),
    "kill-log": Nemesis(kill_log, needs="records"),
    "kill-backend": Nemesis(kill_backend),
    "end-connections": Nemesis(end_connections),
    "kill-primary": Nemesis(kill_primary),
    "crash-primary": Nemesis(crash_primary),
    "switch-over": Nemesis(switch_over),
    "stop-primary": Nemesis(stop_primary),
    "stop-and-promote": Nemesis(stop_and_promote),
    "isolate-primary": Nemesis(isolate_primary),
    "stop-standbys": Nemesis(stop_standbys),
    "cancel-waits": Nemesis(cancel_waits),
    "end-waits": Nemesis(end_waits),
    "full-disk": Nemesis(fill_disk, needs="disks"),
    "slow-lines": Nemesis(slow_lines, needs="namespaces"),
    "half-open": Nemesis(half_open, needs="namespaces"),
    "database-clock": Nemesis(clock_of_the_new_primary, needs="clocks"),
}
