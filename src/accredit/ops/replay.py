"""Implements `accredit replay`: decides each logged call again (`policy.replaying`), and prints the differences.

Calls are counted by caller, target and difference, and each such count is a line; the number of lines is bounded. Each
record is verified with the trusted keys, and its chain of certificates by the digest in the record.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from msgspec import structs

from accredit.attest import CallRecord, sha256_hex, timestamp
from accredit.base.caching import RecentlyUsed
from accredit.base.text import escape_text, several
from accredit.config.attest import gateway_id
from accredit.config.build import build_all_settings
from accredit.config.digest import policy_digest
from accredit.config.load import Loaded, load
from accredit.errors import WireError
from accredit.gateway import GatewaySettings
from accredit.gateway.settings import ApiUpstream
from accredit.limits import MAX_RECORDED_CHAINS
from accredit.ops.log_names import known_names
from accredit.ops.log_place import LogSource, as_configuration_errors, moment, public_keys
from accredit.ops.log_record import Names, id_with_name
from accredit.policy.drill import is_drill
from accredit.policy.replaying import OPEN, ReplayConfiguration, Replayer, ServerTerms, TokenTerms, was_allowed
from accredit.policy.suggesting import RefusedCalls, Tally
from accredit.ratify import DelegationCert
from accredit.ratify.structures import decode_chain
from accredit.stores.audit_log.proven import Prover, UnverifiedEntries, is_decision_since
from accredit.stores.audit_log.reading import LogReader
from accredit.stores.audit_log.verifying import Verifiers
from accredit.terminal.output import print_result, say
from accredit.terminal.progress import Progress
from accredit.terminal.wording import shown_call, tally_text, unverified_note

MAX_REPLAYED_CHANGES = 1_000
"""The most differences that `accredit replay` prints: nobody reads more. Further ones are only counted."""


_NOT_LOOKED_AT = ("revocations", "uses", "ages of challenges")


class _Change(NamedTuple):
    """A difference. `before` and `now` are "allow", or the word of a refusal. If `observed`, the earlier refusal was
    only recorded, and the call went through."""

    server: str
    method: str
    target: str
    agent_id: str
    before: str
    now: str
    observed: bool


class _Found:
    """The results. The first `MAX_REPLAYED_CHANGES` differences are listed; for further ones, calls are only
    counted."""

    def __init__(self) -> None:
        self.same = Tally()
        self.otherwise = Tally()
        self.changes: dict[_Change, Tally] = {}
        self.open: dict[str, RefusedCalls] = {}

    def add(self, record: CallRecord, allows: bool, error: str) -> None:
        """Count a call that could be decided."""
        at, decision, authority = record.times.received, record.decision, record.authority
        if was_allowed(record) == allows:
            self.same.add(at)
            return
        self.otherwise.add(at)
        before = (decision.error if decision is not None else None) or "allow"
        agent = authority.agent_id if authority is not None else ""
        call = record.call
        now = "allow" if allows else error
        observed = decision is not None and decision.verdict != "allow" and decision.enforced is False
        change = _Change(call.server or "", call.method, call.target or "", agent, before, now, observed)
        if change in self.changes or len(self.changes) < MAX_REPLAYED_CHANGES:
            self.changes.setdefault(change, Tally()).add(at)


def run_replay(*, config: Path, since: str | None, key: Sequence[Path]) -> int:
    """Run `accredit replay`: print which calls a configuration would decide differently; return the exit code. Raises
    `ConfigurationError`."""
    loaded = load(config, os.environ, {})
    again, found = Replayer(_collect_terms(loaded)), _Found()
    first = "" if since is None else timestamp(moment("--since", since))
    source, trusted = LogSource(config=config), public_keys(key, config)
    store = source.place()
    progress = Progress("deciding again", unit="entries")
    with (
        as_configuration_errors(),
        Verifiers(trusted) as examiner,
        store.open_log() as log,
        store.open_log() as beside,
        progress,
    ):
        chains, prover = _Chains(beside), Prover(trusted, examiner)
        for _, record, sha256 in prover.records(progress.over(log.newest_first()), partial(is_decision_since, first)):
            if is_drill(record.call.method, record.call.target):
                continue  # made to be refused, and over
            verdict = again.decide(record, bytes.fromhex(sha256), chains.of(record))
            if verdict.open:
                found.open.setdefault(verdict.open, RefusedCalls()).add(record)
            else:
                found.add(record, verdict.allows, verdict.error)
    names = known_names((), source)
    print_result(_members(found, names, prover.left))
    for line in _lines(found, names, prover.left):
        say(line)
    return 1 if found.otherwise.calls else 0


class _Chains:
    """The calls' chains of certificates, with a bounded cache."""

    def __init__(self, log: LogReader) -> None:
        self._log = log
        self._known = RecentlyUsed[str, tuple[DelegationCert, ...] | None](MAX_RECORDED_CHAINS)

    def of(self, record: CallRecord) -> tuple[DelegationCert, ...] | None:
        """Return the chain of a call; None if it had none, or the log lacks it."""
        if record.authority is None:
            return None
        name = record.authority.chain_sha256
        if name not in self._known:
            self._known.put(name, self._read(name))
        return self._known.get(name)

    def _read(self, name: str) -> tuple[DelegationCert, ...] | None:
        text = self._log.certificates(name)
        if text is None or sha256_hex(text) != name:
            return None
        try:
            return decode_chain(text)
        except WireError:
            return None


def _collect_terms(loaded: Loaded) -> ReplayConfiguration:
    """Return everything in a configuration that decides calls. Raises `ConfigurationError`."""
    every = build_all_settings(loaded, os.environ)
    merged = next((each for each in every if each.members), None)
    servers = {each.server: _terms(each) for each in every if each is not merged}
    tokens = every[0].tokens
    return ReplayConfiguration(
        gateway_id(loaded),
        policy_digest(loaded),
        servers,
        _terms(merged) if merged is not None else None,
        TokenTerms(tokens.required, {each.issuer for each in tokens.issuers}) if tokens is not None else TokenTerms(),
    )


def _terms(settings: GatewaySettings) -> ServerTerms:
    proofs, tokens = settings.proofs, settings.tokens
    policy = proofs.policy if proofs is not None and proofs.judged else None
    scopes: Mapping[str, str] = tokens.tool_scopes if tokens is not None else {}
    upstream = settings.upstream
    routes = upstream.routes if isinstance(upstream, ApiUpstream) and upstream.agent is None else None
    return ServerTerms(policy, settings.pins, scopes, routes.route_now if routes is not None else None)


def _members(found: _Found, names: Names, left: UnverifiedEntries) -> dict[str, object]:
    return {
        "otherwise": [
            {
                "server": change.server or None,
                "method": change.method,
                "target": change.target,
                "agent_id": change.agent_id or None,
                "agent_name": names.get(change.agent_id),
                "before": change.before,
                "now": change.now,
                "observed": change.observed,
                **structs.asdict(tally),
            }
            for change, tally in sorted(found.changes.items())
        ],
        "calls": structs.asdict(found.otherwise),
        "same": structs.asdict(found.same),
        "cant_tell": [
            {"reason": word, "text": OPEN[word], **structs.asdict(found.open[word].tally)}
            for word in OPEN
            if word in found.open
        ],
        "unverified": left._asdict(),
        "not_looked_at": _NOT_LOOKED_AT,
    }


def _lines(found: _Found, names: Names, left: UnverifiedEntries) -> Iterator[str]:
    if left.entries:
        yield unverified_note(left)
    if found.otherwise.calls:
        yield f"decided otherwise: {tally_text(found.otherwise)}"
    for change, tally in sorted(found.changes.items()):
        agent = escape_text(id_with_name(change.agent_id, names)) if change.agent_id else "nobody"
        server = f"{change.server}: " if change.server else ""
        what = f"{server}{shown_call(change.method, change.target)} by {agent}"
        before = f"{change.before}{' (only observed)' if change.observed else ''}"
        yield f"  {before} -> {change.now}: {what}: {tally_text(tally)}"
    told = sum(tally.calls for tally in found.changes.values())
    if told < found.otherwise.calls:
        yield f"  and more: {several(found.otherwise.calls - told, 'call')}"
    yield f"decided alike: {several(found.same.calls, 'call')}"
    for word in OPEN:
        if word in found.open:
            yield f"can't tell, as {OPEN[word]}: {tally_text(found.open[word].tally)}"
    yield f"not looked at: {', '.join(_NOT_LOOKED_AT)}"
