"""What `accredit init` and `accredit check` run.

`asking` asks a server for its tools · `suggesting` what scope a tool should need · `toml` the file that says so ·
`writing` writes it, and the gateway's key · `checking` holds a list of tools against a catalog.
"""
