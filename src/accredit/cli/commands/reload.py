"""`accredit reload`: a gateway that runs reads its configuration again."""

# ruff: noqa: PLC0415 - what runs is loaded when it runs: `accredit --help` is quick without it

from accredit.cli.options import ConfigFileOption, JsonOption


def reload(config: ConfigFileOption = None, as_json: JsonOption = False) -> int:
    """Has the gateway that serves a configuration read it again, with all files that it names, and prints what changed.

    The new configuration is checked first. If anything is wrong with it the gateway goes on with what it has, the
    reason is printed, and the exit code is 1. Calls go on meanwhile, each by the configuration that it began with. The
    gateway is found by accredit.pid beside the configuration; SIGHUP has the same effect.

    Examples:

    accredit reload

    accredit reload --config /etc/accredit/accredit.toml
    """
    from accredit.cli.actions.reload import reload_gateway

    return reload_gateway(config, as_json=as_json)
