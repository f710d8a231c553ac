"""Clients' ids of legacy sessions. They are sealed: only a process with the keys can make or read an id. No I/O: time
and randomness are arguments.

    "a1." base64url( key id (8 bytes) | nonce (12) | AES-256-GCM ciphertext and tag )
    "a1." node "." base64url( ... )

The second form is for a session that lives in one process. `node` names that process, so that a load balancer can read
it: 16 hex characters, drawn when the process started. The text before the base64url is associated data. An id can be
opened if:

- [prefix] its prefix is that of this process's ids;
- [spelling] its base64url is the only allowed spelling of its bytes, without padding;
- [key] a key of the ring made it (`rounds.sealing`; keys for session ids are derived from the ring's, by HKDF);
- [server] it was made for the same server and one of its replicas, less than `SESSION_ID_SECONDS` ago.

Every failure is a `SealError`, whose reason is shown nowhere. The sealed state names the owner (`subject`), which
`callers` compares. The length was checked before (`MAX_SEALED_SESSION_ID_BYTES`).
"""

import hashlib
from collections.abc import Collection

import msgspec
from msgspec import Struct

from accredit.base.caching import CachedProperty
from accredit.base.values import decodable
from accredit.errors import SealError
from accredit.limits import MAX_SESSION_ID_BYTES, SESSION_ID_SECONDS
from accredit.rounds.sealing import KeyRing

Principal = tuple[str, str]
"""A token's issuer and subject; two empty strings without a token."""

_VERSION = "a1."
_LABEL = b"accredit session ids 1"
_SUBJECT_BYTES = 16
REVISION_CHARS = 32


@decodable
class SessionState(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The sealed state: the server's name in `[servers]` ("" for `[upstream]`) and the session's replica, the session's
    id there, its revision ("" if unknown), its owner (`subject_of`), when it was sealed (unix seconds), and whether its
    client can show people the page at a URL."""

    server: str
    replica: str
    id: bytes
    revision: str
    subject: bytes
    issued_at: int
    shows_pages: bool = False


class SessionIds:
    """Seals and opens ids with the keys of `ring`, for sessions at `server`. With a `node`, the sessions live in this
    process. `replicas` are the names of the replicas at which sessions may live. A single replica is called ""."""

    def __init__(self, ring: KeyRing, node: str = "", replicas: Collection[str] = ("",), *, server: str = "") -> None:
        self._replicas = frozenset(replicas)
        self._shared_ring = ring
        self._server = server
        self.node = node
        self._version = f"{_VERSION}{node}." if node else _VERSION

    @CachedProperty
    def _ring(self) -> KeyRing:
        return self._shared_ring.derived(_LABEL)

    def seal(
        self,
        id: bytes,
        revision: str,
        subject: bytes,
        now: int,
        nonce: bytes,
        replica: str = "",
        *,
        shows_pages: bool = False,
    ) -> bytes:
        """Return the client's id for the server's `id`. `nonce` is 12 random bytes.

        Raises `SealError` if the server's id is too long.
        """
        if len(id) > MAX_SESSION_ID_BYTES:
            raise SealError(f"a session's id of more than {MAX_SESSION_ID_BYTES} bytes")
        named = revision.encode("ascii", "replace")[:REVISION_CHARS].decode("ascii")
        state = SessionState(self._server, replica, id, named, subject, now, shows_pages)
        # Left out if it is false: gateways of earlier versions can open such an id.
        sealed = state if shows_pages else msgspec.structs.astuple(state)[:-1]
        return self._ring.lock(self._version, msgspec.msgpack.encode(sealed), b"", nonce).encode("ascii")

    def open(self, value: bytes) -> SessionState:
        """Open an id, and check it by [prefix] to [server], but not its age. Raises `SealError`."""
        data = self._ring.unlock(self._version, value.decode("latin-1"), b"")
        try:
            state = msgspec.msgpack.decode(data, type=SessionState)
        except (msgspec.MsgspecError, UnicodeDecodeError):  # the latter for text that is not UTF-8
            raise SealError("another form of state") from None
        if state.server != self._server or state.replica not in self._replicas:
            raise SealError("for another server")
        return state


def is_current(state: SessionState, now: int) -> bool:
    """Return whether an id has not expired ([server])."""
    return now - state.issued_at < SESSION_ID_SECONDS


def subject_of(principal: Principal) -> bytes:
    """Return a principal's digest, of 16 bytes. It is computed over the principal's parts, each preceded by its
    length."""
    digest = hashlib.sha256(b"accredit session subject 1")
    for part in (text.encode("utf-8", "surrogatepass") for text in principal):
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.digest()[:_SUBJECT_BYTES]
