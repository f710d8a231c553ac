"""The steps that the driver yields, and their outcomes. Plain values; no I/O."""

from typing import Any, Generic, NoReturn

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
from accredit.rounds.results import Params

_InputParams = ElicitRequestFormParams | ElicitRequestURLParams | CreateMessageRequestParams | RequestParams | None
"""The params of an embedded request: a form, a page to visit, a message to sample, or nothing (roots)."""

_ANSWERS: dict[str, TypeAdapter[Any]] = {
    "elicitation/create": TypeAdapter(ElicitResult),
    "sampling/createMessage": TypeAdapter(CreateMessageResult | CreateMessageResultWithTools),
    "roots/list": TypeAdapter(ListRootsResult),
}


class InputContext(Struct, frozen=True):
    """What a handler learns of the entry that it fulfils. `key` is the server's word: for correlation only.

    The handler's result is the only way back to the server.
    """

    key: str
    method: str
    params: _InputParams

    def answer(self, returned: object) -> InputResponse:
        """Return the handler's result as the answer to this entry. Raises `ValueError` if it is not one."""
        return _ANSWERS[self.method].validate_python(returned)

    @property
    def session(self) -> NoReturn:
        """Raises `NoBackChannel`."""
        raise NoBackChannel

    async def send_request(self, *_: object, **__: object) -> NoReturn:
        """Raise `NoBackChannel`."""
        raise NoBackChannel

    async def send_notification(self, *_: object, **__: object) -> NoReturn:
        """Raise `NoBackChannel`."""
        raise NoBackChannel


class LegOptions(Struct, frozen=True):
    """Options of one leg: it is the `number`th (from 0), and has `timeout` seconds."""

    number: int
    timeout: float


class SendLeg(Struct, Generic[Params], frozen=True):
    """Send the request, with a new id, and cancel it after `options.timeout`. The sender may change the params."""

    params: Params
    options: LegOptions


class Announce(Struct, frozen=True):
    """Tell the caller about a round, within `timeout` seconds."""

    number: int
    message: str
    timeout: float


class Dispatch(Struct, frozen=True):
    """Run a handler for each entry, concurrently; cancel all after `timeout` seconds, or when one fails."""

    entries: tuple[InputContext, ...]
    timeout: float


class Pause(Struct, frozen=True):
    """Wait for so many seconds."""

    seconds: float


class Done(Struct, frozen=True):
    """The step was done at `now`. `value` is a leg's result, a dispatch's answers by key, or None."""

    now: float
    value: Any = None


class TimedOut(Struct, frozen=True):
    """The step's time ran out at `now`; what it had begun was cancelled."""

    now: float


class Failed(Struct, frozen=True):
    """A handler raised `error`, or cancelled itself (None); the others were cancelled."""

    now: float
    entry: InputContext
    error: BaseException | None


Step = SendLeg[Params] | Announce | Dispatch | Pause
Outcome = Done | TimedOut | Failed
