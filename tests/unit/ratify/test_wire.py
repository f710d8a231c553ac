"""Reading and writing: nothing that is not exactly an object of the protocol gets through."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from tests.unit.ratify.world import CONTEXT, STREAM, certificate, chain, constrained, constraint, proof

from accredit.errors import WireError
from accredit.limits import MAX_PROOF_BUNDLE_BYTES
from accredit.ratify import (
    Constraint,
    Extension,
    ProofBundle,
    RevocationList,
    decode_delegation_cert,
    decode_proof_bundle,
    delegation_sign_bytes,
    encode_delegation_cert,
    encode_proof_bundle,
)
from accredit.ratify.structures import decode_chain

pytestmark = pytest.mark.holds("ratify/structures")

Members = dict[str, Any]


def members(bundle: ProofBundle | None = None) -> Members:
    return (bundle or proof(chain(2))).to_dict()


def refusal(value: object) -> str:
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    with pytest.raises(WireError) as caught:
        decode_proof_bundle(text)
    assert str(caught.value) == f"wire: {caught.value.path}{': ' if caught.value.path else ''}{caught.value.reason}"
    return str(caught.value)


@pytest.mark.parametrize(
    "bundle",
    [
        proof(),
        proof(chain(8)),
        proof(session_context=CONTEXT),
        proof(stream_id=STREAM, stream_seq=7),
        proof(session_context=CONTEXT, stream_id=STREAM, stream_seq=1),
        constrained({"type": "geo_circle", "lat": 1, "lon": 2.5, "radius_m": 3}),
        constrained({"type": "x.y"}, {"type": "x.y", "params": {}}),
        proof([certificate(cert_id='"\\\n\u2028\u2029\u007fé😀</script>')]),
        proof([certificate(cert_id="ends=", scope=())]),
    ],
)
def test_what_was_written_is_read_back(bundle: ProofBundle) -> None:
    text = encode_proof_bundle(bundle)
    assert decode_proof_bundle(text) == decode_proof_bundle(text.decode()) == bundle
    assert ProofBundle.from_dict(bundle.to_dict()) == bundle
    assert ProofBundle.from_dict(json.loads(text)) == bundle


def test_the_text_that_is_written_is_canonical() -> None:
    text = encode_proof_bundle(proof([certificate(cert_id="a\u2028<é")]))
    ordered = json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert text == ordered.replace("\u2028", "\\u2028").encode()
    assert b"session_context" not in text
    assert b'"constraints":[]' in text


def test_a_certificate_travels_alone() -> None:
    cert = certificate()
    assert decode_delegation_cert(encode_delegation_cert(cert)) == cert


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("escape", [False, True])
def test_spelling_is_free_and_not_signed(indent: int | None, backwards: bool, escape: bool) -> None:
    bundle = constrained({"type": "max_amount", "currency": "€", "max_amount": 500})
    value = members(bundle)
    if backwards:
        value = dict(reversed(value.items()))
    text = json.dumps(value, indent=indent, ensure_ascii=escape).replace('"max_amount": 500', '"max_amount": 5.0e2')
    if escape:
        text = text.replace("=", "\\u003d").replace("/", "\\/")
    found = decode_proof_bundle(f" \t\r\n{text}\n")
    assert found == bundle
    assert delegation_sign_bytes(found.delegations[0]) == delegation_sign_bytes(bundle.delegations[0])


class TestText:
    @pytest.mark.holds("ratify/strict_json", "size")
    def test_size_is_looked_at_before_anything_is_parsed(self) -> None:
        bundle = proof()
        text = encode_proof_bundle(bundle)
        assert decode_proof_bundle(text.ljust(131_072)) == bundle
        assert refusal(text.ljust(131_073)) == refusal(b"\xff" * 131_073) == "wire: more than 131072 bytes"

    @pytest.mark.holds("ratify/wire", "json")
    @pytest.mark.holds("ratify/strict_json", "encoding", "value")
    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            (b"", "not one JSON value"),
            (b"{", "not one JSON value"),
            (b"{} {}", "not one JSON value"),
            (b"{}]", "not one JSON value"),
            (b"\xef\xbb\xbf{}", "not one JSON value"),
            (b'{"a":"\n"}', "not one JSON value"),
            (b"{'a':1}", "not one JSON value"),
            (b"[1,]", "not one JSON value"),
            (b"01", "not one JSON value"),
            (b'"\xff"', "not UTF-8"),
            (b'"\xed\xa0\x80"', "not UTF-8"),
            (b'"\xc0\x80"', "not UTF-8"),
            (b'["\\ud800"]', "a lone surrogate in a string"),
            (b'{"\\udfff":1}', "a lone surrogate in a string"),
            (b"NaN", "NaN is not JSON"),
            (b"[-Infinity]", "-Infinity is not JSON"),
            (b"1e999", "a number that is too large"),
            (b"-1e999", "a number that is too large"),
            (b"-0", "-0 is not the shortest form of zero"),
            (b"-0.0", "-0 is not the shortest form of zero"),
            (b"-1e-999", "-0 is not the shortest form of zero"),
            (b"9007199254740992", "integer outside the safe-integer range [-(2^53-1), 2^53-1]"),
            (b"-9007199254740992", "integer outside the safe-integer range [-(2^53-1), 2^53-1]"),
            (b"1" * 5000, "integer outside the safe-integer range [-(2^53-1), 2^53-1]"),
            (b"-" + b"1" * 100_000, "integer outside the safe-integer range [-(2^53-1), 2^53-1]"),
            (b'{"a":1,"a":1}', 'duplicate key "a" in JSON object'),
            (b'[{"b":{"a":1,"\\u0061":1}}]', 'duplicate key "a" in JSON object'),
            (b"[" * 60_000, "nested too deep"),
            (b'{"a":' * 20_000, "nested too deep"),
        ],
    )
    def test_what_is_no_strict_json(self, text: bytes, reason: str) -> None:
        assert refusal(text) == f"wire: {reason}"

    @pytest.mark.slow
    def test_a_member_twice_among_very_many_is_found_at_once(self) -> None:
        names = ",".join(f'"{number}":1' for number in range(200_000))  # a search for each would take hours
        with pytest.raises(WireError, match="duplicate key"):
            RevocationList.decode(f'{{{names},"z":1,"z":1}}')

    @pytest.mark.parametrize("value", [None, True, 5, "text", [], [[]]])
    def test_what_is_no_object(self, value: object) -> None:
        assert refusal(value).startswith("wire: ProofBundle: Expected `object`")

    def test_a_text_with_half_a_surrogate_pair(self) -> None:
        with pytest.raises(WireError, match=r"^wire: not UTF-8$"):
            decode_proof_bundle('"\ud800"')


def without(*path: str | int) -> Callable[[Members], None]:
    def change(value: Any) -> None:
        for step in path[:-1]:
            value = value[step]
        del value[path[-1]]

    return change


def put(found: object, *path: str | int) -> Callable[[Members], None]:
    def change(value: Any) -> None:
        for step in path[:-1]:
            value = value[step]
        value[path[-1]] = found

    return change


CERT = ("delegations", 1)
PATH = "ProofBundle.delegations[1]"


class TestMembers:
    @pytest.mark.holds("ratify/wire", "members")
    @pytest.mark.parametrize("name", sorted(members()))
    def test_every_member_of_a_bundle_is_needed(self, name: str) -> None:
        value = members()
        del value[name]
        assert refusal(value) == f"wire: ProofBundle: Object missing required field `{name}`"

    @pytest.mark.parametrize("name", sorted(members()["delegations"][0]))
    def test_every_member_of_a_certificate_is_needed_and_never_null(self, name: str) -> None:
        value = members()
        value["delegations"][1][name] = None
        assert refusal(value).startswith(f"wire: {PATH}.{name}: Expected ")
        del value["delegations"][1][name]
        assert refusal(value) == f"wire: {PATH}: Object missing required field `{name}`"

    @pytest.mark.holds("ratify/wire", "members")
    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            (put(1, "note"), 'ProofBundle: unknown field "note"'),
            (put(1, *CERT, "note"), f'{PATH}: unknown field "note"'),
            (put(1, *CERT, "signature", "rsa"), f'{PATH}.signature: unknown field "rsa"'),
            (put(1, *CERT, "é" * 500), f'{PATH}: unknown field "{chr(92)}u00e9' + "\\u00e9" * 99 + '"'),
            (put(1, "x` - at `$.agent_id"), 'ProofBundle.agent_id: unknown field "x"'),
            (put(True, *CERT, "version"), f"{PATH}.version: Expected `int`, got `bool`"),
            (put(1.0, *CERT, "version"), f"{PATH}.version: Expected `int`, got `float`"),
            (put("1", *CERT, "version"), f"{PATH}.version: Expected `int`, got `str`"),
            (put([5], *CERT, "scope"), f"{PATH}.scope[0]: Expected `str`, got `int`"),
            (put({}, *CERT, "constraints"), f"{PATH}.constraints: Expected `array`, got `object`"),
            (put([], "delegations"), "ProofBundle.delegations: Expected `array` of length >= 1"),
            (put(None, "session_context"), "ProofBundle.session_context: Expected `bytes`, got `null`"),
            (put("", "session_context"), "ProofBundle.session_context: Expected `bytes` of length >= 32"),
            (put(1, "stream_seq"), "ProofBundle: stream_id and stream_seq go together"),
            (put("A" * 43 + "=", "stream_id"), "ProofBundle: stream_id and stream_seq go together"),
            (put(0, "stream_seq"), "ProofBundle.stream_seq: Expected `int` >= 1"),
        ],
    )
    def test_types(self, change: Callable[[Members], None], reason: str) -> None:
        value = members()
        change(value)
        assert refusal(value) == f"wire: {reason}"

    @pytest.mark.parametrize("form", ["1e3", "1.0", "2e9", "20000000000e-1", "1E0"])
    def test_integers_are_written_as_integers(self, form: str) -> None:
        text = encode_proof_bundle(proof()).replace(b'"challenge_at":1800000000', f'"challenge_at":{form}'.encode())
        assert refusal(text) == "wire: ProofBundle.challenge_at: Expected `int`, got `float`"


class TestBase64:
    @pytest.mark.parametrize(
        "text",
        [
            "AAAA",
            "A" * 43,
            "A" * 44,
            "A" * 42 + "==",
            "A" * 43 + "\n",
            "A" * 42 + "\n=",
            "-" * 43 + "=",
            "_" * 43 + "=",
            "A" * 20 + " " + "A" * 22 + "=",
            "A" * 43 + "==",
            "=" * 44,
            "é" * 43 + "=",
        ],
    )
    def test_not_thirty_two_bytes_in_standard_base64(self, text: str) -> None:
        value = members()
        value["challenge"] = text
        assert refusal(value).startswith("wire: ProofBundle.challenge: ")

    @pytest.mark.holds("ratify/wire", "base64")
    @pytest.mark.parametrize("escaped", [False, True])
    @pytest.mark.parametrize(
        "path",
        [
            ("challenge",),
            ("agent_pub_key", "ed25519"),
            ("agent_pub_key", "ml_dsa_65"),
            ("challenge_sig", "ed25519"),
            (*CERT, "issuer_pub_key", "ed25519"),
            (*CERT, "subject_pub_key", "ml_dsa_65"),
            (*CERT, "signature", "ed25519"),
        ],
    )
    def test_bits_that_decoders_ignore(self, path: tuple[str | int, ...], escaped: bool) -> None:
        value: Any = members()
        at = value
        for step in path[:-1]:
            at = at[step]
        text = at[path[-1]]
        kept = text.rstrip("=")
        at[path[-1]] = kept[:-1] + chr(ord(kept[-1]) + 1) + text[len(kept) :]
        document = json.dumps(value)
        document = document.replace("=", "\\u003d") if escaped else document
        place = "ProofBundle" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
        assert refusal(document.encode()) == f"wire: {place}: non-canonical base64"

    def test_a_text_that_only_looks_like_base64(self) -> None:
        for cert_id in ("b=", "=", "x==", "=b", "bb==="):
            bundle = proof([certificate(cert_id=cert_id)])
            assert decode_proof_bundle(encode_proof_bundle(bundle)) == bundle


class TestBounds:
    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            (
                put(["custom:x"] * 129, *CERT, "scope"),
                "carries 129 scopes, exceeding MAX_SCOPES_PER_CERT (128)",
            ),
            (
                put([{"type": "x"}] * 33, *CERT, "constraints"),
                "carries 33 constraints, exceeding MAX_CONSTRAINTS_PER_CERT (32)",
            ),
            (
                put(["custom:" + "é" * 125], *CERT, "scope"),
                "carries a scope of 257 bytes, exceeding MAX_SCOPE_LENGTH_BYTES (256)",
            ),
            (
                put([{"type": "resource_path", "resource_id": "é" * 257}], *CERT, "constraints"),
                "constraint resource_id is 514 bytes, exceeding MAX_IDENTIFIER_LENGTH_BYTES (512)",
            ),
        ],
    )
    def test_of_a_certificate(self, change: Callable[[Members], None], reason: str) -> None:
        value = members()
        change(value)
        assert refusal(value) == f"wire: {PATH}: {reason}"

    def test_a_chain_that_is_too_long_is_for_the_verifier_to_refuse(self) -> None:
        value = members(proof())
        value["delegations"] *= 9
        assert len(decode_proof_bundle(json.dumps(value)).delegations) == 9


def nested(levels: int) -> dict[str, object]:
    """An object that nests so many levels, itself included, the inner ones as arrays."""
    return {"a": json.loads("[" * (levels - 1) + "]" * (levels - 1))} if levels > 1 else {}


class TestConstraints:
    @pytest.mark.parametrize(
        ("found", "reason"),
        [
            (5, "expected a constraint object"),
            ({}, "a constraint's type is a string"),
            ({"type": None}, "a constraint's type is a string"),
            ({"type": "x", "note": 1}, 'unknown field "note"'),
            ({"type": "x", "params": None}, "params: Expected `object`, got `null`"),
            ({"type": "x", "params": []}, "params: Expected `object`, got `array`"),
            ({"type": "max_amount", "currency": "USD"}, "Object missing required field `max_amount`"),
            ({"type": "max_amount", "currency": "USD", "max_amount": 1, "params": {}}, 'unknown field "params"'),
            ({"type": "max_amount", "currency": "USD", "max_amount": True}, "max_amount: Expected `float`, got `bool`"),
            ({"type": "max_amount", "currency": "USD", "max_amount": 1e17}, "a number without a canonical form"),
            ({"type": "max_rate", "count": 1.0, "window_s": 1}, "count: Expected `int`, got `float`"),
            ({"type": "geo_polygon", "points": [[1]]}, "points[0]: Expected `array` of length 2, got 1"),
            ({"type": "geo_polygon", "points": [[1, 2, 3]]}, "points[0]: Expected `array` of length 2, got 3"),
            (
                {"type": "geo_bbox", "min_lat": 1, "max_lat": 1, "min_lon": 1, "max_lon": 1, "max_alt_m": 0},
                "min_alt_m and max_alt_m go together",
            ),
            ({"type": "resource_path", "resource_id": ""}, "resource_id: Expected `str` of length >= 1"),
            (
                {"type": "resource_path", "resource_id": "x", "path_prefix": ""},
                "path_prefix: Expected `str` of length >= 1",
            ),
            (
                {"type": "resource_path", "resource_id": "x", "path_prefix": None},
                "path_prefix: Expected `str`, got `null`",
            ),
        ],
    )
    def test_members_of_their_kind_and_nothing_else(self, found: object, reason: str) -> None:
        value = members()
        value["delegations"][1]["constraints"] = [{"type": "x"}, found]
        assert refusal(value) == f"wire: {PATH}.constraints[1]: {reason}"

    @pytest.mark.parametrize("number", [1.5, 5.0, 1e3])
    def test_parameters_hold_no_floats(self, number: float) -> None:
        value = members()
        value["delegations"][1]["constraints"] = [{"type": "x", "params": {"a": [number]}}]
        assert refusal(value).startswith(f"wire: {PATH}.constraints[0].params: expected null")

    @pytest.mark.holds("ratify/wire", "check")
    @pytest.mark.parametrize("levels", [17, 100, 400, 900, 30_000])
    @pytest.mark.parametrize("spelling", ["a", "\\u0061"])
    def test_nesting_of_any_depth_is_refused(self, levels: int, spelling: str) -> None:
        params = f'{{"{spelling}":{"[" * levels}{"]" * levels}}}'
        text = constrained({"type": "x", "params": {}}).encode().replace(b'"params":{}', f'"params":{params}'.encode())
        assert "nested" in refusal(text)

    def test_nesting_counts_from_the_outermost_object(self) -> None:
        for read, level in (("bundle", 5), ("cert", 3)):
            for levels, good in ((16 - level, True), (17 - level, False)):
                value = members(constrained({"type": "x"}))
                value["delegations"][0]["constraints"] = [{"type": "x", "params": nested(levels)}]
                text = json.dumps(value if read == "bundle" else value["delegations"][0])
                decode = decode_proof_bundle if read == "bundle" else decode_delegation_cert
                if good:
                    decode(text)
                else:
                    with pytest.raises(WireError, match="params: nested more than 16 deep"):
                        decode(text)


class TestWriting:
    @pytest.mark.parametrize(
        "change",
        [
            {"challenge": b"short"},
            {"session_context": b"short"},
            {"stream_seq": 1},
            {"delegations": ()},
            {"challenge_at": 2**53},
            {"challenge_at": 1.5},
            {"agent_id": None},
            {"agent_id": "\ud800"},
            {"delegations": (replace(certificate(), scope=("custom:" + "x" * 250,)),)},
        ],
    )
    def test_what_would_not_be_read_is_not_written(self, change: Members) -> None:
        with pytest.raises(WireError):
            encode_proof_bundle(replace(proof(), **change))

    @pytest.mark.parametrize(
        "odd",
        [
            Extension("max_amount", {"currency": "USD"}),
            Extension("x", {"a": 1.5}),
            Extension("x", {"a": 2**53}),
            constraint(type="max_rate", count=1, window_s=1),
        ],
    )
    def test_constraints_that_only_a_program_could_build(self, odd: Constraint) -> None:
        odd = replace(odd, count=2**60) if odd.type == "max_rate" else odd  # type: ignore[type-var]
        with pytest.raises(WireError):
            encode_proof_bundle(replace(proof(), delegations=(replace(certificate(), constraints=(odd,)),)))

    def test_numbers_that_are_none_are_not_written(self) -> None:
        limit: Any = constraint(type="max_speed_mps", max_mps=1)
        for odd in (float("nan"), float("inf"), 1e17, 10**400):
            cert = replace(certificate(), constraints=(replace(limit, max_mps=odd),))
            with pytest.raises(WireError):
                encode_delegation_cert(cert)


@pytest.mark.parametrize("value", [{"a": float("nan")}, {"a": b"x"}, {"a": object()}, {1: 2}, {}])
def test_a_dict_that_no_parser_made(value: Any) -> None:
    with pytest.raises(WireError):
        ProofBundle.from_dict(value)


def test_a_dict_that_holds_itself() -> None:
    value: Members = {}
    value["a"] = value
    with pytest.raises(WireError):
        ProofBundle.from_dict(value)


@pytest.mark.parametrize(
    "text",
    [b"", b"[]", b"{}", b"[1]", b"[{}]", b"[" * 100_000, b'["\xff"]', b"[" + b" " * MAX_PROOF_BUNDLE_BYTES + b"]"],
)
def test_a_chain_s_text_that_is_none_is_one_error(text: bytes) -> None:
    with pytest.raises(WireError):
        decode_chain(text)


def test_a_chain_s_text_is_an_array_of_its_certificates() -> None:
    certificates = proof(chain(2)).delegations
    assert decode_chain(b"[%b]" % b",".join(each.encode() for each in certificates)) == tuple(certificates)
