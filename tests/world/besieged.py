"""A gateway under attack, as operators run it: `accredit serve` with proofs required and durable records.

I/O: files in the test's folder, processes, sockets on 127.0.0.1.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.world.authorization import GATEWAY, Signed, Trust
from tests.world.calls import Posted, http, post, response
from tests.world.command import Serving, accredit
from tests.world.patient_stores import COMMAND, IMPORTS
from tests.world.raw_client import RawAnswer, RawClient
from tests.world.raw_server import Connection
from tests.world.recorded import calls_of

from accredit.jsonrpc.methods import Era
from accredit.keys import write_key

_CONFIGURATION = """
[gateway]
id = "{id}"
{gateway}
[upstream]
{upstream}
[proofs]
mode = "required"
[[proofs.roots]]
name = "Owner"
public_key_file = "owner.key.pub"
[attest]
mode = "durable"
key_file = "gateway.key"
[store]
url = "sqlite:///{db}"
"""

Answering = Callable[[Connection, bytes], Awaitable[None]]


class Besieged:
    """The files of one, and the calls that an agent makes through it. `trust` is whose delegations count."""

    def __init__(
        self, folder: Path, trust: Trust, upstream: str, *, db: Path | None = None, gateway: str = "", more: str = ""
    ) -> None:
        """`upstream` is the table's content, `gateway` more of `[gateway]`, `more` what comes behind all."""
        self.folder = folder
        self.trust = trust
        self.db = db or folder / "accredit.db"
        self.answered: list[str] = []
        self._chain = trust.chain("mcp:resource")
        assert accredit("keys", "new", "gateway.key", "--kind", "gateway", folder=folder).returncode == 0
        write_key(folder / "owner.key", trust.owner)
        given = _CONFIGURATION.format(id=GATEWAY, upstream=upstream, db=self.db, gateway=gateway)
        (folder / "accredit.toml").write_text(given + more, "utf-8")

    def serving(self, *, within: Sequence[str] = (), env: Mapping[str, str] | None = None) -> Serving:
        """The gateway; its command is started `within` what comes first."""
        config = ("--config", str(self.folder / "accredit.toml"))
        return Serving(*config, folder=self.folder, command=(*within, *COMMAND), env={**IMPORTS, **(env or {})})

    def call(self, uri: str, *, id: int | str = 7) -> Posted:
        """A call that is allowed, of a target of its own."""
        params: dict[str, Any] = {"uri": uri}
        proof = self.trust.proof(self._chain, "resources/read", params, Signed())
        return post(Era.MODERN, "resources/read", {**params, "_meta": {"ratify_proof": proof}}, id=id)

    async def ask(self, client: RawClient, uri: str) -> Any:
        """Makes such a call; gives the response."""
        return self.note(uri, await asked(client, self.call(uri)))

    def note(self, uri: str, answer: RawAnswer) -> Any:
        """Notes the answer to such a call; gives the response."""
        said = json.loads(answer.body)
        if "result" in said:
            self.answered.append(uri)
        return said

    def check(self, called: Sequence[str], db: Path | None = None) -> dict[str, dict[str, Any]]:
        """What must hold when all is over, whoever attacked; gives the log's allowed calls by their targets."""
        found = {call["target"]: call for call in calls_of(db or self.db) if call["verdict"] == "allow"}
        assert [target for target in called if target not in found] == [], "forwarded without a record"
        assert [target for target in self.answered if found[target]["status"] != "ok"] == [], "answered without one"
        return found


def posting(
    posted: Posted, line: str = "POST /mcp HTTP/1.1", *, framing: str | None = None, host: str = "127.0.0.1"
) -> bytes:
    """The head of a request with such a message; `framing` is in place of its length."""
    fields = [f"{name}: {value}" for name, value in posted.headers]
    framing = f"Content-Length: {len(posted.body)}" if framing is None else framing
    return "\r\n".join([line, f"Host: {host}", *fields, framing, "", ""]).encode("latin-1")


async def asked(client: RawClient, posted: Posted) -> RawAnswer:
    """The answer to a message that is sent to the endpoint."""
    await client.ask("POST", "/mcp", posted.headers, posted.body)
    return await client.answer()


class Reading:
    """An upstream that answers `resources/read`, by `sends` instead of soundly where that is given; `called` is what
    it was asked for, in order."""

    def __init__(self, sends: Answering | None = None) -> None:
        self.called: list[str] = []
        self._sends = sends

    async def __call__(self, connection: Connection) -> None:
        """One connection of the gateway's."""
        while (request := await connection.request()) is not None:
            message = json.loads(request.body)
            self.called.append(message["params"]["uri"])
            sound = response(message["id"])
            if self._sends is None:
                await connection.send(http(sound))
            else:
                await self._sends(connection, sound)
