"""Writes an `accredit.toml` from what a server offers, or from what a document says of an HTTP API or an agent: these
three kinds (`Described`) are written, counted and reported alike. No I/O.

The server's words go into comments and keys, and can't break out of them:

- a comment is one short printable line: line ends, control characters and direction changes are escaped;
- a key or a string is quoted, and everything but printable ASCII is escaped, so that look-alikes are visible;
- a tool is left out, and so will be refused, if TOML can't hold its name (a lone surrogate) or if its name is one of
  the gateway's own tools (`policy.drill`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from accredit.a2a.cards import CARD_PATH
from accredit.a2a.skills import ProposedSkill, ProposedSkills, ask_scope
from accredit.asking.listing import ServerListing
from accredit.base.text import is_utf8, one_line, several
from accredit.config.schema import Gateway
from accredit.gateway import HttpUpstream, StdioUpstream
from accredit.gateway.settings import AUTHORIZE_PATH
from accredit.hosts.toml_text import inline, key, string
from accredit.http_api.proposals import Proposal, Proposals, read_scope
from accredit.limits import MAX_SAID_CHARS
from accredit.policy.drill import DRILLS
from accredit.signing.suggest_scopes import PROMPT, READING, RESOURCE, Suggestion, resource_scopes

MAX_LISTED_EXAMPLES = 10
"""The most resources, templates or prompts of a server that a configuration quotes: enough to see what they are
about."""


Headers = Mapping[str, str | Mapping[str, str]]
"""The headers of `upstream.headers`, by name. Each value is a string, or a table that names its source."""

_HEAD = """\
# The configuration of the gateway in front of {server}.
# Made by `accredit init` from {source}. Nobody has checked that: read it before you serve.
# Every key: `accredit config schema`. `accredit reload` has a gateway that runs take changes.

[gateway]
host = "127.0.0.1"
port = {port}
# id is that of gateway.key, beside this file. Proofs are made out to it.
{admin}
[{table}]
{upstream}
{identity}
[proofs]
mode = "required"          # no proof, no call; "off" turns the checks below off
binding = "required"       # a proof counts for the very call that it was made for; "optional": one made for none, too
{default}
[[proofs.roots]]           # whose delegations count
name = "Owner"
public_key_file = "owner.key.pub"

[attest]
mode = "durable"           # each call is on record before it goes on, and so is its outcome; "off": none is
key_file = "gateway.key"   # signs the records
arguments = "digest"       # "full": records hold the arguments of calls

[store]
url = "sqlite:///accredit.db"    # which proofs were used, for all workers and over restarts; and the records

{rest}"""
_ADMIN = """
[admin]
port = 9464                # where the proxy asks, at {path}
"""
_DEFAULT = """\
default_tool_scope = ""    # "": tools without a table below are refused; or a scope, such as "mcp:tool"
"""
_OAUTH = """
[oauth]                    # hosts that can only log in: docs/how-to/hosts-that-log-in.md
enabled = true
public_url = {url}         # as hosts know this gateway
registration = true        # some hosts have no metadata document, and register here
# clients = ["https://claude.ai/*"]    # without it, any client may ask a person

[cluster]
keys_file = "{keys}" # seals these hosts' keys in the store; gateways that share one share this file
"""
CLUSTER_KEYS_FILE = "cluster.keys"
"""The key file that `init --oauth` writes beside the configuration."""
_TOOLS = """\
# The tools, each with the scope that a delegation has to hold. A sensitive one takes only proofs over a challenge that
# the gateway made for this very call.
"""
_IDENTITY = """\
# identity = "jwt"         # tells the server who calls, in a header; the key that signs it is made as identity.key
"""


def oauth_tables(public_url: str) -> str:
    """Return the tables that let in hosts that can't make proofs, but can log in by OAuth."""
    return _OAUTH.format(url=string(public_url), keys=CLUSTER_KEYS_FILE)


@dataclass(frozen=True)
class McpServer:
    """An MCP server to be written: its name in `[servers]` ("" if it goes into `[upstream]`), how it is reached,
    `headers` as they are written in the file, what it offers, and the proposed entries of its tools."""

    name: str
    upstream: HttpUpstream | StdioUpstream
    headers: Headers
    offer: ServerListing
    proposals: Sequence[Suggestion]

    proxy: ClassVar[None] = None
    kind: ClassVar[str] = "an MCP server"
    source: ClassVar[str] = "what the server says of itself"
    source_of_addition: ClassVar[str] = source

    @property
    def title(self) -> str:
        """What the server calls itself."""
        return self.offer.server

    @property
    def path(self) -> str:
        """The path at which a proxy asks: there is none."""
        return ""

    @property
    def own(self) -> str:
        """The lines of its own table."""
        return _upstream(self.upstream, self.headers)

    @property
    def introduction(self) -> str:
        """The tables of its resources and prompts, and what precedes those of its tools."""
        return f"{_kinds(self.offer, self.name)}\n{_TOOLS}"

    def tables(self) -> Iterator[str]:
        """Yield the table of each tool."""
        return (tool_table(each, self.name) for each in self.proposals)

    @property
    def _resources(self) -> int:
        return len(self.offer.resources) + len(self.offer.templates)

    @property
    def summary(self) -> str:
        """How much it offers, in words."""
        counts = [_count("tool", self.proposals, 0)]
        if self.offer.only_some:
            counts.append(f"{len(self.offer.only_some)} that only some clients see")
        counts += [several(self._resources, "resource")] if self._resources else []
        counts += [several(len(self.offer.prompts), "prompt")] if self.offer.prompts else []
        return ", ".join(counts)

    @property
    def first_scopes(self) -> list[str]:
        """The scope of read-only tools or, if there are none, that of one tool."""
        scopes = [each.scope for each in self.proposals]
        if scopes:
            return [READING if READING in scopes else scopes[0]]
        found = [*([RESOURCE] if self._resources else []), *([PROMPT] if self.offer.prompts else [])]
        return found or [READING]

    def members(self) -> dict[str, object]:
        """Return what it offers as members of a JSON object."""
        tools = [{"name": each.tool, "scope": each.scope, "sensitive": each.sensitive} for each in self.proposals]
        return {"tools": tools, "resources": self._resources, "prompts": len(self.offer.prompts)}


@dataclass(frozen=True)
class Api:
    """An HTTP API to be written: its name in `[servers]`, its title, its proposed routes, and either the proxy that
    asks the gateway, or its URL and `headers` as written in the file."""

    name: str
    title: str
    url: str
    proxy: str | None
    headers: Headers
    proposals: Proposals

    kind: ClassVar[str] = "an HTTP API"
    source: ClassVar[str] = "its OpenAPI document"
    source_of_addition: ClassVar[str] = "an OpenAPI document"
    introduction: ClassVar[str] = """\
# The routes, each with the scope that a delegation has to hold. A sensitive one takes only proofs over a challenge that
# the gateway made for this very request. Requests of no route are refused.
"""

    @property
    def path(self) -> str:
        """The gateway's path for the API's clients or, with a proxy, for the proxy's questions."""
        return (AUTHORIZE_PATH if self.proxy is not None else "/api/") + self.name

    @property
    def own(self) -> str:
        """The lines of its own table."""
        if self.proxy is not None:
            return f'protocol = "authorize"\nproxy = {string(self.proxy)}'
        url = _upstream(HttpUpstream(self.url), self.headers)
        return f'protocol = "http"\npath = {string(self.path)}    # taken off: what is below it goes to the URL\n{url}'

    def tables(self) -> Iterator[str]:
        """Yield the table of each route, and a comment for each that is left out."""
        for each in self.proposals.routes:
            deprecated = "# The document says that it is deprecated.\n" if each.operation.deprecated else ""
            head = table_name("routes", self.name)
            yield _table(head, each.route.text, each.operation.summary, deprecated, each)
        for each, why in self.proposals.left_out:
            yield _omission(each.route.text, why)

    @property
    def summary(self) -> str:
        """How many routes it has, in words."""
        return _count("route", self.proposals.routes, len(self.proposals.left_out))

    @property
    def first_scopes(self) -> list[str]:
        """The scope of reads or, if there are none, that of one route."""
        scopes = [each.scope for each in self.proposals.routes]
        reading = read_scope(self.name)
        return [reading if reading in scopes else scopes[0]]

    def members(self) -> dict[str, object]:
        """Return its routes as members of a JSON object."""
        found = self.proposals
        routes = [{"route": each.route.text, "scope": each.scope, "sensitive": each.sensitive} for each in found.routes]
        return {"routes": routes, "left_out": [{"route": each.route.text, "why": why} for each, why in found.left_out]}


@dataclass(frozen=True)
class Agent:
    """An A2A agent to be written: its name in `[servers]`, its title, its URL, the path of its card there, `headers` as
    they are written in the file, and its skills."""

    name: str
    title: str
    url: str
    card_path: str
    headers: Headers
    proposals: ProposedSkills

    proxy: ClassVar[None] = None
    kind: ClassVar[str] = "an agent"
    source: ClassVar[str] = "its card"
    source_of_addition: ClassVar[str] = "an agent's card"
    introduction: ClassVar[str] = """\
# The skills, each with the scope that a delegation has to hold besides. A sensitive one takes only proofs over a
# challenge that the gateway made for this very message. A message that names no skill needs the scopes of all of them.
"""

    @property
    def path(self) -> str:
        """Where it is on the gateway."""
        return "/agents/" + self.name

    @property
    def own(self) -> str:
        """The lines of its own table."""
        card = f"card_path = {string(self.card_path)}\n" if self.card_path != CARD_PATH else ""
        url = _upstream(HttpUpstream(self.url), self.headers)
        scope = f"scope = {string(ask_scope(self.name))}    # what each message needs"
        return f'protocol = "a2a"\npath = {string(self.path)}    # its URL on the gateway\n{url}\n{card}{scope}'

    def tables(self) -> Iterator[str]:
        """Yield the table of each skill, and a comment for each that is left out."""
        for each in self.proposals.skills:
            head = table_name("skills", self.name)
            yield _table(head, each.skill.id, each.skill.description, "", each)
        for skill, why in self.proposals.left_out:
            yield _omission(skill, why)

    @property
    def summary(self) -> str:
        """How many skills it has, in words."""
        return _count("skill", self.proposals.skills, len(self.proposals.left_out))

    @property
    def first_scopes(self) -> list[str]:
        """The scope of messages, and that of one skill, if there is any: if possible one that is not sensitive."""
        skills = sorted(self.proposals.skills, key=lambda each: each.sensitive)[:1]
        return [ask_scope(self.name), *(each.scope for each in skills)]

    def members(self) -> dict[str, object]:
        """Return its scope and its skills as members of a JSON object."""
        skills = [
            {"skill": each.skill.id, "scope": each.scope, "sensitive": each.sensitive} for each in self.proposals.skills
        ]
        left_out = [{"skill": skill, "why": why} for skill, why in self.proposals.left_out]
        return {"scope": ask_scope(self.name), "skills": skills, "left_out": left_out}


Described = McpServer | Api | Agent


def configuration(found: Described, port: int = Gateway().port) -> str:
    """Return the text of a server's configuration file."""
    is_mcp = isinstance(found, McpServer)
    identity = "\n" if found.proxy is not None else _IDENTITY
    head = _HEAD.format(
        server=_to_comment(found.title) or found.kind,
        source=found.source,
        port=port,
        admin=_ADMIN.format(path=found.path) if found.proxy is not None else "",
        table=table_name("upstream", found.name),
        upstream=found.own,
        identity="" if is_mcp and isinstance(found.upstream, StdioUpstream) else identity,
        default=_DEFAULT if is_mcp else "",
        rest=found.introduction,
    )
    return "\n".join([head, *found.tables()])


def added_tables(found: Described) -> str:
    """Return the tables of `[servers]` of a server, to be appended to a file."""
    head = f"{_addition(found, 'add')}[{table_name('upstream', found.name)}]\n{found.own}\n"
    return "\n".join([head, found.introduction, *found.tables()])


def more_tables(found: Api | Agent) -> str:
    """Return the tables of routes or skills that `accredit check --fix` adds."""
    return "\n".join(["", _addition(found, "check --fix"), *found.tables()])


def _addition(found: Described, command: str) -> str:
    source = found.source_of_addition
    return f"# Added by `accredit {command}` from {source}. Nobody has checked that: read it before you serve.\n"


def _table(table: str, name: str, said: str, more: str, proposed: "Proposal | ProposedSkill") -> str:
    words = _to_comment(said)
    comment = (f'# "{words}"\n' if words else "") + more
    sensitive = "sensitive = true\n" if proposed.sensitive else ""
    scope = f"scope = {string(proposed.scope)}    # {_to_comment(proposed.reason)}\n"
    return f"[{table}.{key(name)}]\n{comment}{scope}{sensitive}"


def _omission(name: str, why: str) -> str:
    return f"# Left out: {_to_comment(name)}\n#   as {_to_comment(why)}\n"


def _count(noun: str, found: "Sequence[Proposal | ProposedSkill | Suggestion]", left_out: int) -> str:
    sensitive = sum(each.sensitive for each in found) or "none"
    left = f"; {left_out} left out, see there why" if left_out else ""
    return f"{several(len(found), noun)}, {sensitive} of them sensitive{left}"


def table_name(section: str, name: str) -> str:
    """Return the header of a section's table for the server `name` ("" for the only server)."""
    if not name:
        return section
    return f"servers.{name}" if section == "upstream" else f"servers.{name}.{section}"


def can_have_table(tool: str) -> bool:
    """Return whether a catalog can have a table for this tool. The gateway's own tools can't have one."""
    return bool(tool) and is_utf8(tool) and tool not in DRILLS


def tool_table(suggestion: Suggestion, name: str = "") -> str:
    """Return a tool's table, or a comment if the tool can't have one. `name` is the name of its server in `[servers]`,
    or ""."""
    comment = f'# "{_to_comment(suggestion.description)}"\n' if suggestion.description.strip() else ""
    if not can_have_table(suggestion.tool):
        return (
            f"# A tool whose name can't be written here is left out, and so refused: {_to_comment(suggestion.tool)}\n"
        )
    sensitive = "sensitive = true\n" if suggestion.sensitive else ""
    some = "# Only some clients see it, by what they can do.\n" if suggestion.only_some else ""
    scope = f"scope = {string(suggestion.scope)}    # {suggestion.reason}\n"
    return f"[{table_name('tools', name)}.{key(suggestion.tool)}]\n{comment}{some}{scope}{sensitive}"


def _kinds(offer: ServerListing, name: str) -> str:
    """Return the tables `[resources]` and `[prompts]`. `[resources]` has a table for each prefix that needs a scope of
    its own."""
    listed = [str(each.uri) for each in offer.resources] + [
        f"{each.uri_template} (template)" for each in offer.templates
    ]
    table = table_name("resources", name)
    text = f'[{table}]\nscope = "{RESOURCE}"\n{_examples("resources", listed)}\n'
    for prefix, scope in resource_scopes(offer).items():
        if is_utf8(prefix):
            text += f"[{table}.{string(prefix)}]\nscope = {string(scope)}    # the scope that it asks for itself\n\n"
    prompts = _examples("prompts", [each.name for each in offer.prompts])
    return f'{text}[{table_name("prompts", name)}]\nscope = "{PROMPT}"\n{prompts}'


def _examples(kind: str, names: Sequence[str]) -> str:
    if not names:
        return f"# The server lists no {kind}.\n"
    some = ", among them" if len(names) > MAX_LISTED_EXAMPLES else ""
    lines = [f"# The scope of all {kind}. The server lists {len(names)}{some}:"]
    lines += [f"#   {_to_comment(name)}" for name in names[:MAX_LISTED_EXAMPLES]]
    return "".join(f"{line}\n" for line in lines)


def _upstream(upstream: HttpUpstream | StdioUpstream, headers: Headers) -> str:
    if isinstance(upstream, StdioUpstream):
        where = f"\ncwd = {string(upstream.cwd)}" if upstream.cwd is not None else ""
        return f"command = {inline(upstream.command)}{where}"
    pairs = ", ".join(f"{string(name)} = {inline(value)}" for name, value in headers.items())
    return f"url = {string(upstream.url)}" + (f"\nheaders = {{ {pairs} }}" if pairs else "")


def _to_comment(text: str) -> str:
    """Return a server's words as a comment."""
    line = one_line(" ".join(text.split()))
    return line if len(line) <= MAX_SAID_CHARS else f"{line[: MAX_SAID_CHARS - 3]}..."
