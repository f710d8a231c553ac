"""One call to be decided, as it will be forwarded, and its proof. No I/O.

`payload_digest` covers the call as the upstream sees it: `params` without `_meta`, in the form of RFC 8785. So a proof
that is bound to this digest is not valid for another call.
"""

import hashlib
import math
import unicodedata
from collections.abc import Collection, Mapping
from functools import partial
from typing import cast

import msgspec
from msgspec import Raw, Struct

from accredit.attest.canonical import SignedContext
from accredit.base.caching import CachedProperty
from accredit.base.steps import Steps
from accredit.canonical import canonical, canonical_in_steps, has_wide_integer
from accredit.errors import FrameError, RequestError
from accredit.jsonrpc.encode import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND
from accredit.jsonrpc.frames import Request
from accredit.jsonrpc.methods import LISTEN, TARGET_MEMBER, TASK_CHANGES, TASK_LIST, TASK_METHODS, TASKS
from accredit.jsonrpc.objects import check_same_names, check_same_names_in_steps
from accredit.jsonrpc.tasks import may_subscribe
from accredit.limits import MAX_SAFE_INTEGER, MAX_TOLD_TASKS, MAX_VALUES
from accredit.policy.drill import is_drill
from accredit.ratify.facts import CallFacts
from accredit.ratify.signable import build_session_context, operation_context_hash
from accredit.refusals import OAUTH_ONLY

MAX_TARGET_CHARS = 8_192
"""The most characters of a call's target: a tool's or prompt's name (128, says MCP), or a resource's URI (8,000 octets,
which RFC 9110 section 4.1 asks recipients to support)."""


PROOF = "ratify_proof"
"""The member of `_meta` that carries a proof."""
PROOFS = (PROOF, "com.ratifyprotocol/proof")
"""The names of the member under which clients send a proof. Both may be present only if their texts are identical."""

GUARDED = frozenset(TARGET_MEMBER) | TASKS
"""Methods that are never forwarded without a decision: tools/call, resources/read, prompts/get, and the methods about
tasks."""

LISTS = frozenset({"tools/list", "resources/list", "resources/templates/list", "prompts/list"})
"""Methods that need no proof. If a request of one has a proof, the proof is judged, and its challenge spent, as for a
call."""

BEGINNINGS = frozenset({"initialize", "server/discover"})
"""Methods by which a client learns what there is. Where OAuth clients are let in, others show a proof with them."""

_LEG_MEMBERS = frozenset({"inputResponses", "requestState"})
# Types whose every value is JSON: the common case, decided without a call.
_PLAIN = frozenset({str, bool, type(None)})
_NO_FORM = "params hold what has no canonical form (an integer beyond 2^53-1)"


class GuardedCall(Struct, frozen=True, dict=True):
    """A call. `target` is the tool's or prompt's name, the resource's URI or the task's id, "" for a list. `proof` is
    JSON text.

    `digest` has 32 bytes, or is empty for a list. `session_id` is the MCP session's, or "". A proof may be sent under
    either of two names; `two_proofs` says that both were used, with different proofs. `subscribed` are the ids of the
    tasks that a subscription names; a subscription that names none needs no decision. `covered` are the params without
    `_meta`. `workspace_id` and `invocation_id` are set only in calls of OAuth clients, for whom the gateway makes the
    proof: it is bound to them (Ratify's profile for middleware that holds keys).
    """

    method: str
    target: str
    session_id: str
    digest: bytes
    arguments: object
    proof: Raw | None
    two_proofs: bool = False
    subscribed: tuple[str, ...] = ()
    covered: Mapping[str, object] = {}
    workspace_id: str = ""
    invocation_id: str = ""

    @property
    def guarded(self) -> bool:
        """Whether the call needs a proof."""
        return self.method in GUARDED or bool(self.subscribed)

    @property
    def is_counted(self) -> bool:
        """Whether quotas count the call."""
        return self.method == "tools/call"

    @property
    def proof_place(self) -> str:
        """The place where a client sends a proof."""
        return f"_meta.{PROOF}"

    @property
    def word_to_hosts(self) -> str:
        """An addition to the refusal of a call without a proof, for people whose host can't make proofs."""
        return f"; {OAUTH_ONLY}"

    @property
    def about_tasks(self) -> bool:
        """Whether the call is about tasks. Then it depends on who owns them, not on the catalog."""
        return self.method in TASKS or bool(self.subscribed)

    @property
    def changes_task(self) -> bool:
        """Whether the call changes the task that it is about."""
        return self.method in TASK_CHANGES

    @property
    def tasks(self) -> tuple[str, ...]:
        """The ids of the tasks that the call names."""
        return (self.target,) if self.method in TASK_METHODS else self.subscribed

    @property
    def one_task(self) -> str | None:
        """The id of the one task that the call is about, or None. The call that created this task determines what this
        call needs."""
        return self.target if self.method in TASK_METHODS else None

    def request_hash(self, scope: str) -> bytes:
        """Return the hash of the request. A challenge issued here is valid only for the hash for which it was
        issued."""
        known: dict[str, bytes] = vars(self).setdefault("_hashes", {})
        found = known.get(scope)
        if found is None:
            found = known[scope] = operation_context_hash(scope, self.method, self.target, "", self.digest)
        return found

    def call_digest(self) -> bytes:
        """Return the digest that all legs of the call share: that of the params without the members that only one leg
        has."""
        if _LEG_MEMBERS.isdisjoint(self.covered):
            return self.digest
        return payload_digest({name: value for name, value in self.covered.items() if name not in _LEG_MEMBERS})

    def facts(self, verifier_id: str, definition: str | None = None) -> CallFacts:
        """Return the facts about the call itself, for the constraints that need them. `verifier_id` is the id of this
        gateway or server. `definition` is the pinned digest of the tool's definition."""
        return CallFacts(
            verifier_id=verifier_id,
            method=self.method,
            target=self.target,
            arguments=self.arguments,
            params_digest=self.call_digest,
            definition=definition,
        )

    def signed_context(self, verifier_id: str, agent_id: str, scope: str) -> SignedContext:
        """Return the parts of this call that a proof covers if it is bound."""
        return SignedContext(
            agent_id,
            self.invocation_id,
            self.method,
            self.digest,
            "",
            scope,
            self.target,
            self.session_id,
            verifier_id,
            self.workspace_id,
        )

    def session_context(self, verifier_id: str, agent_id: str, scope: str) -> bytes:
        """Return the session context that a proof bound to this call has signed (`ratify.signable`)."""
        return self._context(verifier_id, agent_id, self.request_hash(scope))

    def context_meant(self, signed: bytes, verifier_id: str, agent_id: str, scope: str) -> bytes:
        """Return the session context that a proof must have signed to be bound to this call.

        A proof for a list is bound to the method alone. A client may also cover the list's params, as it does for a
        call; if `signed` is that narrower context, it is returned.
        """
        plain = self.session_context(verifier_id, agent_id, scope)
        if self.method not in LISTS or not signed or signed == plain:
            return plain
        try:
            digest = payload_digest(self.covered)
        except FrameError:
            return plain
        narrower = self._context(verifier_id, agent_id, operation_context_hash(scope, self.method, "", "", digest))
        return narrower if signed == narrower else plain

    def _context(self, verifier_id: str, agent_id: str, request_hash: bytes) -> bytes:
        return build_session_context(
            verifier_id, self.workspace_id, agent_id, self.session_id, self.invocation_id, request_hash=request_hash
        )


def call_of_platform(call: GuardedCall, workspace_id: str, invocation_id: str) -> GuardedCall:
    """Return a call whose proof the gateway makes for an agent of its own: the proof is also bound to the workspace and
    the invocation. Raises `FrameError` if the call has no digest."""
    return GuardedCall(
        call.method,
        call.target,
        call.session_id,
        call.digest,
        call.arguments,
        None,
        subscribed=call.subscribed,
        covered=call.covered,
        workspace_id=workspace_id,
        invocation_id=invocation_id,
    )


class ApiCall(GuardedCall, frozen=True, dict=True):
    """A request to an HTTP API. `method` is its HTTP method, and `target` is its route's text, "" if it has none."""

    @property
    def guarded(self) -> bool:
        """Whether the call needs a proof: every request does."""
        return True

    @property
    def is_counted(self) -> bool:
        """Whether quotas count the call."""
        return not is_drill(self.method, self.target)


class _Undigested(GuardedCall, frozen=True, dict=True):
    """A call whose digest is computed on first use, because most requests from strangers are refused before.

    Reading `digest` raises `FrameError` if `covered` has no canonical form.
    """

    @CachedProperty
    def digest(self) -> bytes:  # pyright: ignore[reportIncompatibleVariableOverride]
        return super().digest or _digest(self.covered)


def guarded_call_of(request: Request, session_id: str = "") -> GuardedCall | None:
    """Return the call that a request makes, or None if nothing is to be decided.

    The proof stays a raw slice of the request, so that it is judged exactly as written. Raises `RequestError` (-32602,
    or -32600).
    """
    call = _read(request, session_id)
    if call is None:
        return None
    try:
        check_same_names(_values(request))
    except FrameError as error:
        raise _not_one_reading(request, error) from None
    return _if_decided(call)


def guarded_call_in_steps(request: Request, session_id: str = "") -> Steps[GuardedCall | None]:
    """Do as `guarded_call_of`, in steps, for a long request. Raises `RequestError`."""
    call = _read(request, session_id)
    if call is None:
        return None
    yield
    try:
        yield from check_same_names_in_steps(_values(request))
    except FrameError as error:
        raise _not_one_reading(request, error) from None
    return _if_decided(call)


def _read(request: Request, session_id: str) -> GuardedCall | None:
    if request.method not in GUARDED and request.method not in LISTS and not may_subscribe(request):
        if looks_guarded(request.method):
            raise RequestError(METHOD_NOT_FOUND, "Method not found", id=request.id, status=200)
        return None
    try:
        proofs = proofs_in(request.meta)
        covered = request.members
        if request.method in GUARDED and has_wide_integer(bytes(_values(request))):
            raise FrameError(_NO_FORM)
        target, member = request.target, TARGET_MEMBER.get(request.method)
        plain = {
            name: msgspec.json.decode(value) if name != member or target is None else target
            for name, value in covered.items()
        }
        return _guarded_call(request.method, plain, session_id, *proofs)
    except (FrameError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        detail = error.detail if isinstance(error, FrameError) else "params can't be read"
        raise RequestError(INVALID_PARAMS, f"Invalid params: {detail}", id=request.id, status=200) from None


def _values(request: Request) -> Raw:
    """Return the values of a request's params without `_meta`, as one array."""
    return Raw(b"[%b]" % b",".join(map(bytes, request.members.values())))


def _not_one_reading(request: Request, error: FrameError) -> RequestError:
    """Return the refusal of a request with two members, in its params outside `_meta`, that another reader could take
    for the same one."""
    return RequestError(INVALID_REQUEST, f"Invalid Request: {error.detail}", id=request.id)


def _if_decided(call: GuardedCall) -> GuardedCall | None:
    return call if call.method != LISTEN or call.subscribed else None


def looks_guarded(method: str) -> bool:
    """Return whether a server could take a method for a guarded one, if it reads names more leniently."""
    return read_freely(method) in GUARDED


def may_guard(method: str) -> bool:
    """Return whether a method needs a decision, or could be taken for one that does."""
    return read_freely(method) in GUARDED | LISTS


def read_freely(name: str) -> str:
    """Return a name as the most lenient reader could read it: casefolded, without compatibility forms, blanks or
    invisible characters.

    Characters are normalised one by one, in linear time. To normalise the whole name would sort its combining marks, in
    quadratic time. No two characters combine into an ASCII one, so nothing is missed.
    """
    if name.isascii() and name.isprintable():
        return name.replace(" ", "").lower()
    seen = "".join(map(partial(unicodedata.normalize, "NFKC"), name))
    return "".join(char for char in seen if char.isprintable() and char != " ").casefold()


def proofs_in(meta: Mapping[str, Raw]) -> tuple[Raw | None, bool]:
    """Return the proof in a `_meta`, under either name, and whether there are two proofs that differ, byte for byte."""
    texts = [meta[name] for name in PROOFS if name in meta]
    return (texts[0] if texts else None), len({bytes(memoryview(text)) for text in texts}) > 1


def guarded_call_from_values(
    method: str, params: Mapping[str, object], session_id: str, proof: Raw | None, two_proofs: bool = False
) -> GuardedCall:
    """Return the call of a method with these params, which are given as Python values. `_meta` is ignored. Raises
    `FrameError`."""
    covered = _covered_params(params)
    _check_values(covered)
    return _guarded_call(method, covered, session_id, proof, two_proofs)


def _subscribed_tasks(params: Mapping[str, object]) -> tuple[str, ...]:
    """Return the ids of the tasks that a `subscriptions/listen` names. Raises `FrameError`."""
    notifications = params.get("notifications")
    ids = cast("dict[str, object]", notifications).get("taskIds") if isinstance(notifications, dict) else None
    if ids is None:
        return ()
    if not isinstance(ids, list) or not all(isinstance(id, str) for id in cast("list[object]", ids)):
        raise FrameError('"taskIds" is not an array of strings')
    if len(cast("list[str]", ids)) > MAX_TOLD_TASKS:
        raise FrameError(f'"taskIds" names more than {MAX_TOLD_TASKS} tasks')
    return tuple(cast("list[str]", ids))


def payload_digest(params: Mapping[str, object]) -> bytes:
    """Return the SHA-256 of the RFC 8785 form of `params` without `_meta`.

    Raises `FrameError` if there is no such form: for an integer beyond 2^53-1, a lone surrogate, a number that is not
    finite.
    """
    covered = _covered_params(params)
    _check_values(covered)
    return _digest(covered)


def _guarded_call(
    method: str, covered: Mapping[str, object], session_id: str, proof: Raw | None, two_proofs: bool
) -> GuardedCall:
    if method in LISTS or method in BEGINNINGS or method == TASK_LIST:
        return GuardedCall(method, "", session_id, b"", None, proof, two_proofs, covered=covered)
    if method == LISTEN:
        named = _subscribed_tasks(covered)
        return _Undigested(method, "", session_id, b"", None, proof, two_proofs, named, covered)
    member = TARGET_MEMBER.get(method)
    if member is None:
        raise FrameError("no proof is made for a request of this method")
    target = covered.get(member)
    if not isinstance(target, str):
        raise FrameError(f'"{member}" is not a string')
    if len(target) > MAX_TARGET_CHARS:
        raise FrameError(f'"{member}" has more than {MAX_TARGET_CHARS} characters', bound=True)
    return _Undigested(method, target, session_id, b"", covered.get("arguments"), proof, two_proofs, covered=covered)


def _covered_params(params: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in params.items() if name != "_meta"}


def digest_in_steps(call: GuardedCall) -> Steps[bytes]:
    """Return the digest of a call. It is computed in steps if it was not computed before. Raises `FrameError` if there
    is none."""
    if isinstance(call, _Undigested) and "digest" not in vars(call):
        try:
            form = yield from canonical_in_steps(call.covered)
        except ValueError as error:
            raise _no_form(error) from None
        yield
        vars(call)["digest"] = hashlib.sha256(form).digest()
    return call.digest


def _digest(covered: Mapping[str, object]) -> bytes:
    try:
        return hashlib.sha256(canonical(covered)).digest()
    except ValueError as error:
        raise _no_form(error) from None


def _no_form(error: ValueError) -> FrameError:
    return FrameError(f"params have no canonical form: {error}")


def _check_values(value: object) -> None:
    """Refuse a Python value that is not JSON, an integer beyond 2^53-1, and more than `MAX_VALUES` values in all.

    The SDK's parsed messages may hold any Python value. The check is iterative, so that nesting can't exhaust the
    stack. Raises `FrameError`.
    """
    left = MAX_VALUES
    waiting = [value]
    while waiting:
        inner = _inner(waiting.pop())
        left -= len(inner)
        if left < 0:
            raise FrameError(f"params hold more than {MAX_VALUES} values", bound=True)
        waiting += [item for item in inner if type(item) not in _PLAIN and not _is_scalar(item)]


def _inner(item: object) -> Collection[object]:
    """Return the items of an array or the member values of an object; nothing for a scalar. Raises `FrameError`."""
    if isinstance(item, list | tuple):
        return cast("Collection[object]", item)
    if isinstance(item, Mapping):
        members = cast("Mapping[object, object]", item)
        if all(isinstance(name, str) for name in members):
            return members.values()
    elif _is_scalar(item):
        return ()
    raise FrameError(_NO_FORM)


def _is_scalar(item: object) -> bool:
    if isinstance(item, float):
        return math.isfinite(item)
    if isinstance(item, int):
        return -MAX_SAFE_INTEGER <= item <= MAX_SAFE_INTEGER
    return item is None or isinstance(item, str)
