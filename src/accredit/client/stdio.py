"""A stdio server as a transport: the official SDK's, with bounds on the server's output. Starts a process.

The SDK buffers and decodes lines of any length and content. Here a line is measured first. A line that is too long, or
has too many values, can't be matched to a request. So the connection ends, and waiting calls get an error.
"""

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import StdioServerParameters
from mcp.shared.message import SessionMessage

from accredit.client.messages import encode_message, read_message
from accredit.client.sdk import Incoming, TransportStreams, drain_child, open_child, stop_child
from accredit.errors import FrameError
from accredit.jsonrpc.lines import LineSplitter
from accredit.limits import MAX_ANSWER_BYTES, STOP_GRACE_SECONDS

_log = logging.getLogger("accredit.client")

_GONE = (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError, OSError)


@asynccontextmanager
async def over_stdio(server: StdioServerParameters) -> AsyncGenerator[TransportStreams]:
    """Start the server, and stop it at the end. Raises `OSError` if it can't be started."""
    child = await open_child(server)
    assert child.stdin is not None  # noqa: S101 - the SDK opens pipes
    assert child.stdout is not None  # noqa: S101
    # Nothing is awaited between the start and the group: a cancellation there would leave a process.
    to_reader, read = anyio.create_memory_object_stream[Incoming]()
    write, to_write = anyio.create_memory_object_stream[SessionMessage]()
    written = anyio.Event()

    async def hear(output: ByteReceiveStream) -> None:
        async with to_reader:
            await _hear(output, server, to_reader)
        await drain_child(child)  # else it might block on its output, and never end

    async def say(input: ByteSendStream) -> None:
        try:
            await _say(input, server, to_write)
        except _GONE:
            await to_reader.aclose()
        written.set()

    async with read, write, to_write, anyio.create_task_group() as tasks:
        tasks.start_soon(hear, child.stdout)
        tasks.start_soon(say, child.stdin)
        try:
            yield read, write
        finally:
            with anyio.CancelScope(shield=True):
                read.close()
                write.close()
                with anyio.move_on_after(STOP_GRACE_SECONDS):
                    await written.wait()
                await stop_child(child)
            tasks.cancel_scope.cancel()


async def _hear(
    output: ByteReceiveStream, server: StdioServerParameters, to_reader: MemoryObjectSendStream[Incoming]
) -> None:
    splitter = LineSplitter(MAX_ANSWER_BYTES)
    with suppress(*_GONE):
        while True:
            for line in splitter.feed(await output.receive()):
                try:
                    read = await _read(line, server)
                except FrameError as error:
                    _log.warning("the server's output is not read any further: %s", error.detail)
                    return
                await to_reader.send(read)


async def _say(
    input: ByteSendStream, server: StdioServerParameters, to_write: MemoryObjectReceiveStream[SessionMessage]
) -> None:
    async for item in to_write:
        text = encode_message(item.message) + b"\n"
        await input.send(_recode(text, "utf-8", server.encoding, server))


async def _read(line: bytes | FrameError, server: StdioServerParameters) -> Incoming:
    if isinstance(line, FrameError):
        raise line
    try:
        return await read_message(_recode(line, server.encoding, "utf-8", server))
    except UnicodeError as error:
        return error


def _recode(text: bytes, encoding: str, other: str, server: StdioServerParameters) -> bytes:
    if server.encoding == "utf-8":
        return text
    handler = server.encoding_error_handler
    return text.decode(encoding, handler).encode(other, handler)
