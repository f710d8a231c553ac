"""A proof that is taken out of a record is worth nothing: it is bound, spent and stale, wherever it is tried."""

import json
import sqlite3
from base64 import b64decode
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.world.audited import export
from tests.world.authorization import GATEWAY, Signed, Trust
from tests.world.calls import Posted, post
from tests.world.many_servers import NAMES, Several
from tests.world.recorded import records_at, records_of
from tests.world.routes import Route, messages_of

from accredit.attest.canonical import decode_proof
from accredit.base.clock import unix_seconds
from accredit.jsonrpc.methods import Era
from accredit.limits import CLOCK_LEAD_SECONDS
from accredit.ports import ProofStore
from accredit.stores import MemoryStore, SqliteStore, parse_store_url
from accredit.stores.audit_log.reader import LogFile

INBOX = {"name": "list_inbox", "arguments": {}}
LATER = CLOCK_LEAD_SECONDS + 1
"""Seconds after the call: a store that begins to know what is spent no sooner takes nothing that was made by then."""


def proved(trust: Trust, **signed: Any) -> dict[str, Any]:
    proof = trust.proof(trust.chain(), "tools/call", INBOX, Signed(**signed))
    return {**INBOX, "_meta": {"ratify_proof": proof}}


def modern(params: dict[str, Any]) -> Posted:
    return post(Era.MODERN, "tools/call", params)


TAKEN = pytest.mark.parametrize("exported", [True, False], ids=["bundle", "store"])


def taken_from(log: Path, *, exported: bool) -> dict[str, Any]:
    """The call that somebody makes of what a record keeps: of the store's bytes, or of the bundle that is exported."""
    with LogFile(log) as reader:
        (decision,) = [each for each in records_of(log) if each.decision is not None]
        chain, text = reader.kept_of(decision)
    assert text
    assert chain
    kept = decode_proof(text)
    with closing(sqlite3.connect(log)) as file:  # the store has the same bytes, shorter
        ((packed,),) = file.execute("SELECT proof FROM log_entries WHERE proof IS NOT NULL")
    assert kept.challenge in packed
    assert kept.challenge_sig.ml_dsa_65 in packed
    said, certificates = json.loads(kept.text()), json.loads(chain)
    if exported:
        bundle = json.loads(export(log, decision.call.id).read_bytes())
        assert (bundle["proof"], bundle["certificates"]) == (said, certificates)
        said, certificates = bundle["proof"], bundle["certificates"]
    context = said.pop("context")
    assert b64decode(said["session_context"]) == kept.session_context
    members = said | {"agent_id": context["agent_id"], "delegations": certificates}
    return {**INBOX, "_meta": {"ratify_proof": members}}


async def made(trust: Trust, folder: Path, store: ProofStore, *, exported: bool) -> dict[str, Any]:
    """What is kept of a call that was allowed."""
    log = folder / "log.db"
    async with Route("http-modern", trust, folder, store=store, records=records_at(log)) as route:
        assert "result" in await route.ask("tools/call", proved(trust))
        return taken_from(log, exported=exported)


async def tried(trust: Trust, folder: Path, store: ProofStore, params: dict[str, Any], **more: Any) -> str:
    """What a gateway says to it: `data.error`."""
    async with Route("http-modern", trust, folder, store=store, **more) as route:
        answer = await route.ask("tools/call", params)
        assert route.received("tools/call") == []
        return answer["error"]["data"]["error"]


@TAKEN
async def test_what_is_kept_is_good_at_no_other_gateway_of_the_same_owner__nor_at_its_own_after_a_restart(
    trust: Trust, tmp_path: Path, exported: bool
) -> None:
    file = tmp_path / "accredit.db"
    kept = await made(trust, tmp_path, SqliteStore(file), exported=exported)
    other = {"verifier_id": "ab" * 16}
    assert await tried(trust, tmp_path, MemoryStore(), kept, policy=other) == "ratify_invalid"
    assert await tried(trust, tmp_path, SqliteStore(file), kept) == "ratify_replayed"


@TAKEN
@pytest.mark.parametrize("url", ["memory:", "sqlite:///new.db"])
@pytest.mark.holds("stores/rules")
async def test_what_is_kept_is_not_good_again_once_the_store_is_lost(
    trust: Trust, tmp_path: Path, url: str, exported: bool
) -> None:
    """`memory:` is lost with each restart, a file by who deletes it. The agent itself is asked to sign once more."""

    kept = await made(trust, tmp_path, MemoryStore(), exported=exported)
    new = parse_store_url(url, tmp_path).open(unix_seconds() + LATER)
    assert await tried(trust, tmp_path, new, kept) == "ratify_challenge_required"


@TAKEN
async def test_what_is_kept_is_not_good_at_another_server_of_the_same_gateway(
    trust: Trust, tmp_path: Path, exported: bool
) -> None:
    log = tmp_path / "log.db"
    mail, files = NAMES[:2]
    async with Several(trust, records=records_at(log)) as several:
        first = proved(trust, gateway=f"{GATEWAY}/{mail}")
        assert "result" in messages_of(await several.send(mail, modern(first)))[-1]
        kept = modern(taken_from(log, exported=exported))
        for name, error in ((files, "ratify_invalid"), (mail, "ratify_replayed")):
            refused = messages_of(await several.send(name, kept))[-1]["error"]
            assert refused["data"]["error"] == error
        assert (len(several.calls(mail)), several.calls(files)) == (1, [])


async def test_what_may_be_shown_is_too_old_for_any_gateway(trust: Trust, tmp_path: Path) -> None:
    """By then a store that forgot it is no help either."""

    policy = trust.policy()
    stale = proved(trust, age=policy.freshness_seconds + 1)
    assert await tried(trust, tmp_path, MemoryStore(), stale) == "ratify_invalid"
