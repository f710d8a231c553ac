"""Implements `accredit up`: from nothing to a protected server, in idempotent steps.

Never replaces a file, and resumes where an earlier run ended:

1. if gateway and desk already run, nothing changes. The gateway is the process that holds the lock on `accredit.pid`
   beside this configuration, whatever answers on its port;
2. concurrent runs wait for each other;
3. before the first file is written, the port must be free, and the server must have listed what it offers. A missing
   configuration is written as by `accredit init`, as the last of its files. Before that, its path is entered in
   `configurations.json`: a key and a lock without a configuration count as left by a killed run only if they are
   entered there (`up_place`);
4. the person's and the agent's key are made or kept (`own_keys`). If proofs are required, the person's must be a root;
5. a first delegation is signed or kept (`own_grant`);
6. the gateway must accept the resulting configuration;
7. gateway and desk run until one of them ends (`up_run`). If one of them ran already, only the other is started;
8. once they run, entries are offered for the hosts found. No host's file changes without consent (`up_hosts`).

A passphrase is used for signing only. The desk asks for it again by itself.
"""

import contextlib
import os
import sys
import time
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import NamedTuple

from accredit.app.configured import Start, read_configuration
from accredit.app.listener import open_listener
from accredit.app.pid_file import PidFileContent, serving
from accredit.asking.reaching import Reach, upstream_of
from accredit.base.clock import unix_seconds
from accredit.base.files import open_locked
from accredit.base.peers import socket_peer
from accredit.base.standard import words_before_result
from accredit.config.load import Loaded, load
from accredit.config.named_files import named_files
from accredit.config.schema import Gateway
from accredit.config.servers import endpoints
from accredit.console.client import find_desk
from accredit.errors import ConfigurationError
from accredit.keys import KeyFile, ReadFiles, load_public_key, public_path, write_file
from accredit.keys.files import exists_already
from accredit.keys.own_files import known_files
from accredit.keys.places import DELEGATION, desk_sockets
from accredit.refusals import oauth_hosts
from accredit.setup.init import InitPlan, Prepared
from accredit.setup.own_grant import fault_of_grant, grant_command, sign_first, taken_back
from accredit.setup.own_keys import AGENT_KEY, OwnKey, Passphrases, kept_key, own_config_folder, person_key
from accredit.setup.up_hosts import adopting_host, offer_hosts
from accredit.setup.up_place import UpPlace, check_meant, found_place, is_known, named_place, remember, server_of
from accredit.setup.up_plan import print_plan
from accredit.setup.up_run import UP_LOOK_SECONDS, Subprocess, run_together
from accredit.terminal.output import GOOD, QUIET, print_result, say, tell

UP_WAIT_SECONDS = 30.0
"""How many seconds `accredit up` waits for another run by the same person, which may be waiting for a passphrase."""


_LOCK = "up.lock"
_SERVE = ("serve", "--log-level", "warning", "--log-format", "text", "--config")


class UpOptions(NamedTuple):
    """The configuration and the command line's options; `reach` holds those for connecting to servers."""

    place: UpPlace
    reach: Reach
    passphrases: Passphrases
    wants_browser: bool
    agreed: bool


def run_up(
    *,
    url: str | None,
    command: list[str] | None,
    config: Path | None,
    folder: Path,
    port: int | None,
    reach: Reach,
    passphrase_file: Path | None,
    no_passphrase: bool,
    no_browser: bool,
    yes: bool,
    dry_run: bool,
) -> int:
    """Run `accredit up`; return the exit code. Raises `ConfigurationError`."""
    passphrases = Passphrases(passphrase_file, declined=no_passphrase)
    if url is None and command is None:
        place = _place_of_file(config)
    elif config is not None:
        raise ConfigurationError("--config and a server are given", "name one: a configuration has its own")
    else:
        upstream = upstream_of(url, command, reach)
        plan = InitPlan(upstream, folder, reach)
        place = found_place(plan if port is None else plan._replace(port=port))
    if port is not None and place.is_there and port != load(place.file, os.environ, {}).config.gateway.port:
        raise ConfigurationError(
            f"--port is for a configuration that is made, and {place.file} is there", "change it there"
        )
    if dry_run:
        return print_plan(place)
    return bring_up(UpOptions(place, reach, passphrases, not no_browser, yes))


def _place_of_file(config: Path | None) -> UpPlace:
    named = config if config is not None else Path(os.environ.get("ACCREDIT_CONFIG") or "")
    if named == Path():
        raise ConfigurationError(
            "there is no server to protect", "give its URL, its command after --, or --config FILE"
        )
    return named_place(named)


def bring_up(wish: UpOptions, environ: Mapping[str, str] = os.environ) -> int:
    """Go through all steps, and run; return the exit code. Raises `ConfigurationError`."""
    try:
        if _all_runs(wish, environ):
            return 0
        with _one_at_a_time(environ) as release:
            if _all_runs(wish, environ):  # now, after another one had its turn
                return 0
            with words_before_result():
                ready = _prepare(wish, environ)
            wish.passphrases.forget()
            return _run(wish, ready, environ, release)
    finally:
        wish.passphrases.forget()


class _Ready(NamedTuple):
    """What is needed to start the processes. `gateway` is the gateway that runs already, if any. `is_first` says
    whether this is the first `accredit up` for the configuration. `is_new` says whether the configuration or the
    delegation was made now."""

    loaded: Loaded
    gateway: PidFileContent | None
    is_first: bool
    is_new: bool


def _prepare(wish: UpOptions, environ: Mapping[str, str]) -> _Ready:
    """Do steps 3 to 6. Raises `ConfigurationError`."""
    place = wish.place
    file, was_there = place.file, place.is_there
    gateway, is_known_before = serving(file) if was_there else None, is_known(file, environ)
    if was_there:
        check_meant(place, environ)
        say(f"kept {file}")
    elif place.plan is not None:
        _configure(place.plan, file, environ)
    remember(file, environ)
    loaded = load(file, environ, {})
    if loaded.config.gateway.port == 0:
        raise ConfigurationError("gateway.port is 0: where the gateway is, nobody could be told", "choose a port")
    if gateway is None:
        _check_port(loaded.config.gateway, f"change gateway.port in {file}")
    person = person_key(environ, wish.passphrases)
    own_agent, host = own_config_folder(environ) / AGENT_KEY, adopting_host(loaded)
    has_agent = host is not None and not os.path.lexists(own_agent)
    agent = None if has_agent else kept_key(own_agent, "agent", "Agent")
    for key in (person,) if agent is None else (person, agent):
        say(f"{'wrote' if key.made else 'kept'} {key.path}: the key of {key.about.name}, {key.about.id}")
    roots = _roots(loaded, person)
    is_signed = agent is not None and _grant(wish, loaded, person, agent, roots)
    read_configuration(Start(file, dict(environ), {}), ReadFiles())
    return _Ready(loaded, gateway, not is_known_before, is_signed or not was_there)


def _configure(plan: InitPlan, file: Path, environ: Mapping[str, str]) -> None:
    """Write the configuration (step 3)."""
    if not is_known(file, environ):
        for each in plan.files:
            if os.path.lexists(each):
                raise ConfigurationError(exists_already(each).what, "name another folder with --dir, or move it away")
    told = load(None, {name: text for name, text in environ.items() if name != "ACCREDIT_CONFIG"}, {}, look_here=False)
    port = told.config.gateway.port if ("gateway", "port") in told.origins else plan.port
    _check_port(Gateway(host=told.config.gateway.host, port=port), "choose another: --port P")
    tell(f"asking {server_of(plan)} what it offers")
    made = Prepared.asked(plan)
    remember(file, environ)
    made.write()
    say(f"wrote {file}: {made.found.summary}")
    say("  which of its tools only read is what the server says: check it in that file", "dim")


def _check_port(gateway: Gateway, otherwise: str) -> None:
    """Check that the gateway can listen on its address. Raises `ConfigurationError`."""
    try:
        open_listener(gateway.host, gateway.port).close()
    except ConfigurationError as error:
        stop = error.remedy.partition(", or ")[0]
        raise ConfigurationError(error.what, f"{stop}, or {otherwise}") from None


def _roots(loaded: Loaded, person: OwnKey) -> list[KeyFile]:
    """Return the gateway's roots. If the person's key is not among them, write it to the missing key file of a root. If
    no such file is missing, raise `ConfigurationError` or, if proofs are only observed, print a warning."""
    proofs = loaded.config.proofs
    paths = [each.path for each in named_files(loaded) if each.key == "proofs.roots.public_key_file"]
    found = [load_public_key(path) for path in paths if os.path.lexists(path)]
    if proofs.mode == "off" or any(each.public_key == person.about.public_key for each in found):
        return found
    beside = [path for path in paths if loaded.file is not None and path.parent == loaded.file.parent]
    missing = next((path for path in beside if not os.path.lexists(path)), None)
    if missing is None:
        what = f"{loaded.file}: none of proofs.roots is the key of {person.about.name} ({person.about.id})"
        remedy = f'add it under [[proofs.roots]]: name = "Owner", public_key_file = "{public_path(person.path)}"'
        if proofs.mode == "required":
            raise ConfigurationError(what, remedy)
        tell(f"warning: {what}, so nobody's agents are told apart: {remedy}")
        return found
    write_file(missing, person.about.encode() + b"\n")
    say(f"wrote {missing}: whose delegations count")
    return [*found, person.about]


def _grant(wish: UpOptions, loaded: Loaded, person: OwnKey, agent: OwnKey, roots: list[KeyFile]) -> bool:
    """Sign or keep the delegation (step 5); return whether one was signed. Raises `ConfigurationError`."""
    file, out = wish.place.file, agent.path.with_name(DELEGATION)
    observes = loaded.config.proofs.mode != "required"
    if not os.path.lexists(out):
        sign_first(file, observes, person, agent, out, wish.passphrases, wish.reach)
        return True
    keys = {each.public_key for each in roots} if loaded.config.proofs.mode == "required" else None
    revoked = taken_back(person.about, map(Path, known_files(os.environ)), os.environ)
    fault = fault_of_grant(out, agent.about, keys, unix_seconds(), revoked)
    if fault is None:
        say(f"kept {out}")
    else:
        tell(f"{'warning' if fault.is_bad else 'note'}: {fault.text}. To sign another:")
        tell(f"  {grant_command(file, person.path, agent.path, out, observes=observes)}")
    return False


def _run(wish: UpOptions, ready: _Ready, environ: Mapping[str, str], release: Callable[[], None]) -> int:
    """Run gateway and desk, or the one that does not run yet (step 7); return the exit code. `release` lets other runs
    of `accredit up` go on."""
    file = wish.place.file
    gateway = ready.loaded.config.gateway

    def no_desk() -> bool:
        return desk_process(environ) is None

    def offer() -> None:
        release()
        with words_before_result():
            offer_hosts(ready.loaded, file, agreed=wish.agreed, asks=ready.is_new)

    def on_start() -> None:
        _say_where(wish, ready.loaded, serving(file), is_new=True)

    parts: list[Subprocess] = []
    if ready.gateway is None:
        parts.append(Subprocess("gateway", (*_SERVE, str(file)), lambda pid: _serves(file, pid), own_group=True))
    desk = desk_process(environ)
    if desk is None:
        words = ("desk", "--config", str(file), *(() if wish.wants_browser else ("--no-browser",)))
        parts.append(Subprocess("desk", words, lambda pid: desk_process(environ) in (pid, 0), is_needed=no_desk))
    elif ready.is_first:
        tell("note: the desk that runs began before this gateway: end it and start it anew to see these calls there")
    tell(f"starting {' and '.join(f'the {part.name}' for part in parts)}")
    return run_together(parts, gateway.drain_seconds + gateway.grace_seconds, offer, on_start)


def _serves(file: Path, pid: int) -> bool:
    with contextlib.suppress(ConfigurationError):  # it is just being written
        found = serving(file)
        return found is not None and found.pid == pid
    return False


def desk_process(environ: Mapping[str, str]) -> int | None:
    """Return the process id of this user's desk: 0 if it is unknown, None if no desk runs."""
    connection = find_desk(desk_sockets(environ, os.geteuid()))
    if connection is None:
        return None
    with connection:
        peer = socket_peer(connection)
        return peer.pid if peer is not None else 0


def _all_runs(wish: UpOptions, environ: Mapping[str, str]) -> bool:
    """Return whether gateway and desk already run (step 1). Raises `ConfigurationError`."""
    place = wish.place
    found = serving(place.file) if place.is_there else None
    if found is None or desk_process(environ) is None:
        return False
    check_meant(place, environ)
    _say_where(wish, load(place.file, environ, {}), found, is_new=False)
    return True


def _say_where(wish: UpOptions, loaded: Loaded, gateway: PidFileContent | None, *, is_new: bool) -> None:
    file, urls, pid = wish.place.file, endpoints(loaded), gateway.pid if gateway is not None else None
    told: dict[str, object] = {"started": is_new, "configuration": str(file), "url": next(iter(urls), None)}
    print_result({**told, "gateway_pid": pid, **({"urls": urls} if len(urls) > 1 else {})})
    url = ", ".join(urls)
    if is_new:
        say(f"up: {url} (configured in {file}); Ctrl-C ends it", GOOD)
        if loaded.config.proofs.mode == "required":
            say(f"note: {oauth_hosts(loaded.config.oauth.open_at)}", QUIET)
    else:
        say(f"it runs already: {url} (process {pid}, configured in {file}); so does the desk. Nothing was changed")
    sys.stdout.flush()


@contextlib.contextmanager
def _one_at_a_time(environ: Mapping[str, str]) -> Generator[Callable[[], None]]:
    """Hold the person's lock, so that other runs wait (step 2). It is held until the block ends, or until the yielded
    function is called. Raises `ConfigurationError`."""
    with contextlib.ExitStack() as held:
        held.callback(os.close, _lock(own_config_folder(environ) / _LOCK))
        yield held.close


def _lock(path: Path) -> int:
    late_at, is_told = time.monotonic() + UP_WAIT_SECONDS, False
    while True:
        try:
            return open_locked(path)
        except BlockingIOError:
            pass
        except OSError as error:
            raise ConfigurationError(f"can't write {path}: {error.strerror}", "see what it is") from None
        if time.monotonic() > late_at:
            raise ConfigurationError("another `accredit up` of yours is still at its steps", "see what it waits for")
        if not is_told:
            tell("another `accredit up` of yours is at its steps: waiting for it")
            is_told = True
        time.sleep(UP_LOOK_SECONDS)
