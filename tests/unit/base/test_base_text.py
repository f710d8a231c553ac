"""Text that anybody may have written."""

from accredit.base.text import excerpt, one_line
from accredit.limits import MAX_QUOTED


def test_an_excerpt_is_short_ascii__a_log_or_a_client_must_not_be_fed_with_control_characters() -> None:
    assert excerpt("a\x1b[31m\n\u00e9") == "a?[31m??"
    assert excerpt(b"\xff\xc3\xa9 ok") == "?? ok"
    assert len(excerpt("x" * 500)) == MAX_QUOTED
    assert len(excerpt(b"\xc3\xa9" * 500)) == MAX_QUOTED


def test_one_line_is_one_line__a_name_from_elsewhere_can_neither_forge_another_nor_steer_a_terminal() -> None:
    assert one_line("a\nerror: b\r\x1b[2J\u202e\u2028 \u00e9") == "a\\nerror: b\\r\\x1b[2J\\u202e\\u2028 \u00e9"
