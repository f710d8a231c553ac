"""Reads the OpenAPI document that a command line names, and finds where its API is. I/O: a file, or one URL.

- [named-only] Nothing is asked but the document's URL: https (or http on loopback), redirects within its origin,
  without credentials. Nothing that a document names is fetched.
- [credentials] `--header` and `--token-env` are for the API, and taken only if its URL is named: a document could name
  anybody's.
- [yaml] YAML needs an extra. Its scalars are text, and anchors, aliases and tags are refused: a few lines of them can
  stand for millions.
"""

# ruff: noqa: PLC0415 - an extra, loaded where a document is YAML

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from urllib.parse import urljoin, urlsplit

import msgspec

from accredit.asking.probe import without_query
from accredit.asking.reaching import as_configured, read_reach
from accredit.base.deferred import require_extra
from accredit.base.text import several
from accredit.config import load
from accredit.config.apis import build_api
from accredit.config.servers import every_view
from accredit.errors import ConfigurationError, KeySetError
from accredit.http_api.openapi import MAX_OPENAPI_BYTES, ApiDocument, read_document
from accredit.http_api.proposals import propose, read_scope
from accredit.keys import read_file
from accredit.limits import MAX_DEPTH
from accredit.net.fetch import check_url, fetch
from accredit.setup.config_text import Api

OPENAPI_SECONDS = 30.0
"""How many seconds there are to fetch a document of `MAX_OPENAPI_BYTES`, over a slow line."""

_JSON = "convert it to JSON"


def find_api(
    name: str,
    where: Path | str,
    url: str | None,
    proxy: str | None,
    header: Sequence[str],
    token_env: str | None,
    timeout: float | None,
) -> Api:
    """Return the API of the document at `where`, as `[servers.NAME]`. `url` is where it is, or None for what the
    document says; `proxy` is the one that asks the gateway, or None for an API behind it. Raises
    `ConfigurationError`."""
    reach = read_reach(header, token_env, timeout)
    if reach.all_headers and (url is None or proxy is not None):
        raise ConfigurationError(
            "--header and --token-env are for the API's URL, and none is named here",
            "name it: a document could name anybody's" if proxy is None else "leave them out: the proxy calls the API",
        )
    document = read_openapi(where, reach.timeout)
    base = url or urljoin(where if isinstance(where, str) else "", document.server or "/")
    if proxy is None and urlsplit(base).scheme not in ("http", "https"):
        raise ConfigurationError("the OpenAPI document does not say where the API is", "name its URL as well")
    path = urlsplit(base).path.rstrip("/")
    found = propose(document.operations, name, path if proxy is not None else "")
    if not found.routes:
        raise ConfigurationError(
            "the OpenAPI document has no operation that could have a route", "see whether it is that of the API"
        )
    return Api(name, document.title, base.rstrip("/"), proxy, as_configured(header, token_env), found)


def check_openapi(where: Path | str | None, command: list[str] | None, proxy: str | None) -> None:
    """Refuse options that do not go with `--openapi`. Raises `ConfigurationError`."""
    if where is None and proxy is not None:
        raise ConfigurationError("--proxy is for an HTTP API", "name its OpenAPI document: --openapi FILE")
    if where is not None and command is not None:
        raise ConfigurationError("--openapi and a command are given", "an HTTP API has a URL, and no command")


def read_openapi(where: Path | str, seconds: float | None = None) -> ApiDocument:
    """Read the document of a file or URL. Raises `ConfigurationError`."""
    data = read_file(where, MAX_OPENAPI_BYTES).data if isinstance(where, Path) else _fetch(where, seconds)
    return read_document(data if data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{") else _json_of_yaml(data))


def _fetch(url: str, seconds: float | None) -> bytes:
    check_url("--openapi", url, "a document that comes in the clear can be anybody's")
    try:
        return asyncio.run(fetch(url, max_bytes=MAX_OPENAPI_BYTES, timeout=seconds or OPENAPI_SECONDS))
    except KeySetError as error:
        raise ConfigurationError(
            f"no OpenAPI document from {without_query(url)}: {error}", "save it as a file, and name that"
        ) from None


def _json_of_yaml(data: bytes) -> bytes:
    """Return a document in YAML as JSON ([yaml])."""
    require_extra("yaml", "hosts", "the OpenAPI document is YAML, and PyYAML is not installed")
    import yaml

    try:
        text = data.decode("utf-8-sig")
        _check_events(yaml, text)
        return msgspec.json.encode(yaml.load(text, Loader=_loader(yaml)))  # noqa: S506 - it makes texts alone
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else f", in line {mark.line + 1}"
        raise ConfigurationError(
            f"the OpenAPI document is neither JSON nor YAML{line}", "see whether it is an OpenAPI document"
        ) from None
    except (ValueError, TypeError, RecursionError):
        raise ConfigurationError("the OpenAPI document is no YAML that JSON could hold", _JSON) from None


def _check_events(yaml: ModuleType, text: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=_loader(yaml)):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise ConfigurationError(f"the OpenAPI document is nested deeper than {MAX_DEPTH} levels", _JSON)
        if getattr(event, "anchor", None) is not None or getattr(event, "tag", None) is not None:
            raise ConfigurationError("the OpenAPI document has anchors, aliases or tags", _JSON)


def _loader(yaml: ModuleType) -> type:
    """Return the loader that makes a text of each scalar, in C where that is built."""
    return getattr(yaml, "CBaseLoader", yaml.BaseLoader)


def json_members(api: Api) -> dict[str, object]:
    """Return an API's routes as members of a JSON object."""
    found = api.proposals
    routes = [{"route": each.route.text, "scope": each.scope, "sensitive": each.sensitive} for each in found.routes]
    return {"routes": routes, "left_out": [{"route": each.route.text, "why": why} for each, why in found.left_out]}


def summarize_api(api: Api) -> str:
    """Return how many routes an API has, in words."""
    found = api.proposals
    sensitive = sum(each.sensitive for each in found.routes) or "none"
    left = f"; {len(found.left_out)} left out, see there why" if found.left_out else ""
    return f"{several(len(found.routes), 'route')}, {sensitive} of them sensitive{left}"


def first_scope(api: Api) -> str:
    """Return the scope of reads or, if there are none, that of one route."""
    scopes = [each.scope for each in api.proposals.routes]
    reading = read_scope(api.name)
    return reading if reading in scopes else scopes[0]


def check_served(content: bytes, file: Path, name: str) -> None:
    """Check that a gateway could have the API `name` by this content of `file`. Raises `ConfigurationError`."""
    for each in every_view(load(file, os.environ, {}, content=content)):
        if each.server == name and each.api is not None:
            build_api(each, each.api, os.environ)
