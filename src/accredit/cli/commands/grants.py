"""`accredit grants list|show` and `accredit names set`: what you have signed at the desk, and your names for keys."""

from accredit.cli.declare import Command, Group, argument
from accredit.cli.options import JSON

_list = Command(
    "list",
    """Lists the certificates that you have signed at the desk, newest first. The desk need not run.

    Example:

    accredit grants list
    """,
    [
        JSON,
    ],
    run="accredit.signing.grants:list_grants",
)

_show = Command(
    "show",
    """Shows one certificate that you have signed at the desk.

    Example:

    accredit grants show 3f9d959c
    """,
    [
        argument("cert_id", metavar="ID", required=True, help="The certificate's id, or its beginning."),
        JSON,
    ],
    run="accredit.signing.grants:show_grant",
)

_set = Command(
    "set",
    """Gives a key or a gateway a name of your own, which the desk then shows.

    Example:

    accredit names set 9f0c2d11 mail
    """,
    [
        argument("holder_id", metavar="ID", required=True, help="The id of a key or of a gateway."),
        argument("name", metavar="NAME", required=True, help="What you call it; an empty one takes the name away."),
        JSON,
    ],
    run="accredit.signing.grants:name_holder",
)

grants = Group(
    "grants",
    "Shows what you have allowed at the desk.",
    [_list, _show],
    example="accredit grants list",
)

names = Group(
    "names",
    "Gives agents and gateways names of your own.",
    [_set],
    example="accredit names set b4a4c717 Assistant",
)
