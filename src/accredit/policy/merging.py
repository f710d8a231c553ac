"""Names of several servers' tools, prompts and resources at one endpoint, and their scopes. No I/O.

- [prefix] A tool, a prompt or a task is `NAME__own`, a resource `accredit+NAME:URI`, always: what one server adds
  renames nothing of another's.
- [server-name] A server's name holds neither `_` nor `:`, so the first `__` or `:` ends it. Whatever a server calls its
  own, such as `a__b`, it is `NAME__a__b`, and never the server `a`'s.
- [one-name] Merged names and servers' own names map one to one. There is no other spelling: another case or an escape
  is another name, of no server. Only a resource `ui://x` has one more, `ui://NAME__x`: hosts show a tool's page (MCP
  Apps) only from a URI of that scheme.
- [own-tools] The gateway's own tools (`drill`) keep their names here, and have no other: `NAME__accredit.drill` does
  not exist.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from accredit.jsonrpc.methods import TARGET_MEMBER
from accredit.policy.catalog import MCP_SCOPES, Catalog, Entry
from accredit.policy.drill import is_drill

SERVER_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
"""The names that servers may have (`[servers.NAME]`)."""

_TOOLS = "tools/call"
_AFTER_NAME = "__"
_SCHEME = "accredit+"
_PAGES = "ui://"


class Member(NamedTuple):
    """One of several servers, and its own name for something."""

    server: str
    own: str


def merged_name(server: str, own: str) -> str:
    """Return the merged name of a server's tool, prompt or task."""
    return f"{server}{_AFTER_NAME}{own}"


def member_of_name(name: str) -> Member | None:
    """Return the server and its own name for a merged tool, prompt or task; None if it is not merged."""
    server, after, own = name.partition(_AFTER_NAME)
    return Member(server, own) if after and SERVER_NAME.fullmatch(server) else None


def merged_uri(server: str, own: str) -> str:
    """Return the merged URI of a server's resource, or resource template."""
    return f"{_SCHEME}{server}:{own}"


def merged_page(server: str, own: str) -> str:
    """Return the merged URI of a tool's page ([one-name])."""
    if not own.startswith(_PAGES):
        return merged_uri(server, own)
    return f"{_PAGES}{merged_name(server, own.removeprefix(_PAGES))}"


def member_of_uri(uri: str) -> Member | None:
    """Return the server and its own URI for a merged resource; None if it is not merged."""
    if uri.startswith(_PAGES):
        page = member_of_name(uri.removeprefix(_PAGES))
        return page._replace(own=f"{_PAGES}{page.own}") if page is not None else None
    server, after, own = uri.removeprefix(_SCHEME).partition(":")
    return Member(server, own) if after and uri.startswith(_SCHEME) and SERVER_NAME.fullmatch(server) else None


def member_of_target(method: str, target: str) -> Member | None:
    """Return the server and its own target for a request's; None for methods without one, or for no server's."""
    if method not in TARGET_MEMBER:
        return None
    return member_of_uri(target) if TARGET_MEMBER[method] == "uri" else member_of_name(target)


class MergedCatalog(Catalog, frozen=True, kw_only=True):
    """The catalogs of several servers as one: each target's entry is in its server's own catalog."""

    by_server: Mapping[str, Catalog]

    def find(self, method: str, target: str) -> Entry | None:
        """Return the entry for a guarded call; None if no scope would allow it, or it is no server's."""
        if is_drill(method, target):
            return self.own_tools.get(target)
        found = member_of_target(method, target)
        if found is not None and is_drill(method, found.own):
            return None
        catalog = self.by_server.get(found.server) if found is not None else None
        return catalog.find(method, found.own) if catalog is not None and found is not None else None

    def tool(self, name: str) -> Entry | None:
        """Return the entry of a tool, or None."""
        return self.find(_TOOLS, name)

    @property
    def says_something(self) -> bool:
        """Whether the operator has named anything."""
        return any(each.says_something for each in self.by_server.values())

    def vocabulary(self) -> frozenset[str]:
        """Return the scopes that this deployment adds to the canonical ones."""
        return MCP_SCOPES.union(*(each.vocabulary() for each in self.by_server.values()))
