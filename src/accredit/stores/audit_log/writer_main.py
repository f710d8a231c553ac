"""The process that writes a gateway's log. Its command-line argument is DESCRIPTOR: the file descriptor of one end of a
socket to its gateway.

It signs and writes on a core of its own, one request after the other (`channel`). It ends when its gateway closes the
socket or dies. It is started with all signals blocked, as signals are for its gateway. I/O: the socket, the log's file
or database.
"""

import asyncio
import contextlib
import gc
import logging
import socket
import sqlite3
import sys
import time
from io import BufferedReader
from typing import Any

from accredit.attest import LogSigner
from accredit.base.deferred import load
from accredit.errors import AccreditError
from accredit.stores.audit_log.author import Author
from accredit.stores.audit_log.channel import (
    LENGTH,
    decode_opening,
    decode_request,
    encode_answer,
    encode_ended,
    encode_failure,
)
from accredit.stores.audit_log.file_tables import FileTables
from accredit.stores.audit_log.requests import AnyRequest, DatabaseLog, FileLog
from accredit.stores.audit_log.tables import ChainEnded, at_once
from accredit.stores.sqlite.database import Database

_LATE = "what was asked before took too long"


def main(descriptor: int) -> None:
    """Serve the gateway at the other end of a socket until it closes."""
    with socket.socket(fileno=descriptor) as channel, channel.makefile("rb") as frames:
        opening = _next(frames)
        if opening is None:
            return
        # So that the first record does not wait for them.
        load("cryptography.hazmat.primitives.asymmetric.mldsa", "nacl.bindings")
        logging.getLogger("accredit").setLevel(logging.CRITICAL)  # the gateway logs the same for its own connection
        gc.freeze()  # the loaded modules stay: no need to scan them again
        with contextlib.suppress(ConnectionError):  # the gateway is gone
            said = decode_opening(opening)
            signer = LogSigner(said.key_id, said.ed25519, said.ml_dsa_65)
            match said.place:
                case FileLog():
                    _serve_file(channel, frames, said.place, signer)
                case DatabaseLog():
                    asyncio.run(_serve_database(channel, said.place, signer))


def _serve_file(channel: socket.socket, frames: BufferedReader, place: FileLog, signer: LogSigner) -> None:
    database, author = Database(place.path, place.synchronous), Author(signer, place.gateway, place.trusted)

    def answer(request: AnyRequest, deadline: float) -> object:
        def job(connection: sqlite3.Connection) -> object:
            author.take_written()  # drop what was rolled back
            return at_once(request.run(FileTables(connection), author))

        answered = database.transact_waiting(job, writes=True, deadline=deadline)
        author.settle(author.take_written())
        return answered

    with contextlib.closing(database):
        channel.sendall(encode_answer(None))
        while (body := _next(frames)) is not None:
            request, deadline = decode_request(body)
            if time.monotonic() >= deadline:
                channel.sendall(encode_failure(_LATE))
                continue
            try:
                done = encode_answer(answer(request, deadline))
            except AccreditError as error:
                done = _failure(error)
            channel.sendall(done)


async def _serve_database(channel: socket.socket, place: DatabaseLog, signer: LogSigner) -> None:
    from accredit.stores.postgres.log_writer import DatabaseWriter  # noqa: PLC0415 - a file needs none of it

    frames, answers = await asyncio.open_connection(sock=channel)
    database = DatabaseWriter(place, signer)
    try:
        answers.write(encode_answer(None))
        while (body := await _next_of(frames)) is not None:
            request, deadline = decode_request(body)
            if time.monotonic() >= deadline:
                answers.write(encode_failure(_LATE))
                continue
            try:
                done = encode_answer(await database.run(_any(request)))
            except AccreditError as error:
                done = _failure(error)
            answers.write(done)
    finally:
        await database.aclose()


def _any(request: AnyRequest) -> Any:
    return request


def _failure(error: AccreditError) -> bytes:
    return encode_ended(error) if isinstance(error, ChainEnded) else encode_failure(str(error))


def _next(frames: BufferedReader) -> bytes | None:
    """Return the next frame's body, or None if the stream has ended, even within a frame."""
    length = frames.read(LENGTH.size)
    if len(length) < LENGTH.size:
        return None
    (size,) = LENGTH.unpack(length)
    body = frames.read(size)
    return body if len(body) == size else None


async def _next_of(frames: asyncio.StreamReader) -> bytes | None:
    """Return the next frame's body as `_next` does, from an asynchronous stream."""
    try:
        (size,) = LENGTH.unpack(await frames.readexactly(LENGTH.size))
        return await frames.readexactly(size)
    except asyncio.IncompleteReadError:
        return None


if __name__ == "__main__":
    main(int(sys.argv[1]))
