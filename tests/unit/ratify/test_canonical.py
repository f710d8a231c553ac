"""Canonical JSON: the one text that every implementation signs."""

import json
import math

import pytest
from tests.unit.ratify.world import certificate, constraint

from accredit.errors import WireError
from accredit.ratify import decode_delegation_cert, delegation_sign_bytes
from accredit.ratify.canonical import canonical, number


@pytest.mark.holds("ratify/canonical", "members")
def test_members_are_sorted_by_their_bytes_at_every_depth() -> None:
    value = {"b": {"é": 1, "\U0001f600": 2, "\uffff": 3, "z": 4}, "a": [{"d": 1, "c": 2}]}
    text = '{"a":[{"c":2,"d":1}],"b":{"z":4,"é":1,"\uffff":3,"\U0001f600":2}}'
    assert canonical(value) == text.encode()


@pytest.mark.holds("ratify/canonical", "strings")
def test_every_character_is_escaped_as_the_rules_say() -> None:
    short = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
    short |= {"\u2028": "\\u2028", "\u2029": "\\u2029"}
    for code in [*range(0x3000), *range(0xE000, 0x110000, 251)]:
        char = chr(code)
        wanted = short.get(char, f"\\u{code:04x}" if code < 0x20 else char)
        if not 0xD800 <= code < 0xE000:
            assert canonical(char) == f'"{wanted}"'.encode(), hex(code)


@pytest.mark.parametrize("char", ["<", ">", "&", "/", "\x7f", "é", "€", "😀"])
def test_these_stay_as_they_are(char: str) -> None:
    assert canonical([char]) == f'["{char}"]'.encode()


@pytest.mark.holds("ratify/canonical", "bytes-integers")
def test_plain_values() -> None:
    assert canonical([None, True, False, 0, -1, 2**53 - 1, b"", b"\x00", (), {}]) == (
        b'[null,true,false,0,-1,9007199254740991,"","AA==",[],{}]'
    )


@pytest.mark.holds("ratify/canonical", "fractions")
@pytest.mark.parametrize(
    ("value", "text"),
    [
        (500.0, "500"),
        (5, "5"),
        (-0.0, "0"),
        (-1.0, "-1"),
        (9007199254740991.0, "9007199254740991"),
        (1e15, "1000000000000000"),
        (0.1, "0.1"),
        (-122.4194, "-122.4194"),
        (1 / 3, "0.3333333333333333"),
        (4503599627370495.5, "4503599627370495.5"),
        (0.0001, "0.0001"),
        (0.00001, "0.00001"),
        (0.000012345, "0.000012345"),
        (0.000001, "0.000001"),
        (0.0000012345, "0.0000012345"),
        (-0.0000099999, "-0.0000099999"),
        (1e-7, "1e-7"),
        (1.5e-7, "1.5e-7"),
        (9.99e-7, "9.99e-7"),
        (-1e-10, "-1e-10"),
        (5e-324, "5e-324"),
        (2.2250738585072014e-308, "2.2250738585072014e-308"),
    ],
)
def test_numbers_are_written_as_ecmascript_writes_them(value: float, text: str) -> None:
    assert canonical(number(value)) == text.encode()
    assert json.loads(text) == value


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 2.0**53, -(2.0**53), 2**53, 1e300, 10**400])
def test_numbers_without_a_form_that_all_agree_on(value: float) -> None:
    with pytest.raises(WireError, match="canonical form"):
        number(value)


@pytest.mark.parametrize("value", [object(), [object()], 1j, "\ud800", {"\udfff": 1}])
def test_what_has_no_canonical_text(value: object) -> None:
    with pytest.raises(WireError):
        canonical(value)


BOX = {"type": "geo_bbox", "min_lat": 0, "max_lat": 1, "min_lon": 2, "max_lon": 3}


@pytest.mark.parametrize(
    ("members", "text"),
    [
        (
            {"type": "geo_circle", "lat": 0, "lon": 0.0, "radius_m": 5e2},
            '{"lat":0,"lon":0,"radius_m":500,"type":"geo_circle"}',
        ),
        ({"type": "geo_polygon", "points": [[1, 2.50], [0, 0]]}, '{"points":[[1,2.5],[0,0]],"type":"geo_polygon"}'),
        ({"type": "geo_polygon", "points": []}, '{"points":[],"type":"geo_polygon"}'),
        (
            {
                "type": "geo_bbox",
                "min_lat": 0,
                "max_lat": 1,
                "min_lon": 2,
                "max_lon": 3,
                "min_alt_m": 0,
                "max_alt_m": 0,
            },
            '{"max_lat":1,"max_lon":3,"min_lat":0,"min_lon":2,"type":"geo_bbox"}',
        ),
        (
            {
                "type": "geo_bbox",
                "min_lat": 0,
                "max_lat": 1,
                "min_lon": 2,
                "max_lon": 3,
                "min_alt_m": 0,
                "max_alt_m": 9,
            },
            '{"max_alt_m":9,"max_lat":1,"max_lon":3,"min_alt_m":0,"min_lat":0,"min_lon":2,"type":"geo_bbox"}',
        ),
        (
            {"type": "time_window", "start": "09:00", "end": "17:00", "tz": "UTC"},
            '{"end":"17:00","start":"09:00","type":"time_window","tz":"UTC"}',
        ),
        ({"type": "max_speed_mps", "max_mps": 0}, '{"max_mps":0,"type":"max_speed_mps"}'),
        ({"type": "max_amount", "currency": "", "max_amount": 0}, '{"currency":"","max_amount":0,"type":"max_amount"}'),
        ({"type": "max_rate", "count": 0, "window_s": -1}, '{"count":0,"type":"max_rate","window_s":-1}'),
        ({"type": "resource_path", "resource_id": "r"}, '{"resource_id":"r","type":"resource_path"}'),
        (
            {"type": "resource_path", "resource_id": "r", "path_prefix": "/<&>"},
            '{"path_prefix":"/<&>","resource_id":"r","type":"resource_path"}',
        ),
        ({"type": "x.y"}, '{"type":"x.y"}'),
        ({"type": "x.y", "params": {}}, '{"params":{},"type":"x.y"}'),
        ({"type": "x.y", "params": {"b": None, "a": [True]}}, '{"params":{"a":[true],"b":null},"type":"x.y"}'),
    ],
)
def test_each_kind_of_constraint(members: dict[str, object], text: str) -> None:
    assert canonical(constraint(**members).members()) == text.encode()
    cert = certificate(constraints=(constraint(**members),))
    assert f'"constraints":[{text}]'.encode() in delegation_sign_bytes(cert)
    assert decode_delegation_cert(cert.encode()).encode() == cert.encode()


def test_what_is_signed_of_a_certificate() -> None:
    cert = certificate(scope=("meeting:*", "files:read"))
    wire = json.loads(cert.encode())
    del wire["signature"]
    assert delegation_sign_bytes(cert) == json.dumps(wire, sort_keys=True, separators=(",", ":")).encode()
