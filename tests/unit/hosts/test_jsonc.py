"""A member of somebody's file changes, and not one byte beside it: comments and the manner of writing are theirs."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accredit.errors import ConfigurationError
from accredit.hosts.jsonc import Number, drop, parse, put
from accredit.limits import MAX_DEPTH

PATH = ("mcpServers", "mail")
ENTRY = {"command": "/opt/accredit", "args": ["connect", "http://127.0.0.1:8484/mcp"]}

SAME_AGAIN = {
    "one line": '{"mcpServers":{"a":{"url":"http://x"}}}',
    "one line with blanks": '{ "mcpServers": { "a": {} } }',
    "tabs, comments, a comma at the end": '{\n\t"x": 1, // c\n\t"mcpServers": {\n\t\t"a": {}, // d\n\t}\n}\n',
    "CRLF": '{\r\n    "mcpServers": {\r\n        "a": 1\r\n    }\r\n}\r\n',
    "comments behind the last": '{\n  "mcpServers": {\n    "a": 1 // z, "b"\n    /* end } */\n  }\n}',
    "an empty table": '{\n  "mcpServers": {},\n  "z": "}"\n}\n',
    "a table on the first line": '{ "mcpServers": {\n  "a": [1, {"b": "// no comment"},],\n }, /* x */ }',
    "a comment before and behind": '// of mine\n{\n  "mcpServers": { /* one line */ "a": 1, }\n}\n// end',
}
OTHERS = {"": "{}", " \r\n": "{}", "// nothing yet": "{}", "{}": "{}", "{ }": "{}", '{\n  "a": 1\n}\n': '{"a": 1}'}


@pytest.mark.parametrize("case", SAME_AGAIN)
def test_what_is_put_in_and_taken_out_again_leaves_the_very_bytes(case: str) -> None:
    text = SAME_AGAIN[case]
    new = put(text, PATH, ENTRY)
    meaning: Any = parse(new)
    assert meaning["mcpServers"].pop("mail") == ENTRY
    assert meaning == parse(text)
    assert ("\r\n" in new, "\n" in new.replace("\r\n", "")) == ("\r\n" in text, "\n" in text.replace("\r\n", ""))
    assert drop(new, PATH) == text


@pytest.mark.parametrize("text", OTHERS)
def test_where_there_is_no_table_one_is_made_and_nothing_goes(text: str) -> None:
    new = put(text, PATH, ENTRY)
    assert parse(new) == {**json.loads(OTHERS[text]), "mcpServers": {"mail": ENTRY}} | (
        {"a": Number("1")} if "a" in text and "1" in text else {}
    )
    at = iter(new)
    assert all(char in at for char in text)  # in their order


def test_only_the_value_of_a_member_that_is_there_changes() -> None:
    text = '{ // a\n  "mcpServers": {\n    "mail" : 7 /* x */, // b\n    "z": 1\n  }\n}'
    new = put(text, PATH, "new")
    assert new == text.replace("7", '"new"')


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ('{"mcpServers": {"mail": 1, "b": 2}}', '{"mcpServers": { "b": 2}}'),
        ('{"mcpServers": {"b": 2, "mail": 1}}', '{"mcpServers": {"b": 2}}'),
        ('{"mcpServers": {\n// of mail\n"mail": 1, "b": 2}}', '{"mcpServers": {\n// of mail\n "b": 2}}'),
        ('{"mcpServers": {\n  "b": 2, // of b\n  "mail": 1}}', '{"mcpServers": {\n  "b": 2 // of b\n  }}'),
        ('{"mcpServers": {"mail": {"a": 1}}}', '{"mcpServers": {}}'),
        ('{"other": 1}', '{"other": 1}'),
        ("", ""),
    ],
)
def test_a_member_goes_with_its_comma__and_no_comment_swallows_another(text: str, left: str) -> None:
    assert drop(text, PATH) == left
    parse(left)


REFUSED = {
    "a byte order mark": '\ufeff{"a": 1}',
    "a name twice": '{"a": {"b": 1, "b": 2}}',
    "a name twice, spelled otherwise": '{"mcpServers": {}, "mcp\\u0053ervers": {}}',
    "two values": "{} {}",
    "no object": "[1]",
    "cut off": '{"a": {',
    "a string without an end": '{"a": "b}',
    "a comment without an end": '{"a": 1 /* }',
    "a comment that ends otherwise for others": '{"a": 1 // \u2028 , "b": 2\n}',
    "a control character": '{"a": "\t"}',
    "an escape that is none": '{"a": "\\x41"}',
    "no name": "{a: 1}",
    "single quotes": "{'a': 1}",
    "two commas": '{"a": 1,, "b": 2}',
    "a comma alone": "{,}",
    "no comma": '{"a": 1 "b": 2}',
    "no number": '{"a": 01}',
    "not a number": '{"a": NaN}',
    "blanks of others": '{"a":\u00a01}',
    "deep": '{"a": ' + "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1) + "}",
    "a table that is none": '{"mcpServers": []}',
    "null for a table": '{"mcpServers": null}',
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_others_may_read_otherwise_is_refused(case: str) -> None:
    with pytest.raises(ConfigurationError):
        put(REFUSED[case], PATH, ENTRY)


def test_an_error_names_the_line() -> None:
    with pytest.raises(ConfigurationError, match="line 3 "):
        parse('{\n"a": 1,\n"b" 2}')


BLANKS = st.lists(
    st.sampled_from(["", " ", "\t", "\n", "\r\n", '// c, } "\n', "/* ] , */", "/**/", "//\n"]), max_size=3
).map("".join)
NAMES = st.sampled_from(["a", "mail", "mcpServers", 'q"', "\u00e9", "//", ""])


@st.composite
def texts(draw: st.DrawFn, depth: int = 0) -> str:
    """A value, written in somebody's manner."""
    kind = draw(st.sampled_from(["object", "array", "leaf"] if depth < 3 else ["leaf"])) if depth else "object"
    if kind == "leaf":
        return draw(st.sampled_from(["1", "-0.5e+3", "true", "null", '"// x"', '"\\u00e9\\""', '"}"']))
    members: list[str] = []
    for name in draw(st.lists(NAMES, unique=True, max_size=3)):
        value = draw(BLANKS) + draw(texts(depth=depth + 1)) + draw(BLANKS)
        members.append(f"{draw(BLANKS)}{json.dumps(name)}{draw(BLANKS)}:{value}" if kind == "object" else value)
    end = draw(BLANKS) + (draw(st.sampled_from(["", ","])) if members else "") + draw(BLANKS)
    inside = ",".join(members) + end
    return f"{{{inside}}}" if kind == "object" else f"[{inside}]"


@given(before=BLANKS, text=texts(), behind=BLANKS)
def test_whatever_a_file_looks_like__it_means_the_same_but_for_the_member(before: str, text: str, behind: str) -> None:
    text = before + text + behind
    old: Any = parse(text)
    try:
        new = put(text, PATH, ENTRY)
    except ConfigurationError:
        assert not isinstance(old.get("mcpServers", {}), dict)
        return
    assert parse(new) == {**old, "mcpServers": {**old.get("mcpServers", {}), "mail": ENTRY}}
    left: Any = parse(drop(new, PATH))
    assert left == {**old, "mcpServers": {k: v for k, v in old.get("mcpServers", {}).items() if k != "mail"}}
    if "mail" not in old.get("mcpServers", {}):
        bytes_left = iter(new)
        assert all(char in bytes_left for char in text)


@given(st.text(alphabet='{}[]",:/*\\\n\r u0041-.eE+tfn\u2028\ufeff') | st.text())
def test_whatever_the_characters_are__there_is_a_text_or_our_own_error(text: str) -> None:
    for edit in (lambda: put(text, PATH, ENTRY), lambda: drop(text, PATH)):
        with suppress(ConfigurationError):
            parse(edit())


class _Nothing:
    """Reads nothing: in the place of the parser in C."""

    def raw_decode(self, _text: str, _at: int) -> object:
        raise ValueError


def read(text: str) -> object:
    """What a text means, or what is wrong with it."""
    try:
        return parse(text)
    except ConfigurationError as error:
        return error.what


@pytest.mark.slow
@given(
    texts(),
    st.integers(0, 400),
    st.sampled_from(['"', ",", "}", "[", "/**/", "//\n", "NaN", "-", "01", "\x0b", "\\ud8"]),
)
def test_the_parser_in_c_says_what_the_careful_one_says(text: str, at: int, odd: str) -> None:
    mutated = text[: at % (len(text) + 1)] + odd + text[at % (len(text) + 1) :]
    for each in (text, mutated, f'{{"a": [{text}], "b": {mutated}}}'):
        quick = read(each)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("accredit.hosts.jsonc._JSON", _Nothing())
            assert read(each) == quick


def test_a_file_is_no_deeper_for_the_parser_in_c() -> None:
    for levels in (MAX_DEPTH, MAX_DEPTH + 1):
        for inside in ("", "/**/"):
            text = '{"a": ' + "[" * levels + inside + "]" * levels + "}"
            assert isinstance(read(text), str) is (levels > MAX_DEPTH)
