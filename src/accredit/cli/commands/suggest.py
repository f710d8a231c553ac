"""`accredit suggest`: the smallest catalog and grants that would have allowed recorded calls."""

# ruff: noqa: PLC0415 - what reads the log is loaded when it runs: `accredit --help` is quick without it

from accredit.cli.options import ConfigOption, JsonOption, KeysOption, SinceOption


def suggest(
    since: SinceOption = None, config: ConfigOption = None, key: KeysOption = None, as_json: JsonOption = False
) -> int:
    """Prints the tables and grants that would have allowed the recorded calls, and what stays refused.

    Tables are TOML for the configuration; grants are commands for the signer, with placeholders for key files. Each
    says which calls it would have allowed. Nothing unused is proposed, nor anything for calls that nobody signed, or
    that were refused. Records that do not verify with the named keys, or the configuration's, are
    left out. Read it before you apply it: it shows what agents did, not what they should do.

    Examples:

    accredit suggest --since 7d

    accredit suggest --config accredit.toml --json
    """
    from accredit.cli.actions.log_place import moment
    from accredit.cli.actions.suggest import suggest_from_log

    first = None if since is None else moment("--since", since)
    return suggest_from_log(config, key or (), first, as_json=as_json)
