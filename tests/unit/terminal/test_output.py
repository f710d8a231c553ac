"""What a command prints for programs is its result alone: a word more, and nothing could read it."""

import json

import pytest

from accredit.base.standard import is_for_programs, printing_json, words_before_result
from accredit.terminal.output import print_facts, print_result, print_table, say, say_script, say_whole


def speak() -> None:
    print_result({"ok": True})
    say("word")
    say_whole("word")
    say_script("# word")
    print_facts([("name", "word")])
    print_table(("head",), [("word",)])


def test_with_json_stdout_has_the_result_and_no_word__and_without_it_no_json(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with printing_json():
        speak()
    assert json.loads(capsys.readouterr().out) == {"ok": True}
    speak()
    told = capsys.readouterr().out
    assert "{" not in told
    assert told.count("word") == 5


def test_words_on_the_way_to_a_result_go_where_no_program_reads(capsys: pytest.CaptureFixture[str]) -> None:
    with printing_json():
        with words_before_result():
            say("signed")
            assert not is_for_programs()
        print_result({"ok": True})
    told = capsys.readouterr()
    assert (json.loads(told.out), told.err) == ({"ok": True}, "signed\n")
    with words_before_result():
        say("signed")
    assert capsys.readouterr().out == "signed\n"
