"""Brackets are counted before a part of an answer is split at one go: 15 MiB of them held the loop for 150 ms."""

from collections.abc import Callable

import pytest
from accredit.jsonrpc.brackets import MAX_SPLIT_BRACKETS, check_brackets
from msgspec import Raw

from accredit.base.steps import Steps, at_one_go
from accredit.errors import AnswerError, FrameError
from accredit.gateway.upstream.merged.messages import result_edit
from accredit.gateway.upstream.stdio import shared
from accredit.jsonrpc import tasks
from accredit.jsonrpc.frames import Request, Success, decode_error_in_steps, decode_frame_in_steps
from accredit.jsonrpc.input_required import check_input_requests
from accredit.jsonrpc.methods import Era
from accredit.jsonrpc.responses import Expected
from accredit.pins.definitions import ListReader
from accredit.policy.catalog import Catalog
from accredit.policy.lists import KINDS, ListView, rewrite_list

pytestmark = pytest.mark.holds("jsonrpc/brackets")

PAIR = b"[{},[]],"  # three of them
MANY = b"[" + PAIR * (MAX_SPLIT_BRACKETS // 3 + 1) + b"0]"
REASON = "more than 1048576 arrays and objects"


def message(text: bytes) -> bytes:
    return b'{"jsonrpc":"2.0",' + text + b"}"


def success(text: bytes) -> Success:
    result = b"{" + text + b"}"
    return Success(1, Raw(result), message(b'"id":1,"result":' + result))


def merged(text: bytes) -> Steps[bytes]:
    edit = result_edit("mail", "tools/call", None)
    assert edit is not None
    return edit(success(text))


def batch(text: bytes) -> Steps[object]:
    return Expected(Era.LEGACY, [Request(1, "tools/call", None, b"")], batch=True).judging(text)


SPLIT: dict[str, Callable[[], Steps[object]]] = {
    "an error": lambda: decode_frame_in_steps(message(b'"id":1,"error":{"code":1,"message":"","data":' + MANY + b"}")),
    "the error of a status": lambda: decode_error_in_steps(
        message(b'"error":{"code":1,"message":"","data":' + MANY + b"}")
    ),
    "a notification": lambda: decode_frame_in_steps(message(b'"method":"a","params":{"_meta":{"a":' + MANY + b"}}")),
    "a batch": lambda: batch(b"[" + message(b'"id":1,"result":' + MANY) + b"]"),
    "requests for input": lambda: check_input_requests(None, Raw(b'{"a":' + MANY + b"}")),
    "a list": lambda: rewrite_list(
        success(b'"tools":[],"a":' + MANY), ListView(catalog=Catalog()), KINDS["tools/list"]
    ),
    "a list of tasks": lambda: tasks.filter_tasks(success(b'"tasks":[],"a":' + MANY), lambda _: True),
    "a list of pinned tools": lambda: ListReader().add(b'{"tools":[],"a":' + MANY + b"}"),
    "what is only observed of a shared server": lambda: shared.restore_client_id(
        message(b'"id":1,"result":' + MANY), "a", subscription=False, observed=True
    ),
    "content with a URI": lambda: merged(b'"content":[{"uri":"a","a":' + MANY + b"}]"),
}


@pytest.mark.parametrize("name", SPLIT)
def test_what_would_be_split_at_one_go_is_refused_if_it_is_all_brackets(name: str) -> None:
    with pytest.raises((FrameError, AnswerError), match=REASON):
        at_one_go(SPLIT[name]())


def test_as_many_as_may_be_pass__and_any_number_in_texts() -> None:
    most = b"[" + b"[]," * (MAX_SPLIT_BRACKETS - 1) + b"0]"
    at_one_go(check_brackets(most, "it"))
    at_one_go(check_brackets(b'{"a":"' + b"[{" * (MAX_SPLIT_BRACKETS + 1) + b'"}', "it"))
    with pytest.raises(FrameError, match=REASON):
        at_one_go(check_brackets(b"[" + most + b"]", "it"))
