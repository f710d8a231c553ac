"""The lock: what was written is what is read, and nothing that somebody edited is."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.world.tool_lists import HOSTILE_TEXTS

from accredit.base.steps import at_one_go
from accredit.errors import LockError
from accredit.limits import MAX_DEFINITIONS
from accredit.pins.definitions import Definitions, ListReader
from accredit.pins.lock import read_lock, write_lock
from accredit.pins.shown import hides

TEXTS = st.sampled_from([text for text in HOSTILE_TEXTS if "\ud800" not in text]) | st.text()
TOOL: dict[str, Any] = {"name": "send", "description": "sends", "inputSchema": {"maximum": 2**60 + 1}}


def definitions(*tools: dict[str, Any], instructions: str | None = None) -> Definitions:
    reader = ListReader()
    at_one_go(reader.add(json.dumps({"tools": tools}).encode()))
    return Definitions(reader.tools, instructions)


LOCK = {"upstream": definitions(TOOL, {**TOOL, "name": "a"}, instructions="Be kind."), "mail": definitions()}


def changed(old: str, new: str) -> bytes:
    text = write_lock(LOCK).decode()
    assert old in text
    return text.replace(old, new, 1).encode()


@pytest.mark.slow
@given(st.dictionaries(st.from_regex(r"[a-z0-9][a-z0-9-]{0,31}", fullmatch=True), st.lists(TEXTS), max_size=3), TEXTS)
def test_what_was_written_is_read_again_and_written_the_same(servers: dict[str, list[str]], said: str) -> None:
    lock = {
        name: definitions(*({"name": text, "description": said} for text in texts), instructions=said)
        for name, texts in servers.items()
    }
    text = write_lock(lock)
    found = read_lock(text)
    assert {name: server.set_sha256 for name, server in found.items()} == {
        name: server.set_sha256 for name, server in lock.items()
    }
    assert all(server.instructions == said for server in found.values())
    assert write_lock(found) == text
    assert not any(hides(char) for char in text.decode() if char != "\n")


@pytest.mark.holds("pins/lock", "form")
def test_each_tool_is_a_line_and_members_are_sorted__so_that_version_control_shows_what_changed() -> None:
    before, after = (
        write_lock({"upstream": definitions(*tools)}).decode().splitlines()
        for tools in (
            (TOOL, {"name": "z", "b": 1, "a": 2, "_meta": {"at": 1}}),
            ({**TOOL, "description": "other"}, {"a": 2, "_meta": {"at": 2}, "b": 1, "name": "z"}),
        )
    )
    different = [line for line in after if line not in before]
    assert len(different) == 2  # the set's digest, and the tool
    assert "_meta" not in "".join(after)
    assert json.loads("\n".join(before))["version"] == 1


@pytest.mark.holds("pins/lock", "server-name", "strict")
@pytest.mark.parametrize(
    "text",
    [
        b"", b"{}", b"[]", b"\xff", b'{"servers":{},"version":2}', b'{"servers":{},"version":1,"more":1}',
        b'{"servers":{},"servers":{},"version":1}', b'{"servers":{"Upper":{}},"version":1}',
        changed('"description": "sends"', '"description": "sends it"'),
        changed('"send": {', '"sent": {'),
        changed('"Be kind."', '"Be mean."'),
        changed('"version": 1', '"version": 1, "version": 1'),
        changed('"set": "', '"set": "0'),
        changed('{\n  "servers"', '<<<<<<< HEAD\n{\n  "servers"'),
        changed('"definition": {', '"definition": {"_meta": 1, "_meta": 2, '),
        write_lock(LOCK).replace(b'"mail"', b'"Mail"'),
        write_lock(LOCK).replace(b'"sha256": "', b'"sha256": "A'),
    ],
)  # fmt: skip
def test_a_lock_that_anybody_has_touched_is_refused_whole(text: bytes) -> None:
    with pytest.raises(LockError):
        read_lock(text)


@given(st.integers(0, len(write_lock(LOCK)) - 1), st.binary(max_size=2))
def test_whatever_is_wrong_with_a_lock_it_is_a_lock_error(at: int, instead: bytes) -> None:
    text = write_lock(LOCK)
    try:
        found = read_lock(text[:at] + instead + text[at + 1 :])
    except LockError:
        return
    # A server's name may be any other.
    assert sorted(server.set_sha256 for server in found.values()) == sorted(each.set_sha256 for each in LOCK.values())


def test_nobody_can_pin_what_readers_take_differently() -> None:
    reader = ListReader()
    at_one_go(reader.add(b'{"tools":[{"name":"a","inputSchema":{"x":1,"x":2}}]}'))
    with pytest.raises(LockError, match="readers"):
        write_lock({"upstream": Definitions(reader.tools)})
    with pytest.raises(LockError, match="instructions"):
        write_lock({"upstream": Definitions({}, "\ud800")})


@pytest.mark.slow
def test_a_lock_is_bounded() -> None:
    many = definitions(*({"name": str(number)} for number in range(MAX_DEFINITIONS)))
    assert len(read_lock(write_lock({"upstream": many}))["upstream"].tools) == MAX_DEFINITIONS
    tools = {**many.tools, "one more": definitions({"name": "one more"}).tools["one more"]}
    with pytest.raises(LockError):
        read_lock(write_lock({"upstream": Definitions(tools)}))
