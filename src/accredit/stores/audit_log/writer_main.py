"""The process that writes a gateway's log. Its argument is DESCRIPTOR: one end of a socket to its gateway.

It signs and writes on a core of its own, one request after the other (`channel`). It ends when its gateway closes the
socket or dies. Signals are for its gateway, which starts it with all of them blocked. Blocking I/O: the socket, the
log's file.
"""

import contextlib
import gc
import os
import socket
import sqlite3
import sys
import time
from io import BufferedReader
from pathlib import Path

from accredit.attest import LogSigner
from accredit.base.deferred import load
from accredit.errors import AccreditError
from accredit.stores.audit_log.channel import (
    LENGTH,
    Opening,
    decode_opening,
    decode_request,
    encode_answer,
    encode_failure,
)
from accredit.stores.sqlite.database import Database


def main(descriptor: int) -> None:
    """Serve the gateway at the other end of a socket until it closes."""
    with socket.socket(fileno=descriptor) as channel, channel.makefile("rb") as frames:
        opening = _next(frames)
        if opening is None:
            return
        load("cryptography.hazmat.primitives.asymmetric.mldsa")  # the first record does not wait for it
        gc.freeze()  # the loaded modules stay: no need to scan them again
        with contextlib.suppress(ConnectionError):  # the gateway is gone: nobody is waiting
            _serve(channel, frames, decode_opening(opening))


def _serve(channel: socket.socket, frames: BufferedReader, opening: Opening) -> None:
    database = Database(Path(os.fsdecode(opening.path)), opening.synchronous)
    signer = LogSigner(opening.key_id, opening.ed25519, opening.ml_dsa_65)
    with contextlib.closing(database):
        channel.sendall(encode_answer(None))
        while (body := _next(frames)) is not None:
            channel.sendall(_answer(body, database, signer))


def _answer(body: bytes, database: Database, signer: LogSigner) -> bytes:
    request, deadline = decode_request(body)
    if time.monotonic() >= deadline:
        return encode_failure("what was asked before took too long")

    def job(connection: sqlite3.Connection) -> object:
        return request.run(connection, signer)

    try:
        answer = database.transact_waiting(job, writes=True, deadline=deadline)
    except AccreditError as error:
        return encode_failure(str(error))
    return encode_answer(answer)


def _next(frames: BufferedReader) -> bytes | None:
    """Return the next frame's body, or None at the end of the stream, even within a frame."""
    length = frames.read(LENGTH.size)
    if len(length) < LENGTH.size:
        return None
    (size,) = LENGTH.unpack(length)
    body = frames.read(size)
    return body if len(body) == size else None


if __name__ == "__main__":
    main(int(sys.argv[1]))
