"""The text that `accredit add` writes: whatever the new server says, the old ones mean what they did."""

import tomllib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp.types import Tool
from tests.world.tool_lists import HOSTILE_TEXTS, texts, tool, tools

from accredit.asking.listing import ServerListing
from accredit.base.text import is_utf8
from accredit.config.load import load
from accredit.config.proofs import build_catalog
from accredit.config.renaming import means_renamed
from accredit.config.servers import view
from accredit.errors import ConfigurationError
from accredit.gateway import HttpUpstream
from accredit.limits import MAX_DEFINITIONS
from accredit.pins.definitions import Definitions, read_definition
from accredit.setup.add import _by_scope, _new_content, _with_scope
from accredit.setup.config_text import McpServer, added_tables
from accredit.setup.pin import lock_text
from accredit.signing.suggest_scopes import suggestions

pytestmark = pytest.mark.holds("setup/add")

ONE = """\
# mine
[upstream]   # odd   spacing
url = 'http://127.0.0.1:9/mcp'
headers = { "X-Key" = { env = "KEY" } }

[tools."send mail"]
scope = "email:send" # by hand
[proofs]
default_tool_scope = ""
"""
SEVERAL = ONE.replace("[upstream]", "[servers.mail]").replace("[tools.", "[servers.mail.tools.")
URL = HttpUpstream("http://127.0.0.1:9/new")


def added(file: Path, text: str, offer: ServerListing, existing: str | None) -> str:
    file.write_text(text, "utf-8", newline="")
    tables = added_tables(McpServer("new", URL, {}, offer, suggestions(offer, "new")))
    return _new_content(load(file, {}, {}), "new", existing, tables).decode()


@pytest.mark.slow
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    offered=st.lists(tools(), max_size=4, unique_by=lambda found: found.name),
    name=texts(),
    ends=st.sampled_from(["\n", "\r\n"]),
    last=st.sampled_from(["", "# no line end", "\n"]),
    one=st.booleans(),
)
def test_whatever_a_server_says_the_others_mean_what_they_did(
    offered: list[Tool], name: str, ends: str, last: str, one: bool, tmp_path: Path
) -> None:
    file, old = tmp_path / "accredit.toml", ((ONE if one else SEVERAL) + last).replace("\n", ends)
    found = added(file, old, ServerListing(name, tuple(offered)), "mail" if one else None)
    if not one:
        assert found.startswith(old)
    assert found.count("\n") == found.count(ends)
    tables = tomllib.loads(found)
    del tables["servers"]["new"]
    before = tomllib.loads(old)
    assert tables == (means_renamed(before, "mail") if one else before)
    new = view(load(file, {}, {}, content=found.encode()), "new")
    assert build_catalog(new.config).tools.keys() == {each.name for each in offered if each.name and is_utf8(each.name)}


@pytest.mark.parametrize("text", HOSTILE_TEXTS)
def test_a_servers_words_make_no_table_for_another(text: str, tmp_path: Path) -> None:
    offer = ServerListing(text, (tool(text, description=text), tool("[servers.mail.tools.x]")))
    tables = tomllib.loads(added(tmp_path / "accredit.toml", SEVERAL, offer, None))
    assert tables["servers"]["mail"] == tomllib.loads(SEVERAL)["servers"]["mail"]
    assert tables.keys() == {"servers", "proofs"}


def test_bytes_of_a_file_with_both_line_ends_stay_as_they_are(tmp_path: Path) -> None:
    mixed = SEVERAL.replace("# mine\n", "# mine\r\n")
    assert added(tmp_path / "accredit.toml", mixed, ServerListing("new", (tool("a"),)), None).startswith(mixed)


def test_what_one_delegation_would_allow_at_two_servers_is_found(tmp_path: Path) -> None:
    file = tmp_path / "accredit.toml"
    file.write_text(SEVERAL, "utf-8")
    claims = tool("a").model_copy(update={"meta": {"ratify_scope": "email:send"}})
    offer = ServerListing("mail", (claims, tool("send mail"), tool("list", reads=True)))
    mine = _by_scope(offer, suggestions(offer, "new"))
    loaded = load(file, {}, {})
    assert {scope: _with_scope(scope, loaded, "upstream") for scope in mine if scope != "mcp:tool"} == {
        "email:send": ["mail"],
        **{scope: [] for scope in mine if scope.startswith("custom:new:")},
    }
    assert len(mine) == 3


def test_a_lock_that_could_not_be_read_again_is_not_written() -> None:
    definitions = {f"t{number}": read_definition(b'{"name":"t%d"}' % number) for number in range(MAX_DEFINITIONS + 1)}
    with pytest.raises(ConfigurationError, match="nothing can be pinned"):
        lock_text({"upstream": Definitions(definitions)})
