"""What tables of the file have in common."""

from typing import Annotated

import pytest
from msgspec import ValidationError, convert, field

from accredit.config.section import Section, description, entries, keys, table_in, tables_of
from accredit.config.values import Url, WrongValue

pytestmark = pytest.mark.holds("config/section")


class Leaf(Section, frozen=True):
    port: Annotated[int, "a port"] = 1


class Tree(Section, frozen=True):
    name: Annotated[str, "a name"] = "oak"
    leaf: Leaf = Leaf()
    leaves: list[Leaf] = field(default_factory=list[Leaf])
    named: dict[str, Leaf] = field(default_factory=dict[str, Leaf])


def test_a_key_that_nobody_knows_is_refused__so_that_a_slip_is_no_setting_that_is_not_there() -> None:
    with pytest.raises(ValidationError, match="unknown field `prot`"):
        convert({"prot": 2}, Leaf)


def test_a_value_that_its_own_check_refuses_makes_no_table() -> None:
    class Place(Section, frozen=True):
        url: Url

    with pytest.raises(WrongValue):
        Place(url="nowhere")


def test_a_table_is_written_with_its_defaults__and_with_the_names_that_users_chose() -> None:
    tree = Tree(named={"a": Leaf(port=2)})
    assert tree.members() == {"name": "oak", "leaf": {"port": 1}, "leaves": [], "a": {"port": 2}}
    assert keys(Tree) == ["name", "leaf", "leaves"]
    assert description(Tree, "name") == "a name"
    assert description(Tree, "nothing") == ""


def test_tables_below_a_table_are_found_wherever_they_are() -> None:
    assert set(tables_of(Tree)) == {Tree, Leaf}
    named = entries(Tree)
    assert named is not None
    assert (named.attribute, named.table) == ("named", Leaf)
    assert entries(Leaf) is None
    assert table_in(str) is None
    assert table_in(list[Leaf]) is Leaf
