"""The header that carries a proof, and refusals in the form of HTTP. No I/O.

- [header] `Ratify-Proof` is the base64url text, without padding, of a bundle's JSON (131,072 bytes at most). Only one
  spelling is accepted: exactly the text that an encoder writes.
- [problem] A refusal is a problem document (RFC 9457). Its code, error word and data are those that the refusal has in
  MCP.
- [status] 401 asks for another proof: there was none, or it is used up or expired, or a challenge has to be signed. 403
  says that another proof of the same kind would not help. 429 says when to try again. 503 says that no decision was
  possible.
"""

from collections.abc import Mapping
from typing import cast

import msgspec

from accredit.base.text import excerpt
from accredit.canonical import encode_base64url
from accredit.errors import ProofRefused
from accredit.jsonrpc.encode import to_json
from accredit.limits import MAX_PROOF_BUNDLE_BYTES
from accredit.refusals import (
    CHALLENGE_REQUIRED,
    DEFINITION_CHANGED,
    MISSING,
    QUOTA_EXCEEDED,
    RECORD_UNAVAILABLE,
    REPLAYED,
    TOO_MANY_CHALLENGES,
)

PROOF_HEADER = "Ratify-Proof"
MAX_PROOF_HEADER_BYTES = (MAX_PROOF_BUNDLE_BYTES * 4 + 2) // 3
"""The longest value of `Ratify-Proof`: the largest bundle, in base64url."""
PROBLEM_TYPE = b"application/problem+json"

_BASE64URL = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_LAST = {0: _BASE64URL, 1: b"", 2: b"AQgw", 3: b"AEIMQUYcgkosw048"}
"""Which characters may be the last, by the length of the text modulo 4. Others have bits that decoding drops: several
texts would then be the same proof."""
_NOT_OURS = b'+/="\\'
"""Characters that would mean something else to the decoder, which takes a JSON string of base64 in its other alphabet.
It is five times as fast as Python's, on some 17 kB for each request. It refuses what else is not of the alphabet."""
_decode_base64 = msgspec.json.Decoder(bytes).decode
_STATUSES = {
    MISSING: 401,
    CHALLENGE_REQUIRED: 401,
    REPLAYED: 401,
    RECORD_UNAVAILABLE: 503,
    TOO_MANY_CHALLENGES: 429,
    QUOTA_EXCEEDED: 429,
    DEFINITION_CHANGED: 403,
}
_NO_ANSWER = "store_unavailable"
"""How the reason of a refusal begins if no decision was possible."""


def encode_proof_header(bundle: bytes) -> bytes:
    """Return the value of `Ratify-Proof` for a bundle's JSON."""
    return encode_base64url(bundle)


def decode_proof_header(value: bytes) -> bytes | None:
    """Decode a value of `Ratify-Proof` to the bundle's JSON. Return None if it is invalid ([header])."""
    if not 0 < len(value) <= MAX_PROOF_HEADER_BYTES or value[-1] not in _LAST[len(value) % 4]:
        return None
    if any(each in value for each in _NOT_OURS):
        return None
    text = value.replace(b"-", b"+").replace(b"_", b"/")
    try:
        return _decode_base64(b'"%b%b"' % (text, b"=" * (-len(value) % 4)))
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def status_of(refused: ProofRefused) -> int:
    """Return the HTTP status of a refusal ([status])."""
    if str(refused.data.get("reason", "")).startswith(_NO_ANSWER):
        return 503
    if refused.error == "ratify_expired":
        return 401
    return _STATUSES.get(refused.code, 403)


def retry_after(refused: ProofRefused) -> int | None:
    """Return after how many seconds the request may succeed, if the refusal says so."""
    seconds = refused.data.get("retry_after_seconds")
    return seconds if isinstance(seconds, int) else None


def problem(status: int, code: int, message: str, data: object) -> bytes:
    """Return a problem document ([problem]). Its members `code` and `data` are those of the error in MCP."""
    members: dict[str, object] = {"type": "about:blank", "status": status, "detail": message, "code": code}
    word = cast("Mapping[str, object]", data).get("error", "") if isinstance(data, Mapping) else ""
    return to_json({**members, "error": word, "data": data})


def authenticate(data: Mapping[str, object], verifier_id: str, workspace: str) -> bytes:
    """Return the value of `WWW-Authenticate` for a refusal with this data. It tells a client what an acceptable proof
    needs."""
    meta = cast("Mapping[str, object]", data.get("_meta", {}))
    challenge = cast("Mapping[str, object]", meta.get("ratify_challenge", {})).get("challenge")
    parameters = {
        "error": data.get("error"),
        "challenge": challenge,
        "verifier": verifier_id,
        "workspace": workspace,
        "scope": data.get("required_scope"),
        "binding": "required",
    }
    told = (f"{name}={_quote(str(value))}" for name, value in parameters.items() if value)
    return b"Ratify " + ", ".join(told).encode("ascii")


def _quote(value: str) -> str:
    """Return a quoted-string (RFC 9110 section 5.6.4)."""
    return '"' + excerpt(value, len(value)).replace("\\", "\\\\").replace('"', '\\"') + '"'
