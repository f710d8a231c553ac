"""What is remembered of a message for as long as a session or a stream is there holds none of the rest of it: a part of
a text that was read holds the whole text, of some megabytes."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import Raw
from tests.world.asgi import Told

from accredit.gateway.headers import RequestHead
from accredit.gateway.upstream.merged.ids import SessionHistories
from accredit.gateway.upstream.merged.messages import ACKNOWLEDGED
from accredit.gateway.upstream.merged.streams import MemberStream
from accredit.gateway.upstream.merged.subscription import Subscription
from accredit.jsonrpc.frames import Notification, Request, decode_frame
from accredit.jsonrpc.requests import decode_request

PADDING = "x" * 1_000_000


def same_head(head: RequestHead, name: str) -> RequestHead:
    return head


ACCESS: Any = SimpleNamespace(head=same_head)  # no server is asked here


def request(method: str, params: str) -> tuple[bytes, Request]:
    text = f'{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}'.encode()
    asked = decode_request(text)
    assert isinstance(asked, Request)
    return text, asked


def test_the_level_of_a_sessions_log_holds_no_request__a_thousand_sessions_would_hold_gigabytes() -> None:
    known = SessionHistories()
    known.begun(b"session", request("initialize", "{}")[1])
    text, asked = request("logging/setLevel", f'{{"level":"info","padding":"{PADDING}"}}')
    known.level(b"session", asked)
    del asked
    assert sys.getrefcount(text) == 2  # the name here, and the argument
    told = known.of(b"session")
    assert told is not None
    assert told.level == Raw(b'"info"')


@pytest.mark.holds("gateway/upstream/merged/subscription", "acknowledgement")
async def test_what_a_server_acknowledges_holds_no_message_of_its__each_stream_would_hold_one_of_each_server() -> None:
    reply = Told().exchange
    _, asked = request("subscriptions/listen", '{"notifications":{"toolsListChanged":true}}')
    stream = Subscription(reply, asked, {"mail": asked}, ACCESS)
    part = MemberStream("mail", stream, reply, reply.head, 1_000)
    for _ in range(2):  # before the client was told, and after the server has begun anew
        params = f'{{"notifications":{{"toolsListChanged":true}},"padding":"{PADDING}"}}'
        text = f'{{"jsonrpc":"2.0","method":"{ACKNOWLEDGED}","params":{params}}}'.encode()
        told = decode_frame(text)
        assert isinstance(told, Notification)
        assert not stream.heard(part, told)
        del told
        assert sys.getrefcount(text) == 2
        assert (b"toolsListChanged" in stream._beginning()) == (not part.before)
    assert b"tools/list_changed" in part.before
    assert stream._honored == {"mail": {}}


@pytest.mark.holds("gateway/upstream/merged/subscription", "acknowledgement")
async def test_of_what_a_server_acknowledges_as_much_is_kept_as_was_asked__servers_together_would_fill_the_memory() -> (
    None
):
    reply = Told().exchange
    _, asked = request("subscriptions/listen", '{"notifications":{"resourceSubscriptions":["a:1"],"own":true}}')
    names = [f"s{number}" for number in range(20)]
    stream = Subscription(reply, asked, dict.fromkeys(names, asked), ACCESS)
    for name in names:
        part = MemberStream(name, stream, reply, reply.head, 1_000)
        uris = f'["accredit+{name}:a:1"]'
        for honored in (
            f'"resourceSubscriptions":{uris},"own":"{PADDING}"',
            f'"resourceSubscriptions":["{PADDING}"]',
        ):
            params = f'{{"notifications":{{{honored}}}}}'
            told = decode_frame(f'{{"jsonrpc":"2.0","method":"{ACKNOWLEDGED}","params":{params}}}'.encode())
            assert isinstance(told, Notification)
            assert not stream.heard(part, told)
            assert sum(len(value) for value in stream._honored[name].values()) < len(PADDING) / 10
            if "own" in honored:
                assert stream._honored[name] == {"resourceSubscriptions": Raw(uris.encode())}
        assert len(part.before) < len(PADDING) / 10  # nor is it told that all of that may have changed
