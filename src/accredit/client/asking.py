"""Asks a person about a call that the gateway refused, while the host waits.

- [when] A person is asked if a delegation could let the call pass, and the gateway is known. If there was an ask for
  the same call, it is used again, so that the desk can return its decision: the person may have kept it open beyond its
  end. If the desk no longer has it, a new one takes its place. An argument that is a credential for the gateway is left
  out of the ask: the gateway does not forward it either.
- [same-user] The desk is the process that holds the person's key and shows asks. It must belong to the same user. Its
  messages are bounded (`desk_socket`), and are quoted only in the expected form.
- [progress] While a person decides, the host gets progress every `ASK_PROGRESS_SECONDS`, if it sent a progress token.
- [valid-answer] An answer that allows the call is used only if it is valid (`consent.answers`), so a false desk gains
  nothing.
- [patience] If nobody has answered in time, the model is told the ask's code, and that the same call may be made again.
  If the desk takes no more asks for now, the model is told the same, but without a code. If the person says no, the
  model is told that.
- [pages] If the host can show pages, the ask's page is shown there (`pages`). Declining it there means no.
- [withdrawal] If the host cancels its call, the ask is withdrawn, unless another call still waits for it. If the host
  disconnects, so are all asks that nobody has answered: what the person signed for them would reach nobody.
- [start] At each refusal the desk is looked for anew, as it may have started after this program. Without a desk, the
  refusal stands, and the model is told that nobody could be asked. If the desk ends during an ask, the refusal stands
  without this addition. If the person wants it (`desk.toml`), a missing desk is started first (`desk_start`).
"""

import asyncio
import json
import logging
import os
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import UNSET, Struct, to_builtins

from accredit.base.caching import RecentlyUsed
from accredit.base.clock import unix_seconds
from accredit.base.text import excerpt, one_line
from accredit.base.values import items_of, members_of, text_of
from accredit.canonical import canonical
from accredit.client.desk_socket import DESK_ANSWER_SECONDS, DeskConnection, DeskGone, DeskLine
from accredit.client.desk_start import DeskStarter
from accredit.client.presenter import NotValidYet, ProofPresenter
from accredit.client.proving import TokenTakers, scope_in
from accredit.client.refusals import strip_mark
from accredit.consent.answers import Answer, chain_allowed, read_answer
from accredit.consent.asks import (
    ASKABLE,
    LEG_MEMBERS,
    MAX_ASKED_PARAMS_BYTES,
    Ask,
    AskedGateway,
    AskedRefusal,
    Asker,
    ServerWords,
)
from accredit.consent.shown import in_one_line
from accredit.errors import ConfigurationError, ConsentError, ProofRefused
from accredit.jsonrpc.methods import TARGET_MEMBER
from accredit.keys.places import desk_sockets
from accredit.limits import (
    ASK_PROGRESS_SECONDS,
    ASK_SECONDS,
    MAX_KNOWN_TARGETS,
    MAX_PRINCIPALS,
    MAX_SERVER_WORDS_BYTES,
    MAX_TOLD_REASON_CHARS,
)
from accredit.ratify import DelegationCert
from accredit.refusals import BY_WORD, UNTRUSTED_ROOT

if TYPE_CHECKING:  # they take longer to load than all else, and clients of HTTP APIs do without
    from accredit.client.pages import Pages

MAX_HOLDS_OF_ASK = 8
"""How many calls may wait for the answer to one ask. If an agent repeats the call more often meanwhile, it is told at
once that nobody has answered yet."""
MAX_REMEMBERED_ASKS = 64
"""How many asks of one connection are remembered, so that a repeated call finds its own."""
DESK_START_SECONDS = 20.0
"""How long a call waits for a desk that was started for it. A start takes a second or two, on a busy machine ten."""
DESK_LOOK_SECONDS = 0.05
"""How often a starting desk is polled."""


_log = logging.getLogger("accredit.client")

_URL = re.compile(r"http://127\.0\.0\.1:[0-9]{1,5}(?![^/])")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_NAME_CHARS = 64
_ID_BYTES = 16
_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")

NO_DESK = (
    "Nobody could be asked for this call: no desk runs. Once the user has started one (`accredit desk`), the same call"
    " can be made again."
)
"""The text for the model, in addition to the refusal, if there is no desk."""

OLD_DESK = (
    "Nobody could be asked: the desk takes no such ask. If it is older than this program, it asks about calls of MCP"
    " alone: update accredit, and start the desk again."
)
"""The same, if the desk does not take an ask about a request to an HTTP API, or about a message to an agent."""

Say = Callable[[float, float, str], Awaitable[None]]
"""Reports progress to the host: seconds, seconds in all, and a text."""


class Allowed(NamedTuple):
    """The person allows the call by this chain (leaf first)."""

    chain: tuple[DelegationCert, ...]


class Withheld(NamedTuple):
    """The call is not made for now. The text tells the model why."""

    text: str


class AskPending(NamedTuple):
    """This ask is pending, and is shown at this page of the desk."""

    ask: Ask
    url: str


class _Waiting(Struct):
    """A pending ask, and how many calls are waiting for its answer. `newer` is the latest ask for the same call, which
    was not sent."""

    ask: Ask
    newer: Ask | None = None
    holds: int = 0
    person: str = "Whoever has the key"
    url: str = ""

    def renew(self, over: Ask) -> bool:
        """Replace an ask that the desk no longer has by the newer one, unless another call has. Return whether there is
        another one now."""
        if self.ask is over and self.newer is not None:
            self.ask, self.newer = self.newer, None
        return self.ask is not over


class Asking:
    """Asks about the calls of one connection. `desk` are the possible paths of the desk's socket, and `hold` is how
    many seconds a call is held while a person decides. `starter` starts a desk if none runs."""

    def __init__(
        self,
        presenter: ProofPresenter,
        gateway_url: str,
        desk: Sequence[Path],
        hold: float,
        *,
        starter: DeskStarter | None = None,
        clock: Callable[[], int] = unix_seconds,
        draw: Callable[[int], str] = secrets.token_hex,
    ) -> None:
        self._presenter = presenter
        self._starter = starter
        self._url = gateway_url
        self._desk = desk
        self._hold = hold
        self._clock = clock
        self._draw = draw
        self._asks = RecentlyUsed[tuple[str, ...], _Waiting](MAX_REMEMBERED_ASKS)
        self._token_takers = TokenTakers()
        self._words = RecentlyUsed[str, ServerWords](MAX_KNOWN_TARGETS)

    @property
    def agent_id(self) -> str:
        """The id of the agent that asks."""
        return self._presenter.agent_id

    def learn(self, method: str, result: Mapping[str, Any]) -> None:
        """Remember from a tool list what the server says about its tools."""
        for members in map(members_of, items_of(result.get("tools")) if method == "tools/list" else ()):
            self._token_takers.learn(members)
            name = members.get("name")
            if isinstance(name, str):
                self._words.put(name, _server_words(members))

    def ask_for(self, method: str, params: dict[str, Any], refusal: ProofRefused) -> Ask | str:
        """Return the ask for a refused call of MCP ([when]). If there is none, return the reason as a text, "" if it
        need not be told."""
        if method not in ASKABLE:
            return ""
        sent = self._token_takers.readings(method, params)[0]
        params = {name: value for name, value in sent.items() if name not in LEG_MEMBERS}
        return self.ask_about(method, str(params.get(TARGET_MEMBER[method])), params, refusal)

    def ask_about(
        self,
        method: str,
        target: str,
        params: dict[str, Any],
        refusal: ProofRefused,
        *,
        gateway: AskedGateway | None = None,
        scopes: tuple[str, ...] = (),
    ) -> Ask | str:
        """Return the ask for a refused call of any protocol, as `ask_for` does. Without a `gateway`, it is the pinned
        one. `scopes` are given if the call needs several."""
        scope = scope_in(refusal.data.get("required_scope"))
        row = BY_WORD.get(refusal.error)
        if scope is None or row is None or not row.grant_helps:
            return ""
        if refusal.code == UNTRUSTED_ROOT and self._presenter.principals:
            return ""  # the gateway does not trust the person
        if not self._presenter.granted and any(isinstance(each, NotValidYet) for each in self._presenter.faults):
            return ""  # by a wrong clock, no desk would take the ask
        try:
            if len(canonical(params)) > MAX_ASKED_PARAMS_BYTES:
                return _too_large(params)
            gateway = gateway or AskedGateway(self._presenter.pin(self._url).id, self._url)
            ask = self._ask(method, target, params, gateway, _refusal(refusal, scope, scopes))
        except (ConsentError, ConfigurationError, ValueError) as error:
            return f"Nobody can be asked for this call: {excerpt(str(error), MAX_TOLD_REASON_CHARS)}."
        earlier = self._asks.get(ask.same_call)
        if earlier is not None and _wants(earlier.ask) == _wants(ask):
            earlier.newer = ask
            return earlier.ask
        self._asks.put(ask.same_call, _Waiting(ask))
        return ask

    async def hold(
        self, ask: Ask, say: Say | None, pages: "Pages | None" = None, *, wait: bool = True
    ) -> Allowed | Withheld | AskPending | str:
        """Wait for a person's answer. Without a desk ([start]), return as a text why the refusal stands, "" if that
        need not be told.

        If this is cancelled, the ask is withdrawn ([withdrawal]). Without `wait`, return as soon as the ask is pending.
        """
        waiting = self._asks.get(ask.same_call) or _Waiting(ask)
        if waiting.holds >= MAX_HOLDS_OF_ASK:
            return Withheld(self._not_answered(waiting, waiting.ask.code))
        waiting.holds += 1
        desk, began = None, asyncio.get_running_loop().time()
        try:
            desk, outcome = await self._reached(), None
            while outcome is None:
                outcome = await self._held(desk, waiting, say, pages if wait else None, wait=wait, began=began)
            return outcome
        except (DeskGone, OSError):  # a TimeoutError is one
            return NO_DESK if desk is None else ""
        except asyncio.CancelledError:
            if desk is not None and waiting.holds == 1:
                self._asks.forget(ask.same_call)
                desk.say({"withdraw": waiting.ask.digest.hex()})
            raise
        finally:
            waiting.holds -= 1
            if desk is not None:
                desk.close()

    async def is_allowed(self, ask: Ask | str, refusal: ProofRefused, say: Say | None = None) -> bool:
        """Hold a program's call for a person's answer, and return whether they allow it. `ask` may be the reason why
        nobody is asked. If there is a reason to tell, raise the refusal with it as a note."""
        outcome = ask if isinstance(ask, str) else await self.hold(ask, say)
        if isinstance(outcome, Withheld):
            refusal.__notes__ = [outcome.text]
            raise refusal
        if isinstance(outcome, str) and outcome:
            refusal.add_note(outcome)
            raise refusal
        return isinstance(outcome, Allowed)

    def _ask(
        self, method: str, target: str, params: dict[str, Any], gateway: AskedGateway, refusal: AskedRefusal
    ) -> Ask:
        now = self._clock()
        words = self._words.peek(target) if method == "tools/call" else None
        ask = Ask(
            accredit_ask=1,
            id=self._draw(_ID_BYTES),
            asked_at=now,
            expires_at=now + ASK_SECONDS,
            agent=Asker(self._presenter.name, self._presenter.public_key),
            gateway=gateway,
            principals=self._presenter.principals[:MAX_PRINCIPALS],
            method=method,
            target=target,
            params=params,
            refusal=refusal,
            server_says=UNSET if words is None else words,
        )
        return self._presenter.sign_ask(ask)

    async def deny(self, code: str) -> None:
        """Tell the desk that the person has declined an ask on the host's page ([pages])."""
        await self._tell_desk([{"deny": code}])

    async def withdraw(self) -> None:
        """Withdraw all asks that wait at the desk: nobody comes back for their answers ([withdrawal])."""
        for ask in [each.ask for each in self._asks.values()]:  # first look: a desk that was restarted would show it
            whole = {"ask": ask.to_dict()}
            await self._tell_desk([{"show": ask.code}, whole, {"withdraw": ask.digest.hex()}])

    async def _tell_desk(self, lines: Sequence[Mapping[str, object]]) -> None:
        """Tell the desk these lines about an ask, each only if the ask is pending by the answer to the one before. Do
        nothing if there is no desk."""
        with suppress(DeskGone, OSError):  # a TimeoutError is one
            async with asyncio.timeout(DESK_ANSWER_SECONDS):
                desk = await DeskConnection.open(self._desk)
                try:
                    for line in lines:
                        desk.say(line)
                        if (await desk.hear()).state != "pending":
                            break
                finally:
                    desk.close()

    async def _reached(self) -> DeskConnection:
        """Connect to the desk, started if necessary ([start]). Raises `DeskGone` and `TimeoutError`."""
        with suppress(DeskGone, TimeoutError):
            async with asyncio.timeout(DESK_ANSWER_SECONDS):
                return await DeskConnection.open(self._desk)
        started = self._starter.start() if self._starter is not None else None
        if started is None:
            raise DeskGone
        async with asyncio.timeout(min(self._hold, DESK_START_SECONDS)):
            while True:
                has_ended = started.poll() is not None  # perhaps as another one was quicker
                with suppress(DeskGone):
                    return await DeskConnection.open(self._desk)
                if has_ended:
                    _log.warning("the desk that was started has ended")
                    raise DeskGone
                await asyncio.sleep(DESK_LOOK_SECONDS)

    async def _held(
        self,
        desk: DeskConnection,
        waiting: _Waiting,
        say: Say | None,
        pages: "Pages | None",
        *,
        wait: bool,
        began: float,
    ) -> Allowed | Withheld | AskPending | str | None:
        """Wait for the answer to an ask. Return None if a newer one took its place."""
        loop, ask = asyncio.get_running_loop(), waiting.ask
        page = None
        desk.say({"ping": True})
        desk.say({"ask": ask.to_dict()})
        next_line = asyncio.ensure_future(desk.hear())
        declined: asyncio.Future[Any] = loop.create_future()  # while no page is open
        try:
            while (left := self._hold - (loop.time() - began)) > 0:
                await asyncio.wait(
                    {next_line, declined}, timeout=min(left, ASK_PROGRESS_SECONDS), return_when=asyncio.FIRST_COMPLETED
                )
                if next_line.done():
                    line = next_line.result()
                    outcome = self._judged(line, waiting, ask)
                    if outcome is not None:
                        return outcome[0]
                    if line.state == "pending" and waiting.url and not wait:
                        return AskPending(ask, waiting.url)
                    if line.state == "pending" and waiting.url and page is None and pages is not None:
                        page = pages.show(ask, waiting.url)
                        declined = declined if page is None else asyncio.ensure_future(page.declined.wait())
                    next_line = asyncio.ensure_future(desk.hear())
                elif declined.done():
                    desk.say({"deny": ask.code})  # the answer comes as a line
                    declined = loop.create_future()
                elif say is not None and (passed := loop.time() - began) < self._hold:
                    await say(passed, self._hold, _progress(waiting, self._hold - passed))
        finally:
            if page is not None and pages is not None:
                pages.close(page)
            for each in (next_line, declined):
                each.cancel()
            with suppress(asyncio.CancelledError, DeskGone, OSError):
                await next_line
        return Withheld(self._not_answered(waiting, ask.code))

    def _judged(self, line: DeskLine, waiting: _Waiting, ask: Ask) -> tuple[Allowed | Withheld | str | None] | None:
        """Return the decision in a line of the desk, in a tuple of one, in which None stands for a newer ask that takes
        the place of this one. Return None if the line only says that the ask is pending. Raises `DeskGone`."""
        if _is_over(line) and waiting.renew(ask):
            return (None,)
        if line.error == "rate":
            return (Withheld(self._not_answered(waiting, "")),)
        if line.error:
            _log.warning("the desk takes no ask: %s", excerpt(line.error))
            is_new_kind = line.error == "bad_ask" and ask.method not in ASKABLE
            return (OLD_DESK if is_new_kind else "",)
        if line.answer is None:
            found = _URL.match(line.url)
            waiting.person = one_line(line.person)[:_NAME_CHARS] or waiting.person
            waiting.url = found[0] if found is not None else waiting.url
            return None
        return (self._answered(line.answer, waiting, ask),)

    def _answered(self, raw: dict[str, Any], waiting: _Waiting, ask: Ask) -> Allowed | Withheld | str:
        try:
            answer: Answer = read_answer(json.dumps(raw, ensure_ascii=False).encode("utf-8", "surrogatepass"))
            if answer.ask != ask.digest.hex():
                raise DeskGone
            if answer.decision == "later":
                self._asks.forget(ask.same_call)
                return Withheld(self._not_answered(waiting, ask.code))
            if answer.decision == "deny":
                self._asks.forget(ask.same_call)
                return Withheld(denial_message(waiting.person, ask.code))
            chain = chain_allowed(answer, ask, self._clock())
            self._presenter.allow(chain)
        except (ConsentError, ConfigurationError) as error:
            _log.warning("the desk's answer is not used: %s", excerpt(str(error), MAX_TOLD_REASON_CHARS))
            return ""
        self._asks.forget(ask.same_call)
        return Allowed(chain)

    def _not_answered(self, waiting: _Waiting, code: str) -> str:
        target = _name_of(waiting.ask)
        again = f"call {target} again with exactly the same arguments"
        if waiting.ask.method not in ASKABLE:
            again = f"send {target} again, exactly as it was"
        named = f" (code {code})" if code else ""
        ways = [f"open {waiting.url}{f'/a/{code}' if code else ''}"] if waiting.url else []
        ways.append(f"run: accredit approve {code}" if code else "run: accredit asked")
        opens = f"If that page is not signed in, run: accredit desk open {code}".rstrip() + "\n" if waiting.url else ""
        faults = (f"\nThis agent asks since {one_line(each.what)}: {one_line(each.remedy)}."
                  for each in self._presenter.faults)  # fmt: skip
        return (
            f"{waiting.person} has not answered yet{named}. Tell the user: {', or '.join(ways)}\n"
            f"{opens}When they say that it is allowed, {again}.{''.join(faults)}"
        )


def asking_at_desk(presenter: ProofPresenter | None, url: str, hold: float) -> Asking | None:
    """Return the `Asking` with which a program's client asks at the desk of this user; None if `hold` is 0 seconds.
    Raises `ConfigurationError` without a presenter."""
    if hold <= 0:
        return None
    if presenter is None:
        raise ConfigurationError("hold is of no use without a presenter", "give the agent's key to one")
    return Asking(presenter, url, desk_sockets(os.environ, os.geteuid()), hold)


def _refusal(refusal: ProofRefused, scope: str, scopes: tuple[str, ...]) -> AskedRefusal:
    granted = map(scope_in, items_of(refusal.data.get("granted_scope")))
    reason, definition = refusal.data.get("reason"), refusal.data.get("definition")
    pinned = definition if isinstance(definition, str) and _DIGEST.fullmatch(definition) else UNSET
    return AskedRefusal(
        error=refusal.error[:64],
        required_scope=scope,
        granted_scope=tuple(each for each in granted if each is not None),
        reason=excerpt(reason, MAX_TOLD_REASON_CHARS) if isinstance(reason, str) else "",
        definition=pinned,
        required_scopes=scopes,
    )


def _too_large(params: Mapping[str, Any]) -> str:
    """Return which part of a call is too large for an ask, and what to do about it."""
    named = members_of(params.get("arguments")) or params
    sizes = {name: len(canonical(name)) + len(canonical(value)) for name, value in named.items()}
    largest = max(sizes, key=lambda each: sizes[each])
    return (
        f"Nobody can be asked for this call: it has {len(canonical(params)):,} bytes, and a person is asked about at"
        f" most {MAX_ASKED_PARAMS_BYTES:,}. The largest argument is {excerpt(largest, _NAME_CHARS)}, with"
        f" {sizes[largest]:,} bytes: send less of it, or in several calls. Or the user allows the tool beforehand:"
        " accredit grant --help"
    )


def _is_over(line: DeskLine) -> bool:
    """Return whether the desk can't answer an ask any more: its time is over, or the desk has been started anew."""
    return line.error == "bad_ask" or (line.answer or {}).get("decision") == "later"


def _wants(ask: Ask) -> tuple[object, ...]:
    """Return the parts of a refusal that determine the delegation it asks for. If they are equal, two asks need the
    same delegation."""
    return ask.refusal.scopes, ask.refusal.definition


def _server_words(tool: Mapping[str, object]) -> ServerWords:
    told = members_of(tool.get("annotations"))
    annotations = {name: value for name in _HINTS if isinstance(value := told.get(name), bool)}
    name = text_of(tool.get("title"))[:_NAME_CHARS]
    text = strip_mark(text_of(tool.get("description")))[:MAX_SERVER_WORDS_BYTES]
    words = ServerWords(_sound(name), _sound(text), annotations)
    while len(canonical(to_builtins(words))) > MAX_SERVER_WORDS_BYTES:  # a character may take six bytes
        text = text[: len(text) // 2]
        words = ServerWords(_sound(name), _sound(text), annotations)
    return words


def _sound(text: str) -> str:
    """Return a text with lone surrogates, which can't be signed, replaced by question marks."""
    return text.encode("utf-8", "replace").decode()


def _progress(waiting: _Waiting, left: float) -> str:
    minutes, seconds = divmod(max(0, round(left)), 60)
    ask = waiting.ask
    return f"Waiting for {waiting.person}: {_name_of(ask)}, code {ask.code}, {minutes}:{seconds:02} left"


def denial_message(person: str, code: str) -> str:
    """Return the message that tells a model that the person said no."""
    return f"{person} said no to this call (code {code}). Do not try it again or another way round."


def _name_of(ask: Ask) -> str:
    return one_line(ask.target) if ask.method in ASKABLE else in_one_line(ask.method, ask.target, ask.params)
