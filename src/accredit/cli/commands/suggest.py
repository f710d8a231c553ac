"""`accredit suggest`: the least catalog and grants that would have let recorded calls pass."""

# ruff: noqa: PLC0415 - what reads the log is loaded when it runs: `accredit --help` is quick without it

from accredit.cli.options import ConfigOption, JsonOption, KeysOption, SinceOption


def suggest(
    since: SinceOption = None, config: ConfigOption = None, key: KeysOption = None, as_json: JsonOption = False
) -> int:
    """Prints the tables and grants that would have let the recorded calls pass, and what stays refused.

    The tables are TOML for the configuration, the grants commands for whoever signs; the names of key files are
    placeholders. Each says what it would have let pass. Nothing is proposed that was not used, nor for calls that
    nobody signed, or that were refused. Records that do not verify are left out: the keys that count are those that are
    named, or the configuration's own. Read it before you apply it: it says what agents did, not what they should do.

    Examples:

    accredit suggest --since 7d

    accredit suggest --config accredit.toml --json
    """
    from accredit.cli.actions.log_place import moment
    from accredit.cli.actions.suggest import suggest_from_log

    first = None if since is None else moment("--since", since)
    return suggest_from_log(config, key or (), first, as_json=as_json)
