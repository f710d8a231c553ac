"""Health of the gateways that a desk knows, from their public `/readyz`. I/O: the network, bounded.

A desk knows the gateways that agents of this person have met (`known_gateways.json`), and those that a configuration
names. One that only an ask names is never asked. The rules, in order:

- [https] A gateway is asked by http or https. The answer is taken for the gateway's own only over https, or from this
  machine.
- [environment] No proxy from the environment is used, no redirect is followed, and no credentials are sent.
- [bounds] The answer must come within `HEALTH_SECONDS`, have at most `MAX_HEALTH_BYTES` and status 200 or 503, and have
  the shape of `/readyz`.
- [pause] A gateway that did not answer in time is not asked again for `HEALTH_REST_SECONDS`. A name look-up may occupy
  a thread for longer than the request's timeout, and the person's key needs threads as well.

Only words and booleans are taken from an answer; other members are ignored. Nothing proves an answer: a gateway that
lies, or another process on its port, can say anything.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from accredit.base.addresses import is_loopback_host
from accredit.base.clock import unix_ms
from accredit.base.values import members_of
from accredit.errors import ConfigurationError
from accredit.limits import HEALTH_SECONDS, MAX_ASKED_LISTS, MAX_HEALTH_BYTES
from accredit.net.fetch import JSON_HEADERS, NETWORK_ERRORS, plain_client, read_body

HEALTH_FRESH_SECONDS = 2.0
"""How long an answer of `/readyz` is shown before a gateway is asked again."""
HEALTH_REST_SECONDS = 30.0
"""How long to wait before a gateway that did not answer in time is asked again: about as long as the system's name
look-up takes to give up."""
MAX_ASKED_GATEWAYS = 32
"""How many gateways a desk asks for their health at one time. If it knows more, it asks the first ones."""


_STATUSES = ("ok", "not ready", "draining")
_MAX_PARTS = 100
_LATE = f"no answer within {HEALTH_SECONDS:g} s"


class GatewayHealth(Struct, frozen=True, kw_only=True):
    """A gateway's own report. `status` is "" without a report, and `problem` says why there is none. `parts` are those
    of `/readyz`. `has_list` says whether it uses one of the revocation lists asked about (None: it does not say).
    `clock_ahead` is by how many seconds, at least, its clock is ahead of this machine's."""

    ids: tuple[str, ...]
    address: str
    counts: bool = True
    has_list: bool | None = None
    status: str = ""
    parts: Mapping[str, bool] = {}
    clock_ahead: float | None = None
    problem: str = ""


class Gateways:
    """The known gateways: `known` returns their ids by URL, and may raise `ConfigurationError`."""

    def __init__(self, known: Callable[[], Mapping[str, str]]) -> None:
        self._known = known
        self._asked_at = float("-inf")
        self._asked_of: tuple[str, ...] = ()
        self._said: list[GatewayHealth] = []
        self.not_asked = 0
        """How many of the known gateways are not asked, as there are more than `MAX_ASKED_GATEWAYS`."""
        self._asking = asyncio.Lock()
        self._late: dict[str, float] = {}
        """The earliest time to ask a gateway again that did not answer in time, by its address."""

    async def ask(self, lists: Iterable[str] = (), *, anew: bool = False) -> list[GatewayHealth]:
        """Return all reports, at most `HEALTH_FRESH_SECONDS` old; with `anew`, all were asked for after this call
        began. `lists` are SHA-256 digests of revocation lists: each gateway is asked whether it uses one of them."""
        begun, wanted = time.monotonic(), tuple(sorted(set(lists)))[:MAX_ASKED_LISTS]
        async with self._asking:
            if self._asked_at < (begun if anew else begun - HEALTH_FRESH_SECONDS) or wanted != self._asked_of:
                asked_at = time.monotonic()
                found = list(self.addresses().items())
                query = "&".join(f"list={each}" for each in wanted)
                asking = (self._ask(address, ids, query) for address, ids in found[:MAX_ASKED_GATEWAYS])
                self._said = list(await asyncio.gather(*asking))
                self._asked_at, self._asked_of = asked_at, wanted
                self.not_asked = max(0, len(found) - MAX_ASKED_GATEWAYS)
            return self._said

    async def _ask(self, address: str, ids: tuple[str, ...], query: str) -> GatewayHealth:
        counts = address.startswith("https:") or is_loopback_host(urlsplit(address).hostname or "")
        said = GatewayHealth(ids=ids, address=address, counts=counts)
        if time.monotonic() < self._late.get(address, 0):
            return msgspec.structs.replace(said, problem=_LATE)
        try:
            async with asyncio.timeout(HEALTH_SECONDS):
                return await _ask(said, query)
        except TimeoutError:
            self._late[address] = time.monotonic() + HEALTH_REST_SECONDS
            return msgspec.structs.replace(said, problem=_LATE)

    def addresses(self) -> dict[str, tuple[str, ...]]:
        """Return the known gateway ids by address."""
        try:
            known = self._known()
        except ConfigurationError:
            return {}
        found: dict[str, tuple[str, ...]] = {}
        for url, gateway_id in sorted(known.items()):
            address = _address(url)
            if address:
                found[address] = tuple(dict.fromkeys((*found.get(address, ()), gateway_id)))
        return found


def _address(url: str) -> str:
    """Return `SCHEME://HOST:PORT` of a URL; "" if it can't be asked."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return ""
    if parts.scheme not in ("http", "https") or not host:
        return ""
    name = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{name}" + (f":{port}" if port is not None else "")


async def _ask(said: GatewayHealth, query: str) -> GatewayHealth:
    try:
        async with (
            plain_client(MAX_HEALTH_BYTES, headers=JSON_HEADERS) as client,
            client.stream("GET", f"{said.address}/readyz?{query}".rstrip("?")) as answer,
        ):
            now, date = unix_ms() / 1000, answer.headers.get("date", "")
            body = await read_body(answer, MAX_HEALTH_BYTES)
            status = answer.status_code
    except TimeoutError:
        raise
    except NETWORK_ERRORS as error:
        return msgspec.structs.replace(said, problem=f"no answer ({type(error).__name__})")
    members = _members(body) if body is not None and status in (200, 503) else None
    if members is None:
        return msgspec.structs.replace(said, problem="what answers there is no gateway of accredit")
    has_list = members.pop("list", None)
    return msgspec.structs.replace(
        said,
        status=str(members["status"]),
        parts=_parts(members),
        clock_ahead=_ahead(date, now),
        has_list=has_list if query and isinstance(has_list, bool) else None,
    )


def _members(body: bytes) -> dict[str, object] | None:
    try:
        members = msgspec.json.decode(body, type=dict[str, object])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return members if members.get("status") in _STATUSES else None


def _parts(members: Mapping[str, object]) -> dict[str, bool]:
    named = {f"server {name}": value for name, value in members_of(members.get("servers")).items()}
    found = {**{name: value for name, value in members.items() if name != "servers"}, **named}
    return dict([(name, value) for name, value in found.items() if isinstance(value, bool)][:_MAX_PARTS])


def _ahead(date: str, now: float) -> float | None:
    """Return by how many seconds a `Date` (whole seconds) is ahead of `now`. Return 0 if rounding may explain the
    difference."""
    try:
        said = parsedate_to_datetime(date).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None
    if said > now:
        return said - now
    return min(0.0, said + 1 - now)
