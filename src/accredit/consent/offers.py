"""What a person may choose for a call that is asked for, and the delegation that each choice is. No I/O.

1. Only this call, once, within ten minutes: always.
2. Calls like it, so many in a time that ends within a day: if its arguments say whom or what it is about (`to`,
   `channel`, `repo`, ...), and those stay as they are; or a resource that is read again.
3. Calls below the folder of a path, so many in such a time: if a catalog that the person trusts says which resource and
   which path the call is about.
4. Nothing but 1 for an agent or a gateway that is new, for money, and for what runs a command or a query. Hints of that
   kind come from the names of arguments: they raise caution, and never lower it.
5. Each delegation names one scope, the gateway, the method and the target, has a limit of uses and an end. What would
   let somebody delegate, a wildcard, and names that can't be signed portably are not offered at all (`grant` may).
6. Where the gateway holds the tool to a definition, the delegation ends with that: another one would be another tool.

Other arguments of calls like it may be anything: a constraint can't say that an argument is absent.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, Literal, cast

from msgspec import UNSET, Struct

from accredit.canonical import canonical
from accredit.consent.asks import Ask
from accredit.consent.call import CallTerms
from accredit.errors import NotOffered
from accredit.limits import (
    ASK_SECONDS,
    CLOCK_LEAD_SECONDS,
    LIKE_CALLS,
    LIKE_SECONDS,
    MAX_LIKE_CALLS,
    MAX_LIKE_SECONDS,
    MAX_UNFOLDED_CHARS,
)
from accredit.pins.shown import shown
from accredit.ratify import Constraint, Grant
from accredit.ratify.constraints import MaxAmount, MaxRate, ResourcePath, path_fault
from accredit.ratify.scopes import DELEGATE, WILDCARDS

MONEY = frozenset(["amount", "price", "total", "sum", "currency", "iban", "account_number"])
"""Names of arguments that are about money."""

RUNS = frozenset(["command", "cmd", "script", "code", "sql", "query", "shell", "expression"])
"""Names of arguments that something runs."""

_ABOUT = frozenset(
    (
        *("to", "cc", "bcc", "recipient", "recipients", "mailbox", "channel", "channel_id", "chat_id", "room"),
        *("owner", "repo", "repository", "project", "project_id", "issue", "board", "list_id", "calendar"),
        *("calendar_id", "database", "table"),
    )
)
_NOT_PORTABLE = frozenset("<>&")

Choice = Literal["once", "like", "below"]


class Offer(Struct, frozen=True, kw_only=True):
    """A choice. `button` and `words` are fit to be shown, `kept` are the pointers of the arguments that stay as they
    are. `max_calls` and `seconds` are what is proposed; only for "once" are they fixed."""

    key: Choice
    button: str
    words: str
    scope: str
    constraints: tuple[Constraint, ...]
    max_calls: int
    seconds: int
    kept: tuple[str, ...] = ()

    def grant(self, ask: Ask, cert_id: str, now: int, *, max_calls: int = 0, seconds: int = 0) -> Grant:
        """Return what is to be signed for the agent. `cert_id` must be new; `now` is in unix seconds.

        `max_calls` and `seconds` take the place of what is proposed (0: leave it). Raises `NotOffered` for numbers that
        are not offered.
        """
        calls, length = max_calls or self.max_calls, seconds or self.seconds
        if self.key == "once" and (calls, length) != (self.max_calls, self.seconds):
            raise NotOffered("only this call is offered once, within ten minutes")
        if not (1 <= calls <= MAX_LIKE_CALLS and 60 <= length <= MAX_LIKE_SECONDS):
            raise NotOffered(f"from 1 to {MAX_LIKE_CALLS} calls are offered, within a minute to a day")
        begins = now - CLOCK_LEAD_SECONDS  # the gateway's clock may be behind
        return Grant(
            subject=ask.agent.public_key,
            cert_id=cert_id,
            scope=(self.scope,),
            issued_at=begins,
            # Before the window of its limit is over: no use is forgotten while the delegation holds.
            expires_at=begins + length - 1,
            constraints=(*self.constraints, MaxRate(calls, length)),
        )


def offers_for(ask: Ask, *, is_new: bool, facts: Mapping[str, str | float] | None = None) -> tuple[Offer, ...]:
    """Return the choices for a call, the narrowest first. Raises `NotOffered` if it can't be allowed here at all.

    `is_new` says that nothing was allowed to this agent at this gateway yet. `facts` are what a catalog that the person
    trusts says of this call (`policy.facts`); None if there is no such catalog.
    """
    scope = ask.refusal.required_scope
    if scope == DELEGATE or scope in WILDCARDS or scope.endswith("*"):
        raise NotOffered(f"{shown(scope)} can't be allowed here: `accredit grant` can")
    if not _NOT_PORTABLE.isdisjoint(ask.target + ask.gateway.id):
        raise NotOffered("a name with <, > or & in it can't be signed: `accredit grant` with another constraint can")
    offers = [_once(ask, facts or {})]
    if not (is_new or concerns_money(ask, facts or {}) or runs_something(ask)):
        offers += [offer for offer in (_below(ask, facts or {}), _like(ask)) if offer is not None]
    return tuple(offers)


def concerns_money(ask: Ask, facts: Mapping[str, str | float]) -> bool:
    """Return whether a call may be about money, by its facts or by names of its arguments."""
    return "amount" in facts or not MONEY.isdisjoint(_names(ask))


def runs_something(ask: Ask) -> bool:
    """Return whether a call may run a command or a query, by names of its arguments."""
    return not RUNS.isdisjoint(_names(ask))


def _names(ask: Ask) -> set[str]:
    """Return the names of all arguments, at any depth, in small letters."""
    names: set[str] = set()
    waiting: list[Any] = [ask.arguments]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            members = cast("dict[str, Any]", value)
            names.update(name.casefold() for name in members)
            waiting += members.values()
        elif isinstance(value, list):
            waiting += cast("list[Any]", value)
    return names


def _once(ask: Ask, facts: Mapping[str, str | float]) -> Offer:
    amount, currency = facts.get("amount"), facts.get("currency")
    button, words = "Allow only this call", "Only this call: these arguments, once, within 10 minutes"
    constraints: tuple[Constraint, ...] = (_terms(ask, params_sha256=ask.params_sha256),)
    if isinstance(amount, int | float) and isinstance(currency, str) and _NOT_PORTABLE.isdisjoint(currency):
        button = f"Allow paying {amount:,.2f} {shown(currency)}"
        words = "Only this payment: these arguments, once, within 10 minutes"
        constraints += (MaxAmount(max_amount=amount, currency=currency),)
    elif runs_something(ask):
        button = "Allow running this"
    return Offer(
        key="once",
        button=button,
        words=words,
        scope=ask.refusal.required_scope,
        constraints=constraints,
        max_calls=1,
        seconds=ASK_SECONDS,
    )


def _like(ask: Ask) -> Offer | None:
    if ask.method == "resources/read":
        return _several(ask, "like", "This resource, read again", (_terms(ask),))
    about = sorted(_ABOUT.intersection(ask.arguments)) if ask.method == "tools/call" else []
    forms = {name: canonical(ask.arguments[name]) for name in about if ask.arguments[name]}
    kept = {name: form for name, form in forms.items() if len(form) <= MAX_UNFOLDED_CHARS}
    if not kept:
        return None
    args = {f"/{name}": (hashlib.sha256(form).hexdigest(),) for name, form in kept.items()}
    stays = ", ".join(f"“{name}”" for name in kept)
    words = f"Calls like it: {stays} as in this one, anything in all other arguments"
    return _several(ask, "like", words, (_terms(ask, args=args),), tuple(args))


def _below(ask: Ask, facts: Mapping[str, str | float]) -> Offer | None:
    resource, path = facts.get("resource_id"), facts.get("requested_path")
    if not isinstance(resource, str) or not isinstance(path, str) or path_fault(path):
        return None
    folder = path.rstrip("/").rpartition("/")[0]
    if not folder or not _NOT_PORTABLE.isdisjoint(resource + folder):
        return None  # below the root is everything
    constraints = (_terms(ask), ResourcePath(resource_id=resource, path_prefix=folder))
    return _several(ask, "below", f"Files below {shown(folder)}, with any other arguments", constraints)


def _several(
    ask: Ask, key: Choice, words: str, constraints: tuple[Constraint, ...], kept: tuple[str, ...] = ()
) -> Offer:
    return Offer(
        key=key,
        button="Allow calls like it" if key == "like" else "Allow files below this folder",
        words=words,
        scope=ask.refusal.required_scope,
        constraints=constraints,
        max_calls=LIKE_CALLS,
        seconds=LIKE_SECONDS,
        kept=kept,
    )


def _terms(ask: Ask, *, params_sha256: str = "", args: dict[str, tuple[str, ...]] | None = None) -> Constraint:
    return CallTerms(
        gateway=ask.gateway.id,
        method=ask.method,
        target=(ask.target,),
        params_sha256=params_sha256 or UNSET,
        args=UNSET if args is None else args,
        definition=ask.refusal.definition,
    ).constraint()
