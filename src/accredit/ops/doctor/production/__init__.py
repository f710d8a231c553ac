"""Implements `accredit doctor --production`: the checklist of docs/how-to/run-in-production.md.

`files`, `stored` and `running` gather `facts`: values, or the reasons why they are unknown. `configured` and
`environment` hold the checks, each a function of the facts alone. `checklist` runs them in order.

Changes nothing, prints no secret, runs no program, and contacts only the configured store and this machine's gateway.
"""
