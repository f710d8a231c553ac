"""One pass and the passes of `text` say the same of every text, and for the same reason.

Everything that reads is asked twice: as it is, and with the one pass silent. Where there is no wheel of the parser both
are the same; `test_text_one_pass` says that it is there where it should be.
"""

import itertools
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.fuzz import fuzz_gate_target, fuzz_guard_target, fuzz_wrap_target
from tests.property.texts import deep, messages, mutated, numbers, values
from tests.world import hostile_frames

from accredit.errors import AnswerError, FrameError, JsonError, RequestError
from accredit.jsonrpc import responses, text
from accredit.jsonrpc.frames import Failure, Notification, Request, Success, decode_error, decode_frame
from accredit.jsonrpc.methods import Era
from accredit.jsonrpc.requests import Batch, decode_request
from accredit.jsonrpc.responses import Expected
from accredit.jsonrpc.text import ONE_PASS_BYTES
from accredit.limits import MAX_DEPTH

ASKED = Request(7, "tools/call", None, b"")


def never(data: bytes) -> bool:
    """What the one pass says where there is none."""
    return False


def nothing(data: bytes, id: object, *, modern: bool) -> None:
    """What it says of an answer then."""


@contextmanager
def silent() -> Generator[None]:
    """Without the one pass."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "reads_well", never)
        patch.setattr(responses, "plain_result", nothing)
        yield


def reason(read: Callable[[bytes], object], data: bytes) -> tuple[object, ...]:
    """What it comes to: what was read, or why not."""
    try:
        found = read(data)
    except RequestError as error:
        return "refused", error.code, error.detail, error.id
    except (AnswerError, FrameError) as error:
        return "refused", type(error), error.detail, error.bound
    return "read", shown(found)


def shown(found: object) -> object:
    """What can be compared."""
    match found:
        case Batch():
            return [shown(frame) for frame in found.frames], found.text
        case Request():
            return "request", found.id, found.method, found.params, found.text
        case Notification():
            return "notification", found.method, found.params, found.text
        case Success():  # that it is complete, only who judges the usual form has looked at
            return "success", found.id, found.result, found.text
        case (bytes() as text, frame):
            return text, shown(frame)
        case _:
            assert found is None or isinstance(found, Failure | bytes)
            return found


def body(data: bytes) -> object:
    return Expected(Era.LEGACY, [ASKED]).body(data)


def modern_body(data: bytes) -> object:
    return Expected(Era.MODERN, [ASKED]).body(data)


def batch_body(data: bytes) -> object:
    return Expected(Era.LEGACY, [ASKED], batch=True).body(data)


def event(data: bytes) -> object:
    return Expected(Era.LEGACY, [ASKED], batch=True).event(data)


def modern_event(data: bytes) -> object:
    return Expected(Era.MODERN, [ASKED]).event(data)


def request(data: bytes) -> object:
    return decode_request(data, batch_allowed=True)


READERS = (text.check_text, decode_frame, decode_error, request, body, modern_body, batch_body, event, modern_event)


def same(data: bytes) -> None:
    fast = [reason(read, data) for read in READERS]
    with silent():
        assert [reason(read, data) for read in READERS] == fast


BOUNDARY = 2**1024 - 2**970
"""Halfway between the largest double and what would come next: from here on a number is infinite."""
NEAR = [f"{digits}{rest}" for digits in (BOUNDARY - 1, BOUNDARY, BOUNDARY + 1) for rest in ("", ".0", "e0", ".0e-0")]
EXTREME = [
    *(*NEAR, "1e308", "1.7976931348623157e308", "1.7976931348623158e308", "1.7976931348623159e308", "1e309", "0e999"),
    *("0.000e99999999999", "1e-99999999999", "1e99999999999", "-1E+400", "9" * 308, "9" * 309),
    *("0." + "0" * 400 + "1e709", "5e-324", "4.9e-325", "2.2250738585072011e-308"),
    *("18446744073709551615", "18446744073709551616", "-9223372036854775808", "-9223372036854775809", "-0", "-0.0"),
]  # fmt: skip
ODD = [
    *(b"", b" ", b"\0", b"\xef\xbb\xbf[1]", b"\xef\xbb\xbf", b"\xef\xbb[1]", b"[1]\0", b"[1]\0\0", b"[1]x"),
    *(b"[1] \n\t\r", b"[1]\x0c", b"\x0b[1]", b"\xc2\xa0[1]", b"\xe2\x80\xa8[1]", b"\xff", b"//\n[1]"),
    *(b'["\\ud800"]', b'["\\udc00\\ud800"]', b'["\\ud83d\\ude00"]', b'["\xed\xa0\x80"]', b'["\xf4\x90\x80\x80"]'),
    *(b'["\xc0\x80"]', b'["\xff"]', b'["\x7f"]', b'["\x1f"]', b'["\\u0000"]', b'["\\x"]', b'["\\u12"]', b'["\\'),
    *(b'{"a":1,"a":2}', b'{"a":1,"\\u0061":2}', b'["', b"[tru]", b"[truex]", b"[nul", b"nan", b"[NaN]", b"[-Infinity]"),
    *(b"[1,]", b"[,1]", b"{,}", b'{"a"}', b"{1:2}", b"[1 2]", b"[1}", b'{"a":1]', b"[" * 128, b"]" * 129),
    *(b'["' + b"[" * 300 + b'"]', b"[" * 129 + b'"\xff"' + b"]" * 129, b'["]\\"[",' + b"[" * 200 + b"]" * 200 + b"]"),
]  # fmt: skip


@pytest.mark.parametrize("number", EXTREME)
def test_a_number_at_the_end_of_what_a_double_holds_is_judged_alike(number: str) -> None:
    same(b'{"jsonrpc":"2.0","id":7,"result":{"n":[%b,1]}}' % number.encode())
    same(b'{"jsonrpc":"2.0","id":%b,"result":{}}' % number.encode())


@pytest.mark.parametrize("data", ODD)
def test_what_one_parser_takes_and_another_does_not_is_judged_alike(data: bytes) -> None:
    same(data)
    same(b'{"jsonrpc":"2.0","id":7,"result":' + data + b"}")


@pytest.mark.parametrize("depth", [127, 128, 129, 130, 1_023, 1_024, 1_025, 5_000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}"), ('["]",', "]"), ('{"\\"":', "}")])
def test_nesting_is_judged_alike_also_where_the_parser_would_take_it(depth: int, opening: str, closing: str) -> None:
    nested = (opening * depth + "1" + closing * depth).encode()
    same(nested)
    same(b"[" + nested + b"," + b"[]," * 40 + b"1]")


@pytest.mark.parametrize("length", [ONE_PASS_BYTES - 1, ONE_PASS_BYTES, ONE_PASS_BYTES + 1])
@pytest.mark.parametrize("part", [b'""', b"1e999", b'"\xff"', b"tru", b"[" * 200 + b"]" * 200])
def test_a_text_as_long_as_one_pass_goes_is_judged_alike(length: int, part: bytes) -> None:
    same(b'["' + b"x" * (length - len(part) - 5) + b'",' + part + b"]")


@given(mutated(values | deep() | messages()))
@example(b'{"jsonrpc":"2.0","id":7,"result":{"resultType":"complete"}}')
def test_every_text_is_judged_alike(data: bytes) -> None:
    same(data)


@given(st.lists(numbers, min_size=1, max_size=4), st.integers(0, 3))
def test_every_number_is_judged_alike(found: list[str], spaces: int) -> None:
    same(f"[{(',' + ' ' * spaces).join(found)}]".encode())


@given(st.binary(max_size=12), st.sampled_from([b"%b", b"[%b]", b'["%b"]', b'{"%b":1}', b'["' + b"x" * 60 + b'%b"]']))
def test_any_bytes_are_judged_alike(data: bytes, around: bytes) -> None:
    same(around % data)


@settings(max_examples=30)
@given(
    st.lists(st.sampled_from(["[", "]", "{}", '"[",', '"\\"]",', '"\\\\",', '"a":', "1,"]), min_size=10),
    st.integers(1, 300),
)
def test_many_brackets_are_judged_alike(parts: list[str], times: int) -> None:
    same("".join(parts * times).encode())


FORMS = [
    (b'{"jsonrpc":"2.0","id":7,"result":', b"}"),
    (b'{"jsonrpc": "2.0", "id": 7, "result": ', b"}"),
    (b'{"result":', b',"jsonrpc":"2.0","id":7}'),
]
BEHIND = [
    *(
        b"",
        b" ",
        b"}",
        b"]",
        b',"x":{}',
        b',"result":{}',
        b',"Result":{}',
        b',"error":{}',
        b',"method":"m"',
        b',"id":7',
    ),
    *(b',"\\u0069d":8', b',"x":{"jsonrpc":"2.0","id":7}', b',"x":"', b'{"id":7}', b'"'),
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "result", [b"{}", b'{"a":{}}', b'{"resultType":"complete"}', b'{"resulttype":1}', b"1", b"[{}]"]
)
def test_an_answer_of_the_usual_form_with_more_in_it_is_judged_alike(form: tuple[bytes, bytes], result: bytes) -> None:
    for behind in BEHIND:
        same(form[0] + result + behind + form[1])
        same(form[0] + behind[1:] + b"," + result + form[1])


@given(st.sampled_from(FORMS), mutated(values | deep()), st.sampled_from(BEHIND))
def test_any_answer_of_the_usual_form_is_judged_alike(form: tuple[bytes, bytes], data: bytes, behind: bytes) -> None:
    same(form[0] + data + behind + form[1])
    same(form[0] + b'{"a":' + data + behind + b"}" + form[1])


def lines() -> Iterator[bytes]:
    """What the fuzzers begin with, and each line and body in it."""
    for corpus in (fuzz_gate_target.corpus(), fuzz_wrap_target.corpus(), fuzz_guard_target.corpus()):
        for data in corpus.values():
            yield from (data, *data.split(b"\n"), *data.split(b"\r\n\r\n"))
    for _, data, _ in itertools.chain(hostile_frames.ANY_ERA, hostile_frames.NOT_JSON, hostile_frames.NO_MESSAGE):
        yield data


@pytest.mark.slow
def test_what_the_fuzzers_and_the_hostile_upstreams_send_is_judged_alike() -> None:
    for data in sorted(set(lines())):
        same(data)


def test_the_one_pass_says_yes_only_where_each_rule_holds_or_the_nesting_alone_does_not() -> None:
    for data in (*ODD, *(f"[{number}]".encode() for number in EXTREME)):
        if text.reads_well(data) and reason(text.check_each_rule, data)[0] == "refused":
            with pytest.raises(JsonError, match=f"nested more than {MAX_DEPTH} deep"):
                text.check_each_rule(data)
