"""Implements `accredit doctor`: finds problems, and names the command that fixes each.

A file for each subject: `keys`, `setup` (the configuration and its store), `gateways` (and clocks), `desks`, `entries`
(in hosts' files) and `versions`. `examine` runs them over the shared `surroundings`, in the `engine` that `production`
has, too.

Changes nothing, prints no secret, runs no program that a file names, and contacts no server but gateways, for health.
"""
