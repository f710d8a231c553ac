"""Generated proofs: the published verifier and ours read them alike and judge them alike."""

import copy
import json
from typing import Any

import pytest
import ratify_protocol as published
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.differential.peer import (
    Question,
    both,
    our_answer,
    read_by_them,
    read_by_us,
    their_answer,
)
from tests.unit.ratify.world import (
    CHALLENGE,
    CONTEXT,
    HOLDERS,
    HOUR,
    NOW,
    STRANGER,
    STREAM,
    answering,
    certificate,
    chain,
    constraint,
    proof,
)

from accredit.ratify import (
    DelegationCert,
    ProofBundle,
    delegation_sign_bytes,
    present,
)

pytestmark = pytest.mark.slow

SCOPES = st.lists(
    st.sampled_from(
        [
            "files:read",
            "files:write",
            "identity:delegate",
            "meeting:*",
            "meeting:chat",
            "comms:*",
            "custom:x",
            "custom:",
            "custom:*",
            "urn:x",
            "*",
            "",
            "Files:read",
            "é",
        ]
    ),
    max_size=4,
).map(tuple)
TIMES = st.sampled_from([0, NOW - 1, NOW, NOW + 1, -1, 4_070_908_799, 2**53 - 1])
DEGREES = st.sampled_from([0, 1, 1.5, -1.5, 89.9, 180, -180, 0.25])
PATHS = st.sampled_from(["/", "/a", "/a/", "/a/b", "/ab", "//", "/a/../b", "a", "/a\\b", "/é", "/a//"])
CLOCKS = st.sampled_from(["00:00", "08:00", "08:01", "23:59", "24:00", "", "x", "07:59"])
CONSTRAINTS = st.one_of(
    st.fixed_dictionaries({"type": st.just("geo_circle"), "lat": DEGREES, "lon": DEGREES, "radius_m": DEGREES}),
    st.fixed_dictionaries(
        {"type": st.just("geo_polygon"), "points": st.lists(st.tuples(DEGREES, DEGREES).map(list), max_size=5)}
    ),
    st.fixed_dictionaries(
        {
            "type": st.just("geo_bbox"),
            **dict.fromkeys(("min_lat", "max_lat", "min_lon", "max_lon"), DEGREES),
        }
    ).flatmap(
        lambda box: st.sampled_from(
            [box, box | {"min_alt_m": 0, "max_alt_m": 0}, box | {"min_alt_m": -5, "max_alt_m": 10.5}]
        )
    ),
    st.fixed_dictionaries(
        {
            "type": st.just("time_window"),
            "start": CLOCKS,
            "end": CLOCKS,
            "tz": st.sampled_from(["UTC", "Europe/Berlin", "Asia/Kolkata", "Mars/Olympus", ""]),
        }
    ),
    st.fixed_dictionaries({"type": st.just("max_speed_mps"), "max_mps": DEGREES}),
    st.fixed_dictionaries(
        {"type": st.just("max_amount"), "currency": st.sampled_from(["EUR", "eur", ""]), "max_amount": DEGREES}
    ),
    st.fixed_dictionaries(
        {"type": st.just("max_rate"), "count": st.integers(-1, 4), "window_s": st.sampled_from([-1, 0, 60])}
    ),
    st.fixed_dictionaries(
        {"type": st.just("resource_path"), "resource_id": st.sampled_from(["r", "R", "é"])},
        optional={"path_prefix": PATHS},
    ),
    st.fixed_dictionaries(
        {"type": st.sampled_from(["com.example.x", "", "é"])},
        optional={
            "params": st.dictionaries(st.text("ab", max_size=2), st.none() | st.booleans() | st.text("é<\u2028"))
        },
    ),
)
FACTS = st.fixed_dictionaries(
    {},
    optional={
        "current_lat": DEGREES,
        "current_lon": DEGREES,
        "current_alt_m": DEGREES,
        "current_speed_mps": DEGREES,
        "requested_amount": DEGREES,
        "requested_currency": st.sampled_from(["EUR", "USD", ""]),
        "requested_resource_id": st.sampled_from(["r", "é", ""]),
        "requested_path": PATHS | st.just(""),
        "invocations_in_window": st.sampled_from([None, answering(2)]),
    },
)


def sometimes(values: st.SearchStrategy[Any], otherwise: Any, one_in: int = 5) -> st.SearchStrategy[Any]:
    return st.integers(1, one_in).flatmap(lambda n: values if n == 1 else st.just(otherwise))


LINKS = st.lists(
    st.fixed_dictionaries(
        {
            "scope": sometimes(SCOPES, ("files:read", "identity:delegate"), 2),
            "constraints": sometimes(st.lists(CONSTRAINTS, max_size=2), [], 2),
            "issued_at": sometimes(TIMES, NOW - HOUR, 10),
            "expires_at": sometimes(TIMES, NOW + HOUR, 10),
            "version": sometimes(st.integers(0, 2), 1, 10),
            "strange": sometimes(st.just(True), False, 20),
        }
    ),
    min_size=1,
    max_size=3,
)
BINDINGS = st.fixed_dictionaries(
    {
        "challenge_at": sometimes(st.sampled_from([NOW - 300, NOW - 301, NOW + 1, 0, -5]), NOW),
        "session_context": sometimes(st.sampled_from([CONTEXT, bytes(32)]), b""),
        "stream": sometimes(st.integers(1, 4), 0),
    }
)


def signed_proof(links: list[dict[str, Any]], binding: dict[str, Any]) -> ProofBundle:
    """A proof whose signatures are good and whose members may be anything that can be signed; root first."""
    certs: list[DelegationCert] = []
    for at, link in enumerate(links):
        members = {name: value for name, value in link.items() if name != "strange"}
        members["constraints"] = tuple(constraint(**each) for each in link["constraints"])
        issuer = STRANGER if link["strange"] else HOLDERS[at]
        certs.insert(0, certificate(issuer, HOLDERS[at + 1].public_key, cert_id=f"cert-{at}", **members))
    turn = binding["stream"]
    return present(
        certs,
        HOLDERS[len(links)],
        CHALLENGE,
        binding["challenge_at"],
        session_context=binding["session_context"],
        stream_id=STREAM if turn else b"",
        stream_seq=turn,
    )


QUESTIONS = st.builds(
    Question,
    now=st.just(NOW),
    required_scope=st.sampled_from(["", "files:read", "meeting:chat", "meeting:*", "files:write"]),
    session_context=st.sampled_from([b"", b"", b"", CONTEXT]),
    stream=st.sampled_from([None, None, None, (STREAM, 1), (STREAM, 2), (bytes(32), 0)]),
    facts=FACTS,
    revoked=st.sampled_from([None, frozenset[str](), frozenset({"cert-0"}), frozenset({"cert-1"})]),
)


@settings(max_examples=150, deadline=None)
@given(LINKS, BINDINGS, QUESTIONS)
def test_proofs_with_good_signatures_are_judged_alike(
    links: list[dict[str, Any]], binding: dict[str, Any], asked: Question
) -> None:
    theirs, ours = both(signed_proof(links, binding).encode(), asked)
    assert ours == theirs


ODD = st.sampled_from(
    [None, True, False, 0, 1, -1, 2, NOW, 2**53 - 1, 1.5, "", "x", "A" * 43 + "=", "A" * 44, [], [1], {}, {"a": 1}]
)


@st.composite
def changes(draw: st.DrawFn) -> tuple[int, list[str | int], str, Any]:
    """Which sample, a path to any place in it, and what happens there."""
    number = draw(st.integers(0, len(SAMPLES) - 1))
    at, path = SAMPLES[number], list[str | int]()
    while isinstance(at, dict | list) and at and (not path or draw(st.integers(0, 3))):
        step = draw(st.sampled_from(sorted(at) if isinstance(at, dict) else range(len(at))))
        path.append(step)
        at = at[step]
    action = draw(st.sampled_from(["change", "change", "spoil", "remove", "add"]))
    return number, path, action, draw(ODD)


def changed(number: int, path: list[str | int], action: str, value: Any) -> bytes:
    found = copy.deepcopy(SAMPLES[number])
    at: Any = found
    for step in path[:-1]:
        at = at[step]
    if action == "remove":
        del at[path[-1]]
    elif action == "add" and isinstance(at, dict):
        at["added"] = value
    elif action == "spoil" and isinstance(at[path[-1]], str):
        text = at[path[-1]]
        middle = len(text) // 2
        at[path[-1]] = text[:middle] + str(value)[:1] + text[middle + 1 :]
    else:
        at[path[-1]] = value
    return json.dumps(found).encode()


SAMPLES: list[Any] = [
    proof(chain(2), session_context=CONTEXT, stream_id=STREAM, stream_seq=1).to_dict(),
    proof(
        [
            certificate(
                constraints=(
                    constraint(type="geo_bbox", min_lat=1, max_lat=2, min_lon=3, max_lon=4, min_alt_m=0, max_alt_m=5),
                    constraint(type="max_rate", count=1, window_s=60),
                    constraint(type="resource_path", resource_id="r", path_prefix="/a"),
                    constraint(type="x.y", params={"a": [None, {"b": 1}]}),
                )
            )
        ]
    ).to_dict(),
]


@settings(max_examples=400, deadline=None)
@given(changes())
def test_a_change_of_any_member_is_seen_alike(change: tuple[int, list[str | int], str, Any]) -> None:
    text = changed(*change)
    theirs, ours = read_by_them(text), read_by_us(text)
    if ours is None and theirs is not None:
        assert only_we_refuse(text)
        return
    assert (ours is None) == (theirs is None)
    if ours is not None and theirs is not None:
        assert delegation_sign_bytes(ours.delegations[0]) == published.delegation_sign_bytes(theirs.delegations[0])
        asked = Question(now=NOW, session_context=CONTEXT, stream=(STREAM, 0))
        assert same(our_answer(ours, asked), their_answer(theirs, asked))


def only_we_refuse(text: bytes) -> bool:
    """A number with a fraction in an extension's parameters: they take 5.0 for 5."""
    return b'"params"' in text and b".0" in text


def same(ours: Any, theirs: Any) -> bool:
    """Equal, but for ids that are not their keys': they don't look, we do and say so first."""
    return ours == theirs or ours[1].startswith("id_derivation: ")
