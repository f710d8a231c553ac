"""The parameters of a request to the authorization server: a query, or a form's body. No I/O.

- [size] There are at most `MAX_FORM_BYTES` bytes and `MAX_PARAMETERS` parameters.
- [spelling] The text is ASCII. A percent sign begins an encoded byte, and the decoded text is UTF-8 without control
  characters.
- [once] No parameter is repeated (RFC 6749 section 3.1), not even an unknown one: a reader of the first and a reader of
  the last would see different requests. One without a value counts as absent.
"""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote_plus

from accredit.errors import OAuthError

MAX_FORM_BYTES = 16_384
"""The most bytes of a query or form. The longest real ones hold a state of some 2 KiB; a refresh token is short."""
MAX_PARAMETERS = 32
"""The most parameters of a request. OAuth and OpenID Connect together define fewer for one request."""

_SPELLING = re.compile(rb"(?:[!-$&-~]|%[0-9A-Fa-f]{2})*")
"""Printable ASCII, with complete encoded bytes. Unlike RFC 3986, this allows characters that a client forgot to encode,
as their meaning is clear."""


class Parameters:
    """A request's parameters, by name. The `repr` shows no values, as some are secret."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    def __repr__(self) -> str:
        return "<Parameters>"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return []

    def get(self, name: str) -> str:
        """Return a value; "" if it is absent."""
        return self._values.get(name, "")

    def require(self, name: str, error: str = "invalid_request") -> str:
        """Return a value. Raises `OAuthError` if it is absent."""
        value = self.get(name)
        if not value:
            raise OAuthError(error, f"{name} is missing")
        return value


def read_parameters(text: bytes) -> Parameters:
    """Read a query or a form ([size] to [once]). Raises `OAuthError`, which does not quote the input."""
    if len(text) > MAX_FORM_BYTES:
        raise OAuthError("invalid_request", f"more than {MAX_FORM_BYTES} bytes")
    if not _SPELLING.fullmatch(text):
        raise OAuthError("invalid_request", "a character that is not encoded, or encoded wrongly")
    pairs = [pair for pair in text.decode("ascii").split("&") if pair]
    if len(pairs) > MAX_PARAMETERS:
        raise OAuthError("invalid_request", f"more than {MAX_PARAMETERS} parameters")
    values: dict[str, str] = {}
    for pair in pairs:
        name, value = map(_decode, pair.partition("=")[::2])
        if name in values:
            raise OAuthError("invalid_request", "a parameter comes twice")
        values[name] = value
    return Parameters(values)


def _decode(text: str) -> str:
    try:
        decoded = unquote_plus(text, errors="strict")
    except UnicodeDecodeError:
        raise OAuthError("invalid_request", "an encoded text is not UTF-8") from None
    if any(char < " " or "\x7f" <= char < "\xa0" for char in decoded):
        raise OAuthError("invalid_request", "a control character")
    return decoded
