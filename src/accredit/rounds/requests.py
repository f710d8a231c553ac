"""Builders of `input_required` results, for a server's author. No I/O.

They return the types of `mcp_types`; a result or request built by hand is just as valid. For an invalid request they
raise `ValueError`, so the fault is found where the request is written, and not at the client.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from mcp_types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    InputRequest,
    InputRequiredResult,
    ListRootsRequest,
    SamplingMessage,
)
from pydantic import AnyUrl, BaseModel, TypeAdapter

from accredit.rounds.forms import check_form, form_of

_URL = TypeAdapter(AnyUrl)


def input_required(
    *, input_requests: Mapping[str, InputRequest] | None = None, request_state: str | None = None
) -> InputRequiredResult:
    """Return the result that asks for input, under keys that the server chooses, with a state for the client to return.

    Raises `ValueError` if there is neither; an empty map does not count. Everyone on the way can read and change the
    state: protect it, or use a gateway that seals it.
    """
    if not input_requests and request_state is None:
        raise ValueError("input_required needs input_requests, or a request_state, or both")
    return InputRequiredResult(
        input_requests=dict(input_requests) if input_requests else None, request_state=request_state
    )


def elicit(message: str, schema: Mapping[str, Any] | type[BaseModel]) -> ElicitRequest:
    """Ask a person to fill in a form: a restricted JSON Schema, or a pydantic model whose fields map to one.

    Raises `ValueError`, with the field's name, for what a form can't hold (see `forms`).
    """
    if isinstance(schema, Mapping):
        check_form(schema)
        form = dict(schema)
    else:
        form = form_of(schema)
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=form))


def elicit_url(message: str, url: str) -> ElicitRequest:
    """Ask a person to visit a page, for what must not pass through the client (a password, a payment).

    The URL is sent as given. Raises `ValueError` if it is not absolute.
    """
    _URL.validate_python(url)
    return ElicitRequest(params=ElicitRequestURLParams(message=message, url=url))


def create_message(messages: Sequence[SamplingMessage], max_tokens: int, **params: Any) -> CreateMessageRequest:
    """Ask the client's language model for a message. `params` are further fields of `CreateMessageRequestParams`.

    Raises `TypeError` for an unknown field, and `ValueError` for a value that does not fit.
    """
    unknown = params.keys() - CreateMessageRequestParams.model_fields.keys()
    if unknown:
        raise TypeError(f"create_message has no field {min(unknown)!r}")
    return CreateMessageRequest(
        params=CreateMessageRequestParams(messages=list(messages), max_tokens=max_tokens, **params)
    )


def list_roots() -> ListRootsRequest:
    """Ask for the folders and files that the client lets the server work on."""
    return ListRootsRequest()
