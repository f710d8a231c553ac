"""Finds the configuration and validates it. Reads one file; the environment and the command line are arguments.

There are three sources. Each overrides the ones before it:

- the file: `--config`, else `$ACCREDIT_CONFIG`, else `./accredit.toml` if it exists. `./accredit.toml` is ignored if
  the command line names a server: somebody else may have put it into the current folder. The file is validated by
  itself and strictly: a broken file stops the start, even if something else overrides the broken part;
- the environment, `ACCREDIT_<SECTION>__<KEY>`: text, or JSON where a key holds several values;
- the command line. A URL or a command given there replaces the whole of `[upstream]`: headers with a secret that are
  meant for one server must not reach another. It replaces `[servers]` as well.

With `[servers]`, each server has these keys in its own table. So `[upstream]` and the catalog's sections must not be
set.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from accredit.base.standard import STDIN
from accredit.base.text import one_line
from accredit.base.toml import read_toml
from accredit.config.conversion import convert_tables
from accredit.config.problems import PREFIX, check_environment_name, problem
from accredit.config.schema import LISTED, SECTIONS, Config, Server
from accredit.config.section import files_in, tables_in
from accredit.config.values import WrongValue
from accredit.errors import ConfigurationError
from accredit.keys import read_file
from accredit.limits import MAX_POLICY_BYTES

DEFAULT_FILE = "accredit.toml"

_Key = tuple[str, str]
"""A section, and a key in it."""
OF_ONE = frozenset({"upstream", "tools", "resources", "prompts"})
"""The sections that are about a single server. `[servers.NAME]` holds them for each of several servers."""


class Origin(NamedTuple):
    """Where a value came from: the kind of source (file, environment, command line), and the file's path, the variable
    or the option."""

    kind: Literal["file", "environment", "command line"]
    name: str


Values = Mapping[_Key, tuple[Origin, object]]


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration that is valid by itself, and the origin of each key. A key without an origin has its default.

    `content` is the file's bytes. `server` is a name in `[servers]` if this is the view of that server
    (`servers.view`); it is "" for the whole configuration. `api` is that server's table if it is an HTTP API.
    """

    config: Config
    file: Path | None
    origins: Mapping[_Key, Origin]
    content: bytes = b""
    server: str = ""
    api: Server | None = None

    def place(self, section: str) -> str:
        """Return a section's name in the file. In the view of one server, that is `servers.NAME...`."""
        if not self.server:
            return section
        return f"servers.{self.server}" if section == "upstream" else f"servers.{self.server}.{section}"

    def beside(self, name: str) -> Path | None:
        """Return the path of a file beside the configuration's; None if there is no configuration file."""
        return None if self.file is None else self.file.parent / name

    def folder_of(self, key: _Key) -> Path:
        """Return the folder that a key's relative paths start from: the file's folder if the file sets the key, else
        the current one."""
        origin = self.origins.get(key)
        return self.file.parent if self.file and origin and origin.kind == "file" else Path.cwd()


def load(
    file: Path | None,
    environ: Mapping[str, str],
    command_line: Values,
    *,
    look_here: bool = True,
    content: bytes | None = None,
) -> Loaded:
    """Read and merge the three sources. Raises `ConfigurationError`.

    Without `look_here`, the current folder is not searched. `content` replaces the file's content, which is then not
    read.
    """
    if file == STDIN:  # what it names, and what is beside it, are in the current folder then
        file, content = Path("-"), read_file(STDIN, MAX_POLICY_BYTES).data
    file = _find(file, environ, look_here=look_here and not _names_a_server(command_line))
    content = content if content is not None else _content(file) if file else b""
    from_file: Values = _read(file, content) if file else {}
    return replace(_merge_sources(file, from_file, _from_environment(environ), command_line), content=content)


def _names_a_server(command_line: Values) -> bool:
    return any(section == "upstream" for section, _ in command_line)


def load_command_line(command_line: Values) -> Loaded:
    """Return the configuration from the command line alone, without a file or the environment. Raises
    `ConfigurationError`."""
    return _merge_sources(None, {}, {}, command_line)


def _merge_sources(file: Path | None, from_file: Values, from_environment: Values, command_line: Values) -> Loaded:
    if _names_a_server(command_line):
        from_file = {key: found for key, found in from_file.items() if key[0] not in ("upstream", "servers")}
        from_environment = {key: found for key, found in from_environment.items() if key[0] != "upstream"}
    joined = {**from_file, **from_environment, **command_line}
    origins = {key: origin for key, (origin, _) in joined.items()}
    tables: dict[str, dict[str, object]] = {}
    for (section, key), (_, value) in joined.items():
        tables.setdefault(section, {})[key] = value
    try:
        config = convert_tables(tables, strict=False)
    except WrongValue as error:
        raise problem(error, lambda section, key: origins[section, key].name) from None
    if config.servers.by_name:
        _check_several(origins)
    return Loaded(config, file, origins)


def _check_several(origins: Mapping[_Key, Origin]) -> None:
    """Refuse a section of a single server where `[servers]` is set. Raises `ConfigurationError`."""
    for (section, key), origin in origins.items():
        if section in OF_ONE:
            inside = f"[servers.NAME.{section}]" if section != "upstream" else "[servers.NAME]"
            raise ConfigurationError(
                f"{section}.{key} ({origin.name}) is for one server, and [servers] names several",
                f"move it to {inside}, or remove [servers]",
            )


def _find(file: Path | None, environ: Mapping[str, str], *, look_here: bool) -> Path | None:
    if file is None and environ.get("ACCREDIT_CONFIG"):
        file = Path(environ["ACCREDIT_CONFIG"])
    if file is None and look_here and os.path.lexists(DEFAULT_FILE):
        file = Path(DEFAULT_FILE)
    return file.absolute() if file else None


def _content(file: Path) -> bytes:
    try:
        return read_file(file, MAX_POLICY_BYTES).data
    except ConfigurationError as error:
        raise ConfigurationError(error.what, "name a readable file with --config or ACCREDIT_CONFIG") from None


def _read(file: Path, content: bytes) -> Values:
    shown = one_line(str(file))
    try:
        tables: dict[str, dict[str, object]] = read_toml(content)
    except ValueError as error:
        detail = one_line(str(error))
        raise ConfigurationError(f"{shown} is not TOML: {detail}", "correct that place in the file") from None
    try:
        for section in LISTED & tables.keys():
            tables[section] = _number_tables(section, tables[section])
        _anchor_paths(tables, convert_tables(tables, strict=True), file.parent)
    except WrongValue as error:
        raise problem(error, lambda _section, _key: shown) from None
    return {
        (section, key): (Origin("file", shown), value)
        for section, table in tables.items()
        for key, value in table.items()
    }


def _number_tables(section: str, listed: object) -> dict[str, object]:
    if not isinstance(listed, list):
        raise WrongValue((section,), "should be a list of tables")
    return {str(number): table for number, table in enumerate(cast("list[object]", listed))}


def _anchor_paths(tables: Mapping[str, object], config: Config, folder: Path) -> None:
    """Make each path in the file's tables absolute: a relative one starts from that file's folder. A path that is a
    part of a value, after a scheme, stays as it is."""
    for section in SECTIONS:
        for place, table in tables_in(getattr(config, section), (section,)):
            for (*above, last), name, use in files_in(table, place):
                if not use.scheme:
                    held: Any = tables
                    for step in above:
                        held = held[step]
                    held[last] = str(folder / name)


def _from_environment(environ: Mapping[str, str]) -> Values:
    """Read our environment variables. Names without a double underscore may belong to others (Kubernetes sets such
    names)."""
    return {
        check_environment_name(name): (Origin("environment", name), _several(text))
        for name, text in environ.items()
        if name.startswith(PREFIX) and "__" in name
    }


def _several(text: str) -> object:
    if text[:1] not in ("[", "{"):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text  # such as an IPv6 address in brackets; if a list is required, the schema refuses this
