"""Decides which proof a request carries, and how a refusal is answered. One per connection. No I/O, except for the file
of known gateways.

For a request, the first rule that applies:

- [unguarded] A request that already carries a proof, or needs none, stays unchanged.
- [guarded] A guarded call (`tools/call`, `resources/read`, `prompts/get`) gets a proof that is bound to it, if its
  scope and the gateway's id are known and the target is not sensitive. Otherwise it is sent without a proof: the
  refusal says what is needed, and nothing was signed for a stranger. A gateway that only observes refuses nothing. So
  there a call gets a proof even if the target is sensitive, or has no scope (then the proof is for no scope): otherwise
  the gateway would not know who calls.
- [task] A request about a task gets a proof for the tool that made the task. If the request changes the task, the proof
  is bound to the tool's scope, else to no scope.
- [beginning] `initialize` and `server/discover` get a proof for no scope, if the gateway's id is known. A gateway that
  lets OAuth clients in asks a client that brings neither proof nor token to log in.
- [list-first] If a call would be sent without a proof because the gateway or the target is unknown, the list that could
  name them is requested first, once (`list_first`). A gateway that only observes refuses nothing: without the list, it
  would never learn who makes the calls of a client that never lists.
- [list] A list request gets a proof if one delegation covers everything that the agent may do, so that the gateway can
  filter the list.

A refused request is sent again, once for each of these reasons:

- [begin-again] A beginning, or a list, that was refused because it had no proof is sent again with one, as the refusal
  says who the gateway is.
- [list-retry] A refused list request is sent without a proof. Listing may be allowed where calling is not, and refusals
  of calls will say what is wrong.
- [other-scope] After -31001, or -31003 with another scope than assumed, the proof is made for the scope that the
  gateway names, if its id is known (`pins`). It may name one scope for a call: by naming more it could explore the
  delegations. An unbound proof, valid at any gateway, is made only if the caller wrote `binding="none"`, and never for
  a URL.
- [challenge] After -31002 the gateway's challenge is checked and signed (Option B of Ratify).
- [next-delegation] After a refusal of the delegation itself (a constraint, its end, its principal), the next delegation
  that covers the scope is presented, up to `MAX_PRESENTED` in all. If a challenge was needed, each delegation is
  presented with a new one.
- [token-argument] A gateway removes the argument `_token` of a call if it is a credential, and the signature covers the
  forwarded call. So it covers this argument only if the tool is known to declare it. If the call is refused, the proof
  is made the other way.

One request gets `MAX_PROOFS_OF_REQUEST` proofs in all, whatever the answers. After that, the refusal is passed on.

Not here: sending it (`streams`), and the messages for people (`refusals`).
"""

from collections.abc import Callable, Mapping
from typing import cast

from msgspec import Struct

from accredit.base.caching import RecentlyUsed
from accredit.base.values import items_of, members_of
from accredit.client.presenter import Challenge, ProofPresenter, RequestProofs
from accredit.errors import FrameError, ProofRefused
from accredit.jsonrpc.methods import LISTEN, TASK_CHANGES, TASK_MEMBER
from accredit.jsonrpc.responses import TASK
from accredit.limits import MAX_KNOWN_TARGETS
from accredit.policy.catalog import scope_fault
from accredit.policy.guarded_call import (
    BEGINNINGS,
    GUARDED,
    LISTS,
    PROOF,
    PROOFS,
    GuardedCall,
    guarded_call_from_values,
)
from accredit.policy.lists import KINDS, OBSERVED, SCOPE, SENSITIVE, VERIFIER, Kind
from accredit.refusals import CHALLENGE_REQUIRED, DENIED, MISSING, REPLAYED, UNTRUSTED_ROOT
from accredit.tokens.carried import ARGUMENT

Params = dict[str, object]

_LIST_REFUSALS = frozenset({DENIED, UNTRUSTED_ROOT, REPLAYED})
"""The codes by which a gateway refuses a list request because of its proof."""

_INVALID = "ratify_invalid"
_DEFAULT_SCOPES = {"resources/read": "mcp:resource", "prompts/get": "mcp:prompt"}
_LISTS_FIRST = {
    "resources/read": ("resources/list", "resources/templates/list"),
    "prompts/get": ("prompts/list",),
}
"""The list that tells the gateway's id and whether it observes, by the method of a call. For all other methods it is
`tools/list`."""


Uncovered = Callable[[Params], Params]
"""Returns a replacement for a list's item that no delegation covers."""


class _Target(Struct, frozen=True):
    scope: str
    sensitive: bool = False


class Attempt(RequestProofs, kw_only=True):
    """A request in progress: its `params` without a proof, and the state of its tries. `other` is the call as the
    gateway may read it instead ([token-argument])."""

    method: str
    params: Params
    corrected: bool = False
    other: GuardedCall | None = None


class Prover:
    """Decides on the proofs of one connection. Raises `ConfigurationError` if the file of known gateways can't be read.

    `session_id` returns the MCP session's id, or "". `url` is the gateway's, or the name that stands for it, or "" if
    there is neither. With `uncovered` the gateway is not asked to filter lists, and items that no delegation covers are
    replaced. Otherwise they are left out.
    """

    def __init__(
        self,
        presenter: ProofPresenter,
        url: str = "",
        session_id: Callable[[], str] = str,
        *,
        uncovered: Uncovered | None = None,
    ) -> None:
        self._presenter = presenter
        self._pin = presenter.pin(url)
        self._session_id = session_id
        self._uncovered = uncovered
        self._filters = presenter.has_one_chain and uncovered is None
        self._targets = RecentlyUsed[tuple[str, str], _Target](MAX_KNOWN_TARGETS)
        self._listed = set[str]()
        self._observes = False
        self._token_takers = TokenTakers()

    @property
    def refused(self) -> ProofRefused | None:
        """The refusal of everything that the host sends to this server, or None. It is set if the server has claimed
        the id of a gateway that is known under another URL."""
        return self._pin.refused

    def attempt(self, method: str, params: Params) -> Attempt | None:
        """Return the request as an attempt, which gets proofs. Return None if the request is sent as it is."""
        if method not in GUARDED | LISTS | BEGINNINGS | {LISTEN}:
            return None
        if any(name in PROOFS for name in members_of(params.get("_meta"))):
            return None
        try:
            calls = [
                guarded_call_from_values(method, each, self._session_id(), None)
                for each in self._token_takers.readings(method, params)
            ]
            for call in calls:
                call.request_hash("")  # without a digest nothing can be signed
        except FrameError:
            return None  # it can't be signed: the gateway reports what is wrong
        other = calls[1] if len(calls) > 1 else None
        if method == LISTEN and not calls[0].subscribed:
            return None
        return Attempt(call=calls[0], method=method, params=params, other=other)

    def list_first(self, attempt: Attempt) -> str | None:
        """Return the method of a list to request before this call, or None ([list-first])."""
        is_known = self._pin.id and self._target(attempt) is not None
        can_learn = self._pin.id or self._pin.url or self._pin.unbound
        if attempt.method not in GUARDED or is_known or not can_learn or not self._presenter.granted:
            return None
        lists = _LISTS_FIRST.get(attempt.method, ("tools/list",))
        return next((each for each in lists if each not in self._listed), None)

    def learn_list(self, method: str, result: Params) -> None:
        """Learn from a list that was requested before a call; `result` is empty if the server refused it. Raises
        `ProofRefused` if it is not the pinned gateway."""
        kind = KINDS[method]
        for item in items_of(result.get(kind.items)):
            self._learn(kind, members_of(item))
        self._listed.add(method)

    def proved(self, attempt: Attempt) -> Params:
        """Return the params to send first."""
        if attempt.method in BEGINNINGS:
            return self._signed(attempt, "") if self._pin.id else attempt.params
        if attempt.method in LISTS:
            return self._signed(attempt, "") if self._pin.id and self._filters else attempt.params
        target = self._target(attempt)
        if target is None or target.sensitive or not self._pin.id:
            return attempt.params
        return self._signed(attempt, target.scope)

    def answered(self, attempt: Attempt, result: Params) -> None:
        """Learn the task that a call has become. A request that changes the task needs the same scope as the call."""
        task = result if result.get("resultType") == TASK else members_of(result.get("task"))
        id, target = task.get(TASK_MEMBER), self._target(attempt)
        if attempt.method == "tools/call" and isinstance(id, str) and target is not None:
            self._targets.put((TASK, id), target)

    def again(self, attempt: Attempt, code: int, data: object) -> Params | None:
        """Return the params to send in answer to a refusal, or None if the refusal stands.

        Raises `ProofRefused` if the gateway asks for a scope that is never signed, does not give its id, or is not the
        pinned gateway.
        """
        had_scope = attempt.scope
        if attempt.method in BEGINNINGS or (attempt.method in LISTS and code == MISSING):
            return self._begin_again(attempt, code, members_of(data))
        if attempt.method in LISTS:
            attempt.scope, attempt.corrected = None, True
            return attempt.params if code in _LIST_REFUSALS and had_scope is not None else None
        refusal = members_of(data)
        named = scope_in(refusal.get("required_scope"))
        if not attempt.may_name(named):
            return None
        params = self._again(attempt, code, refusal, named)
        came_without, goes_without = had_scope is None, attempt.scope is None
        return None if came_without and goes_without else params

    def _begin_again(self, attempt: Attempt, code: int, refusal: Mapping[str, object]) -> Params | None:
        """Return the params with a proof, if none was shown yet ([begin-again])."""
        if code != MISSING or attempt.scope is not None or attempt.corrected:
            return None
        self._meet(members_of(refusal.get("_meta")))
        params = self._signed(attempt, "") if self._pin.id else attempt.params
        return params if attempt.scope is not None else None

    def _again(self, attempt: Attempt, code: int, refusal: Mapping[str, object], scope: str | None) -> Params | None:
        if refusal.get("error") == _INVALID and attempt.other is not None and attempt.scope is not None:
            attempt.call, attempt.other, attempt.chains = attempt.other, None, ()
            return self._signed(attempt, attempt.scope)
        if scope is None and attempt.call.about_tasks:
            target = self._target(attempt)
            scope = target.scope if target is not None else None
        if attempt.scope is not None and attempt.has_another(refusal.get("error")):
            return self._signed(attempt, attempt.scope)
        if code == CHALLENGE_REQUIRED and not attempt.challenged:
            challenge = self._presenter.accept_challenge(refusal, self._pin)
            return self._signed(attempt, self._learned(attempt, scope, sensitive=True), challenge)
        if attempt.corrected or attempt.challenged or scope is None:
            return None
        if code == MISSING and attempt.scope is None:
            self._meet(members_of(refusal.get("_meta")))
        elif code != DENIED or attempt.scope in (None, scope):
            return None
        attempt.corrected = scope != ""  # the gateway will name the scope of a task that was made elsewhere
        return self._signed(attempt, self._learned(attempt, scope, sensitive=False))

    def listed(self, attempt: Attempt, result: Params) -> tuple[Params, Params | None]:
        """Learn from a list, and return it as the host gets it. If params are returned as well, the list has to be
        requested once more, with these.

        A gateway that filters its lists knows better which items are covered: an item may accept several scopes. So if
        an item would be left out, and the gateway's id has only now become known, the list is requested again. Raises
        `ProofRefused` if it is not the pinned gateway.
        """
        kind = KINDS[attempt.method]
        filtered = attempt.scope is not None and result.get("cacheScope") == "private"
        granted = self._presenter.granted_at(self._pin)
        self._listed.add(attempt.method)
        covered: list[object] = []
        others: list[object] = []
        for item in items_of(result.get(kind.items)):
            scope = self._learn(kind, members_of(item))
            is_open = filtered or scope is None or _is_observed(members_of(item))
            (covered if is_open or scope in granted else others).append(item)
        again = None
        if others and self._filters and self._pin.id and attempt.scope is None and not attempt.corrected:
            attempt.corrected = True
            again = self._signed(attempt, "")
        if self._uncovered is not None:
            replaced = [self._uncovered(cast("Params", item)) for item in others]
            return {**result, kind.items: [*covered, *replaced]}, again
        private = {"cacheScope": "private"} if others else {}
        return {**result, **private, kind.items: covered}, again

    def _learn(self, kind: Kind, item: Mapping[str, object]) -> str | None:
        meta = members_of(item.get("_meta"))
        named, scope = item.get(kind.key), scope_in(meta.get(SCOPE))
        if kind.method == "tools/call":
            self._token_takers.learn(item)
        observed = _is_observed(item)
        self._observes |= observed
        if not isinstance(named, str) or (scope is None and not observed):
            return None
        self._meet(meta)
        self._targets.put((kind.method, named), _Target(scope or "", meta.get(SENSITIVE) is True and not observed))
        return scope

    def _meet(self, meta: Mapping[str, object]) -> None:
        verifier_id = meta.get(VERIFIER)
        if isinstance(verifier_id, str):
            self._pin.meet(verifier_id)

    def _learned(self, attempt: Attempt, scope: str | None, *, sensitive: bool) -> str:
        known = self._target(attempt)
        if scope is None:
            return known.scope if known is not None else ""
        if not attempt.call.about_tasks:
            self._targets.put((attempt.method, attempt.call.target), _Target(scope, sensitive))
        return scope

    def _target(self, attempt: Attempt) -> _Target | None:
        if attempt.call.about_tasks:
            # The scope of a task that was made elsewhere is unknown here; the gateway's refusal will name it.
            made = next((made for id in attempt.call.tasks if (made := self._targets.peek((TASK, id)))), None)
            return _Target(made.scope if made is not None else "")
        default = _DEFAULT_SCOPES.get(attempt.method, "" if self._observes else None)
        known = self._targets.peek((attempt.method, attempt.call.target))
        return known or (_Target(default) if default is not None else None)

    def _signed(self, attempt: Attempt, scope: str, challenge: Challenge | None = None) -> Params:
        if not self._pin.id and not self._pin.unbound:
            raise self._pin.unknown()
        # Reading a task needs no scope, but the delegation that it was made with.
        bound_to = scope if not attempt.call.about_tasks or attempt.method in TASK_CHANGES else ""
        proof = self._presenter.prove_again(
            attempt, scope, self._pin.id, bound_to=bound_to, challenge=challenge, met=not self._pin.named
        )
        return with_meta(attempt.params, {PROOF: proof}) if proof is not None else attempt.params


class TokenTakers:
    """The tools known to declare an argument `_token`: in their calls it is not a credential for the gateway."""

    def __init__(self) -> None:
        self._names = RecentlyUsed[str, bool](MAX_KNOWN_TARGETS)

    def learn(self, tool: Mapping[str, object]) -> None:
        """Learn from an entry of a list of tools."""
        name = tool.get("name")
        if isinstance(name, str) and ARGUMENT in members_of(members_of(tool.get("inputSchema")).get("properties")):
            self._names.put(name, True)

    def readings(self, method: str, params: Params) -> tuple[Params, ...]:
        """Return the params as a gateway will probably read them. If the call has an argument `_token`, the other way
        to read it follows."""
        arguments = params.get("arguments")
        if method != "tools/call" or not isinstance(arguments, dict) or ARGUMENT not in arguments:
            return (params,)
        kept = {name: value for name, value in cast("Params", arguments).items() if name != ARGUMENT}
        bare = {**params, "arguments": kept}
        return (params, bare) if self._names.get(str(params.get("name"))) else (bare, params)


def with_meta(params: Params, more: Mapping[str, object]) -> Params:
    """Return the params with more members in their `_meta`."""
    return {**params, "_meta": {**members_of(params.get("_meta")), **more}}


def scope_in(value: object) -> str | None:
    """Return the scope that a gateway names, or None if no catalog could require it."""
    return value if isinstance(value, str) and scope_fault(value) is None else None


def _is_observed(item: Mapping[str, object]) -> bool:
    """Return whether a gateway says that it only observes uses of an item, and so never refuses them. Such an item need
    not be hidden."""
    return members_of(item.get("_meta")).get(OBSERVED) is True
