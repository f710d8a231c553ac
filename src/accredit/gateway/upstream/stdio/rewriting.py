"""Rewrites messages so that several clients can share one child, and restores them. No I/O.

Clients number their requests as they like, so each request gets a number of the gateway's own, which is also its
progress token and the name of its subscription. Only these members change; the text of all others stays as it is.
Functions raise `FrameError` for a message without the shape that they need.
"""

from msgspec import Raw

from accredit.base.steps import Steps
from accredit.errors import MessageId
from accredit.jsonrpc.brackets import check_brackets
from accredit.jsonrpc.encode import to_json, with_members
from accredit.jsonrpc.frames import Notification, Request
from accredit.jsonrpc.long_text import object_in_steps
from accredit.jsonrpc.methods import META_PROGRESS, META_SUBSCRIPTION
from accredit.jsonrpc.objects import is_object, members


def number_request(request: Request, number: int, *, token: bool) -> bytes:
    """Return a client's request under its number. `token` says that it has a progress token."""
    renamed = request.with_id(number)
    return (renamed.with_meta({META_PROGRESS: Raw(b"%d" % number)}) if token else renamed).text


def restore_client_id(text: bytes, id: MessageId, *, subscription: bool, observed: bool = False) -> Steps[bytes]:
    """Return a response under the client's id, in steps. `subscription` says that it may end one, which it names. If it
    is only `observed` it may be invalid: it is read leniently, in one step."""
    if observed:
        yield from check_brackets(text, "an answer")
        found = members(text)
        yield
    else:
        found = yield from object_in_steps(Raw(text.lstrip()))
    changes: dict[str, object] = {"id": id}
    result = found.get("result")
    if subscription and result is not None and is_object(result):
        outer = yield from object_in_steps(result)
        meta = outer.get("_meta")
        inner = (yield from object_in_steps(meta)) if meta is not None else {}
        if META_SUBSCRIPTION in inner:
            named = Raw(with_members(inner, {META_SUBSCRIPTION: id}))
            changes["result"] = Raw(with_members(outer, {"_meta": named}))
    yield
    return with_members(found, changes)


def subscription_of(notification: Notification) -> Raw | None:
    """Return the subscription that a notification names, or None."""
    return notification.in_meta(META_SUBSCRIPTION)


def tag_subscription(notification: Notification, id: MessageId) -> bytes:
    """Return a subscription's notification under the client's id of the request that opened it."""
    return notification.with_meta({META_SUBSCRIPTION: Raw(to_json(id))}).text


def with_param(notification: Notification, name: str, value: MessageId) -> bytes:
    """Return a notification with another value of one member of its params."""
    return notification.with_params({name: Raw(to_json(value))}).text
