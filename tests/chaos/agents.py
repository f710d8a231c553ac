"""Agents that call through gateways while machines fail, and what each was told. I/O: sockets.

Each call has a target of its own, which stands for its challenge, and each copy of it a nonce. Whoever sends the copies
of a call sends them to several gateways at once, or long after the first.
"""

import asyncio
import json
import random
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tests.chaos.upstream import NONCE
from tests.world.authorization import Signed, Trust, challenge_in
from tests.world.calls import Posted, post
from tests.world.raw_client import CutOff, RawAnswer, RawClient
from tests.world.replicated import Place

from accredit.base.clock import unix_seconds
from accredit.jsonrpc.methods import Era
from accredit.ratify.constraints import MaxRate

PATIENCE = 25.0
"""Seconds after which an exchange counts as one that never ends."""
USES, WINDOW_SECONDS = 8, 3600
ANSWERED, REPLAYED, LIMITED = "answered", "replayed", "limited"
REFUSED, CLOSED, UNKNOWN = "refused", "closed", "unknown"
LOST, RESET, ENDLESS, CROSSED = "lost", "reset", "endless", "crossed"
"""What came of an exchange: an answer, three kinds of refusals, nobody who took the connection, an error that leaves it
open what became of the call, a connection that was lost, silence, and an answer to something else. `RESET` is a lost
one to a gateway itself, which the system took before it was ended, and whose call did not reach the server."""
_PLACE = "a copy's nonce"
_READ, _SEND = "resources/read", "send_email"


class Call(NamedTuple):
    """A call with its proof. `certificate` is the one whose uses are limited, if one is."""

    target: str
    method: str
    params: Mapping[str, Any]
    proof: Mapping[str, Any]
    agent: str
    certificate: str = ""


class Exchange(NamedTuple):
    """A copy of a call at one door, and what came of it, in seconds of this process's clock."""

    call: Call
    door: str
    nonce: str
    begun: float
    ended: float
    at: int
    outcome: str
    cause: str = ""


class Load:
    """Agents that call until they are told to stop. `doors` are where they may, by name."""

    def __init__(self, doors: Mapping[str, Place], trusts: Sequence[Trust], seed: int) -> None:
        self._idle: dict[str, list[RawClient]] = {name: [] for name in doors}
        self.keeps = False
        """Whether connections are used for more than one call."""
        self.doors = doors
        self.exchanges: list[Exchange] = []
        self.lists = [0, 0]
        """Lists that were answered, and that were not."""
        self.stopping = False
        self._trusts = trusts
        self._random = random.Random(seed)
        self._numbers = iter(range(1 << 62))
        self._recent: list[Call] = []
        self._encoded: tuple[Call, Posted] | None = None

    async def run(self, agents: int) -> None:
        """Calls until `stopping`."""
        self.stopping = False
        async with asyncio.TaskGroup() as group:
            for number in range(agents):
                group.create_task(self._agent(self._trusts[number % len(self._trusts)]))
            group.create_task(self._lister())

    async def probe(self, door: str) -> bool:
        """Makes a call at one door; whether it was answered."""
        trust = self._trusts[0]
        call = self.reading(trust, trust.chain("mcp:resource"))
        return (await self.ask(call, door)).outcome == ANSWERED

    def reading(self, trust: Trust, chain: Any, certificate: str = "") -> Call:
        """A call with a challenge that the agent made itself."""
        target = self._target()
        params = {"uri": target}
        return Call(target, _READ, params, trust.proof(chain, _READ, params), trust.agent.id, certificate)

    async def sending(self, trust: Trust, chain: Any, door: str) -> Call | None:
        """A call with a challenge that a gateway issued; None if it issued none."""
        target = self._target()
        params = {"name": _SEND, "arguments": {"to": "a@example.com", "subject": target}}
        call = Call(target, "tools/call", params, {}, trust.agent.id)
        try:
            async with asyncio.timeout(PATIENCE):
                said = json.loads((await self._asked(door, self._posted(call, "none"))).body)
            challenge = challenge_in(said["error"])
        except (OSError, CutOff, TimeoutError, ValueError, KeyError):
            return None
        proof = trust.proof(chain, "tools/call", params, Signed(challenge=challenge))
        return call._replace(proof=proof)

    async def ask(self, call: Call, door: str) -> Exchange:
        """Sends a copy of a call to a door; notes what came of it."""
        nonce, clock = f"n{next(self._numbers)}", asyncio.get_running_loop().time
        begun, at = clock(), unix_seconds()
        try:
            async with asyncio.timeout(PATIENCE):
                asked = self._asked_again if self.keeps else self._asked
                outcome, cause = _told(call, nonce, await asked(door, self._posted(call, nonce)))
        except ConnectionRefusedError:
            outcome, cause = CLOSED, "connection refused"
        except TimeoutError:
            outcome, cause = ENDLESS, "no answer"
        except (OSError, CutOff):
            outcome, cause = LOST, "connection lost"
        found = Exchange(call, door, nonce, begun, clock(), at, outcome, cause)
        self.exchanges.append(found)
        return found

    async def _agent(self, trust: Trust) -> None:
        chain = trust.chain("mcp:resource", "email:send")
        limited, uses = trust.chain("mcp:resource"), 0
        while not self.stopping:
            kind = self._random.random()
            if kind < 0.3:
                await self._copies(self.reading(trust, chain), 1)
            elif kind < 0.5:
                await self._copies(self.reading(trust, chain), self._random.randint(2, 4))
            elif kind < 0.65:
                call = await self.sending(trust, chain, self._door())
                if call is not None:
                    await self._copies(call, self._random.randint(1, 3))
            elif kind < 0.75 and self._recent:
                await self._copies(self._random.choice(self._recent), 1)
            else:
                if uses % (USES + 4) == 0:
                    limited = trust.chain("mcp:resource", constraints=(MaxRate(count=USES, window_s=WINDOW_SECONDS),))
                uses += 1
                await self._copies(self.reading(trust, limited, limited[0].cert_id), 1)
            await asyncio.sleep(0)

    async def _copies(self, call: Call, count: int) -> None:
        doors = [self._door() for _ in range(count)]
        self._recent = [*self._recent[-50:], call]
        found = await asyncio.gather(*(self.ask(call, door) for door in doors))
        if all(each.outcome in (CLOSED, REFUSED) for each in found):
            await asyncio.sleep(0.1)

    async def _lister(self) -> None:
        """Asks for lists, for which nothing has to be spent."""
        asked = post(Era.MODERN, "prompts/list", {})
        while not self.stopping:
            door = self._random.choice([name for name in self.doors if name != "balancer"])
            try:
                async with asyncio.timeout(PATIENCE):
                    answer = await self._asked(door, asked)
                self.lists[0 if b'"result"' in answer.body else 1] += 1
            except ConnectionRefusedError:
                pass
            except (OSError, CutOff, TimeoutError):
                self.lists[1] += 1
            await asyncio.sleep(0.2)

    async def aclose(self) -> None:
        """Closes what was kept open."""
        for client in [client for idle in self._idle.values() for client in idle]:
            await client.close()

    def _posted(self, call: Call, nonce: str) -> Posted:
        if self._encoded is None or self._encoded[0] is not call:
            meta: dict[str, Any] = {NONCE: _PLACE, **({"ratify_proof": call.proof} if call.proof else {})}
            self._encoded = call, post(Era.MODERN, call.method, {**call.params, "_meta": meta}, id=_PLACE)
        whole = self._encoded[1]
        return Posted(whole.headers, whole.body.replace(_PLACE.encode(), nonce.encode()))

    async def _asked(self, door: str, posted: Posted) -> RawAnswer:
        async with RawClient(self.doors[door].port, host=self.doors[door].host) as client:
            return await _exchange(client, posted)

    async def _asked_again(self, door: str, posted: Posted) -> RawAnswer:
        idle = self._idle[door]
        place = self.doors[door]
        client = idle.pop() if idle else await RawClient(place.port, host=place.host).__aenter__()
        answer = await _exchange(client, posted)
        idle.append(client)
        return answer

    def _door(self) -> str:
        """A door, of which the balancer's is as likely as all others together."""
        others = [name for name in self.doors if name != "balancer"]
        if "balancer" in self.doors and self._random.random() < 0.5:
            return "balancer"
        return self._random.choice(others)

    def _target(self) -> str:
        return f"mail://{next(self._numbers)}"


async def _exchange(client: RawClient, posted: Posted) -> RawAnswer:
    await client.ask("POST", "/mcp", [("Host", "127.0.0.1"), *posted.headers], posted.body)
    return await client.answer()


def _told(call: Call, nonce: str, answer: RawAnswer) -> tuple[str, str]:
    """What an answer says, and the cause that it gives."""
    try:
        said = json.loads(answer.body)
    except ValueError:
        if answer.header("content-type") == "text/html" and answer.status == 503:
            return REFUSED, "no gateway is ready"
        return LOST, f"HTTP {answer.status}"
    if "result" in said:
        result = said["result"]
        text = json.loads((result.get("contents") or result["content"])[0]["text"])
        own = {"nonce": nonce, "target": call.target, "agent": call.agent}
        return (ANSWERED, "") if text == own and said["id"] == nonce else (CROSSED, str(text))
    error = said["error"]
    data = error.get("data", {})
    return _refused(error["code"], str(data.get("error", error["code"])), str(data), data.get("forwarded"))


def _refused(code: int, error: str, text: str, forwarded: object) -> tuple[str, str]:
    if error == "ratify_replayed":
        return REPLAYED, ""
    if error == "ratify_constraint_denied":
        return LIMITED, ""
    if forwarded is True or code in (-32000, -32603):
        return UNKNOWN, error
    known = ("store_unavailable", "clock", "record_unavailable")
    return REFUSED, next((name for name in known if name in text), error)
