"""What is wrong with a table is said with its place, in words of ours, and without the value."""

import tomllib

import pytest

from accredit.config.conversion import convert_tables
from accredit.config.values import WrongValue

pytestmark = [pytest.mark.holds("config/conversion"), pytest.mark.holds("config/section")]

SECRET = "swordfish"


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("port = true", ("gateway", "port"), "should be an integer"),
        ("port = -1", ("gateway", "port"), "should be an integer >= 0"),
        (f'port = "{SECRET}"', ("gateway", "port"), "should be an integer"),
        (f'methods = ["a", "{SECRET} b"]', ("gateway", "methods", 1), "should hold names in printable ASCII"),
        ("upstream_timeout_seconds = nan", ("gateway", "upstream_timeout_seconds"), "should be a number > 0"),
        ("upstream_timeout_seconds = inf", ("gateway", "upstream_timeout_seconds"), "should be a finite number"),
        ('"a - at `$.b`" = 1', ("gateway", "a - at `$.b`"), "no such key"),
        (f'[validation]\nresponses = "{SECRET}"', ("validation", "responses"), 'should be "enforce" or "observe"'),
        (f'[tokens]\nsources = ["{SECRET}"]', ("tokens", "sources", 0), 'should be "header" or "argument" or "meta"'),
        ("[tokens]\nsources = []", ("tokens", "sources"), "should be a list of length >= 1"),
        ('[upstream]\nenv = { A = "b", C = 1 }', ("upstream", "env", "C"), "should be text"),
        ("[upstream.headers]\nA = 1", ("upstream", "headers", "A"), "should be text or a table"),
        ('[upstream.headers]\nB = "c"\nA = { evn = "D" }', ("upstream", "headers", "A", "evn"), "no such key"),
        ('[upstream.headers]\nA = { env = "" }', ("upstream", "headers", "A"), "should be { env ="),
        ('[upstream.env]\nA = { env = "B", file = "C" }', ("upstream", "env", "A"), "should be { env ="),
        ("[tools.pay]", ("tools", "pay", "scope"), "should be given"),
        ('[tools.""]\nscope = "a:b"', ("tools", ""), "should have a name"),
        ('[tools.pay]\nscope = "a:b"\nfacts = { a = true }', ("tools", "pay", "facts", "a"), "should be an integer or"),
        ('[tools.pay]\nscope = "a:b"\ntoken_scope = "a\\n"', ("tools", "pay", "token_scope"), "should be one scope"),
        ('[resources.scop]\nscope = "a:b"', ("resources", "scop"), "no such key"),
        ("[proofs]\nroots = [1]", ("proofs", "roots", 0), "should be a table"),
        ("[prompt]", ("prompt",), "no such key"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_told_by_its_place_and_not_quoted(text: str, place: tuple[int | str, ...], said: str) -> None:
    with pytest.raises(WrongValue) as refused:
        convert_tables(tomllib.loads(f"[gateway]\n{text}"), strict=True)
    assert refused.value.place == place
    assert refused.value.text.startswith(said)
    assert SECRET not in refused.value.text


def test_a_variable_that_is_no_utf_8_is_refused__not_found_out_later() -> None:
    with pytest.raises(WrongValue, match="should be UTF-8"):
        convert_tables({"gateway": {"host": "a\udcff"}}, strict=False)


def test_text_stands_for_a_value_only_where_it_comes_from_the_environment() -> None:
    tables = {"gateway": {"port": "9000"}, "proofs": {"filter_tools": "false"}}
    found = convert_tables(tables, strict=False)
    assert (found.gateway.port, found.proofs.filter_tools) == (9000, False)
    with pytest.raises(WrongValue):
        convert_tables(tables, strict=True)
