"""The builders: what can't be asked is refused where it is written."""

import pytest
from mcp_types import (
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    InputRequest,
    InputRequiredResult,
    SamplingMessage,
    TextContent,
)
from pydantic import BaseModel
from tests.unit.rounds.script import FORM

from accredit.rounds import create_message, elicit, elicit_url, input_required, list_roots, read_input_required

pytestmark = pytest.mark.holds("rounds/requests")

HELLO = SamplingMessage(role="user", content=TextContent(type="text", text="hi"))


class Confirm(BaseModel):
    sure: bool


def test_every_builder_makes_what_a_client_can_read() -> None:
    asked = input_required(
        input_requests={
            "form": elicit("Sure?", FORM),
            "model": elicit("Sure?", Confirm),
            "page": elicit_url("Pay", "https://pay.example/1"),
            "text": create_message([HELLO], 100, system_prompt="Be short.", temperature=0.5),
            "roots": list_roots(),
        },
        request_state="s",
    )
    written = asked.model_dump(by_alias=True, mode="json", exclude_none=True)
    assert written["resultType"] == "input_required"
    assert read_input_required("tools/call", written) == asked


@pytest.mark.parametrize("requests", [None, {}])
def test_asking_for_nothing_is_refused__the_client_would_have_nothing_to_do(
    requests: dict[str, InputRequest] | None,
) -> None:
    with pytest.raises(ValueError, match="needs input_requests"):
        input_required(input_requests=requests)
    assert input_required(input_requests=requests, request_state="") == InputRequiredResult(request_state="")


def test_a_form_may_be_a_schema_or_a_model() -> None:
    by_hand, by_model = elicit("m", FORM).params, elicit("m", Confirm).params
    assert isinstance(by_hand, ElicitRequestFormParams)
    assert isinstance(by_model, ElicitRequestFormParams)
    assert by_hand.requested_schema == FORM
    assert by_model.requested_schema == {
        "type": "object",
        "properties": {"sure": {"title": "Sure", "type": "boolean"}},
        "required": ["sure"],
    }


@pytest.mark.parametrize("url", ["", "pay", "/pay", "//pay.example"])
def test_a_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="URL"):
        elicit_url("m", url)


def test_a_url_is_sent_as_it_was_given() -> None:
    params = elicit_url("m", "https://PAY.example").params
    assert isinstance(params, ElicitRequestURLParams)
    assert params.url == "https://PAY.example"


def test_a_field_that_a_message_does_not_have_is_refused__it_would_be_lost_without_a_word() -> None:
    with pytest.raises(TypeError, match="systemprompt"):
        create_message([HELLO], 100, systemprompt="Be short.")
    with pytest.raises(ValueError, match="temperature"):
        create_message([HELLO], 100, temperature="warm")
