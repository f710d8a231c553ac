"""Reads the document that a command line names, an OpenAPI document or an agent's card, and finds where that API or
agent is. I/O: a file, or one URL.

- [named-only] Only the document's URL is fetched: https (or http on loopback), redirects within its origin,
  without credentials. Nothing that a document names is fetched.
- [credentials] `--header` and `--token-env` are for the API or agent, and taken only if its URL is named: a document
  could name anybody's.
- [yaml] YAML needs an extra. Its scalars are text, and anchors, aliases and tags are refused: a few lines of them can
  stand for millions.
"""

# ruff: noqa: PLC0415 - an extra, loaded where a document is YAML

import asyncio
import os
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import urljoin, urlsplit

import msgspec

from accredit.a2a.cards import CARD_PATH, MAX_CARD_BYTES, read_card
from accredit.a2a.shapes import Card
from accredit.a2a.skills import agent_url, propose_skills
from accredit.asking.probe import without_query
from accredit.asking.reaching import Reach
from accredit.base.deferred import require_extra
from accredit.config.apis import build_api
from accredit.config.load import load
from accredit.config.servers import every_view
from accredit.errors import AnswerError, ConfigurationError, KeySetError
from accredit.hosts import yaml_text
from accredit.http_api.openapi import MAX_OPENAPI_BYTES, ApiDocument, read_document
from accredit.http_api.proposals import propose
from accredit.keys import read_file
from accredit.net.fetch import check_url, fetch
from accredit.setup.config_text import Agent, Api

SERVER_DOCUMENT_SECONDS = 30.0
"""How many seconds there are to fetch a document: one of `MAX_OPENAPI_BYTES`, over a slow line."""

_JSON = "convert it to JSON"


class Document(NamedTuple):
    """A document that a command line names: the option, and the file or URL."""

    option: Literal["--openapi", "--agent-card"]
    where: Path | str


def named_document(
    openapi: Path | str | None,
    agent_card: Path | str | None,
    command: list[str] | None = None,
    proxy: str | None = None,
) -> Document | None:
    """Return the document that is named, or None. Raises `ConfigurationError` for options that do not go together."""
    if openapi is not None and agent_card is not None:
        raise ConfigurationError("--openapi and --agent-card are given", "name one: a server is an API or an agent")
    if openapi is None and proxy is not None:
        raise ConfigurationError("--proxy is for an HTTP API", "name its OpenAPI document: --openapi FILE")
    document = Document("--openapi", openapi) if openapi is not None else None
    if agent_card is not None:
        document = Document("--agent-card", agent_card)
    if document is not None and command is not None:
        raise ConfigurationError(f"{document.option} and a command are given", "an API or an agent has a URL alone")
    return document


def find_described(
    name: str,
    document: Document,
    url: str | None,
    proxy: str | None,
    reach: Reach,
) -> Api | Agent:
    """Return the API or agent of a document, as `[servers.NAME]`. `url` is its URL, or None for the one that the
    document names. `proxy` is the proxy that asks the gateway, or None if the API or agent is behind the gateway.
    Raises `ConfigurationError`."""
    if reach.all_headers and (url is None or proxy is not None):
        raise ConfigurationError(
            "--header and --token-env are for the URL of the API or agent, and none is named here",
            "name it: a document could name anybody's" if proxy is None else "leave them out: the proxy calls the API",
        )
    if document.option == "--openapi":
        return _find_api(name, document.where, url, proxy, reach)
    return _find_agent(name, document.where, url, reach)


def _find_api(name: str, where: Path | str, url: str | None, proxy: str | None, reach: Reach) -> Api:
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
    return Api(name, document.title, base.rstrip("/"), proxy, reach.configured, found)


def _find_agent(name: str, where: Path | str, url: str | None, reach: Reach) -> Agent:
    card = read_agent_card(where, reach.timeout)
    at = url or agent_url(card)
    if at is None:
        raise ConfigurationError(
            "the card names no JSON-RPC interface of A2A 1.0", "name the agent's URL as well, if it has one"
        )
    path = urlsplit(where).path if isinstance(where, str) else CARD_PATH
    return Agent(name, card.name, at, path, reach.configured, propose_skills(card, name))


def read_openapi(where: Path | str, seconds: float | None = None) -> ApiDocument:
    """Read the document of a file or URL. Raises `ConfigurationError`."""
    data = _read("--openapi", "OpenAPI document", where, MAX_OPENAPI_BYTES, seconds)
    return read_document(data if data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{") else _json_of_yaml(data))


def read_agent_card(where: Path | str, seconds: float | None = None) -> Card:
    """Read the card of a file or URL. Raises `ConfigurationError`."""
    try:
        return read_card(_read("--agent-card", "card", where, MAX_CARD_BYTES, seconds))
    except AnswerError as error:
        raise ConfigurationError(f"{error}", "see whether it is that of the agent") from None


def _read(option: str, what: str, where: Path | str, most: int, seconds: float | None) -> bytes:
    if isinstance(where, Path):
        return read_file(where, most).data
    check_url(option, where, "a document that comes in the clear can be anybody's")
    try:
        return asyncio.run(fetch(where, max_bytes=most, timeout=seconds or SERVER_DOCUMENT_SECONDS))
    except KeySetError as error:
        raise ConfigurationError(
            f"no {what} from {without_query(where)}: {error}", "save it as a file, and name that"
        ) from None


def _json_of_yaml(data: bytes) -> bytes:
    """Return a document in YAML as JSON ([yaml])."""
    require_extra("yaml", "hosts", "the OpenAPI document is YAML, and PyYAML is not installed")
    import yaml

    loader: type = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # it makes a text of each scalar, in C if built so
    try:
        text = data.decode("utf-8-sig")
        yaml_text.check_events(yaml, text, loader, "the OpenAPI document", _JSON)
        return msgspec.json.encode(yaml.load(text, Loader=loader))  # noqa: S506 - as it makes texts alone
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else f", in line {mark.line + 1}"
        raise ConfigurationError(
            f"the OpenAPI document is neither JSON nor YAML{line}", "see whether it is an OpenAPI document"
        ) from None
    except (ValueError, TypeError, RecursionError):
        raise ConfigurationError("the OpenAPI document is no YAML that JSON could hold", _JSON) from None


def check_served(content: bytes, file: Path, name: str) -> None:
    """Check that a gateway would accept the API or agent that `content`, the new content of `file`, configures. Raises
    `ConfigurationError`."""
    for each in every_view(load(file, os.environ, {}, content=content)):
        if each.server == name and each.api is not None:
            build_api(each, each.api, os.environ)
