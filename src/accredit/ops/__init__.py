"""Commands for whoever runs a gateway: its log, its configuration, its store, drills and diagnosis."""
