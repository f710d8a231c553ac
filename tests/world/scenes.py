"""An agent before a real gateway whose log an auditor is given: one server, or several. I/O: sockets on 127.0.0.1,
processes, the log."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, NamedTuple

from tests.world.audited import Audited
from tests.world.authorization import GATEWAY, SCOPES, TARGETS, Signed, Trust, challenge_in
from tests.world.calls import Posted, initialize, post
from tests.world.many_servers import Several
from tests.world.raw_client import RawAnswer
from tests.world.routes import Route, messages_of
from tests.world.sealed import FORMS
from tests.world.tasks_server import EXTENDED

from accredit.jsonrpc.methods import Era


class Caller:
    """An agent before a gateway. `send` posts; `session` and `gateway` are what its proofs are bound to."""

    def __init__(
        self,
        trust: Trust,
        era: Era,
        send: Callable[[Posted], Awaitable[RawAnswer]],
        session: str,
        gateway: str = GATEWAY,
    ) -> None:
        self.trust, self.era, self.session, self.gateway = trust, era, session, gateway
        self.chain = trust.chain()
        self.send = send

    def proved(self, method: str, params: dict[str, Any], **signed: Any) -> dict[str, Any]:
        """The params with a proof that is bound to them."""
        target = params.get(TARGETS.get(method, ""), "").rpartition("__")[2]
        default = SCOPES.get(target) if method == "tools/call" else None
        members: dict[str, Any] = {"session": self.session, "gateway": self.gateway, "scope": default, **signed}
        return {**params, "_meta": {"ratify_proof": self.trust.proof(self.chain, method, params, Signed(**members))}}

    async def tell(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The answer to a request as it is."""
        answer = await self.send(post(self.era, method, params, capabilities=EXTENDED | FORMS))
        assert answer.status == 200, answer
        return messages_of(answer)[-1]

    async def ask(self, method: str, params: dict[str, Any], **signed: Any) -> dict[str, Any]:
        """The result of a request with a proof. Who is asked to sign a challenge does so."""
        answer = await self.tell(method, self.proved(method, params, **signed))
        if answer.get("error", {}).get("code") == -31002:
            signed["challenge"] = challenge_in(answer["error"])
            answer = await self.tell(method, self.proved(method, params, **signed))
        assert "result" in answer, answer
        return answer["result"]

    async def refused(self, method: str, params: dict[str, Any]) -> str:
        """The word for which a request is refused."""
        answer = await self.tell(method, params)
        return answer["error"]["data"]["error"]

    async def make_task(self, name: str = "list_inbox") -> dict[str, Any]:
        """The params that name a task, which a call has become."""
        params: dict[str, Any] = {"name": name, "arguments": {}}
        made = await self.ask("tools/call", params | ({"task": {"ttl": 60_000}} if self.era is Era.LEGACY else {}))
        return {"taskId": (made.get("task") or made)["taskId"]}


class Scene(NamedTuple):
    """Whose calls are recorded where."""

    trust: Trust
    audited: Audited
    era: Era

    def before(self, way: str = "http", **settings: Any) -> Route:
        """A gateway with one server, on the log."""
        folder, records = self.audited.folder, self.audited.records()
        return Route(f"{way}-{self.era.value}", self.trust, folder, records=records, **settings)

    @asynccontextmanager
    async def route(self, way: str = "http", **settings: Any) -> AsyncGenerator[Caller]:
        """An agent before such a gateway."""
        async with self.before(way, **settings) as route:
            yield Caller(self.trust, self.era, route.send, route.session)

    @asynccontextmanager
    async def several(self, name: str = "", **settings: Any) -> AsyncGenerator[Caller]:
        """An agent before one endpoint of a gateway with several servers: that of all of them, or of the named one."""
        records = self.audited.records()
        async with Several(self.trust, merge=True, records=records, **settings) as several:
            answer = await several.send(name, initialize()) if self.era is Era.LEGACY else None
            session = (answer.header("mcp-session-id") or "") if answer is not None else ""
            send = partial(several.send, name, session=session)
            yield Caller(self.trust, self.era, send, session, f"{GATEWAY}/{name}".removesuffix("/"))
