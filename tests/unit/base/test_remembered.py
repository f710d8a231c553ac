"""What is remembered of peers' values takes little memory, whatever they send."""

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import accredit
from accredit.base.caching import MAX_REMEMBERED_VALUE_BYTES, cache_short_values
from accredit.gateway.forwarding import Forwarding, accepted_types
from accredit.gateway.front.callers import PlainSessions
from accredit.gateway.headers import host_allowed
from accredit.gateway.media_types import answer_type, is_json_request, parse_media_type
from accredit.gateway.room import Rooms
from accredit.gateway.upstream.http.encoding import accepted_codings
from accredit.jsonrpc.param_headers import MAX_DECLARED_CHARS, declared_headers
from accredit.limits import MAX_REMEMBERED_SESSION_BYTES

LONG = b"a" * (MAX_REMEMBERED_VALUE_BYTES + 1)
FORWARDING = Forwarding(listed_only=False)
READERS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (host_allowed, (("localhost",),)),
    (parse_media_type, ()),
    (is_json_request, ()),
    (answer_type, ()),
    (accepted_types, ()),
    (accepted_codings, ()),
    (FORWARDING._goes_up, (False,)),
    (FORWARDING._comes_back, (False,)),
]
OF_OUR_OWN = {
    "attest/canonical.py": "of a chain on record, which is bounded (MAX_STATEMENT_BYTES), sixteen of them",
    "attest/statements.py": "of a time",
    "base/addresses.py": "of an address, which the kernel gives",
    "base/caching.py": "this bound itself",
    "config/section.py": "of a part of the configuration",
    "gateway/front/callers.py": "of a principal of a verified token, which is bounded",
    "gateway/upstream/http/dialing.py": "of one place of certificates",
    "gateway/upstream/merged/ids.py": "of a sealed id, which is bounded (MAX_SESSION_ID_BYTES)",
    "hosts/yaml_text.py": "of a file of the user's own, by a command that ends",
    "net/fetch.py": "of nothing",
    "policy/facts.py": "of a part of the configuration",
    "policy/passing.py": "of a name in `_meta`, which is bounded (MAX_META_NAME_CHARS)",
    "ratify/constraints/kinds.py": "of nothing",
    "server/arguments.py": "of a function of the author's own",
}
"""Who may use those of `functools`, which keep what they were asked however long it is, and for what."""


@pytest.mark.parametrize(("read", "more"), READERS)
def test_a_long_header_is_read_but_never_kept(read: Callable[..., Any], more: tuple[Any, ...]) -> None:
    read(b"application/json", *more)
    before = read.cache_info().currsize  # type: ignore[attr-defined]
    said = [read(LONG + b"%d" % number, *more) for number in range(300)]
    assert read.cache_info().currsize == before  # type: ignore[attr-defined]
    assert set(map(str, said)) == {str(read.__wrapped__(LONG, *more))}  # type: ignore[attr-defined]


def test_a_short_value_is_kept_and_said_again() -> None:
    asked: list[bytes | None] = []

    @cache_short_values(2)
    def read(value: bytes | None) -> int:
        asked.append(value)
        return len(value or b"")

    assert [read(value) for value in (b"a", b"a", None, None, LONG, LONG)] == [1, 1, 0, 0, len(LONG), len(LONG)]
    assert asked == [b"a", None, LONG, LONG]


@pytest.mark.slow
def test_nothing_else_in_the_product_keeps_what_it_was_asked_without_a_bound_in_bytes() -> None:
    source = Path(accredit.__file__).parent
    users = {
        str(file.relative_to(source))
        for file in source.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module == "functools"
        if any(alias.name in ("cache", "lru_cache") for alias in node.names)
    }
    assert users == OF_OUR_OWN.keys()


def test_of_a_session_neither_a_long_id_nor_a_long_revision_is_kept() -> None:
    sessions, rooms = PlainSessions(), Rooms(1_000, proving=True)
    long = b"s" * (MAX_REMEMBERED_SESSION_BYTES + 1)
    sessions._learn(long, "2025-11-25", "")
    sessions._learn(b"short", "v" * 1_000_000, "")
    assert [*map(len, sessions._revisions.values())] == [32]
    rooms.proved(long)
    assert len(rooms._sessions) == 0
    assert not rooms.has_proved(long)


def test_of_a_tool_no_long_path_is_kept() -> None:
    def schema(chars: int) -> bytes:
        return b'{"properties":{"%b":{"type":"string","x-mcp-header":"h"}}}' % (b"p" * chars)

    own = len("mcp-param-h")
    assert len(declared_headers(schema(MAX_DECLARED_CHARS - own))) == 1
    assert declared_headers(schema(MAX_DECLARED_CHARS - own + 1)) == ()
