"""Sending to a collector of telemetry: OTLP over HTTP. I/O: the network.

1. No proxy, credential or certificate from the environment, and no redirect.
2. One request at a time, within one time limit for all of it; at most `MAX_COLLECTOR_BYTES` of the answer are read.
3. Only its status counts. Nothing that the collector says is in an error.
"""

import asyncio

import httpx2

from accredit.errors import CollectorError
from accredit.limits import MAX_COLLECTOR_BYTES
from accredit.net.fetch import trust

_HEADERS = {"content-type": "application/x-protobuf", "accept-encoding": "identity", "user-agent": "accredit"}


class Collector:
    """The one at `url`, for one event loop."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._client = httpx2.AsyncClient(verify=trust(), trust_env=False, follow_redirects=False, headers=_HEADERS)

    async def send(self, path: str, body: bytes, timeout: float) -> None:
        """Send a message within `timeout` seconds. Raises `CollectorError` if it may not have been taken."""
        try:
            async with asyncio.timeout(timeout), self._client.stream("POST", self._url + path, content=body) as answer:
                if not answer.is_success:
                    raise CollectorError(f"status {answer.status_code}")
                read = 0
                async for chunk in answer.aiter_raw():
                    read += len(chunk)
                    if read > MAX_COLLECTOR_BYTES:
                        return  # it was taken; the connection is closed
        except TimeoutError:
            raise CollectorError(f"no answer within {timeout:g} s") from None
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, OSError, ValueError) as error:
            raise CollectorError(type(error).__name__) from None

    async def aclose(self) -> None:
        """Close its connection."""
        await self._client.aclose()
