"""Checks the server's tools against their pinned definitions. Asks the server, as the current caller; logs.

A *look* is the tool list that the gateway requests for itself, to compare the definitions in it.

- [own-look] Before a call the gateway looks at the tools itself: a client's list may be older, or shown to that client
  alone. It asks the server that the call goes to, with the call's query, credentials, session and capabilities, so that
  it sees the same tools as this caller would.
- [fresh] A look is valid for `fresh_seconds`, for all calls that would cause the same request. That is: the same query,
  the same headers except for tracing, and the same `_meta`. Where a header tells the server who calls, the caller must
  be the same too. Callers whose looks are the same share one.
- [changed] A look becomes invalid earlier if the server reports changed tools (`notifications/tools/list_changed`, on
  any stream), or if a list in an answer to this caller shows another definition.
- [unread] If a list can't be read to its end in `LOOK_SECONDS`, or is ambiguous, there is no look, and the tools count
  as unknown. The same holds for HTTP+SSE of 2024-11-05, where the gateway can't ask.
- [bounds] There are bounds to the looks at one time, to the callers whose look is remembered, and to the bytes of what
  they found. For a caller that was forgotten, the gateway looks anew.
- [instructions] If the server's instructions (of `initialize`, `server/discover`) differ from the pinned ones, that is
  logged, and reported by `/readyz`.

Two cases are not covered. A server may recognize which list requests are the gateway's own, and answer these
differently. Even then a client sees only pinned definitions, as its list is filtered (`policy.lists`). And a server may
change a tool between the look and the call, within `fresh_seconds`, without reporting it.
"""

import asyncio
import hashlib
import itertools
import logging
from collections.abc import Callable, Mapping
from typing import NamedTuple

from accredit.base.caching import RecentlyUsed, RecentlyUsedInSize
from accredit.base.log_events import log_event
from accredit.base.steps import Steps
from accredit.base.text import excerpt
from accredit.errors import FrameError, ProofRefused
from accredit.gateway.admission.tool_directory import CARRIED, MAX_KNOWN_TOOL_NAME_CHARS, Ask, ask_for_list
from accredit.gateway.counters import Counters
from accredit.gateway.headers import LAST_EVENT_HEADER, RawHeaders
from accredit.jsonrpc.era import METHOD_HEADER, NAME_HEADER
from accredit.jsonrpc.frames import Request, Success
from accredit.jsonrpc.objects import as_string
from accredit.jsonrpc.param_headers import PARAM_HEADERS
from accredit.limits import MAX_DEFINITIONS
from accredit.pins.definitions import Definition, ListReader, Pins, digest_of_text
from accredit.policy import refusals
from accredit.policy.decision import Authority, FindDefinition, Look
from accredit.policy.guarded_call import GuardedCall
from accredit.policy.passing import CallerIdentity
from accredit.telemetry.tracing import trace_field
from accredit.tokens.claims import VerifiedToken

MAX_PINNED_CALLERS = 4_096
"""For how many callers the gateway remembers its last look at the tools. For others it looks again."""
MAX_DIFFERENCES_BYTES = 8_388_608
"""How many bytes may be used, for one server, to remember definitions that differ from the pinned ones. A look in which
all match takes none. A server that shows different tools to each caller may use up to 1 MiB for each. For a caller that
was forgotten, the gateway looks anew."""
MAX_DIFFERENCE_BYTES = 256
"""How many of these bytes one tool takes that differs from its pin: the text of a digest (113 bytes) and its place in a
table. The name of a tool that is not in the lock file is counted in addition."""
MAX_STRAY_DEFINITIONS = 16
"""For how many unpinned tools of one look the digests are remembered, to be named in refusals: up to 20 KB for each
caller. Ordinary servers get one or two new tools at a time; a hostile one lists thousands."""
MAX_LOOKS = 32
"""How many tool lists the gateway requests for itself at one time. Further calls wait, within `LOOK_SECONDS`."""
LOOK_SECONDS = 10.0
"""How long such a list may take, with all its pages. No call is forwarded without one, so a slow server can delay a
call by that time. Measured servers list a hundred tools in less than a second."""


_log = logging.getLogger("accredit.gateway.pins")
_OF_ONE_REQUEST = frozenset(
    {METHOD_HEADER, NAME_HEADER, b"traceparent", b"tracestate", LAST_EVENT_HEADER, b"content-length", b"accept"}
)


class UpstreamAccess(NamedTuple):
    """How the gateway asks the server on behalf of the current caller. `headers` and `query` are those of the caller's
    request that the gateway's own request repeats.

    If a header tells the server on whose authority a request is made, `speak` sets that authority for the gateway's
    next requests.
    """

    ask: Ask
    headers: RawHeaders
    query: bytes = b""
    speak: Callable[[CallerIdentity], None] | None = None


class _View:
    """What the server last showed to one caller. `differing` has the digests of tools that differ from their pins. A
    tool that is not listed has None. If nothing is known, `differing` itself is None."""

    def __init__(self) -> None:
        self.differing: Mapping[str, str | None] | None = None
        self.at = float("-inf")
        self.changes = -1
        self.failures = 0
        self.lock = asyncio.Lock()

    @property
    def size(self) -> int:
        """How many bytes of `MAX_DIFFERENCES_BYTES` this takes. Each character of a name counts as four."""
        return sum(MAX_DIFFERENCE_BYTES + 4 * len(name) for name in self.differing or ())


class PinnedTools:
    """Checks one server's tools."""

    def __init__(self, pins: Pins, counters: Counters) -> None:
        self.pins = pins
        self.instructions_changed = False
        """Whether the server's instructions, as last seen, differ from the pinned ones."""
        self._counters = counters
        self._views = RecentlyUsedInSize[bytes, _View](MAX_PINNED_CALLERS, MAX_DIFFERENCES_BYTES)
        self._logged = RecentlyUsed[bytes, bool](MAX_DEFINITIONS)
        self._looks = asyncio.Semaphore(MAX_LOOKS)

    async def check(self, call: Request, way: UpstreamAccess | None, token: VerifiedToken | None = None) -> None:
        """Refuse a call whose tool differs from its pin. Use this for calls that are decided without a proof. Raises
        `ProofRefused`."""
        name = call.target or ""
        found = await self.find(call, way, name, _speaker(None, token))
        if self.pins.enforced and (found is None or found != self.pins.tools.get(name)):
            raise _definition_refusal(call, name, self.pins.tools.get(name), found)

    async def find(
        self, call: Request, way: UpstreamAccess | None, name: str, speaker: CallerIdentity | None = None
    ) -> str | None:
        """Return the digest of the definition of a tool that the server shows to this caller, or None ([own-look] to
        [bounds])."""
        if way is None:
            return None
        key = _key(call, way, speaker)
        view = self._views.get(key)
        if view is None:
            self._views.put(key, view := _View())
        if not self._is_fresh(view):
            if way.speak is not None and speaker is not None:
                way.speak(speaker)
            await self._look(view, call, way)
            if self._views.peek(key) is view:  # else it was invalidated meanwhile
                self._views.put(key, view, view.size)
        if view.differing is None:
            return None
        return view.differing[name] if name in view.differing else self.pins.tools.get(name)

    def look(self, call: Request, way: UpstreamAccess | None, token: VerifiedToken | None) -> Look:
        """Return the function by which a decision finds the definition of one call's tool, before it grants
        anything."""

        async def find(need: FindDefinition) -> str | None:
            known = Authority(
                principal_id=need.principal_id,
                principal_name="",
                agent_id=need.agent_id,
                granted_scope=(),
                cert_ids=(),
                bound=False,
            )
            return await self.find(call, way, need.tool, _speaker(known, token))

        return find

    def on_other(
        self, request: Request, way: UpstreamAccess | None, authority: Authority | None, token: VerifiedToken | None
    ) -> Callable[[], None]:
        """Return the function to call if a list for this caller shows another definition ([changed])."""

        def forget() -> None:
            if way is not None:
                self._views.forget(_key(request, way, _speaker(authority, token)))

        return forget

    def hello(self, response: Success) -> Steps[bytes]:
        """Compare the server's instructions with the pinned ones ([instructions]). `response` answers `initialize` or
        `server/discover`; its text is returned unchanged."""
        yield
        try:
            said = as_string(response.members().get("instructions"))
        except FrameError:
            return response.text
        digest = digest_of_text(said) if said is not None else None
        changed = (said is not None and digest is None) or digest != self.pins.instructions
        if changed and not self.instructions_changed:
            log_event(_log, logging.WARNING, "instructions_changed", expected=self.pins.instructions, found=digest)
        self.instructions_changed = changed
        return response.text

    def _is_fresh(self, view: _View) -> bool:
        age = asyncio.get_running_loop().time() - view.at
        known = view.differing is not None and view.changes == self._counters.tool_list_changes
        return known and age < self.pins.fresh_seconds

    async def _look(self, view: _View, call: Request, way: UpstreamAccess) -> None:
        failures, came = view.failures, asyncio.get_running_loop().time()
        async with view.lock:
            looked_since = view.at >= came and view.changes == self._counters.tool_list_changes
            if self._is_fresh(view) or looked_since or view.failures != failures:
                return  # another call has looked, or tried to, while this one waited
            changes = self._counters.tool_list_changes
            view.differing = None
            now = asyncio.get_running_loop().time()
            tools = await self._tools(call, way)
            if tools is None:
                view.failures += 1
                log_event(_log, logging.WARNING, "definitions_unknown", **trace_field())
                return
            view.differing, view.at, view.changes = self._differing(tools), now, changes

    async def _tools(self, call: Request, way: UpstreamAccess) -> Mapping[str, Definition] | None:
        reader = ListReader()
        try:
            async with asyncio.timeout(LOOK_SECONDS), self._looks:
                whole = await ask_for_list(call, way.ask, reader.add)
        except (FrameError, TimeoutError):
            return None
        return reader.tools if whole else None

    def _differing(self, tools: Mapping[str, Definition]) -> Mapping[str, str | None]:
        pinned = self.pins.tools
        listed = {name: tools.get(name) for name in pinned}  # the lock's own strings: one for all callers
        differing = {
            name: tool.sha256 if tool is not None else None
            for name, tool in listed.items()
            if tool is None or tool.sha256 != pinned[name]
        }
        strays = (name for name in tools if name not in pinned and len(name) <= MAX_KNOWN_TOOL_NAME_CHARS)
        differing |= {name: tools[name].sha256 for name in itertools.islice(strays, MAX_STRAY_DEFINITIONS)}
        for name, found in differing.items():
            self._log_once(name, found)
        return differing

    def _log_once(self, name: str, found: str | None) -> None:
        """Log a difference, but only the first time: callers, who cause the comparisons, must not fill a disk."""
        key = hashlib.sha256(f"{found} {name}".encode("utf-8", "surrogatepass")).digest()
        if key not in self._logged:
            self._logged.put(key, True)
            expected = self.pins.tools.get(name)
            log_event(_log, logging.WARNING, "definition_changed", tool=excerpt(name), expected=expected, found=found)


def _speaker(authority: Authority | None, token: VerifiedToken | None) -> CallerIdentity | None:
    return CallerIdentity(authority, token) if authority is not None or token is not None else None


def _key(call: Request, way: UpstreamAccess, speaker: CallerIdentity | None) -> bytes:
    """Return a digest that is the same for two calls if one look serves both ([fresh])."""
    parts = [way.query, *(bytes(call.in_meta(name) or b"") for name in CARRIED)]
    if way.speak is not None and speaker is not None:
        principal = speaker.authority.principal_id if speaker.authority is not None else ""
        issuer, subject = (speaker.token.issuer, speaker.token.subject) if speaker.token is not None else ("", "")
        parts += [each.encode() for each in (speaker.subject, principal, issuer, subject)]
    for name, value in way.headers:
        if name not in _OF_ONE_REQUEST and not name.startswith(PARAM_HEADERS):
            parts += [name, value]
    return hashlib.sha256(b"".join(b"%d:%b" % (len(part), part) for part in parts)).digest()


def _definition_refusal(call: Request, name: str, expected: str | None, found: str | None) -> ProofRefused:
    return refusals.definition_changed(GuardedCall(call.method, name, "", b"", None, None), None, expected, found)
