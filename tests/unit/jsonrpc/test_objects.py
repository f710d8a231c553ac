"""Objects and arrays split into values: what is ambiguous, and what would cost too much, is refused."""

import pytest
from msgspec import Raw

from accredit.errors import FrameError, JsonError
from accredit.jsonrpc.objects import (
    MAX_BATCH_MEMBERS,
    MAX_MEMBERS,
    MAX_NUMBER_LENGTH,
    Names,
    as_integer,
    as_string,
    check_names,
    check_no_duplicates,
    is_object,
    members,
    pairs,
    split_batch,
    unambiguous_members,
)

KNOWN = Names("id", "task")
NOT_JSON = {
    "empty": b"",
    "cut": b'{"a":1',
    "trailing_brace": b'{"a":1}}',
    "second_value": b'{"a":1}{"a":1}',
    "garbage_after": b'{"a":1}x',
    "nul_after": b'{"a":1}\0',
    "nan": b'{"a":NaN}',
    "infinity": b'{"a":[-Infinity]}',
    "leading_zero": b'{"a":01}',
    "plus": b'{"a":+1}',
    "no_digit_after_point": b'{"a":1.}',
    "trailing_comma": b'{"a":1,}',
    "single_quotes": b"{'a':1}",
    "no_name": b"{1:2}",
    "newline_in_a_string": b'{"a":"\n"}',
    "bad_escape": b'{"a":"\\x"}',
    "lone_surrogate": b'{"a":"\\ud800"}',
    "lone_surrogate_in_a_name": b'{"\\udc00":1}',
    "form_feed": b'\x0c{"a":1}',
    "comment": b'{"a":1/**/}',
}


@pytest.mark.parametrize("text", NOT_JSON.values(), ids=NOT_JSON)
def test_what_is_not_one_json_value_is_refused__lenient_readers_take_a_part_of_it(text: bytes) -> None:
    with pytest.raises(JsonError, match="not valid JSON"):
        members(text)


@pytest.mark.parametrize("text", [b"[]", b'"a"', b"1", b"null", b"true"])
def test_another_value_is_no_object(text: bytes) -> None:
    with pytest.raises(FrameError, match="not a JSON object"):
        members(text)


def test_members_keep_their_order_and_their_text() -> None:
    found = members(b' { "b" : [1, 2.50] , "\\u0061":"\\u00e9" } ')
    assert [(name, bytes(raw)) for name, raw in found.items()] == [("b", b"[1, 2.50]"), ("a", b'"\\u00e9"')]
    assert members(b"{}") == {}


def test_pairs_keep_both_members_of_one_name_and_members_the_last() -> None:
    text = b'{"a":1,"\\u0061":2}'
    assert [(name, bytes(raw)) for name, raw in pairs(text)] == [("a", b"1"), ("a", b"2")]
    assert bytes(members(text)["a"]) == b"2"


@pytest.mark.parametrize(
    "text",
    [b'{"a":1,"a":1}', b'{"id":1,"x":2,"\\u0069d":2}', b'{"a":1, "b":2, "a":' + b"[1]" + b"}", b'{"":1,"":2}'],
    ids=["plain", "escaped", "apart", "empty"],
)
def test_a_duplicate_member_is_refused__two_readers_would_see_two_values(text: bytes) -> None:
    with pytest.raises(FrameError, match="a duplicate member"):
        unambiguous_members(text, KNOWN)


def test_a_duplicate_is_found_beside_a_large_member_whose_text_occurs_elsewhere() -> None:
    large = b'":[' + b"1," * 3000 + b'1],"'
    text = b'{"id":null,"id":' + large + b',"k' + large[:-1] + b'"z":1}'
    with pytest.raises(FrameError, match="a duplicate member: id"):
        unambiguous_members(text, KNOWN)


def test_equal_large_members_are_no_duplicates() -> None:
    text = b'{"a": "%s", "b": "%s"}' % (b"x" * 100_000, b"x" * 100_000)
    assert list(unambiguous_members(text, KNOWN)) == ["a", "b"]


@pytest.mark.parametrize("name", ["ID", "Id", "TASK", "tas\u212a", "ta\u017fk"], ids=ascii)
def test_a_name_that_differs_by_case_is_refused__go_takes_it_for_the_defined_one(name: str) -> None:
    with pytest.raises(FrameError, match="differs only by case"):
        check_names([name], KNOWN)


def test_defined_and_unknown_names_pass() -> None:
    check_names(["id", "task", "Other", "other"], KNOWN)


def test_a_named_duplicate_is_quoted_in_ascii() -> None:
    with pytest.raises(FrameError) as error:
        check_names(["\x1b" * 200, "\x1b" * 200], KNOWN)
    assert error.value.detail == "a duplicate member: " + "?" * 100


def test_members_up_to_the_limit_are_read_and_one_more_is_refused__millions_would_fill_the_memory() -> None:
    text = b",".join(b'"%d":0' % index for index in range(MAX_MEMBERS))
    assert len(members(b"{" + text + b"}")) == MAX_MEMBERS
    with pytest.raises(FrameError, match="more than 65536 members") as error:
        members(b"{" + text + b',"":0}')
    assert error.value.bound


def test_a_long_text_with_few_members_is_read() -> None:
    assert list(members(b'{"a":"' + b"x" * 5 * MAX_MEMBERS + b'","b":1}')) == ["a", "b"]


@pytest.mark.parametrize(
    "text",
    [
        b'{"a":{"b":1,"b":2}}',
        b'[{"a":1},{"a":[{"b":1,"\\u0062":1}]}]',
        b'{"a": {"b": 1.0, "c": ":", "b": 2}}',
        b'{"params":{' + b",".join(b'"%x":1' % index for index in range(50_000)) + b',"0":1}}',
    ],
    ids=["plain", "escaped", "spaced", "among_50000"],
)
def test_a_duplicate_at_any_depth_is_refused__the_gateway_would_judge_one_and_the_server_run_the_other(
    text: bytes,
) -> None:
    with pytest.raises(FrameError, match="a duplicate member"):
        check_no_duplicates(text)


@pytest.mark.parametrize(
    "text",
    [
        b'{"a":{"a":[{"a":1},{"a":2}]}}',
        b'{ "a" : 1E5, "\\u0062" : "\\/" , "c":1.0}',
        b'{"a":-0,"b":1e-400}',
        b"[1" + b"0" * 300 + b"]",
    ],
    ids=["same_name_at_two_depths", "other_spellings", "zeros", "large_integer"],
)
def test_a_text_without_duplicates_passes_however_it_is_spelled(text: bytes) -> None:
    check_no_duplicates(text)


def test_what_is_no_json_is_refused_at_every_depth_too() -> None:
    with pytest.raises(JsonError):
        check_no_duplicates(b'{"a":[}')


def test_a_batch_is_split_and_its_elements_keep_their_text() -> None:
    assert split_batch(b' [ {"a": 1} , 2,"" ] ') == [b'{"a": 1}', b"2", b'""']


@pytest.mark.parametrize("text", [b"[]", b"[" + b",".join([b"1"] * (MAX_BATCH_MEMBERS + 1)) + b"]", b"{}"])
def test_a_batch_has_one_to_a_hundred_elements__each_is_an_exchange_of_its_own(text: bytes) -> None:
    with pytest.raises(FrameError, match="a batch has 1 to 100 messages"):
        split_batch(text)


@pytest.mark.parametrize("text", [b"[1", b"[1]]", b"[1,]", b"[1] 2"])
def test_a_batch_that_is_no_json_is_refused(text: bytes) -> None:
    with pytest.raises(JsonError):
        split_batch(text)


def test_an_object_is_told_by_its_first_byte() -> None:
    assert is_object(Raw(b"{}"))
    assert not is_object(Raw(b"[{}]"))
    assert not is_object(None)


@pytest.mark.parametrize(
    ("text", "value"), [(b'""', ""), (b'"a\\u00e9\\n"', "a\u00e9\n"), ('"\u00e9"'.encode(), "\u00e9")]
)
def test_a_string_is_read(text: bytes, value: str) -> None:
    assert as_string(Raw(text)) == value


@pytest.mark.parametrize("text", [b"1", b"null", b"true", b'["a"]', b"{}", b'"\xff"', b'"\\ud800"', b"x", b""])
def test_what_is_no_string_is_none(text: bytes) -> None:
    assert as_string(Raw(text)) is None


@pytest.mark.parametrize(("text", "value"), [(b"0", 0), (b"-0", 0), (b"-12", -12), (b"1" + b"0" * 300, 10**300)])
def test_an_integer_is_read_at_any_size_that_json_allows(text: bytes, value: int) -> None:
    assert as_integer(Raw(text)) == value


@pytest.mark.parametrize(
    "text", [b"1.0", b"1.5", b"1e3", b'"1"', b"true", b"null", b"01", b"[1]", b"9" * (MAX_NUMBER_LENGTH + 1)]
)
def test_what_is_no_integer_is_none(text: bytes) -> None:
    assert as_integer(Raw(text)) is None


def test_an_absent_value_is_none() -> None:
    assert as_string(None) is None
    assert as_integer(None) is None
