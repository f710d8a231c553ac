"""Implements `accredit suggest`: reads the log once, and prints the suggestions of `policy.suggesting`.

Only records that verify with the trusted keys count, so a forged record leads to no grant. The others are counted in
the output. The names in records were chosen by servers and agents. No name can break out of its place in the output:

- a key of a table and a scope are TOML strings in ASCII, escaped (`config_text`);
- [key-paths] a grant names the key files that are on this machine, and a file beside the agent's key to write to. It
  has a placeholder for a key that is not on this machine, or whose path has characters that a shell would interpret;
- a grant is one line for a POSIX shell, with quoted words; targets are JSON in ASCII, escaped;
- in comments a name is a quoted string in ASCII, escaped and cut: it can't end a comment, or hide part of a line;
- `$`, a backtick, `!`, `'` and a backslash in a name are escaped, also within quotes and comments: an interactive zsh
  interprets them even there. So pasting the output never runs what a name says.
"""

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from msgspec import structs

from accredit.attest import timestamp
from accredit.base.text import json_ascii, several
from accredit.client.presenter import GRANTS
from accredit.config.attest import gateway_id
from accredit.config.load import Loaded, load
from accredit.config.proofs import build_proofs, catalog_of, vocabulary_of
from accredit.config.servers import every_view
from accredit.console.settings import read_settings
from accredit.errors import ConfigurationError
from accredit.keys import load_public_key, public_keys_in, public_path
from accredit.keys.load import PUBLIC_SUFFIX
from accredit.keys.places import agent_folders, config_folder
from accredit.limits import SHORT_ID_CHARS
from accredit.ops.log_names import known_names
from accredit.ops.log_place import LogSource, as_configuration_errors, moment, public_keys
from accredit.ops.log_record import Names, id_with_name
from accredit.policy.suggesting import WHY, Deployment, Grant, RefusedCalls, Suggester, Suggestion, Table
from accredit.ratify.scopes import is_sensitive
from accredit.setup.config_text import key, string, table_name
from accredit.stores.audit_log.proven import NOTHING_LEFT, Prover, UnverifiedEntries, is_decision_since
from accredit.stores.audit_log.verifying import Verifiers
from accredit.terminal.output import print_result, say_script
from accredit.terminal.progress import Progress
from accredit.terminal.wording import shown_call, shown_target, tally_text, unverified_note

_EXPIRES = "30d"
_PLACEHOLDER = re.compile(r"^(PRINCIPAL|AGENT)-[0-9a-f]+\.(key|pub)$")
_ACTIVE = str.maketrans({char: f"\\u{ord(char):04x}" for char in "$`!'"})


def run_suggest(*, since: str | None, config: Path | None, key: Sequence[Path]) -> int:
    """Run `accredit suggest`: print suggestions from a configuration's log; return the exit code. Raises
    `ConfigurationError`."""
    loaded = load(config, os.environ, {})
    source = LogSource(config=config)
    place, suggester = source.place(), Suggester(deployment_of(loaded))
    first = "" if since is None else timestamp(moment("--since", since))
    trusted = public_keys(key, config)
    progress = Progress("reading the log", unit="entries")
    with as_configuration_errors(), Verifiers(trusted) as examiner, place.open_log() as log, progress:
        prover = Prover(trusted, examiner)
        for _, record, _ in prover.records(progress.over(log.newest_first()), partial(is_decision_since, first)):
            suggester.add(record)
    found, names = suggester.suggestion(), known_names((), source)
    lines = Lines(found, names, prover.left, find_public_keys(os.environ, loaded.file))
    print_result(lines.members())
    for line in lines.text():
        say_script(line)
    return 0


def find_public_keys(environ: Mapping[str, str], configuration: Path | None) -> dict[str, Path]:
    """Return the paths of public keys on this machine by the keys' ids: of the key that `desk.toml` names, and of those
    in the person's folder and beside a configuration. An id is derived from the key, so a found file holds that key,
    whoever put it there."""
    found: dict[str, Path] = {}
    with suppress(ConfigurationError):  # the desk says what is wrong with its settings
        if (named := read_settings(environ).key_file) is not None:
            found[load_public_key(public_path(named)).id] = public_path(named)
    beside = [configuration.parent] if configuration is not None else []
    for path, public in public_keys_in(*agent_folders(config_folder(environ)), *beside):
        found.setdefault(public.id, path)
    return found


def deployment_of(loaded: Loaded) -> Deployment:
    """Return the deployment that a configuration describes. Raises `ConfigurationError`."""
    servers = every_view(loaded)
    proofs = build_proofs(servers[0], vocabulary=vocabulary_of(loaded))
    roots = [root.id for root in proofs.policy.roots] if proofs is not None and proofs.judged else None
    catalogs = {each.server: catalog_of(each) for each in servers}
    return Deployment(gateway_id(loaded), catalogs, loaded.config.gateway.merge, roots or None)


class Lines:
    """A suggestion as text and as JSON members. `names` maps key ids to names. `left` counts the records that were left
    out because they do not verify. `keys` has the paths of public keys by the keys' ids ([key-paths])."""

    def __init__(
        self,
        found: Suggestion,
        names: Names,
        left: UnverifiedEntries = NOTHING_LEFT,
        keys: Mapping[str, Path] = {},
    ) -> None:
        self._keys = keys
        self._left = left
        self._found = found
        self._names = names
        ids = {each for grant in found.grants for each in (grant.principal_id, grant.agent_id)}
        short = {each[:SHORT_ID_CHARS] for each in ids}
        self._digits = SHORT_ID_CHARS if len(short) == len(ids) else None
        self._commands = [self._command(grant, number) for number, grant in enumerate(found.grants, 1)]

    def text(self) -> Iterator[str]:
        """Yield TOML, then shell lines, with comments."""
        found = self._found
        if found.tables:
            yield "# For the configuration: the used tools that it does not name, each with a scope of its own."
            yield "# For all tools that the servers list: accredit check --fix"
        for table in found.tables:
            yield from ("", _comment(tally_text(table.tally)), *_toml(table).splitlines())
        if found.grants:
            yield from ("", "# For whoever signs.")
            if any(_PLACEHOLDER.search(word) for command in self._commands for word in command):
                yield "# PRINCIPAL- and AGENT- stand for key files that are not on this machine."
        for grant, command in zip(found.grants, self._commands, strict=True):
            yield from ("", *map(_comment, self._about(grant)), shlex.join(command))
        yield ""
        yield from map(_comment, self._rest())

    def members(self) -> dict[str, object]:
        """Return the suggestion as one JSON object."""
        found = self._found
        return {
            "tables": [
                {"server": each.server or None, "tool": each.tool, "scope": each.scope, **structs.asdict(each.tally)}
                for each in found.tables
            ],
            "toml": "\n".join(map(_toml, found.tables)),
            "grants": [
                {
                    "principal_id": each.principal_id,
                    "agent_id": each.agent_id,
                    "agent_name": self._names.get(each.agent_id),
                    "gateway": each.gateway,
                    "method": each.method,
                    "scopes": each.scopes,
                    "sensitive": each.sensitive,
                    "targets": [{"target": name, **structs.asdict(tally)} for name, tally in each.targets.items()],
                    "command": command,
                    "line": shlex.join(command),
                    **structs.asdict(each.tally),
                }
                for each, command in zip(found.grants, self._commands, strict=True)
            ],
            "unverified": self._left._asdict(),
            "allowed": structs.asdict(found.allowed),
            "about_tasks": structs.asdict(found.tasks),
            "refused": [
                {
                    "reason": word,
                    "text": WHY[word],
                    **structs.asdict(each.tally),
                    "targets": [
                        {"server": server or None, "target": target, "calls": calls}
                        for (server, target), calls in each.targets.items()
                    ],
                }
                for word, each in self._refused()
            ],
        }

    def _command(self, grant: Grant, number: int) -> list[str]:
        # Without blanks no name in it reads as a command, wherever a terminal wraps the line.
        constraint = _inert(json_ascii(grant.constraint.members())).replace(" ", "\\u0020")
        agent = grant.agent_id[: self._digits]
        public, out = self._keys.get(grant.agent_id), Path(f"delegation-{agent}-{number}.json")
        if public is not None:
            folder = public.parent / GRANTS
            out = (folder if folder.is_dir() else public.parent) / out
        return [
            *("accredit", "grant"),
            *("--issuer", self._issuer(grant)),
            *("--agent", _path(public) or f"AGENT-{agent}.pub"),
            *(word for scope in grant.scopes for word in ("--scope", scope)),
            *("--constraint", constraint),
            *("--expires", _EXPIRES),
            *(["--yes"] if any(map(is_sensitive, grant.scopes)) else []),
            *("--out", _path(out) or out.name),
        ]

    def _issuer(self, grant: Grant) -> str:
        public = self._keys.get(grant.principal_id)
        private = public.with_name(public.name.removesuffix(PUBLIC_SUFFIX)) if public is not None else None
        is_here = private is not None and private.is_file()
        return (_path(private) if is_here else "") or f"PRINCIPAL-{grant.principal_id[: self._digits]}.key"

    def _about(self, grant: Grant) -> Iterator[str]:
        agent, principal = (id_with_name(each, self._names) for each in (grant.agent_id, grant.principal_id))
        yield f"{json_ascii(agent)}, on the word of {json_ascii(principal)}: {tally_text(grant.tally)}"
        for target, tally in grant.targets.items():
            yield f"  {shown_call(grant.method, target)}: {tally_text(tally)}"
        if grant.sensitive:
            yield "  sensitive, so by itself: without this grant the desk asks about each call; with it nobody is asked"
        sensitive = [scope for scope in grant.scopes if is_sensitive(scope)]
        if sensitive:
            yield f"  sensitive scopes, and so signed with --yes: {', '.join(sensitive)}"

    def _rest(self) -> Iterator[str]:
        found = self._found
        if self._left.entries:
            yield unverified_note(self._left)
        if found.allowed.calls:
            yield f"allowed already: {tally_text(found.allowed)}"
        if found.tasks.calls:
            yield f"about tasks, which go by the tool that made them: {tally_text(found.tasks)}"
        for word, each in self._refused():
            yield f"stays refused, as {WHY[word]}: {tally_text(each.tally)}"
            for (server, target), number in each.targets.items():
                yield f"  {f'{server}: ' if server else ''}{shown_target(target)}: {several(number, 'call')}"
        if not found.tables and not found.grants:
            yield "nothing to add and nothing to sign"

    def _refused(self) -> list[tuple[str, RefusedCalls]]:
        return [(word, self._found.refused[word]) for word in WHY if word in self._found.refused]


def _path(path: Path | None) -> str:
    """Return a path for use in a command, whole, so that the command runs in any folder. Return "" for None, and for a
    path that some shell would interpret."""
    if path is None:
        return ""
    text = str(path)
    is_plain = text.isprintable() and _inert(text) == text and "\\" not in text
    return text if is_plain else ""


def _comment(line: str) -> str:
    """Return a line as a comment that does no harm even in an interactive zsh, which runs comments as commands."""
    return f"# {_inert(line)}"


def _inert(text: str) -> str:
    """Escape the characters that a shell would interpret, in JSON or in words with JSON strings."""
    return text.replace("\\\\", "\\u005c").translate(_ACTIVE)


def _toml(table: Table) -> str:
    return f"[{table_name('tools', table.server)}.{key(table.tool)}]\nscope = {string(table.scope)}\n"
