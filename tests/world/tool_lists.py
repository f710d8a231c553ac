"""Tools as servers list them, honest and hostile. No I/O."""

from typing import Any

from hypothesis import strategies as st
from mcp.types import Tool, ToolAnnotations

HOSTILE_TEXTS = (
    '"""\n[tools.x]\nscope = "mcp:tool"\n',
    "a\nb\r\nc\vd\fe\x85f\u2028g\u2029h",
    "\x00\x1b[2J\x7f\x9b",
    "\u202etxt.\u2066\u200b\ufeff",
    '\\" # \\',
    "'''",
    "\ud800",
    "\U0001f600",
    "]",
    "a.b",
    " ",
    "",
    "s\u0435nd",
    "__class__",
    "model_config",
    "*",
    "x" * 5_000,
)


def tool(name: str, **said: Any) -> Tool:
    """A tool; `reads` and `destroys` are its hints, `scope` what it advertises."""
    hints = {hint: said.pop(word) for word, hint in _HINTS.items() if word in said}
    meta = {"ratify_scope": said.pop("scope")} if "scope" in said else None
    annotations = ToolAnnotations(**hints) if hints else None
    return Tool(name=name, input_schema={"type": "object"}, annotations=annotations, _meta=meta, **said)


_HINTS = {"reads": "read_only_hint", "destroys": "destructive_hint"}


def texts() -> st.SearchStrategy[str]:
    """Whatever a server may call or say."""
    return st.sampled_from(HOSTILE_TEXTS) | st.text(st.characters(), max_size=30)


def tools() -> st.SearchStrategy[Tool]:
    """A tool of any server."""
    hint = st.sampled_from([True, False, None])
    scope = st.none() | st.integers() | texts() | st.sampled_from(["email:send", "email:*", "x-a:b", "custom:a"])
    return st.builds(tool, texts(), description=texts(), reads=hint, destroys=hint, scope=scope)
