"""Derives from recorded calls the smallest catalog and the fewest grants that would have let them pass. No I/O.

- [signature] Only a call with valid signatures leads to a suggestion: its agent is known, and its principal is still
  trusted. Calls that are unsigned, or have an invalid proof, lead to nothing.
- [allowed-calls] Of these, two kinds lead to a suggestion: calls that were allowed, and calls that passed because
  decisions were only observed, if they lacked nothing but authority (a scope, or an entry of the catalog). A call that
  was refused for lack of authority was only an attempt: it is reported, and leads to nothing. A call that was refused
  by a person's constraint, or for a reason other than authority (a token, a definition), stays refused.
- [existing-grant] If a call was allowed by the scope that its target still needs, it needs no new grant.
- [own-scope] A target in the catalog keeps its scope. For a tool that the catalog does not name, a table is suggested,
  with a scope for this tool alone (`catalog.own_scope`).
- [route] For a request to an HTTP API that matched no route, nothing can be suggested, as no record holds a path. It is
  only reported.
- [grant] A grant is from one principal to one agent, for one endpoint and one method. It names exactly these targets
  (by the constraint `dev.accredit.call`), so other targets with the same scope are not granted.
- [sensitive] Sensitive targets get a grant of their own, so that none becomes part of a standing grant unnoticed. If
  nobody signs that grant, an agent with a desk asks a person about each such call.
- [ambiguity] Where the log is incomplete or ambiguous, nothing is guessed: if a name was cut, if a server no longer
  exists, or if a name means one tool at a server's own endpoint and another at the merged one.
- [bounds] The number of targets is bounded, for each agent and in all. Calls beyond it are counted as refused.

A request about a task counts for the task's tool, so the grant for that tool covers it. Only verified records may be
added (`stores.audit_log.proven`). Not checked: whether the log is complete (`accredit log verify`), and whether past
calls should be allowed in future. A person reads the suggestion and decides.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from msgspec import Struct, field

from accredit.attest import CallRecord, RecordedAuthority
from accredit.consent.call import CallTerms
from accredit.limits import MAX_RECORDED_TARGET
from accredit.policy.agent_call import is_about_tasks
from accredit.policy.catalog import Catalog, Entry, own_scope, scope_fault
from accredit.policy.drill import is_drill
from accredit.policy.guarded_call import GUARDED
from accredit.policy.merging import member_of_target
from accredit.ratify import Extension

MAX_SUGGESTED_TARGETS = 10_000
"""The most pairs of agent and target that `accredit suggest` counts separately: 20 MB with the longest names."""
MAX_SUGGESTED_OF_AGENT = 500
"""The most such pairs of one agent. An agent can invent names, which must not use up the room of other agents, and
nobody reads more."""
MAX_GRANT_TARGETS = 64
"""The most targets in one suggested delegation: a certificate may have 128 scopes, and people are to read it."""
MAX_GRANT_TARGET_CHARS = 8_192
"""The most characters of the targets in one suggested delegation. A proof has at most 128 KiB, of which its keys take
10."""
MAX_TOLD_TARGETS = 20
"""How many targets are named for the calls that stay refused for one reason."""


_ID = re.compile(r"[0-9a-f]{32}")
_TOOLS = "tools/call"
UNKNOWN = frozenset({"unknown_tool", "unknown_resource", "unknown_prompt", "unknown_route"})
"""Error codes which say that the catalog does not name the target."""
UNSIGNED = frozenset({"missing_ratify_proof", "ratify_challenge_required"})
"""Error codes which say that no proof came."""

WHY = {
    "unsigned": "nobody signed them",
    "bad_proof": "their proof was not good: of nobody, for another call, stale, spent, expired or revoked",
    "no_root": "their principal is none whose delegations count here",
    "asked": "they were refused, and not only observed: whoever asks for something has not used it",
    "constraint": "a constraint of their delegation forbids them: whoever signed it decided that",
    "other": "they were refused for something else than authority",
    "uri": "their URI can be read as another one, with another scope",
    "route": "their path was of no route: the log holds no paths, so look for them in the log of the API itself",
    "cut": "the log holds the beginning of their name alone",
    "unwritable": "a configuration, or a grant, cannot hold their name",
    "no_server": "their server is not in the configuration",
    "endpoint": "their name means one tool here and another one at the merged endpoint: accredit check --fix helps",
    "too_many": "there are too many different targets",
    "gateway": "another gateway recorded them",
}
"""Why calls stay refused, by code for programs. `accredit suggest` prints these texts where shells may read them, so
they contain no quotes."""


class Deployment(NamedTuple):
    """The current configuration: the gateway's id; its catalogs by server name ("" for a single server); whether there
    is a merged endpoint as well; and the ids of the trusted principals (None: anybody is trusted)."""

    gateway: str
    catalogs: Mapping[str, Catalog]
    merged: bool = False
    roots: Collection[str] | None = None


class Tally(Struct):
    """A count of calls, with the times of the first and the last one (RFC 3339, UTC)."""

    calls: int = 0
    first: str = ""
    last: str = ""

    def add(self, at: str) -> None:
        """Count a call."""
        self.calls += 1
        self.first = min(self.first or at, at)
        self.last = max(self.last, at)

    def join(self, others: Iterable["Tally"]) -> "Tally":
        """Return this tally together with all of `others`."""
        every = [self, *others]
        first = min((each.first for each in every if each.first), default="")
        return Tally(sum(each.calls for each in every), first, max(each.last for each in every))


class Table(NamedTuple):
    """A table to add to the catalog for one tool: its server and scope, and the calls that it would have let pass."""

    server: str
    tool: str
    scope: str
    tally: Tally


class Grant(NamedTuple):
    """A delegation to sign. It grants `scopes` for the `targets` of one method at one endpoint (named by its verifier
    id). Its targets are all sensitive, or none is ([sensitive])."""

    principal_id: str
    agent_id: str
    gateway: str
    method: str
    scopes: tuple[str, ...]
    targets: Mapping[str, Tally]
    sensitive: bool = False

    @property
    def constraint(self) -> Extension:
        """The constraint that allows these targets and no others."""
        return CallTerms(gateway=self.gateway, method=self.method, target=tuple(self.targets)).constraint()

    @property
    def tally(self) -> Tally:
        """The count of the calls that the grant would have let pass."""
        return Tally().join(self.targets.values())


class RefusedCalls(Struct):
    """Calls that stay refused: their number, and their targets, up to a bound."""

    tally: Tally = field(default_factory=Tally)
    targets: dict[tuple[str, str], int] = {}

    def add(self, record: CallRecord) -> None:
        """Count a call."""
        self.tally.add(record.times.received)
        named = record.call.server or "", record.call.target or record.call.method
        if named in self.targets or len(self.targets) < MAX_TOLD_TARGETS:
            self.targets[named] = self.targets.get(named, 0) + 1


class Suggestion(NamedTuple):
    """The tables to add to the catalog, and the grants to sign. The counts: calls that are `allowed` already, calls
    about `tasks`, and calls that stay `refused`, by reason."""

    tables: list[Table]
    grants: list[Grant]
    allowed: Tally
    tasks: Tally
    refused: Mapping[str, RefusedCalls]


class _Used(NamedTuple):
    principal_id: str
    agent_id: str
    gateway: str
    method: str
    target: str


class _Common(NamedTuple):
    """The properties that the targets of one grant share."""

    principal_id: str
    agent_id: str
    gateway: str
    method: str
    sensitive: bool


class _Found(NamedTuple):
    """A target as it is configured now: the name that its server uses (`own`), at the endpoint with this verifier id,
    and its entry, or None."""

    server: str
    own: str
    gateway: str
    entry: Entry | None


class Suggester:
    """Reads records of decisions, in any order, one at a time; its memory is bounded ([bounds])."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._used: dict[_Used, tuple[_Found, Tally]] = {}
        self._used_by: dict[str, int] = {}
        self._allowed, self._tasks = Tally(), Tally()
        self._refused: dict[str, RefusedCalls] = {}

    def add(self, record: CallRecord) -> None:
        """Add one record of a decision. An outcome's record adds nothing."""
        if record.decision is None or (record.call.protocol is None and record.call.method not in GUARDED):
            return
        if is_drill(record.call.method, record.call.target):
            return  # a drill's grant is over
        why = self._why_not(record)
        if why:
            self._refused.setdefault(why, RefusedCalls()).add(record)

    def suggestion(self) -> Suggestion:
        """Return the suggestion from all records."""
        tables: dict[tuple[str, str], Table] = {}
        grants: dict[_Common, list[tuple[tuple[str, ...], str, Tally]]] = {}
        for used in sorted(self._used):
            found, tally = self._used[used]
            scope = own_scope(found.own, found.server)
            needed = found.entry.needed if found.entry is not None else (scope,)
            if found.entry is None:
                named = found.server, found.own
                so_far = tables[named].tally if named in tables else Tally()
                tables[named] = Table(*named, scope, so_far.join([tally]))
            is_sensitive = found.entry is not None and found.entry.sensitive
            grants.setdefault(_Common(*used[:4], is_sensitive), []).append((needed, used.target, tally))
        return Suggestion(
            [tables[name] for name in sorted(tables)],
            [grant for common in sorted(grants) for grant in _split(common, grants[common])],
            self._allowed,
            self._tasks,
            self._refused,
        )

    def _why_not(self, record: CallRecord) -> str:
        """Count a call. Return "" if it leads to a suggestion, else why it stays refused."""
        deployment, call, authority = self._deployment, record.call, record.authority
        if record.gateway != deployment.gateway:
            return "gateway"
        error = record.decision.error or "" if record.decision is not None else ""
        if error == "unknown_route":
            return "route"
        if authority is None:
            return _without_authority(record)
        if deployment.roots is not None and authority.principal_id not in deployment.roots:
            return "no_root"
        is_allowed = record.decision is not None and record.decision.verdict == "allow"
        if is_about_tasks(record):
            self._tasks.add(record.times.received)
            return ""
        if not is_allowed and error not in UNKNOWN and error != "ratify_scope_denied":
            return "constraint" if error.startswith("ratify_constraint_") else "other"
        if not is_allowed and not _was_observed(record):
            return "asked"
        found = self._found(call.server or "", call.method, call.target or "")
        return found if isinstance(found, str) else self._count(record, authority, found, is_allowed=is_allowed)

    def _count(self, record: CallRecord, authority: RecordedAuthority, found: _Found, *, is_allowed: bool) -> str:
        """Count a call whose target is known. Return "", or why the call stays refused."""
        call = record.call
        if is_allowed and found.entry is not None and found.entry.covered_by((authority.scope,)) is not None:
            self._allowed.add(record.times.received)
            return ""
        used = _Used(authority.principal_id, authority.agent_id, found.gateway, call.method, call.target or "")
        if not (_ID.fullmatch(used.principal_id) and _ID.fullmatch(used.agent_id)):
            return "unwritable"
        if used not in self._used:
            own = self._used_by.get(used.agent_id, 0)
            if own >= MAX_SUGGESTED_OF_AGENT or len(self._used) >= MAX_SUGGESTED_TARGETS:
                return "too_many"
            self._used_by[used.agent_id] = own + 1
            self._used[used] = found, Tally()
        self._used[used][1].add(record.times.received)
        return ""

    def _found(self, server: str, method: str, target: str) -> _Found | str:
        """Return a target as configured now, or why it is unknown."""
        deployment = self._deployment
        catalog = deployment.catalogs.get(server)
        if catalog is None:
            return "no_server"
        if (not target and target not in catalog.routes) or len(target) >= MAX_RECORDED_TARGET:
            return "cut" if target else "unwritable"
        own, gateway = target, f"{deployment.gateway}/{server}" if server else deployment.gateway
        member = member_of_target(method, target) if deployment.merged and not catalog.routes else None
        if member is not None and member.server == server:
            if method != "resources/read":
                is_own = method == _TOOLS and target in catalog.tools
                is_merged = method == _TOOLS and member.own in catalog.tools
                if is_own == is_merged:
                    return "endpoint"
                own, gateway = (target, gateway) if is_own else (member.own, deployment.gateway)
            else:
                own, gateway = member.own, deployment.gateway
        entry = catalog.find(method, own)
        if entry is not None:
            return _Found(server, own, gateway, entry)
        if method != _TOOLS:
            return "route" if catalog.routes else "uri"
        can_be_named = not any("\ud800" <= char <= "\udfff" for char in own)
        if not can_be_named or scope_fault(own_scope(own, server)) is not None:
            return "unwritable"
        return _Found(server, own, gateway, None)


def _was_observed(record: CallRecord) -> bool:
    """Return whether decisions were only observed when this call was decided, so that it was forwarded in any case."""
    return record.decision is not None and record.decision.enforced is False


def _without_authority(record: CallRecord) -> str:
    error = record.decision.error or "" if record.decision is not None else ""
    is_allowed = record.decision is not None and record.decision.verdict == "allow"
    if is_allowed or error in UNKNOWN | UNSIGNED:
        return "unsigned"
    return "bad_proof" if error.startswith("ratify_") else "other"


def _split(common: _Common, targets: Iterable[tuple[tuple[str, ...], str, Tally]]) -> Iterable[Grant]:
    """Yield the grants for one agent's uses, each short enough for a proof."""
    scopes: dict[str, None] = {}
    named: dict[str, Tally] = {}
    chars = 0
    for needed, target, tally in targets:
        if named and (len(named) >= MAX_GRANT_TARGETS or chars + len(target) > MAX_GRANT_TARGET_CHARS):
            yield Grant(*common[:4], tuple(sorted(scopes)), named, common.sensitive)
            scopes, named, chars = {}, {}, 0
        scopes |= dict.fromkeys(needed)
        named[target] = tally
        chars += len(target)
    if named:
        yield Grant(*common[:4], tuple(sorted(scopes)), named, common.sensitive)
