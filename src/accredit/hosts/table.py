"""The hosts: where their files are, and how they write an entry. Checks whether files exist.

A call that waits for a person must end before the host's own timeout. `hold` is how long `accredit connect` lets such a
call wait. If an entry can set the host's timeout, it is set to at least ten seconds more.
"""

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, cast

from accredit.errors import ConfigurationError
from accredit.hosts import jsonc, toml_text, yaml_text
from accredit.keys.places import home_folder

Entry = dict[str, Any]
"""A server's entry, in the host's format."""

KEPT = frozenset(
    {
        "disabled", "enabled", "alwaysLoad", "autoApprove", "alwaysAllow", "trust", "description", "display_name",
        "includeTools", "excludeTools", "disabledTools", "enabledTools", "enabled_tools", "disabled_tools",
        "available_tools", "bundled", "startup_timeout_sec", "tool_timeout_sec", "timeout", "initTimeout",
        "connectionTimeout", "gallery", "version",
    }
)  # fmt: skip
"""Members that concern only the host, not how the server is reached."""


class _Form(Protocol):
    """A file format: parses a text, and edits an entry in it, as `jsonc` says of each. All raise
    `ConfigurationError`."""

    def parse(self, text: str) -> object: ...
    def put(self, text: str, path: Sequence[str], value: Mapping[str, object]) -> str: ...
    def put_every(self, text: str, table: str, entries: Mapping[str, Mapping[str, object]]) -> str: ...
    def written(self, text: str, path: Sequence[str]) -> str: ...
    def put_written(self, text: str, path: Sequence[str], raw: str) -> str: ...
    def drop(self, text: str, path: Sequence[str]) -> str: ...


class Places:
    """A user's folders for hosts' files, on a system (`sys.platform`)."""

    def __init__(self, environ: Mapping[str, str], platform: str = sys.platform) -> None:
        self.environ = environ
        self.home = home_folder(environ)
        self.config = self.variable("XDG_CONFIG_HOME") or self.home / ".config"
        self.library = self.home / "Library/Application Support" if platform == "darwin" else self.config

    def variable(self, name: str) -> Path | None:
        """Return the absolute path in a variable, or None."""
        path = Path(self.environ.get(name) or ".")
        return path if path.is_absolute() else None


@dataclass(frozen=True)
class Host:
    """A host: its user-wide file, its project file (relative to the project), the member of the file that holds the
    servers (`table`), how long a call may wait for a person (`hold`, in seconds), and further members of an entry
    (`more`). `places` returns the files that some versions of the host read instead, if their folders exist. `variable`
    is the environment variable that names the file."""

    name: str
    file: Callable[[Places], Path]
    table: str
    hold: int
    project: str | None = None
    form: ModuleType = jsonc
    listed: bool = False
    command: str = "command"
    more: Callable[[str], Entry] = lambda name: {}
    places: Callable[[Places], list[Path]] = lambda places: []
    variable: str = ""

    def other_files(self, places: Places, file: Path) -> list[Path]:
        """Return the files, besides this one, that a version of the host may read in its place."""
        return [each for each in self.places(places) if each != file]

    @property
    def text(self) -> _Form:
        """The file's format."""
        return cast(_Form, _Listed() if self.listed else self.form)

    def entry(self, name: str, words: Sequence[str]) -> Entry:
        """Return the entry for a command."""
        first = {"name": name} if self.listed else {}
        return {**first, self.command: words[0], "args": list(words[1:]), **self.more(name)}

    def words(self, entry: object) -> list[str]:
        """Return the words of an entry's command; an empty list if it has none."""
        found = cast(dict[str, object], entry) if isinstance(entry, dict) else {}
        first, rest = found.get(self.command), found.get("args")
        words = [first, *(cast(list[object], rest) if isinstance(rest, list) else [])]
        return [each for each in words if isinstance(each, str)] if isinstance(first, str) else []


def plain(value: object) -> object:
    """Convert a parsed value to JSON data: replace spelled numbers and YAML's scalars by their values. Values without a
    JSON form stay as they are."""
    if isinstance(value, jsonc.Number):
        return _number(value.text)
    if isinstance(value, tuple):
        return yaml_text.scalar(cast("tuple[str, str]", value))
    if isinstance(value, list):
        return [plain(each) for each in cast("list[object]", value)]
    if isinstance(value, dict):
        return {str(name): plain(each) for name, each in cast("dict[object, object]", value).items()}
    return value


def _number(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:  # thousands of digits
        return text


class _Listed:
    """The format of a YAML text whose entries are a list."""

    parse = staticmethod(yaml_text.parse)

    def put(self, text: str, path: Sequence[str], value: Mapping[str, object]) -> str:
        return yaml_text.put(text or _CONTINUE, path, value, listed=True)

    put_every = staticmethod(partial(yaml_text.put_every, listed=True))
    written = staticmethod(partial(yaml_text.written, listed=True))
    put_written = staticmethod(partial(yaml_text.put_written, listed=True))
    drop = staticmethod(partial(yaml_text.drop, listed=True))


_CONTINUE = "name: Local Config\nversion: 1.0.0\nschema: v1\n"
"""What Continue requires in a file besides the servers."""


def _claude_code(places: Places) -> Path:
    return (places.variable("CLAUDE_CONFIG_DIR") or places.home) / ".claude.json"


def _codex(places: Places) -> Path:
    return (places.variable("CODEX_HOME") or places.home / ".codex") / "config.toml"


_CLINE_FILE = "settings/cline_mcp_settings.json"
_EDITORS = ("Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf")


def _cline_folders(places: Places) -> list[Path]:
    """Return where versions of Cline keep their data: in a folder of its own, or in that of the editor."""
    beside = [places.library / each / "User/globalStorage/saoudrizwan.claude-dev" for each in _EDITORS]
    return [places.home / ".cline/data", *beside]


def _cline(places: Places) -> Path:
    named, folders = places.variable("CLINE_MCP_SETTINGS_PATH"), _cline_folders(places)
    files = [each / _CLINE_FILE for each in folders]
    there = [each for each in files if each.exists()]
    used = [file for file, folder in zip(files, folders, strict=True) if folder.is_dir()]
    return named or next(iter([*there, *used]), files[1])


def _other_cline_files(places: Places) -> list[Path]:
    named = places.variable("CLINE_MCP_SETTINGS_PATH") is not None
    return [] if named else [each / _CLINE_FILE for each in _cline_folders(places) if each.is_dir()]


def _lm_studio(places: Places) -> Path:
    now, before = places.home / ".lmstudio", places.home / ".cache/lm-studio"
    return (before if before.is_dir() and not now.is_dir() else now) / "mcp.json"


_EVERY = (
    Host("claude-desktop", lambda at: at.library / "Claude/claude_desktop_config.json", "mcpServers", 50),
    Host(
        "claude-code", _claude_code, "mcpServers", 290, ".mcp.json",
        more=lambda name: {"type": "stdio", "timeout": 300_000},
    ),
    Host("cursor", lambda at: at.home / ".cursor/mcp.json", "mcpServers", 240, ".cursor/mcp.json"),
    Host(
        "vscode", lambda at: at.library / "Code/User/mcp.json", "servers", 240, ".vscode/mcp.json",
        more=lambda name: {"type": "stdio"},
    ),
    Host("windsurf", lambda at: at.home / ".codeium/windsurf/mcp_config.json", "mcpServers", 50),
    Host(
        "zed", lambda at: at.config / "zed/settings.json", "context_servers", 50,
        more=lambda name: {"source": "custom"},
    ),
    Host(
        "gemini", lambda at: at.home / ".gemini/settings.json", "mcpServers", 290,
        more=lambda name: {"timeout": 300_000},
    ),
    Host("codex", _codex, "mcp_servers", 280, form=toml_text, more=lambda name: {"tool_timeout_sec": 300}),
    Host(
        "goose", lambda at: at.config / "goose/config.yaml", "extensions", 290, form=yaml_text, command="cmd",
        more=lambda name: {"type": "stdio", "enabled": True, "name": name, "timeout": 300},
    ),
    Host(
        "cline", _cline, "mcpServers", 50,
        more=lambda name: {"timeout": 60}, places=_other_cline_files, variable="CLINE_MCP_SETTINGS_PATH",
    ),
    Host("lm-studio", _lm_studio, "mcpServers", 50),
    Host("continue", lambda at: at.home / ".continue/config.yaml", "mcpServers", 50, form=yaml_text, listed=True),
)  # fmt: skip
HOSTS = {host.name: host for host in _EVERY}


def find_host(name: str) -> Host:
    """Return the host of a name. Raises `ConfigurationError`."""
    if name not in HOSTS:
        raise ConfigurationError(f"no host is called {name!a}", f"name one of {', '.join(HOSTS)}")
    return HOSTS[name]


def project_file(host: Host, folder: Path) -> Path:
    """Return the host's file for the project in a folder. Raises `ConfigurationError` if the host has none, or if a
    link leads out of the folder: somebody else may have made it."""
    if host.project is None:
        have = ", ".join(each.name for each in HOSTS.values() if each.project)
        raise ConfigurationError(f"{host.name} has no file for a project", f"leave --project out; {have} have one")
    file = folder / host.project
    if not Path(os.path.realpath(file)).is_relative_to(os.path.realpath(folder)):
        raise ConfigurationError(f"{file} leads out of the project's folder", "remove that link, or edit it by hand")
    return file
