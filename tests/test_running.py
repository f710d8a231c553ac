"""What `tests.world.running` promises: a test that goes wrong fails, and does not hang in uvloop's C code; and what
`tests/conftest.py` does of the processes that run tests for another: they keep no results."""

import asyncio
from typing import Any

import pytest
from tests.world.running import run


async def listening() -> asyncio.AbstractServer:
    return await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", 0)


def test_what_a_test_leaves_open_fails_it() -> None:
    async def main() -> None:
        await listening()

    with pytest.raises(AssertionError, match="left open"):
        run(main())


def test_a_test_that_fails_with_something_open_fails_for_its_own_reason() -> None:
    async def main() -> None:
        await listening()
        raise AssertionError("its own")

    with pytest.raises(AssertionError, match="its own"):
        run(main())


def test_a_test_whose_time_is_up_ends() -> None:
    def time_is_up() -> None:
        raise pytest.fail.Exception("Timeout")

    async def main() -> None:
        asyncio.get_running_loop().call_soon(time_is_up)
        await asyncio.Event().wait()

    with pytest.raises(pytest.fail.Exception, match="Timeout"):
        run(main())


def test_a_process_that_runs_tests_for_another_keeps_no_results(request: pytest.FixtureRequest) -> None:
    if hasattr(request.config, "workerinput"):
        reporter: Any = request.config.pluginmanager.get_plugin("terminalreporter")
        assert [each.nodeid for reports in reporter.stats.values() for each in reports] == [request.node.nodeid]
