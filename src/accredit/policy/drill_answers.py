"""What a call of a tool of the gateway's own is answered ([answer] of `drill`). No I/O."""

from msgspec import Raw

from accredit.errors import FrameError
from accredit.jsonrpc.encode import to_json
from accredit.jsonrpc.frames import Request, Success
from accredit.jsonrpc.methods import Era
from accredit.jsonrpc.objects import is_object, members
from accredit.jsonrpc.result_types import INPUT_REQUIRED

ASKS = "asks"
"""The argument with which a call is asked to come back."""

_TEXT = "allowed: answered by the gateway itself, and no server has heard of it"
_STATE = "drill"


def drill_answer(request: Request, round: int) -> Success:
    """Return the answer to a call that may be made; `round` counts its legs from 0."""
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
