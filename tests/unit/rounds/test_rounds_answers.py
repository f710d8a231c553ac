"""What a server's handler reads of what came back: all of it is the client's word."""

from typing import Any

import pytest
from mcp_types import (
    CallToolResult,
    CreateMessageResult,
    CreateMessageResultWithTools,
    ElicitResult,
    ListRootsResult,
    Root,
    TextContent,
)
from pydantic import BaseModel, FileUrl

from accredit.rounds import (
    Elicited,
    Missing,
    Rooted,
    Sampled,
    accepted_content,
    input_response,
    partition_input_responses,
)

pytestmark = pytest.mark.holds("rounds/answers")


class Answer(BaseModel):
    sure: bool
    note: str = ""


HELLO = TextContent(type="text", text="hi")
ACCEPTED = ElicitResult(action="accept", content={"sure": True})
SAMPLED = CreateMessageResult(role="assistant", content=HELLO, model="m")
TOOLED = CreateMessageResultWithTools(role="assistant", content=[HELLO], model="m")
ROOTS = ListRootsResult(roots=[Root(uri=FileUrl("file:///home"))])


def plain(result: BaseModel) -> dict[str, Any]:
    return result.model_dump(by_alias=True, mode="json", exclude_none=True)


@pytest.mark.parametrize(
    ("result", "view"),
    [
        (ACCEPTED, Elicited("accept", {"sure": True})),
        (ElicitResult(action="accept"), Elicited("accept", None)),
        (ElicitResult(action="decline", content={"sure": True}), Elicited("decline", None)),
        (ElicitResult(action="cancel"), Elicited("cancel", None)),
        (SAMPLED, Sampled(SAMPLED)),
        (TOOLED, Sampled(TOOLED)),
        (ROOTS, Rooted(ROOTS.roots)),
    ],
)
def test_each_kind_of_answer_has_its_view_typed_or_plain(result: Any, view: Any) -> None:
    assert input_response({"k": result}, "k") == view
    assert input_response({"k": plain(result)}, "k") == view


def test_views_are_told_apart_by_their_kind() -> None:
    kinds = [input_response({"k": answer}, "k").kind for answer in (ACCEPTED, SAMPLED, ROOTS)]
    assert [*kinds, input_response({}, "k").kind] == ["elicit", "sampling", "roots", "missing"]


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.holds("rounds/answers", "kinds")
@pytest.mark.parametrize(
    "entry",
    [
        None,
        7,
        [],
        {},
        {"action": "perhaps"},
        {"action": "accept", "content": {"a": {"b": 1}}},
        {"action": "accept", "content": nested(3_000)},
        {"roots": 7},
        {"roots": [{"uri": "https://a.example/"}]},
        {"role": "assistant"},
        {"method": "elicitation/create", "result": {"action": "accept"}},
        CallToolResult(content=[]),
    ],
)
def test_what_is_no_answer_counts_as_missing_and_never_raises(entry: Any) -> None:
    assert input_response({"k": entry}, "k") == Missing()
    assert accepted_content({"k": entry}, "k") is None
    assert accepted_content({"k": entry}, "k", Answer) is None


@pytest.mark.parametrize("responses", [None, {}, {"other": ACCEPTED}, [], "k"])
def test_no_answers_at_all_are_missing_answers(responses: Any) -> None:
    assert input_response(responses, "k") == Missing()


def test_accepted_content_is_the_content_or_the_model() -> None:
    assert accepted_content({"k": ACCEPTED}, "k") == {"sure": True}
    assert accepted_content({"k": ACCEPTED}, "k", Answer) == Answer(sure=True)


@pytest.mark.holds("rounds/answers", "accepted")
@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_content_that_was_not_accepted_is_none__a_no_with_a_yes_in_it_is_a_no(action: str) -> None:
    assert accepted_content({"k": {"action": action, "content": {"sure": True}}}, "k", Answer) is None


@pytest.mark.parametrize("content", [{}, {"sure": "perhaps"}, {"sure": None}])
def test_content_that_does_not_fit_the_model_is_none(content: dict[str, Any]) -> None:
    assert accepted_content({"k": {"action": "accept", "content": content}}, "k", Answer) is None


def test_an_answer_of_another_kind_has_no_content() -> None:
    assert accepted_content({"k": SAMPLED}, "k") is None


def test_bare_entries_are_kept_and_the_others_named() -> None:
    raw = {
        "form": plain(ACCEPTED),
        "typed": ROOTS,
        "wrapped": {"method": "elicitation/create", "result": plain(ACCEPTED)},
        "half": {"result": plain(ACCEPTED)},
        "text": "accept",
        "none": None,
    }
    accepted, dropped = partition_input_responses(raw)
    assert accepted == {"form": plain(ACCEPTED), "typed": ROOTS}
    assert dropped == ["wrapped", "half", "text", "none"]


@pytest.mark.parametrize("raw", [None, [], "x", 7])
def test_what_is_no_map_has_no_entries(raw: object) -> None:
    assert partition_input_responses(raw) == ({}, [])
