"""Arguments as a tool gets them: whatever its types make of what was written, no more is paid than was allowed."""

import dataclasses
import hashlib
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any, NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mcp import Client
from mcp.shared.exceptions import MCPError
from pydantic import (
    AfterValidator,
    AliasChoices,
    AliasPath,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    RootModel,
    model_validator,
)
from tests.integration.test_guarded_callables import KINDS, made_server
from tests.unit.server.test_server_gate import TRUST, in_memory, meta, start_refused

from accredit.canonical import canonical
from accredit.consent.call import CallTerms, value_at
from accredit.ratify import Constraint, Extension
from accredit.ratify.constraints import MaxAmount
from accredit.server import require

pytestmark = pytest.mark.holds("policy/within", "constraints")

LIMIT = 10
TEN_EUR = (MaxAmount("EUR", LIMIT),)
Paid = list[float]


class Shape(NamedTuple):
    """A tool that pays; `make` gets what notes a payment. The amount is at `pointer`."""

    make: Callable[[Callable[[Any], str]], Callable[..., Any]]
    pointer: str = "/amount"


SHAPES: dict[str, Shape] = {}


def shape(pointer: str = "/amount") -> Callable[[Any], Any]:
    def kept(make: Any) -> Any:
        SHAPES[make.__name__] = Shape(make, pointer)
        return make

    return kept


class Order(BaseModel):
    """What the nested shapes take."""

    amount: Annotated[float, Field(validation_alias=AliasChoices("amount", "total"))]
    note: str = ""


class Shouted(BaseModel):
    model_config = ConfigDict(alias_generator=str.upper, populate_by_name=True)
    amount: float


class ByName(BaseModel):
    model_config = ConfigDict(validate_by_name=True, validate_by_alias=False)
    amount: Annotated[float, Field(alias="total")]


class Rewritten(BaseModel):
    amount: float

    @model_validator(mode="before")
    @classmethod
    def rewritten(cls, data: Any) -> Any:
        return {"amount": data["total"]} if isinstance(data, dict) and "total" in data else data


@dataclasses.dataclass
class Plain:
    amount: Annotated[float, Field(validation_alias=AliasChoices("amount", "total"))]


class Listed(RootModel[list[Order]]):
    pass


class Cents(int):
    """A type of the author's, which reads a number as another."""

    @classmethod
    def __get_pydantic_core_schema__(cls, _: Any, handler: Any) -> Any:
        return handler.generate_schema(Annotated[float, AfterValidator(lambda euros: cls(euros * 100))])


@shape()
def plain(paid: Any) -> Any:
    def pay(amount: float, total: float = 0) -> str:
        return paid(amount)

    return pay


@shape()
def aliased(paid: Any) -> Any:
    async def pay(amount: Annotated[float, Field(validation_alias=AliasChoices("amount", "total"))]) -> str:
        return paid(amount)

    return pay


@shape()
def of_path(paid: Any) -> Any:
    def pay(
        amount: Annotated[float, Field(validation_alias=AliasChoices(AliasPath("order", "total"), "amount"))],
        order: dict[str, float] | None = None,
    ) -> str:
        return paid(amount)

    return pay


@shape()
def transformed(paid: Any) -> Any:
    def pay(amount: Annotated[float, AfterValidator(lambda amount: amount * 100)]) -> str:
        return paid(amount)

    return pay


@shape()
def read_anew(paid: Any) -> Any:
    def pay(amount: Annotated[float, BeforeValidator(lambda amount: float(amount) + 1)]) -> str:
        return paid(amount)

    return pay


@shape()
def of_a_type(paid: Any) -> Any:
    def pay(amount: Cents) -> str:
        return paid(amount)

    return pay


class Purse:
    """What has no form in JSON."""

    def __init__(self, euros: float) -> None:
        self.euros = euros * 1000

    def __float__(self) -> float:
        return self.euros


@shape()
def of_a_thing(paid: Any) -> Any:
    def pay(amount: Annotated[float, AfterValidator(Purse)]) -> str:
        return paid(amount)

    return pay


@shape()
def decimal(paid: Any) -> Any:
    def pay(amount: Decimal) -> str:
        return paid(amount)

    return pay


@shape("/order/amount")
def nested(paid: Any) -> Any:
    def pay(order: Order) -> str:
        return paid(order.amount)

    return pay


@shape("/order/AMOUNT")
def generated(paid: Any) -> Any:
    def pay(order: Shouted) -> str:
        return paid(order.amount)

    return pay


@shape("/order/total")
def by_name(paid: Any) -> Any:
    def pay(order: ByName) -> str:
        return paid(order.amount)

    return pay


@shape("/order/amount")
def rewritten(paid: Any) -> Any:
    def pay(order: Rewritten) -> str:
        return paid(order.amount)

    return pay


@shape("/order/amount")
def of_dataclass(paid: Any) -> Any:
    def pay(order: Plain) -> str:
        return paid(order.amount)

    return pay


@shape("/order/0/amount")
def in_a_list(paid: Any) -> Any:
    def pay(order: Listed) -> str:
        return paid(order.root[0].amount)

    return pay


def _both(outer: dict[str, Any], order: dict[str, Any]) -> dict[str, Any]:
    return {**outer, "order": order}


MUCH = {"total": 5000}
FEW = {"amount": 5, **MUCH}
MEMBERS = st.dictionaries(
    st.sampled_from(("amount", "total", "AMOUNT")), st.sampled_from((1, 9.5, "7", 11, 5000, "5000", None)), min_size=1
)
ARGUMENTS = st.one_of(
    MEMBERS,
    st.builds(dict, order=MEMBERS),
    st.builds(dict, order=st.lists(MEMBERS, min_size=1, max_size=1)),
    st.builds(_both, MEMBERS, MEMBERS),
)


def server_of(kind: str, shape: Shape, paid: Paid) -> Any:
    server = made_server(kind)
    added(server, shape, paid)
    return server


def added(server: Any, shape: Shape, paid: Paid) -> None:
    def pays(amount: Any) -> str:
        paid.append(float(amount))
        return "paid"

    facts = {"amount": shape.pointer, "currency": "EUR"}
    server.tool(name="pay")(require("payments:send", facts=facts)(shape.make(pays)))


async def code(client: Client, arguments: dict[str, Any], *constraints: Constraint, tool: str = "pay") -> int | None:
    """Pays, and returns the code of a refusal; 0 if the tool did not take the arguments."""
    proof = meta(tool, arguments, TRUST.chain("payments:send", constraints=constraints))
    try:
        done: Any = await client.call_tool(tool, arguments, meta=proof)
    except MCPError as error:
        return error.error.code
    return 0 if done.is_error else None


@pytest.mark.slow
@pytest.mark.holds("server/arguments", "real-form", "no-form")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SHAPES)
@settings(max_examples=8)
@example(tried=[FEW, {"order": FEW}, {"order": {"total": 5, "amount": 5000}}])
@example(tried=[{"order": {"AMOUNT": 5, "amount": 5000, **MUCH}}, {"amount": 5, "order": MUCH}, {"order": [FEW]}])
@given(tried=st.lists(ARGUMENTS, min_size=1, max_size=6))
def test_no_tool_gets_more_than_was_allowed__whatever_its_types_make_of_the_arguments(
    kind: str, name: str, tried: list[dict[str, Any]]
) -> None:
    paid = Paid()

    async def case(client: Client) -> None:
        for arguments in tried:
            await code(client, arguments, *TEN_EUR)
            assert all(amount <= LIMIT for amount in paid), f"{arguments} paid {paid[-1]}"

    in_memory(server_of(kind, SHAPES[name], paid), case)


FIVE = {
    "/amount": {"amount": 5},
    "/order/amount": {"order": {"amount": 5}},
    "/order/AMOUNT": {"order": {"AMOUNT": 5}},
    "/order/0/amount": {"order": [{"amount": 5}]},
}
REFUSED = {"transformed", "of_a_type", "of_a_thing"}


@pytest.mark.holds("server/arguments", "written-form", "no-form")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", sorted(SHAPES.keys() - {"of_path", "by_name"}))
def test_what_a_tool_lists_is_served__and_judged_by_what_reaches_the_tool(kind: str, name: str) -> None:
    paid = Paid()
    found = SHAPES[name]

    async def case(client: Client) -> None:
        assert await code(client, FIVE[found.pointer], *TEN_EUR) == (-31003 if name in REFUSED else None)
        assert await code(client, FIVE[found.pointer]) is None  # a delegation without constraints

    in_memory(server_of(kind, found, paid), case)
    assert len(paid) == (1 if name in REFUSED else 2)


def two_names(paid: Any) -> Any:
    def pay(amount: Annotated[float, Field(validation_alias=AliasChoices("total", "amount"))], note: str = "") -> str:
        return paid(amount)

    return pay


@pytest.mark.parametrize("kind", KINDS)
def test_a_fact_that_is_taken_from_another_name_than_the_listed_one_stops_the_start__and_later_pays_nothing(
    kind: str,
) -> None:
    paid = Paid()
    listed = {"sdk": "amount", "fastmcp": "total"}[kind]
    assert f"takes a fact from '{listed}'" in start_refused(server_of(kind, Shape(two_names, f"/{listed}"), paid))
    later = made_server(kind)

    async def case(client: Client) -> None:
        added(later, Shape(two_names), paid)
        assert await code(client, FEW, *TEN_EUR) is not None

    in_memory(later, case)
    assert paid == []


def only(pointer: str, value: object) -> Extension:
    """The constraint that an argument has this value."""
    digest = hashlib.sha256(canonical(value)).hexdigest()
    terms = CallTerms(gateway="mail-gateway", method="tools/call", target=("pay",), args={pointer: (digest,)})
    return terms.constraint()


@pytest.mark.holds("server/arguments", "written-form", "real-form", "type-errors")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("name", "arguments", "answer"),
    [
        ("nested", {"order": {"amount": 5}}, None),
        ("nested", {"order": {"amount": "5"}}, None),
        ("nested", {"order": {"amount": "much"}}, 0),
        ("in_a_list", {"order": [{"amount": 5}]}, None),
        ("rewritten", {"order": {"amount": 5}}, None),
        ("rewritten", {"order": {"amount": 5, "total": 5000}}, -31003),
        ("by_name", {"order": {"total": 5, "amount": 5000}}, -31003),
    ],
)
def test_an_argument_that_a_person_allowed_is_the_one_that_reaches_the_tool(
    kind: str, name: str, arguments: dict[str, Any], answer: int | None
) -> None:
    paid = Paid()
    found = SHAPES[name]
    allowed = only(found.pointer, value_at(arguments, found.pointer))

    async def case(client: Client) -> None:
        assert await code(client, arguments, allowed) == answer

    in_memory(server_of(kind, found, paid), case)
    assert paid == ([5.0] if answer is None else [])


@pytest.mark.parametrize("kind", KINDS)
def test_nor_gets_it_more_from_a_tool_that_calls_it_through_the_server(kind: str) -> None:
    paid = Paid()
    server = server_of(kind, SHAPES["transformed"], paid)

    @server.tool(name="relay")
    @require("payments:send", facts={"amount": "/amount", "currency": "EUR"})
    async def relay(amount: float) -> str:
        return str(await server.call_tool("pay", {"amount": amount}))

    async def case(client: Client) -> None:
        assert await code(client, {"amount": 5}, *TEN_EUR, tool="relay") == 0
        assert await code(client, {"amount": 0.05}, *TEN_EUR, tool="relay") is None

    in_memory(server, case)
    assert paid == [5.0]
