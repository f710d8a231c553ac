"""The constraint `dev.accredit.call`: a certificate for certain calls at one gateway, and for no others. No I/O.

All of these must hold, checked in this order:

- [members] The constraint is well formed. An unknown member refuses the call, since it could be a limit that is not
  known here.
- [target] Gateway (by its verifier id) and method are those that the constraint names, and the target is exactly one of
  the names in it.
- [params] With `params_sha256`, the call is exactly this one. The digest is the SHA-256 of the RFC 8785 form of its
  `params` without `_meta`, tokens, `inputResponses` and `requestState`. So all legs of a call, its first request and
  the retries, have the same digest. For a request to an HTTP API it is that of `request_digest`, which covers its path,
  its query and its body. For a request to an agent (A2A), the params are those without the proof.
- [arguments] `args` has JSON Pointers (RFC 6901) into the arguments, each with digests. The value at each pointer has
  one of these digests: the SHA-256 of its RFC 8785 form. Digests keep the values private, and make a portable encoding
  of them in the certificate unnecessary.
- [definition] With `definition`, the tool's pinned definition has this digest. If none is pinned, the constraint can't
  be verified.

Digests are lower-case hex. Not checked here: how often such a call is made (`max_rate`, and the rule for the legs of a
call in `policy.decide`).
"""

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Literal, cast

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from accredit.base.values import decodable
from accredit.canonical import canonical
from accredit.errors import WireError
from accredit.jsonrpc.methods import TARGET_MEMBER
from accredit.ratify import CallFacts, Constraint, Extension, VerifierContext

CALL = "dev.accredit.call"
"""The constraint's type."""

_Text = Annotated[str, Meta(min_length=1)]
Digest = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
"""A SHA-256 in lower-case hex."""
_Pointer = Annotated[str, Meta(pattern=r"^(?:/(?:[^~/]|~[01])*)*\Z")]

_NO_WORD = re.compile(r"[\s,;\"]")
_INDEX = re.compile(r"0|[1-9][0-9]{0,9}")
OTHER_DEFINITION = "for another definition of the tool"
"""The reason that is given when [definition] refuses a call."""
ABSENT = object()
"""The result of `value_at` if the pointer leads to nothing."""


@decodable
class CallTerms(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The terms of the constraint. Digests are lower-case hex. The target of a message to an agent that names no skill
    is ""."""

    v: Literal[1] = 1
    gateway: _Text
    method: _Text
    target: Annotated[tuple[str, ...], Meta(min_length=1)]
    params_sha256: Digest | UnsetType = UNSET
    args: dict[_Pointer, Annotated[tuple[Digest, ...], Meta(min_length=1)]] | UnsetType = UNSET
    definition: Digest | UnsetType = UNSET

    @classmethod
    def read(cls, constraint: Extension) -> "CallTerms":
        """Read a constraint ([members]). Raises `WireError`."""
        params = {} if constraint.params is UNSET else constraint.params
        if "v" not in params:
            raise WireError(CALL, "v is missing")
        try:
            return msgspec.convert(params, cls)
        except msgspec.ValidationError as error:
            raise WireError(CALL, str(error)) from None

    def constraint(self) -> Extension:
        """Return these terms as a constraint, as it is in a certificate."""
        return Extension(name=CALL, params=msgspec.json.decode(msgspec.json.encode(self)))

    def words(self) -> str:
        """Return what the constraint allows, in words for people."""
        targets = " or ".join(_word(each) or "naming no skill" for each in self.target)
        parts = [f"only at gateway {_word(self.gateway)}", f"only {_word(self.method)} {targets}"]
        if self.params_sha256 is not UNSET:
            what = "params" if self.method not in TARGET_MEMBER else "arguments"
            parts.append(f"only {what} with SHA-256 {self.params_sha256}")
        for pointer, digests in sorted(self.args.items()) if self.args is not UNSET else ():
            parts.append(f"only with {_word(pointer) or 'arguments'} whose SHA-256 is {' or '.join(digests)}")
        if self.definition is not UNSET:
            parts.append(f"only while the tool's definition has SHA-256 {self.definition}")
        return ", ".join(parts)


def request_digest(target: str, body_sha256: str) -> bytes:
    """Return the digest of a request to an HTTP API for [params]: the SHA-256 of the RFC 8785 form of its target (path
    and query, as sent) and of the digest of its body, in lower-case hex. Where the body is not seen, `body_sha256` is
    "", and is left out."""
    body = {"body_sha256": body_sha256} if body_sha256 else {}
    return hashlib.sha256(canonical({**body, "target": target})).digest()


def this_call_only(constraints: Sequence[Constraint]) -> bool:
    """Return whether one of the constraints allows only one exact call. Raises nothing: an unreadable one allows
    nothing."""
    return any(
        isinstance(each, Extension)
        and each.name == CALL
        and each.params is not UNSET
        and "params_sha256" in each.params
        for each in constraints
    )


def names_definition(constraints: Sequence[Constraint]) -> bool:
    """Return whether one of the constraints allows calls only with a certain definition of the tool. Raises nothing."""
    return any(
        isinstance(each, Extension) and each.name == CALL and each.params is not UNSET and "definition" in each.params
        for each in constraints
    )


def named_gateways(constraints: Iterable[Constraint]) -> list[object]:
    """Return what these constraints name as the gateway: calls are allowed at no other. Raises nothing."""
    return [
        each.params.get("gateway")
        for each in constraints
        if isinstance(each, Extension) and each.name == CALL and each.params is not UNSET
    ]


def named_arguments(constraints: Iterable[Constraint], arguments: object) -> dict[str, str]:
    """Return the digests of the arguments that these constraints name, by pointer. With them, constraints can still be
    evaluated once the arguments themselves are gone. Raises nothing: an unreadable constraint names none."""
    digests_by_pointer: dict[str, str] = {}
    for each in constraints:
        if isinstance(each, Extension) and each.name == CALL:
            try:
                terms = CallTerms.read(each)
            except WireError:
                continue
            for pointer in terms.args if terms.args is not UNSET else ():
                value = value_at(arguments, pointer)
                digest = _digest(value) if value is not ABSENT else None
                if digest is not None:
                    digests_by_pointer[pointer] = digest
    return digests_by_pointer


def evaluate_call(constraint: Extension, _cert_id: str, context: VerifierContext, _now: int) -> str | None:
    """Evaluate the constraint, as an `Evaluator` does ([members] to [definition]). Return None, or why the call is not
    allowed."""
    call = context.call
    if call is None:
        return "constraint_unverifiable: the call is not known"
    try:
        terms = CallTerms.read(constraint)
    except WireError as error:
        return error.reason
    return _elsewhere(terms, call) or _other_params(terms, call) or _other_definition(terms, call)


def is_for_call(constraint: Extension, call: CallFacts) -> bool:
    """Return whether a constraint of this type is for this call ([members] to [arguments]). The tool's definition is
    not checked."""
    try:
        terms = CallTerms.read(constraint)
    except WireError:
        return False
    return (_elsewhere(terms, call) or _other_params(terms, call)) is None


def _elsewhere(terms: CallTerms, call: CallFacts) -> str | None:
    if terms.gateway != call.verifier_id:
        return "for another gateway"
    if terms.method != call.method:
        return "for another method"
    return None if call.target in terms.target else "for another target"


def _other_params(terms: CallTerms, call: CallFacts) -> str | None:
    if terms.params_sha256 is not UNSET and terms.params_sha256 != call.params_digest().hex():
        return "for a call with other params"
    for pointer, digests in terms.args.items() if terms.args is not UNSET else ():
        digest = _digest_at(call, pointer)
        if digest is ABSENT:
            return f"constraint_unverifiable: there is no {pointer}"
        if digest not in digests:
            return f"for another {pointer}"
    return None


def _digest_at(call: CallFacts, pointer: str) -> object:
    if call.argument_digests is not None:
        return call.argument_digests.get(pointer, ABSENT)
    value = value_at(call.arguments, pointer)
    return ABSENT if value is ABSENT else _digest(value)


def _other_definition(terms: CallTerms, call: CallFacts) -> str | None:
    if terms.definition is UNSET:
        return None
    if call.definition is None:
        return "constraint_unverifiable: the tool's definition is not pinned"
    return None if terms.definition == call.definition else OTHER_DEFINITION


def value_at(value: object, pointer: str) -> object:
    """Return the value at a JSON Pointer (RFC 6901) whose escapes were checked before, or `ABSENT`."""
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            value = cast("dict[str, object]", value).get(name, ABSENT)
        elif isinstance(value, list) and _INDEX.fullmatch(name):
            items = cast("list[object]", value)
            value = items[int(name)] if int(name) < len(items) else ABSENT
        else:
            return ABSENT
    return value


def _word(text: str) -> str:
    """Return a name as it stands in a sentence of ours: in quotes if it could be taken for our own words."""
    return json.dumps(text, ensure_ascii=False) if _NO_WORD.search(text) else text


def _digest(value: object) -> str | None:
    """Return the digest of a value, or None if it has none: an integer beyond 2^53-1, a lone surrogate."""
    try:
        return hashlib.sha256(canonical(value)).hexdigest()
    except (ValueError, RecursionError):
        return None
