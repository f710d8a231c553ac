"""Seals `requestState` on its way to the client, and opens it on its way back. Also has the keys for other things that
clients return. No I/O: time and randomness are arguments.

A returned state is only a claim of the client (2026-07-28, basic/patterns/mrtr, "Server Requirements"). A sealed state
can be neither read nor changed. It opens only for the principal and the request for which it was made, and only in
time:

    "s1." base64url( key id (8 bytes) | nonce (12) | AES-256-GCM ciphertext and tag )

The associated data are the version, the key's id, and the binding (`state_binding`). A sealed state opens only if:

- [length] its length is at most that of the longest state that may be sealed;
- [version] its version is known, and its base64 is canonical;
- [key] a key of the ring has that id;
- [tag] the tag is valid for this binding;
- [expiry] it has not expired.

Every failure has the same public text; the reason is for the program's log. Not checked: whether the state was returned
before. A leg may be repeated, and each repetition is authorized anew.

For other uses, keys are derived from these by HKDF-SHA256 with a label (`KeyRing.derived`), so that a text sealed for
one use does not open for another. `session_ids` is one such use.
"""

import base64
import hashlib
import hmac
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from accredit.base.caching import CachedProperty
from accredit.base.deferred import Deferred
from accredit.base.values import decodable
from accredit.canonical import decode_base64url, encode_base64url
from accredit.errors import ConfigurationError, SealError

if TYPE_CHECKING:
    from cryptography import exceptions
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.ciphers import aead
    from cryptography.hazmat.primitives.kdf import hkdf
else:
    exceptions = Deferred("cryptography.exceptions")
    hashes = Deferred("cryptography.hazmat.primitives.hashes")
    hkdf = Deferred("cryptography.hazmat.primitives.kdf.hkdf")
    aead = Deferred("cryptography.hazmat.primitives.ciphers.aead")

MAX_STATE_BYTES = 262_144
"""The most UTF-8 bytes of an upstream's `requestState`. In known servers it is a cursor or a small sealed object. It
comes back with every leg, in a request of at most 4 MiB."""
MAX_FLOW_BYTES = 64
"""The most UTF-8 bytes of the name of a flow (all legs of one call), which is sealed with a state. Our names have
32."""
MAX_STATE_KEYS = 16
"""The most keys that can open a `requestState`. A rotation needs two. People have to find each key in a file."""


KEY_BYTES = 32
NONCE_BYTES = 12
_BINDING_BYTES = 32

_VERSION = "s1."
_CHANGED = "changed, or sealed for another principal or request"
_KEY_ID_BYTES = 8
_TAG_BYTES = 16
_OVERHEAD_BYTES = 256  # at most: the key's id, nonce and tag, a flow's name, two integers
_MAX_TEXT = len(_VERSION) + (MAX_STATE_BYTES + _OVERHEAD_BYTES) * 4 // 3


@decodable
class FlowState(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What is sealed: the upstream's own `state` (None if it gave none), and from which call and round it came.

    `flow` is the name of the call, shared by all its legs. `round` is 1 for the call's first `input_required` result,
    2 for the second, and so on. `expires_at` is the last unix second at which the seal opens.
    """

    state: str | None
    flow: str
    round: int
    expires_at: int


class _Key(Struct, frozen=True, dict=True):
    id: bytes
    key: bytes

    def __repr__(self) -> str:
        return f"<_Key {self.id.hex()}>"

    @CachedProperty
    def cipher(self) -> "aead.AESGCM":
        return aead.AESGCM(self.key)


class KeyRing:
    """Keys of 32 bytes. The first one seals; all of them open. Nothing here shows them."""

    __slots__ = ("_keys",)

    def __init__(self, keys: Sequence[bytes]) -> None:
        """Raise `ValueError` for no keys, too many, or one of another length."""
        if not 0 < len(keys) <= MAX_STATE_KEYS:
            raise ValueError(f"a key ring has 1 to {MAX_STATE_KEYS} keys")
        if any(len(key) != KEY_BYTES for key in keys):
            raise ValueError(f"a key has {KEY_BYTES} bytes")
        self._keys = [_Key(_key_id(key), key) for key in keys]

    def seal(self, sealed: FlowState, binding: bytes, nonce: bytes) -> str:
        """Return the sealed text for the client, in place of the state.

        `binding` is that of the answered request (`state_binding`). `nonce` is 12 bytes that were never used before:
        random ones, for at most 2**32 states per key. Raises `SealError` for a state that is too long or not UTF-8, and
        `ValueError` for wrong lengths.
        """
        _check_bounds(sealed)
        return self.lock(_VERSION, msgspec.msgpack.encode(sealed), _check_binding(binding), nonce)

    def open(self, text: str, binding: bytes, now: int) -> FlowState:
        """Open what was sealed for a request with this binding. `now` is in unix seconds. Raises `SealError`."""
        if len(text) > _MAX_TEXT:
            raise SealError("too long")
        try:
            opened = msgspec.msgpack.decode(self.unlock(_VERSION, text, _check_binding(binding)), type=FlowState)
        except msgspec.MsgspecError:
            raise SealError(_CHANGED) from None
        if now > opened.expires_at:
            raise SealError("expired")
        return opened

    def lock(self, version: str, data: bytes, binding: bytes, nonce: bytes) -> str:
        """Return `version` and the sealed `data`. `unlock` opens it for the same version and binding.

        Raises `ValueError` for a nonce of another length.
        """
        if len(nonce) != NONCE_BYTES:
            raise ValueError(f"a nonce has {NONCE_BYTES} bytes")
        key = self._keys[0]
        sealed = key.cipher.encrypt(nonce, data, _associated_data(version, key, binding))
        return version + encode_base64url(key.id + nonce + sealed).decode()

    def unlock(self, version: str, text: str, binding: bytes) -> bytes:
        """Open a sealed text, by [version] to [tag]. The caller must have checked the text's length. Raises
        `SealError`."""
        id, nonce, sealed = _parts(version, text)
        key = next((key for key in self._keys if key.id == id), None)
        if key is None:
            raise SealError("no key of this ring")
        try:
            return key.cipher.decrypt(nonce, sealed, _associated_data(version, key, binding))
        except exceptions.InvalidTag:
            raise SealError(_CHANGED) from None

    def tag(self, data: bytes) -> bytes:
        """Return a 16-byte tag of `data`, made with the key that seals. Use a ring that was `derived` for tags."""
        return _tag(self._keys[0], data)

    def has_tagged(self, tag: bytes, data: bytes) -> bool:
        """Return whether a key of the ring has made the tag of `data`."""
        return any(hmac.compare_digest(_tag(key, data), tag) for key in self._keys)

    def derived(self, label: bytes) -> "KeyRing":
        """Return the ring for another use: each of its keys is derived by HKDF-SHA256 with the label."""

        def derive(key: bytes) -> bytes:
            return hkdf.HKDF(hashes.SHA256(), KEY_BYTES, salt=None, info=label).derive(key)

        return KeyRing([derive(key.key) for key in self._keys])


def state_binding(principal: Sequence[str], method: str, target: str, params_digest: bytes) -> bytes:
    """Return the 32 bytes that tie a state to one request of one principal.

    `principal` has as many parts as needed; the first one names its kind: "token", with an issuer and a subject, or
    "proof", with a principal and an agent. It is empty if nobody is known. `params_digest` is the SHA-256 of the RFC
    8785 form of the params without `_meta`, `inputResponses` and `requestState`.
    """
    digest = hashlib.sha256(b"accredit requestState binding 1")
    for part in (*(text.encode("utf-8", "surrogatepass") for text in (*principal, method, target)), params_digest):
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.digest()


def parse_keys(text: str, named: str = "rounds.keys_file") -> KeyRing:
    """Read a key file: one base64 key per line, the sealing key first. `named` is the setting that names the file.
    Raises `ConfigurationError`, which quotes no key."""
    keys: list[bytes] = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            keys.append(_parse_key(line.strip(), number, named))
    if not 0 < len(keys) <= MAX_STATE_KEYS:
        raise ConfigurationError(
            f"{named} holds {len(keys)} keys", f"write 1 to {MAX_STATE_KEYS} keys into it, one a line"
        )
    return KeyRing(keys)


def _parse_key(line: str, number: int, named: str) -> bytes:
    try:
        key = base64.b64decode(line, validate=True)
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise ConfigurationError(
            f"{named}: line {number} is no base64 key of {KEY_BYTES} bytes",
            "make a key with `openssl rand -base64 32`",
        )
    return key


def _check_bounds(sealed: FlowState) -> None:
    try:
        size = len((sealed.state or "").encode())
    except UnicodeEncodeError:
        raise SealError("the state is no text in UTF-8") from None
    if size > MAX_STATE_BYTES:
        raise SealError(f"the state has more than {MAX_STATE_BYTES} bytes")
    if len(sealed.flow.encode()) > MAX_FLOW_BYTES:
        raise ValueError(f"the name of a flow has at most {MAX_FLOW_BYTES} bytes")


def _parts(version: str, text: str) -> tuple[bytes, bytes, bytes]:
    if not text.startswith(version):
        raise SealError("not sealed here")
    encoded = text.removeprefix(version)
    try:
        decoded = decode_base64url(encoded)
    except ValueError:
        raise SealError("no base64, or another spelling of it") from None
    nonce_end = _KEY_ID_BYTES + NONCE_BYTES
    if len(decoded) < nonce_end:
        raise SealError("too short")
    return decoded[:_KEY_ID_BYTES], decoded[_KEY_ID_BYTES:nonce_end], decoded[nonce_end:]


def _tag(key: _Key, data: bytes) -> bytes:
    return hmac.digest(key.key, data, "sha256")[:_TAG_BYTES]


def _key_id(key: bytes) -> bytes:
    return hashlib.sha256(b"accredit requestState key 1" + key).digest()[:_KEY_ID_BYTES]


def _associated_data(version: str, key: _Key, binding: bytes) -> bytes:
    return version.encode() + key.id + binding


def _check_binding(binding: bytes) -> bytes:
    if len(binding) != _BINDING_BYTES:
        raise ValueError(f"a binding has {_BINDING_BYTES} bytes")
    return binding
