"""An honest call of every kind verifies, by itself and with its log, where proofs are required; and of each kind is
kept, and stays unanswered, what the page says."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.integration.test_audit_howtos import script, verdict
from tests.integration.test_transparent_legacy_sse import Session, Upstream
from tests.integration.test_wrap import wrapped
from tests.world.agents import MAIL_SERVER
from tests.world.audited import LATER, Audited, export
from tests.world.authorization import GATEWAY, Trust
from tests.world.calls import post
from tests.world.command import accredit
from tests.world.household import Household
from tests.world.kinds_of_calls import CALL, INBOX, KINDS
from tests.world.raw_client import RawClient
from tests.world.running import RunningGateway, run
from tests.world.scenes import Scene
from tests.world.warm import python

from accredit.gateway import HttpUpstream, create_app
from accredit.gateway.settings import RecordSettings
from accredit.jsonrpc.methods import Era
from accredit.limits import SESSION_ID_SECONDS
from accredit.stores import MemoryStore, RevocationLists

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[2] / "docs/reference/attestation.md").read_text("utf-8")
ALL = [(name, era) for name, kind in KINDS.items() for era in kind.eras]


@pytest.mark.parametrize(("name", "era"), ALL, ids=[f"{name}-{era.value}" for name, era in ALL])
def test_an_honest_call_of_each_kind_verifies__by_itself_and_with_its_log(
    name: str, era: Era, trust: Trust, tmp_path: Path
) -> None:
    kind, audited = KINDS[name], Audited(tmp_path, trust.owner)
    run(kind.play(Scene(trust, audited, era)))
    told = audited.told(after=SESSION_ID_SECONDS + LATER)
    assert [str(each) for each in told] == [*kind.told]
    assert {each.code for each in told} == {0}
    proved = sum(each.proved for each in told)
    for options, bad in (((), ""), (("--require-proofs",), kind.bad)):
        whole = audited.whole(*options)
        fault = whole.json["fault"]
        assert (whole.code, whole.json["valid"], bad in (fault or {"reason": ""})["reason"]) == (
            bool(bad),
            not bad,
            True,
        )
        assert whole.json["proved"] == proved
    required = audited.told("--require-proofs", after=SESSION_ID_SECONDS + LATER)
    assert [each.code for each in required] == [each.allowed and not each.proved for each in told]


def test_what_is_exported_too_early_lacks_what_the_agent_signed__and_contradicts_nothing(
    trust: Trust, tmp_path: Path
) -> None:
    """Of a session whose id opens it, that is for 30 days."""
    (tmp_path / "open").mkdir()
    (tmp_path / "sealed").mkdir()
    plain, sealed = Audited(tmp_path / "open", trust.owner), Audited(tmp_path / "sealed", trust.owner)
    run(KINDS["over HTTP"].play(Scene(trust, plain, Era.LEGACY)))
    run(KINDS["in a sealed session"].play(Scene(trust, sealed, Era.LEGACY)))
    for audited, after in ((plain, 0), (sealed, 0), (sealed, LATER)):
        told = audited.told(after=after)
        assert {(each.code, each.found["allowed"]["verified"], each.found["signed"]["verified"]) for each in told} == {
            (0, True, None)
        }
        assert {each.code for each in audited.told("--require-proofs", after=after)} == {1}
    assert all(each.proved for each in plain.told(after=LATER))


def test_the_page_has_a_row_for_each_kind__and_a_kind_for_each_row() -> None:
    table = PAGE.partition("#### What is kept of a call\n")[2].partition("\n#### ")[0]
    rows = re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE)[1:]
    assert len(rows) > 5
    for row in rows:
        assert [kind for kind in KINDS.values() if row.startswith(kind.row)], row
    for kind in KINDS.values():
        assert [row for row in rows if row.startswith(kind.row)], kind.row


@pytest.mark.slow
def test_calls_of_the_real_commands_verify__in_the_log_that_gateways_share(home: Household) -> None:
    """By `connect`, by `call`, and through `wrap`, whose host signs by itself."""
    with home.gateway() as gateway:
        assert "content" in home.calls(gateway, "helper", "helper")
        called = accredit("call", "list_inbox", "--url", gateway.url, *home.files.options, folder=home.config)
        assert called.returncode == 0, called
        server = (python(), str(MAIL_SERVER))
        with wrapped(home.config, "--config", str(home.configuration), child=server) as host:
            params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
            host.write(post(Era.LEGACY, "initialize", params).body)
            assert "result" in json.loads(host.line())
            proof = home.trust.proof(home.trust.chain(), "tools/call", INBOX)
            host.write(post(Era.LEGACY, "tools/call", {**INBOX, "_meta": {"ratify_proof": proof}}).body)
            assert "result" in json.loads(host.line())
    keys = ("--key", "gateway.key.pub", "--root", "owner.key.pub")
    done = accredit("log", "verify", "--store", "sqlite:///gateway.db", *keys, "--require-proofs", folder=home.config)
    assert (done.returncode, done.stderr) == (0, ""), done
    assert " of 2 writers verify\n" in done.stdout
    assert "  3, by the person's and the agent's signatures\n" in done.stdout


async def test_calls_over_http_sse_of_2024_verify(trust: Trust, tmp_path: Path) -> None:
    """They have no session that a proof could be bound to."""
    audited, upstream = Audited(tmp_path, trust.owner), Upstream()

    async with upstream.server as server:
        settings = trust.settings(HttpUpstream(server.url.replace("/mcp", "/sse")), records=RecordSettings(GATEWAY))
        ports: dict[str, Any] = {"store": MemoryStore(), "revocations": RevocationLists((), {})}
        app = create_app(settings, records=audited.records(), **ports)
        async with RunningGateway(app) as gateway, RawClient(gateway.port) as stream:
            session = Session(gateway.port, stream)
            await session.open()
            proof = trust.proof(trust.chain(), "tools/call", INBOX)
            asked = post(Era.LEGACY, "tools/call", {**INBOX, "_meta": {"ratify_proof": proof}})
            assert (await session.post(asked.body)).status == 202
            assert await stream.event() is not None
    assert [str(each) for each in audited.told()] == [CALL]
    assert audited.whole("--require-proofs").json["proved"] == 1


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if not kind.bad])
def test_the_script_without_accredit_says_the_same_of_each_kind(
    name: str, trust: Trust, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, audited = KINDS[name], Audited(tmp_path, trust.owner)
    (tmp_path / "verify_call.py").write_text(script("verify_call.py"), "utf-8")
    run(kind.play(Scene(trust, audited, kind.eras[-1])))
    for each in audited.told(after=SESSION_ID_SECONDS + LATER):
        bundle = export(audited.log, each.record.call.id, after=SESSION_ID_SECONDS + LATER)
        assert (verdict(tmp_path, monkeypatch, str(bundle)) == "ok") is each.proved, str(each)
