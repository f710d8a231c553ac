"""The command line. `main` runs what `plain` can read, and hands everything else to `app`.

`app`, with all commands and their help, is `accredit.cli.application`: slow to load, so loaded on first use.
"""

import sys
from typing import TYPE_CHECKING

from accredit.base.deferred import Deferred
from accredit.base.standard import open_closed_streams
from accredit.cli import plain

if TYPE_CHECKING:
    from accredit.cli import application
    from accredit.cli.application import app as app
else:
    application = Deferred("accredit.cli.application")


def main() -> int:
    """Run the command line; return the exit code. An error is two lines on stderr: what is wrong, and what to do."""
    open_closed_streams()
    try:
        code = plain.run(sys.argv[1:])
        sys.stdout.flush()
    except OSError as error:
        return application.end_unprinted(error)
    return application.main() if code is None else code


def __getattr__(name: str) -> object:
    if name != "app":
        raise AttributeError(name)
    return application.app
