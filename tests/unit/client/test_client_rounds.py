"""A client's loop, on a real event loop: what is begun ends, in time, and nobody is asked in vain."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from mcp_types import CallToolResult, ElicitResult, InputRequiredResult, ListRootsResult
from tests.unit.rounds.script import CALL, YES, asks
from tests.world.raw_server import until
from tests.world.running import run
from tests.world.virtual_time import run_virtually

from accredit.client.rounds import InputHandler, run_leg, run_rounds
from accredit.errors import (
    InputHandlerFailed,
    InvalidInputRequired,
    NoBackChannel,
    RequestTimeout,
    RoundsTimeout,
)
from accredit.limits import MAX_DIALOGS
from accredit.rounds import InputContext, LegOptions, RoundsOptions, input_required, list_roots

pytestmark = pytest.mark.holds("client/rounds")

FINAL = CallToolResult(content=[])
SHORT = 0.05
LONG = 3_600.0


class Server:
    """Answers each leg with the next of its answers: a result, or something to wait for."""

    def __init__(self, *answers: CallToolResult | InputRequiredResult | Callable[[], Awaitable[Any]]) -> None:
        self._answers = iter(answers)
        self.legs: list[tuple[dict[str, Any], LegOptions]] = []

    async def __call__(self, params: dict[str, Any], options: LegOptions) -> CallToolResult | InputRequiredResult:
        self.legs.append((params, options))
        answer = next(self._answers)
        return await answer() if inspect.isroutine(answer) else answer  # pyright: ignore[reportReturnType]


class Stuck:
    """Something that takes for ever, and notes that it was begun and that it was cancelled."""

    def __init__(self) -> None:
        self.begun = 0
        self.cancelled = 0

    async def forever(self, *_: object) -> Any:
        self.begun += 1
        try:
            await asyncio.Event().wait()
        finally:
            await self._clean_up()

    async def _clean_up(self) -> None:
        # Whoever cancels must wait for this: it takes several turns of the loop.
        with anyio.CancelScope(shield=True):
            for _ in range(3):
                await asyncio.sleep(0)
            self.cancelled += 1


async def yes(_context: InputContext, _params: object) -> ElicitResult:
    return YES


async def call(
    server: Server, handler: InputHandler = yes, options: RoundsOptions | None = None, **times: Any
) -> CallToolResult:
    handlers = {"elicitation/create": handler}
    return await run_rounds(server, handlers, CALL, "tools/call", options or RoundsOptions(), **times)


@pytest.mark.holds("client/rounds", "concurrent")
async def test_the_handlers_of_a_round_run_at_once() -> None:
    met = asyncio.Barrier(3)

    async def meet(_context: InputContext, _params: object) -> ElicitResult:
        await met.wait()
        return YES

    assert await call(Server(asks("a", "b", "c"), FINAL), meet) is FINAL


def test_a_handler_gets_its_entry_and_no_way_back() -> None:
    seen: list[InputContext] = []

    async def handler(context: InputContext, params: object) -> ElicitResult:
        assert context.params is params
        seen.append(context)
        await context.send_request("sampling/createMessage")
        return YES

    with pytest.raises(InputHandlerFailed) as caught:
        run(call(Server(asks("k")), handler))
    assert isinstance(caught.value.__cause__, NoBackChannel)
    assert [(context.key, context.method) for context in seen] == [("k", "elicitation/create")]


@pytest.mark.parametrize("with_params", [True, False])
def test_a_handler_for_roots_may_leave_out_params_as_in_the_sdk(with_params: bool) -> None:
    async def both(_context: InputContext, _params: object) -> ListRootsResult:
        return ListRootsResult(roots=[])

    async def alone(_context: InputContext) -> ListRootsResult:
        return ListRootsResult(roots=[])

    server = Server(input_required(input_requests={"r": list_roots()}), FINAL)
    handler = both if with_params else alone
    assert run(run_rounds(server, {"roots/list": handler}, CALL, "tools/call", RoundsOptions())) is FINAL
    assert server.legs[1][0]["inputResponses"] == {"r": {"roots": []}}


# --- failures ---------------------------------------------------------------------------------------


@pytest.mark.holds("client/rounds", "concurrent")
def test_of_as_many_handlers_as_there_may_be_one_fails_and_the_others_are_cancelled_and_awaited() -> None:
    stuck = Stuck()

    async def handler(context: InputContext, _params: object) -> ElicitResult:
        if context.key != "k7":
            return await stuck.forever()
        await until(lambda: stuck.begun == MAX_DIALOGS - 1)
        raise ValueError("no")

    with pytest.raises(InputHandlerFailed) as caught:
        run(call(Server(asks(*(f"k{number}" for number in range(MAX_DIALOGS)))), handler))
    assert caught.value.key == "k7"
    assert str(caught.value.__cause__) == "no"
    assert (stuck.begun, stuck.cancelled) == (MAX_DIALOGS - 1, MAX_DIALOGS - 1)


@pytest.mark.holds("client/rounds", "concurrent")
def test_a_handler_that_has_not_begun_when_another_fails_does_not_begin__nobody_is_prompted_in_vain() -> None:
    asked: list[str] = []

    async def handler(context: InputContext, _params: object) -> ElicitResult:
        asked.append(context.key)
        raise ValueError("no")

    with pytest.raises(InputHandlerFailed):
        run(call(Server(asks("a", "b", "c")), handler))
    assert asked == ["a"]


@pytest.mark.holds("client/rounds", "checking")
def test_a_handler_that_returns_no_answer_fails_while_the_others_still_run() -> None:
    stuck = Stuck()

    async def handler(context: InputContext, _params: object) -> Any:
        return await stuck.forever() if context.key == "b" else "yes"

    with pytest.raises(InputHandlerFailed) as caught:
        run(call(Server(asks("b", "a")), handler))
    assert caught.value.key == "a"
    assert stuck.cancelled == 1


def test_a_handler_that_cancels_itself_has_failed__its_answer_would_be_missing() -> None:
    async def handler(_context: InputContext, _params: object) -> ElicitResult:
        raise asyncio.CancelledError

    with pytest.raises(InputHandlerFailed) as caught:
        run(call(Server(asks("a")), handler))
    assert caught.value.__cause__ is None


def test_what_a_sender_raises_comes_through_as_it_is() -> None:
    failure = TimeoutError("the sender's own")

    async def fails() -> None:
        raise failure

    with pytest.raises(TimeoutError) as caught:
        run(call(Server(asks("a"), fails), timeout=LONG))
    assert caught.value is failure


# --- time -------------------------------------------------------------------------------------------


@pytest.mark.holds("client/rounds", "deadline")
def test_a_leg_that_takes_too_long_is_cancelled_without_any_progress_arriving() -> None:
    stuck = Stuck()
    with pytest.raises(RequestTimeout):
        run_virtually(call(Server(stuck.forever), timeout=SHORT), within=SHORT)
    assert stuck.cancelled == 1


class Sulky(Stuck):
    """Makes an error of its own of a cancellation, as some libraries do."""

    async def forever(self, *_: object) -> Any:
        try:
            await super().forever()
        except asyncio.CancelledError:
            raise ConnectionError("closed") from None


@pytest.mark.holds("client/rounds", "late")
def test_what_made_an_error_of_its_cancellation_has_timed_out() -> None:
    with pytest.raises(RequestTimeout):
        run_virtually(call(Server(Sulky().forever), timeout=SHORT), within=SHORT)
    with pytest.raises(RoundsTimeout):
        run_virtually(call(Server(asks("a")), Sulky().forever, max_total_timeout=SHORT), within=SHORT)


def test_a_first_leg_that_overruns_the_budget_shows_no_prompt_even_where_it_can_not_be_cancelled() -> None:
    stuck = Stuck()

    async def stubborn() -> InputRequiredResult:
        with anyio.CancelScope(shield=True):
            await asyncio.sleep(2 * SHORT)
        return asks("a")

    with pytest.raises(RoundsTimeout):
        run_virtually(call(Server(stubborn), stuck.forever, max_total_timeout=SHORT), within=2 * SHORT)
    assert stuck.begun == 0


@pytest.mark.holds("client/rounds", "deadline")
def test_a_prompt_that_is_open_when_the_budget_ends_is_cancelled() -> None:
    stuck = Stuck()
    server = Server(asks("a", "b"))
    with pytest.raises(RoundsTimeout):
        run_virtually(call(server, stuck.forever, max_total_timeout=SHORT), within=SHORT)
    assert (stuck.begun, stuck.cancelled) == (2, 2)
    assert len(server.legs) == 1


@pytest.mark.holds("client/rounds", "deadline")
def test_a_progress_callback_that_takes_the_whole_budget_is_cancelled_and_no_prompt_shown() -> None:
    showing, asking = Stuck(), Stuck()
    work = call(Server(asks("a")), asking.forever, max_total_timeout=SHORT, progress=showing.forever)
    with pytest.raises(RoundsTimeout):
        run_virtually(work, within=SHORT)
    assert showing.cancelled == 1
    assert asking.begun == 0


# --- cancellation -----------------------------------------------------------------------------------


async def cancel_when(begun: Callable[[], bool], work: Callable[[], Awaitable[object]]) -> None:
    """Cancels `work` as soon as something is true, and sees that it ends so."""
    task = asyncio.ensure_future(work())
    await until(begun)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("place", ["leg", "retry", "handler", "progress"])
def test_the_callers_cancellation_reaches_whatever_is_under_way(place: str) -> None:
    stuck = Stuck()
    progress = stuck.forever if place == "progress" else None
    handler = stuck.forever if place == "handler" else yes
    server = {
        "leg": Server(stuck.forever),
        "retry": Server(asks("a"), stuck.forever),
    }.get(place, Server(asks("a", "b")))
    run(cancel_when(lambda: stuck.begun > 0, lambda: call(server, handler, progress=progress)))
    assert stuck.cancelled == stuck.begun


def test_the_callers_cancellation_reaches_a_wait_between_two_legs() -> None:
    server = Server(*[input_required(request_state="s")] * 1_000)
    options = RoundsOptions(max_rounds=1_000)
    run(cancel_when(lambda: len(server.legs) > 1, lambda: call(server, options=options)))


# --- progress and manual mode -----------------------------------------------------------------------


def test_by_hand_a_complete_result_is_the_result_and_an_invalid_one_is_refused() -> None:
    assert run(run_leg(Server(FINAL), CALL, "tools/call")) is FINAL
    with pytest.raises(InvalidInputRequired):
        run(run_leg(Server(asks("a")), CALL, "tools/list"))
    with pytest.raises(InvalidInputRequired):
        run(run_leg(Server(InputRequiredResult.model_construct()), CALL, "tools/call"))


def test_by_hand_a_leg_has_its_time_too() -> None:
    for times, error in (({"timeout": SHORT}, RequestTimeout), ({"max_total_timeout": SHORT}, RoundsTimeout)):
        stuck = Stuck()
        with pytest.raises(error):
            run_virtually(run_leg(Server(stuck.forever), CALL, "tools/call", **times), within=SHORT)
        assert stuck.cancelled == 1
