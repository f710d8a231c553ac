"""`accredit reload`: makes a running gateway read its configuration again."""

# ruff: noqa: PLC0415 - what runs is loaded when it runs: `accredit --help` is quick without it

from accredit.cli.options import ConfigFileOption, JsonOption


def reload(config: ConfigFileOption = None, as_json: JsonOption = False) -> int:
    """Makes the gateway that serves a configuration read it again, with all files that it names, and prints what
    changed.

    The new configuration is checked first. If anything is wrong, the gateway keeps the old one, the reason is printed,
    and the exit code is 1. Calls in progress finish under the configuration that they began with. The gateway is found
    by accredit.pid beside the configuration; SIGHUP has the same effect.

    Examples:

    accredit reload

    accredit reload --config /etc/accredit/accredit.toml
    """
    from accredit.cli.actions.reload import reload_gateway

    return reload_gateway(config, as_json=as_json)
