"""What the fuzzer of the Ratify core runs: reading objects of the protocol, judging proofs with good signatures.

The first byte of an input chooses what the rest is: a text to read, or the facts of a call and the constraints of a
certificate, which is then signed.
"""

import contextlib
import struct
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace
from tests.unit.ratify.world import AGENT, CONTEXT, HUMAN, NOW, STRANGER, certificate, chain, judged, proof, signed

from accredit.errors import WireError
from accredit.ratify import (
    DelegationCert,
    ProofBundle,
    RevocationList,
    VerifierContext,
    decode_proof_bundle,
    verify_bundle,
)
from accredit.ratify.constraints import Constraint, read_constraint
from accredit.ratify.extras.sessions import SessionToken, issue_session_token
from accredit.ratify.extras.statements import (
    KeyRotationStatement,
    VerificationReceipt,
    WitnessEntry,
    issue_key_rotation,
    issue_verification_receipt,
    issue_witness_entry,
)
from accredit.ratify.extras.transactions import ReceiptParty, TransactionReceipt
from accredit.ratify.revocation import RevocationPush, issue_revocation_list, issue_revocation_push
from accredit.ratify.strict_json import parse
from accredit.ratify.wire import WireObject

KINDS: list[type[WireObject]] = [
    ProofBundle,
    DelegationCert,
    RevocationList,
    RevocationPush,
    KeyRotationStatement,
    WitnessEntry,
    SessionToken,
    VerificationReceipt,
    TransactionReceipt,
]
JUDGED = len(KINDS)
"""The first byte of an input whose rest is facts and constraints."""
_FACTS = struct.Struct("<5d")
GOOD_CERT = certificate()
GOOD = proof([GOOD_CERT])


def one_input(data: bytes) -> None:
    """One run of the fuzzer. Whatever raises here is a defect."""
    if not data:
        return
    if data[0] % (JUDGED + 1) == JUDGED:
        judge(data[1:])
    else:
        read(KINDS[data[0] % (JUDGED + 1)], data[1:])


def read(kind: type[WireObject], text: bytes) -> None:
    """A text is an object, whose canonical text says the same, or one error; read quickly, it is the same."""
    found = attempt(kind.decode, text)
    if isinstance(found, WireObject) and kind.decode(found.encode()) != found:
        raise AssertionError("what was written is not what was read")
    if kind is ProofBundle and attempt(decode_proof_bundle, text) != found:
        raise AssertionError("what was read quickly is not what was read strictly")
    if isinstance(found, ProofBundle):
        answered(found, VerifierContext())


def attempt(decode: Callable[[bytes], WireObject], text: bytes) -> WireObject | str:
    """What was read, or the text of the error, which is public."""
    try:
        return decode(text)
    except WireError as error:
        said = str(error)
    if not said.startswith("wire: ") or not said.isascii():
        raise AssertionError(f"not a public text: {said!r}")
    return said


def judge(data: bytes) -> None:
    """Facts in a fixed form, then a JSON array of constraints that a good certificate is given, signed again."""
    if len(data) < _FACTS.size:
        return
    lat, lon, alt, speed, amount = _FACTS.unpack_from(data)
    rest = data[_FACTS.size :]
    found: list[Constraint] = []
    with contextlib.suppress(WireError, ValueError):
        value: Any = parse(rest, 65_536)
        found = [read_constraint(each) for each in (value if isinstance(value, list) else [value])]
    context = VerifierContext(
        current_lat=lat,
        current_lon=lon,
        current_alt_m=alt,
        current_speed_mps=speed,
        requested_amount=amount,
        requested_currency="EUR",
        invocations_in_window=lambda cert_id, window_s: int(cert_id) + window_s,
        requested_resource_id="r",
        requested_path="/a/b",
    )
    with contextlib.suppress(WireError):  # parameters that only a program could build have no canonical text
        answered(proof([signed(replace(GOOD_CERT, constraints=tuple(found)))]), context)


def answered(bundle: ProofBundle, context: VerifierContext) -> None:
    """A verification is an answer, and a fact that is no number is no reason to allow anything."""
    result = verify_bundle(bundle, now=NOW, context=context, session_context=bundle.session_context or None)
    if result.valid is bool(result.error_reason):
        raise AssertionError(f"no answer: {result!r}")


def corpus() -> dict[str, bytes]:
    """Inputs that our own code made: one of each kind, and facts with each kind of constraint."""
    transaction = TransactionReceipt(
        1, "tx", NOW, "schema", b"{}", (ReceiptParty("p", "role", AGENT.id, AGENT.public_key, GOOD),), ()
    )
    objects: list[WireObject] = [
        proof(chain(2), session_context=CONTEXT),
        GOOD_CERT,
        issue_revocation_list(HUMAN, ["a"], NOW),
        issue_revocation_push(HUMAN, 1, ["a"], NOW),
        issue_key_rotation(HUMAN, STRANGER, "other", NOW),
        issue_witness_entry(HUMAN, b"x", NOW),
        issue_session_token(GOOD, judged(GOOD), "s", NOW, NOW + 1, b"x"),
        issue_verification_receipt(HUMAN, GOOD, judged(GOOD), NOW),
        transaction,
    ]
    inputs = {type(found).__name__: bytes([number]) + found.encode() for number, found in enumerate(objects)}
    facts = bytes([JUDGED]) + _FACTS.pack(1.5, -1.5, 3, 4, 5)
    for number, members in enumerate(_CONSTRAINTS):
        inputs[f"constraint-{number}"] = facts + members.encode()
    return inputs


_CONSTRAINTS = (
    '{"type":"geo_circle","lat":1,"lon":1.5,"radius_m":5e2}',
    '[{"type":"geo_polygon","points":[[0,0],[0,9],[9,9]]}]',
    '{"type":"geo_bbox","min_lat":1,"max_lat":2,"min_lon":170,"max_lon":-170,"min_alt_m":0,"max_alt_m":1}',
    '{"type":"time_window","start":"22:00","end":"06:00","tz":"Europe/Berlin"}',
    '[{"type":"max_speed_mps","max_mps":4},{"type":"max_amount","currency":"EUR","max_amount":5}]',
    '{"type":"max_rate","count":1,"window_s":60}',
    '{"type":"resource_path","resource_id":"r","path_prefix":"/a"}',
    '{"type":"com.example.x","params":{"a":[1,{"b":null}]}}',
)
