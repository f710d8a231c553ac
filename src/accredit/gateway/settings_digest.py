"""The digest by which records name a gateway's settings (`policy.digest`) if no configuration gave one. No I/O.

It is the SHA-256 of the RFC 8785 form of all settings, by name:

- [secrets] of settings that `repr` hides (headers, environments, secrets) only the names are included;
- [ids] a principal's key is included as its id, which is derived from the key. A URL is included without its query,
  where some servers take their key;
- [left-out] what is not a plain value (a key ring, a cache) is left out, and so is what affects no call (`workers`).
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
from accredit.tokens import AccessGrant

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
        case HttpUpstream() | ApiUpstream():
            return _upstream(value)
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


def _upstream(upstream: HttpUpstream | ApiUpstream) -> object:
    if isinstance(upstream, ApiUpstream):
        told = {"protocol": upstream.protocol, "proxy": upstream.proxy, "routes": sorted(upstream.routes.routes)}
        behind = _upstream(upstream.behind) if upstream.behind is not None else None
        return {**told, "behind": behind, "forward_headers": list(upstream.forward_headers)}
    url, *urls = (url.partition("?")[0] for url in (upstream.url, *upstream.others))
    others = {"others": urls} if urls else {}
    auth = {"auth": _of_grant(upstream.auth)} if upstream.auth is not None else {}
    return {"url": url, "headers": sorted(upstream.headers), **others, **auth}


def _of_grant(grant: AccessGrant) -> dict[str, object]:
    """Return an access grant without its secret, and with its URL without the query."""
    shown = {name: getattr(grant, name) for name in grant.__struct_fields__ if name != "client_secret"}
    return {**shown, "token_url": grant.token_url.partition("?")[0]}


def _field(value: object, field: "dataclasses.Field[Any]") -> object:
    content = getattr(value, field.name)
    if field.repr:
        return _plain(content)
    return sorted(map(_name, cast("Mapping[object, object]", content))) if isinstance(content, Mapping) else _LEFT_OUT


def _name(key: object) -> str:
    return key.id if isinstance(key, HybridPublicKey) else str(key)


def _without(table: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in table.items() if value is not _LEFT_OUT}
