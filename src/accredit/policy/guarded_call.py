"""What is asked of the decision: one call, as it will be forwarded, and the proof that came with it. No I/O.

`payload_digest` is over what the upstream gets to see, `params` without `_meta`, in the form of RFC 8785: so a proof
that is bound to it is worth nothing for another call.
"""

import hashlib
import unicodedata
from collections.abc import Mapping
from functools import cached_property, partial
from typing import cast

import msgspec
from msgspec import Raw, Struct

from accredit.canonical import canonical, has_wide_integer
from accredit.errors import FrameError, RequestError
from accredit.jsonrpc.encode import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND
from accredit.jsonrpc.frames import Request
from accredit.jsonrpc.methods import LISTEN, TARGET_MEMBER, TASK_METHODS
from accredit.jsonrpc.objects import may_name, members
from accredit.jsonrpc.requests import meta_in
from accredit.jsonrpc.same_names import check_same_names
from accredit.limits import MAX_TARGET_CHARS, MAX_TOLD_TASKS
from accredit.policy.values import NO_FORM, check_values
from accredit.ratify.contexts import build_session_context, operation_context_hash

PROOF = "ratify_proof"
"""The member of `_meta` that carries a proof."""
PROOFS = (PROOF, "com.ratifyprotocol/proof")
"""The same under the names that clients of the protocol give it. Both may be there only if they are one text."""

TASK_LIST = "tasks/list"

TASKS = TASK_METHODS | {TASK_LIST}
"""All that may be asked about tasks."""

TASK_CHANGES = frozenset({"tasks/update", "tasks/cancel"})
"""What is done to a task needs what its tool needs; to see it, its owner's proof is enough."""

GUARDED = frozenset(TARGET_MEMBER) | TASKS
"""Methods that are never forwarded without a decision: tools/call, resources/read, prompts/get, and those of tasks."""

LISTS = frozenset({"tools/list", "resources/list", "resources/templates/list", "prompts/list"})
"""Methods that need no proof; one that comes with them is judged, and spent, like any other."""


_OF_A_LEG = frozenset({"inputResponses", "requestState"})


class GuardedCall(Struct, frozen=True):
    """A call. `target` is the tool's or prompt's name or the resource's URI, "" for a list; `proof` is JSON text.

    `digest` has 32 bytes, or none for a list. `session_id` is the MCP session's, or "". With `two_proofs` another one,
    that differs, came under the other name. `subscribed` are the tasks that a subscription names: one that names none
    asks nothing. `covered` are the params without `_meta`.
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

    @property
    def guarded(self) -> bool:
        """Whether the call needs a proof."""
        return self.method in GUARDED or bool(self.subscribed)

    @property
    def about_tasks(self) -> bool:
        """Whether it is about tasks: then it is judged by whose they are, not by the catalog."""
        return self.method in TASKS or bool(self.subscribed)

    @property
    def tasks(self) -> tuple[str, ...]:
        """The ids of the tasks that it names."""
        return (self.target,) if self.method in TASK_METHODS else self.subscribed

    def request_hash(self, scope: str) -> bytes:
        """The hash of what is asked; a challenge of ours is good for one such hash."""
        return operation_context_hash(scope, self.method, self.target, "", self.digest)

    def call_digest(self) -> bytes:
        """The digest of the call over all its legs: that of its params without what belongs to one leg."""
        if _OF_A_LEG.isdisjoint(self.covered):
            return self.digest
        return payload_digest({name: value for name, value in self.covered.items() if name not in _OF_A_LEG})

    def session_context(self, verifier_id: str, agent_id: str, scope: str) -> bytes:
        """What a proof that is bound to this call has signed."""
        request_hash = self.request_hash(scope)
        return build_session_context(verifier_id, "", agent_id, self.session_id, "", request_hash=request_hash)


class _Undigested(GuardedCall, frozen=True, dict=True):
    """A call whose digest is made when it is first looked at: most of what strangers send is refused before.

    To look at it raises `FrameError` where `covered`, the params without `_meta`, have no canonical form.
    """

    @cached_property
    def digest(self) -> bytes:  # pyright: ignore[reportIncompatibleVariableOverride]
        return super().digest or _digest(self.covered)


def asked_of(request: Request, session_id: str = "") -> GuardedCall | None:
    """What a request asks, or None where nothing is to be decided. Raises `RequestError` (-32602, or -32600).

    The proof is the raw slice of the request: what was written is what is judged.
    """
    subscribes = request.method == LISTEN and may_name(request.params, b"taskIds")
    if not is_guarded(request) and request.method not in LISTS and not subscribes:
        return None
    try:
        params = members(request.params) if request.params is not None else {}
        proofs = proofs_in(meta_in(params))
        covered = {name: value for name, value in params.items() if name != "_meta"}
        if request.method in GUARDED and any(has_wide_integer(bytes(value)) for value in covered.values()):
            raise FrameError(NO_FORM)
        plain = {name: msgspec.json.decode(value) for name, value in covered.items()}
        found = _asked(request.method, plain, session_id, *proofs)
    except (FrameError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        detail = error.detail if isinstance(error, FrameError) else "params can't be read"
        raise RequestError(INVALID_PARAMS, f"Invalid params: {detail}", id=request.id, status=200) from None
    check_one_reading(request)
    return found if found.method != LISTEN or found.subscribed else None


def check_one_reading(request: Request) -> None:
    """Refuses a request whose params, but for `_meta`, hold members that other readers take for one.

    Raises `RequestError` (-32600). What is refused for its size was refused before: this reads all values once more.
    """
    try:
        params = members(request.params) if request.params is not None else {}
        for name, value in params.items():
            if name != "_meta":
                check_same_names(value)
    except FrameError as error:
        raise RequestError(INVALID_REQUEST, f"Invalid Request: {error.detail}", id=request.id) from None


def is_guarded(request: Request) -> bool:
    """Whether a request is a guarded call. Raises `RequestError` (-32601) for one that a server could take for one."""
    if request.method in GUARDED:
        return True
    if request.method not in LISTS and looks_guarded(request.method):
        raise RequestError(METHOD_NOT_FOUND, "Method not found", id=request.id, status=404)
    return False


def looks_guarded(method: str) -> bool:
    """Whether a server that reads names more freely than we do could take a method for a guarded one."""
    return read_freely(method) in GUARDED


def may_guard(method: str) -> bool:
    """Whether a method is one that is decided, or could be taken for one."""
    return read_freely(method) in GUARDED | LISTS


def read_freely(name: str) -> str:
    """A name as the freest reader could see it: one case, no compatibility forms, no blanks and nothing invisible.

    Characters are read one by one, in time that grows with the name and not with its square (marks that pile up on a
    letter are put in order first, otherwise). What two of them make together is no ASCII character either way.
    """
    if name.isascii() and name.isprintable():
        return name.replace(" ", "").lower()
    seen = "".join(map(partial(unicodedata.normalize, "NFKC"), name))
    return "".join(char for char in seen if char.isprintable() and char != " ").casefold()


def proofs_in(meta: Mapping[str, Raw]) -> tuple[Raw | None, bool]:
    """The proof that a `_meta` carries, under either name; and whether there are two that differ, byte for byte."""
    found = [meta[name] for name in PROOFS if name in meta]
    return (found[0] if found else None), len({bytes(memoryview(text)) for text in found}) > 1


def asked(
    method: str, params: Mapping[str, object], session_id: str, proof: Raw | None, two_proofs: bool = False
) -> GuardedCall:
    """What a call with these params (as Python values) asks; `_meta` is passed over. Raises `FrameError`."""
    covered = _covered(params)
    check_values(covered)
    return _asked(method, covered, session_id, proof, two_proofs)


def subscribed(params: Mapping[str, object]) -> tuple[str, ...]:
    """The tasks that a `subscriptions/listen` names. Raises `FrameError`."""
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
    """SHA-256 of the RFC 8785 form of `params` without `_meta`.

    Raises `FrameError` for what has none: an integer beyond 2^53-1, a lone surrogate, a number that is not finite.
    """
    covered = _covered(params)
    check_values(covered)
    return _digest(covered)


def _asked(
    method: str, covered: Mapping[str, object], session_id: str, proof: Raw | None, two_proofs: bool
) -> GuardedCall:
    if method in LISTS or method == TASK_LIST:
        return GuardedCall(method, "", session_id, b"", None, proof, two_proofs)
    if method == LISTEN:
        named = subscribed(covered)
        return _Undigested(method, "", session_id, b"", None, proof, two_proofs, named, covered)
    target = covered.get(TARGET_MEMBER[method])
    if not isinstance(target, str):
        raise FrameError(f'"{TARGET_MEMBER[method]}" is not a string')
    if len(target) > MAX_TARGET_CHARS:
        raise FrameError(f'"{TARGET_MEMBER[method]}" has more than {MAX_TARGET_CHARS} characters', bound=True)
    return _Undigested(method, target, session_id, b"", covered.get("arguments"), proof, two_proofs, covered=covered)


def _covered(params: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in params.items() if name != "_meta"}


def _digest(covered: Mapping[str, object]) -> bytes:
    try:
        return hashlib.sha256(canonical(covered)).digest()
    except ValueError as error:
        raise FrameError(f"params have no canonical form: {error}") from None
