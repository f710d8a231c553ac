"""The protocol between a gateway and the process that writes its log (`process`, `writer_main`). No I/O.

Both ends are this program, on one machine, and nobody else has an end of the socket between them. A frame is a length
(4 bytes, little-endian) and as many bytes. The first frame to the process is `WriterSetup`. Each later frame is a
request. It begins with a deadline (8 bytes, a double: seconds of this machine's monotonic clock), after which nobody
waits for the answer. Then comes the request in MessagePack.

Answers come in the order of the requests. An answer begins with one of these:

- OK: the answer in MessagePack follows;
- NOT_OK: a text for people follows;
- ENDED: the name of the writer whose chain has ended follows;
- TAKEN: the name of the writer whose chain is not where it was left follows.
"""

import os
import struct
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from accredit.stores.audit_log.requests import AnyRequest, LogPlace, WriterRequest
from accredit.stores.audit_log.tables import ChainEnded, ChainTaken

OK, NOT_OK, ENDED, TAKEN = b"\0", b"\1", b"\2", b"\3"
LENGTH = struct.Struct("<I")
_DEADLINE = struct.Struct("<d")

_encode = msgspec.msgpack.Encoder().encode
_decode_request = msgspec.msgpack.Decoder(AnyRequest).decode


class WriterSetup(Struct, frozen=True):
    """What the process needs: the log's place, and the key to sign with.

    It holds secrets, which its `repr` does not show. A database's password is not among them: the process finds the
    password in the same way as the gateway.
    """

    place: LogPlace
    key_id: str
    ed25519: bytes
    ml_dsa_65: bytes

    def __repr__(self) -> str:
        return f"<Opening {self.key_id}>"


def encode_frame(body: bytes) -> bytes:
    """Encode a frame."""
    return LENGTH.pack(len(body)) + body


def encode_opening(opening: WriterSetup) -> bytes:
    """Encode the first frame."""
    return encode_frame(msgspec.msgpack.encode(opening, enc_hook=_path_bytes))


def decode_opening(body: bytes) -> WriterSetup:
    """Decode the body of the first frame."""
    return msgspec.msgpack.decode(body, type=WriterSetup, dec_hook=_path)


def encode_request(request: WriterRequest[Any], deadline: float) -> bytes:
    """Encode a request's frame."""
    return encode_frame(_DEADLINE.pack(deadline) + _encode(request))


def decode_request(body: bytes) -> tuple[AnyRequest, float]:
    """Decode the request in a frame's body, and its deadline."""
    return _decode_request(memoryview(body)[_DEADLINE.size :]), *_DEADLINE.unpack_from(body)


def encode_answer(answer: object) -> bytes:
    """Encode an answer's frame."""
    return encode_frame(OK + _encode(answer))


def encode_failure(text: str) -> bytes:
    """Encode a failure's frame."""
    return encode_frame(NOT_OK + text.encode("utf-8", "replace"))


def encode_ended(ended: ChainEnded) -> bytes:
    """Encode the frame for a writer's chain that has ended, or is not where it was left."""
    return encode_frame((TAKEN if isinstance(ended, ChainTaken) else ENDED) + ended.writer.encode())


def _path_bytes(path: Any) -> bytes:
    if not isinstance(path, Path):
        raise NotImplementedError
    return os.fsencode(path.absolute())


def _path(kind: type, value: Any) -> Path:
    if kind is not Path:
        raise NotImplementedError
    return Path(os.fsdecode(value))
