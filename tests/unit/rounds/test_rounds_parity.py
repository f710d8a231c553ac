"""What the specification's schema has of rounds, our builders can say and our readers give back.

The SDK generates `mcp_types._v2026_07_28` from that schema. `EXAMPLES` has one object with every member of each type: a
member that a new SDK brings has to be put there, and then ours must be able to set it or to read it.
"""

from typing import Any, get_args

import mcp_types as types
import mcp_types._v2026_07_28 as schema
import pytest
from pydantic import BaseModel, TypeAdapter

from accredit.rounds import (
    Elicited,
    Rooted,
    Sampled,
    accepted_content,
    create_message,
    elicit,
    elicit_url,
    input_required,
    input_response,
    list_roots,
    partition_input_responses,
    read_input_required,
    with_retry_params,
)
from accredit.rounds.forms import check_form

WORDS = {"title": "T", "description": "D"}
TEXT = {"type": "string", **WORDS}
TITLED = [{"const": "a", "title": "A"}, {"const": "b", "title": "B"}]
MANY = {"type": "array", "minItems": 1, "maxItems": 2, "default": ["a"], **WORDS}
FIELDS: dict[type[BaseModel], dict[str, Any]] = {
    schema.StringSchema: {**TEXT, "format": "email", "minLength": 1, "maxLength": 9, "default": "d"},
    schema.NumberSchema: {"type": "integer", "minimum": 1, "maximum": 9, "default": 3, **WORDS},
    schema.BooleanSchema: {"type": "boolean", "default": True, **WORDS},
    schema.UntitledSingleSelectEnumSchema: {**TEXT, "enum": ["a", "b"], "default": "a"},
    schema.TitledSingleSelectEnumSchema: {**TEXT, "oneOf": TITLED, "default": "a"},
    schema.UntitledMultiSelectEnumSchema: {**MANY, "items": {"type": "string", "enum": ["a", "b"]}},
    schema.TitledMultiSelectEnumSchema: {**MANY, "items": {"anyOf": TITLED}},
    schema.LegacyTitledEnumSchema: {**TEXT, "enum": ["a", "b"], "enumNames": ["A", "B"], "default": "a"},
}
FORM: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {each.__name__: field for each, field in FIELDS.items()},
    "required": ["StringSchema"],
}
BLOCK = {"type": "text", "text": "hi"}
SAMPLING: dict[str, Any] = {
    "messages": [{"role": "user", "content": BLOCK, "_meta": {"m": 1}}],
    "maxTokens": 9,
    "includeContext": "none",
    "metadata": {"a": 1},
    "modelPreferences": {
        "hints": [{"name": "small"}],
        "costPriority": 0.1,
        "speedPriority": 0.2,
        "intelligencePriority": 0.3,
    },
    "stopSequences": ["."],
    "systemPrompt": "Be short.",
    "temperature": 0.5,
    "toolChoice": {"mode": "auto"},
    "tools": [{"name": "look", "inputSchema": {"type": "object"}}],
}
FILLED = {"mode": "form", "message": "Sure?", "requestedSchema": FORM}
PAGE = {"mode": "url", "message": "Pay", "url": "https://pay.example/1"}
REQUESTS: dict[str, Any] = {
    "form": {"method": "elicitation/create", "params": FILLED},
    "page": {"method": "elicitation/create", "params": PAGE},
    "text": {"method": "sampling/createMessage", "params": SAMPLING},
    "roots": {"method": "roots/list"},
}
ROOT = {"uri": "file:///home", "name": "home", "_meta": {"r": 1}}
RESPONSES: dict[str, Any] = {
    "form": {"action": "accept", "content": {"a": "b", "c": 1, "d": 0.5, "e": True, "f": ["g"]}},
    "text": {"role": "assistant", "content": BLOCK, "model": "m", "stopReason": "endTurn", "_meta": {"s": 1}},
    "roots": {"roots": [ROOT]},
}
ASKED = {"resultType": "input_required", "inputRequests": REQUESTS, "requestState": "s", "_meta": {"a": 1}}

EXAMPLES: dict[type[BaseModel], dict[str, Any]] = {
    **FIELDS,
    schema.OneOfItem: TITLED[0],
    schema.AnyOfItem: TITLED[0],
    schema.Items: FIELDS[schema.TitledMultiSelectEnumSchema]["items"],
    schema.Items1: FIELDS[schema.UntitledMultiSelectEnumSchema]["items"],
    schema.RequestedSchema: FORM,
    schema.ElicitRequest: REQUESTS["form"],
    schema.ElicitRequestFormParams: FILLED,
    schema.ElicitRequestURLParams: PAGE,
    schema.CreateMessageRequest: REQUESTS["text"],
    schema.CreateMessageRequestParams: SAMPLING,
    schema.SamplingMessage: SAMPLING["messages"][0],
    schema.ModelPreferences: SAMPLING["modelPreferences"],
    schema.ToolChoice: SAMPLING["toolChoice"],
    schema.ElicitResult: RESPONSES["form"],
    schema.CreateMessageResult: RESPONSES["text"],
    schema.ListRootsResult: RESPONSES["roots"],
    schema.Root: ROOT,
    schema.InputRequiredResult: ASKED,
}


def members(model: type[BaseModel]) -> set[str]:
    """As they are on the wire."""
    return {field.alias or name for name, field in model.model_fields.items()}


def wire(value: BaseModel) -> Any:
    return value.model_dump(by_alias=True, mode="json", exclude_none=True)


@pytest.mark.parametrize(("model", "example"), EXAMPLES.items(), ids=lambda each: getattr(each, "__name__", ""))
def test_no_member_of_the_schema_is_forgotten(model: type[BaseModel], example: dict[str, Any]) -> None:
    assert members(model) == example.keys()
    model.model_validate(example)


def test_no_kind_of_request_of_answer_or_of_field_is_forgotten() -> None:
    requests = {type(TypeAdapter[Any](schema.InputRequest).validate_python(each)) for each in REQUESTS.values()}
    assert requests == set(get_args(schema.InputRequest))
    assert set(get_args(schema.InputResponse)) == {
        schema.CreateMessageResult, schema.ElicitResult, schema.ListRootsResult,
    }  # fmt: skip
    assert set(get_args(schema.PrimitiveSchemaDefinition)) == FIELDS.keys()
    assert set(get_args(schema.ElicitRequestParams)) == {schema.ElicitRequestFormParams, schema.ElicitRequestURLParams}
    # A request for roots has nothing to say.
    assert members(schema.ListRootsRequest) == {"method", "params"}


# What the SDK's models have besides belongs to older revisions, and to no round.
OLDER: list[tuple[type[BaseModel], type[BaseModel], set[str]]] = [
    (types.InputRequiredResult, schema.InputRequiredResult, set()),
    (types.ElicitRequestFormParams, schema.ElicitRequestFormParams, {"_meta", "task"}),
    (types.ElicitRequestURLParams, schema.ElicitRequestURLParams, {"_meta", "task", "elicitationId"}),
    (types.CreateMessageRequestParams, schema.CreateMessageRequestParams, {"_meta", "task"}),
    (types.ElicitResult, schema.ElicitResult, {"_meta"}),
    (types.CreateMessageResult, schema.CreateMessageResult, set()),
    (types.CreateMessageResultWithTools, schema.CreateMessageResult, set()),
    (types.ListRootsResult, schema.ListRootsResult, {"_meta"}),
    (types.Root, schema.Root, set()),
    (types.InputResponseRequestParams, schema.InputResponseRequestParams, set()),
]


@pytest.mark.parametrize(("ours", "model", "older"), OLDER)
def test_the_types_that_ours_give_have_what_the_schema_has(
    ours: type[BaseModel], model: type[BaseModel], older: set[str]
) -> None:
    assert members(ours) - older == members(model)


def test_builders_can_say_all_of_it() -> None:
    fields = types.CreateMessageRequestParams.model_fields
    given = {name: SAMPLING[field.alias or name] for name, field in fields.items() if (field.alias or name) in SAMPLING}
    messages = [types.SamplingMessage.model_validate(each) for each in given.pop("messages")]
    built = input_required(
        input_requests={
            "form": elicit("Sure?", FORM),
            "page": elicit_url("Pay", "https://pay.example/1"),
            "text": create_message(messages, given.pop("max_tokens"), **given),
            "roots": list_roots(),
        },
        request_state="s",
    )
    built.meta = {"a": 1}  # it is no matter of rounds
    assert wire(built) == ASKED


def test_a_client_reads_all_of_it() -> None:
    assert wire(read_input_required("tools/call", ASKED)) == ASKED


def test_a_server_reads_all_of_every_answer() -> None:
    accepted, dropped = partition_input_responses(RESPONSES)
    assert (accepted, dropped) == (RESPONSES, [])
    form, text, roots = (input_response(RESPONSES, key) for key in ("form", "text", "roots"))
    assert isinstance(form, Elicited)
    assert {"action": form.action, "content": form.content} == RESPONSES["form"]
    assert accepted_content(RESPONSES, "form") == RESPONSES["form"]["content"]
    assert isinstance(text, Sampled)
    assert wire(text.result) == RESPONSES["text"]
    assert isinstance(roots, Rooted)
    assert {"roots": [wire(root) for root in roots.roots]} == RESPONSES["roots"]


@pytest.mark.parametrize("action", get_args(schema.ElicitResult.model_fields["action"].annotation))
def test_every_action_of_a_person_is_known(action: str) -> None:
    answer = input_response({"k": {"action": action}}, "k")
    assert isinstance(answer, Elicited)
    assert answer.action == action


@pytest.mark.parametrize("key", ["text", "block"])
@pytest.mark.parametrize("block", get_args(schema.SamplingMessageContentBlock), ids=lambda each: each.__name__)
def test_every_kind_of_block_that_a_model_can_answer_is_read(block: type[BaseModel], key: str) -> None:
    blocks: dict[type[BaseModel], dict[str, Any]] = {
        schema.TextContent: BLOCK,
        schema.ImageContent: {"type": "image", "data": "AA==", "mimeType": "image/png"},
        schema.AudioContent: {"type": "audio", "data": "AA==", "mimeType": "audio/wav"},
        schema.ToolUseContent: {"type": "tool_use", "id": "1", "name": "look", "input": {}},
        schema.ToolResultContent: {"type": "tool_result", "toolUseId": "1", "content": [BLOCK]},
    }
    content = blocks[block] if key == "block" else [blocks[block], BLOCK]
    answer = input_response({"k": {"role": "assistant", "content": content, "model": "m"}}, "k")
    assert isinstance(answer, Sampled)
    assert wire(answer.result)["content"] == content


def test_a_retry_says_all_that_a_leg_may_say_of_its_round() -> None:
    retry = with_retry_params({"name": "t"}, input_responses=RESPONSES, request_state="s")
    assert retry.keys() - {"name"} == members(schema.InputResponseRequestParams) - {"_meta"}


@pytest.mark.parametrize("word", ["format", "type"])
def test_every_format_and_every_type_of_a_field_can_be_asked_for(word: str) -> None:
    for model in get_args(schema.PrimitiveSchemaDefinition):
        if word in model.model_fields:
            for value in words_of(model.model_fields[word].annotation):
                field = {**FIELDS[model], word: value}
                check_form({**FORM, "properties": {"StringSchema": field}})
                assert wire(elicit("?", {**FORM, "properties": {"StringSchema": field}}))["params"]["requestedSchema"]


def words_of(annotation: Any) -> set[str]:
    """The texts of a `Literal`, in a union or not."""
    words: set[str] = set()
    for each in get_args(annotation):
        words |= {each} if isinstance(each, str) else words_of(each)
    return words
