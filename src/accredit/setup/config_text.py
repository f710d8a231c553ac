"""Writes an `accredit.toml` from what a server offers, or from what an OpenAPI document says of an HTTP API. No I/O.

The server's words go into comments and keys, and can't break out of them:

- a comment is one short printable line: line ends, control characters and direction changes are escaped;
- a key or a string is quoted, and everything but printable ASCII is escaped, so that look-alikes are visible;
- a tool is left out, and so will be refused, if TOML can't hold its name (a lone surrogate) or if its name is one of
  the gateway's own tools (`policy.drill`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from accredit.asking.listing import ServerListing
from accredit.base.text import one_line
from accredit.config.schema import Gateway
from accredit.gateway import HttpUpstream, StdioUpstream
from accredit.gateway.settings import AUTHORIZE_PATH
from accredit.hosts.toml_text import inline, key, string
from accredit.http_api.proposals import Proposals
from accredit.limits import MAX_SAID_CHARS
from accredit.policy.drill import DRILLS
from accredit.signing.suggest_scopes import PROMPT, RESOURCE, Suggestion, resource_scopes

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
_API_PATH = "/api/"
_API_ADDED = """\
# Added by `accredit {command}` from an OpenAPI document. Nobody has checked that: read it before you serve.
"""
_ROUTES = """\
# The routes, each with the scope that a delegation has to hold. A sensitive one takes only proofs over a challenge that
# the gateway made for this very request. Requests of no route are refused.
"""

_TOOLS = """\
# The tools, each with the scope that a delegation has to hold. A sensitive one takes only proofs over a challenge that
# the gateway made for this very call.
"""
_ADDED = """\
# Added by `accredit add` from what the server says of itself. Nobody has checked that: read it before you serve.
"""


_IDENTITY = """\
# identity = "jwt"         # tells the server who calls, in a header; the key that signs it is made as identity.key
"""


def configuration(
    upstream: HttpUpstream | StdioUpstream,
    offer: ServerListing,
    suggestions: Iterable[Suggestion],
    headers: Headers = {},  # noqa: B006 - it is read only
    name: str = "",
    port: int = Gateway().port,
) -> str:
    """Return the file's text. `headers` are written as they are given. If there is a `name`, the server goes into
    `[servers]` under it."""
    head = _HEAD.format(
        server=_to_comment(offer.server) or "an MCP server",
        source="what the server says of itself",
        port=port,
        admin="",
        table=table_name("upstream", name),
        upstream=_upstream(upstream, headers),
        identity=_IDENTITY if isinstance(upstream, HttpUpstream) else "",
        default=_DEFAULT,
        rest=f"{_kinds(offer, name)}\n{_TOOLS}",
    )
    return "\n".join([head, *(tool_table(each, name) for each in suggestions)])


class Api(NamedTuple):
    """An HTTP API to be written: its name in `[servers]`, its title, its URL and `headers` as they are written in the
    file, or the proxy that asks the gateway, and its routes."""

    name: str
    title: str
    url: str
    proxy: str | None
    headers: Headers
    proposals: Proposals

    @property
    def path(self) -> str:
        """Where it is on the gateway, or where the proxy asks."""
        return (AUTHORIZE_PATH if self.proxy is not None else _API_PATH) + self.name


def api_configuration(api: Api, port: int = Gateway().port) -> str:
    """Return the text of a file for an HTTP API."""
    head = _HEAD.format(
        server=_to_comment(api.title) or "an HTTP API",
        source="its OpenAPI document",
        port=port,
        admin=_ADMIN.format(path=api.path) if api.proxy is not None else "",
        table=table_name("upstream", api.name),
        upstream=_behind(api),
        identity="\n" if api.proxy is not None else _IDENTITY,
        default="",
        rest=_ROUTES,
    )
    return "\n".join([head, *route_tables(api.name, api.proposals)])


def api_tables(api: Api) -> str:
    """Return an API's tables of `[servers]`, to be appended to a file."""
    head = f"{_API_ADDED.format(command='add')}[{table_name('upstream', api.name)}]\n{_behind(api)}\n"
    return "\n".join([head, _ROUTES, *route_tables(api.name, api.proposals)])


def more_routes(name: str, proposals: Proposals) -> str:
    """Return the tables of routes that `accredit check --fix` adds to the API `name`."""
    tables = route_tables(name, proposals._replace(left_out=[]))
    return "\n".join(["", _API_ADDED.format(command="check --fix"), *tables])


def route_tables(name: str, proposals: Proposals) -> Iterator[str]:
    """Yield the table of each route of the API `name`, and a comment for each that is left out."""
    for each in proposals.routes:
        said = _to_comment(each.operation.summary)
        comment = f'# "{said}"\n' if said else ""
        comment += "# The document says that it is deprecated.\n" if each.operation.deprecated else ""
        sensitive = "sensitive = true\n" if each.sensitive else ""
        scope = f"scope = {string(each.scope)}    # {_to_comment(each.reason)}\n"
        yield f"[{table_name('routes', name)}.{key(each.route.text)}]\n{comment}{scope}{sensitive}"
    for each, why in proposals.left_out:
        yield f"# Left out: {_to_comment(each.route.text)}\n#   as {_to_comment(why)}\n"


def server_tables(
    name: str,
    upstream: HttpUpstream | StdioUpstream,
    offer: ServerListing,
    suggestions: Iterable[Suggestion],
    headers: Headers = {},  # noqa: B006 - it is read only
) -> str:
    """Return one server's tables of `[servers]`, to be appended to a file."""
    head = f"{_ADDED}[{table_name('upstream', name)}]\n{_upstream(upstream, headers)}\n"
    return "\n".join([head, f"{_kinds(offer, name)}\n{_TOOLS}", *(tool_table(each, name) for each in suggestions)])


def table_name(section: str, name: str) -> str:
    """Return the header of a section's table for the server `name` ("" for the only server)."""
    if not name:
        return section
    return f"servers.{name}" if section == "upstream" else f"servers.{name}.{section}"


def holds(text: str) -> bool:
    """Return whether TOML can hold a text; it can't hold lone surrogates."""
    return not any("\ud800" <= char <= "\udfff" for char in text)


def can_have_table(tool: str) -> bool:
    """Return whether a catalog can have a table for this tool. The gateway's own tools can't have one."""
    return bool(tool) and holds(tool) and tool not in DRILLS


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
        if holds(prefix):
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


def _behind(api: Api) -> str:
    if api.proxy is not None:
        return f'protocol = "authorize"\nproxy = {string(api.proxy)}'
    url = _upstream(HttpUpstream(api.url), api.headers)
    return f'protocol = "http"\npath = {string(api.path)}    # taken off: what is below it goes to the URL\n{url}'


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
