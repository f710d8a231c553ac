"""Strategies: JSON texts in every spelling, JSON-RPC messages that are almost right, and bytes that are not."""

import json

from hypothesis import strategies as st

_SPACES = st.sampled_from(["", "", "", "", " ", "\n", "\t", "\r\n"])
_PIECES = st.one_of(
    st.text(st.characters(blacklist_categories=["Cs", "Cc"], blacklist_characters='"\\'), max_size=4),
    st.sampled_from(['\\"', "\\\\", "\\/", "\\n", "\\u0041", "\\ud83d\\ude00", "[", "]", "{", "}", ":", ",", "1e999"]),
    st.sampled_from([*[""] * 9, "\\ud800", "\\x", "\n", "\\"]),
)
strings = st.lists(_PIECES, max_size=4).map(lambda pieces: '"' + "".join(pieces) + '"')

numbers = st.one_of(
    st.integers(-5, 5).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(
        ["-0", "1.0", "1e3", "1E+99", "1e308", "1e309", "-1e999", "0e999", "1e-999", "0.1e310", "01", "1."]
    ),
    st.builds(
        "{}{}{}".format,
        st.sampled_from([1, 199, 200, 209, 308, 309, 310]).map("9".__mul__),
        st.sampled_from(["", ".5", "." + "1" * 300]),
        st.sampled_from(["", "e1", "e-300", "e+99", "E100", "e0001", "e400"]),
    ),
)
_SCALARS = st.one_of(strings, numbers, st.sampled_from(["true", "false", "null", "{}", "[]", "NaN"]))


def spelled(name: str) -> st.SearchStrategy[str]:
    """A member's name: plain (mostly), with an escape, or in another case."""
    plain = json.dumps(name)
    escaped = f'"\\u{ord(name[0]):04x}{name[1:]}"'
    kelvin = name.replace("k", "\u212a").replace("s", "\u017f")
    return st.sampled_from([plain, plain, escaped, escaped, json.dumps(name.upper()), f'"{kelvin}"'])


def objects(names: st.SearchStrategy[str], values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """An object of these; names may occur twice."""
    member = st.builds("".join, st.tuples(_SPACES, names, _SPACES, st.just(":"), _SPACES, values, _SPACES))
    return st.lists(member, max_size=5).map(lambda members: "{" + ",".join(members) + "}")


_NAMES = st.sampled_from(['"a"', '"b"', '"\\u0061"', '"jsonrpc"', '""', '"\u00e9"']) | strings


def _nested(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    arrays = st.lists(values, max_size=4).map(lambda parts: "[" + ",".join(parts) + "]")
    return arrays | objects(_NAMES, values)


values = st.recursive(_SCALARS, _nested, max_leaves=8)
"""A JSON value, now and then one that is not."""


@st.composite
def deep(draw: st.DrawFn) -> str:
    """Arrays and objects in each other, some 128 deep, with strings that look like brackets between them."""
    opening = draw(st.lists(st.sampled_from(["[", '{"[":', '["]\\"",', '["\\\\",', '{"\\n\\"":']), max_size=131))
    closing = ["]" if text.startswith("[") else "}" for text in reversed(opening)]
    return "".join([*opening, draw(_SCALARS), *closing])


def _member(name: st.SearchStrategy[str], value: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(_SPACES, name, _SPACES, st.just(":"), _SPACES, value, _SPACES).map("".join)


_ERRORS = st.lists(
    st.one_of(
        _member(spelled("code"), st.sampled_from(["-32000", "1", "1.5", "1.0", "true", '"1"'])),
        _member(spelled("message"), st.sampled_from(['"m"', '"\\u0041"', "null", "1"])),
        _member(spelled("data"), st.sampled_from(["null", "[1]"])),
    ),
    max_size=4,
).map(lambda members: "{" + ",".join(members) + "}")

_GOOD = {
    "jsonrpc": st.sampled_from(['"2.0"', '"2.0"', '"2.\\u0030"']),
    "id": st.sampled_from(["7", "7", '"7"', '"\\u0037"', "-0", "123456789012345678901234567890"]),
    "method": st.sampled_from(['"tools/call"', '"tools/call"', '"ping"', '"x"']),
    "params": st.sampled_from(["{}", '{"name":"n"}', '{ "_meta": {"progressToken": 1} }', '{"a":[{"b":1},{"b":2}]}']),
    "result": st.sampled_from(["{}", "null", '{"content":[]}', '{"a":1,"a":2}', '"id"', "[1e308]"]),
    "error": st.sampled_from(['{"code":-32000,"message":"m"}', '{"message": "m", "code": 1, "data": {}}']),
    "other": st.sampled_from(["1", "{}", '[{"id":1}]']),
}
_ODD = {
    "jsonrpc": st.sampled_from(['"1.0"', "2.0", "null"]),
    "id": st.sampled_from(["7.0", "null", "true", "[]"]),
    "method": st.sampled_from(["null", "1"]),
    "params": st.sampled_from(
        [
            '{"name": "n", "Name":"m"}',
            '{"_meta":{"PROGRESSTOKEN":1}}',
            '{"_meta":null}',
            '{"a":{"b":1,"b":2}}',
            '{"a":[{"b":1,"\\u0062":2}]}',
            "[]",
            "null",
        ]
    )
    | values,
    "result": values,
    "error": _ERRORS | values,
    "other": values,
}
_USUAL = [("id", "method", "params"), ("id", "method"), ("method",), ("id", "result"), ("id", "error"), ("id", "error")]


@st.composite
def messages(draw: st.DrawFn) -> str:
    """A JSON-RPC message, or what is almost one: at most two things about it are odd."""
    names = ["jsonrpc", *draw(st.sampled_from(_USUAL))]
    odd = draw(st.lists(st.sampled_from(["value", "name", "missing", "more", "twice"]), max_size=2))
    if "missing" in odd:
        names.remove(draw(st.sampled_from(names)))
    names += draw(st.lists(st.sampled_from(sorted(_GOOD)), max_size=2)) if "more" in odd else []
    at = draw(st.integers(0, 3))
    members: list[str] = []
    for index, name in enumerate(names):
        values = _ODD if "value" in odd and index == at else _GOOD
        spelling = spelled(name) if "name" in odd and index == at else st.just(f'"{name}"')
        members.append(draw(_member(spelling, values[name])))
    if "twice" in odd and members:
        members.append(draw(st.sampled_from(members)))
    return draw(_SPACES) + "{" + ",".join(draw(st.permutations(members))) + "}" + draw(_SPACES)


@st.composite
def mutated(draw: st.DrawFn, texts: st.SearchStrategy[str]) -> bytes:
    """The bytes of a text, mostly as they are; sometimes a few of them replaced, removed or added."""
    data = bytearray(draw(texts).encode("utf-8", "surrogatepass"))
    for _ in range(draw(st.sampled_from([0, 0, 0, 0, 0, 0, 1, 2]))):
        at = draw(st.integers(0, len(data)))
        until = at + draw(st.integers(0, 2))
        data[at:until] = draw(
            st.sampled_from([b"", b"}", b"{", b"]", b'"', b"\\", b",", b"\xff", b"\xef\xbb\xbf", b"\0", b"1"])
        )
    return bytes(data)
