"""The command line. `main` is the entry point: it runs what `plain` can read, and otherwise `app`.

`app`, with all commands and their help, is in `accredit.cli.application`, which is loaded when it is first asked for.
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
    """Run the command line; return the exit code. Errors are two lines on stderr: what, and what to do."""
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
