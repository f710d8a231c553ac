"""Ways through the gateway, with one face: to call, and to see what reached the server. I/O: loopback, processes."""

import json
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.world.authorization import GATEWAY, Trust
from tests.world.calls import ERAS, Posted, compact, initialize, post
from tests.world.changing_server import ChangingServer
from tests.world.honest_server import HonestServer
from tests.world.outcome_server import OutcomeServer
from tests.world.raw_client import RawAnswer, RawClient
from tests.world.raw_server import RawServer
from tests.world.running import RunningGateway
from tests.world.tasks_server import TasksServer
from tests.world.warm import python

from accredit.gateway import create_app
from accredit.gateway.settings import GatewaySettings, HttpUpstream, RecordSettings, StdioUpstream
from accredit.jsonrpc.methods import Era
from accredit.jsonrpc.sse import SseParser
from accredit.net.client_documents import ClientDocuments
from accredit.ports import AskStore, DoorStore, KeySets, ProofStore, Records, TaskStore
from accredit.stores import MemoryStore, RevocationLists
from accredit.telemetry.operations import Telemetry

ROUTES = [f"{kind}-{era.value}" for kind in ("http", "sse", "stdio") for era in ERAS]
"""HTTP to HTTP with JSON and with event streams, HTTP to stdio; both eras."""


class Route:
    """`async with Route(name, trust, folder) as route`. `session` is what a legacy client is known by,
    and `token` what it opens it with.

    With `serves_tasks` the server is a `TasksServer`, with `listed` a `ChangingServer` that reads this file. With
    `records` any other is an `OutcomeServer`, its notes are in `notes`, and the log that it looks into in `log`.
    """

    def __init__(
        self,
        name: str,
        trust: Trust,
        folder: Path,
        *,
        store: ProofStore | None = None,
        revocations: RevocationLists | None = None,
        records: Records | None = None,
        full: bool = False,
        keeps_proofs: bool = True,
        key_sets: KeySets | None = None,
        token: str | None = None,
        tasks: TaskStore | None = None,
        serves_tasks: bool = False,
        listed: Path | None = None,
        door: DoorStore | None = None,
        asks: AskStore | None = None,
        telemetry: Telemetry | None = None,
        **settings: Any,
    ) -> None:
        kind, _, era = name.partition("-")
        self.era = Era(era)
        self._kind = kind
        self._trust = trust
        self._settings = settings
        self._store = store
        self._key_sets = key_sets
        self._opened_with = token
        self._revocations = revocations
        self._records = records
        if records is not None:
            self._settings["records"] = RecordSettings(GATEWAY, full, keeps_proofs=keeps_proofs)
        self.log, self.notes = folder / "log.db", folder / "notes.jsonl"
        self._log = folder / "received.jsonl"
        self._tasks, self._door, self._asks, self._telemetry = tasks, door, asks, telemetry
        self._module = "tasks_server" if serves_tasks else "honest_server"
        self._server: TasksServer | HonestServer | ChangingServer
        self._server = (TasksServer if serves_tasks else HonestServer)(sse=kind == "sse")
        self._files = [str(self._log)]
        if listed is not None:
            self._module, self._server = "changing_server", ChangingServer(listed, sse=kind == "sse")
            self._files.append(str(listed))
        outcomes = records is not None and self._module == "honest_server"
        self._raw = RawServer(OutcomeServer(self.log, self.notes, sse=kind == "sse") if outcomes else self._server)
        self._ids = 0
        self.session = ""

    async def __aenter__(self) -> Self:
        upstream: HttpUpstream | StdioUpstream
        if self._kind == "stdio":
            module, files = self._module, self._files
            if self._records is not None and module == "honest_server":
                module, files = "outcome_server", [str(self.log), str(self.notes)]
            command = (python(), "-m", f"tests.world.{module}", *files)
            upstream = StdioUpstream(command, cwd=str(Path(__file__).parents[2]))
        else:
            await self._raw.__aenter__()
            upstream = HttpUpstream(self._raw.url)
        settings: GatewaySettings = self._trust.settings(upstream, **self._settings)
        lists = self._revocations or RevocationLists((), {})
        self.app = create_app(
            settings,
            store=self._store or MemoryStore(),
            revocations=lists,
            key_sets=self._key_sets,
            records=self._records,
            tasks=self._tasks,
            door=self._door,
            asks=self._asks,
            client_documents=ClientDocuments() if self._door is not None else None,
            telemetry=self._telemetry,
        )
        self._gateway = RunningGateway(self.app)
        await self._gateway.__aenter__()
        self.port = self._gateway.port
        try:
            await self._begin_session()
        except BaseException as error:
            await self.__aexit__(type(error), error, None)
            raise
        return self

    async def _begin_session(self) -> None:
        if self.era is Era.LEGACY:
            answer = await self.send(initialize(), token=self._opened_with)
            self.session = answer.header("mcp-session-id") or ""
            assert self.session, answer

    async def another_session(self, token: str) -> str:
        """The id of one more session, opened with this token; the route's own stays. "" in the modern era."""
        mine, self.session, self._opened_with = self.session, "", token
        await self._begin_session()
        mine, self.session = self.session, mine
        return mine

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._gateway.__aexit__(kind, error, trace)
        if self._kind != "stdio":
            await self._raw.__aexit__(kind, error, trace)

    async def send(self, posted: Posted, *, token: str | None = None) -> RawAnswer:
        """Posts anything, with a token in the header where there is one."""
        headers = [pair for pair in posted.headers if pair[0] != "Mcp-Session-Id"]
        if self.session:
            headers.append(("Mcp-Session-Id", self.session))
        if token is not None:
            headers.append(("Authorization", f"Bearer {token}"))
        async with RawClient(self.port) as client:
            await client.ask("POST", "/mcp", headers, posted.body)
            return await client.answer()

    async def ask(
        self, method: str, params: dict[str, Any], *, id: int | str | None = None, capabilities: Any = None
    ) -> dict[str, Any]:
        """A request; gives the response, however it came."""
        self._ids += 1
        asked = post(self.era, method, params, id=self._ids if id is None else id, capabilities=capabilities)
        answer = await self.send(asked)
        assert answer.status == 200, answer
        return messages_of(answer)[-1]

    async def batch(self, *members: dict[str, Any]) -> list[dict[str, Any]]:
        """A batch of the one revision that knows them; gives all responses."""
        asked = post(self.era)
        headers = [(name, "2025-03-26" if name == "MCP-Protocol-Version" else value) for name, value in asked.headers]
        answer = await self.send(Posted(headers, compact(list(members))))
        assert answer.status == 200, answer
        found = messages_of(answer)
        return [each for part in found for each in (part if isinstance(part, list) else [part])]

    def tells(self, *notifications: dict[str, Any]) -> None:
        """What a `TasksServer` sends on each stream, before the answer."""
        assert isinstance(self._server, TasksServer)
        self._server.tells[:] = notifications

    def bytes_received(self) -> bytes:
        """Every byte of what reached the server: heads as well, where it is behind HTTP."""
        if self._kind == "stdio":
            return self._log.read_bytes() if self._log.exists() else b""
        return b"".join(f"{each.target}{each.headers}".encode() + each.body for each in self._raw.requests)

    @property
    def url(self) -> str:
        """The server's, where it is behind HTTP."""
        return self._raw.url

    def headers_received(self, name: str) -> list[str]:
        """The values of a header of what reached the server, where it is behind HTTP."""
        return [value for each in self._raw.requests for key, value in each.headers if key == name]

    def received(self, *methods: str) -> list[dict[str, Any]]:
        """The messages that reached the server, in their order, of batches the members."""
        if self._kind == "stdio":
            lines = self._log.read_text("utf-8").splitlines() if self._log.exists() else []
            came: list[Any] = [json.loads(line) for line in lines]
        else:
            came = self._server.messages
        flat: list[dict[str, Any]] = []
        for message in came:
            flat += message if isinstance(message, list) else [message]
        return [message for message in flat if not methods or message.get("method") in methods]


def messages_of(answer: RawAnswer) -> list[Any]:
    """The messages of an answer, JSON or events."""
    if (answer.header("content-type") or "").startswith("text/event-stream"):
        events = SseParser(1 << 24).feed(answer.body)
        return [json.loads(event.data) for event in events if event.data]
    return [json.loads(answer.body)]
