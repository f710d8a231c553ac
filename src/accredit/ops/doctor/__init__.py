"""Implements `accredit doctor`: finds problems, and names the command that fixes each.

There is a file for each subject: `keys`, `setup` (the configuration and its store), `gateways` (and clocks), `desks`,
and `entries` (in hosts' files, and versions). `examine` runs their checks, which share the `surroundings`. `production`
is a separate checklist. Both use the same `engine`.

Changes nothing, prints no secret, runs no program that a file names, and contacts no server but gateways, for health.
"""
