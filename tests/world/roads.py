"""The roads to a server over HTTP: a gateway's app for each, and the path at which its clients find it."""

from collections.abc import Callable
from typing import Any

from starlette.applications import Starlette
from starlette.routing import Mount

from accredit.gateway import GatewaySettings, HttpUpstream, create_app
from accredit.gateway.settings import MergedUpstream

ORIGIN = "https://page.example"
"""Of a page whose calls pass."""


def plain(url: str, path: str = "/mcp") -> Any:
    return create_app(GatewaySettings(HttpUpstream(url), path=path, allowed_origins=(ORIGIN,)))


def mounted(url: str) -> Any:
    return Starlette(routes=[Mount("/tools", create_app(url))])


def several(url: str) -> Any:
    each = {name: GatewaySettings(HttpUpstream(url), name, f"/mcp/{name}") for name in ("mail", "files")}
    return create_app([*each.values(), GatewaySettings(MergedUpstream(each))])


ROADS: dict[str, tuple[Callable[[str], Any], str]] = {
    "plain": (plain, "/mcp"),
    "mounted": (mounted, "/tools/mcp"),
    "one_of_several": (several, "/mcp/mail"),
    "merged": (several, "/mcp"),
}
