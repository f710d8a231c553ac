"""Commands for the operator of a gateway: its log, its configuration, its store, drills and diagnosis."""
