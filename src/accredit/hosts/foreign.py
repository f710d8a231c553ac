"""Reads the host's own servers from its file: how each is reached, with which variables and headers. No I/O.

- Entries of `accredit`, and servers that are part of the host itself, are skipped.
- An entry is understood as a whole or not at all: an unknown member might be needed by its server.
- A text is split into literal parts, variables that the host expands, and possible credentials (`credentials`). Some
  variables are not from the environment, such as the workspace folder: they are expanded if known; else the entry is
  not understood.
- `accredit connect` doesn't speak HTTP+SSE (2024-11-05). An entry that may mean such a server is left alone.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, cast
from urllib.parse import urlsplit

from accredit.base.text import excerpt, is_utf8
from accredit.hosts.credentials import header_is_plain, secret_parts, url_holds_secret, variable_is_plain
from accredit.hosts.drift import is_own
from accredit.hosts.edit import meaning, named_entries
from accredit.hosts.table import KEPT, Entry, Host, plain


class Variable(NamedTuple):
    """A variable whose value is not in the file: it is in the environment, or the host asks the user for it
    (`asked`)."""

    name: str
    asked: bool = False


class Credential(NamedTuple):
    """A text that may be a credential."""

    text: str


Text = tuple[str | Variable | Credential, ...]
"""A text, split into parts."""


class Command(NamedTuple):
    """A server that is a program, with its variables, and the folder that it runs in."""

    words: tuple[Text, ...]
    env: Mapping[str, Text]
    cwd: str


class Remote(NamedTuple):
    """A server behind a URL. `holds_secret` says that the URL may contain a credential."""

    url: str
    headers: Mapping[str, Text]
    holds_secret: bool


class Own(NamedTuple):
    """A server of the host's own: its name, how it is reached, and members that only concern the host (`KEPT`)."""

    name: str
    server: Command | Remote
    kept: Entry


class SkippedEntry(NamedTuple):
    """An entry that is left alone: why, and what the user can do about it."""

    name: str
    why: str
    remedy: str


class Folders(NamedTuple):
    """The user's home folder, and the folder of the project. The latter is None if the file is user-wide."""

    home: Path
    project: Path | None


class _NotUnderstood(Exception):
    def __init__(self, why: str, remedy: str = "") -> None:
        super().__init__(why)
        self.why = why
        self.remedy = remedy or "it stays as it was; `accredit add` puts a server into the configuration by hand"


_NAMES = {
    "env": ("env", "envs"),
    "url": ("url", "httpUrl", "serverUrl", "uri"),
    "headers": ("headers", "http_headers"),
    "kind": ("type", "transport"),
}
_ELSEWHERE = frozenset({"name", "source", "args", "cwd", "env_vars", "env_keys", "bearer_token_env_var"})
_STREAMABLE = frozenset({"http", "streamable-http", "streamableHttp", "streamable_http", "streamable"})
_PART_OF_HOST = frozenset({"builtin", "platform", "frontend", "sdk"})
_SSE_BY_DEFAULT = {"gemini": "url", "cline": "url"}
"""For some hosts, the member whose URL means HTTP+SSE unless the entry says otherwise."""
_VARIABLE = re.compile(
    r"\$\{\{\s*secrets\.(?P<kept>\w+)\s*\}\}|\$\{input:(?P<input>[^}]+)\}"
    r"|\$\{(?:env:)?(?P<name>[A-Za-z_]\w*|/)\}|(?P<other>\$\{)",
    re.ASCII,
)
_SCHEME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+ +")
_BARE = re.compile(r"\$([A-Za-z_]\w*)", re.ASCII)
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9]+")


def own_servers(host: Host, data: bytes, folders: Folders) -> list[Own | SkippedEntry]:
    """Return the host's own servers, in their order. Raises `ConfigurationError` for a file that can't be read."""
    entries = named_entries(host, data)
    often = Counter(name for name, _ in entries)
    found = [_read(host, name, entry, folders, often[name]) for name, entry in entries]
    return [*(each for each in found if each is not None), *_of_projects(host, data)]


def _of_projects(host: Host, data: bytes) -> Iterator[SkippedEntry]:
    """Yield a note on servers that Claude Code keeps in the same file for single projects."""
    tree = plain(meaning(host, data)) if host.name == "claude-code" else None
    projects = cast("dict[str, object]", tree).get("projects") if isinstance(tree, dict) else None
    every = cast("dict[str, object]", projects).values() if isinstance(projects, dict) else ()
    tables = [cast("dict[str, object]", each).get(host.table) for each in every if isinstance(each, dict)]
    count = sum(len(cast("dict[str, object]", each)) for each in tables if isinstance(each, dict))
    if count:
        why = "Claude Code keeps them for single projects (`claude mcp add` without --scope)"
        yield SkippedEntry(f"{count} servers of projects", why, "add them again with --scope user, and run this again")


def _read(host: Host, name: str, entry: object, folders: Folders, often: int) -> Own | SkippedEntry | None:
    if is_own(host.words(entry)):
        return None
    tree = plain(entry)
    members = cast("dict[str, object]", tree) if isinstance(tree, dict) else {}
    if members.get("type") in _PART_OF_HOST:
        return None
    try:
        if not isinstance(tree, dict):
            raise _NotUnderstood("it is no table")
        if often > 1 or not name:
            raise _NotUnderstood("its name is there twice" if name else "it has no name", "give it a name of its own")
        return Own(name, _Entry(host, members, folders).server(), _keep_harmless(members))
    except _NotUnderstood as error:
        return SkippedEntry(name, error.why, error.remedy)


def _keep_harmless(members: Mapping[str, object]) -> Entry:
    """Return those members in `KEPT` whose texts can't be credentials."""
    kept = {name: value for name, value in members.items() if name in KEPT}
    return {name: value for name, value in kept.items() if all(_is_harmless(text) for text in _texts(value))}


def _is_harmless(text: str) -> bool:
    return all(not part for _, part in secret_parts(text.split()))


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in cast("list[object]", value):
            yield from _texts(each)
    elif isinstance(value, dict):
        yield from _texts([*cast("dict[str, object]", value), *cast("dict[str, object]", value).values()])


class _Entry:
    def __init__(self, host: Host, members: Mapping[str, object], folders: Folders) -> None:
        self._host = host
        self._members = _flat(host, members)
        self._folders = folders

    def server(self) -> Command | Remote:
        known = {name for names in _NAMES.values() for name in names} | _ELSEWHERE | KEPT
        known |= {self._host.command, "env_http_headers"}
        for name, value in self._members.items():
            if name not in known and value not in (None, {}, [], ""):
                raise _NotUnderstood(f'accredit does not know its member "{excerpt(name)}"', _remedy(name))
        if self._members.get("env_keys"):
            raise _NotUnderstood("its variables are in the host's keyring", "put them into envs first, or leave it")
        command, (member, url) = self._text(self._host.command), self._url()
        if bool(command) == bool(url):
            raise _NotUnderstood("it has both a command and a URL" if url else "it has neither a command nor a URL")
        kind = self._text(*_NAMES["kind"])
        return self._remote(member, url, kind) if url else self._command(command, kind)

    def _command(self, command: str, kind: str) -> Command:
        if kind not in ("", "stdio"):
            raise _NotUnderstood(f'its type is "{excerpt(kind)}", and it has a command')
        words = self._list("args")
        env = self._table(*_NAMES["env"])
        parts = (self._parts(command), *map(self._word, secret_parts(words)))
        return Command(parts, {name: self._variable(name, value) for name, value in env.items()}, self._cwd())

    def _remote(self, member: str, url: str, kind: str) -> Remote:
        try:
            path = urlsplit(url).path
        except ValueError:
            raise _NotUnderstood("its URL is none") from None
        by_default = not kind and (_SSE_BY_DEFAULT.get(self._host.name) == member or path.rstrip("/").endswith("/sse"))
        if by_default or kind == "sse":
            raise _NotUnderstood(
                "it speaks, or may speak, HTTP+SSE (2024-11-05), which `accredit connect` does not",
                "if it has an endpoint of streamable HTTP, name that in the host, and its type, and run this again",
            )
        if kind and kind not in _STREAMABLE:
            raise _NotUnderstood(f'its type is "{excerpt(kind)}"')
        if self._members.get("env") or self._members.get("args"):
            raise _NotUnderstood("it has a URL, and variables or arguments")
        literal = self._parts(url)
        if any(not isinstance(each, str) for each in literal):
            raise _NotUnderstood("its URL holds a variable", "write its value there first, and run this again")
        address = "".join(each for each in literal if isinstance(each, str))
        headers = self._table(*_NAMES["headers"])
        found = {name: self._header(name, value) for name, value in headers.items()}
        for name, variable in self._table("env_http_headers").items():
            found[name] = (Variable(variable),)
        if token := self._text("bearer_token_env_var"):
            found["Authorization"] = ("Bearer ", Variable(token))
        return Remote(address, found, url_holds_secret(address))

    def _url(self) -> tuple[str, str]:
        found = [(name, self._text(name)) for name in _NAMES["url"] if self._text(name)]
        if len(found) > 1:
            raise _NotUnderstood("it has several URLs")
        return found[0] if found else ("", "")

    def _variable(self, name: str, value: str) -> Text:
        parts = self._parts(value, bare=self._host.name == "gemini")
        if any(isinstance(each, Variable) for each in parts):
            if len(parts) > 1:
                raise _NotUnderstood(f"its variable {excerpt(name)} is made of others", "write its value there first")
            return parts
        text = "".join(each for each in parts if isinstance(each, str))
        return (text,) if variable_is_plain(name, text) else (Credential(text),)

    def _header(self, name: str, value: str) -> Text:
        parts = self._parts(value)
        if any(isinstance(each, Variable) for each in parts):
            if not (len(parts) == 1 or (len(parts) == 2 and _SCHEME.fullmatch(str(parts[0])))):
                raise _NotUnderstood(f"its header {excerpt(name)} is made of variables", "write its value there first")
            return parts
        text = "".join(each for each in parts if isinstance(each, str))
        return (text,) if header_is_plain(name, text) else (Credential(text),)

    def _word(self, word: tuple[str, str]) -> Text:
        plain_part, secret = word
        parts = self._parts(plain_part + secret)
        if any(isinstance(each, Variable) for each in parts):
            return parts
        if not secret:
            return parts
        return (plain_part, Credential(secret)) if plain_part else (Credential(secret),)

    def _cwd(self) -> str:
        base = self._folders.project or self._folders.home
        text = self._parts(self._text("cwd"))
        if any(not isinstance(each, str) for each in text):
            raise _NotUnderstood("its folder holds a variable", "write the folder there first")
        folder = "".join(each for each in text if isinstance(each, str))
        if folder.startswith("~/"):
            folder = str(self._folders.home / folder[2:])
        return str(base / folder) if folder else str(base)

    def _parts(self, text: str, *, bare: bool = False) -> Text:
        """Split a text into literals and variables without looking for credentials."""
        if "\0" in text or not is_utf8(text):
            raise _NotUnderstood("a text of it can be no argument", "correct it in the host's file")
        if bare and (found := _BARE.fullmatch(text)):
            return (Variable(found[1]),)
        parts: list[str | Variable] = []
        at = 0
        for match in _VARIABLE.finditer(text):
            value = self._value(match)
            for each in (text[at : match.start()], value):
                if isinstance(each, str) and parts and isinstance(parts[-1], str):
                    parts[-1] += each
                elif each != "":
                    parts.append(each)
            at = match.end()
        rest = text[at:]
        if rest and parts and isinstance(parts[-1], str):
            return (*parts[:-1], parts[-1] + rest)
        return (*parts, rest) if rest or not parts else (*parts,)

    def _value(self, match: re.Match[str]) -> str | Variable:
        if match["kept"]:
            return Variable(match["kept"])
        if match["input"]:
            name = _NOT_IN_NAMES.sub("_", match["input"]).strip("_").upper()
            if not name or name[0].isdigit():
                raise _NotUnderstood(f"it asks for {excerpt(match['input'])}, which gives no variable's name")
            return Variable(name, asked=True)
        known = {
            "userHome": str(self._folders.home), "HOME": str(self._folders.home), "pathSeparator": "/", "/": "/",
            "workspaceFolder": str(self._folders.project) if self._folders.project else None,
            "workspaceFolderBasename": self._folders.project.name if self._folders.project else None,
        }  # fmt: skip
        name = match["name"]
        if match["other"] or (name in known and known[name] is None):
            raise _NotUnderstood("it holds a variable that only the host knows", "write its value there first")
        return known[name] or "" if name in known else Variable(name)

    def _text(self, *names: str) -> str:
        value = next((self._members[name] for name in names if name in self._members), None)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise _NotUnderstood(f"its {names[0]} is no text")
        return value

    def _list(self, name: str) -> Sequence[str]:
        value = self._members.get(name)
        found = cast("list[object]", value) if isinstance(value, list) else []
        words = [each for each in found if isinstance(each, str)]
        if (value is not None and not isinstance(value, list)) or len(words) != len(found):
            raise _NotUnderstood(f"its {name} is no list of texts")
        return words

    def _table(self, *names: str) -> Mapping[str, str]:
        value = next((self._members[name] for name in names if name in self._members), None)
        found = cast("dict[str, object]", value) if isinstance(value, dict) else {}
        table = {name: text for name, text in found.items() if isinstance(text, str)}
        if not all(map(is_utf8, table)):
            raise _NotUnderstood("a text of it can be no argument", "correct it in the host's file")
        if (value is not None and not isinstance(value, dict)) or len(table) != len(found):
            raise _NotUnderstood(f"its {names[0]} is no table of texts")
        return table


def _flat(host: Host, members: Mapping[str, object]) -> Mapping[str, object]:
    """Return an entry's members. Those that some hosts nest are flattened: Zed's command, Continue's headers."""
    command, options = members.get(host.command), members.get("requestOptions")
    if isinstance(command, dict):
        inner = cast("dict[str, object]", command)
        if set(inner) <= {"path", "args", "env"}:
            members = {
                **members,
                host.command: inner.get("path"),
                **{key: inner[key] for key in inner if key != "path"},
            }
    if isinstance(options, dict) and set(cast("dict[str, object]", options)) <= {"headers"}:
        rest = {key: value for key, value in members.items() if key != "requestOptions"}
        return {**rest, **cast("dict[str, object]", options)}
    return members


def _remedy(member: str) -> str:
    if member == "envFile":
        return "move its variables into env, and run this again"
    if member in ("oauth", "auth", "authProviderType"):
        return "the host signs in to it for you, which a gateway can't: leave it as it is"
    return f'it stays as it was; if its server works without "{excerpt(member)}", take that out, and run this again'
