"""What the head of an answer says of its body."""

import pytest

from accredit.gateway.forwarding import Forwarding
from accredit.gateway.upstream.http.parsing import AnswerHead

pytestmark = pytest.mark.holds("gateway/upstream/http/parsing")


@pytest.mark.parametrize(
    ("content_type", "is_json", "is_stream", "in_utf8"),
    [
        (b"application/json", True, False, True),
        (b"Application/JSON; charset=UTF-8", True, False, True),
        (b"application/json; charset=utf-16", False, False, False),
        (b"text/event-stream", False, True, True),
        (b"text/event-stream; charset=latin-1", False, True, False),
        (b"text/html", False, False, True),
        (b"application/json, text/event-stream", False, False, True),
    ],
)
def test_a_head_says_how_its_body_is_read(content_type: bytes, is_json: bool, is_stream: bool, in_utf8: bool) -> None:
    head = AnswerHead(200, [(b"content-type", content_type)])
    assert (head.is_json, head.is_stream, head.in_utf8) == (is_json, is_stream, in_utf8)


def test_two_content_types_are_none__two_readers_could_take_one_each() -> None:
    head = AnswerHead(200, [(b"content-type", b"application/json"), (b"content-type", b"application/json")])
    assert (head.is_json, head.media_type.name) == (False, b"")


def test_an_answer_without_a_type_is_neither() -> None:
    head = AnswerHead(200, [])
    assert (head.is_json, head.is_stream, head.fields) == (False, False, {})


def test_what_is_passed_on_is_known_for_one_policy__and_for_every_length_of_the_body() -> None:
    """A policy that was made anew is another one, whatever it says."""
    head = AnswerHead(200, [(b"set-cookie", b"a"), (b"content-length", b"1")], length=1)
    everything, listed = Forwarding(listed_only=False), Forwarding(listed_only=True)
    added = Forwarding(listed_only=True, added=["Set-Cookie"])
    for by, expected in ((everything, [b"set-cookie"]), (listed, []), (added, [b"set-cookie"]), (listed, [])):
        passed = head.with_length(20).passed_on(by)
        assert [name for name, _ in passed] == expected
        assert head.with_length(300).passed_on(by) is passed
