"""What a `Call` says of itself, from what the steps have stored in it."""

import pytest

from accredit.base.steps import Steps
from accredit.errors import TokenError
from accredit.gateway.call import Call
from accredit.jsonrpc.frames import Request, Success
from accredit.jsonrpc.methods import Era
from accredit.jsonrpc.requests import Batch, decode_request
from accredit.policy import refusals
from accredit.policy.decision import Decision
from accredit.policy.guarded_call import GuardedCall

pytestmark = pytest.mark.holds("gateway/call")

TEXTS = [b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"a"}}' % id for id in (1, 2)]
GUARDED = GuardedCall("tools/call", "a", "", b"", None, None)
REFUSED = refusals.unknown_target(GUARDED)


def request(text: bytes = TEXTS[0]) -> Request:
    decoded = decode_request(text)
    assert isinstance(decoded, Request)
    return decoded


def unchanged(response: Success) -> Steps[bytes]:
    yield
    return response.text


def test_an_edit_counts_for_a_request_that_is_forwarded_only() -> None:
    """Else a server could answer under the id of a refused request."""
    call = Call(request(), edit=unchanged)
    assert call.edits == {}
    call.onward = call.message
    assert call.edits == {1: unchanged}


def test_a_batch_has_the_edits_of_its_members__and_answers_as_an_array() -> None:
    batch = decode_request(b"[%b]" % b",".join(TEXTS), batch_allowed=True)
    assert isinstance(batch, Batch)
    whole = Call(batch, "session", "2025-03-26", Era.LEGACY, replies=(b"{}", b"{}"))
    members = whole.each()
    assert members == whole.each()
    assert [(each.session, each.revision) for each in members] == [("session", "2025-03-26")] * 2
    for each in members:
        each.edit = unchanged
    members[1].onward = members[1].message
    assert whole.edits == {2: unchanged}
    assert whole.answer == b"[{},{}]"
    assert Call(request(), replies=(b"{}",)).answer == b"{}"


def test_a_refusal_is_enforced_or_observed_and_never_both() -> None:
    enforced, observed = Call(), Call()
    enforced.decide(Decision(GUARDED, None, None, REFUSED))
    assert (enforced.refusal, enforced.observed) == (REFUSED, None)
    observed.decide(Decision(GUARDED, None, None, REFUSED, enforced=False))
    assert (observed.refusal, observed.observed) == (None, REFUSED)
    observed.refusal = stopped = TokenError("x")
    assert (observed.refusal, observed.observed) == (stopped, REFUSED)
    assert (Call().refusal, Call().authority, Call().task) == (None, None, None)
