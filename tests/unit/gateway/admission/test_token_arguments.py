"""Which tools have a `_token` of their own: what is learned is bounded, and what is not known is a credential."""

import json

from msgspec import Raw

from accredit.gateway.admission.token_arguments import TokenArguments
from accredit.gateway.front import bootstrap
from accredit.limits import MAX_KNOWN_TOOL_NAME_CHARS, MAX_KNOWN_TOOLS, MAX_TOOL_LIST_BYTES

OWN = {"type": "object", "properties": {"_token": {"type": "string"}}}


def listing(*names: str) -> Raw:
    return Raw(json.dumps({"tools": [{"name": name, "inputSchema": OWN} for name in names]}).encode())


def test_the_latest_list_decides() -> None:
    known = TokenArguments()
    assert not known.declared("redeem")
    known.learn(listing("redeem"))
    assert known.declared("redeem")
    known.learn(Raw(b'{"tools":[{"name":"redeem","inputSchema":{}}]}'))
    assert not known.declared("redeem")


def test_a_server_can_t_fill_the_memory_with_names() -> None:
    known = TokenArguments()
    known.learn(listing("a" * MAX_KNOWN_TOOL_NAME_CHARS, "b" * (MAX_KNOWN_TOOL_NAME_CHARS + 1)))
    assert known.declared("a" * MAX_KNOWN_TOOL_NAME_CHARS)
    assert not known.declared("b" * (MAX_KNOWN_TOOL_NAME_CHARS + 1))
    known.learn(listing(*(f"tool-{number}" for number in range(MAX_KNOWN_TOOLS))))
    assert not known.declared("a" * MAX_KNOWN_TOOL_NAME_CHARS)
    assert known.declared("tool-0")


def test_what_is_no_list_teaches_nothing() -> None:
    known = TokenArguments()
    for text in (
        b"[]",
        b"{}",
        b'{"tools":7}',
        b'{"tools":[{"name":7}]}',
        b"[" * 10_000,
        b" " * MAX_TOOL_LIST_BYTES + b"{}",
    ):
        known.learn(Raw(text))
    assert not known.declared("7")


def test_what_is_asked_for_a_first_token_never_shows_its_secret() -> None:
    asked = bootstrap._asked(b'{"secret":"s3cret","agent":"a"}')  # pyright: ignore[reportPrivateUsage]
    assert asked.secret == "s3cret"
    assert "s3cret" not in repr(asked) + str(asked.__rich_repr__())
