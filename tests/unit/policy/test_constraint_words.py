"""What a person is told of a constraint that refused a call: what was asked, what is allowed, what would help."""

from typing import Any

import pytest
from tests.world.delegations import World, tampered

from accredit.policy.catalog import Entry
from accredit.policy.constraint_words import facts_needed, refused_constraint, why_refused
from accredit.policy.facts import Facts
from accredit.policy.guarded_call import guarded_call_from_values
from accredit.ratify import Constraint, VerifierContext
from accredit.ratify.constraints import (
    Extension,
    GeoBox,
    GeoCircle,
    MaxAmount,
    MaxRate,
    MaxSpeed,
    ResourcePath,
    TimeWindow,
    evaluate,
)

CERT = World().grant("comms:email:send")
CALL = guarded_call_from_values("tools/call", {"name": "pay", "arguments": {}}, "", None)


def used_twice(_cert_id: str, _window_s: int) -> int:
    return 2


PAY = Entry(scope="payments:send", facts=Facts({"amount": "/amount"}))
ELSE = "; make a call within that, or ask for another delegation"


def told(found: Constraint, entry: Entry | None = None, **known: Any) -> str:
    """What is told where a verifier that knows this much refuses."""
    facts = VerifierContext(**known)
    outcome = evaluate(found, facts, "cert", 0, {})
    assert outcome is not None
    reason = f"{outcome.status}: cert 0: constraint[0] ({found.type}): {outcome.detail}"
    return why_refused(reason, (tampered(CERT, constraints=(found,)),), facts, CALL, entry)


@pytest.mark.parametrize(
    ("found", "known", "text"),
    [
        (
            MaxAmount("EUR", 100),
            {"requested_amount": 100.001, "requested_currency": "EUR"},
            f"the call is for 100.001 EUR, and this delegation allows at most 100 EUR in one call{ELSE}",
        ),
        (
            MaxAmount("EUR", 100),
            {"requested_amount": 5, "requested_currency": "USD"},
            f"the call is for 5 USD, and this delegation allows at most 100 EUR in one call{ELSE}",
        ),
        (
            MaxRate(2, 3600),
            {"invocations_in_window": used_twice},
            f"the calls are used up for now, and this delegation allows at most 2 calls in 1h{ELSE}",
        ),
        (
            MaxSpeed(20),
            {"current_speed_mps": 30},
            f"the speed is 30 metres per second, and this delegation allows at most 20 metres per second{ELSE}",
        ),
        (
            TimeWindow("09:00", "17:00", "UTC"),
            {},
            f"the call comes at another time, and this delegation allows from 09:00 to 17:00 in UTC{ELSE}",
        ),
        (
            ResourcePath("git:api", "/docs"),
            {"requested_resource_id": "git:api", "requested_path": "/src"},
            f"the call is about git:api /src, and this delegation allows only git:api, /docs and below{ELSE}",
        ),
        (
            GeoCircle(52, 13, 100),
            {"current_lat": 50, "current_lon": 13},
            f"the call is made at 50, 13, and this delegation allows within 100 m of 52, 13{ELSE}",
        ),
        (
            TimeWindow("09:00", "17:00", "Mars/Base"),
            {},
            'no call can meet a condition of this delegation (unknown timezone "Mars/Base"); ask for another one',
        ),
        (
            Extension("org.example.moon"),
            {},
            "this delegation has a condition that this gateway can't judge (org.example.moon); ask for one without it",
        ),
    ],
)
def test_a_person_reads_what_was_asked_what_is_allowed_and_what_helps(
    found: Constraint, known: dict[str, Any], text: str
) -> None:
    assert told(found, **known) == text


def test_a_fact_that_no_catalog_gives_is_told_with_the_line_that_gives_it() -> None:
    assert told(MaxAmount("EUR", 100)) == (
        "this delegation has a condition (max_amount), and the gateway does not know the amount and currency of this"
        ' call: its [tools.pay] has to say facts = { amount = "/amount", currency = "/currency" } (each the JSON'
        " Pointer of an argument, or a constant)"
    )


def test_a_fact_that_the_call_does_not_have_is_told_with_the_argument_that_it_comes_from() -> None:
    assert told(MaxAmount("EUR", 100), PAY, requested_currency="EUR") == (
        "this delegation has a condition (max_amount), and the call does not say its amount (/amount) in a form that"
        " can be judged: correct its arguments"
    )


def test_facts_are_those_that_the_verifier_looks_for() -> None:
    assert facts_needed(ResourcePath("r", "/a")) == ("resource_id", "requested_path")
    assert facts_needed(GeoBox(min_lat=0, max_lat=1, min_lon=0, max_lon=1, max_alt_m=5)) == ("lat", "lon", "alt_m")
    assert facts_needed(MaxRate(1, 1)) == ()


@pytest.mark.parametrize(
    "reason",
    [
        "",
        "constraint_denied: rate limit exceeded",
        "constraint_denied: cert 1: constraint[0] (max_amount): amount",
        "constraint_denied: cert 0: constraint[1] (max_amount): amount",
        "scope_denied: cert 0: constraint[0] (max_amount): amount",
    ],
)
def test_a_reason_that_is_about_no_constraint_here_is_told_as_it_is(reason: str) -> None:
    chain = (tampered(CERT, constraints=(MaxAmount("EUR", 100),)),)
    assert refused_constraint(reason, chain) is None
    assert why_refused(reason, chain, VerifierContext(), CALL, None) == ""
