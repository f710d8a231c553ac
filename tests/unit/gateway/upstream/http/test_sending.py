"""What goes up for a client's head: made once for all calls that bring it, and kept for few and short ones."""

from accredit.gateway.headers import RequestHead
from accredit.gateway.settings import GatewaySettings, HttpUpstream
from accredit.gateway.upstream.http.sending import Sender
from accredit.limits import MAX_PREPARED_HEADS, MAX_REMEMBERED_HEAD_BYTES

UPSTREAM = HttpUpstream("http://127.0.0.1:9/mcp")


def sender() -> Sender:
    return Sender(GatewaySettings(UPSTREAM), UPSTREAM)


def head(value: bytes, length: bytes = b"2") -> RequestHead:
    return RequestHead("POST", "/mcp", [(b"user-agent", value), (b"content-length", length)])


def test_the_same_head_goes_up_as_before__whatever_the_length_of_its_body() -> None:
    up = sender()
    first, same, other = up.for_post(head(b"a")), up.for_post(head(b"a", b"9")), up.for_post(head(b"b"))
    assert first is same
    assert first.head != other.head
    assert b"9" not in same.head.partition(b"user-agent")[2]


def test_a_client_can_not_fill_the_memory_with_heads() -> None:
    up = sender()
    for number in range(MAX_PREPARED_HEADS + 10):
        up.for_post(head(b"%d" % number))
    assert len(up._prepared) == MAX_PREPARED_HEADS


def test_what_goes_up_is_not_kept_for_a_head_that_is_long_where_it_does_not() -> None:
    up = sender()
    for number in range(3):
        up.for_post(RequestHead("POST", "/mcp", [(b"x-forwarded-for", b"%d" % number * 5_000)]))
        up.for_post(RequestHead("POST", "/mcp", [], query=b"%d" % number * MAX_REMEMBERED_HEAD_BYTES + b"x"))
    assert len(up._prepared) == 0
    up.for_post(RequestHead("POST", "/mcp", [(b"user-agent", b"one")]))
    assert len(up._prepared) == 1
