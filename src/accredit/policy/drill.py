"""The gateway's own tools, by which `accredit drill` tests which calls get through. No I/O.

- [scope] There are two: `accredit.drill`, and `accredit.drill.sensitive` for calls that need a challenge issued here.
  Both need the same scope, which no other target may require (`catalog.scope_fault`). So a grant of it allows only
  these calls.
- [no-server] Their calls are decided, refused and recorded like any others. One that passes is answered here, and never
  sent to a server: not even to one that has a tool of that name. Where no proofs are judged these tools do not exist,
  and their calls are refused as well. So a server's own tool of such a name is never listed, and can't be called, not
  even under its merged name at the endpoint of several servers.
- [no-list] No list shows these tools, no quota counts their calls, and no server is asked for their definitions.
- [routes] An HTTP API has two routes of the same kind, `POST /accredit.drill` and `POST /accredit.drill.sensitive`.
  They never reach the API: the gateway answers a request that passes with 204. If a proxy asks about it, the answer is
  403, so that the proxy does not send it on.
- [skills] An agent has two skills with the tools' names, which no card shows. A message (`SendMessage`) for one of them
  is answered by the gateway with a message, makes no task, and takes no conversation.
- [answer] The answer reveals nothing about the call, the caller or the gateway. If the call has an
  argument `asks` that is true, its first leg (in the modern era) is answered with a state to bring back. So `accredit
  drill` can try forged states.
"""

from msgspec import Raw

from accredit.errors import FrameError
from accredit.jsonrpc.encode import to_json
from accredit.jsonrpc.frames import Request, Success
from accredit.jsonrpc.methods import Era
from accredit.jsonrpc.objects import is_object, members
from accredit.jsonrpc.responses import INPUT_REQUIRED

DRILL = "accredit.drill"
SENSITIVE_DRILL = "accredit.drill.sensitive"
DRILLS = frozenset({DRILL, SENSITIVE_DRILL})
DRILL_SCOPE = "custom:accredit.drill"
DRILL_PATHS = {b"/" + name.encode(): f"POST /{name}" for name in (DRILL, SENSITIVE_DRILL)}
"""The routes by the one spelling of their paths."""
DRILL_ROUTE, SENSITIVE_DRILL_ROUTE = DRILL_PATHS.values()
DRILL_PASSED = "drill_passed"
"""The error word that a proxy gets for an allowed request for one of these routes."""

ASKS = "asks"
"""The argument by which a call asks to be answered with a state that it then has to bring back."""

DRILL_TEXT = "allowed: answered by the gateway itself, and no server has heard of it"
"""What an allowed call is answered with."""

_STATE = "drill"


def is_drill(method: str, target: str | None) -> bool:
    """Return whether a request calls one of these tools, has one of these routes, or is a message for one of these
    skills."""
    if method == "POST":
        return target in (DRILL_ROUTE, SENSITIVE_DRILL_ROUTE)
    return target in DRILLS and method in ("tools/call", "SendMessage")


def drill_answer(request: Request, round: int) -> Success:
    """Return the answer to a call that was allowed. `round` is the number of its leg, from 0."""
    modern = request.era is Era.MODERN
    if modern and round == 0 and _asks(request):
        result: dict[str, object] = {"resultType": INPUT_REQUIRED, "requestState": _STATE}
    else:
        kind = {"resultType": "complete"} if modern else {}
        result = {"content": [{"type": "text", "text": DRILL_TEXT}], "isError": False, **kind}
    text = to_json(result)
    return Success(request.id, Raw(text), to_json({"jsonrpc": "2.0", "id": request.id, "result": Raw(text)}))


def _asks(request: Request) -> bool:
    arguments = request.members.get("arguments")
    try:
        given = members(arguments).get(ASKS) if arguments is not None and is_object(arguments) else None
    except FrameError:
        return False
    return given is not None and bytes(given) == b"true"
