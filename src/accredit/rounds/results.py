"""Reads a result as a client must: its kind, and the requests in it if it is `input_required`. Also makes the params of
the retry. No I/O.

A result is `complete`, `input_required`, or of an unknown kind (`check_result_type`). One that asks for input is read
in this order, and the first fault is raised:

- [methods] only `tools/call`, `prompts/get` and `resources/read` may be answered with one;
- [members] it has `inputRequests`, or `requestState` (a string), or both; an empty map counts as absent;
- [entries] every entry is an object with one of the three methods that may be embedded (else `UnknownInputRequest`);
- [params] the params of each entry are what its method takes; an elicitation without a mode is a form, whatever its
  other members are.

`with_input_required` makes a schema that reads in this way, for programs that send requests by themselves.

Not checked: whether the client declared the capability that an entry needs (`accredit.client` either has a handler for
it or not), and whether a form's schema can be shown.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, TypeGuard, TypeVar, cast, get_args

from mcp_types import (
    CreateMessageRequest,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    InputRequest,
    InputRequiredResult,
    InputResponse,
    InputResponseRequestParams,
    InputResponses,
    ListRootsRequest,
    Result,
)
from pydantic import BaseModel, PlainValidator, TypeAdapter, ValidationError

from accredit.base.deferred import Deferred
from accredit.errors import InvalidInputRequired, UnknownInputRequest, UnsupportedResultType

if TYPE_CHECKING:
    from mcp_types import methods
else:
    methods = Deferred("mcp_types.methods")  # the models of every revision, for `with_input_required` alone

INPUT_REQUIRED_METHODS = frozenset({"tools/call", "prompts/get", "resources/read"})
"""The requests that may be answered with `input_required` (basic/patterns/mrtr, "Supported Requests")."""

Params = TypeVar("Params", bound=InputResponseRequestParams | dict[str, Any])
"""A request's params: a model, or the object as it is on the wire."""

_Complete = TypeVar("_Complete", bound=BaseModel)

Responses = Mapping[str, InputResponse | Mapping[str, Any]] | None
"""`inputResponses` by key, as the SDK's types or plain objects; None if there are none."""

_KINDS = frozenset({"complete", "input_required"})
_RETRY_FIELDS = frozenset({"inputResponses", "requestState"})
_RESPONSES = TypeAdapter[InputResponses](InputResponses)
_MODES = {"form": ElicitRequestFormParams, "url": ElicitRequestURLParams}


def is_input_required_result(result: object) -> TypeGuard[InputRequiredResult | Mapping[str, Any]]:
    """Return whether a result (of the SDK's types, or a plain object) asks for input. One without `resultType` is
    complete."""
    if isinstance(result, InputRequiredResult):
        return True
    return _is_object(result) and result.get("resultType") == "input_required"


def check_result_type(result: object) -> None:
    """Refuse a result (of the SDK's types, or a plain object) whose kind this revision of MCP does not define. Raises
    `UnsupportedResultType`.

    A result without `resultType` is complete, and so is a value that is not a result of the protocol.
    """
    if isinstance(result, Result):
        kind: object = getattr(result, "result_type", None) or "complete"
    else:
        kind = result.get("resultType", "complete") if _is_object(result) else "complete"
    if not isinstance(kind, str) or kind not in _KINDS:
        raise UnsupportedResultType(kind, result)


def read_input_required(method: str, result: InputRequiredResult | Mapping[str, Any]) -> InputRequiredResult:
    """Return the requests in `result`, the answer to a request of this method. Raises `InvalidInputRequired` or
    `UnknownInputRequest`."""
    if method not in INPUT_REQUIRED_METHODS:
        raise InvalidInputRequired(f"in answer to {method!a:.40}")
    return _read(result)


def with_input_required(result: type[_Complete]) -> TypeAdapter[_Complete | InputRequiredResult]:
    """Return the schema of a result that may ask for input instead: for `session.send_request`, or to read an answer.

    If `resultType` is `input_required`, reading gives an `InputRequiredResult`, otherwise a `result`. Reading raises
    what `read_input_required` raises, `UnsupportedResultType`, and `ValidationError` if the answer does not fit
    `result`.

    Raises `ValueError` for an SDK model that answers a method which may not ask for input. For any other model the
    method is unknown here, so the caller must make sure that this method may ask for input.
    """
    answered = [method for method, row in methods.MONOLITH_RESULTS.items() if issubclass(result, get_args(row) or row)]
    if answered and INPUT_REQUIRED_METHODS.isdisjoint(answered):
        raise ValueError(f"{result.__name__} answers {answered[0]}, which may not ask for input")

    def read(raw: object) -> _Complete | InputRequiredResult:
        check_result_type(raw)
        return _read(raw) if is_input_required_result(raw) else result.model_validate(raw, by_name=False)

    return TypeAdapter[_Complete | InputRequiredResult](Annotated[Any, PlainValidator(read)])


def _read(result: InputRequiredResult | Mapping[str, Any]) -> InputRequiredResult:
    if isinstance(result, InputRequiredResult):
        requests, state = result.input_requests, result.request_state
    else:
        requests, state = _read_requests(result.get("inputRequests")), _read_state(result.get("requestState"))
    if not requests and state is None:
        raise InvalidInputRequired("it has neither inputRequests nor requestState")
    if isinstance(result, InputRequiredResult):
        return result
    meta = result.get("_meta")
    return InputRequiredResult(
        input_requests=requests or None, request_state=state, _meta=dict(meta) if _is_object(meta) else None
    )


def _read_state(state: object) -> str | None:
    if state is None or isinstance(state, str):
        return state
    raise InvalidInputRequired("requestState is not a string")


def _read_requests(requests: object) -> dict[str, InputRequest]:
    if requests is None:
        return {}
    if not _is_object(requests):
        raise InvalidInputRequired("inputRequests is not an object")
    return {key: _read_request(key, entry) for key, entry in requests.items()}


def _read_request(key: str, entry: object) -> InputRequest:
    if not _is_object(entry) or not isinstance(entry.get("method"), str):
        raise InvalidInputRequired(f"the input request {key!a:.40} is no request")
    method, params = entry["method"], entry.get("params")
    try:
        match method:
            case "elicitation/create":
                return ElicitRequest(params=_read_elicitation(key, params))
            case "sampling/createMessage":
                return CreateMessageRequest.model_validate({"params": params})
            case "roots/list":
                return ListRootsRequest.model_validate({"params": params})
            case _:
                raise UnknownInputRequest(key, method)
    except (ValidationError, RecursionError):
        raise InvalidInputRequired(f"the input request {key!a:.40} has params that do not fit {method}") from None


def _read_elicitation(key: str, params: object) -> ElicitRequestFormParams | ElicitRequestURLParams:
    mode = params.get("mode", "form") if _is_object(params) else "form"
    model = _MODES.get(mode) if isinstance(mode, str) else None
    if model is None:
        raise InvalidInputRequired(f"the input request {key!a:.40} is an elicitation of unknown mode")
    return model.model_validate(params)


def with_retry_params(
    params: Params,
    *,
    input_responses: Responses = None,
    request_state: str | None = None,
) -> Params:
    """Return the params of a retry: the original ones, with this round's answers and state instead of an earlier
    round's.

    If `params` is a plain object, the answers are added as plain objects too, under the names on the wire. If it is a
    model, its fields are set. `params` is not changed. Raises `ValueError` for an answer that is invalid.
    """
    if isinstance(params, InputResponseRequestParams):
        return cast("Params", _typed_retry(params, input_responses, request_state))
    retry = {name: value for name, value in params.items() if name not in _RETRY_FIELDS}
    if input_responses is not None:
        retry["inputResponses"] = {key: _plain(answer) for key, answer in input_responses.items()}
    if request_state is not None:
        retry["requestState"] = request_state
    return cast("Params", retry)


def _typed_retry(
    params: InputResponseRequestParams, responses: Responses, state: str | None
) -> InputResponseRequestParams:
    typed = None if responses is None else _RESPONSES.validate_python(responses)
    fields = {"input_responses": typed, "request_state": state}
    retry = params.model_copy(update=fields)
    # An absent field counts as never set, so that no serialisation of the model writes it.
    retry.model_fields_set.difference_update(name for name, value in fields.items() if value is None)
    return retry


def _plain(answer: InputResponse | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(answer, BaseModel):
        return answer.model_dump(by_alias=True, mode="json", exclude_none=True)
    return dict(answer)


def _is_object(value: object) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, Mapping)
