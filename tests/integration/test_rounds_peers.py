"""Rounds over real connections: our engine, and beside it the official SDK's and FastMCP's (docs, "rounds").

What is stated of the peers in the documentation is what they do here. A test of theirs that fails after an upgrade
says that the table is out of date.
"""

import asyncio
import contextlib
import inspect
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar, cast

import fastmcp
import mcp
import pytest
from mcp.client._input_required import InputRequiredRoundsExceededError
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolRequestParams, CallToolResult, ElicitRequestURLParams, ElicitResult
from pydantic import ValidationError
from tests.world.budgets import BUDGETS, NEVER_REACHED
from tests.world.rounds_client import sender
from tests.world.rounds_server import FINAL, VERSION, RoundsServer, asks
from tests.world.running import RunningGateway, run

from accredit.client.rounds import run_rounds
from accredit.errors import (
    NoBackChannel,
)
from accredit.rounds import RoundsOptions

Handler = Callable[[Any, Any], Awaitable[ElicitResult]]
T = TypeVar("T")
Engine = Callable[..., Awaitable[Any]]
YES = ElicitResult(action="accept", content={"sure": True})
DEPLOY = CallToolRequestParams(name="deploy", arguments={"env": "prod"})


async def yes(_context: object, _params: object) -> ElicitResult:
    return YES


async def outcome(call: Awaitable[T]) -> Callable[[], T]:
    """How a call ended, to be had outside of the SDK's client, which wraps what leaves its block in two groups."""
    try:
        result = await call
    except Exception as error:
        return partial(throw, error)
    return lambda: result


def throw(error: Exception) -> Any:
    raise error


async def ours(
    url: str,
    handler: Handler | None = yes,
    params: CallToolRequestParams = DEPLOY,
    rounds: int = 10,
    **options: Any,
) -> CallToolResult:
    handlers = {} if handler is None else {"elicitation/create": handler}
    async with mcp.Client(url, mode=VERSION) as client:
        done = await outcome(
            run_rounds(
                sender(client.session), handlers, params, "tools/call", RoundsOptions(max_rounds=rounds), **options
            )
        )
    return done()


async def sdk(
    url: str,
    handler: Handler | None = yes,
    params: CallToolRequestParams = DEPLOY,
    rounds: int = 10,
    timeout: float | None = None,
    progress: Any = None,
) -> CallToolResult:
    callback = cast("Any", handler)
    async with mcp.Client(url, mode=VERSION, elicitation_callback=callback, input_required_max_rounds=rounds) as client:
        done = await outcome(
            client.call_tool(
                params.name,
                params.arguments,
                timeout,
                progress,
                input_responses=params.input_responses,
                request_state=params.request_state,
            )
        )
    return done()


async def fast(
    url: str, handler: Handler | None = yes, rounds: int = 10, timeout: float | None = None, progress: Any = None
) -> Any:
    async def on_elicit(_message: str, _type: object, params: Any, context: Any) -> ElicitResult:
        assert handler is not None
        return await handler(context, params)

    asking: Any = {} if handler is None else {"elicitation_handler": on_elicit}
    async with fastmcp.Client(url, mode=VERSION, input_required_max_rounds=rounds, **asking) as client:
        return await client.call_tool("deploy", {"env": "prod"}, timeout=timeout, progress_handler=progress)


def play(server: RoundsServer, engine: Engine, **options: Any) -> Any:
    async def main() -> Any:
        async with RunningGateway(server) as running:
            return await engine(running.url, **options)

    return run(main())


class Prompt:
    """A person who takes `seconds` to answer."""

    def __init__(self, seconds: float = 0) -> None:
        self._seconds = seconds
        self.shown = self.cancelled = self.answered = 0
        self.contexts: list[Any] = []
        self.params: list[Any] = []

    async def __call__(self, context: object, params: object) -> ElicitResult:
        self.shown += 1
        self.contexts.append(context)
        self.params.append(params)
        try:
            await asyncio.sleep(self._seconds)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        self.answered += 1
        return YES


EVERYONE = pytest.mark.parametrize("engine", [ours, sdk, fast])
PEERS = pytest.mark.parametrize("engine", [sdk, fast])


@EVERYONE
def test_rounds_are_fulfilled_with_new_ids_and_nothing_of_an_earlier_round(engine: Engine) -> None:
    server = RoundsServer([asks("a", requestState="1"), asks("b"), asks(requestState="3"), FINAL])
    result = play(server, engine)
    assert result.content[0].text == "done"
    assert server.state_and_keys == [(None, []), ("1", ["a"]), (None, ["b"]), ("3", [])]
    assert len(set(server.ids)) == 4


@pytest.mark.parametrize("engine", [ours, sdk])
def test_a_manual_round_followed_by_an_automatic_one_leaks_nothing(engine: Engine) -> None:
    server = RoundsServer([asks("b", requestState="2"), asks("c"), FINAL])
    seeded = DEPLOY.model_copy(update={"input_responses": {"a": YES}, "request_state": "1"})
    play(server, engine, params=seeded)
    assert server.state_and_keys == [("1", ["a"]), ("2", ["b"]), (None, ["c"])]


@PEERS
def test_a_peers_time_is_each_legs_alone__a_prompt_may_take_longer_than_the_call(engine: Engine) -> None:
    for budget in BUDGETS:
        prompt, server = Prompt(1.1 * budget), RoundsServer([asks("a"), FINAL])
        with contextlib.suppress(MCPError):  # a leg that took that long, on a busy machine
            play(server, engine, handler=prompt, timeout=budget)
            break
    else:
        raise AssertionError(NEVER_REACHED)
    assert (prompt.answered, len(server.calls)) == (1, 2)


def test_peers_have_no_budget_for_a_whole_call() -> None:
    for call_tool in (mcp.Client.call_tool, fastmcp.Client.call_tool):
        names = inspect.signature(call_tool).parameters.keys()
        assert {name for name in names if "timeout" in name} <= {"read_timeout_seconds", "timeout"}


def test_fastmcps_call_takes_no_answers_and_no_state() -> None:
    names = inspect.signature(fastmcp.Client.call_tool).parameters.keys()
    assert not {"input_responses", "request_state"} & names
    assert {"input_responses", "request_state"} <= inspect.signature(mcp.Client.call_tool).parameters.keys()


@PEERS
def test_a_peer_ends_past_its_bound_without_it(engine: Engine) -> None:
    server = RoundsServer([asks("a", requestState="s")])
    with pytest.raises(InputRequiredRoundsExceededError) as caught:
        play(server, engine, rounds=2)
    assert vars(caught.value) == {"max_rounds": 2}
    assert len(server.calls) == 3


async def fails(_context: object, _params: object) -> ElicitResult:
    raise ValueError("window closed")


def test_a_peers_failing_handler_is_a_group_or_an_error_without_the_key() -> None:
    with pytest.raises(ExceptionGroup) as group:
        play(RoundsServer([asks("k"), FINAL]), sdk, handler=fails)
    assert group.group_contains(ValueError, match="window closed")
    with pytest.raises(MCPError) as caught:
        play(RoundsServer([asks("k"), FINAL]), fast, handler=fails)
    assert caught.value.error.message == "window closed"


@PEERS
def test_a_peer_says_that_it_does_not_support_it_without_the_key(engine: Engine) -> None:
    with pytest.raises(MCPError, match="Elicitation not supported") as caught:
        play(RoundsServer([asks("k"), FINAL]), engine, handler=None)
    assert caught.value.error.data is None


@PEERS
@pytest.mark.parametrize("result", [asks(), {"resultType": "input_required", "inputRequests": {"k": {"method": "x"}}}])
def test_a_peer_refuses_an_invalid_result_as_one_that_does_not_fit_its_types(
    engine: Engine, result: dict[str, Any]
) -> None:
    with pytest.raises(ValidationError):
        play(RoundsServer([result]), engine)


@pytest.mark.parametrize(("engine", "events"), [(ours, [1, 2]), (sdk, []), (fast, [])])
def test_only_ours_shows_each_round_to_the_progress_callback(engine: Engine, events: list[float]) -> None:
    seen: list[float] = []

    async def progress(done: float, _total: float | None, _message: str | None) -> None:
        seen.append(done)

    play(RoundsServer([asks("a"), asks(requestState="s"), FINAL]), engine, progress=progress)
    assert seen == events


def test_only_ours_has_no_session_for_a_handler_to_send_with() -> None:
    for engine in (sdk, fast):
        prompt = Prompt()
        play(RoundsServer([asks("a"), FINAL]), engine, handler=prompt)
        assert isinstance(prompt.contexts[0].session, mcp.ClientSession)
    prompt = Prompt()
    play(RoundsServer([asks("a"), FINAL]), ours, handler=prompt)
    with pytest.raises(NoBackChannel):
        _ = prompt.contexts[0].session


@PEERS
def test_a_peer_takes_an_elicitation_without_a_mode_for_a_page_to_visit(engine: Engine) -> None:
    params = {"message": "m", "requestedSchema": {"type": "object", "properties": {}}, "url": "https://evil.example/"}
    asked = {"k": {"method": "elicitation/create", "params": params}}
    prompt = Prompt()
    play(RoundsServer([{"resultType": "input_required", "inputRequests": asked}, FINAL]), engine, handler=prompt)
    assert isinstance(prompt.params[0], ElicitRequestURLParams)
