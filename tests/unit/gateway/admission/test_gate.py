"""The gate by itself: it does not rely on those who lead messages to it."""

import asyncio

import pytest
from tests.world.calls import post
from tests.world.raw_server import until
from tests.world.recorded import FailingRecords
from tests.world.tokened import Tokened

from accredit.attest import CallDecision
from accredit.gateway.admission.bearer import Bearer
from accredit.gateway.admission.gate import Gate
from accredit.gateway.admission.tool_directory import ToolDirectory
from accredit.gateway.call import Call
from accredit.gateway.counters import Counters
from accredit.gateway.recording.recorder import Recorder
from accredit.gateway.settings import GatewaySettings, HttpUpstream, RecordSettings
from accredit.jsonrpc.methods import Era
from accredit.jsonrpc.requests import decode_request
from accredit.stores import Tasks


@pytest.mark.parametrize("method", ["tools/call", "tools/list"])
def test_where_tokens_are_required_a_way_that_asks_nobody_for_one_leads_nowhere(method: str) -> None:
    trusted = Tokened()
    tokens = trusted.settings(required=True)
    settings = GatewaySettings(HttpUpstream("http://127.0.0.1:9/mcp"), tokens=tokens)
    tools = ToolDirectory()
    gate = Gate(settings, Counters(), tools, bearer=Bearer(tokens, trusted.key_sets, tools), tasks=Tasks())
    message = decode_request(post(Era.MODERN, method, {"name": "echo"}).body)
    call = Call(message)
    asyncio.run(gate.admit(call))
    assert call.onward is None
    assert b"-31011" in call.answer


@pytest.mark.parametrize("how", ["cancelled", "broken"])
async def test_a_batch_that_is_not_decided_to_its_end_leaves_no_call_open(how: str) -> None:
    class Second(FailingRecords):
        """Takes one decision; the next is never over, or breaks."""

        async def begin(self, decided: CallDecision) -> None:
            await super().begin(decided)
            if len(self.begun) == 2:
                if how == "broken":
                    raise MemoryError
                await asyncio.Event().wait()

        async def write(self) -> None:
            pass

    records, settings = Second(), GatewaySettings(HttpUpstream("http://127.0.0.1:9/mcp"))
    recorder = Recorder(records, RecordSettings("gate"), Counters())
    gate = Gate(settings, Counters(), ToolDirectory(), recorder=recorder)
    members = [post(Era.LEGACY, id=id).body for id in (7, 8)]
    batch = decode_request(b"[%b]" % b",".join(members), batch_allowed=True)
    deciding = asyncio.create_task(gate.admit(Call(batch, "session")))
    await until(lambda: len(records.begun) == 2)
    deciding.cancel()
    await asyncio.wait([deciding])
    assert deciding.cancelled() or isinstance(deciding.exception(), MemoryError)
    await recorder.drain()
    assert not any(recorder.in_session("session").get(id) for id in (7, 8))
    settled = [outcome.status for outcome in records.outcomes]
    assert settled == ["cancelled"] * (2 if how == "cancelled" else 1)


async def test_a_member_of_a_batch_that_breaks_off_after_its_record_was_made_leaves_no_call_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def breaks(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("accredit.gateway.admission.gate.for_upstream", breaks)
    records, settings = FailingRecords(), GatewaySettings(HttpUpstream("http://127.0.0.1:9/mcp"))
    recorder = Recorder(records, RecordSettings("gate"), Counters())
    gate = Gate(settings, Counters(), ToolDirectory(), recorder=recorder)
    batch = decode_request(b"[%b]" % post(Era.LEGACY, id=7).body, batch_allowed=True)
    with pytest.raises(MemoryError):
        await gate.admit(Call(batch, "session"))
    await recorder.drain()
    assert recorder.in_session("session").get(7) is None
    assert [outcome.status for outcome in records.outcomes] == ["cancelled"]
