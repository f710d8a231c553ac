"""The catalog: which scope each tool, resource and prompt needs. No I/O.

A route of an HTTP API is found by its exact text, and so is a skill of an agent. A tool is found by its exact name; any
other tool has the default scope. If there is no default, it is unknown, and an unknown tool is never called. Each
catalog also has the gateway's own tools (`drill`), which no list shows. A resource has the scope of the longest
configured prefix of its URI, else the scope for all resources. If the canonical vocabulary calls a scope sensitive, its
targets are sensitive even if the operator did not mark them.
"""

import hashlib
import re
from collections.abc import Collection, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from accredit.base.caching import CachedProperty
from accredit.limits import MAX_SCOPE_LENGTH_BYTES
from accredit.policy.drill import DRILL, DRILL_ROUTE, DRILL_SCOPE, SENSITIVE_DRILL, SENSITIVE_DRILL_ROUTE, is_drill
from accredit.policy.facts import NO_FACTS, Facts
from accredit.policy.uris import readings
from accredit.ratify.scopes import SENSITIVE_SCOPES, WILDCARDS, unknown_scope

MAX_SCOPE_WORD_CHARS = 48
"""The most characters of a server's or tool's name that go into a suggested scope. A scope has 256 bytes at most."""


MCP_SCOPES = frozenset({"mcp:tool", "mcp:resource", "mcp:prompt"})
"""The scopes for the three guarded methods. Every deployment knows them."""

OWN_SCOPE = re.compile(r"(?!(?:x-[^:]*|urn):)[A-Za-z][A-Za-z0-9._/+-]*(?::[A-Za-z0-9._/+-]+)+")
"""The form of a scope that a deployment adds."""

_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")


class Entry(Struct, frozen=True, kw_only=True, dict=True):
    """What one tool, resource or prompt requires: the scope `scope`, or any of `accepts` in its place. Besides, it
    requires what the entries of `also` do. A proof is bound to `scope`."""

    scope: str
    accepts: tuple[str, ...] = ()
    marked_sensitive: bool = False
    facts: Facts = NO_FACTS
    also: tuple["Entry", ...] = ()

    @CachedProperty
    def sensitive(self) -> bool:
        """Whether a call needs a challenge that was issued here (Option B)."""
        return self.marked_sensitive or self.scope in SENSITIVE_SCOPES or any(each.sensitive for each in self.also)

    @property
    def needed(self) -> tuple[str, ...]:
        """Scopes that suffice together."""
        return (self.scope, *(scope for each in self.also for scope in each.needed))

    @property
    def scopes(self) -> tuple[str, ...]:
        """All scopes that are named here."""
        return (self.scope, *self.accepts, *(scope for each in self.also for scope in each.scopes))

    def with_also(self, *others: "Entry") -> "Entry":
        """Return an entry that also requires what the `others` require."""
        return replace(self, also=(*self.also, *others))

    def allows(self, granted: Collection[str]) -> bool:
        """Return whether a grant (expanded: no wildcards) satisfies this entry."""
        return self.missing_from(granted) is None

    def missing_from(self, granted: Collection[str]) -> str | None:
        """Return a scope that a grant still lacks to satisfy this entry, or None."""
        if self.covered_by(granted) is None:
            return self.scope
        return next((missing for each in self.also if (missing := each.missing_from(granted)) is not None), None)

    def covered_by(self, granted: Collection[str]) -> str | None:
        """Return the granted scope that satisfies this entry: `scope` itself if it was granted, else another that is
        accepted, or None. `also` is not looked at."""
        return next((scope for scope in (self.scope, *self.accepts) if scope in granted), None)


OWN_TOOLS: Mapping[str, Entry] = {
    DRILL: Entry(scope=DRILL_SCOPE),
    SENSITIVE_DRILL: Entry(scope=DRILL_SCOPE, marked_sensitive=True),
}
"""The entries of the gateway's own tools."""
OWN_ROUTES: Mapping[str, Entry] = {
    **OWN_TOOLS,
    DRILL_ROUTE: OWN_TOOLS[DRILL],
    SENSITIVE_DRILL_ROUTE: OWN_TOOLS[SENSITIVE_DRILL],
}
"""The entries of the gateway's own routes at each HTTP API, and of its own skills at each agent."""

_UNSAID = (Entry(scope="mcp:resource"), Entry(scope="mcp:prompt"))
"""The default entries of resources and prompts."""


class Catalog(Struct, frozen=True, kw_only=True):
    """Every entry of a deployment. The keys of `resource_prefixes` are plain prefixes of URIs. `own_tools` are the
    entries of the gateway's own tools. A server that guards its own tools has none.
    """

    own_tools: Mapping[str, Entry] = field(default_factory=lambda: OWN_TOOLS)
    tools: Mapping[str, Entry] = {}
    default_tool: Entry | None = None
    resource: Entry = _UNSAID[0]
    resource_prefixes: Mapping[str, Entry] = {}
    prompt: Entry = _UNSAID[1]
    routes: Mapping[str, Entry] = {}
    """The entries of an HTTP API by its routes, or of an agent by its skills ("" for messages that name none), whose
    catalog has nothing else."""

    def find(self, method: str, target: str) -> Entry | None:
        """Return the entry for a guarded call, or None if no scope would allow it."""
        if self.routes:
            return OWN_ROUTES[target] if is_drill(method, target) else self.routes.get(target)
        if method == "tools/call":
            return self.tool(target)
        if method == "resources/read":
            return self._resource(target)
        return self.prompt if method == "prompts/get" else None

    def tool(self, name: str) -> Entry | None:
        """Return the entry of a tool, or None."""
        return self.own_tools.get(name) or self.tools.get(name, self.default_tool)

    @property
    def says_something(self) -> bool:
        """Whether the operator has configured any scope. If not, lists are not annotated where proofs are off."""
        if self.tools or self.default_tool is not None or self.resource_prefixes or self.routes:
            return True
        return (self.resource, self.prompt) != _UNSAID

    def vocabulary(self) -> frozenset[str]:
        """Return the scopes that this deployment adds to the canonical ones."""
        entries = [*self.tools.values(), *self.resource_prefixes.values(), *self.routes.values()]
        entries += [self.resource, self.prompt]
        if self.default_tool is not None:
            entries.append(self.default_tool)
        return MCP_SCOPES.union(*(entry.scopes for entry in entries))

    def _resource(self, uri: str) -> Entry | None:
        # A server may normalise a URI further than a prefix shows: one that could mean another entry gets none.
        if not self.resource_prefixes:
            return self.resource
        length = max((len(prefix) for prefix in self.resource_prefixes if uri.startswith(prefix)), default=0)
        entry = self.resource_prefixes.get(uri[:length], self.resource)
        candidates = [self._read_as(reading) for reading in readings(uri)]
        return entry if candidates and all(entry in entries for entries in candidates) else None

    def _read_as(self, reading: str) -> list[Entry]:
        """Return the entries of the longest prefixes that fit a reading (one form in which a server could read the
        URI). There are several if prefixes differ only in spelling."""
        best, entries = 0, [self.resource]
        for prefix, entry in self.resource_prefixes.items():
            plain = next(iter(readings(prefix)), prefix)
            if reading.startswith(plain) and len(plain) >= best:
                best, entries = len(plain), [*(entries if len(plain) == best else ()), entry]
        return entries


def own_scope(tool: str, server: str) -> str:
    """Return a scope for one tool alone, `custom:SERVER:TOOL`. `server` is "" if there is only one server.

    If a name has characters that a scope can't hold, or is too long, they are replaced or cut, and a digest of the name
    is added. By brute force somebody can find two names with the same digest.
    """
    return "custom:" + ":".join(map(_scope_word, (server, tool) if server else (tool,)))


def _scope_word(name: str) -> str:
    word = _UNFIT.sub("-", name)[:MAX_SCOPE_WORD_CHARS]
    if word and word == name:
        return word
    return f"{word}~{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def scope_fault(scope: str) -> str | None:
    """Return why a catalog can't require a scope, or None.

    A tool requires one concrete scope: one of the vocabulary, or one of the deployment's own, in the form GROUP:NAME.
    The prefixes `x-...:` and `urn:` are reserved (Ratify section 6), and so is the scope of the gateway's own tools
    (`drill`).
    """
    if scope == DRILL_SCOPE:
        return "is that of the gateway's own tools, which `accredit drill` calls: nothing else may ask for it"
    if len(scope.encode("utf-8", "replace")) > MAX_SCOPE_LENGTH_BYTES:
        return f"is longer than {MAX_SCOPE_LENGTH_BYTES} bytes"
    if scope in WILDCARDS or scope.endswith(":*") or scope == "*":
        return "is a wildcard, which no call can be held against: name one concrete scope"
    if unknown_scope([scope]) is not None and not OWN_SCOPE.fullmatch(scope):
        return "is no scope: a scope of your own has the form GROUP:NAME, such as email:send"
    if not scope.isprintable() or " " in scope:
        return "is no scope: it holds spaces or unprintable characters"
    return None
