"""An `accredit.toml` from what a server offers. No I/O.

The server's words go into comments and keys. Whatever they are, they stay there:

1. a comment is one line, printable and short: what is not printable is escaped (line ends, control characters, changes
   of writing direction);
2. a key or a string is quoted, and what is not printable ASCII is escaped, so that look-alikes are seen;
3. a name that TOML can't hold, which has half a surrogate pair, is left out: such a tool is refused.
"""

import re
from collections.abc import Iterable, Sequence

from accredit.cli.setup.suggesting import Suggestion
from accredit.cli.text import one_line
from accredit.gateway import HttpUpstream, StdioUpstream
from accredit.limits import MAX_SAID_CHARS

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SHORT = {'"': '\\"', "\\": "\\\\"}

_HEAD = """\
# The configuration of the gateway in front of {server}.
# Made by `accredit init` from what the server says of its tools. Nobody has checked that: read it before you serve.
# Every key: `accredit config schema`. A gateway that runs takes changes when it is started again.

[gateway]
host = "127.0.0.1"
port = 8484
# id is that of gateway.key, beside this file. Proofs are made out to it.

[upstream]
{upstream}

[proofs]
mode = "required"          # no proof, no call; "off" turns the checks below off
binding = "optional"       # "required": a proof counts for the exact call that it was made for, and for no other
default_tool_scope = ""    # "": tools without a table below are refused; or a scope, such as "mcp:tool"

[[proofs.roots]]           # whose delegations count
name = "Owner"
public_key_file = "owner.key.pub"

[attest]
mode = "durable"           # each call is on record before it goes on, and so is its outcome; "off": none is
key_file = "gateway.key"   # signs the records
arguments = "digest"       # "full": records hold the arguments of calls

[store]
url = "sqlite:///accredit.db"    # which proofs were used, for all workers and over restarts; and the records

[resources]
scope = "mcp:resource"

[prompts]
scope = "mcp:prompt"

# The tools, each with the scope that a delegation has to hold. A sensitive one takes only proofs over a challenge that
# the gateway made for this very call.
"""


def configuration(upstream: HttpUpstream | StdioUpstream, server: str, suggestions: Iterable[Suggestion]) -> str:
    """The file's text."""
    parts = [_HEAD.format(server=_said(server) or "an MCP server", upstream=_upstream(upstream))]
    parts += [_tool(each) for each in suggestions]
    return "\n".join(parts)


def string(text: str) -> str:
    """A text as a TOML string. It has to be one that TOML can hold."""
    return f'"{"".join(map(_escaped, text))}"'


def holds(text: str) -> bool:
    """Whether TOML can hold a text at all."""
    return not any("\ud800" <= char <= "\udfff" for char in text)


def _tool(found: Suggestion) -> str:
    said = f'# "{_said(found.description)}"\n' if found.description.strip() else ""
    if not found.tool or not holds(found.tool):
        return f"# A tool whose name can't be written here is left out, and so refused: {_said(found.tool)}\n"
    key = found.tool if _BARE.fullmatch(found.tool) else string(found.tool)
    sensitive = "sensitive = true\n" if found.sensitive else ""
    return f"[tools.{key}]\n{said}scope = {string(found.scope)}    # {found.reason}\n{sensitive}"


def _upstream(upstream: HttpUpstream | StdioUpstream) -> str:
    if isinstance(upstream, HttpUpstream):
        return f"url = {string(upstream.url)}"
    return f"command = {_list(upstream.command)}"


def _list(texts: Sequence[str]) -> str:
    return f"[{', '.join(map(string, texts))}]"


def _said(text: str) -> str:
    """What a peer says, for a comment."""
    said = one_line(" ".join(text.split()))
    return said if len(said) <= MAX_SAID_CHARS else f"{said[: MAX_SAID_CHARS - 3]}..."


def _escaped(char: str) -> str:
    if char in _SHORT:
        return _SHORT[char]
    if " " <= char <= "~":
        return char
    return f"\\u{ord(char):04x}" if ord(char) <= 0xFFFF else f"\\U{ord(char):08x}"
