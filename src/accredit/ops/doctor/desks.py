"""Checks whether a desk runs, or could run. It is no fault if none runs. I/O: files, a socket."""

import os
from collections.abc import Iterator

from accredit.console.client import desk_runs, tell_desk
from accredit.console.settings import read_settings
from accredit.errors import ConfigurationError, DeskError
from accredit.keys.own_files import fault_of_folder
from accredit.keys.places import desk_socket, desk_sockets
from accredit.ops.doctor.engine import Result, bad, faulty, good, note
from accredit.ops.doctor.surroundings import Surroundings


def look_at_desk(at: Surroundings) -> Iterator[Result]:
    """Yield findings about the desk."""
    try:
        settings = read_settings(at.environ)
    except ConfigurationError as error:
        yield faulty("desk", error)
        return
    if settings.key_file is not None and not settings.key_file.is_file():
        yield bad("desk", f"desk.toml names {settings.key_file}, which is not there", "name a key that is: key_file")
    sockets = desk_sockets(at.environ, os.geteuid())
    if not desk_runs(sockets):
        yield good("desk", "none runs, and none has to: nobody is asked then")
        folder = desk_socket(at.environ).parent
        fault = fault_of_folder(folder) if folder.exists() else None
        if fault is not None:
            yield bad(
                "desk", fault.text, "take that right away: who writes there could stand for the desk", fault.command
            )
        return
    try:
        tell_desk(sockets, {"ping": True})
    except (ConfigurationError, DeskError) as error:
        yield bad("desk", f"one runs, and does not answer: {error}", "end it, and start `accredit desk` anew")
        return
    yield good("desk", "one runs, and answers")
    if settings.unlock_seconds is not None:
        what = "while its key is unlocked, any program of yours that has its page may allow what is not sensitive"
        yield note("desk", what, 'unlock = "each" under [desk] in desk.toml has every signature ask')
