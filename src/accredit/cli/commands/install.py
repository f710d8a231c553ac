"""`accredit install` and `uninstall`: entries in hosts' configuration files."""

# ruff: noqa: PLC0415 - what edits files is loaded when it runs: `accredit --help` is quick without it

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from accredit.cli.candidates import host_names, server_names
from accredit.cli.options import JsonOption
from accredit.cli.passphrases import PassphraseFileOption
from accredit.cli.standard import only_file
from accredit.errors import ConfigurationError

if TYPE_CHECKING:
    from accredit.cli.actions.install_wish import InstallOptions

_Host = Annotated[
    str | None, typer.Argument(metavar="HOST", autocompletion=host_names, help="Such as cursor; --list names all.")
]
_Name = Annotated[
    str | None, typer.Option("--name", metavar="N", help="What the entry is called.", show_default="the gateway's name")
]
_Project = Annotated[bool, typer.Option("--project", help="The current folder's file, not the user's.")]
_Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        callback=only_file("the host goes on with what it names"),
        help="The gateway's configuration; else the one that is found.",
    ),
]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be written, and write nothing.")]
_Yes = Annotated[bool, typer.Option("--yes", help="Don't ask first.")]


def install(
    host: _Host = None,
    name: _Name = None,
    url: Annotated[str | None, typer.Option("--url", metavar="URL", help="The gateway's endpoint.")] = None,
    config: _Config = None,
    server: Annotated[
        str | None,
        typer.Option("--server", metavar="NAME", autocompletion=server_names, help="One of the gateway's [servers]."),
    ] = None,
    adopt: Annotated[
        bool, typer.Option("--adopt", help="Put the host's own servers behind the gateway of --config.")
    ] = False,
    passphrase_file: PassphraseFileOption = None,
    project: _Project = False,
    dry_run: _DryRun = False,
    yes: _Yes = False,
    list_all: Annotated[bool, typer.Option("--list", help="Show the hosts, and what is installed in each.")] = False,
    as_json: JsonOption = False,
) -> int:
    """Puts `accredit connect` into a host's configuration, as a server that it starts.

    Only that entry changes; a backup of the file is kept beside it. The entry names the agent's key and delegation, if
    they are in `~/.config/accredit`; it holds no secret.

    With --adopt, the host's own servers are moved into the configuration, which is made if it doesn't exist, and the
    gateway stands between: at first it refuses nothing, but records everything. Credentials go into files that only
    you can read.

    Examples:

    accredit install --list

    accredit install cursor --url http://127.0.0.1:8484/mcp --name mail

    accredit install vscode --config accredit.toml --project --dry-run

    accredit install cursor --adopt --config ~/gateway/accredit.toml
    """
    from accredit.cli.actions.install import install_entry, list_hosts
    from accredit.cli.actions.install_wish import InstallOptions

    if list_all:
        if host is not None:
            raise ConfigurationError("--list is of all hosts", f"leave {host} out")
        return list_hosts(as_json=as_json)
    wish = InstallOptions(_require_host(host), name, project=project, dry_run=dry_run, yes=yes, as_json=as_json)
    if url is not None and config is not None:
        raise ConfigurationError("--url and --config are given", "keep the one that names your gateway")
    if adopt:
        return _adopt(wish, url, config, server, passphrase_file)
    if passphrase_file is not None:
        raise ConfigurationError("--passphrase-file is for --adopt, which signs", "leave it out")
    return install_entry(wish, url, config, server)


def _adopt(
    wish: "InstallOptions", url: str | None, config: Path | None, server: str | None, passphrase_file: Path | None
) -> int:
    if url is not None or server is not None:
        raise ConfigurationError("--adopt puts servers into a configuration", "name that alone: --config FILE")
    if config is None:
        raise ConfigurationError(
            "--adopt: no configuration is named", "name a file, which is made if it is not there: --config FILE"
        )
    from accredit.cli.actions.adopt import adopt_servers
    from accredit.cli.actions.own_keys import Passphrases

    return adopt_servers(wish, config, Passphrases(passphrase_file))


def uninstall(
    host: Annotated[str, typer.Argument(metavar="HOST", autocompletion=host_names, help="Such as cursor.")],
    name: Annotated[
        str | None, typer.Option("--name", metavar="N", help="The entry; else the only one of accredit.")
    ] = None,
    project: _Project = False,
    restore: Annotated[
        bool, typer.Option("--restore", help="Put the whole file back as it was before the entry.")
    ] = False,
    dry_run: _DryRun = False,
    yes: _Yes = False,
    as_json: JsonOption = False,
) -> int:
    """Removes an entry of `accredit install` from a host's configuration.

    The rest of the file stays; a file that was made for the entry is deleted. With --restore, the whole file is
    restored as it was before, and later changes by others are lost.

    Examples:

    accredit uninstall cursor

    accredit uninstall vscode --name mail --project --yes
    """
    from accredit.cli.actions.install import uninstall_entry
    from accredit.cli.actions.install_wish import InstallOptions

    wish = InstallOptions(_require_host(host), name, project=project, dry_run=dry_run, yes=yes, as_json=as_json)
    return uninstall_entry(wish, restore=restore)


def _require_host(host: str | None) -> str:
    if host is None:
        raise ConfigurationError("no host is named", "accredit install --list shows which there are")
    return host
