"""The digest by which records name a gateway's settings (`policy.digest`) if there is no configuration's digest. No
I/O.

It is the SHA-256 of the RFC 8785 form of all settings, by name:

- [secrets] for settings that `repr` hides (headers, environments, secrets), only the names are included;
- [ids] a principal's key is included as its id, which is derived from the key. A URL is included without its query, as
  that may hold a key;
- [left-out] values that are not plain data (a key ring, a cache) are left out, and so are settings that affect no call
  (`workers`).
"""

import dataclasses
from collections.abc import Collection, Mapping
from enum import Enum
from pathlib import PurePath
from typing import Any, cast

import msgspec
from msgspec import Struct

from accredit.attest import canonical, sha256_hex
from accredit.gateway.settings import ApiUpstream, GatewaySettings, HttpUpstream
from accredit.ratify import HybridPublicKey
from accredit.tokens.access import AccessGrant
from accredit.tokens.introspection import Introspection

_LEFT_OUT = object()


def settings_digest(settings: GatewaySettings) -> str:
    """Return the digest, 64 lower-case hex characters."""
    return sha256_hex(canonical(msgspec.json.encode(_plain(dataclasses.replace(settings, workers=1)))))


def _plain(value: object) -> object:
    match value:
        case None | bool() | int() | float() | str():
            return value
        case Enum():
            return value.name
        case PurePath():
            return str(value)
        case HttpUpstream() | ApiUpstream() | Introspection():
            return _peer(value)
        case Mapping():
            table = cast("Mapping[object, object]", value)
            return _without({_name(key): _plain(each) for key, each in table.items()})
        case tuple() | list():
            return [_plain(each) for each in cast("Collection[object]", value)]
        case set() | frozenset():
            return sorted(map(str, cast("Collection[object]", value)))
        case Struct():
            return _without({name: _plain(getattr(value, name)) for name in value.__struct_fields__})
        case _ if dataclasses.is_dataclass(value):
            return _without({field.name: _field(value, field) for field in dataclasses.fields(value)})
        case _:
            return _LEFT_OUT


def _peer(peer: HttpUpstream | ApiUpstream | Introspection) -> object:
    if isinstance(peer, Introspection):
        return _without_secret(peer, "url")
    if isinstance(peer, ApiUpstream):
        told = {"protocol": peer.protocol, "proxy": peer.proxy, "routes": sorted(peer.routes.routes)}
        behind = _peer(peer.behind) if peer.behind is not None else None
        agent = {each: getattr(peer.agent, each) for each in ("push_urls", "client_contexts")} if peer.agent else {}
        return {**told, "behind": behind, "forward_headers": list(peer.forward_headers), **agent}
    url, *urls = (url.partition("?")[0] for url in (peer.url, *peer.others))
    others = {"others": urls} if urls else {}
    auth = {"auth": _without_secret(peer.auth, "token_url")} if peer.auth is not None else {}
    return {"url": url, "headers": sorted(peer.headers), **others, **auth}


def _without_secret(client: AccessGrant | Introspection, url: str) -> dict[str, object]:
    """Return the settings of a client of an authorization server, without the secret. `url` is the name of the member
    with the URL, whose query is left out."""
    shown = {name: getattr(client, name) for name in client.__struct_fields__ if name != "client_secret"}
    return {**shown, url: getattr(client, url).partition("?")[0]}


def _field(value: object, field: "dataclasses.Field[Any]") -> object:
    content = getattr(value, field.name)
    if field.repr:
        return _plain(content)
    return sorted(map(_name, cast("Mapping[object, object]", content))) if isinstance(content, Mapping) else _LEFT_OUT


def _name(key: object) -> str:
    return key.id if isinstance(key, HybridPublicKey) else str(key)


def _without(table: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in table.items() if value is not _LEFT_OUT}
