"""`accredit replay`: finds recorded calls that another configuration would decide differently."""

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
    """Decides recorded calls by another configuration; exit code 1 if it would decide any differently.

    If the log lacks what a decision needs, the call is counted as undecided, with the reason: arguments, for example,
    are only digests unless recorded in full. Revocations, uses and the ages of challenges are ignored. Records that do
    not verify with the named keys, or the configuration's, are left out.

    Examples:

    accredit replay --config new.toml --since 7d

    accredit replay --config new.toml --json
    """
    from accredit.cli.actions.log_place import moment
    from accredit.cli.actions.replay import replay_log

    return replay_log(config, key or (), None if since is None else moment("--since", since), as_json=as_json)
