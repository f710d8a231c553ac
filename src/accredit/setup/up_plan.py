"""Plans `accredit up --dry-run`: looks at files and processes, contacts no server, and changes nothing."""

import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from accredit.app.pid_file import serving
from accredit.base.text import one_line
from accredit.config.load import load
from accredit.config.named_files import named_files
from accredit.console.client import desk_runs
from accredit.console.settings import find_key, read_settings
from accredit.gateway import HttpUpstream
from accredit.keys import public_path
from accredit.keys.places import DELEGATION, config_folder, desk_sockets
from accredit.setup.own_grant import grant_command
from accredit.setup.own_keys import AGENT_KEY, OWNER_KEY, has_person_key
from accredit.setup.up_hosts import adopting_host, found_hosts, hosts_without, install_words
from accredit.setup.up_place import UpPlace, is_known, server_of
from accredit.terminal.output import QUIET, print_result, say, say_whole


class _Step(NamedTuple):
    """A step that would be taken: what it does, and its command. If it is `done`, nothing is left to do, and the plan
    says so."""

    what: str
    command: str = ""
    done: bool = False


def print_plan(place: UpPlace) -> int:
    """Print each step; return the exit code. Raises `ConfigurationError` as `up` would, as far as can be known."""
    steps = [*_files(place), *_processes(place), *_hosts(place)]
    print_result({"steps": [{**step._asdict(), "command": step.command or None} for step in steps]})
    for step in steps:
        say(f"{'keep' if step.done else 'would'} {step.what}", QUIET if step.done else "")
        if step.command:
            say_whole(f"  {step.command}")
    say("nothing was changed")
    return 0


def _files(place: UpPlace) -> Iterator[_Step]:
    folder, file = config_folder(os.environ), place.file
    if place.is_there or place.plan is None:
        is_meant = place.plan is None or is_known(file, os.environ)
        yield _Step(str(file) if is_meant else f"go by {file}, once you have said that it is yours", done=is_meant)
    else:
        plan = place.plan
        server = [plan.upstream.url] if isinstance(plan.upstream, HttpUpstream) else ["--", *plan.upstream.command]
        what = f"ask {server_of(plan)} what it offers, and write {', '.join(each.name for each in plan.files)}"
        yield _Step(what, _line("init", "--dir", str(plan.folder), *server))
    owner = find_key(read_settings(os.environ)) if has_person_key(os.environ) else folder / OWNER_KEY
    agent, out = folder / AGENT_KEY, folder / DELEGATION
    loaded = load(place.file, os.environ, {}) if place.is_there else None
    needs_agent = os.path.lexists(agent) or loaded is None or adopting_host(loaded) is None
    keys = ((owner, "human", "Owner"), (agent, "agent", "Agent"))
    for path, kind, name in keys if needs_agent else keys[:1]:
        new = _line("keys", "new", str(path), "--kind", kind, "--name", name)
        asked = ", under a passphrase that is asked for" if kind == "human" else ""
        yield _Step(str(path), done=True) if path.is_file() else _Step(f"make {path}{asked}", new)
    roots = _root_files(place)
    if not any(os.path.lexists(root) for root in roots):
        copy = one_line(shlex.join(["cp", str(public_path(owner)), str(roots[0])]))
        yield _Step(f"make you a root of the gateway: {roots[0]}", copy)
    if not needs_agent:
        return
    if os.path.lexists(out):
        yield _Step(str(out), done=True)
    else:
        observes = loaded is not None and loaded.config.proofs.mode != "required"
        command = grant_command(file, owner, agent, out, observes=observes).removesuffix(" --force")
        yield _Step("sign a delegation for 30 days: what only reads", one_line(command))


def _root_files(place: UpPlace) -> list[Path]:
    if not place.is_there:
        return [place.file.with_name(public_path(Path(OWNER_KEY)).name)]
    loaded = load(place.file, os.environ, {})
    files = [each.path for each in named_files(loaded) if each.key == "proofs.roots.public_key_file"]
    return files or [place.file]


def _processes(place: UpPlace) -> Iterator[_Step]:
    gateway = serving(place.file) if place.is_there else None
    what = f"the gateway that runs, process {gateway.pid}" if gateway is not None else "run the gateway until Ctrl-C"
    yield _Step(what, "" if gateway is not None else _line("serve", "--config", str(place.file)), gateway is not None)
    if desk_runs(desk_sockets(os.environ, os.geteuid())):
        yield _Step("the desk that runs", done=True)
    else:
        yield _Step("run the desk beside it", _line("desk", "--config", str(place.file)))


def _hosts(place: UpPlace) -> Iterator[_Step]:
    if not place.is_there:
        for host in found_hosts():
            yield _Step(f"offer {host} an entry", install_words(host, None, place.file))
        return
    for host, server in hosts_without(load(place.file, os.environ, {})):
        yield _Step(f"offer {host} an entry", install_words(host, server, place.file))


def _line(*words: str) -> str:
    return one_line(shlex.join(["accredit", *words]))
