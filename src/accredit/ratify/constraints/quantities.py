"""Constraints on how much: speed, amount of money, number of uses (Ratify section 7). No I/O."""

from accredit.ratify.constraints.base import BuiltIn, Outcome, denial, unverifiable
from accredit.ratify.facts import VerifierContext, finite


class MaxSpeed(BuiltIn, frozen=True, tag="max_speed_mps"):
    """At most `max_mps` metres per second."""

    max_mps: float

    def judge(self, facts: VerifierContext, _cert_id: str, _now: int, /) -> Outcome | None:
        """Compare the speed with the bound. A speed equal to the bound passes."""
        speed = finite(facts.current_speed_mps)
        if speed is None:
            return unverifiable("no current speed in context")
        if not speed <= self.max_mps:
            return denial(f"speed {speed:.2f}mps exceeds max {self.max_mps:.2f}mps")
        return None


class MaxAmount(BuiltIn, frozen=True, tag="max_amount"):
    """At most `max_amount` of exactly this currency in one call."""

    currency: str
    max_amount: float

    def judge(self, facts: VerifierContext, _cert_id: str, _now: int, /) -> Outcome | None:
        """Compare the currency byte for byte, then the amount with the bound. An amount equal to the bound passes."""
        amount, currency = finite(facts.requested_amount), facts.requested_currency
        if amount is None or currency is None:
            return unverifiable("no requested amount in context")
        if currency != self.currency:
            return denial(f'currency mismatch: requested "{currency}", constraint "{self.currency}"')
        if not amount <= self.max_amount:
            return denial(f"amount {amount:.2f} {currency} exceeds max {self.max_amount:.2f} {currency}")
        return None


class MaxRate(BuiltIn, frozen=True, tag="max_rate"):
    """At most `count` uses of the certificate in `window_s` seconds."""

    count: int
    window_s: int

    def judge(self, facts: VerifierContext, cert_id: str, _now: int, /) -> Outcome | None:
        """Compare the uses with the limit. The caller must make sure that counting and using are one step: otherwise
        two concurrent calls may both see the same count."""
        if facts.invocations_in_window is None:
            return unverifiable("no rate counter in context")
        if self.count <= 0 or self.window_s <= 0:
            return denial("malformed max_rate: count and window_s must be positive")
        try:
            used = finite(facts.invocations_in_window(cert_id, self.window_s))
        except Exception:  # a counter that fails counts as unknown
            used = None
        if used is None:
            return unverifiable("the rate counter failed")
        if not used < self.count:
            return denial(f"rate limit exceeded: {used} invocations in last {self.window_s}s (max {self.count})")
        return None
