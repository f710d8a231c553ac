"""The process that writes a gateway's log. Its command-line argument is DESCRIPTOR: the file descriptor of one end of a
socket to its gateway.

It signs and writes on a core of its own, one request after the other (`process`). It ends when its gateway closes the
socket or dies. It is started with all signals blocked, as signals are for its gateway. I/O: the socket, the log's file
or database.
"""

import asyncio
import contextlib
import gc
import logging
import socket
import sys
from typing import Any

from accredit.attest import LogSigner
from accredit.base.deferred import load
from accredit.errors import AccreditError
from accredit.stores.audit_log.process import (
    LENGTH,
    decode_opening,
    decode_request,
    encode_answer,
    encode_ended,
    encode_failure,
)
from accredit.stores.audit_log.requests import AnyRequest
from accredit.stores.audit_log.tables import ChainEnded
from accredit.stores.audit_log.writer import open_writer


def main(descriptor: int) -> None:
    """Serve the gateway at the other end of a socket until it closes."""
    with contextlib.suppress(ConnectionError):  # the gateway is gone
        asyncio.run(_converse(socket.socket(fileno=descriptor)))


async def _converse(channel: socket.socket) -> None:
    frames, answers = await asyncio.open_connection(sock=channel)
    with contextlib.closing(answers):
        opening = await _next(frames)
        if opening is not None:
            await _serve(frames, answers, opening)


async def _serve(frames: asyncio.StreamReader, answers: asyncio.StreamWriter, opening: bytes) -> None:
    # So that the first record does not wait for them.
    load("cryptography.hazmat.primitives.asymmetric.mldsa", "nacl.bindings")
    logging.getLogger("accredit").setLevel(logging.CRITICAL)  # the gateway logs the same for its own connection
    gc.freeze()  # the loaded modules stay: no need to scan them again
    said = decode_opening(opening)
    writer = open_writer(said.place, LogSigner(said.key_id, said.ed25519, said.ml_dsa_65))
    try:
        answers.write(encode_answer(None))
        while (body := await _next(frames)) is not None:
            request, deadline = decode_request(body)
            try:
                done = encode_answer(await writer.run(_any(request), deadline))
            except AccreditError as error:
                done = encode_ended(error) if isinstance(error, ChainEnded) else encode_failure(str(error))
            answers.write(done)
    finally:
        await writer.aclose()


def _any(request: AnyRequest) -> Any:
    return request


async def _next(frames: asyncio.StreamReader) -> bytes | None:
    """Return the next frame's body, or None if the stream has ended, even within a frame."""
    try:
        (size,) = LENGTH.unpack(await frames.readexactly(LENGTH.size))
        return await frames.readexactly(size)
    except asyncio.IncompleteReadError:
        return None


if __name__ == "__main__":
    main(int(sys.argv[1]))
