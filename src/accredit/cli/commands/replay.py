"""`accredit replay`: which recorded calls another configuration would decide otherwise."""

# ruff: noqa: PLC0415 - what reads the log is loaded when it runs: `accredit --help` is quick without it

from pathlib import Path
from typing import Annotated

import typer

from accredit.cli.options import JsonOption, KeysOption, SinceOption
from accredit.cli.standard import only_file

_ConfigOption = Annotated[
    Path,
    typer.Option(
        "--config",
        metavar="NEW.toml",
        callback=only_file("files beside the configuration are read as well"),
        help="The configuration to decide by; its store has the log.",
    ),
]


def replay(
    config: _ConfigOption, since: SinceOption = None, key: KeysOption = None, as_json: JsonOption = False
) -> int:
    """Decides recorded calls by another configuration; exit code 1 if it would decide any otherwise.

    What the log does not hold is not guessed: it says of how many calls it can't tell, and why. Arguments, for example,
    are digests there, unless they are recorded in full. Revocations, uses and the ages of challenges are not looked at.
    Records that do not verify are left out: the keys that count are those that are named, or the configuration's own.

    Examples:

    accredit replay --config new.toml --since 7d

    accredit replay --config new.toml --json
    """
    from accredit.cli.actions.log_place import moment
    from accredit.cli.actions.replay import replay_log

    return replay_log(config, key or (), None if since is None else moment("--since", since), as_json=as_json)
