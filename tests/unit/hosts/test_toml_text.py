"""A table of somebody's TOML changes, and no line beside it."""

import tomllib
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accredit.errors import ConfigurationError
from accredit.hosts.toml_text import drop, parse, put

PATH = ("mcp_servers", "mail")
ENTRY = {"command": "/opt/accredit", "args": ["connect", "é\n"], "tool_timeout_sec": 300}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "model = 1 # mine\n",
        "[a]\r\nb = 1\r\n# the end\r\n",
        '[mcp_servers.other]\ncommand = "x"\n\n# of b\n[b]\nc = """\n[mcp_servers.x]\n"""\n\n\n',
    ],
)
def test_what_is_put_in_and_taken_out_again_leaves_the_very_bytes(text: str) -> None:
    new = put(text, PATH, ENTRY)
    assert new.startswith(text)
    assert tomllib.loads(new)["mcp_servers"]["mail"] == ENTRY
    assert drop(new, PATH) == text


def test_a_table_is_replaced_where_it_stands__with_those_below_it__and_comments_behind_stay() -> None:
    text = '[ mcp_servers . "mail" ] # old\ncommand = "x"\n\n# of env\n[mcp_servers.mail.env]\nA = "1"\n# of z\n[z]\n'
    new = put(text, PATH, ENTRY)
    assert tomllib.loads(new) == {"mcp_servers": {"mail": ENTRY}, "z": {}}
    assert new.startswith('[ mcp_servers . "mail" ] # old\n')
    below_first = '[mcp_servers.mail.env]\nA = "1"\n[mcp_servers.mail]\ncommand = "x"\n'
    assert tomllib.loads(put(below_first, PATH, ENTRY)) == {"mcp_servers": {"mail": ENTRY}}
    assert new.endswith("# of env\n# of z\n[z]\n")
    assert drop(text, PATH) == "\n# of env\n# of z\n[z]\n"


@pytest.mark.parametrize("text", ["[a", "a = 1\na = 2", "a = " + "[" * 5000, "a = 99999-01-01", "#" * 200_000])
def test_what_is_no_toml_is_our_own_error(text: str) -> None:
    with pytest.raises(ConfigurationError):
        parse(text)


@given(st.text(alphabet="[].\"=#\n\r mcp_serversmail1'") | st.text())
def test_whatever_the_characters_are__there_is_a_text_or_our_own_error(text: str) -> None:
    for edit in (lambda: put(text, PATH, ENTRY), lambda: drop(text, PATH)):
        with suppress(ConfigurationError):
            parse(edit())
