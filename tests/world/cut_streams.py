"""A server whose streams are cut off and resumed. I/O: through the connections of a `RawServer`."""

from tests.world.calls import SESSION, STREAM_HEAD, chunk, event, http, initialized, log_message
from tests.world.raw_server import Connection


class CutStreams:
    """A legacy server for `RawServer`: begins a stream for each call; `cut` breaks it off there, and it goes on in one
    of `resumed`."""

    def __init__(self) -> None:
        self.cut = True
        self.resumed: list[Connection] = []

    async def __call__(self, connection: Connection) -> None:
        while (request := await connection.request()) is not None:
            if request.method == "DELETE":
                await connection.send(http(b"", None, status="204 No Content"))
            elif request.method == "GET":
                self.resumed.append(connection)
                await connection.send(STREAM_HEAD)
                await connection.peer_closed()
                return
            elif b'"initialize"' in request.body:
                await connection.send(http(initialized(), headers=(("Mcp-Session-Id", SESSION),)))
            else:
                await connection.send(STREAM_HEAD, chunk(event(log_message(), id="1")))
                if not self.cut:
                    await connection.peer_closed()
                return
