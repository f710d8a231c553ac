"""`python -m bench.proofs [--quick]`: proofs, ours and the published package's in one process, in turn.

CPU time of the thread per call. Ratios are taken between neighbours in time and their median is kept, so other work
on the machine moves both sides alike. "First time" means that neither a key nor a text of the proof was ever seen:
each sample has people and agents of its own, and so has each that is decoded. "Again" is one agent that calls again
and again, with fresh challenges and its certificates in the cache. Verifying includes decoding.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

import ratify_protocol as published  # pyright: ignore[reportMissingTypeStubs]

from accredit.ratify import (
    CertificateCache,
    DelegationCert,
    Grant,
    HybridPrivateKey,
    decode_proof_bundle,
    issue_delegation,
    present,
    verify_bundle,
)

NOW = 1_800_000_000
DEPTHS = (1, 2, 3, 8)
FULL_SAMPLES, QUICK_SAMPLES = 200, 40
DECODE, FIRST, AGAIN, SIGN = "decode", "verify, first time", "verify, again", "sign a challenge"
TARGETS = {(FIRST, 1): 1.75, (FIRST, 3): 2.2, (AGAIN, 1): 3.5, (AGAIN, 3): 6.0}
"""How many times faster than the published package we are to be."""


@dataclass(frozen=True, slots=True)
class Row:
    """One task at one depth: microseconds of CPU time, medians, and the median of the ratios."""

    task: str
    depth: int
    theirs: float
    ours: float
    ratio: float

    @property
    def target(self) -> float | None:
        return TARGETS.get((self.task, self.depth))


Call = Callable[[], object]


def measure(samples: int, say: Callable[[str], None]) -> Iterator[Row]:
    for depth in DEPTHS:
        say(f"proofs of depth {depth}: {samples} samples")
        unseen = [proof for _ in range(samples) for proof in proofs(depth, 1)]
        yield compare(DECODE, depth, [(theirs_reads(text), ours_reads(text)) for text in unseen])
        unseen = [proof for _ in range(samples) for proof in proofs(depth, 1)]
        yield compare(FIRST, depth, [(theirs_verifies(text), ours_verifies(text)) for text in unseen])
        cache = CertificateCache()
        seen, *again = proofs(depth, samples + 1)
        ours_verifies(seen, cache)()
        yield compare(AGAIN, depth, [(theirs_verifies(text), ours_verifies(text, cache)) for text in again])
    yield compare(SIGN, 0, list(signers(samples)))


def compare(task: str, depth: int, pairs: Sequence[tuple[Call, Call]]) -> Row:
    """Runs both sides of each pair, theirs first and ours first in turn."""
    theirs: list[float] = []
    ours: list[float] = []
    for number, (their_call, our_call) in enumerate(pairs):
        if number % 2:
            ours.append(cpu_us(our_call))
            theirs.append(cpu_us(their_call))
        else:
            theirs.append(cpu_us(their_call))
            ours.append(cpu_us(our_call))
    ratio = median(their / our for their, our in zip(theirs, ours, strict=True))
    return Row(task, depth, median(theirs), median(ours), ratio)


def cpu_us(call: Call) -> float:
    before = time.thread_time_ns()
    call()
    return (time.thread_time_ns() - before) / 1000


def proofs(depth: int, count: int) -> list[bytes]:
    """So many proofs of one agent, over challenges of their own; all people and agents are new."""
    holders = [HybridPrivateKey(os.urandom(32), os.urandom(32)) for _ in range(depth + 1)]
    chain: list[DelegationCert] = []
    for number in range(depth):
        grant = Grant(
            subject=holders[number + 1].public_key,
            cert_id=os.urandom(16).hex(),
            scope=("files:read", "identity:delegate"),
            issued_at=NOW - 60,
            expires_at=NOW + 60,
        )
        chain.insert(0, issue_delegation(holders[number], grant))
    return [present(chain, holders[-1], os.urandom(32), NOW).encode() for _ in range(count)]


def theirs_reads(text: bytes) -> Call:
    return lambda: published.decode_proof_bundle(text)


def ours_reads(text: bytes) -> Call:
    return lambda: decode_proof_bundle(text)


def theirs_verifies(text: bytes) -> Call:
    def call() -> None:
        result = published.verify_bundle(published.decode_proof_bundle(text), published.VerifyOptions(now=NOW))
        assert result.valid, result.error_reason

    return call


def ours_verifies(text: bytes, cache: CertificateCache | None = None) -> Call:
    def call() -> None:
        result = verify_bundle(decode_proof_bundle(text), now=NOW, cert_cache=cache)
        assert result.valid, result.error_reason

    return call


def signers(samples: int) -> Iterator[tuple[Call, Call]]:
    _, their_key = published.generate_agent("bench", "custom")
    our_key = HybridPrivateKey(os.urandom(32), os.urandom(32))
    for _ in range(samples):
        challenge = os.urandom(32)
        yield (
            lambda challenge=challenge: published.sign_challenge(challenge, NOW, their_key),
            lambda challenge=challenge: our_key.sign(challenge),
        )


def as_markdown(rows: Iterable[Row]) -> str:
    lines = ["| task | depth | published, µs | ours, µs | times faster | at least | |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        wanted = row.target
        judged = "" if wanted is None else "met" if row.ratio >= wanted else "**missed**"
        cells = [
            row.task,
            str(row.depth or "-"),
            f"{row.theirs:.0f}",
            f"{row.ours:.0f}",
            f"{row.ratio:.2f}",
            "-" if wanted is None else f"{wanted:.2f}",
            judged,
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.proofs", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer samples: some seconds")
    options = parser.parse_args(arguments)
    rows = list(measure(QUICK_SAMPLES if options.quick else FULL_SAMPLES, lambda line: print(line, file=sys.stderr)))
    print(as_markdown(rows), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
