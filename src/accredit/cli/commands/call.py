"""`accredit call`: calls a tool from a shell."""

from accredit.cli.declare import FILE, Command, argument, option
from accredit.cli.options import AGENT_KEY, DELEGATIONS, GATEWAY_ID, HEADER, JSON, SERVER, TIMEOUT, TOKEN_ENV
from accredit.cli.standard import reads

call = Command(
    "call",
    """Calls a tool and prints its result. Exit code 1: the call was refused, or the tool reports an error.

    An argument is a text, a number, true or false, or JSON, as the tool's input schema says. Repeating a name makes a
    list. With --json the whole result is printed, including structured content.

    With --config, this process is the configuration's own gateway for the call: the same proofs, limits and records as
    with `accredit serve` and `accredit wrap`. If the server is a command, it is started for this one call.

    Examples:

    accredit call send_email --arg to=ada@example.org --arg subject=Hello --url http://127.0.0.1:8484/mcp --key
    agent.key --delegation delegation.json

    accredit call search --arg word=number --config accredit.toml --server mail --key agent.key --delegation
    delegation.json
    """,
    [
        argument("tool", metavar="TOOL", required=True, help="The tool's name."),
        option(
            "--arg", metavar="NAME=VALUE", multiple=True, help="An argument, typed as the tool says; may be repeated."
        ),
        option(
            "--json-args", metavar="FILE", type=FILE, callback=reads, help="Arguments as a JSON object; - for stdin."
        ),
        option("--url", metavar="URL", help="The gateway's or server's endpoint."),
        option(
            "--config",
            metavar="FILE",
            type=FILE,
            callback=reads,
            help="A configuration, in place of a URL: this process is its gateway.",
        ),
        SERVER,
        AGENT_KEY,
        DELEGATIONS,
        GATEWAY_ID,
        TOKEN_ENV,
        HEADER,
        TIMEOUT,
        JSON,
    ],
    run="accredit.cli.actions.call:run_call",
)
