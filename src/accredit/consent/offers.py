"""A person's choices for an ask, and the delegation of each. No I/O.

- [one-call] The choice of only this call, once, within ten minutes, is always offered. For a request to an HTTP API,
  and for a message to an agent, it is the only choice: nothing says which parts of them may differ.
- [similar-calls] A number of similar calls, within at most a day, is offered in two cases. If the call is for a
  resource, similar calls are for the same resource. If arguments tell whom or what the call is about (`to`, `channel`,
  `repo`, ...), these are fixed, including empty ones. If recipients could be added (`cc`, `bcc`), the choice names
  those arguments.
- [caution] Only [one-call] is offered for a new agent or gateway, for money, and for a call that runs a command or a
  query. Whether a call is about money, or runs something, is guessed from arguments' names and parts of them
  (`amountUsd`, `sql_statement`). Such hints can only make the choices fewer. A request whose body is not shown as
  values may be about money.
- [limits] Each delegation names the scopes that the call needs (only messages to agents need several), the gateway, the
  method and the target, and has a limit of uses and an end. The right to delegate, a wildcard, and names that can't be
  signed portably are never offered (`grant` may give them).
- [definition] If the gateway pins the tool's definition, the delegation is valid only for that definition: a tool with
  another one is another tool.

Other arguments of similar calls may be anything: a constraint can't say that an argument is absent.
"""

import hashlib
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
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
    MAX_LOOK_ALIKE_CHARS,
    MAX_UNFOLDED_CHARS,
)
from accredit.pins.lookalikes import in_latin
from accredit.ratify import Constraint, Grant
from accredit.ratify.constraints import MaxRate
from accredit.ratify.scopes import DELEGATE, WILDCARDS

MAX_LIKE_SECONDS = 86_400
"""The longest time for which similar calls can be allowed: a day."""


_MONEY = frozenset(
    (
        *("amount", "amounts", "price", "total", "sum", "value", "cost", "fee", "currency", "iban", "money", "cash"),
        *("payment", "pay", "payee", "payout", "refund", "balance", "budget", "salary", "invoice", "deposit"),
        *("withdrawal", "cents", "usd", "eur", "euro", "euros", "gbp", "chf", "jpy", "dollar", "dollars", "btc"),
        *("eth", "wei", "sats", "satoshi", "satoshis", "accountnumber", "cardnumber", "stake", "bid"),
    )
)
"""Words in arguments' names that mean money."""

_RUNS = frozenset(
    (
        *("command", "commands", "cmd", "cmds", "commandline", "cmdline", "script", "scripts", "code", "sql", "query"),
        *("queries", "shell", "bash", "zsh", "sh", "powershell", "pwsh", "python", "javascript", "ruby", "perl"),
        *("expression", "expr", "statement", "statements", "program", "executable", "binary", "entrypoint", "argv"),
        *("args", "exec", "execute", "eval", "lambda", "snippet", "formula", "macro"),
    )
)
"""Words in the names of arguments that may be run as a program, a command or a query."""
_ROOTS = ("amount", "price", "currency", "payment"), ("command", "script", "query", "shell", "statement")
"""Beginnings or ends of words that have no break inside (`totalamount`): first those for money, then those for commands
and queries."""
_CODES = frozenset(
    (
        *("area", "airport", "city", "color", "country", "coupon", "currency", "dial", "discount", "error", "exit"),
        *("iata", "lang", "language", "pin", "post", "postal", "promo", "qr", "region", "state", "status", "zip"),
    )
)
"""Words before `code` which show that it is not a program: `zip_code`."""

_ABOUT = frozenset(
    (
        *("to", "cc", "bcc", "recipient", "recipients", "mailbox", "channel", "channel_id", "chat_id", "room"),
        *("owner", "repo", "repository", "project", "project_id", "issue", "board", "list_id", "calendar"),
        *("calendar_id", "database", "table"),
    )
)
"""Names of arguments that tell whom or what a call is about."""
_ABOUT_PARTS = frozenset(part for name in _ABOUT for part in name.split("_")) - {"id", "list"} | {
    *("recipientids", "receiver", "receivers", "addressee", "address", "addresses", "email", "emails", "phone"),
    *("user", "users", "account", "group", "team", "chat", "channels", "rooms", "attendee", "attendees"),
}
"""If an argument named in `_ABOUT` is there, other arguments with these words in their names are fixed as well."""
_SENDS = ("to", "cc", "bcc")
"""The arguments for recipients. If a call lacks one of them, a similar call may add it."""
_PLAIN = re.compile(r"[\w.$:@-]{1,128}", re.ASCII)
"""The form of names that a certificate can hold and a person can read."""
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_NOT_PORTABLE = frozenset("<>&")

Choice = Literal["once", "like"]


class Offer(Struct, frozen=True, kw_only=True):
    """One of the person's choices. `button` and `words` are safe to show. `kept` are the pointers of the fixed
    arguments. `max_calls` and `seconds` are proposals that the person may change, except for "once"."""

    key: Choice
    button: str
    words: str
    scopes: tuple[str, ...]
    constraints: tuple[Constraint, ...]
    max_calls: int
    seconds: int
    kept: tuple[str, ...] = ()

    def grant(self, ask: Ask, cert_id: str, now: int, *, max_calls: int = 0, seconds: int = 0) -> Grant:
        """Return the grant to the agent, to be signed. `cert_id` must be new; `now` is in unix seconds.

        `max_calls` and `seconds` replace the proposals (0: keep). Raises `NotOffered` for numbers out of bounds.
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
            scope=self.scopes,
            issued_at=begins,
            # Before the window of its limit is over: so no use is forgotten while the delegation is valid.
            expires_at=begins + length - 1,
            constraints=(*self.constraints, MaxRate(calls, length)),
        )


def offers_for(ask: Ask, *, is_new: bool) -> tuple[Offer, ...]:
    """Return the choices for a call, the narrowest first. Raises `NotOffered` if it can't be allowed here at all.

    `is_new` says that nothing was allowed to this agent at this gateway yet.
    """
    for scope in ask.refusal.scopes:
        if scope == DELEGATE or scope in WILDCARDS or scope.endswith("*"):
            # Without the scope, which is the agent's word: this is read as the desk's own, with its commands.
            raise NotOffered("the right to delegate, or a wildcard, can't be allowed here: `accredit grant` can")
    if not _NOT_PORTABLE.isdisjoint(ask.target + ask.gateway.id):
        raise NotOffered("a name with <, > or & in it can't be signed: `accredit grant` with another constraint can")
    once = _once(ask)
    like = None if is_new or concerns_money(ask) or runs_something(ask) else _like(ask)
    return (once,) if like is None else (once, like)


def choices(ask: Ask, *, is_new: bool) -> tuple[Offer, ...]:
    """Return the choices for a call as `offers_for` does; none if it can't be allowed here."""
    with suppress(NotOffered):
        return offers_for(ask, is_new=is_new)
    return ()


def concerns_money(ask: Ask) -> bool:
    """Return whether a call may be about money, by the names of its arguments. So may a request whose body is not shown
    as values: an agent chooses how it writes a body, and could hide the names in it."""
    if ask.is_request and ask.body is None and ask.request.body != "":
        return True
    return any(_is_of(name, _MONEY, _ROOTS[0]) for name, _ in _members(ask))


def runs_something(ask: Ask) -> bool:
    """Return whether a call may run a command or a query, by the names of its arguments."""
    return bool(what_runs(ask))


def what_runs(ask: Ask) -> list[Any]:
    """Return the values of the arguments whose names, at any depth, say that something may run them."""
    return [value for name, value in _members(ask) if _is_of(name, _RUNS, _ROOTS[1])]


def _members(ask: Ask) -> Iterator[tuple[str, Any]]:
    """Yield the names of all that the call brings, at any depth, and their values."""
    waiting = ask.content
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            members = cast("dict[str, Any]", value)
            yield from members.items()
            waiting += members.values()
        elif isinstance(value, list):
            waiting += cast("list[Any]", value)


def parts_of(name: str) -> list[str]:
    """Return the words of an argument's name in lower case. It is split at non-letters and at changes of case:
    `amountUsd`, `amount_usd` and `AMOUNT-USD2` all give `amount` and `usd`. Letters that look Latin count as Latin."""
    return [part.lower() for part in _PARTS.findall(in_latin(name[:MAX_LOOK_ALIKE_CHARS]))]


def _is_of(name: str, words: frozenset[str], roots: tuple[str, ...]) -> bool:
    """Return whether one part of a name, or two neighbouring parts joined, is one of these words, or begins or ends
    with one of the roots."""
    parts = parts_of(name)
    if parts[1:] == ["code"] and parts[0] in _CODES:
        return parts[0] in words
    pairs = ("".join(pair) for pair in pairwise(parts))
    return any(each in words or each.startswith(roots) or each.endswith(roots) for each in (*parts, *pairs))


def _once(ask: Ask) -> Offer:
    what = "this path and body" if ask.is_request else "this very message" if ask.is_message else "these arguments"
    return Offer(
        key="once",
        button="Allow running this" if runs_something(ask) else "Allow only this call",
        words=f"Only this call: {what}, once, within 10 minutes",
        scopes=ask.refusal.scopes,
        constraints=(_terms(ask, params_sha256=ask.params_sha256),),
        max_calls=1,
        seconds=ASK_SECONDS,
    )


def _like(ask: Ask) -> Offer | None:
    words, args = "This resource, read again", None
    if ask.method != "resources/read":
        about = sorted(filter(_is_about, ask.arguments)) if ask.method == "tools/call" else []
        kept = {name: canonical(ask.arguments[name]) for name in about}
        tells = any(ask.arguments[name] for name in _ABOUT.intersection(kept))
        is_plain = all(len(form) <= MAX_UNFOLDED_CHARS and _PLAIN.fullmatch(name) for name, form in kept.items())
        if not (tells and is_plain):
            return None
        args = {f"/{name}": (hashlib.sha256(form).hexdigest(),) for name, form in kept.items()}
        open_ = [f"“{name}”" for name in _SENDS if name not in kept] if not kept.keys().isdisjoint(_SENDS) else []
        may_come = f", {' and '.join(open_)} may be added" if open_ else ""
        stays = ", ".join(f"“{name}”" for name in kept)
        words = f"Calls like it: {stays} as in this one{may_come}, anything in all other arguments"
    return Offer(
        key="like",
        button="Allow calls like it",
        words=words,
        scopes=ask.refusal.scopes,
        constraints=(_terms(ask, args=args),),
        max_calls=LIKE_CALLS,
        seconds=LIKE_SECONDS,
        kept=tuple(args or ()),
    )


def _is_about(name: str) -> bool:
    """Return whether an argument tells whom or what a call is about, by its name or by parts of it."""
    return name in _ABOUT or not _ABOUT_PARTS.isdisjoint(parts_of(name))


def _terms(ask: Ask, *, params_sha256: str = "", args: dict[str, tuple[str, ...]] | None = None) -> Constraint:
    return CallTerms(
        gateway=ask.gateway.id,
        method=ask.method,
        target=(ask.target,),
        params_sha256=params_sha256 or UNSET,
        args=UNSET if args is None else args,
        definition=ask.refusal.definition,
    ).constraint()
