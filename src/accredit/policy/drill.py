"""The gateway's own tools, which `accredit drill` calls to see what gets through. No I/O.

1. `accredit.drill`, and `accredit.drill.sensitive` for calls that need a challenge issued here, need one scope, which
   nothing else may ask for (`catalog.scope_fault`): a grant of it allows these calls, and no other.
2. Their calls are decided, refused and recorded like any others. One that passes is answered here, and never sent to a
   server: not even to one that has a tool of that name. Where no proofs are judged these tools do not exist, and their
   calls are refused as well. So a server's own tool of such a name is never listed, and can't be called, not even under
   its merged name at the endpoint of several servers.
3. No server is asked for their definitions, no quota counts them, and no list has them.
4. The answer holds nothing of the call, the caller or the gateway. If the argument `asks` is true, the first leg of a
   modern call is answered with a state to return, so that forged ones can be tried.
"""

from msgspec import Raw

from accredit.errors import FrameError
from accredit.jsonrpc.encode import to_json
from accredit.jsonrpc.frames import Request, Success
from accredit.jsonrpc.methods import Era
from accredit.jsonrpc.objects import is_object, members
from accredit.jsonrpc.result_types import INPUT_REQUIRED

DRILL = "accredit.drill"
SENSITIVE_DRILL = "accredit.drill.sensitive"
DRILLS = frozenset({DRILL, SENSITIVE_DRILL})
DRILL_SCOPE = "custom:accredit.drill"
ASKS = "asks"
"""The argument that requests a second round."""

_TEXT = "allowed: answered by the gateway itself, and no server has heard of it"
_STATE = "drill"


def is_drill(method: str, target: str | None) -> bool:
    """Return whether a request calls one of these tools."""
    return target in DRILLS and method == "tools/call"


def drill_answer(request: Request, round: int) -> Success:
    """Return the answer to an allowed call; `round` counts its legs from 0 (rule 4)."""
    modern = request.era is Era.MODERN
    if modern and round == 0 and _asks(request):
        result: dict[str, object] = {"resultType": INPUT_REQUIRED, "requestState": _STATE}
    else:
        kind = {"resultType": "complete"} if modern else {}
        result = {"content": [{"type": "text", "text": _TEXT}], "isError": False, **kind}
    text = to_json(result)
    return Success(request.id, Raw(text), to_json({"jsonrpc": "2.0", "id": request.id, "result": Raw(text)}))


def _asks(request: Request) -> bool:
    arguments = request.members.get("arguments")
    try:
        given = members(arguments).get(ASKS) if arguments is not None and is_object(arguments) else None
    except FrameError:
        return False
    return given is not None and bytes(given) == b"true"
