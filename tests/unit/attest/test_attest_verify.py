"""A log that was changed anywhere is found out, with the place."""

import hashlib
from collections.abc import Callable, Sequence

import pytest
from msgspec.structs import replace
from tests.world.records import NOW_MS, Chained, decided, gateway

from accredit.attest import (
    CallRecord,
    Digest,
    Entry,
    Envelope,
    Examined,
    LogKey,
    LogSigner,
    Pruning,
    Signature,
    Statement,
    Stored,
    checkpoint_payload,
    decode_statement,
    encode_envelope,
    examine,
    pruning_payload,
    sha256_hex,
    timestamp,
    verify_envelope,
    verify_log,
)
from accredit.errors import AttestationError

pytestmark = pytest.mark.holds("attest/signing")

WRITER = "0f" * 16
KEYS = [gateway()[1]]
Change = Callable[[list[Envelope]], Sequence[Envelope]]


def fault(entries: Sequence[Envelope], keys: Sequence[LogKey] = KEYS, kept: Sequence[Envelope] = ()) -> str | None:
    report = verify_log([Stored(entry) for entry in entries], keys, kept)
    return report.fault and f"{report.fault.place}: {report.fault.reason}"


def test_a_log_that_nobody_changed_is_good() -> None:
    chain = Chained(writer=WRITER)
    report = verify_log([encode_envelope(envelope) for envelope in chain.calls(4)], KEYS)
    assert report.valid
    (writer,) = report.writers
    assert (writer.writer, writer.records, writer.checkpointed, writer.pruned) == (WRITER, 8, 8, 0)
    assert writer.head == sha256_hex(chain.envelopes[-2].payload)


@pytest.mark.holds("attest/chains", "sequence")
def test_a_number_is_held_against_the_chain__though_its_link_is_right() -> None:
    chain = Chained(writer=WRITER)
    chain.decision(decided())
    chain.count += 1
    chain.decision(decided())
    assert fault(chain.envelopes) == f"{WRITER}/3: its number is 3, and 2 is expected"


@pytest.mark.holds("attest/chains", "checkpoint")
def test_a_checkpoint_of_another_chain_is_found_out__though_it_counts_as_far() -> None:
    log = Chained(writer=WRITER).calls(2)
    other = Chained(writer=WRITER).calls(2)[-1]
    assert fault([*log[:-1], other]) == f"{WRITER}/4: the checkpoint is of another chain"


def test_writers_may_take_turns__four_workers_share_one_log() -> None:
    chains = [Chained(writer=f"{number:032x}").calls(3) for number in range(4)]
    mixed = [entry for turn in zip(*chains, strict=True) for entry in turn]
    report = verify_log(map(Stored, mixed), KEYS)
    assert report.valid
    assert [writer.records for writer in report.writers] == [6] * 4


CHANGES: dict[str, tuple[Change, int]] = {
    "removed": (lambda log: [*log[:2], *log[3:]], 4),
    "first removed": (lambda log: log[1:], 2),
    "swapped": (lambda log: [*log[:2], log[3], log[2], *log[4:]], 4),
    "duplicated": (lambda log: [*log[:3], log[2], *log[3:]], 3),
    "spliced": (lambda log: [*log[:3], Chained(writer=WRITER).calls(3)[3], *log[4:]], 4),
    "tail cut, checkpoint left": (lambda log: [*log[:-2], log[-1]], 6),
    "checkpoint moved": (lambda log: [*log[:2], log[-1], *log[2:-1]], 6),
}


@pytest.mark.holds("attest/verify", "chain")
@pytest.mark.parametrize("name", CHANGES)
def test_a_log_that_was_changed_is_found_out(name: str) -> None:
    change, sequence = CHANGES[name]
    found = fault(change(Chained(writer=WRITER).calls(3)))
    assert found is not None
    assert found.startswith(f"{WRITER}/{sequence}: ")


@pytest.mark.holds("attest/verify", "signature")
def test_records_of_another_gateway_are_not_taken_for_ours() -> None:
    found = fault(Chained("stranger", WRITER).calls(1))
    assert found == f"{WRITER}/1: it is signed by a key that is not known here: {gateway('stranger')[0].id}"


@pytest.mark.holds("attest/verify", "signature")
def test_a_stranger_who_uses_our_key_id_signs_nothing() -> None:
    theirs, ours = gateway("stranger")[0], gateway()[0]
    forged = LogSigner(ours.id, theirs.ed25519, theirs.ml_dsa_65)
    payload = Chained(writer=WRITER).decision(decided()).payload
    assert fault([forged.record(payload)]) == f"{WRITER}/1: the Ed25519 signature is not good"


@pytest.mark.parametrize("half", [0, 1])
def test_a_checkpoint_needs_both_halves__one_of_them_may_be_broken_one_day(half: int) -> None:
    *records, checkpoint = Chained(writer=WRITER).calls(1)
    for signatures in (
        checkpoint.signatures[half : half + 1],
        tuple(each._replace(data=bytes(len(each.data))) if number == half else each
              for number, each in enumerate(checkpoint.signatures)),
        (checkpoint.signatures[0], checkpoint.signatures[1]._replace(key_id="other")),
    ):  # fmt: skip
        assert fault([*records, checkpoint._replace(signatures=signatures)]) is not None


def test_a_record_with_a_second_signature_is_refused__it_is_not_what_we_sign() -> None:
    record = Chained(writer=WRITER).decision(decided())
    assert fault([record._replace(signatures=record.signatures * 2)]) == f"{WRITER}/1: a record has one signature"
    assert fault([record._replace(signatures=())]) is not None


@pytest.mark.holds("attest/verify", "checkpoints")
def test_a_cut_tail_is_noticed_by_whoever_kept_a_checkpoint() -> None:
    log = Chained(writer=WRITER).calls(5)
    kept = log[-1]
    assert fault(log, kept=[kept]) is None
    assert fault(log[:-1], kept=[kept]) is None
    found = fault(log[:6], kept=[kept])
    assert found == f"{WRITER}/10: it was there, and the log ends before it"
    assert fault([], kept=[kept]) is not None


def test_a_log_that_was_written_anew_is_noticed_by_whoever_kept_a_checkpoint() -> None:
    kept = Chained(writer=WRITER).calls(2)[-1]
    assert fault(Chained(writer=WRITER).calls(2), kept=[kept]) == (f"{WRITER}/4: another record was there before")


def test_what_is_kept_must_be_a_checkpoint_of_ours() -> None:
    chain = Chained(writer=WRITER)
    log = chain.calls(1)
    assert fault(log, kept=[log[0]]) == "a kept checkpoint: it is no checkpoint"
    assert fault(log, kept=Chained("stranger", WRITER).calls(1)[-1:]) is not None
    other = Chained(writer=WRITER).calls(1)[-1]
    both = f"{WRITER}/2: two different records were there, by what was kept or by the store's own head"
    assert fault(log, kept=[log[-1], other]) == both


@pytest.mark.holds("attest/verify", "place")
def test_a_record_that_is_not_where_the_store_says_is_found_out() -> None:
    log = Chained(writer=WRITER).calls(1)
    report = verify_log([Stored(log[0], f"{WRITER}/1"), Stored(log[1], f"{WRITER}/3")], KEYS)
    assert report.fault is not None
    assert report.fault == (f"{WRITER}/3", f"the record here is {WRITER}/2, after {WRITER}/1")
    kinds = ("record", "record", "checkpoint")
    places = (f"{WRITER}/1", f"{WRITER}/2", f"{WRITER}/2")
    stored = [Stored(*each) for each in zip(log, places, kinds, strict=True)]
    assert verify_log(stored, KEYS).valid
    wrong = verify_log([stored[0]._replace(kind="note"), *stored[1:]], KEYS).fault
    assert wrong == (f"{WRITER}/1", "it is stored as a note, and is a record, after the first entry")


def test_who_judges_a_statement_is_asked_once_its_signatures_are_good() -> None:
    record, stranger = (Chained(name, WRITER).decision(decided()) for name in ("gateway", "stranger"))
    found = [examine(each, {key.id: key for key in KEYS}, type) for each in (record, stranger)]
    assert [isinstance(each, Examined) and each.judged for each in found] == [Statement, None]


def test_of_an_entry_that_a_stranger_signed_it_is_said_where_it_is_and_what_it_says() -> None:
    envelope = Chained("stranger", WRITER).decision(decided())
    found = examine(Stored(envelope, f"{WRITER}/1", "record"), {key.id: key for key in KEYS})
    assert isinstance(found, Examined)
    assert (found.place, found.kind) == (f"{WRITER}/1", "record")
    assert found.sha256 == hashlib.sha256(envelope.payload).hexdigest()
    assert found.fault is not None


def pruned(log: Sequence[Envelope], last: int, signer: LogSigner | None = None) -> tuple[list[Entry], Envelope]:
    """The log with its first records pruned, and the note."""
    digests = [hashlib.sha256(envelope.payload).digest() for envelope in log[:last]]
    note = Pruning(
        writer=WRITER,
        last=last,
        before=timestamp(NOW_MS + 1_000),
        digests_sha256=sha256_hex(b"".join(digests)),
        time=timestamp(NOW_MS),
    )
    signed = (signer or gateway()[0]).summary(pruning_payload(note, digests[-1].hex()))
    left: list[Entry] = [Digest(WRITER, number, digest) for number, digest in enumerate(digests[:-1], 1)]
    return [*left, Stored(signed), *map(Stored, log[last:])], signed


@pytest.mark.parametrize("last", [1, 2, 5])
def test_a_pruned_log_still_verifies__with_its_digests_and_without(last: int) -> None:
    log = Chained(writer=WRITER).calls(3)
    entries, note = pruned(log, last)
    for left in (entries, [Stored(note), *map(Stored, log[last:])]):
        report = verify_log(left, KEYS, [log[-1]])
        assert report.fault is None or last == 1
        if report.valid:
            assert (report.records, report.writers[0].pruned) == (6, last)


@pytest.mark.holds("attest/chains", "pruning")
def test_what_a_note_says_of_digests_holds() -> None:
    log = Chained(writer=WRITER).calls(3)
    entries, note = pruned(log, 4)
    wrong = Digest(WRITER, 2, bytes(32))
    for broken in (
        [entries[0], wrong, *entries[2:]],
        [entries[0], *entries[2:]],
        [entry for entry in entries if entry != Stored(note)],
        entries[:3],
        [*map(Stored, log[:4]), Stored(note)],
        [Stored(log[0]), *entries[1:]],
        [*entries[:3], Stored(log[-1])],
    ):
        assert verify_log(broken, KEYS).fault is not None
    missing = verify_log(entries[:3], KEYS).fault
    assert missing == (f"{WRITER}/3", "the note of the pruning is missing")


def test_a_note_of_a_stranger_hides_nothing() -> None:
    entries, _ = pruned(Chained(writer=WRITER).calls(3), 4, gateway("stranger")[0])
    assert verify_log(entries, KEYS).fault is not None


def test_a_kept_checkpoint_of_what_was_pruned_is_held_against_the_digests() -> None:
    chain = Chained(writer=WRITER)
    log = chain.calls(3)
    head = sha256_hex(log[1].payload)
    good, bad = (gateway()[0].summary(checkpoint_payload(WRITER, 2, each, NOW_MS)) for each in (head, "ab" * 32))
    entries, note = pruned(log, 4)
    assert verify_log(entries, KEYS, [good]).valid
    assert not verify_log(entries, KEYS, [bad]).valid
    assert verify_log([Stored(note), *map(Stored, log[4:])], KEYS, [good]).valid
    last = gateway()[0].summary(checkpoint_payload(WRITER, 4, "ab" * 32, NOW_MS))
    for left in (entries, [Stored(note), *map(Stored, log[4:])]):
        found = verify_log(left, KEYS, [last]).fault
        assert found is not None
        assert found.reason == "another record was there before"


def test_a_log_is_read_from_envelopes_and_lines_in_every_form() -> None:
    log = Chained(writer=WRITER).calls(2)
    lines = [encode_envelope(envelope) for envelope in log]
    report = verify_log(lines, KEYS)
    assert report.valid
    for form in (log, [line + b"\n" for line in lines], [f"{line.decode()}\n" for line in lines]):
        assert verify_log(form, KEYS) == report
    assert verify_log(["\ud800"], KEYS).fault == ("the first entry", "not a DSSE envelope")


def test_an_envelope_alone_is_read_and_verified() -> None:
    chain = Chained(writer=WRITER)
    for envelope in chain.calls(1):
        text = encode_envelope(envelope)
        assert verify_envelope(text, KEYS) == verify_envelope(text.decode(), KEYS) == decode_statement(envelope.payload)
    with pytest.raises(AttestationError):
        verify_envelope("\ud800", KEYS)


def test_keys_that_are_none_verify_nothing_and_break_nothing() -> None:
    record, checkpoint = Chained(writer=WRITER).decision(decided()), Chained(writer=WRITER).calls(1)[-1]
    broken = replace(KEYS[0], ed25519=b"short")
    with pytest.raises(AttestationError):
        verify_envelope(record, [broken])
    with pytest.raises(AttestationError):
        verify_envelope(checkpoint, [replace(KEYS[0], ml_dsa_65=b"short")])
    with pytest.raises(AttestationError):
        verify_envelope(Envelope(record.payload, (Signature(KEYS[0].id, b"short"),)), KEYS)


@pytest.mark.holds("attest/verify", "statement")
def test_a_line_that_is_no_envelope_is_a_fault_with_its_place() -> None:
    lines = [encode_envelope(each) for each in Chained(writer=WRITER).calls(1)]
    report = verify_log([lines[0], b"rubbish", *lines[1:]], KEYS)
    assert report.fault is not None
    assert report.fault.reason == "not a DSSE envelope"
    assert f"{WRITER}/1" in report.fault.place


def test_the_records_of_a_good_log_can_be_read() -> None:
    call = decided()
    statement = verify_envelope(Chained(writer=WRITER).decision(call), KEYS)
    assert isinstance(statement.predicate, CallRecord)
    assert statement.predicate.call.id == call.call.id
    assert statement.sha256 == call.params.sha256
