"""What a client makes of an `input_required` result, and what it sends back."""

import json
from typing import Any, assert_type

import pytest
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    CreateMessageRequestParams,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    EmptyResult,
    GetPromptRequestParams,
    GetPromptResult,
    InputRequiredResult,
    ListToolsResult,
    ReadResourceRequestParams,
    ReadResourceResult,
    Result,
)
from pydantic import BaseModel, TypeAdapter, ValidationError
from tests.unit.rounds.script import FORM, asks

from accredit.errors import InvalidInputRequired, UnknownInputRequest, UnsupportedResultType
from accredit.rounds import (
    is_input_required_result,
    read_input_required,
    with_input_required,
    with_retry_params,
)

pytestmark = pytest.mark.holds("rounds/results")

DECLINED = ElicitResult(action="decline")
MESSAGE = {"role": "user", "content": {"type": "text", "text": "hi"}}
GOOD: list[tuple[dict[str, Any], type | None]] = [
    ({"method": "elicitation/create", "params": {"message": "m", "requestedSchema": FORM}}, ElicitRequestFormParams),
    (
        {"method": "elicitation/create", "params": {"mode": "url", "message": "m", "url": "https://a.example/"}},
        ElicitRequestURLParams,
    ),
    (
        {"method": "sampling/createMessage", "params": {"messages": [MESSAGE], "maxTokens": 9}},
        CreateMessageRequestParams,
    ),
    ({"method": "roots/list"}, None),
]


def wire(entry: object, **members: object) -> dict[str, Any]:
    return {"resultType": "input_required", "inputRequests": {"k": entry}, **members}


@pytest.mark.parametrize("method", ["tools/call", "prompts/get", "resources/read"])
@pytest.mark.parametrize(("entry", "params"), GOOD)
def test_each_kind_is_read_in_answer_to_each_of_the_three_methods(
    method: str, entry: dict[str, Any], params: type | None
) -> None:
    asked = read_input_required(method, wire(entry, requestState="s", _meta={"a": 1}))
    assert asked.request_state == "s"
    assert asked.meta == {"a": 1}
    assert asked.input_requests is not None
    request = asked.input_requests["k"]
    assert request.method == entry["method"]
    assert isinstance(request.params, params or type(None))


def test_a_typed_result_is_taken_as_it_is() -> None:
    asked = asks("a")
    assert read_input_required("tools/call", asked) is asked


@pytest.mark.holds("rounds/results", "params")
def test_an_elicitation_without_a_mode_is_a_form__a_url_must_not_pass_as_one() -> None:
    params = {"message": "m", "requestedSchema": FORM, "url": "https://evil.example/"}
    asked = read_input_required("tools/call", wire({"method": "elicitation/create", "params": params}))
    assert asked.input_requests is not None
    assert isinstance(asked.input_requests["k"].params, ElicitRequestFormParams)


BAD: list[dict[str, Any]] = [
    {"resultType": "input_required"},
    {"resultType": "input_required", "inputRequests": {}},
    {"resultType": "input_required", "inputRequests": []},
    {"resultType": "input_required", "requestState": 7},
    {"resultType": "input_required", "requestState": b"s"},
    wire(None),
    wire([]),
    wire({}),
    wire({"method": 7}),
    wire({"method": "elicitation/create"}),
    wire({"method": "elicitation/create", "params": None}),
    wire({"method": "elicitation/create", "params": []}),
    wire({"method": "elicitation/create", "params": {"message": "m"}}),
    wire({"method": "elicitation/create", "params": {"mode": "voice", "message": "m", "requestedSchema": FORM}}),
    wire({"method": "elicitation/create", "params": {"mode": 7, "message": "m", "requestedSchema": FORM}}),
    wire({"method": "elicitation/create", "params": {"mode": "url", "message": "m"}}),
    wire({"method": "sampling/createMessage", "params": {"messages": []}}),
    wire({"method": "roots/list", "params": 7}),
]


@pytest.mark.holds("rounds/results", "members", "entries", "params")
@pytest.mark.parametrize("result", BAD)
def test_a_result_that_the_protocol_does_not_allow_is_refused(result: dict[str, Any]) -> None:
    assert is_input_required_result(result)
    with pytest.raises(InvalidInputRequired) as caught:
        read_input_required("tools/call", result)
    assert len(str(caught.value)) < 200


@pytest.mark.holds("rounds/results", "methods")
@pytest.mark.parametrize("method", ["tools/list", "ping", "é" * 1_000])
def test_no_other_method_may_be_answered_so(method: str) -> None:
    with pytest.raises(InvalidInputRequired) as caught:
        read_input_required(method, asks("a"))
    assert str(caught.value).isascii()
    assert len(str(caught.value)) < 200


@pytest.mark.holds("rounds/results", "entries")
@pytest.mark.parametrize("method", ["", "elicitation", "roots/list ", "x" * 10_000])
def test_an_unknown_kind_has_an_error_of_its_own_that_quotes_little(method: str) -> None:
    with pytest.raises(UnknownInputRequest) as caught:
        read_input_required("tools/call", wire({"method": method}))
    assert caught.value.method == method
    assert len(str(caught.value)) < 200


def test_both_forms_of_a_result_are_recognized_and_nothing_else_is() -> None:
    assert is_input_required_result(asks("a"))
    assert is_input_required_result({"resultType": "input_required"})
    for other in (None, 7, "input_required", ["resultType"], {"resultType": "complete"}, {"inputRequests": {"a": {}}}):
        assert not is_input_required_result(other)


# --- retries ----------------------------------------------------------------------------------------


def test_an_object_comes_back_as_an_object_with_bare_answers_under_the_names_of_the_wire() -> None:
    params = {"uri": "file:///a", "_meta": {"a": 1}, "inputResponses": {"old": {}}, "requestState": "old"}
    retry = with_retry_params(params, input_responses={"a": DECLINED, "b": {"action": "cancel"}}, request_state="s")
    assert retry == {
        "uri": "file:///a",
        "_meta": {"a": 1},
        "inputResponses": {"a": {"action": "decline"}, "b": {"action": "cancel"}},
        "requestState": "s",
    }
    assert params["requestState"] == "old"


def test_a_retry_of_an_object_without_answers_or_state_has_neither() -> None:
    assert with_retry_params({"name": "n", "inputResponses": {}, "requestState": ""}) == {"name": "n"}


@pytest.mark.parametrize(
    "params",
    [
        CallToolRequestParams(name="n", arguments={"a": 1}),
        GetPromptRequestParams(name="n"),
        ReadResourceRequestParams(uri="file:///a"),
    ],
)
def test_a_model_comes_back_as_the_same_kind_of_model(
    params: CallToolRequestParams | GetPromptRequestParams | ReadResourceRequestParams,
) -> None:
    stale = params.model_copy(update={"input_responses": {"old": DECLINED}, "request_state": "old"})
    retry = with_retry_params(stale, input_responses={"a": {"action": "decline"}}, request_state="s")
    assert type(retry) is type(params)
    assert retry.input_responses == {"a": DECLINED}
    assert retry.request_state == "s"
    assert stale.request_state == "old"
    bare = with_retry_params(stale)
    assert bare == params
    written = bare.model_dump(by_alias=True, exclude_unset=True)
    assert not {"inputResponses", "requestState"} & written.keys()


def test_an_answer_that_is_none_is_refused_in_a_model() -> None:
    with pytest.raises(ValueError, match="input"):
        with_retry_params(CallToolRequestParams(name="n"), input_responses={"a": {"action": "perhaps"}})


def test_a_manual_round_needs_no_cast() -> None:
    asked: InputRequiredResult = asks("a", state="s")
    params = CallToolRequestParams(name="n")
    retry: CallToolRequestParams = with_retry_params(
        params, input_responses={"a": DECLINED}, request_state=asked.request_state
    )
    assert retry.name == "n"


class Forecast(Result):
    """What a method of a vendor's answers."""

    degrees: int


class Weather(BaseModel):
    """What a program wants of a tool's result."""

    content: list[dict[str, str]]


def test_a_schema_of_a_result_may_ask_for_input_in_its_place__and_checkers_know_both_types() -> None:
    schema = with_input_required(Forecast)
    assert_type(schema, TypeAdapter[Forecast | InputRequiredResult])
    result = schema.validate_python({"resultType": "complete", "degrees": 20})
    assert_type(result, Forecast | InputRequiredResult)
    assert result == Forecast(degrees=20)
    assert schema.validate_python({"degrees": 20}) == result  # of an older server
    asked = {"resultType": "input_required", "requestState": "s"}
    for read in (schema.validate_python(asked), schema.validate_json(json.dumps(asked))):
        assert isinstance(read, InputRequiredResult)
        assert read.request_state == "s"


@pytest.mark.parametrize("model", [CallToolResult, GetPromptResult, ReadResourceResult, Weather])
def test_a_schema_takes_no_result_that_asks_wrongly_or_is_of_no_known_kind(model: type[BaseModel]) -> None:
    schema = with_input_required(model)
    with pytest.raises(UnsupportedResultType) as unknown:
        schema.validate_python({"resultType": "partial", "content": []})
    assert unknown.value.result_type == "partial"
    with pytest.raises(InvalidInputRequired):
        schema.validate_python({"resultType": "input_required", "content": []})
    with pytest.raises(UnknownInputRequest):
        schema.validate_python(wire({"method": "vendor/ask"}))


@pytest.mark.parametrize("raw", [{}, {"degrees": "warm"}, {"requestState": "s"}, None, []])
def test_what_fits_no_schema_is_no_result_that_asks(raw: object) -> None:
    with pytest.raises(ValidationError):
        with_input_required(Forecast).validate_python(raw)


@pytest.mark.parametrize("model", [ListToolsResult, EmptyResult, ElicitResult])
def test_there_is_no_schema_for_a_method_that_may_not_ask(model: type[BaseModel]) -> None:
    with pytest.raises(ValueError, match=f"{model.__name__} answers .* may not ask"):
        with_input_required(model)
