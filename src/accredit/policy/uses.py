"""Takes the uses of a call: of the certificates of its chain, and of quotas. Pure: it does no I/O, and yields its
questions (needs, in `decision`).

- [rate] A `max_rate` limits how many calls in its window of time may use the certificate.
- [consent] A certificate may be for a single call (`consent`). The call's first leg takes its use. Each later leg,
  which returns a sealed state, may be made once, whichever certificate it uses. So one consent covers all rounds of the
  call, but no round may be repeated, even with a second consent to the same call.
- [issuer] A limit is kept under the ids of both the issuer and the certificate. Delegators choose their certificates'
  ids freely: without the issuer's id, one could use up another's limit.
- [atomicity] A call takes its certificates' uses and its quotas at once: all of them, or none.
- [quota-once] The first time that a later leg of a call is made, it takes no quota, whoever makes it. Each repetition
  of that leg does. So a call counts once for all its rounds, and again for each repeated round.
"""

import hashlib
import math
from collections.abc import Generator, Iterator
from contextlib import suppress
from operator import itemgetter

from msgspec import Struct

from accredit.consent.call import this_call_only
from accredit.errors import SealError
from accredit.limits import MAX_STATE_SECONDS
from accredit.policy.decision import CountUses, FindRoom, Flow, FlowOf, Need, TakeUse
from accredit.policy.quotas import MAX_RATE_WINDOW_SECONDS, Quota, QuotaReached, Taken
from accredit.ports import RateLimit
from accredit.ratify import DelegationCert, ProofBundle
from accredit.ratify.constraints import MaxRate


class Uses(Struct):
    """The uses of one call's certificates. `count` must be run before the other methods."""

    _flow_of: FlowOf | None
    _flow: Flow | None = None
    _counted: dict[tuple[str, int], int] = {}

    def count(self, bundle: ProofBundle) -> Generator[Need, object, None]:
        """Ask how often each limited certificate was used. Raises `TypeError` for an invalid answer."""
        chain = bundle.delegations
        own = [cert for cert in chain if this_call_only(cert.constraints)] if self._flow_of is not None else []
        if self._flow_of is not None and own:
            with suppress(SealError):  # `take` raises it before anything is taken
                self._flow = self._flow_of(chain[-1].issuer_id, bundle.agent_id)
        for cert in own if self._flow is not None else ():
            rates = (each for each in cert.constraints if isinstance(each, MaxRate))
            self._counted |= {(cert.cert_id, rate.window_s): 0 for rate in rates}  # the first leg took that use
        for cert_id, limit in self._limits(bundle):
            if limit.window_s > MAX_RATE_WINDOW_SECONDS:
                continue  # no store counts that long: the constraint can't be verified
            used = yield CountUses(limit.cert_id, limit.window_s)
            if not isinstance(used, int):
                raise TypeError("the store gave no answer")
            self._counted[cert_id, limit.window_s] = used

    def of(self, cert_id: str, window_s: int) -> int:
        """Return how often a certificate was used, as `count` found it. Raises `KeyError` if that was not counted."""
        return self._counted[cert_id, window_s]

    def take(self, bundle: ProofBundle, quotas: Taken, now: int) -> Generator[Need, object, bool]:
        """Take one use of each limited certificate, and of quotas. Return False if one is used up; then none is taken.
        Raises `QuotaReached`, and `SealError` for a state that does not open."""
        limits = tuple(limit for _, limit in self._limits(bundle))
        flow = None
        if self._flow_of is not None and (limits or quotas):
            flow = self._flow_of(bundle.delegations[-1].issuer_id, bundle.agent_id)
        return (yield from take(limits, quotas, flow, now))

    def _limits(self, bundle: ProofBundle) -> Iterator[tuple[str, RateLimit]]:
        """Yield the limits of a chain, each with the id of its certificate."""
        leg = self._flow
        for cert in bundle.delegations:
            if self._flow is not None and this_call_only(cert.constraints):
                if leg is not None:
                    yield cert.cert_id, RateLimit(_digest(f"leg/{leg.name}/{leg.round}"), MAX_STATE_SECONDS, 1)
                leg = None  # once, for any number of certificates for this call
                continue
            for constraint in cert.constraints:
                if isinstance(constraint, MaxRate):
                    yield cert.cert_id, RateLimit(_counter_key(cert), constraint.window_s, constraint.count)


def take(uses: tuple[RateLimit, ...], quotas: Taken, flow: Flow | None, now: int) -> Generator[Need, object, bool]:
    """Take uses and quotas, all or none. Return False if a use is used up already. Raises `QuotaReached`.

    `flow` is set if this is a later leg of a call.
    """
    if quotas and flow is not None:
        leg = RateLimit(_digest(f"quota leg/{flow.name}/{flow.round}"), MAX_STATE_SECONDS, 1)
        if (yield TakeUse((*uses, leg))) is True:
            return True
    limits = (*uses, *(limit for _, limit in quotas))
    if not limits or (yield TakeUse(limits)) is True:
        return True
    waits: list[tuple[float, Quota]] = []
    for quota, limit in quotas:
        room_at = yield FindRoom(limit)
        if room_at is not None and not isinstance(room_at, int):
            raise TypeError("the store gave no answer")
        waits.append((math.inf if room_at is None else room_at - now, quota))
    wait, quota = max(waits, key=itemgetter(0), default=(0, None))
    if quota is None or (uses and wait <= 0):
        return False
    raise QuotaReached(quota, None if wait == math.inf else max(1, int(wait)))


def _counter_key(cert: DelegationCert) -> str:
    return _digest(f"{cert.issuer_id}/{cert.cert_id}")


def _digest(text: str) -> str:
    """Return the hash of a text, to be used as a key for counting: delegators may choose ids of any length."""
    return hashlib.sha256(text.encode()).hexdigest()
