"""TOML of anybody's is read, or refused in a line; it holds nobody up."""

import pytest

from accredit.base.toml import MAX_TOML_NAME_PARTS, read_toml

pytestmark = pytest.mark.holds("base/toml")

DEEP = 5_000


def test_what_is_toml_is_read_as_python_reads_it() -> None:
    assert read_toml(b'[a."b.c"]\nd.e = "x"\n') == {"a": {"b.c": {"d": {"e": "x"}}}}
    assert read_toml("a = 1979-05-27") == read_toml(b"a = 1979-05-27")


@pytest.mark.parametrize(
    "content",
    [b"\xff", b"a = ", b"a = " + b"[" * DEEP, b"a = " + b"{ a = " * DEEP, b"a = " + b"9" * 20_000],
    ids=["no UTF-8", "cut off", "arrays", "tables", "digits"],
)
def test_what_is_none_is_one_kind_of_error(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"\A[^\n]+\Z"):
        read_toml(content)


@pytest.mark.parametrize("part", ["a", '"a.b"', "'a\"b'", '"\\""', "a-1"])
@pytest.mark.parametrize("dot", [".", " . ", "\t."])
@pytest.mark.parametrize("form", ["{} = 1", "[{}]", "[[{}]]", "x = {{ {} = 1 }}", '"=" = {{ {} = 1 }}'])
def test_a_name_of_thousands_of_parts_is_refused_before_it_is_parsed(part: str, dot: str, form: str) -> None:
    def name(parts: int) -> str:
        return form.format(dot.join([part] * parts))

    read_toml(name(MAX_TOML_NAME_PARTS))
    for parts in (MAX_TOML_NAME_PARTS + 1, 20_000):
        with pytest.raises(ValueError, match="a dotted name of more than"):
            read_toml(name(parts))


@pytest.mark.parametrize(
    ("begin", "part"), [('"', '\\"' * 30), ("", "a" * 60), ("", "'" * 60), ("", '"a"' * 20), ("", "a " * 30)]
)
def test_looking_for_such_a_name_takes_no_longer_than_the_text_is(begin: str, part: str) -> None:
    """Each of them would be looked through again from each of its characters: hours."""
    with pytest.raises(ValueError, match=r"at (?:line|end)"):
        read_toml(begin + part * 10_000)
