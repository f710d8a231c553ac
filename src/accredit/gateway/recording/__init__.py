"""Records each call: its decision and its outcome, also for calls that end early or late."""
