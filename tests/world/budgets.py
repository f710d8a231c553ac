"""Budgets of time for tests in which something has to happen before one ends. No I/O.

Whoever waits for the end of a budget wants it short; on a busy machine it may end before the test has come that far.
"""

BUDGETS = (0.3, 3.0, 30.0)
"""Seconds, to be tried in this order until the test has come that far; what holds at any speed holds in each try."""

NEVER_REACHED = "not even the largest budget was enough"
