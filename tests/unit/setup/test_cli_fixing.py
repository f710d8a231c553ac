"""What `check --fix` writes, and what it leaves alone."""

import tomllib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp.types import Tool
from tests.world.tool_lists import tool, tools

from accredit.asking.listing import ServerListing
from accredit.config.load import load
from accredit.config.proofs import build_catalog
from accredit.errors import ConfigurationError
from accredit.setup.check_fix import add_tables

pytestmark = pytest.mark.holds("setup/check_fix")

HAND_WRITTEN = b"""# mine
[upstream]   # odd   spacing
url = 'http://127.0.0.1:9/mcp'

[tools."send mail"]
scope = "email:send" # by hand
"""


def fixed(file: Path, *offered: Tool) -> bytes:
    add_tables(load(file, {}, {}), {"": ServerListing("mail", offered)})
    return file.read_bytes()


@pytest.mark.parametrize("ends", [b"\n", b"\r\n"])
@pytest.mark.parametrize("last", [b"", b"# no line end"])
def test_missing_tables_come_after_what_is_there__which_stays_byte_for_byte(
    ends: bytes, last: bytes, tmp_path: Path
) -> None:
    file = tmp_path / "accredit.toml"
    old = HAND_WRITTEN.replace(b"\n", ends) + last
    file.write_bytes(old)
    file.chmod(0o640)
    new = fixed(file, tool("send mail"), tool("list", reads=True))
    assert new.startswith(old)
    assert new.count(b"\n") == new.count(ends)
    assert tomllib.loads(new.decode())["tools"] == {"send mail": {"scope": "email:send"}, "list": {"scope": "mcp:tool"}}
    assert file.stat().st_mode & 0o777 == 0o640
    assert fixed(file, tool("send mail"), tool("list", reads=True)) == new


def test_a_file_of_another_form_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "accredit.toml"
    file.write_text('tools = { a = { scope = "email:send" } }\n', "utf-8")
    with pytest.raises(ConfigurationError, match="in a form that --fix can't add to"):
        fixed(file, tool("b"))
    assert file.read_text("utf-8") == 'tools = { a = { scope = "email:send" } }\n'


def test_a_file_that_changed_meanwhile_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "accredit.toml"
    file.write_bytes(HAND_WRITTEN)
    loaded = load(file, {}, {})
    file.write_bytes(HAND_WRITTEN + b"# more\n")
    with pytest.raises(ConfigurationError, match="was changed meanwhile"):
        add_tables(loaded, {"": ServerListing("mail", (tool("b"),))})
    assert file.read_bytes() == HAND_WRITTEN + b"# more\n"


def test_where_a_default_scope_covers_a_tool_nothing_is_written(tmp_path: Path) -> None:
    file = tmp_path / "accredit.toml"
    file.write_text('[proofs]\ndefault_tool_scope = "mcp:tool"\n', "utf-8")
    assert b"[tools" not in fixed(file, tool("b"))


@pytest.mark.slow
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(offered=st.lists(tools(), max_size=4, unique_by=lambda found: found.name))
def test_whatever_a_server_lists_the_file_loads_and_says_what_it_said(offered: list[Tool], tmp_path: Path) -> None:
    file = tmp_path / "accredit.toml"
    file.write_bytes(HAND_WRITTEN)
    assert fixed(file, *offered).startswith(HAND_WRITTEN)
    assert build_catalog(load(file, {}, {}).config).tools["send mail"].scope == "email:send"
