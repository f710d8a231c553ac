"""What travels beside a request and its answer: the header with a proof, and refusals over HTTP. No I/O.

- [header] `Ratify-Proof` is the base64url text, without padding, of a bundle's JSON (131,072 bytes at most). It has one
  spelling: text that another encoder would not have written is none.
- [problem] A refusal is a problem document (RFC 9457) with the code, the word and the data of the same refusal in MCP.
- [status] 401 asks for another proof: there was none, or it is used up or expired, or a challenge has to be signed. 403
  says that no new proof of the kind would help. 429 says when to come again, 503 that nothing could be decided.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from typing import cast

from accredit.base.text import excerpt
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
"""The characters that may be last, by how many stand in the last group of four: those without bits that decoding drops.
With others, several texts would be the same proof."""
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
"""How the reason begins of a refusal for want of a decision."""


def encode_proof_header(bundle: bytes) -> bytes:
    """Return the value of `Ratify-Proof` for a bundle's JSON."""
    return urlsafe_b64encode(bundle).rstrip(b"=")


def decode_proof_header(value: bytes) -> bytes | None:
    """Return the bundle's JSON in a value of `Ratify-Proof`, or None if it is none ([header])."""
    if not 0 < len(value) <= MAX_PROOF_HEADER_BYTES or value.translate(None, _BASE64URL):
        return None
    if value[-1] not in _LAST[len(value) % 4]:
        return None
    return urlsafe_b64decode(value + b"=" * (-len(value) % 4))


def status_of(refused: ProofRefused) -> int:
    """Return the status of a refusal over HTTP ([status])."""
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
    """Return the value of `WWW-Authenticate` for the data of a refusal: what a client needs for a proof that would be
    taken."""
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
