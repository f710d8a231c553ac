"""The command line. `main` is the entry point: it runs what `plain` can read, and otherwise `app`.

`app`, with all commands and their help, is in `accredit.cli.application`, which is loaded when it is first asked for.
"""

import sys
from typing import TYPE_CHECKING

from accredit.base.deferred import Deferred
from accredit.cli import plain

if TYPE_CHECKING:
    from accredit.cli import application
    from accredit.cli.application import app as app
else:
    application = Deferred("accredit.cli.application")


def main() -> int:
    """Run the command line; return the exit code. Errors are two lines on stderr: what, and what to do."""
    code = plain.run(sys.argv[1:])
    return application.main() if code is None else code


def __getattr__(name: str) -> object:
    if name != "app":
        raise AttributeError(name)
    return application.app
