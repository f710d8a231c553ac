"""Options for a call with several rounds: those of its caller, those of each leg (one request and its answer), and the
context that a handler gets with its entry. No I/O."""

from typing import Any, NoReturn

from mcp_types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    CreateMessageResultWithTools,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    InputResponse,
    ListRootsResult,
    RequestParams,
)
from msgspec import Struct
from pydantic import TypeAdapter

from accredit.errors import NoBackChannel
from accredit.limits import MAX_ROUNDS

_InputParams = ElicitRequestFormParams | ElicitRequestURLParams | CreateMessageRequestParams | RequestParams | None
"""The params of a request inside `inputRequests`: a form, a page to visit, a message to sample, or nothing (roots)."""

_ANSWERS: dict[str, TypeAdapter[Any]] = {
    "elicitation/create": TypeAdapter(ElicitResult),
    "sampling/createMessage": TypeAdapter(CreateMessageResult | CreateMessageResultWithTools),
    "roots/list": TypeAdapter(ListRootsResult),
}


class RoundsOptions(Struct, frozen=True):
    """How a client handles `input_required`.

    Without `auto_fulfil`, a call that is answered with `input_required` fails, unless its caller accepts such results.
    `max_rounds` is the most retries of one call (0: none).
    """

    auto_fulfil: bool = True
    max_rounds: int = MAX_ROUNDS

    def __post_init__(self) -> None:
        """Raise `ValueError` for a negative number of rounds."""
        if self.max_rounds < 0:
            raise ValueError("max_rounds is 0 or more")


class LegOptions(Struct, frozen=True):
    """Options of one leg of a call. `number` counts the legs from 0. `timeout` is in seconds."""

    number: int
    timeout: float


class InputContext(Struct, frozen=True):
    """The context that a handler gets with its entry. The server chose `key`; it only serves to match the answer to the
    request.

    The handler's result is its only way to send anything to the server.
    """

    key: str
    method: str
    params: _InputParams

    def answer(self, returned: object) -> InputResponse:
        """Return the handler's result as the answer to this entry. Raises `ValueError` if it is not one."""
        return _ANSWERS[self.method].validate_python(returned)

    @property
    def session(self) -> NoReturn:
        """Raise `NoBackChannel`."""
        raise NoBackChannel

    async def send_request(self, *_: object, **__: object) -> NoReturn:
        """Raise `NoBackChannel`."""
        raise NoBackChannel

    async def send_notification(self, *_: object, **__: object) -> NoReturn:
        """Raise `NoBackChannel`."""
        raise NoBackChannel
