"""Which database a URL names, and that nothing of a password in it is ever shown."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accredit.errors import ConfigurationError
from accredit.stores import parse_store_url
from accredit.stores.lasting import PostgresDatabase
from accredit.stores.postgres.address import SCHEME, DatabaseHost, parse_address

pytestmark = pytest.mark.holds("stores/postgres/address")


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("user@db.example/calls", PostgresDatabase((DatabaseHost("db.example", 5432),), "calls", "user")),
        ("db.example:5433/calls", PostgresDatabase((DatabaseHost("db.example", 5433),), "calls")),
        (
            "user@host1:5432,host2:5433,10.0.0.7/db",
            PostgresDatabase(
                (DatabaseHost("host1", 5432), DatabaseHost("host2", 5433), DatabaseHost("10.0.0.7", 5432)), "db", "user"
            ),
        ),
        (
            "u%40x@[::1]:7,[fe80::1]/d%2Fb",
            PostgresDatabase((DatabaseHost("::1", 7), DatabaseHost("fe80::1", 5432)), "d/b", "u@x"),
        ),
        ("gw@/calls?host=/run/postgresql", PostgresDatabase((DatabaseHost("/run/postgresql", 5432),), "calls", "gw")),
        (
            "h/db?sslmode=verify-full&sslrootcert=/etc/ca.pem",
            PostgresDatabase(
                (DatabaseHost("h", 5432),), "db", tls=(("sslmode", "verify-full"), ("sslrootcert", "/etc/ca.pem"))
            ),
        ),
    ],
)
def test_a_url_names_each_host__a_database_and_a_user(url: str, named: PostgresDatabase) -> None:
    assert parse_store_url(SCHEME + url, Path()) == named


@pytest.mark.parametrize(
    "url",
    [
        *("", "/", "/db", "h", "h/", "h,/db", ",h/db", "h:0/db", "h:65536/db", "h:x/db", "h h/db", "h/db#x", "h/d\nb"),
        "a,b,c,d,e,f,g,h,i/db",
        *("@h/db", "h,h/db", "[::1/db", "[g]/db", "h/db?x", "h/db?options=-c%20fsync%3Doff", "h/db?sslmode="),
        *(
            "h/db?host=/x",
            "/db?host=x",
            "h/db?sslmode=never",
            "h/db?sslmode=prefer&sslmode=disable",
            "a,b,c,d,e,f,g,h,i/d",
        ),
    ],
)
def test_what_names_no_database_is_refused_with_what_to_write(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"store\.url") as refused:
        parse_address(SCHEME + url)
    assert refused.value.remedy


@pytest.mark.holds("stores/postgres/address", "password", "quoting")
@pytest.mark.parametrize(
    "url",
    [
        *("user:hunter2@h/db", "user:hunter2@h", ":hunter2@h/db", "u:hunter2@h:x/db", "u:a@hunter2@h/db"),
        *("h/db?password=hunter2", "h/db?sslmode=hunter2", "h/db?host=hunter2", "h:hunter2/db", "hunter2"),
    ],
)
def test_a_password_in_a_url_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse_store_url(SCHEME + url, Path())
    assert "hunter2" not in str(refused.value)


@given(st.text(max_size=60))
def test_whatever_follows_the_scheme_names_a_database_or_is_refused(rest: str) -> None:
    try:
        named = parse_address(SCHEME + rest)
    except ConfigurationError:
        return
    assert named.hosts
    assert named.database
    assert named.name.isprintable()
