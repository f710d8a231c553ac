"""What must change in messages for several clients to share one child, and back again. No I/O.

Every client numbers its requests as it likes, so each request gets a number of the gateway's, which is also its
progress token and the name of its subscription. Only these members change; the text of all others stays as it is.
Functions raise `FrameError` where a message has not the shape that they need.
"""

from msgspec import Raw

from accredit.errors import MessageId
from accredit.jsonrpc.encode import to_json, with_members
from accredit.jsonrpc.frames import Notification, Request
from accredit.jsonrpc.methods import META_PROGRESS, META_SUBSCRIPTION
from accredit.jsonrpc.objects import is_object, members


def numbered(request: Request, number: int, *, token: bool) -> bytes:
    """A client's request under its number; `token` says that it has a progress token."""
    renamed = request.with_id(number)
    return (renamed.with_meta({META_PROGRESS: Raw(b"%d" % number)}) if token else renamed).text


def answered(text: bytes, id: MessageId, *, subscription: bool) -> bytes:
    """A response under the client's id; `subscription` says that it may end one, which it names."""
    found = members(text)
    changes: dict[str, object] = {"id": id}
    if subscription and "result" in found and META_SUBSCRIPTION in _meta(found["result"]):
        changes["result"] = _with_meta(found["result"], META_SUBSCRIPTION, id)
    return with_members(found, changes)


def subscription_of(notification: Notification) -> Raw | None:
    """The subscription that a notification belongs to, if it says so."""
    return notification.in_meta(META_SUBSCRIPTION)


def subscribed(notification: Notification, id: MessageId) -> bytes:
    """A notification of a subscription, under the client's id of the request that opened it."""
    return notification.with_meta({META_SUBSCRIPTION: Raw(to_json(id))}).text


def with_param(notification: Notification, name: str, value: MessageId) -> bytes:
    """A notification with another value of one member of its params."""
    return notification.with_params({name: Raw(to_json(value))}).text


def _meta(holder: Raw) -> dict[str, Raw]:
    meta = members(holder).get("_meta") if is_object(holder) else None
    return members(meta) if meta is not None and is_object(meta) else {}


def _with_meta(holder: Raw, name: str, value: MessageId) -> Raw:
    meta = Raw(with_members(_meta(holder), {name: value}))
    return Raw(with_members(members(holder), {"_meta": meta}))
