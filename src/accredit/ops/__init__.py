"""Looks after a gateway that runs: its log, its configuration, its store, drills and diagnosis."""
