"""The answers to calls of the gateway's own tools ([answer] of `drill`). No I/O."""

from msgspec import Raw

from accredit.errors import FrameError
from accredit.jsonrpc.encode import to_json
from accredit.jsonrpc.frames import Request, Success
from accredit.jsonrpc.methods import Era
from accredit.jsonrpc.objects import is_object, members
from accredit.jsonrpc.responses import INPUT_REQUIRED

ASKS = "asks"
"""The argument by which a call asks to be answered with a state that it then has to bring back."""

DRILL_TEXT = "allowed: answered by the gateway itself, and no server has heard of it"
"""What an allowed call is answered with."""

_STATE = "drill"


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
