"""The configuration that `init` writes: it loads, and says nothing that the server wanted it to say."""

import tomllib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp.types import Tool
from tests.world.tool_lists import HOSTILE_TEXTS, texts, tool, tools

from accredit.asking.listing import ServerListing
from accredit.base.text import is_utf8
from accredit.config.conversion import convert_tables
from accredit.config.proofs import build_catalog
from accredit.gateway import HttpUpstream, StdioUpstream
from accredit.setup.config_text import McpServer, configuration
from accredit.signing.suggest_scopes import suggestion

pytestmark = pytest.mark.holds("setup/config_text")

URL = HttpUpstream("http://127.0.0.1:9/mcp")


def written(server: str, *offered: Tool, upstream: HttpUpstream | StdioUpstream = URL) -> str:
    return configuration(
        McpServer("", upstream, {}, ServerListing(server), [suggestion(each, server) for each in offered])
    )


def read(text: str) -> dict[str, Any]:
    tables = tomllib.loads(text)
    convert_tables(tables, strict=True)
    return tables


def test_each_tool_has_a_table_with_what_it_says_of_itself() -> None:
    text = written("mail", tool("list", description="Lists.\n\nEverything.", reads=True), tool("send mail"))
    assert '[tools.list]\n# "Lists. Everything."\nscope = "mcp:tool"    # it says that it only reads\n' in text
    assert '[tools."send mail"]\nscope = "custom:mail:send-mail~' in text
    assert text.endswith("\nsensitive = true\n")


def test_what_is_written_asks_for_proofs() -> None:
    tables = read(written("mail", tool("list", reads=True)))
    assert tables["proofs"]["mode"] == "required"
    assert tables["proofs"]["roots"] == [{"name": "Owner", "public_key_file": "owner.key.pub"}]
    assert tables["store"]["url"] == "sqlite:///accredit.db"
    assert tables["attest"] == {"mode": "durable", "key_file": "gateway.key", "arguments": "digest"}
    assert tables["upstream"] == {"url": "http://127.0.0.1:9/mcp"}


@pytest.mark.parametrize("text", HOSTILE_TEXTS)
def test_a_servers_words_stay_in_their_comment(text: str) -> None:
    tables = read(written(text, tool("send", description=text)))
    assert tables.keys() == {"gateway", "upstream", "proofs", "attest", "store", "resources", "prompts", "tools"}
    assert tables["tools"].keys() == {"send"}


@pytest.mark.parametrize("text", HOSTILE_TEXTS)
def test_nothing_in_the_file_can_steer_a_terminal_or_an_editor(text: str) -> None:
    found = written(text, tool(text, description=text))
    assert all(line.isprintable() for line in found.split("\n"))
    assert max(map(len, found.split("\n"))) < 6_000
    names = [line for line in found.split("\n") if line.startswith("[tools")]
    assert all(line.isascii() for line in names)


def test_a_tool_whose_name_can_not_be_written_is_left_out_and_so_refused() -> None:
    tables = read(written("mail", tool("\ud800"), tool(""), tool("list", reads=True)))
    assert tables["tools"].keys() == {"list"}


def test_a_long_description_is_cut() -> None:
    (line,) = [line for line in written("m", tool("a", description="x" * 5_000)).split("\n") if "xxx" in line]
    assert len(line) < 220
    assert line.endswith('..."')


@pytest.mark.slow
@settings(max_examples=100)
@given(texts(), st.lists(tools(), max_size=5, unique_by=lambda found: found.name))
def test_any_list_of_tools_gives_a_configuration_of_just_these_tools(server: str, offered: list[Tool]) -> None:
    config = convert_tables(tomllib.loads(written(server, *offered)), strict=True)
    catalog = build_catalog(config)
    assert set(catalog.tools) == {found.name for found in offered if found.name and is_utf8(found.name)}
    for found in offered:
        if found.name in catalog.tools:
            expected = suggestion(found, server)
            entry = catalog.tools[found.name]
            assert (entry.scope, entry.marked_sensitive) == (expected.scope, expected.sensitive)


@pytest.mark.slow
@settings(max_examples=50)
@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(lambda t: "\0" not in t), min_size=1)
)
def test_any_command_is_written_as_it_is(command: list[str]) -> None:
    assert read(written("m", upstream=StdioUpstream(tuple(command))))["upstream"]["command"] == command
