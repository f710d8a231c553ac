"""What `tests.world.running` promises: a test that goes wrong fails, and does not hang in uvloop's C code."""

import asyncio

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
