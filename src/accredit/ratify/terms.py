"""What a verification is given (Ratify section 8): its terms, and answers to the questions that it asks while it runs
(needs). No I/O.

A verification is a generator: it yields a need and is sent the answer. So all its steps are in one function, in their
order, whether the answers come from memory or from a database. If an exception is raised in place of an answer, the
bundle is refused.
"""

from collections.abc import Collection, Generator, Mapping
from typing import NamedTuple

from msgspec import Struct

from accredit.base.caching import RecentlyUsed
from accredit.limits import CHALLENGE_WINDOW_SECONDS
from accredit.ratify.constraints import Evaluator
from accredit.ratify.facts import VerifierContext
from accredit.ratify.hybrid import HybridPublicKey
from accredit.ratify.results import VerifyResult
from accredit.ratify.structures import StreamContext

MAX_CACHED_CERTIFICATES = 65_536
"""How many digests of verified certificates a cache remembers: about 8 MiB."""


class CertificateCache(RecentlyUsed[bytes, bool]):
    """Remembers certificates whose signatures need not be verified again. Calls and threads may share it.

    It holds one digest for each certificate, of everything that was signed and of both signatures. The digest is added
    only after both signatures were verified. All that can change (time, revocation, linkage, scopes, constraints, the
    challenge) is evaluated every time.
    """

    __slots__ = ()

    def __init__(self, max_entries: int = MAX_CACHED_CERTIFICATES) -> None:
        """Raise `ValueError` for a bound below 1."""
        if max_entries < 1:
            raise ValueError("max_entries is at least 1")
        super().__init__(max_entries)


class Terms(Struct, frozen=True, kw_only=True):
    """What a verification checks a bundle against.

    `now` is in unix seconds. `vocabulary` is what the deployment adds to the canonical scopes. `session_context` is
    empty or has 32 bytes. `check_revocation` says whether the caller answers questions about revocation, and
    `single_use` whether it answers those about the challenge. `max_age` and `max_ahead` bound the challenge's time, in
    seconds; the defaults are the protocol's. `check_constraints` is False for a request that does nothing to which
    constraints could apply.
    """

    now: int
    required_scope: str = ""
    vocabulary: Collection[str] = ()
    roots: Collection[HybridPublicKey] | None = None
    session_context: bytes = b""
    stream: StreamContext | None = None
    context: VerifierContext = VerifierContext()
    constraint_evaluators: Mapping[str, Evaluator] = {}
    check_revocation: bool = False
    single_use: bool = False
    max_age: int = CHALLENGE_WINDOW_SECONDS
    max_ahead: int = 0
    check_constraints: bool = True
    cert_cache: CertificateCache | None = None


class IsRevoked(NamedTuple):
    """Is this certificate revoked? The answer is a bool."""

    cert_id: str


class ValidateChallenge(NamedTuple):
    """Could this challenge be consumed? The answer is None, or why not."""

    challenge: bytes
    session_context: bytes


class ConsumeChallenge(NamedTuple):
    """Consume this challenge. The answer is None, or why it could not be."""

    challenge: bytes
    session_context: bytes


Need = IsRevoked | ValidateChallenge | ConsumeChallenge
Steps = Generator[Need, object, VerifyResult]
