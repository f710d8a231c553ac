"""What `accredit init` and `accredit check` run.

`knocking` looks at a URL · `asking` asks a server what it offers, as the hosts of `hosts`, through `in_process` or of
`objects` · `listing` reads what it lists, `overheard` what it writes to stderr · `suggesting` what scope a tool should
need · `toml` the file that says so · `writing` writes it, and the gateway's key · `checking` holds a list of tools
against a catalog · `fixing` adds what that lacks.
"""
