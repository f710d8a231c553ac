"""Reads `inputResponses`, for a server's handler. No I/O.

The client can claim anything. The functions take the SDK's types as well as plain objects, and never raise for a
client's data:

- [kinds] an entry is a bare result of one of three kinds, recognised by the member that only that kind has (`action`,
  `roots`, `role`), and valid as such; anything else counts as missing, so that the server asks again;
- [accepted] content is used only if the person accepted.

Not checked: whether an answer is of the kind that was requested under its key, or whether anything was requested at
all. A server that must know this keeps it in a protected `requestState`.
"""

from collections.abc import Mapping
from typing import Any, Literal, NoReturn, TypeGuard, TypeVar, overload

from mcp_types import (
    CreateMessageResult,
    CreateMessageResultWithTools,
    ElicitResult,
    InputResponse,
    ListRootsResult,
    Root,
)
from msgspec import Struct
from pydantic import BaseModel, TypeAdapter, ValidationError

from accredit.rounds.results import Responses

_Model = TypeVar("_Model", bound=BaseModel)

_Content = dict[str, str | int | float | bool | list[str] | None]
"""What a person entered in a form, by field."""

_SAMPLED = TypeAdapter[CreateMessageResult | CreateMessageResultWithTools](
    CreateMessageResult | CreateMessageResultWithTools
)
_WRAPPING = frozenset({"method", "result"})


class _View(Struct, frozen=True):
    def __bool__(self) -> NoReturn:
        """Raise `TypeError`. An object would always be true, even if it stands for a refusal or for no answer."""
        raise TypeError("an answer is neither true nor false: ask for its kind and action, or for accepted_content")


class Missing(_View, frozen=True):
    """There is no usable answer."""

    kind: Literal["missing"] = "missing"


class Elicited(_View, frozen=True):
    """A person's answer. `content` is None unless a form was accepted."""

    action: Literal["accept", "decline", "cancel"]
    content: _Content | None
    kind: Literal["elicit"] = "elicit"


class Sampled(_View, frozen=True):
    """A language model's answer."""

    result: CreateMessageResult | CreateMessageResultWithTools
    kind: Literal["sampling"] = "sampling"


class Rooted(_View, frozen=True):
    """The client's roots: the folders and files that it lets the server work on."""

    roots: list[Root]
    kind: Literal["roots"] = "roots"


def input_response(responses: Responses, key: str) -> Missing | Elicited | Sampled | Rooted:
    """Return the answer to one entry. Its `kind` tells which of the classes it is."""
    entry = responses.get(key) if _is_object(responses) else None
    try:
        return _view(entry)
    except (ValidationError, RecursionError):
        return Missing()


def _view(entry: object) -> Missing | Elicited | Sampled | Rooted:
    match entry:
        case ElicitResult():
            accepted = entry.action == "accept"
            return Elicited(entry.action, entry.content if accepted else None)
        case CreateMessageResult() | CreateMessageResultWithTools():
            return Sampled(entry)
        case ListRootsResult():
            return Rooted(entry.roots)
        case _:
            return _plain_view(entry) if _is_object(entry) else Missing()


def _plain_view(entry: Mapping[str, Any]) -> Missing | Elicited | Sampled | Rooted:
    if "action" in entry:
        return _view(ElicitResult.model_validate(entry))
    if "roots" in entry:
        return _view(ListRootsResult.model_validate(entry))
    if "role" in entry:
        return _view(_SAMPLED.validate_python(entry))
    return Missing()


@overload
def accepted_content(responses: Responses, key: str) -> _Content | None: ...
@overload
def accepted_content(responses: Responses, key: str, model: type[_Model]) -> _Model | None: ...
def accepted_content(responses: Responses, key: str, model: type[_Model] | None = None) -> _Content | _Model | None:
    """Return a form's content if the person accepted the form, else None. With `model`, return the content as an
    instance of it, or None if it does not fit."""
    view = input_response(responses, key)
    content = view.content if isinstance(view, Elicited) else None
    if content is None or model is None:
        return content
    try:
        return model.model_validate(content)
    except ValidationError:
        return None


def partition_input_responses(raw: object) -> tuple[dict[str, InputResponse | Mapping[str, Any]], list[str]]:
    """Split `inputResponses` into its bare entries and the keys of the others, so that a handler can ask again for
    those.

    An entry that is not an object, or wraps its result in `{method, result}`, is not bare. If `inputResponses` is not a
    map, it has no entries.
    """
    if not _is_object(raw):
        return {}, []
    accepted = {key: entry for key, entry in raw.items() if _is_bare(entry)}
    return accepted, [key for key in raw if key not in accepted]


def _is_object(value: object) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, Mapping)


def _is_bare(entry: object) -> bool:
    if _is_object(entry):
        return _WRAPPING.isdisjoint(entry)
    return isinstance(entry, ElicitResult | CreateMessageResult | CreateMessageResultWithTools | ListRootsResult)
