"""Bodies that are no sound answer to request 7, with what the gateway says about each. No I/O.

A row is a name, the bytes, and the detail in the error. `ANY_ERA` holds for both eras, in a JSON body and as the
data of an event; `MODERN_RESULTS` are results that only the modern era refuses.
"""

from typing import Any

from tests.world.calls import compact, error, log_message, response

Row = tuple[str, bytes, str]


def _error(text: str) -> bytes:
    return b'{"jsonrpc":"2.0","id":7,"error":' + text.encode() + b"}"


def _frame(text: str) -> bytes:
    return ('{"jsonrpc":"2.0",' + text + "}").encode()


NOT_JSON: list[Row] = [
    ("a_brace_after_it", response() + b"}", "not valid JSON"),
    ("a_second_value", response() + response(), "not valid JSON"),
    ("text_after_it", response() + b" and more", "not valid JSON"),
    ("a_nul_after_it", response() + b"\0", "not valid JSON"),
    ("its_end_missing", response()[:-5], "not valid JSON"),
    ("html", b"<html><body>Bad gateway</body></html>", "not valid JSON"),
    ("a_byte_order_mark", b"\xef\xbb\xbf" + response(), "the body starts with a byte order mark"),
    ("a_latin_1_byte", response(text="caf").replace(b"caf", b"caf\xe9"), "the body is not UTF-8"),
    ("an_overlong_slash", response(text="x").replace(b'"x"', b'"\xc0\xaf"'), "the body is not UTF-8"),
    ("a_surrogate_in_utf8", response(text="x").replace(b'"x"', b'"\xed\xa0\x80"'), "the body is not UTF-8"),
    ("nan", _frame('"id":7,"result":{"n":NaN}'), "not valid JSON"),
    ("infinity", _frame('"id":7,"result":{"n":Infinity}'), "not valid JSON"),
    ("minus_infinity", _frame('"id":7,"result":{"n":-Infinity}'), "not valid JSON"),
    ("a_number_that_overflows", _frame('"id":7,"result":{"n":1e999}'), "a number is too large"),
    ("a_number_of_400_digits", _frame(f'"id":7,"result":{{"n":{"9" * 400}}}'), "a number is too large"),
    ("a_leading_zero", _frame('"id":7,"result":{"n":007}'), "not valid JSON"),
    ("single_quotes", b"{'jsonrpc':'2.0','id':7,'result':{}}", "not valid JSON"),
    ("a_comment", response() + b"/* fine */", "not valid JSON"),
    ("a_trailing_comma", _frame('"id":7,"result":{},'), "not valid JSON"),
    ("a_raw_control_character", response(text="a\x01b").replace(b"\\u0001", b"\x01"), "not valid JSON"),
    ("a_vertical_tab_before", b"\x0b" + response(), "not valid JSON"),
    ("brackets_100000_deep", b"[" * 100_000 + b"]" * 100_000, "nested more than 128 deep"),
    ("open_brackets_100000", b"[" * 100_000, "nested more than 128 deep"),
    (
        "objects_100000_deep",
        _frame('"id":7,"result":' + '{"a":' * 100_000 + "1" + "}" * 100_000),
        "nested more than 128 deep",
    ),
    (
        "a_result_129_deep",
        _frame('"id":7,"result":' + "[" * 128 + "]" * 128),
        "nested more than 128 deep",
    ),
]

NO_MESSAGE: list[Row] = [
    ("a_batch_that_nobody_asked_for", b"[" + response() + b"]", "not a JSON object"),
    ("an_empty_array", b"[]", "not a JSON object"),
    ("a_string", b'"hello"', "not a JSON object"),
    ("a_number", b"7", "not a JSON object"),
    ("null", b"null", "not a JSON object"),
    ("an_empty_object", b"{}", '"jsonrpc" is not "2.0"'),
    ("no_jsonrpc", b'{"id":7,"result":{}}', '"jsonrpc" is not "2.0"'),
    ("jsonrpc_1", b'{"jsonrpc":"1.0","id":7,"result":{}}', '"jsonrpc" is not "2.0"'),
    ("jsonrpc_a_number", b'{"jsonrpc":2.0,"id":7,"result":{}}', '"jsonrpc" is not "2.0"'),
    ("jsonrpc_with_a_blank", b'{"jsonrpc":"2.0 ","id":7,"result":{}}', '"jsonrpc" is not "2.0"'),
    ("no_id", _frame('"result":{}'), "neither a method nor an id"),
    ("neither_result_nor_error", _frame('"id":7'), "neither a result nor an error"),
    ("result_and_error", _frame('"id":7,"result":{},"error":{"code":1,"message":"m"}'), "both a result and an error"),
    ("result_and_null_error", _frame('"id":7,"result":{},"error":null'), "both a result and an error"),
    ("null_result_and_error", error()[:-1] + b',"result":null}', "both a result and an error"),
    (
        "method_and_result",
        _frame('"id":7,"method":"x","result":{}'),
        "a message with both a method and a result or error",
    ),
]

DUPLICATES: list[Row] = [
    ("two_ids", _frame('"id":8,"result":{},"id":7'), "a duplicate member: id"),
    ("two_results", _frame('"id":7,"result":{"safe":1},"result":{"evil":1}'), "a duplicate member: result"),
    ("two_results_with_blanks", _frame('"id": 7, "result": {} , "result": {}'), "a duplicate member: result"),
    ("an_escaped_second_id", _frame('"id":8,"result":{},"\\u0069d":7'), "a duplicate member: id"),
    ("an_escaped_result", _frame('"id":7,"r\\u0065sult":{},"result":{"evil":1}'), "a duplicate member: result"),
    ("two_versions", b'{"jsonrpc":"1.0","jsonrpc":"2.0","id":7,"result":{}}', "a duplicate member: jsonrpc"),
    ("two_of_an_extension", _frame('"id":7,"x":1,"result":{},"x":2'), "a duplicate member: x"),
    (
        "two_results_beside_a_big_one",
        _frame(f'"id":7,"result":{{"safe":1}},"result":{{"evil":"{"a" * 9000}"}}'),
        "a duplicate member: result",
    ),
    ("two_codes", _error('{"code":1,"code":2,"message":"m"}'), "a duplicate member: code"),
    ("an_escaped_code", _error('{"code":1,"c\\u006fde":2,"message":"m"}'), "a duplicate member: code"),
    ("two_messages", _error('{"code":1,"message":"a","message":"b"}'), "a duplicate member: message"),
]

_CASE = "a member differs only by case from a defined one: "
MISSPELT: list[Row] = [
    ("result_in_capitals_too", _frame('"id":7,"result":{},"Result":{"evil":1}'), _CASE + "Result"),
    ("only_result_in_capitals", _frame('"id":7,"RESULT":{}'), _CASE + "RESULT"),
    ("id_in_capitals", _frame('"ID":7,"id":7,"result":{}'), _CASE + "ID"),
    ("jsonrpc_as_written_in_prose", _frame('"id":7,"JsonRPC":"2.0","result":{}'), _CASE + "JsonRPC"),
    ("a_long_s_in_result", '{"jsonrpc":"2.0","id":7,"result":{},"re\u017fult":{}}'.encode(), _CASE + "re?ult"),
    ("a_method_in_capitals", _frame('"id":7,"result":{},"Method":"x"'), _CASE + "Method"),
    ("code_in_capitals", _error('{"code":1,"Code":2,"message":"m"}'), _CASE + "Code"),
    ("a_long_s_in_message", _error('{"code":1,"message":"m","me\u017fsage":"n"}'), _CASE + "me?sage"),
]

_NO_ID = '"id" is neither a string nor an integer'
_OTHER = "a response to an id that was not asked for"
WRONG_IDS: list[Row] = [
    ("the_id_as_a_string", response("7"), _OTHER),
    ("another_id", response(8), _OTHER),
    ("minus_the_id", response(-7), _OTHER),
    ("an_error_for_another_id", error(8), _OTHER),
    ("an_id_of_4000_digits", response().replace(b":7,", b":" + b"7" * 4000 + b","), "a number is too large"),
    ("the_id_as_a_float", response().replace(b":7,", b":7.0,"), _NO_ID),
    ("the_id_with_an_exponent", response().replace(b":7,", b":7e0,"), _NO_ID),
    ("a_null_id_of_a_result", response().replace(b":7,", b":null,"), _NO_ID),
    ("true_as_an_id", response().replace(b":7,", b":true,"), _NO_ID),
    ("an_array_as_an_id", response().replace(b":7,", b":[7],"), _NO_ID),
    ("an_object_as_an_id", response().replace(b":7,", b":{},"), _NO_ID),
    ("a_float_as_an_error_id", error(7).replace(b":7,", b":7.5,"), _NO_ID),
]

_CODE = '"error.code" is not an integer'
_TEXT = '"error.message" is not a string'
_OBJECT = '"error" is not an object'
WRONG_ERRORS: list[Row] = [
    ("a_code_with_a_fraction", _error('{"code":1.5,"message":"m"}'), _CODE),
    ("a_code_that_is_1_0", _error('{"code":1.0,"message":"m"}'), _CODE),
    ("a_code_with_an_exponent", _error('{"code":1e3,"message":"m"}'), _CODE),
    ("true_as_a_code", _error('{"code":true,"message":"m"}'), _CODE),
    ("a_code_that_is_a_string", _error('{"code":"1","message":"m"}'), _CODE),
    ("a_null_code", _error('{"code":null,"message":"m"}'), _CODE),
    ("no_code", _error('{"message":"m"}'), _CODE),
    ("no_message", _error('{"code":1}'), _TEXT),
    ("a_null_message", _error('{"code":1,"message":null}'), _TEXT),
    ("a_message_that_is_a_number", _error('{"code":1,"message":5}'), _TEXT),
    ("an_error_that_is_a_string", _error('"boom"'), _OBJECT),
    ("an_error_that_is_an_array", _error('[1,"m"]'), _OBJECT),
    ("an_error_that_is_null", _error("null"), _OBJECT),
]

ANY_ERA = [*NOT_JSON, *NO_MESSAGE, *DUPLICATES, *MISSPELT, *WRONG_IDS, *WRONG_ERRORS]

_CALL = "a call where a response was due"
CALLS: list[Row] = [
    ("a_notification", log_message(), _CALL),
    ("a_request", _frame('"id":7,"method":"ping"'), _CALL),
    ("a_method_that_is_a_number", _frame('"id":7,"method":5'), '"method" is not a string'),
    ("params_that_are_an_array", _frame('"method":"x","params":[1]'), '"params" is not an object'),
    ("a_request_with_a_null_id", _frame('"id":null,"method":"ping"'), _NO_ID),
]
"""What the upstream may not send in a JSON body."""

STREAMED_CALLS = CALLS[2:]
"""Of these, what it may not send in a stream either."""


def _result(text: str) -> bytes:
    return _frame('"id":7,"result":' + text)


def input_required(requests: object = None, **more: object) -> bytes:
    """A result that asks for input."""
    result: dict[str, Any] = {"resultType": "input_required", **more}
    if requests is not None:
        result["inputRequests"] = requests
    return _result(compact(result).decode())


def ask_for(method: str, **params: object) -> dict[str, object]:
    """One entry of `inputRequests`."""
    return {"method": method, "params": params}


_UNDECLARED = "an input request that the client did not declare: "
MODERN_RESULTS: list[Row] = [
    ("a_null_result", _result("null"), '"result" is not an object'),
    ("a_result_that_is_an_array", _result("[]"), '"result" is not an object'),
    ("a_result_that_is_a_string", _result('"x"'), '"result" is not an object'),
    ("a_result_type_that_is_a_number", _result('{"resultType":5}'), '"resultType" is not a string'),
    ("a_null_result_type", _result('{"resultType":null}'), '"resultType" is not a string'),
    ("a_result_type_that_nobody_defines", _result('{"resultType":"x"}'), "an unknown resultType: x"),
    ("a_task_undeclared", _result('{"resultType":"task","taskId":"1"}'), "an unknown resultType: task"),
    (
        "input_required_and_nothing_asked",
        input_required(),
        "input_required with neither inputRequests nor requestState",
    ),
    ("input_required_asking_nothing", input_required({}), "input_required with neither inputRequests nor requestState"),
    ("input_requests_that_are_an_array", input_required([]), '"inputRequests" is not an object'),
    ("a_state_that_is_a_number", input_required(requestState=5), '"requestState" is not a string'),
    ("an_input_request_that_is_a_string", input_required({"a": "x"}), "an input request that is not an object"),
    ("an_input_request_without_a_method", input_required({"a": {}}), "an input request of unknown kind: "),
    (
        "an_input_request_of_unknown_kind",
        input_required({"a": ask_for("tools/call")}),
        "an input request of unknown kind: tools/call",
    ),
    (
        "params_of_an_input_request_that_are_an_array",
        input_required({"a": {"method": "elicitation/create", "params": []}}),
        "an input request whose params are not an object",
    ),
    (
        "sampling_undeclared",
        input_required({"a": ask_for("sampling/createMessage")}),
        _UNDECLARED + "sampling/createMessage",
    ),
    ("roots_undeclared", input_required({"a": ask_for("roots/list")}), _UNDECLARED + "roots/list"),
    (
        "a_url_where_only_forms_are_declared",
        input_required({"a": ask_for("elicitation/create", mode="url", url="https://x.example")}),
        "a URL elicitation that the client did not declare",
    ),
    (
        "one_bad_entry_among_good_ones",
        input_required({"a": ask_for("elicitation/create", message="m"), "b": ask_for("roots/list")}),
        _UNDECLARED + "roots/list",
    ),
]
"""Answers to a `tools/call` whose client declared `elicitation: {}`."""
