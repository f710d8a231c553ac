"""The how-to for auditors does what it says: each of its commands, and what the auditor reads in the end."""

import asyncio
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.unit.ops.conftest import Folder
from tests.unit.ratify.world import AGENT, HUMAN, NOW, chain
from tests.world.in_process import Run
from tests.world.recorded import thread
from tests.world.records import OK, POLICY
from tests.world.signed_calls import said, signed_call

from accredit.attest import CallDecision, CallRecord, RecordedParams
from accredit.attest.canonical import decode_proof
from accredit.keys import KeyKind, PrivateKeyFile, log_signer
from accredit.keys.formats import KEY_FILE_VERSION, KeyFile
from accredit.stores.audit_log.queue import QueuedRecords

pytestmark = pytest.mark.slow

GATEWAY = "a09e9f6e2e34354dddb8157d379489a9"
"""The id of the gateway's key on the page."""
PAGE = (Path(__file__).parents[3] / "docs/how-to/show-an-auditor.md").read_text("utf-8")


def steps() -> Iterator[tuple[list[str], list[str]]]:
    """The page's commands, in their order, each with the lines that it shows to be printed."""
    for commands, printed in re.findall(r"```console\n(.*?)```(?:\n\n```text\n(.*?)```)?", PAGE, re.DOTALL):
        *before, last = commands.splitlines()
        yield from ((shlex.split(each), []) for each in before)
        yield shlex.split(last), [line for line in printed.splitlines() if line]


def the_call(number: int, gateway: str) -> CallDecision:
    """A call as the page has it: what its gateway records."""
    made = signed_call(chain(1), AGENT, verifier_id=gateway, resource_id="send_email")
    record = said(made, gateway=gateway, verifier_id=gateway, target="send_email").decision.predicate
    assert isinstance(record, CallRecord)
    assert record.decision is not None
    assert record.policy is not None
    return CallDecision(
        gateway=gateway,
        call=replace(record.call, id=f"{number:032x}"),
        params=RecordedParams(made.decision.sha256, None),
        decision=record.decision,
        received_ms=NOW * 1000,
        policy_digest=record.policy.digest,
        authority=record.authority,
        certificates=made.certificates,
        proof=decode_proof(made.proof or b"").packed(0),
    )


@pytest.fixture
def call_id(folder: Folder, gateway_key: PrivateKeyFile) -> str:
    """The files of the page, and a log of three calls; the id of one."""
    kinds: dict[str, KeyKind] = {"owner": "human", "agent": "agent"}
    for name, key in (("owner", HUMAN), ("agent", AGENT)):
        about = KeyFile(
            KEY_FILE_VERSION, kinds[name], {"owner": "Ada", "agent": "Assistant"}[name], key.id, 1, key.public_key
        )
        (folder.path / f"{name}.key.pub").write_bytes(about.text())
    (folder.path / "gateway.key.pub").write_bytes(replace(gateway_key.public(), name="mail").text())
    (folder.path / "accredit.db").unlink()
    calls = [the_call(number, gateway_key.id) for number in range(3)]

    async def make() -> None:
        records = QueuedRecords(
            thread(folder.path / "accredit.db", log_signer(gateway_key)),
            durable=True, policy_digest=POLICY, on_problem=pytest.fail, clock=lambda: NOW * 1000,
        )  # fmt: skip
        for call in calls:
            await records.begin(call)
            await records.finish(call, OK)
        await records.aclose()

    asyncio.run(make())
    return calls[0].call.id


def test_the_page_does_what_it_says__from_two_keys_to_the_sentence_that_an_auditor_reads(
    run: Run, call_id: str, gateway_key: PrivateKeyFile
) -> None:
    done = []
    for (program, *words), printed in steps():
        assert program == "accredit"
        arguments = [call_id if word == "CALL_ID" else word for word in words]
        arguments = [word for at, word in enumerate(arguments) if "7d" not in (word, *arguments[at + 1 : at + 2])]
        told = run(*arguments)
        assert told.code == 0, (words, told)
        if printed:  # the page shows all of it
            assert told.out.replace(gateway_key.id, GATEWAY).split() == " ".join(printed).split()
        done.append((" ".join(words[:2]), told.out))
    assert [name for name, _ in done] == [
        "keys show", "keys show", "log checkpoint", "log list", "log show", "log export", "log verify", "log export",
        "log verify",
    ]  # fmt: skip
    assert done[3][1].count("  Ada\n") == 3
    assert "Ada allowed agent" in done[4][1]
    assert "verified by both signatures of the agent" in done[4][1]
