"""Quotas on every way to the gateway, with real stores and workers: nobody gets more calls than there may be."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.integration.test_authorization import INBOX, with_proof
from tests.integration.test_deployment import mail as mail
from tests.integration.test_many_servers import modern
from tests.integration.test_tutorial import ROOT
from tests.world.agents import agent_files
from tests.world.authorization import Signed, Trust
from tests.world.calls import Posted, compact, post
from tests.world.command import Serving, accredit
from tests.world.many_servers import Several
from tests.world.recorded import calls_of, records_at
from tests.world.routes import ROUTES, Route

from accredit.policy.quotas import Quota, Quotas
from accredit.stores import MemoryStore

pytestmark = [pytest.mark.holds("policy/quotas", "subject", "capacity"), pytest.mark.holds("gateway/admission/judge")]
everywhere = pytest.mark.parametrize("name", ROUTES)
OF_SERVER = Quota(by="server", tools=frozenset({"*"}), window_s=3600, window="1h", most=2)
OF_AGENT = Quota(by="agent", tools=frozenset({"*"}), window_s=3600, window="1h", most=2)


def errors(answers: list[dict[str, Any]]) -> list[str]:
    return [each.get("error", {}).get("data", {}).get("error", "") for each in answers]


@everywhere
async def test_a_quota_of_agents_holds_whatever_way_calls_come__and_is_on_record(
    name: str, trust: Trust, tmp_path: Path
) -> None:
    log = records_at(tmp_path / "log.db")
    async with Route(name, trust, tmp_path, records=log, policy={"quotas": Quotas((OF_AGENT,))}) as route:
        answers: list[dict[str, Any]] = []
        for _ in range(3):
            proof = trust.proof(trust.chain(), "tools/call", INBOX, Signed(session=route.session))
            answers.append(await route.ask("tools/call", with_proof(INBOX, proof)))
    assert errors(answers) == ["", "", "quota_exceeded"]
    refused = answers[2]["error"]
    assert refused["code"] == -31013
    assert 3500 < refused["data"]["retry_after_seconds"] <= 3672
    recorded = calls_of(tmp_path / "log.db")
    assert (recorded[2]["verdict"], recorded[2]["error"]) == ("deny", "quota_exceeded")


@everywhere
async def test_with_proofs_off_a_quota_of_the_server_holds_for_all_callers(
    name: str, trust: Trust, tmp_path: Path
) -> None:
    more: dict[str, Any] = {"required": False, "quotas": Quotas((OF_SERVER,)), "store": MemoryStore()}
    async with Route(name, trust, tmp_path, **more) as route:
        answers = [await route.ask("tools/call", INBOX) for _ in range(3)]
        listed = await route.ask("tools/list", {})
        for method in ("tools/call", "Tools/Call"):  # no notification is a call that nobody counts
            call = compact({"jsonrpc": "2.0", "method": method, "params": INBOX})
            answer = await route.send(Posted(post(route.era, method, INBOX).headers, call))
            assert json.loads(answer.body)["error"]["code"] == -32600
        assert len(route.received("tools/call", "Tools/Call")) == 2
    assert errors(answers) == ["", "", "quota_exceeded"]
    assert "result" in listed


@pytest.mark.parametrize("required", [True, False])
async def test_a_state_that_nobody_sealed_makes_no_call_free(required: bool, trust: Trust, tmp_path: Path) -> None:
    """A later round is free of quotas. One that says that it is one has a sealed state, or is refused, and no refused
    call counts."""
    policy: dict[str, Any] = {"policy": {"quotas": Quotas((OF_AGENT,))}} if required else {}
    off: dict[str, Any] = {} if required else {"quotas": Quotas((OF_SERVER,)), "store": MemoryStore()}

    async with Route("http-modern", trust, tmp_path, required=required, **policy, **off) as route:
        answers: list[dict[str, Any]] = []
        for params in ({**INBOX, "requestState": "s1.forged"}, {**INBOX, "requestState": 7}, INBOX, INBOX, INBOX):
            proof = trust.proof(trust.chain(), "tools/call", params, Signed(session=route.session))
            answers.append(await route.ask("tools/call", with_proof(params, proof) if required else params))
        assert len(route.received("tools/call")) == 2
    codes = [each.get("error", {}).get("code") for each in answers]
    assert codes == [-32602, -32602, None, None, -31013]


async def test_a_store_that_does_not_answer_refuses_what_has_to_be_counted(trust: Trust, tmp_path: Path) -> None:
    class Silent(MemoryStore):
        async def use(self, limits: Any, *, now: int) -> bool:
            raise OSError("gone")

    more: dict[str, Any] = {"required": False, "quotas": Quotas((OF_SERVER,)), "store": Silent()}
    async with Route("http-modern", trust, tmp_path, **more) as route:
        answer = await route.ask("tools/call", INBOX)
    assert "store_unavailable" in answer["error"]["data"]["reason"]


@pytest.mark.slow
async def test_what_comes_at_once_to_two_workers_never_passes_together(mail: str, tmp_path: Path) -> None:
    (tmp_path / "accredit.toml").write_text(
        f'[upstream]\nurl = "{mail}"\n[store]\nurl = "sqlite:///store.db"\n'
        '[[quotas]]\nby = "server"\nwindow = "1h"\ncalls = 10\n',
        "utf-8",
    )

    with Serving("--config", "accredit.toml", "--workers", "2", folder=tmp_path) as serving:
        url = serving.url

        async def one() -> int:
            process = await asyncio.to_thread(accredit, "call", "list_inbox", "--url", url, folder=tmp_path)
            return process.returncode

        codes = list(await asyncio.gather(*(one() for _ in range(16))))
    assert sorted(codes) == [0] * 10 + [1] * 6


@pytest.mark.slow
def test_the_how_to_says_what_happens(trust: Trust, tmp_path: Path) -> None:
    page = (ROOT / "docs/how-to/limits-and-budgets.md").read_text("utf-8")
    written = re.search(r"```toml\n(.*?)```", page, re.DOTALL)
    shown = re.search(r"```json\n(.*?)```", page, re.DOTALL)
    assert written
    assert shown
    files = agent_files(tmp_path, trust)
    configuration = tmp_path / "accredit.toml"
    text = f"{configuration.read_text('utf-8')}\n{written[1].replace('calls = 100', 'calls = 2')}"
    configuration.write_text(text, "utf-8")
    with Serving("--config", "accredit.toml", folder=tmp_path) as serving:
        call = ("call", "list_inbox", "--url", serving.url, *files.options, "--json")
        done = [accredit(*call, folder=tmp_path) for _ in range(3)]
    assert [each.returncode for each in done] == [0, 0, 1]
    told, promised = done[2].stdout + done[2].stderr, json.loads(shown[1])
    assert promised["message"].partition(": ")[2].partition(";")[0] in told
    assert promised["data"]["error"] in told


async def test_names_of_servers_that_there_are_not_take_up_no_room_of_the_store(trust: Trust) -> None:
    """A stranger's calls of `a1__x`, `a2__x`, and so on would fill it, and then nobody's call can be counted."""
    counted: set[str] = set()

    class Watched(MemoryStore):
        async def use(self, limits: Any, *, now: int) -> bool:
            counted.update(limit.cert_id for limit in limits)
            return await super().use(limits, now=now)

    more: dict[str, Any] = {"required": False, "quotas": Quotas((OF_SERVER,)), "store": Watched()}
    async with Several(trust, merge=True, **more) as several:
        for name in ("a1__x", "a2__x", "mail__list_inbox", "mail__send_email"):
            await several.send_merged(modern({"name": name, "arguments": {}}))
        assert len(several.calls("mail")) == 2
    assert len(counted) == 1
