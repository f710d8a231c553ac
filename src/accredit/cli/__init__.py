"""The command line: `cli.application` has the commands, each declared in `cli.commands`."""

from accredit.cli.application import app as app
from accredit.cli.application import main as main
