"""Tasks at the merged endpoint: two servers that number theirs alike have none in common, and each is its maker's."""

import json
from typing import Any

import pytest
from msgspec.structs import replace
from tests.world.authorization import SCOPES, Signed, Trust
from tests.world.calls import initialize, post
from tests.world.many_servers import NAMES, Several
from tests.world.raw_client import RawAnswer
from tests.world.routes import messages_of
from tests.world.tasks_server import EXTENDED, RELATED

from accredit.jsonrpc.methods import Era
from accredit.policy.tasks import Owner
from accredit.ports import Task
from accredit.stores import tasks

pytestmark = pytest.mark.holds("gateway/upstream/merged/messages", "task-ids")
BOTH = pytest.mark.parametrize("era", [Era.MODERN, Era.LEGACY])


class Agent:
    """Who asks the merged endpoint, with proofs."""

    def __init__(self, several: Several, trust: Trust, era: Era, session: str = "") -> None:
        self.several, self.trust, self.era, self.session = several, trust, era, session

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """A request with a proof, and its answer."""
        signed = Signed(session=self.session, scope=SCOPES["list_inbox"] if method == "tools/call" else "")
        proof = self.trust.proof(self.trust.chain(), method, params, signed)
        posted = post(self.era, method, {**params, "_meta": {"ratify_proof": proof}}, capabilities=EXTENDED)
        answer = await self.several.send_merged(posted, session=self.session)
        message: dict[str, Any] = messages_of(answer)[-1]
        return message

    async def make(self, server: str, **arguments: Any) -> dict[str, Any]:
        """A call that becomes a task."""
        params: dict[str, Any] = {"name": f"{server}__list_inbox", "arguments": arguments}
        if self.era is Era.LEGACY:
            params["task"] = {"ttl": 60_000}
        return await self.ask("tools/call", params)


async def agent_of(several: Several, trust: Trust, era: Era) -> Agent:
    if era is Era.MODERN:
        return Agent(several, trust, era)
    answer: RawAnswer = await several.send_merged(initialize())
    assert answer.status == 200, answer
    return Agent(several, trust, era, answer.header("mcp-session-id") or "")


def id_of(answer: dict[str, Any]) -> str:
    result = answer["result"]
    return (result.get("task") or result)["taskId"]


@BOTH
async def test_two_servers_that_number_their_tasks_alike_have_none_in_common(era: Era, trust: Trust) -> None:
    async with Several(trust, merge=True) as several:
        agent = await agent_of(several, trust, era)
        ids = {name: id_of(await agent.make(name, id="1")) for name in NAMES}
        assert ids == {"mail": "mail__1", "files": "files__1"}
        for name, id in ids.items():
            got = (await agent.ask("tasks/get", {"taskId": id}))["result"]
            assert got["taskId"] == id
            asked = [each for each in several.servers[name].messages if each["method"] == "tasks/get"]
            assert [each["params"]["taskId"] for each in asked] == ["1"]


async def test_results_and_lists_name_tasks_as_their_maker_knows_them(trust: Trust) -> None:
    async with Several(trust, merge=True) as several:
        agent = await agent_of(several, trust, Era.LEGACY)
        for name in NAMES:
            await agent.make(name, id="1")
        for name in NAMES:
            result = (await agent.ask("tasks/result", {"taskId": f"{name}__1"}))["result"]
            assert result["_meta"][RELATED] == {"taskId": f"{name}__1"}
        listed = (await agent.ask("tasks/list", {}))["result"]["tasks"]
        assert sorted(each["taskId"] for each in listed) == ["files__1", "mail__1"]


@BOTH
async def test_a_task_is_its_makers_and_of_one_endpoint(era: Era, trust: Trust) -> None:
    other = Trust()
    other.owner = trust.owner
    async with Several(trust, merge=True) as several:
        mine, theirs = await agent_of(several, trust, era), await agent_of(several, other, era)
        id = id_of(await mine.make("mail", id="1"))
        forged = ["1", "files__1", "mail__2", "Mail__1", "mail__", "mail_1", "mail.1"]
        for who, named in [(theirs, id), *((mine, each) for each in forged)]:
            error = (await who.ask("tasks/get", {"taskId": named}))["error"]
            assert (error["code"], error["data"]["error"]) == (-32602, "unknown_task"), named
        assert not any(each["method"] == "tasks/get" for name in NAMES for each in several.servers[name].messages)
        if era is Era.LEGACY:
            assert (await theirs.ask("tasks/list", {}))["result"]["tasks"] == []


@BOTH
async def test_a_server_that_makes_a_task_of_each_call_takes_no_room_for_tasks_at_the_others(
    era: Era, trust: Trust, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "MAX_TASKS_PER_OWNER", 2)

    async with Several(trust, merge=True) as several:
        agent = await agent_of(several, trust, era)
        for number in ("1", "2"):
            id_of(await agent.make("mail", id=number))
        assert (await agent.make("mail", id="3"))["error"]["code"] == -31003
        for number in ("1", "2"):
            id_of(await agent.make("files", id=number))
        if era is Era.LEGACY:
            listed = (await agent.ask("tasks/list", {}))["result"]["tasks"]
            assert {"files__1", "files__2", "mail__1", "mail__2"} <= {each["taskId"] for each in listed}


def test_a_task_that_an_older_version_remembered_is_its_owner_s__and_nobody_else_s() -> None:
    kept = Task(Owner("h", "a").at(""), "tools/call", "mail__send", b"{}", "flow")
    assert Owner("h", "a").has(kept, "mail")
    assert not Owner("h", "b").has(kept, "mail")
    new = replace(kept, owner=Owner("h", "a").at("mail"))
    assert Owner("h", "a").has(new, "mail")
    assert not any(Owner("h", "a").has(new, other) for other in ("", "files"))


async def test_a_result_that_names_no_task_keeps_its_bytes(trust: Trust) -> None:
    async with Several(trust, merge=True, required=False) as several:
        call = post(Era.MODERN, "tools/call", {"name": "mail__list_inbox", "arguments": {}})
        own = post(Era.MODERN, "tools/call", {"name": "list_inbox", "arguments": {}})
        whole, one = await several.send_merged(call), await several.send("mail", own)
        assert json.loads(whole.body) == json.loads(one.body)
