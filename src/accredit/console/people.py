"""The delegations that this desk can know of: those in a gateway's log, in the desk's journal, and in files. Reads all
three, in threads.

A delegation is unknown here if it was not used at this gateway, not signed at this desk, and is not in this folder.
Calls are counted in a bounded number of the log's newest entries, without verifying these. The page says both. A
certificate's signatures are verified before it is opened, or revoked (`signature`).
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec import Struct

from accredit.attest import CallRecord, sha256_hex
from accredit.console.delegations import DelegationTree, Link, Node, links_in, links_of
from accredit.console.lists import KeyOf, ListPlace, SeenList, people_in, revoked_ids, see_lists
from accredit.console.log_pages import CALLS_LOOKED_AT, LogPages, record_of
from accredit.errors import ConfigurationError, DeskError, WireError
from accredit.keys import DelegationFile, KeyFile, read_file
from accredit.keys.places import APPS, agent_folders
from accredit.limits import MAX_DELEGATION_FILE_BYTES
from accredit.ratify import DelegationCert, HybridPublicKey
from accredit.ratify.structures import decode_chain
from accredit.ratify.verify import certificate_fault
from accredit.stores.audit_log.reading import LogReader

MAX_LOG_CHAINS = 20_000
"""How many chains in a log the desk reads for its tree (some 100 µs each). The page says if there are more."""
PEOPLE_FRESH_SECONDS = 3.0
"""How long the desk shows a tree of delegations before it reads the log again."""
MAX_DELEGATION_FILES = 1_000
"""How many files of delegations a desk reads in its folder, and in `grants` there."""


_GRANTS = "grants"


class Known(Struct, frozen=True):
    """The known delegations at one moment. `counted` log entries were read to count calls; `is_counted_whole` says that
    the log has no more. `is_whole` is False if the log holds more chains than are read. `odd` counts chains that no
    gateway would accept. `problem` says why the log could not be read at all."""

    forest: DelegationTree
    lists: tuple[SeenList, ...] = ()
    revoked: frozenset[str] = frozenset()
    counted: int = 0
    is_counted_whole: bool = True
    is_whole: bool = True
    odd: int = 0
    problem: str = ""


class People:
    """Reads the known delegations, and caches them. `signed` returns the journal's entries about certificates that
    `person` signed."""

    def __init__(
        self,
        log: LogPages | None,
        folder: Path | None = None,
        *,
        lists: Iterable[ListPlace] = (),
        person: KeyFile | None = None,
        signed: Callable[[], Iterable[Mapping[str, Any]]] = tuple,
    ) -> None:
        self._log = log
        self._folder = folder
        self._lists = tuple(lists)
        self._person = person
        self._signed = signed
        self._known: Known | None = None
        self._read_at = float("-inf")
        self._key_of: KeyOf = _Seen().key_of
        self._reading = asyncio.Lock()

    async def known(self, *, anew: bool = False) -> Known:
        """Return the known delegations: at most `PEOPLE_FRESH_SECONDS` old or, with `anew`, read now."""
        async with self._reading:
            if anew or self._known is None or time.monotonic() - self._read_at > PEOPLE_FRESH_SECONDS:
                entries = tuple(self._signed())
                self._known = await asyncio.to_thread(self._joined, await self._in_log(), entries)
                self._read_at = time.monotonic()
            return self._known

    async def lists(self) -> tuple[SeenList, ...]:
        """Return the revocation lists as they are now."""
        return await asyncio.to_thread(self._see_lists)

    async def signature(self, node: Node) -> str:
        """Verify the signatures of the chain that holds a certificate. Return "good", "BAD: ..." or, if no chain with
        it is known here or the chain is gone, "". Raises `DeskError`."""
        match node.found_in:
            case str() as sha256 if sha256 and self._log is not None:
                text = await self._log.look(lambda log: log.certificates(sha256)) or b""
            case Path() as file:
                text = None
                with suppress(ConfigurationError, WireError):
                    text = await asyncio.to_thread(_in_file, file)
            case _:
                text = None
        return await asyncio.to_thread(_judge_signatures, text, node.link) if text is not None else ""

    async def _in_log(self) -> "_Seen":
        try:
            return await self._log.look(_read_log) if self._log is not None else _Seen()
        except DeskError as error:  # the rest is shown all the same, and can be revoked
            return _Seen(problem=error.reason)

    def _joined(self, seen: "_Seen", entries: Iterable[Mapping[str, Any]]) -> Known:
        forest = DelegationTree()
        for sha256, chain in seen.chains.items():
            forest.add(chain, "log", *seen.calls.get(sha256, (0, "")), found_in=sha256)
        if self._folder is not None:
            for path, chain in _in_files(self._folder):
                forest.add(chain, "file", found_in=path)
        if self._person is not None:
            forest.add_signed(self._person.id, entries)
        self._key_of = seen.key_of
        found = self._see_lists()
        return Known(
            forest, found, revoked_ids(found), seen.counted, seen.is_counted_whole,
            seen.is_whole, seen.odd, seen.problem,
        )  # fmt: skip

    def _see_lists(self) -> tuple[SeenList, ...]:
        own = {self._person.id: self._person.public_key} if self._person is not None else {}
        keys = people_in(self._folder) | own
        return tuple(see_lists(self._lists, lambda issuer_id: keys.get(issuer_id) or self._key_of(issuer_id)))


class _Seen(Struct):
    """A log's chains by SHA-256, with the number of calls by each and the time of the last one. Also holds one chain of
    each root, as a sample."""

    chains: dict[str, tuple[Link, ...]] = {}
    calls: dict[str, tuple[int, str]] = {}
    samples: dict[str, bytes] = {}
    counted: int = 0
    is_counted_whole: bool = True
    is_whole: bool = True
    odd: int = 0
    problem: str = ""

    def key_of(self, issuer_id: str) -> HybridPublicKey | None:
        """Return a root's public key, from a chain of that root. It can't be another person's key, as the id is derived
        from it."""
        with suppress(WireError):
            return decode_chain(self.samples.get(issuer_id, b""))[-1].issuer_pub_key
        return None


def _read_log(log: LogReader) -> _Seen:
    seen = _Seen()
    for entry in log.newest_first():
        if seen.counted == CALLS_LOOKED_AT:
            seen.is_counted_whole = False
            break
        seen.counted += 1
        record = record_of(entry)
        if record is not None:
            _count(seen, record)
    recent = ((sha256, log.certificates(sha256)) for sha256 in seen.calls)
    _take(seen, recent)
    _take(seen, ((sha256_hex(text), text) for text in log.chains()))
    return seen


def _take(seen: _Seen, found: Iterable[tuple[str, bytes | None]]) -> None:
    """Add chains, up to the bound. Chains of the newest calls are added first."""
    for sha256, text in found:
        if len(seen.chains) == MAX_LOG_CHAINS:
            seen.is_whole = False
            return
        if text is None or sha256 in seen.chains:
            continue
        links = links_in(text)
        if links is None:
            seen.odd += 1
            continue
        seen.chains[sha256] = links
        seen.samples.setdefault(links[0].issuer_id, text)


def _count(seen: _Seen, record: CallRecord) -> None:
    if record.decision is not None and record.authority is not None:
        calls, last = seen.calls.get(record.authority.chain_sha256, (0, ""))
        if record.decision.goes_on:
            calls, last = calls + 1, max(last, record.times.received)
        seen.calls[record.authority.chain_sha256] = (calls, last)


def _in_files(folder: Path) -> Iterable[tuple[Path, tuple[Link, ...]]]:
    """Yield the chains in the files of a folder, of its adopted agents, and of the folders `grants` and `apps` in
    each."""
    places = (place for each in agent_folders(folder) for place in (each, each / _GRANTS, each / APPS))
    paths = (path for place in places for path in sorted(place.glob("*.json")))
    for path in islice(paths, MAX_DELEGATION_FILES):
        with suppress(ConfigurationError, WireError, OSError):
            yield path, links_of(_certificates_in(path))


def _certificates_in(path: Path) -> Sequence[DelegationCert]:
    return DelegationFile.decode(read_file(path, MAX_DELEGATION_FILE_BYTES).data).delegations


def _in_file(path: Path) -> bytes:
    """Return a file's chain in the log's encoding."""
    return b"[" + b",".join(each.encode() for each in _certificates_in(path)) + b"]"


def _judge_signatures(text: bytes, link: Link) -> str:
    """Verify a chain from its root down to the certificate `link`. `text` is "" if the log no longer has a chain with
    that digest."""
    if not text:
        return "BAD: the log has it under another digest, or not any more"
    try:
        chain = decode_chain(text)
    except WireError:
        return "BAD: the chain can't be read"
    place = next((place for place, each in enumerate(reversed(links_of(chain))) if each == link), None)
    if place is None:
        return "BAD: the chain does not hold it"
    faults = (certificate_fault(chain, index) for index in range(place, len(chain)))
    fault = next((each for each in faults if each), "")
    return f"BAD: {fault}" if fault else "good"
