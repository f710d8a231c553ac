"""Checks several servers' tools against their pinned definitions, at the merged endpoint. Asks the servers.

A call is checked as at the server's own endpoint (`pinned_tools`), with the same bounds: the server in the tool's name
is asked for its list, as the current caller, and no other server delays that. The two endpoints share no looks: from
here fewer of the caller's headers are sent, and no query.
"""

from collections.abc import Callable, Mapping
from functools import partial

from msgspec import Raw

from accredit.base.steps import Steps
from accredit.gateway.admission.pinned_tools import PinnedTools, UpstreamAccess
from accredit.gateway.admission.tool_directory import Ask
from accredit.gateway.counters import Counters
from accredit.gateway.upstream.merged.member import ONE_SERVER, MergedMember
from accredit.jsonrpc.encode import to_json
from accredit.jsonrpc.frames import Request, Success
from accredit.pins import Pins
from accredit.policy import Authority
from accredit.policy.merging import member_of_name
from accredit.policy.passing import CallerIdentity
from accredit.tokens import VerifiedToken


class MergedPins(PinnedTools):
    """The pins of several servers, under merged names."""

    def __init__(self, pins: Pins, counters: Counters, servers: Mapping[str, MergedMember]) -> None:
        super().__init__(pins, counters)
        self._pinned = {name: each.pinned for name, each in servers.items() if each.pinned is not None}

    async def find(
        self, call: Request, way: UpstreamAccess | None, name: str, speaker: CallerIdentity | None = None
    ) -> str | None:
        """Return the digest of the definition that the tool's server shows this caller, or None."""
        found = member_of_name(name)
        pinned = self._pinned.get(found.server) if found is not None else None
        if pinned is None or found is None or way is None:
            return None
        way = _from_here(way)._replace(ask=partial(_ask_one, way.ask, found.server))
        return await pinned.find(call, way, found.own, speaker)

    def on_other(
        self, request: Request, way: UpstreamAccess | None, authority: Authority | None, token: VerifiedToken | None
    ) -> Callable[[], None]:
        """Return what to call if a list for this caller shows another definition."""
        way = _from_here(way) if way is not None else None
        forgets = [each.on_other(request, way, authority, token) for each in self._pinned.values()]

        def forget() -> None:
            for each in forgets:
                each()

        return forget

    def hello(self, response: Success) -> Steps[bytes]:
        """Return the answer as it is: each server's instructions were compared before they were joined."""
        yield
        return response.text


def _from_here(way: UpstreamAccess) -> UpstreamAccess:
    """Mark this endpoint's looks with an empty header name, which no client can send, so that they are not shared with
    another endpoint's. The query is dropped."""
    return way._replace(headers=[*way.headers, (b"", b"merged")], query=b"")


async def _ask_one(ask: Ask, server: str, request: Request) -> bytes | None:
    return await ask(request.with_meta({ONE_SERVER: Raw(to_json(server))}))
