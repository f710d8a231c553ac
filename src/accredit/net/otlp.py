"""Sends to a telemetry collector: OTLP over HTTP. I/O: the network.

- [environment] No proxy, credential or certificate is taken from the environment, and no redirect is followed. No
  cookie is kept: nothing from the collector is stored, or sent back.
- [bounds] One request is sent at a time, with a time limit. Its response takes little work: an endless head (such as
  repeated 100 Continue) must not starve calls (`fetch`, [work]). At most `MAX_COLLECTOR_BYTES` of its body are read.
- [status] A success status means that the message was accepted, whatever follows it. Sending is repeated only for what
  OTLP 1.x names ("OTLP/HTTP Response", "Failures"): 429, 502, 503, 504, and no response. `Retry-After` is honoured, up
  to `MAX_RETRY_AFTER_SECONDS`.
- [secrecy] Errors quote nothing from the collector.
"""

import asyncio
from email.utils import parsedate_to_datetime
from http.cookiejar import CookieJar
from typing import Any

import httpx2

from accredit.base.clock import unix_seconds
from accredit.errors import CollectorError
from accredit.net.fetch import NETWORK_ERRORS, plain_client, read_body

MAX_COLLECTOR_BYTES = 65_536
"""How many bytes of a collector's answer are read. It only says how many records were rejected, and why."""
MAX_RETRY_AFTER_SECONDS = 300.0
"""The longest pause, in seconds, that a collector can ask for (`Retry-After`). If it asks for a year, we try again
after this time."""


_PROTOBUF = "application/x-protobuf"
_HEADERS = {"content-type": _PROTOBUF, "accept-encoding": "identity", "user-agent": "accredit"}
_PASSING = frozenset({429, 502, 503, 504})
_SECONDS_DIGITS = 9


class Collector:
    """The collector at `url`, for one event loop."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._client = plain_client(MAX_COLLECTOR_BYTES, headers=_HEADERS, cookies=_NoCookies())

    async def send(self, path: str, body: bytes, timeout: float) -> bytes:
        """Send a message within `timeout` seconds. Return the body of a success; b"" if that is unreadable. Raises
        `CollectorError` if the message may not have been accepted."""
        was_taken = False
        try:
            async with (
                asyncio.timeout(timeout),
                self._client.stream("POST", self._url + path, content=body) as answer,
            ):
                was_taken, status = answer.is_success, answer.status_code
                if not was_taken:
                    wait = _wait(answer.headers.get("retry-after", ""))
                    raise CollectorError(f"status {status}", passing=status in _PASSING, wait=wait)
                return await _message(answer)
        except TimeoutError:
            problem = f"no answer within {timeout:g} s"
        except NETWORK_ERRORS as error:
            problem = type(error).__name__
        if was_taken:
            return b""
        raise CollectorError(problem)

    async def aclose(self) -> None:
        """Close the connection to the collector."""
        await self._client.aclose()


class _NoCookies(CookieJar):
    def extract_cookies(self, response: Any, request: Any) -> None:
        """Store no cookie."""


async def _message(answer: httpx2.Response) -> bytes:
    read = await read_body(answer, MAX_COLLECTOR_BYTES)
    if read is None:
        return b""  # the connection is closed
    kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    is_plain = answer.headers.get("content-encoding", "identity") == "identity"
    return read if is_plain and kind == _PROTOBUF else b""


def _wait(text: str) -> float:
    """Return the seconds that a `Retry-After` asks for (RFC 9110, section 10.2.3); 0 if it is invalid."""
    if text.isascii() and text.isdigit():
        return float(min(int(text[:_SECONDS_DIGITS]), MAX_RETRY_AFTER_SECONDS))
    try:
        seconds = parsedate_to_datetime(text).timestamp() - unix_seconds()
    except (ValueError, TypeError, IndexError, OverflowError, OSError):
        return 0.0
    return min(max(seconds, 0.0), MAX_RETRY_AFTER_SECONDS)
