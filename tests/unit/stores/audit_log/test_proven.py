"""What is believed of a log is signed by a gateway that is trusted here: whoever writes into the store adds nothing."""

from collections.abc import Iterator
from functools import partial

import pytest
from tests.world.records import NOW_MS, Chained, decided, gateway

from accredit.attest import Digest, Envelope, RecordKey, Signature, Stored, timestamp
from accredit.errors import AttestationError
from accredit.stores.audit_log.proven import Prover, is_decision_since
from accredit.stores.audit_log.reading import NumberedEntry
from accredit.stores.audit_log.verifying import Verifiers

KEYS = [gateway()[1]]
WRITER = "0a" * 16
pytestmark = pytest.mark.holds("stores/audit_log/proven", "signature", "unproven")


def numbered(*entries: Stored | Digest) -> list[NumberedEntry]:
    return [NumberedEntry(number, each) for number, each in enumerate(entries, 1)]


def stored(chain: Chained) -> list[Stored]:
    return [Stored(each, f"{chain.writer}/{number}", "record") for number, each in enumerate(chain.envelopes, 1)]


def unsigned(envelope: Envelope, payload: bytes | None = None) -> Envelope:
    first = envelope.signatures[0]
    return Envelope(payload or envelope.payload, (Signature(first.key_id, bytes(64)),))


@pytest.fixture
def good() -> list[Stored]:
    chain = Chained(writer=WRITER)
    for _ in range(3):
        chain.decision(decided())
    return stored(chain)


def forged(good: list[Stored]) -> dict[str, Stored]:
    """What somebody without the key puts into a store."""
    genuine = good[0].envelope
    stranger = Chained("stranger", WRITER)
    stranger.decision(decided())
    return {
        "a copy with another target": Stored(
            unsigned(genuine, genuine.payload.replace(b"send_email", b"wire_money")), f"{WRITER}/1", "record"
        ),
        "no signature of its own": Stored(unsigned(genuine), f"{WRITER}/1", "record"),
        "another gateway's": stored(stranger)[0],
        "a genuine one at another place": good[0]._replace(place=f"{WRITER}/9"),
        "a genuine one of another writer": good[0]._replace(place=f"{'0b' * 16}/1"),
        "a genuine one as another kind": good[0]._replace(kind="checkpoint"),
        "no statement": Stored(unsigned(genuine, b"{}"), f"{WRITER}/1", "record"),
    }


NAMES = tuple(forged([Stored(Chained(writer=WRITER).decision(decided()))]))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("processes", [0, 2])
def test_what_somebody_put_in_is_left_out_and_counted(good: list[Stored], name: str, processes: int) -> None:
    other = forged(good)[name]
    with Verifiers(KEYS, processes) as examiner:
        prover = Prover(KEYS, examiner)
        found = list(prover.records(numbered(other, *good, Digest(WRITER, 4, bytes(32)), other)))
    assert [each.entry.entry for each in found] == good
    assert (prover.left.entries, prover.left.place) == (2, other.place)
    assert prover.left.reason
    (only,) = numbered(other)
    assert prover.fault(only) == prover.left.reason


def test_without_keys_nothing_is_believed(good: list[Stored]) -> None:
    prover = Prover(())
    assert not prover.has_keys
    assert list(prover.records(numbered(*good))) == []
    assert prover.left.entries == 3


def test_a_digest_says_nothing_and_is_no_fault() -> None:
    prover = Prover(KEYS)
    entry = NumberedEntry(0, Digest(WRITER, 1, bytes(32)))
    assert (list(prover.records([entry])), prover.fault(entry), prover.left.entries) == ([], None, 0)


def test_damage_is_told_after_what_was_read_before_it(good: list[Stored]) -> None:
    def damaged() -> Iterator[NumberedEntry]:
        yield from numbered(*good)
        raise AttestationError("the file is damaged")

    with Verifiers(KEYS, 2) as examiner:
        found = Prover(KEYS, examiner).records(damaged())
        assert [next(found).record.log.sequence for _ in good] == [1, 2, 3]
        with pytest.raises(AttestationError):
            next(found)


def test_what_is_of_no_use_is_not_verified__and_what_says_that_it_is_is_not_believed_for_that(
    good: list[Stored],
) -> None:
    """Of a long log only what came since a time, and only decisions."""
    chain = Chained(writer=WRITER)
    call = decided()
    chain.decision(call)
    chain.outcome(call)
    log = numbered(*stored(chain), *forged(good).values())
    prover = Prover(KEYS)
    (found,) = prover.records(log, partial(is_decision_since, timestamp(NOW_MS)))
    assert found.record.phase == "decision"
    seen = prover.left.entries
    assert seen == len(forged(good))
    assert list(prover.records(log, partial(is_decision_since, timestamp(NOW_MS + 1)))) == []
    assert prover.left.entries == seen + 1, "what is no statement says of no time"


def test_another_signers_key_proves_records_as_well(good: list[Stored]) -> None:
    def check(signature: Signature, _message: bytes) -> None:
        if signature.data != b"signed":
            raise AttestationError("it is not")

    key = RecordKey("other", check)
    theirs = Stored(Envelope(good[0].envelope.payload, (Signature("other", b"signed"),)), f"{WRITER}/1", "record")
    bad = Stored(Envelope(good[0].envelope.payload, (Signature("other", b"x"),)), f"{WRITER}/1", "record")
    prover = Prover([*KEYS, key])
    assert len(list(prover.records(numbered(theirs, bad)))) == 1
    assert prover.left.entries == 1
