"""Reads an OpenAPI document (3.0, 3.1): where the API is, and its operations. No I/O.

A document may come from anybody. Whatever its form, it must not cost much to read, and must not hide an operation:

- [bounded] It has at most `MAX_OPENAPI_BYTES`, and at most `MAX_ROUTES` operations. Schemas, parameters and whatever
  else is not named here are skipped, not decoded.
- [local-refs] A path may be a `$ref` to another path, or to one of `components.pathItems`, of the same document, at
  most `MAX_REFS` in a row. A document with any other is refused: nobody knows which operations are behind it.
- [all-paths] A document whose paths or operations do not have the required form is refused, too.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeVar
from urllib.parse import unquote

import msgspec
from msgspec import Raw, Struct, field

from accredit.base.text import excerpt
from accredit.base.values import decodable
from accredit.errors import ConfigurationError
from accredit.http_api.routes import MAX_ROUTES

MAX_OPENAPI_BYTES = 33_554_432
"""The most bytes of an OpenAPI document. One of the largest, GitHub's, has 13 MB."""
MAX_REFS = 8
"""How many references in a row lead to a path's operations. Documents have one."""

MAX_SERVER_VARIABLES = 100
"""The most variables of a server's URL. Each operation's URL is made of them again."""
MAX_SERVER_CHARS = 2_048
"""The most characters of a server's URL. Its variables could make it grow beyond all bounds."""

Kind = TypeVar("Kind")
_METHODS = ("get", "head", "options", "post", "put", "patch", "delete", "trace")


class _Variable(Struct):
    default: str | None = None


class _Server(Struct):
    url: str = "/"
    variables: dict[str, _Variable] | None = None


class _Operation(Struct, rename="camel"):
    operation_id: str | None = None
    summary: str | None = None
    deprecated: bool | None = None
    servers: list[_Server] | None = None


@decodable
class _Path(Struct):
    ref: str | None = field(default=None, name="$ref")
    servers: list[_Server] | None = None
    get: _Operation | None = None
    head: _Operation | None = None
    options: _Operation | None = None
    post: _Operation | None = None
    put: _Operation | None = None
    patch: _Operation | None = None
    delete: _Operation | None = None
    trace: _Operation | None = None


class _Info(Struct):
    title: str | None = None


class _Components(Struct, rename="camel"):
    path_items: dict[str, Raw] | None = None


@decodable
class _Document(Struct):
    openapi: str | None = None
    swagger: str | None = None
    info: _Info | None = None
    servers: list[_Server] | None = None
    paths: dict[str, Raw] | None = None
    components: _Components | None = None


class Operation(NamedTuple):
    """An operation: its method and path template, what the document calls it, and its server's URL: "" if that is the
    same as for all others."""

    method: str
    path: str
    name: str
    summary: str
    deprecated: bool
    server: str


class ApiDocument(NamedTuple):
    """What a document says: the API's title, its URL, which may be relative ("" if it does not say), and
    its operations."""

    title: str
    server: str
    operations: tuple[Operation, ...]


def read_document(data: bytes) -> ApiDocument:
    """Read a document that is JSON. Raises `ConfigurationError`."""
    if len(data) > MAX_OPENAPI_BYTES:
        raise _unusable(f"has more than {MAX_OPENAPI_BYTES} bytes", "name a document of a part of the API")
    found = _decode(data.removeprefix(b"\xef\xbb\xbf"), _Document)
    version = found.openapi or found.swagger or ""
    if not version.startswith(("3.0", "3.1")):
        what = f"is of version {excerpt(version)}" if version else "does not say its version"
        raise _unusable(f"{what}, and OpenAPI 3.0 and 3.1 are read", "convert it, or name another one")
    operations: list[Operation] = []
    server = _url(found.servers)
    for each in _operations(found, server):
        operations.append(each)
        if len(operations) > MAX_ROUTES:
            raise _unusable(f"has more than {MAX_ROUTES} operations", "name a document of a part of the API")
    title = found.info.title if found.info is not None else None
    return ApiDocument(title or "", server, tuple(operations))


def _operations(document: _Document, server: str) -> Iterator[Operation]:
    places = {"paths": document.paths or {}, "components": (document.components or _Components()).path_items or {}}
    read: dict[tuple[str, str], _Path] = {}
    for path in places["paths"]:
        if path.startswith("x-"):
            continue
        if not path.startswith("/"):
            raise _unusable(f"has a path without a slash at its beginning: {excerpt(path)}", "correct it")
        items = [*_items(("paths", path), places, read)]
        servers = next((each.servers for each in items if each.servers), None)
        for method in _METHODS:
            here: list[_Operation | None] = [getattr(each, method) for each in items]
            found = next((each for each in here if each is not None), None)
            if found is not None:
                own = _url(found.servers or servers)
                yield Operation(
                    method.upper(),
                    path,
                    found.operation_id or "",
                    found.summary or "",
                    found.deprecated is True,
                    "" if own == server else own,
                )


def _items(
    at: tuple[str, str], places: Mapping[str, Mapping[str, Raw]], read: dict[tuple[str, str], _Path]
) -> Iterator[_Path]:
    """Yield a path's own item, and those that it refers to. `read` has those that were decoded already: many may refer
    to a large one."""
    for _ in range(MAX_REFS + 1):
        if at not in read:
            text = places[at[0]].get(at[1])
            if text is None:
                raise _unusable(f"refers to a path that it does not have: {excerpt(at[1])}", "correct it")
            read[at] = _decode(text, _Path)
        yield read[at]
        ref = read[at].ref
        if ref is None:
            return
        at = _target(ref)
    raise _unusable(f"has more than {MAX_REFS} references in a row", "write out the paths")


def _target(ref: str) -> tuple[str, str]:
    for place, start in (("paths", "#/paths/"), ("components", "#/components/pathItems/")):
        name = ref.removeprefix(start)
        if name != ref and "/" not in name:
            return place, unquote(name).replace("~1", "/").replace("~0", "~")
    raise _unusable(f"has a path that is elsewhere: {excerpt(ref)}", "bundle it into one document")


def _url(servers: list[_Server] | None) -> str:
    """Return the URL of the first server, with its variables' defaults; "" if there is none."""
    if not servers:
        return ""
    url = servers[0].url
    if len(servers[0].variables or {}) > MAX_SERVER_VARIABLES:
        raise _unusable(f"has a server's URL of more than {MAX_SERVER_VARIABLES} variables", "shorten it")
    for name, variable in (servers[0].variables or {}).items():
        times, default = url.count(f"{{{name}}}"), variable.default or ""
        if len(url) + times * len(default) > MAX_SERVER_CHARS:
            raise _unusable(f"has a server's URL of more than {MAX_SERVER_CHARS} characters", "shorten it")
        url = url.replace(f"{{{name}}}", default)
    return url


def _decode(text: bytes | Raw, kind: type[Kind]) -> Kind:
    try:
        return msgspec.json.decode(text, type=kind, strict=False)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _unusable(f"can't be read: {excerpt(str(error))}", "see whether it is an OpenAPI document") from None


def _unusable(what: str, remedy: str) -> ConfigurationError:
    return ConfigurationError(f"the OpenAPI document {what}", remedy)
