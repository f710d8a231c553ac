"""The person's earlier decisions, as far as the journal proves them. No I/O.

- [signature] Any program of the same user can write the journal's file. An entry of an allowed call holds the
  certificate, and counts only if this person's key has signed that certificate. It then counts for the agent, the
  gateway and the call that the certificate names, whatever the entry itself says.
- [digests] An entry holds only digests of the arguments. They are enough to find out that a value was never allowed
  before. The certificate's id is derived from these digests (`id_for`), so the signature covers them, too. Digests that
  do not fit the id are ignored.
- [denials] Entries of denials and of used ids are unsigned, but believed. By adding some, a program can prevent a call
  from being asked for; by removing some, it can have the call asked for again. A program could do both even without a
  journal.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from accredit.base.values import members_of
from accredit.canonical import canonical
from accredit.consent.asks import Ask, read_code
from accredit.consent.call import CALL, CallTerms
from accredit.errors import AskError, WireError
from accredit.limits import CLOCK_LEAD_SECONDS
from accredit.ratify import DelegationCert, Extension, Grant, HybridPublicKey
from accredit.ratify.verify import certificate_fault

Entry = Mapping[str, Any]
DECIDED = ("allowed", "denied")
"""The events that decide an ask."""
_TAG = b"accredit/journal/v1\0"
_ID_CHARS = 32


class PastDecisions:
    """The facts that journal entries prove about agents, gateways and calls. `add` takes further entries."""

    def __init__(self, entries: Iterable[Entry] = (), person: HybridPublicKey | None = None) -> None:
        """`person` is the key that verifies entries of allowed calls. Without it, these are all ignored."""
        self._person = person
        self._met: dict[tuple[str, str], int] = {}
        self._calls: set[tuple[str, ...]] = set()
        self._used: dict[str, int] = {}
        self._denied: dict[tuple[str, ...], int] = {}
        self._certs: set[str] = set()
        self.signed: list[Entry] = []
        """Allowed calls, by their certificates, oldest first."""
        self.unsigned = 0
        """How many entries of allowed calls were ignored, as they lack this person's signature."""
        for entry in entries:
            self.add(entry)

    def add(self, entry: Entry) -> None:
        """Add an entry; one that lacks members is ignored."""
        at, event, ask_id = entry["at"], entry["event"], entry.get("id")
        if event in DECIDED and isinstance(ask_id, str):
            self._used[ask_id] = at
        if event == "denied":
            self._denied[(*_call_key(entry), str(entry.get("params_sha256")))] = at
        if event != "allowed":
            return
        signed = _read_certificate(entry, self._person)
        if signed is None:
            self.unsigned += 1
        elif signed["cert"] not in self._certs:
            self._add_signed(signed)

    def _add_signed(self, signed: Entry) -> None:
        call, at = _call_key(signed), signed["at"]
        self._certs.add(signed["cert"])
        self.signed.append(signed)
        self._met[(call[0], call[1])] = min(at, self._met.get((call[0], call[1]), at))
        self._calls.add(call)
        for name, digest in signed["values"].items():
            self._calls.add((*call, name, digest))

    def used_ids(self, since: int) -> list[str]:
        """Return the ids of asks decided since this time."""
        return [ask_id for ask_id, at in self._used.items() if at >= since]

    def denied(self, since: int) -> list[tuple[tuple[str, ...], int]]:
        """Return the calls denied since this time (`Ask.same_call`), with the times of the denials."""
        return [(call, at) for call, at in self._denied.items() if at >= since]

    def has_given(self, cert_id: str) -> bool:
        """Return whether a certificate was given out before."""
        return cert_id in self._certs

    def is_new(self, ask: Ask) -> bool:
        """Return whether nothing was ever allowed to this agent at this gateway."""
        return (ask.agent_id, ask.gateway.id) not in self._met

    def met_at(self, ask: Ask) -> int | None:
        """Return when the first call was allowed to this agent at this gateway."""
        return self._met.get((ask.agent_id, ask.gateway.id))

    def is_first(self, ask: Ask) -> bool:
        """Return whether no call of this method and target was ever allowed to this agent."""
        return _call(ask) not in self._calls

    def targets(self, gateway: str) -> list[str]:
        """Return the targets (tool names) allowed at a gateway before."""
        return sorted({call[3] for call in self._calls if call[1] == gateway})

    def first_values(self, ask: Ask, names: Iterable[str]) -> list[str]:
        """Return those of the named arguments whose value was never allowed before in such a call."""
        found = values_of(ask)
        return [name for name in names if name in found and (*_call(ask), name, found[name]) not in self._calls]


def values_of(ask: Ask) -> dict[str, str]:
    """Return the digests of those arguments that are scalar values, by name. Objects and arrays are left out."""
    members = members_of(ask.params.get("arguments"))
    scalars = {name: value for name, value in members.items() if not isinstance(value, dict | list)}
    return {name: hashlib.sha256(canonical(value)).hexdigest() for name, value in scalars.items()}


def id_for(ask: str, values: Mapping[str, str], grant: Grant | DelegationCert) -> str:
    """Return the id of a certificate: 32 hex characters, which depend on the ask, the values and the terms. `ask` is
    the digest of its ask, `values` are the digests of that ask's values."""
    subject = grant.subject_pub_key if isinstance(grant, DelegationCert) else grant.subject
    terms = [each.members() for each in grant.constraints]
    named = [ask, dict(values), subject.id, list(grant.scope), grant.issued_at, grant.expires_at, terms]
    return hashlib.sha256(_TAG + canonical(named)).hexdigest()[:_ID_CHARS]


def _read_certificate(entry: Entry, person: HybridPublicKey | None) -> Entry | None:
    """Return an entry with the content that its certificate states ([signature] and [digests]). Return None if this
    person's key has not signed the certificate."""
    certificate: object = entry.get("certificate")
    if person is None or not isinstance(certificate, dict):
        return None
    try:
        cert = DelegationCert.decode(json.dumps(certificate, ensure_ascii=False).encode("utf-8", "surrogatepass"))
        terms = [CallTerms.read(each) for each in cert.constraints if isinstance(each, Extension) and each.name == CALL]
    except (WireError, ValueError, RecursionError):
        return None
    if cert.issuer_pub_key != person or len(terms) != 1 or certificate_fault([cert], 0) is not None:
        return None
    (call,) = terms
    return {
        "at": cert.issued_at + CLOCK_LEAD_SECONDS,
        "code": _code(entry.get("code")),
        "agent": cert.subject_id,
        "gateway": call.gateway,
        "method": call.method,
        "target": call.target[0],
        "cert": cert.cert_id,
        "scope": list(cert.scope),
        "ends_at": cert.expires_at,
        "constraints": [each.members() for each in cert.constraints],
        "values": _values(entry, cert),
    }


def _values(entry: Entry, cert: DelegationCert) -> Mapping[str, str]:
    """Return the entry's digests of values, if the certificate's id is derived from them; otherwise an empty
    mapping."""
    ask = entry.get("ask")
    digests = {name: digest for name, digest in members_of(entry.get("values")).items() if isinstance(digest, str)}
    try:
        is_signed = isinstance(ask, str) and id_for(ask, digests, cert) == cert.cert_id
    except ValueError:
        return {}
    return digests if is_signed else {}


def _code(told: object) -> str:
    try:
        return read_code(told) if isinstance(told, str) else ""
    except AskError:
        return ""


def _call_key(entry: Entry) -> tuple[str, ...]:
    return tuple(str(entry.get(name)) for name in ("agent", "gateway", "method", "target"))


def _call(ask: Ask) -> tuple[str, ...]:
    return (ask.agent_id, ask.gateway.id, ask.method, ask.target)
