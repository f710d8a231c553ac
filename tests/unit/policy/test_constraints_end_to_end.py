"""Constraints of a delegation, held against the facts of real calls, through the whole decision."""

import asyncio
from collections.abc import Mapping

import pytest
from tests.unit.ratify.world import AGENT, NOW, SUB_AGENT, certificate, constraint
from tests.world.decisions import GRANT, Deployment, call, granted, proven

from accredit.policy.catalog import Entry
from accredit.policy.decide import decide
from accredit.policy.decision import drive
from accredit.policy.facts import Facts
from accredit.policy.guarded_call import GuardedCall
from accredit.ratify import Constraint

DENIED, UNVERIFIABLE = "ratify_constraint_denied", "ratify_constraint_unverifiable"
AT_MOST_5 = constraint(type="max_amount", currency="EUR", max_amount=5)


def error(asked: GuardedCall, *constraints: Constraint, now: int = NOW) -> str:
    return Deployment().error(proven(asked, granted(constraints=constraints), at=now), now)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"amount": 5, "currency": "EUR"}, ""),
        ({"amount": 5.0, "currency": "EUR"}, ""),
        ({"amount": 0, "currency": "EUR"}, ""),
        ({"amount": 5.01, "currency": "EUR"}, DENIED),
        ({"amount": 2**53 - 1, "currency": "EUR"}, DENIED),
        ({"amount": 5, "currency": "eur"}, DENIED),
        ({"amount": 5, "currency": "EUR "}, DENIED),
        ({"amount": -5, "currency": "EUR"}, UNVERIFIABLE),
        ({"amount": "5", "currency": "EUR"}, UNVERIFIABLE),
        ({"amount": True, "currency": "EUR"}, UNVERIFIABLE),
        ({"amount": None, "currency": "EUR"}, UNVERIFIABLE),
        ({"amount": [5], "currency": "EUR"}, UNVERIFIABLE),
        ({"amount": 5, "currency": ""}, UNVERIFIABLE),
        ({"amount": 5, "currency": None}, UNVERIFIABLE),
        ({"amount": 5}, UNVERIFIABLE),
        ({"currency": "EUR"}, UNVERIFIABLE),
        ({"Amount": 5, "currency": "EUR"}, UNVERIFIABLE),
        ({}, UNVERIFIABLE),
        (None, UNVERIFIABLE),
    ],
    ids=repr,
)
def test_an_amount(arguments: Mapping[str, object] | None, expected: str) -> None:
    assert error(call("pay", arguments), AT_MOST_5) == expected


@pytest.mark.parametrize(
    "target", [call("list_inbox"), call("x:1", method="resources/read"), call("x", method="prompts/get")]
)
def test_a_constraint_on_what_a_call_has_not_is_unverifiable(target: GuardedCall) -> None:
    assert error(target, AT_MOST_5) == UNVERIFIABLE


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"repo": "app", "path": "/docs"}, ""),
        ({"repo": "app", "path": "/docs/a/b.md"}, ""),
        ({"repo": "app", "path": "/docs/"}, ""),
        ({"repo": "app", "path": "/docsecret"}, DENIED),
        ({"repo": "app", "path": "/"}, DENIED),
        ({"repo": "app", "path": "/Docs/a"}, DENIED),
        ({"repo": "app", "path": "/%64ocs/a"}, DENIED),
        ({"repo": "App", "path": "/docs/a"}, DENIED),
        ({"repo": "app/../other", "path": "/docs/a"}, DENIED),
        ({"repo": "app ", "path": "/docs/a"}, DENIED),
        ({"repo": "app", "path": "/docs/../secret"}, UNVERIFIABLE),
        ({"repo": "app", "path": "/docs//a"}, UNVERIFIABLE),
        ({"repo": "app", "path": "/docs\\..\\secret"}, UNVERIFIABLE),
        ({"repo": "app", "path": "docs/a"}, UNVERIFIABLE),
        ({"repo": "app", "path": "/docs/a\n"}, UNVERIFIABLE),
        ({"repo": "app", "path": ["/docs"]}, UNVERIFIABLE),
        ({"repo": "app"}, UNVERIFIABLE),
        ({"path": "/docs/a"}, UNVERIFIABLE),
        ({"repo": "", "path": "/docs/a"}, UNVERIFIABLE),
        ({"repo": {"x": 1}, "path": "/docs/a"}, UNVERIFIABLE),
        (None, UNVERIFIABLE),
    ],
    ids=repr,
)
def test_a_path(arguments: Mapping[str, object] | None, expected: str) -> None:
    below_docs = constraint(type="resource_path", resource_id="git:example.com/app", path_prefix="/docs")
    assert error(call("write", arguments), below_docs) == expected


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        ([52.5, 13.4], ""),
        ([52.5, 13.4, 100], ""),
        ([0, 0], DENIED),
        ([52.5, "13.4"], UNVERIFIABLE),
        ([52.5], UNVERIFIABLE),
        ([], UNVERIFIABLE),
        ({"0": 52.5, "1": 13.4}, ""),
        ("52.5,13.4", UNVERIFIABLE),
        (None, UNVERIFIABLE),
    ],
    ids=repr,
)
def test_a_place(at: object, expected: str) -> None:
    near = constraint(type="geo_circle", lat=52.52, lon=13.405, radius_m=5000)
    box = constraint(type="geo_bbox", min_lat=52, max_lat=53, min_lon=13, max_lon=14)
    area = constraint(type="geo_polygon", points=[[52, 13], [52, 14], [53, 14], [53, 13]])
    assert error(call("visit", {"at": at}), near, box, area) == expected


@pytest.mark.parametrize("lon", [200, 180.5, -190, 360 + 175, 1e300])
def test_a_box_over_the_antimeridian_lets_in_no_longitude_that_is_elsewhere(lon: float) -> None:
    pacific = constraint(type="geo_bbox", min_lat=-90, max_lat=90, min_lon=170, max_lon=-170)
    assert [error(call("visit", {"at": [0, inside]}), pacific) for inside in (170, 180, -180, -170)] == [""] * 4
    assert error(call("visit", {"at": [0, lon]}), pacific) == UNVERIFIABLE


def test_a_point_at_a_pole_or_past_it_is_near_to_nothing_else() -> None:
    pole = constraint(type="geo_circle", lat=90, lon=0, radius_m=10)
    places: tuple[tuple[list[float], str], ...] = (
        ([90, 123], ""),
        ([-90, 0], DENIED),
        ([90.0001, 0], UNVERIFIABLE),
        ([450, 0], UNVERIFIABLE),
    )
    for at, expected in places:
        assert error(call("visit", {"at": at}), pole) == expected


def test_an_altitude_that_is_asked_for_and_not_said_is_unverifiable() -> None:
    low = constraint(type="geo_bbox", min_lat=0, max_lat=90, min_lon=0, max_lon=90, min_alt_m=1, max_alt_m=100)
    for at, expected in (([5, 5, 50], ""), ([5, 5, 500], DENIED), ([5, 5], UNVERIFIABLE)):
        assert error(call("visit", {"at": at}), low) == expected


def test_a_time() -> None:
    # NOW is a Friday, 08:00 in UTC.
    for start, end, expected in (("08:00", "08:00", ""), ("07:00", "07:59", DENIED), ("22:00", "08:00", "")):
        assert error(call(), constraint(type="time_window", start=start, end=end, tz="UTC")) == expected
    for tz in ("../../etc/passwd", "/etc/passwd", "America", "utc", ""):
        assert error(call(), constraint(type="time_window", start="00:00", end="23:59", tz=tz)) == DENIED


def test_every_constraint_of_every_certificate_counts() -> None:
    tight, loose = AT_MOST_5, constraint(type="max_amount", currency="EUR", max_amount=500)
    for first, second in ((tight, loose), (loose, tight)):
        leaf = certificate(AGENT, SUB_AGENT.public_key, scope=GRANT, constraints=(first,))
        chain = (leaf, certificate(scope=GRANT, constraints=(second,)))
        paying = call("pay", {"amount": 6, "currency": "EUR"})
        assert Deployment().error(proven(paying, chain)) == DENIED
        assert Deployment().error(proven(call("pay", {"amount": 5, "currency": "EUR"}), chain)) == ""


def test_a_type_that_nobody_knows_is_refused() -> None:
    assert error(call(), constraint(type="org.example.full_moon", params={})) == "ratify_constraint_unknown"


def test_a_refusal_for_a_constraint_still_spends_the_proof() -> None:
    deployment = Deployment()
    asked = proven(call("pay"), granted(constraints=(AT_MOST_5,)))
    assert [deployment.error(asked) for _ in range(2)] == [UNVERIFIABLE, "ratify_replayed"]


def test_a_constant_is_a_fact_of_every_call() -> None:
    catalog = Deployment().policy.catalog
    tools = {"pay": Entry(scope="payments:send", facts=Facts({"amount": "/amount", "currency": "EUR"}))}
    deployment = Deployment(catalog=type(catalog)(tools=tools))
    chain = granted("payments:send", constraints=(AT_MOST_5,))
    said = {"amount": 5, "currency": "USD"}
    assert deployment.error(proven(call("pay", said), chain)) == ""


def test_two_copies_of_one_proof_at_once_pass_once() -> None:
    deployment = Deployment()
    asked = proven(call())

    async def both() -> list[str]:
        steps = [decide(asked, deployment.policy, NOW) for _ in range(64)]
        found = await asyncio.gather(*(drive(each, deployment.store, deployment.known, NOW) for each in steps))
        return [each.refusal.error if each.refusal else "" for each in found]

    assert sorted(asyncio.run(both())) == ["", *["ratify_replayed"] * 63]


def test_a_list_does_nothing_that_a_constraint_could_be_about() -> None:
    """An agent whose delegation names an amount could otherwise never see which tools it has."""
    asked = GuardedCall("tools/list", "", "", b"", None, None)
    assert error(asked, AT_MOST_5) == ""
