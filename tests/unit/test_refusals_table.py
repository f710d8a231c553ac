"""The table of refusals, and the page that tells people of it."""

import re
from pathlib import Path

import pytest

from accredit import errors
from accredit.ratify import IdentityStatus
from accredit.refusals import BY_WORD, DENIED, GATEWAY_CHANGED

pytestmark = pytest.mark.holds("refusals")

DOCS = Path(__file__).parents[2] / "docs/reference"
PAGE = (DOCS / "refusals.md").read_text("utf-8")
TOKENS = (DOCS / "tokens.md").read_text("utf-8")
HEADER = re.compile(r"^\| [^|]*\| (\d{3})(?:, `[\w-]+`)? \| `(\w+)`[^|]*\| (-\d+) \|$", re.MULTILINE)


def told() -> dict[str, int]:
    """The code of each word on the page; several codes in one row stand in the order of their words, apart by `;`."""
    found: dict[str, int] = {}
    for codes, words in re.findall(r"^\| (-\d+(?:, -\d+)*) \| ([^|]*) \|", PAGE, re.MULTILINE):
        numbers = [int(code) for code in codes.split(", ")]
        groups = words.split(";") if len(numbers) > 1 else [words]
        for code, group in zip(numbers, groups, strict=True):
            found |= dict.fromkeys((word for word in re.findall(r"`(\w+)`", group) if word != "ratify_"), code)
    found |= dict.fromkeys(re.findall(r"^\| `(ratify_\w+)` \|", PAGE, re.MULTILINE), DENIED)
    (own,) = re.findall(r"((?:`gateway_\w+`[^`]*)+)\((-\d+)\)", PAGE)
    return found | dict.fromkeys(re.findall(r"`(\w+)`", own[0]), int(own[1]))


def test_the_page_names_every_refusal_with_its_code__and_none_that_there_is_not() -> None:
    of_tokens_page = {"invalid_request"}
    assert told() == {word: row.code for word, row in BY_WORD.items() if word not in of_tokens_page}


def test_the_page_of_tokens_has_the_table_s_status_and_code() -> None:
    rows = {word: (int(status), int(code)) for status, word, code in HEADER.findall(TOKENS)}
    assert rows.keys() == {"invalid_token", "insufficient_scope", "invalid_request"}
    assert rows == {word: (BY_WORD[word].status, BY_WORD[word].code) for word in rows}
    assert "| no token | 401 | | -31011 |" in TOKENS


def test_every_no_of_the_verifier_and_every_error_of_a_token_has_a_row() -> None:
    noes = {f"ratify_{status}" for status in IdentityStatus} - {"ratify_authorized_agent"}
    unused = noes - BY_WORD.keys()
    assert unused == {"ratify_unauthorized", "ratify_verified_human"} & noes
    kinds = [errors.TokenError, *errors.TokenError.__subclasses__()]
    assert {kind.error for kind in kinds} == {row.word for row in BY_WORD.values() if row.kind == "token_refused"}


def test_what_the_client_says_itself_is_never_a_gateway_s_code() -> None:
    assert all(word.startswith("gateway_") == (row.code == GATEWAY_CHANGED) for word, row in BY_WORD.items())
