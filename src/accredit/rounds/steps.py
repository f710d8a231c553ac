"""What the driver says is to be done, and what it is told of it. Plain values; no I/O."""

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

InputParams = ElicitRequestFormParams | ElicitRequestURLParams | CreateMessageRequestParams | RequestParams | None
"""What an embedded request is about: a form, a page to visit, a message to sample, or nothing (roots)."""

_ANSWERS: dict[str, TypeAdapter[Any]] = {
    "elicitation/create": TypeAdapter(ElicitResult),
    "sampling/createMessage": TypeAdapter(CreateMessageResult | CreateMessageResultWithTools),
    "roots/list": TypeAdapter(ListRootsResult),
}


class InputContext(Struct, frozen=True):
    """What a handler is told of the entry that it fulfils. `key` is the server's word: for correlation only.

    There is no way back to the server but the handler's result.
    """

    key: str
    method: str
    params: InputParams

    def answer(self, returned: object) -> InputResponse:
        """What the handler returned, as the answer to this entry. Raises `ValueError` where it is none."""
        return _ANSWERS[self.method].validate_python(returned)

    @property
    def session(self) -> NoReturn:
        """Raises `NoBackChannel`."""
        raise NoBackChannel

    async def send_request(self, *_: object, **__: object) -> NoReturn:
        """Raises `NoBackChannel`."""
        raise NoBackChannel

    async def send_notification(self, *_: object, **__: object) -> NoReturn:
        """Raises `NoBackChannel`."""
        raise NoBackChannel


class LegOptions(Struct, frozen=True):
    """What one leg may know besides its params: that it is the `number`th (from 0), and its `timeout` in seconds."""

    number: int
    timeout: float


class SendLeg(Struct, Generic[Params], frozen=True):
    """Send the request, with a new id, and cancel it after `options.timeout`. The params are the sender's to change."""

    params: Params
    options: LegOptions


class Announce(Struct, frozen=True):
    """Tell the caller of a round, within `timeout` seconds."""

    number: int
    message: str
    timeout: float


class Dispatch(Struct, frozen=True):
    """Run a handler for each entry, all at once; after `timeout` seconds, or when one fails, cancel all."""

    entries: tuple[InputContext, ...]
    timeout: float


class Pause(Struct, frozen=True):
    """Wait so many seconds."""

    seconds: float


class Done(Struct, frozen=True):
    """The step was done at `now`. `value` is a leg's result, a dispatch's answers by key, or nothing."""

    now: float
    value: Any = None


class TimedOut(Struct, frozen=True):
    """The step's time was over before it was done; what it had begun was cancelled."""

    now: float


class Failed(Struct, frozen=True):
    """A handler raised `error`, or was cancelled by itself (None); the others were cancelled."""

    now: float
    entry: InputContext
    error: BaseException | None


Step = SendLeg[Params] | Announce | Dispatch | Pause
Outcome = Done | TimedOut | Failed
