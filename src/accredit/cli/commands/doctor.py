"""`accredit doctor`: finds problems, and the commands that fix them."""

from accredit.cli.declare import FILE, Command, flag, option
from accredit.cli.options import JSON
from accredit.cli.standard import only_file

doctor = Command(
    "doctor",
    """Finds problems of keys, configuration, store, gateway, clock, desk, hosts and versions, and says what fixes
    them.

    It takes some seconds, and changes nothing. If a command fixes a problem, it prints the command. The exit code is 1
    if something is bad; a missing desk is not.

    With --production it goes through the checklist of docs/how-to/run-in-production.md, for one configuration. Each
    line is ok; or not, with the setting or command that fixes it; or unknown, which does not count as passed.

    Examples:

    accredit doctor

    accredit doctor --config accredit.toml --json

    accredit doctor --production --config accredit.toml --except production.quotas
    """,
    [
        option(
            "--config",
            metavar="FILE",
            type=FILE,
            callback=only_file("what is beside it is looked at, too"),
            help="The configuration; else $ACCREDIT_CONFIG, else ./accredit.toml.",
        ),
        flag("--production", help="Go through the checklist for production instead, line by line."),
        option(
            "--except",
            "left_out",
            metavar="ID",
            multiple=True,
            help="A line to leave out, because you decide so; may be repeated.",
        ),
        JSON,
    ],
    run="accredit.ops.doctor.examine:run_doctor",
)
