"""Facts of a request: what two readers could read differently is no fact."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accredit.http_api.facts import arguments, http_facts, source_fault
from accredit.http_api.routes import RouteMatch
from accredit.policy.facts import facts_fault

MATCH = RouteMatch("GET /a/{id}", {"id": "7"})


def fact(name: str, source: str | float, query: str = "", body: bytes | None = None) -> object:
    facts = http_facts({name: source})
    return facts.of(arguments(facts, MATCH, query, body)).get(name)


@pytest.mark.parametrize(
    ("name", "source", "found"),
    [
        ("amount", "path:id", 7.0),
        ("resource_id", "path:id", "7"),
        ("amount", "query:n", 12.5),
        ("currency", "query:c", "EUR"),
        ("amount", "body:/pay/amount", 3.0),
        ("currency", "body:/pay/currency", "USD"),
        ("currency", "EUR", "EUR"),
        ("amount", 5, 5.0),
        ("resource_id", "query:a/b~c", "x"),
    ],
)
def test_a_fact_is_found_where_it_is_said_to_be(name: str, source: str | float, found: object) -> None:
    body = b'{"pay": {"amount": 3, "currency": "USD"}}'
    assert fact(name, source, "n=12.5&c=EUR&a/b~c=x", body) == found


@pytest.mark.holds("http_api/facts", "body")
@pytest.mark.parametrize(
    "body",
    [
        None,
        b"",
        b'\xef\xbb\xbf{"amount":1}',
        b'{"amount":1,"amount":2}',
        b'{"amount":1,"Amount":2}',
        b'{"amount":1,"x":{"y":1,"Y":2}}',
        b'{"amount":1,"x":9007199254740993}',
        b'{"amount":"1"}',
        b'{"amount":1}x',
        b'{"amount":1e999}',
        b'{"amount":true}',
        b'[{"amount":1}]',
        b"[" * 5000 + b"]" * 5000,
        b'{"amount":1,}',
        b'{"amount":\xff}',
    ],
)
def test_a_body_with_two_meanings_has_no_facts(body: bytes | None) -> None:
    assert fact("amount", "body:/amount", "", b'{"amount":1}') == 1.0
    assert fact("amount", "body:/amount", "", body) is None


@pytest.mark.holds("http_api/facts", "either")
@pytest.mark.parametrize(
    ("query", "body", "of_query", "of_body"),
    [
        ("n=1", b'{"n":50}', None, None),  # Laravel's input() takes the body, its get() the query
        ("n=1", b'{"N":50}', None, None),
        ("N[]=1&m=1", b'{"n":50}', None, None),
        ("m=1;n=1", b'{"n":50}', None, None),
        ("%6e=1", b'{"n":50}', None, None),
        ("n=1", b'{"a":{"n":50}}', 1.0, None),
        ("m=1", b'{"n":50}', None, 50.0),
        ("n=1", b'{"m":50}', 1.0, None),
        ("n=1", b'["n"]', 1.0, None),
        ("n=1", b'{"n":50', None, None),
        ("n=1", b'{"m":NaN}', None, None),
    ],
)
def test_what_query_and_body_both_say_is_no_fact__one_is_checked_and_the_other_counts(
    query: str, body: bytes, of_query: object, of_body: object
) -> None:
    assert fact("amount", "query:n", query, body) == of_query
    assert fact("amount", "body:/n", query, body) == of_body


@pytest.mark.holds("http_api/facts", "either")
def test_beside_what_may_be_a_form_a_query_has_no_facts() -> None:
    facts = http_facts({"amount": "query:n", "resource_id": "path:id"})
    assert facts.of(arguments(facts, MATCH, "n=1", None, maybe_form=True)) == {"resource_id": "7"}
    assert facts.of(arguments(facts, MATCH, "n=1", None)) == {"amount": 1.0, "resource_id": "7"}


@pytest.mark.holds("http_api/facts", "query")
@pytest.mark.parametrize(
    "query",
    [
        "",
        "n",
        "m=1",
        "n=1&n=2",
        "n=1&N=1",
        "n=1&%6e=2",
        "n=1&n[]=2",
        "n=1&n[0]=2",
        "n=1;m=2",
        "n=1&%EF%BD%8E=2",
        "N=1",
        "n=1+",
        "n=%ff",
        "n=1&%ff=2",
        "n=1&+n=2",
        "n=1&n%20=2",
        "&".join(["n=1"] + [f"k{x}=1" for x in range(300)]),
    ],
)
def test_a_key_that_is_not_there_once_has_no_value(query: str) -> None:
    assert fact("currency", "query:n", "n=1&m=2") == "1"
    assert fact("currency", "query:n", query) is None


@pytest.mark.holds("http_api/facts", "query")
@pytest.mark.parametrize("query", ["N=1&n=2", "N=1&N=2", "N=1&N[]=2", "n=1"])
def test_a_key_in_capitals_is_not_there_once_either__if_another_one_could_be_taken_for_it(query: str) -> None:
    assert fact("amount", "query:N", "N=1") == 1.0
    assert fact("amount", "query:N", query) is None


@pytest.mark.holds("http_api/facts", "numbers")
@pytest.mark.parametrize(
    "text", ["", "1e3", "+1", "01", "1.", ".5", "0x1", "1_0", "\u0661", "inf", "nan", "1" * 16, "1,5", " 1", "-"]
)
def test_only_a_plain_decimal_is_a_number(text: str) -> None:
    assert fact("alt_m", "query:n", "n=-0.5") == -0.5
    assert fact("alt_m", "query:n", f"n={text}" if text.isascii() else "n=%D9%A1") is None


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("amount", "path:other"),
        ("amount", "/amount"),
        ("currency", "x{/a}"),
        ("amount", "body:amount"),
        ("amount", "query:{a}"),
    ],
)
def test_sources_that_are_none_are_told(name: str, source: str) -> None:
    assert (source_fault({name: source}, ["id"]) or "").startswith(name)


def test_good_sources_have_no_fault__here_nor_as_pointers() -> None:
    sources = {"amount": "body:/a", "currency": "EUR", "resource_id": "path:id", "lat": "query:lat", "lon": 5.0}
    assert source_fault(sources, ["id"]) is None
    assert facts_fault(http_facts(sources).sources) is None


@settings(max_examples=200)
@given(st.text(max_size=30), st.binary(max_size=40), st.sampled_from(["query:n", "body:/n", "path:id", "body:/0"]))
def test_nothing_that_is_sent_raises(query: str, body: bytes, source: str) -> None:
    ascii_query = query.encode("unicode_escape").decode()
    for name in ("amount", "currency"):
        found = fact(name, source, ascii_query, body)
        assert found is None or isinstance(found, float if name == "amount" else str)


@settings(max_examples=100)
@given(st.dictionaries(st.sampled_from(["n", "m"]), st.floats(0, 1e9), min_size=1))
def test_what_is_found_in_a_body_is_what_any_reader_finds(members: dict[str, float]) -> None:
    body = json.dumps(members).encode()
    assert fact("amount", "body:/n", "", body) == json.loads(body).get("n")
