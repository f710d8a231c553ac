"""Implements `accredit reload`: finds the gateway that serves a configuration, signals it, and waits for the result.

A process is signalled only if it holds the lock on `accredit.pid` on this machine and in this namespace, and belongs to
that file's owner. So a process that now has a dead gateway's id is never signalled, and nobody can cause a signal to
another user's process.
"""

import os
import shlex
import signal
import time
from collections.abc import Mapping
from pathlib import Path

import click

from accredit.app.pid_file import PID_FILE, PidFileContent, find, is_same, place
from accredit.base.standard import is_for_programs
from accredit.base.terminal import two_lines
from accredit.config.load import DEFAULT_FILE
from accredit.errors import ConfigurationError
from accredit.limits import RELOAD_LOOK_SECONDS
from accredit.terminal.output import print_json

RELOAD_WAIT_SECONDS = 90.0
"""How many seconds `accredit reload` waits for the result. A reload that is under way must end before its own
begins."""


def reload_gateway(config: Path | None, environ: Mapping[str, str] = os.environ) -> int:
    """Run the command; return its exit code."""
    file = (config or Path(environ.get("ACCREDIT_CONFIG") or DEFAULT_FILE)).absolute()
    try:
        found = _send_signal(file)
        done = _outcome(file, found)
    except ConfigurationError as error:
        return _print_refusal(error.what, error.remedy)
    told = done.reloads
    if is_for_programs():
        outcome = {"pid": done.pid, "in_force": not told.problem, "changed": told.changed or None}
        print_json({**outcome, "problem": told.problem or None, "help": told.remedy or None})
        return 1 if told.problem else 0
    if told.problem:
        return _print_refusal(told.problem, told.remedy)
    click.echo(f"read again, and in force. Changed: {told.changed}")
    return 0


def _send_signal(file: Path) -> PidFileContent:
    """Send the signal. Return the gateway's state from just before it. Raises `ConfigurationError`."""
    found = _running(file)
    if found.reloads.place != place():
        raise ConfigurationError(
            f"the gateway that has {file.parent / PID_FILE} runs on another machine, or in a container",
            "run `accredit reload` there, or have SIGHUP sent there",
        )
    try:
        process = os.pidfd_open(found.pid)
        try:
            if _running(file).pid != found.pid:  # else it has the lock now, so the id was its own all the time
                raise ProcessLookupError
            if not found.is_its_owners:
                raise ConfigurationError(
                    f"{file.parent / PID_FILE} names process {found.pid}, which is another user's than the file",
                    "see who made the file, and have SIGHUP sent to the gateway",
                )
            signal.pidfd_send_signal(process, signal.SIGHUP)
        finally:
            os.close(process)
    except ProcessLookupError:
        raise ConfigurationError("the gateway has just ended", "start it with `accredit serve`") from None
    except PermissionError:
        raise ConfigurationError(
            f"process {found.pid} is another user's: the gateway can't be told", "run this as the gateway's own user"
        ) from None
    return found


def _outcome(file: Path, before: PidFileContent) -> PidFileContent:
    """Wait for a reload that began after the state `before`. Return the gateway's state then. Raises
    `ConfigurationError`."""
    due = time.monotonic() + RELOAD_WAIT_SECONDS
    while time.monotonic() < due:
        time.sleep(RELOAD_LOOK_SECONDS)
        found = _running(file)
        if found.pid != before.pid:
            break
        if found.reloads.done > before.reloads.begun:
            return found
    raise ConfigurationError(
        "the gateway was told, and has not said what came of it", "see its log, and ask /readyz (`reload`)"
    )


def _running(file: Path) -> PidFileContent:
    """Return the state of the gateway that serves a file. Raises `ConfigurationError`."""
    folders = dict.fromkeys((file.parent, Path(os.path.realpath(file)).parent))
    found = next((found for folder in folders if (found := find(folder)) is not None), None)
    if found is None and not os.path.isfile(file):
        raise ConfigurationError(
            f"there is no configuration {file}, so no gateway to reload",
            "name the one that the gateway was started with: `accredit reload --config FILE`",
        )
    if found is None:
        start = shlex.join(("accredit", "serve", "--config", str(file)))
        raise ConfigurationError(
            f"no gateway runs with {file}: no process holds {file.parent / PID_FILE}",
            f"start it: `{start}`; if it runs, name the configuration that it was started with: --config FILE",
        )
    if not is_same(found.reloads.configuration, file):
        raise ConfigurationError(
            f"the gateway that runs here serves {found.reloads.configuration}, not {file}",
            "name its configuration with --config; SIGHUP reaches others in this folder",
        )
    return found


def _print_refusal(what: str, remedy: str) -> int:
    click.echo(two_lines(what, remedy), err=True)
    return 1
