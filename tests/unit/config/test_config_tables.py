"""The plain reading says yes only to what pydantic takes, too, and to the same configuration."""

import math
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from accredit.config import Config, conversion
from accredit.config.schema import Gateway, Tools

pytestmark = [
    pytest.mark.holds("config/tables"),
    pytest.mark.holds("config/fields"),
    pytest.mark.holds("config/conversion"),
    pytest.mark.holds("base/deferred"),
]

FULL = {
    "gateway": {"host": "localhost", "port": 0, "upstream_timeout_seconds": 5, "methods": ["vendor/x"], "id": "gw"},
    "upstream": {
        "url": "http://127.0.0.1:9000/mcp",
        "headers": {"A": "b", "Authorization": {"env": "C", "scheme": "Bearer"}, "D": {"env": "E"}},
    },
    "tokens": {
        "mode": "optional",
        "sources": ["header"],
        "issuers": [{"issuer": "i", "audience": "a", "jwks_url": "https://example.com/keys"}],
        "bootstrap": {"key_file": "k", "secret_file": "s", "ttl_seconds": 60},
    },
    "proofs": {"mode": "required", "filter_tools": False, "roots": [{"name": "O", "public_key_file": "o.pub"}]},
    "tools": {"pay": {"scope": "payments:send", "facts": {"amount": "/amount"}, "token_scope": "a", "sensitive": True}},
    "resources": {"scope": "a:b", "file:///x": {"scope": "c:d", "accepts": ["e:f"]}},
    "attest": {"mode": "durable", "arguments": "full"},
    "store": {"url": "sqlite:///a.db"},
}
TRICKY: list[Any] = [
    *(None, True, False, 0, 1, -1, 60, 65_536, 2**63, 2**64, 10**400),
    *(0.0, -0.0, 1.0, 8.5, math.inf, -math.inf, math.nan),
    *("", " ", "8", "1_0", "true", "off", "required", "a", "/mcp", "/healthz", "a:b", "memory:", "a\n", "\ud800"),
    *("http://h/", "http://h:0/", "Accredit-Identity", "X-A", "Host", "é", "file:///x", b"a", date(2026, 1, 1)),
    *([], [""], ["a"], ["/a"], [1], ["a:b"], ("a",), ["header", "header"], ["header", "cookie"], [[]], [None], [{}]),
    *({}, {"a": "b"}, {"a": 1}, {"a": True}, {"a": {"env": "B"}}, {"a": {"env": ""}}, {"a": {"env": "B", "scheme": 1}}),
    *({"": "b"}, {"A": "b", "a": "b"}, {1: "b"}, {"Host": "b"}, {"amount": "/a"}, {"amount": 1.5}),
    *([{"name": "a", "public_key_file": "b"}], [{"name": "a"}], {"files": ["a"]}),
    *({"key_file": "a", "secret_file": "b"}, {"amount": math.nan}, {"a": {"env": "B", "scheme": ""}}),
]  # fmt: skip
KEYS = [(section, key) for section, table in Config() for key in type(table).model_fields]
NAMES = ["", "a", "scope", "model_dump", "by_name", "_entries", "__class__", "self", "file:///x"]


def outcome(values: object, *, strict: bool) -> str | None:
    """What pydantic makes of values, or None where it refuses them."""
    try:
        return written(Config.plainly(conversion.converted(Config, values, strict=strict)))
    except ValueError:
        return None


def written(config: Config) -> str:
    """With the types of all values: True is not 1, and 1 is not 1.0."""
    return repr(config.model_dump())


def check(values: object) -> bool:
    """Whether the plain reading takes values; if so, pydantic does, and to the same effect."""
    try:
        read = written(Config.plainly(values))
    except ValueError:
        return False
    assert outcome(values, strict=True) == outcome(values, strict=False) == read
    return True


def test_a_whole_file_is_read_plainly__most_gateways_never_load_pydantic() -> None:
    assert check(FULL)
    assert check({})
    code = f"from accredit.config import Config; Config.model_validate({FULL!r}); import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=Path.cwd())
    loaded = done.stdout.split()
    assert "accredit.config.schema" in loaded
    assert not {"pydantic", "pydantic_core", "accredit.config.conversion"} & {*loaded}


@pytest.mark.parametrize(("section", "key"), KEYS)
def test_no_value_is_read_plainly_that_pydantic_would_refuse_or_convert(section: str, key: str) -> None:
    base: dict[str, Any] = {"scope": "a:b"} if section in ("tools",) else {}
    for value in TRICKY:
        check({section: {**base, key: value}})


@pytest.mark.parametrize("section", ["tools", "resources"])
def test_a_name_of_somebody_elses_is_an_entry__whatever_it_would_be_in_python(section: str) -> None:
    for name in NAMES:
        for value in (*TRICKY, {"scope": "a:b"}, {"scope": "a:b", "facts": {"amount": "/a"}, "token_scope": "a\n"}):
            check({section: {name: value}})
    table = Tools.plainly({"model_dump": {"scope": "a:b"}, "_entries": {"scope": "c:d"}, "by_name": {"scope": "e:f"}})
    assert {name: tool.scope for name, tool in table.by_name.items()} == {
        "model_dump": "a:b",
        "_entries": "c:d",
        "by_name": "e:f",
    }
    assert [*table.model_dump()] == [*table.by_name]


def tables() -> st.SearchStrategy[Any]:
    name = st.sampled_from([*{key for _, key in KEYS}, *NAMES]) | st.text(max_size=4)
    value = st.sampled_from(TRICKY) | st.text(max_size=6) | st.integers() | st.floats()
    table = st.dictionaries(name, value, max_size=3)
    section = st.sampled_from([name for name, _ in Config()])
    return st.dictionaries(section, table | st.dictionaries(name, table, max_size=2) | value, max_size=2)


@settings(max_examples=100, deadline=None)
@given(tables())
@example({"gateway": None})
@example({"nothing": {}})
@example(None)
@example([])
def test_both_readings_of_any_content_agree(values: object) -> None:
    check(values)


def test_what_is_not_plain_is_converted_as_before__and_refused_in_a_file() -> None:
    converted = Gateway.model_validate({"port": "8", "upstream_timeout_seconds": "1.5"})
    assert (converted.port, converted.upstream_timeout_seconds) == (8, 1.5)
    with pytest.raises(ValueError, match="port"):
        Gateway.model_validate({"port": "8"}, strict=True)


def test_a_table_is_read_only__what_was_checked_is_what_runs() -> None:
    with pytest.raises(AttributeError, match="read-only"):
        Gateway().port = 1  # pyright: ignore[reportAttributeAccessIssue]
