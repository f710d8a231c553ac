"""What options say, and what is refused with the option's name."""

import json
from collections.abc import Callable

import pytest

from accredit.errors import ConfigurationError
from accredit.ratify import Constraint
from accredit.ratify.constraints import Extension, MaxAmount, MaxRate, MaxSpeed, ResourcePath, TimeWindow
from accredit.ratify.structures import UNTIL_REVOKED
from accredit.signing import arguments as terms

pytestmark = pytest.mark.holds("signing/arguments")


@pytest.mark.parametrize(("text", "length"), [("30s", 30), ("15m", 900), ("12h", 43_200), ("7d", 604_800)])
def test_durations(text: str, length: int) -> None:
    assert terms.seconds("--expires", text) == length
    assert terms.expiry(text, 1000) == 1000 + length


def test_until_revoked_is_the_protocols_last_moment() -> None:
    assert terms.expiry("until-revoked", 1000) == UNTIL_REVOKED == 4_070_908_799


@pytest.mark.parametrize(
    "text", ["", "7", "d", "0d", "-1d", "1.5h", "7 d", "7D", "1w", "\u0667d", "1d1h", "9999999999d"]
)
def test_other_texts_are_no_durations(text: str) -> None:
    with pytest.raises(ConfigurationError, match="--expires"):
        terms.expiry(text, 0)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("1800000000", 1_800_000_000),
        ("2027-01-15T08:00:00Z", 1_800_000_000),
        ("2027-01-15T09:00:00+01:00", 1_800_000_000),
        ("2027-01-15T08:00:00.9Z", 1_800_000_000),
    ],
)
def test_moments(text: str, at: int) -> None:
    assert terms.moment(text) == at


@pytest.mark.parametrize(
    "text", ["", "now", "2027-01-15T08:00:00", "2027-01-15", "-1", "\u0661", "100000000000", "1e9"]
)
def test_other_texts_are_no_moments(text: str) -> None:
    with pytest.raises(ConfigurationError, match="--now"):
        terms.moment(text)


@pytest.mark.parametrize(
    ("read", "text", "constraint"),
    [
        (terms.max_amount, "500USD", MaxAmount(currency="USD", max_amount=500)),
        (terms.max_amount, "99.50EUR", MaxAmount(currency="EUR", max_amount=99.5)),
        (terms.max_amount, "10 USDC", MaxAmount(currency="USDC", max_amount=10)),
        (
            terms.between,
            "09:00-17:00@Europe/Berlin",
            TimeWindow(start="09:00", end="17:00", tz="Europe/Berlin"),
        ),
        (terms.between, "22:00-06:00@UTC", TimeWindow(start="22:00", end="06:00", tz="UTC")),
        (terms.resource, "mailbox", ResourcePath(resource_id="mailbox")),
        (terms.resource, "mailbox:/", ResourcePath(resource_id="mailbox", path_prefix="/")),
        (
            terms.resource,
            "git:github.com/acme/api:/src/docs",
            ResourcePath(resource_id="git:github.com/acme/api", path_prefix="/src/docs"),
        ),
        (terms.resource, "https://example.org/x", ResourcePath(resource_id="https://example.org/x")),
        (terms.resource, "file:///etc", ResourcePath(resource_id="file:///etc")),
        (
            terms.resource,
            "https://example.org/x:/y",
            ResourcePath(resource_id="https://example.org/x", path_prefix="/y"),
        ),
        (terms.rate, "10/1h", MaxRate(count=10, window_s=3600)),
        (terms.rate, "1/7d", MaxRate(count=1, window_s=604_800)),
        (terms.constraint, '{"type": "max_speed_mps", "max_mps": 20}', MaxSpeed(max_mps=20)),
        (terms.constraint, '{"type": "com.example.x", "params": {}}', Extension("com.example.x", {})),
    ],
)
def test_constraints(read: Callable[[str], Constraint], text: str, constraint: Constraint) -> None:
    assert read(text) == constraint


@pytest.mark.parametrize(
    ("read", "text", "option"),
    [
        *((terms.max_amount, text, "--max-amount") for text in ("", "500", "USD", "-5USD", "5usd", "5e3USD", "5,5EUR")),
        *(
            (terms.between, text, "--between")
            for text in ("", "09:00-17:00", "9:00-17:00@UTC", "24:00-25:00@UTC", "09:60-10:00@UTC", "09:00-17:00@")
        ),
        (terms.between, "09:00-17:00@Europe/Nowhere", "no such time zone"),
        (terms.between, "09:00-17:00@../../etc/passwd", "no such time zone"),
        (terms.resource, "", "--resource"),
        *((terms.rate, text, "--rate") for text in ("", "10", "0/1h", "10/h", "10/0h", "-1/1h", "10/1h/1h")),
        *(
            (terms.constraint, text, "--constraint")
            for text in (
                "",
                "{",
                "[]",
                "{}",
                '"max_amount"',
                '{"type": "max_amount"}',
                '{"type": "max_amount", "currency": "USD", "max_amount": NaN}',
                '{"type": "max_amount", "currency": "USD", "max_amount": 1e400}',
                '{"type": "max_amount", "type": "max_rate"}',
                '{"type": "max_rate", "count": 1.0, "window_s": 1}',
                '{"type": "max_rate", "count": 0, "window_s": 60}',
                '{"type": "geo_polygon", "points": [[0, 0], [1, 1]]}',
                '{"type": "geo_polygon", "points": [[0, -170], [1, 170], [2, 0]]}',
                '{"type": "time_window", "start": "9:00", "end": "17:00", "tz": "UTC"}',
                '{"type": "time_window", "start": "09:00", "end": "17:00", "tz": "Mars/Base"}',
                '{"type": "time_window", "start": "", "end": "17:00", "tz": "UTC"}',
                '{"type": "resource_path", "resource_id": ""}',
                '{"type": "com.example.x", "other": 1}',
                '{"type": "com.example.x", "params": "\\ud800"}',
            )
        ),
    ],
)
def test_broken_constraints_are_refused_by_the_name_of_their_option(
    read: Callable[[str], Constraint], text: str, option: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(text)
    assert option in caught.value.what


def test_facts() -> None:
    found = terms.facts(["amount=12.5", "currency=EUR", "resource_id=a=b", "requested_path=/x", "lat=-5", "lon=0",
                         "alt_m=-1.25", "speed_mps=3"])  # fmt: skip
    assert (found.requested_amount, found.requested_currency) == (12.5, "EUR")
    assert (found.requested_resource_id, found.requested_path) == ("a=b", "/x")
    assert (found.current_lat, found.current_lon, found.current_alt_m) == (-5, 0, -1.25)
    assert found.current_speed_mps == 3


@pytest.mark.parametrize(
    "text",
    [
        "amount",
        "amount=",
        "amount=-1",
        "amount=nan",
        "amount=1e3",
        "speed_mps=-1",
        "lat=inf",
        "lat=91",
        "lon=181",
        "=1",
    ],
)
def test_other_texts_are_no_facts(text: str) -> None:
    with pytest.raises(ConfigurationError, match="--fact"):
        terms.facts([text])


def test_a_session_context_is_32_bytes_in_base64() -> None:
    assert terms.session_context("") == b""
    assert terms.session_context("A" * 43 + "=") == bytes(32)
    for text in ("AAAA", "A" * 43, "A" * 42 + "é=", " " + "A" * 43 + "="):
        with pytest.raises(ConfigurationError, match="--session-context"):
            terms.session_context(text)


@pytest.mark.parametrize("params", ["{}", '{"v": 1, "gateway": "m", "method": "tools/call", "target": []}'])
def test_a_constraint_on_calls_that_would_allow_nothing_is_not_signed(params: str) -> None:
    with pytest.raises(ConfigurationError, match=r"dev\.accredit\.call"):
        terms.constraint(f'{{"type": "dev.accredit.call", "params": {params}}}')


def test_a_constraint_on_calls_is_signed_as_it_was_written() -> None:
    params = '{"v": 1, "gateway": "m", "method": "tools/call", "target": ["send_email"]}'
    found = terms.constraint(f'{{"type": "dev.accredit.call", "params": {params}}}')
    assert found.members()["params"] == json.loads(params)
