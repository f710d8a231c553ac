"""`require`: what it accepts, and that the function stays what it was."""

import asyncio
import functools
import inspect
import itertools
from collections.abc import Callable
from typing import Any, cast, get_type_hints

import pytest

from accredit.errors import ConfigurationError
from accredit.policy.catalog import Entry
from accredit.policy.facts import Facts
from accredit.server import require
from accredit.server.requirements import entry_of, named_scopes

pytestmark = pytest.mark.holds("server/requirements")


class Said:
    """Something that is called."""

    def __call__(self) -> None: ...


def send(to: str, copies: int = 1) -> str:
    """Sends."""
    return to * copies


def test_the_function_does_the_same__its_signature_is_what_the_schema_is_made_from() -> None:
    def tool(to: str) -> str:
        """Sends."""
        return to

    said = require("unit:one")(tool)
    assert (said("ada"), said.__name__, said.__doc__) == ("ada", "tool", "Sends.")
    assert inspect.signature(said) == inspect.signature(tool)
    assert get_type_hints(said) == get_type_hints(tool)


def test_what_is_awaited_is_still_awaited__servers_run_other_functions_in_threads() -> None:
    async def tool(to: str) -> str:
        return to

    assert inspect.iscoroutinefunction(require("unit:one")(tool))
    assert asyncio.run(require("unit:one")(functools.partial(tool, "ada"))()) == "ada"


def test_a_cache_can_still_be_cleared() -> None:
    said = require("unit:one")(functools.lru_cache(maxsize=2)(lambda: next(numbers)))
    numbers = itertools.count()
    assert [said(), said()] == [0, 0]
    said.cache_clear()
    assert said() == 1


def test_a_single_dispatch_still_chooses() -> None:
    def anything(to: object) -> str:
        return "any"

    def number(to: int) -> str:
        return "number"

    said = require("unit:one")(functools.singledispatch(anything))
    said.register(number)
    assert [said(""), said(1)] == ["any", "number"]


def test_what_is_said_is_found_at_the_function_and_at_its_method() -> None:
    class Mail:
        @require("unit:two", sensitive=True, accepts=["unit:three"], facts={"amount": "/amount", "currency": "EUR"})
        def pay(self) -> None: ...

    expected = Entry(
        scope="unit:two",
        accepts=("unit:three",),
        marked_sensitive=True,
        facts=Facts({"amount": "/amount", "currency": "EUR"}),
    )
    assert entry_of(Mail.pay) == entry_of(Mail().pay) == expected
    assert {"unit:two", "unit:three"} <= named_scopes()


def test_what_says_nothing_has_no_entry__nor_has_what_made_one_up() -> None:
    def forged() -> None: ...

    forged.__dict__["__accredit_entry__"] = "email:read"
    assert entry_of(send) is entry_of(None) is entry_of(forged) is None


@pytest.mark.parametrize(
    ("decorate", "what"),
    [
        (lambda: require(""), "is no scope"),
        (lambda: require("comms:*"), "wildcard"),
        (lambda: require("email send"), "is no scope"),
        (lambda: require("email:send", accepts=["files:*"]), "wildcard"),
        (lambda: require("email:send", accepts="comms:email:send"), "accepts is a text"),
        (lambda: require("email:send", facts={"price": "/amount"}), "price is no fact"),
        (lambda: require("email:send", facts={"amount": "{/amount}"}), "template"),
        (lambda: require("email:send")(max), "is no function"),
        (lambda: require("email:send")(Said()), "is no function"),
        (lambda: require("email:send")(Said().__call__), "is no function"),
        (lambda: require("email:send")(Said), "is no function"),
        (lambda: require("email:send")(cast("Any", property(send))), "is no function"),
        (lambda: require("email:send")(cast("Any", functools.cached_property(send))), "is no function"),
        (lambda: require("email:send")(cast("Any", functools.partialmethod(send))), "is no function"),
        (lambda: require("email:send")(cast("Any", functools.singledispatchmethod(send))), "is no function"),
        (lambda: require("email:send")(require("email:read")(lambda: None)), "has a requirement already"),
    ],
)
def test_what_can_t_be_meant_is_refused_when_the_module_is_imported__not_when_it_is_called(
    decorate: Callable[[], Any], what: str
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        decorate()
    assert what in refused.value.what
    assert refused.value.remedy
