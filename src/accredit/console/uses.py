"""Finds out from a gateway's log whether a permission that a person gave was used. No I/O of its own.

- [missing-chain] If the log lacks the chain, no call there used it: it is unused, or the log is another gateway's.
- [search] Otherwise the newest entries, back to when the chain became valid, are searched for calls that used it.
  Refused calls don't count as uses. Neither do calls whose records do not verify. Without a key of the gateway nothing
  is verified, and the page says so.

Calls at a gateway with another log, and calls older than those entries, are not found.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Any

from accredit.attest import timestamp
from accredit.attest.canonical import recorded_chain
from accredit.consent.call import this_call_only
from accredit.console.delegations import links_of
from accredit.console.log_pages import CALLS_LOOKED_AT, GOOD, UNCHECKED, LogPages, record_of, signature_of
from accredit.errors import DeskError
from accredit.pins.shown import visible_text
from accredit.ratify import DelegationCert
from accredit.stores.audit_log.proven import Prover
from accredit.stores.audit_log.reading import LogReader

_SLACK_SECONDS = 600
"""The largest difference that is expected between the clocks of gateways that share a log."""


async def use_of(chain: Sequence[DelegationCert], log: LogPages | None) -> dict[str, Any]:
    """Return the known facts about the use of a chain (given leaf first). `used` says whether it was used (None:
    unknown, and `problem` says why). Other members are the last call that used it, whether it was for one call only,
    and its handle on the page that revokes it."""
    leaf, is_once = links_of(chain)[-1], this_call_only(chain[0].constraints)
    found: dict[str, Any] = {
        "ends": leaf.expires_at, "handle": leaf.handle, "once": is_once, "used": None, "problem": "",
    }  # fmt: skip
    if log is None:
        return {**found, "problem": "desk.toml names no store of the gateway"}
    sha256 = recorded_chain(each.encode() for each in chain).sha256
    try:
        last = await log.look(lambda reader: _last_call(reader, sha256, leaf.issued_at, log.prover))
    except DeskError as error:
        return {**found, "problem": visible_text(error.reason)}
    return {**found, "used": last is not None, "checked": log.prover.has_keys, **(last or {})}


def _last_call(log: LogReader, sha256: str, issued_at: int, prover: Prover) -> dict[str, Any] | None:
    """Return the id and time of the last call that used a chain; None if none did. Without keys, records need not
    verify."""
    if log.certificates(sha256) is None:
        return None
    earliest = timestamp((issued_at - _SLACK_SECONDS) * 1_000)
    for each in islice(log.newest_first(), CALLS_LOOKED_AT):
        record = record_of(each)
        if record is None or record.decision is None:
            continue
        if record.times.received < earliest:
            break
        is_of_chain = record.authority is not None and record.authority.chain_sha256 == sha256
        if is_of_chain and record.decision.verdict == "allow" and signature_of([each], prover) in (GOOD, UNCHECKED):
            return {"call": record.call.id, "received": record.times.received}
    return None
