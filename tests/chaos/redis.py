"""Redis with a replica, as far as it takes to show that the checker sees it forget. I/O: processes, sockets."""

import asyncio
import contextlib
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from pathlib import Path

from tests.chaos.checker import FIRST, SPENT, UNKNOWN, Operation
from tests.world.command import accepts
from tests.world.ports import reserved_port
from tests.world.replicated import wait_for

_CHALLENGES = 50
_DURABLE = ("--appendonly", "yes", "--appendfsync", "always", "--save", "", "--repl-diskless-sync-delay", "0")


class Server:
    """One `redis-server`, in a folder of its own."""

    def __init__(self, port: int, folder: str, *options: str) -> None:
        self.port = port
        self.process = subprocess.Popen(
            ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", folder, *_DURABLE, *options],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        wait_for(lambda: accepts(port), "redis-server has not started")

    async def ask(self, *words: str) -> bytes:
        """The first line of an answer."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(f"*{len(words)}\r\n".encode() + b"".join(f"${len(w)}\r\n{w}\r\n".encode() for w in words))
            return (await reader.readline()).strip()
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


@contextlib.contextmanager
def pair() -> Generator[tuple[Server, Server]]:
    """A primary, and the replica that follows it."""
    with contextlib.ExitStack() as stack:
        servers: list[Server] = []
        for number in range(2):
            folder = tempfile.mkdtemp(prefix="accredit-redis-")
            stack.callback(shutil.rmtree, Path(folder), ignore_errors=True)
            port = stack.enter_context(reserved_port())
            options = ("--replicaof", "127.0.0.1", str(servers[0].port)) if number else ()
            servers.append(Server(port, folder, *options))
            stack.callback(servers[-1].process.wait)
            stack.callback(servers[-1].process.kill)
        yield servers[0], servers[1]


async def failover() -> list[Operation]:
    """The history of challenges that are spent while the replica is cut off; then the primary is lost."""
    loop, history = asyncio.get_running_loop(), list[Operation]()

    async def spend(server: Server, challenge: str, client: str) -> None:
        begun = loop.time()
        said = await server.ask("SET", challenge, client, "NX")
        answer = {b"+OK": FIRST, b"$-1": SPENT}.get(said, UNKNOWN)
        history.append(Operation(challenge, begun, loop.time(), answer, client))

    challenges = [secrets.token_hex(4) for _ in range(_CHALLENGES)]
    with pair() as (primary, replica):
        for _ in range(600):
            if b"state=online" in await _replication(primary):
                break
            await asyncio.sleep(0.1)
        await replica.ask("REPLICAOF", "127.0.0.1", "1")  # it is cut off: nobody answers there
        for challenge in challenges:
            await spend(primary, challenge, "one")
        primary.process.kill()
        primary.process.wait()
        await replica.ask("REPLICAOF", "NO", "ONE")
        for challenge in challenges:
            await spend(replica, challenge, "other")
    return history


async def _replication(server: Server) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"INFO replication\r\n")
    text = await reader.readuntil(b"master_repl_offset")
    writer.close()
    await writer.wait_closed()
    return text
