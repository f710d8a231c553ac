"""A file with `[upstream]` becomes one with `[servers]`: it means the same, and every comment is there."""

import re
import tomllib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accredit.config.renaming import means_renamed, rename_upstream
from accredit.errors import ConfigurationError

pytestmark = pytest.mark.holds("config/renaming")

SHAPES = {
    "headers": """\
# head
[gateway]   # odd   spacing
port = 1
# before the timeout
upstream_timeout_seconds = 3 # slow
id = 'x'

[ upstream ] # u
url = "x" # c1
headers."X-Key" = { env = "KEY" } # by reference
# trailing

[tools.a] # A
scope = "q"
[ "tools" . b.facts]
x = 1

[upstream.auth]
# in auth
client_secret = { file = "secret" }
[proofs] # p
mode = "off"
[[proofs.roots]]
name = "O" # mine
[tools."c.d"]
scope = '''
[upstream]
# not a comment
'''
[resources."file:///etc"]
# end""",
    "dotted keys": """\
# head
upstream.url = "x" # c1
upstream.env = { a = "b" } # c2
gateway.port = 1
gateway.upstream_timeout_seconds = 1 # c3
tools.a.scope = "x"
# before b
tools.b = { scope = "e" } # c5
""",
    "in one line": """\
upstream = { url = "x" } # c
[gateway] # g
upstream_timeout_seconds = 1 # x
""",
    "gateway in one line": """\
gateway = { upstream_timeout_seconds = 1, port = 2 } # g
[upstream]
url = "x" # u
""",
    "header of a part first": """\
[upstream.headers] # h
a = "b"
[gateway]
upstream_timeout_seconds = 1 # slow
[upstream]
url = "x"
""",
    "header of a part alone": """\
[upstream.headers] # h
a = "b"
[gateway]
upstream_timeout_seconds = 1 # slow
[upstream.auth]
b = "x"
""",
    "dotted keys below headers": """\
[upstream]
url = "x"
headers.a = "x" # h
[tools]
# of tools
a.scope = "x"
b.scope = "y" # 1
[tools.c]
scope = "x"
""",
    "nothing but the server": '[upstream]\nurl = "x"',
}
COMMENT = re.compile(r"#[^\r\n]*")


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
@pytest.mark.parametrize("shape", SHAPES)
def test_it_means_what_it_did_and_each_comment_is_there(shape: str, ends: str) -> None:
    text = SHAPES[shape].replace("\n", ends)
    found = rename_upstream(text, "mail")
    old, new = tomllib.loads(text), tomllib.loads(found)
    assert new == means_renamed(old, "mail")
    assert new["servers"]["mail"]["url" if "url" in old["upstream"] else "headers"]
    assert new.keys() == old.keys() - {"upstream", "tools", "resources", "prompts"} | {"servers"}
    assert [new[key] for key in new.keys() - {"servers", "gateway"}] == [
        old[key] for key in new.keys() - {"servers", "gateway"}
    ]
    assert sorted(COMMENT.findall(found)) == sorted(COMMENT.findall(text))
    assert found.count("\n") == found.count(ends)


def test_what_each_table_becomes() -> None:
    new = tomllib.loads(rename_upstream(SHAPES["headers"], "mail"))
    assert new["gateway"] == {"port": 1, "id": "x"}
    assert new["servers"] == {
        "mail": {
            "timeout_seconds": 3,
            "url": "x",
            "headers": {"X-Key": {"env": "KEY"}},
            "auth": {"client_secret": {"file": "secret"}},
            "tools": {"a": {"scope": "q"}, "b": {"facts": {"x": 1}}, "c.d": {"scope": "[upstream]\n# not a comment\n"}},
            "resources": {"file:///etc": {}},
        }
    }


def test_but_for_headers_and_the_timeout_it_is_the_same_bytes() -> None:
    old, new = (text.splitlines() for text in (SHAPES["headers"], rename_upstream(SHAPES["headers"], "mail")))
    new.remove("timeout_seconds = 3 # slow")
    old.remove("upstream_timeout_seconds = 3 # slow")
    changed = [(was, now) for was, now in zip(old, new, strict=True) if was != now]
    assert changed == [
        ("[ upstream ] # u", "[servers.mail] # u"),
        ("[tools.a] # A", "[servers.mail.tools.a] # A"),
        ('[ "tools" . b.facts]', "[servers.mail.tools.b.facts]"),
        ("[upstream.auth]", "[servers.mail.auth]"),
        ('[tools."c.d"]', '[servers.mail.tools."c.d"]'),
        ('[resources."file:///etc"]', '[servers.mail.resources."file:///etc"]'),
    ]


@pytest.mark.parametrize(
    "text",
    [
        'upstream = { url = "x" }\n[tools.a]\nscope = "x"\n',
        'tools.a.scope = "x"\n[upstream]\nurl = "x"\n',
        '[upstream]\nurl = "x"\n[servers.b]\nurl = "y"\n',
        "\ufeff[upstream]\n",
        "[upstream",
    ],
)
def test_a_form_that_can_not_be_renamed_is_told(text: str) -> None:
    with pytest.raises(ConfigurationError, match="nothing was changed"):
        rename_upstream(text, "mail")


KEYS = st.sampled_from(["a", '"b c"', "'d.e'", "scope"])
VALUES = st.sampled_from(['"x"', "1", "[1, 2] # more", "{ y = 1 }", '"""\n[tools]\n#no\n"""', "1979-05-27T07:32:00Z"])
LINES = st.builds("{} = {}{}\n".format, KEYS, VALUES, st.sampled_from(["", " # said", "\n\n# alone"]))
HEADERS = st.sampled_from(
    ["[upstream]", "[upstream.auth] # a", "[tools.x]", '[tools."x y"]#b', "[ tools . z ]", "[prompts]", "[resources]",
     '[resources."u:v"]', "[gateway] # c", "[proofs]", "[[proofs.roots]]", "[store]"]
)  # fmt: skip
FILES = st.builds(
    "{}{}".format,
    st.lists(st.sampled_from(["# top\n", "\n", "tools.r = { q = 1 } # r\n", "upstream.s = 1\n"]), max_size=2).map(
        "".join
    ),
    st.lists(st.builds("{}\n{}".format, HEADERS, st.lists(LINES, max_size=3).map("".join)), max_size=7).map("".join),
)


def parsed(text: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


@pytest.mark.slow
@settings(max_examples=600)
@given(FILES, st.booleans())
def test_any_file_means_the_same_with_every_comment__or_is_refused(text: str, crlf: bool) -> None:
    text = text.replace("\n", "\r\n") if crlf else text
    old = parsed(text)
    if old is None or "upstream" not in old:
        return
    try:
        found = rename_upstream(text, "mail")
    except ConfigurationError:
        assert "upstream.s" in text or "tools.r" in text or "} # r" in text  # keys with dots beside headers
        return
    assert tomllib.loads(found) == means_renamed(old, "mail")
    strings = re.compile(r'""".*?"""', re.DOTALL)
    comments = [COMMENT.findall(strings.sub("", each)) for each in (text, found)]
    assert sorted(comments[0]) == sorted(comments[1])
