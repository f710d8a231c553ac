"""The configuration: `accredit.toml`, the environment and the command line, parsed once into frozen values.

- `load` finds the configuration and validates it; `schema` and `values` say what may be in it.
- `build` checks it against this machine. Each part has a file of its own: `servers`, `proofs`, `tokens`, `attest` (and
  the gateway's identity), `store`, `pins`, `listen`, `monitoring` and others.
- `changes` compares two readings of it. `show` prints it, `named_files` lists the files that it names, and `digest` is
  what records name it by.

Every failure is an `accredit.errors.ConfigurationError`: one line for what is wrong, one for what to do.
"""
