"""Names of several servers' tools, prompts and resources at one endpoint, and their scopes. No I/O.

- [prefix] A tool, a prompt or a task is always called `NAME__own`, and a resource `accredit+NAME:URI`, where NAME is
  its server's. So nothing that one server adds changes the names of another's.
- [server-name] A server's name holds neither `_` nor `:`, so the first `__` or `:` ends it. If a server `a` calls its
  tool `b__c`, the merged name `a__b__c` can't be mistaken for a tool of another server.
- [one-name] Merged names and servers' own names map one to one. There is no other spelling: a name in another case, or
  with an escape, belongs to no server. There is one exception: a resource `ui://x` is also called `ui://NAME__x`, as
  hosts show a tool's page (MCP Apps) only from a URI of that scheme.
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
    """One of several servers, and the name that this server itself uses for something."""

    server: str
    own: str


def merged_name(server: str, own: str) -> str:
    """Return the merged name of a server's tool, prompt or task."""
    return f"{server}{_AFTER_NAME}{own}"


def member_of_name(name: str) -> Member | None:
    """Return the server of a merged tool, prompt or task, and its own name for it. Return None if the name is not
    merged."""
    server, after, own = name.partition(_AFTER_NAME)
    return Member(server, own) if after and SERVER_NAME.fullmatch(server) else None


def merged_uri(server: str, own: str) -> str:
    """Return the merged URI of a server's resource, or resource template."""
    return f"{_SCHEME}{server}:{own}"


def merged_page(server: str, own: str) -> str:
    """Return the merged URI of a tool's page, with the scheme `ui:` ([one-name])."""
    if not own.startswith(_PAGES):
        return merged_uri(server, own)
    return f"{_PAGES}{merged_name(server, own.removeprefix(_PAGES))}"


def member_of_uri(uri: str) -> Member | None:
    """Return the server of a merged resource, and its own URI for it. Return None if the URI is not merged."""
    if uri.startswith(_PAGES):
        page = member_of_name(uri.removeprefix(_PAGES))
        return page._replace(own=f"{_PAGES}{page.own}") if page is not None else None
    server, after, own = uri.removeprefix(_SCHEME).partition(":")
    return Member(server, own) if after and uri.startswith(_SCHEME) and SERVER_NAME.fullmatch(server) else None


def member_of_target(method: str, target: str) -> Member | None:
    """Return the server of a request's target, and its own name for that target. Return None if the method has no
    target, or the target is no server's."""
    if method not in TARGET_MEMBER:
        return None
    return member_of_uri(target) if TARGET_MEMBER[method] == "uri" else member_of_name(target)


class MergedCatalog(Catalog, frozen=True, kw_only=True):
    """The catalogs of several servers as one: each target's entry is in its server's own catalog."""

    by_server: Mapping[str, Catalog]

    def find(self, method: str, target: str) -> Entry | None:
        """Return the entry for a guarded call. Return None if no scope would allow it, or its target is no server's."""
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
        """Whether the operator has configured any scope, for any of the servers."""
        return any(each.says_something for each in self.by_server.values())

    def vocabulary(self) -> frozenset[str]:
        """Return the scopes that this deployment adds to the canonical ones."""
        return MCP_SCOPES.union(*(each.vocabulary() for each in self.by_server.values()))
