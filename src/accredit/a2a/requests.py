"""Reads a request of A2A strictly, so that the agent can read nothing else in it. No I/O.

In this order, each with the error of JSON-RPC that answers it:

- [text] the body is strict JSON within its bounds (-32700);
- [frame] it is one request: `jsonrpc`, `id` (a string or an integer), `method`, `params` and nothing else, each once
  (-32600). A batch is refused;
- [method] its method is one of A2A 1.0 (-32601), and the header `A2A-Version` is there once, and names 1.0 (-32009);
- [members] its params have only the method's members, in the specification's spelling and form, and each once, even if
  case is ignored (-32602). A part has one content. A value that has no form in RFC 8785 is refused. A message's own
  `metadata`, or a part's, names no skill: an agent could read it there;
- [tenant] it names no tenant: there are none here (-32001, as for a task that is not the caller's).

The params are forwarded in their form of RFC 8785, without the proof: the very bytes of which the proof has the digest.
If `metadata` held nothing but the proof, it is not forwarded either.
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import cast

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from accredit.a2a import shapes
from accredit.a2a.errors import UNKNOWN_VERSION, unknown_task
from accredit.a2a.shapes import METHODS, VERSION, Method
from accredit.base.steps import Steps
from accredit.base.text import excerpt
from accredit.canonical import canonical_in_steps, has_wide_integer
from accredit.errors import FrameError, JsonError, MessageId, RequestError
from accredit.jsonrpc.encode import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR, to_json
from accredit.jsonrpc.methods import AGENT_MESSAGES, AGENT_SKILL
from accredit.jsonrpc.objects import (
    Names,
    as_integer,
    as_string,
    check_no_duplicates,
    check_same_names_in_steps,
    is_object,
    members,
    unambiguous_members,
)
from accredit.jsonrpc.text import check_amount, check_text
from accredit.limits import MAX_AGENT_ID_CHARS
from accredit.policy.agent_call import PROOF_MEMBER

_FRAME = Names("jsonrpc", "id", "method", "params")
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class A2aRequest(Struct, frozen=True, kw_only=True):
    """A request as it was read. `params` has its method's type, and `plain` holds the same params, without the proof,
    as Python values. `form` is the form of RFC 8785 of `plain`, and `digest` the SHA-256 of that. `target` is the skill
    that a message names, or the task's id. `proof` is the text in `metadata`."""

    id: MessageId
    method: str
    params: shapes.Params
    plain: dict[str, object]
    form: bytes
    digest: bytes
    target: str
    proof: bytes | None

    @property
    def does(self) -> Method:
        """The facts of the method."""
        return METHODS[self.method]

    @property
    def text(self) -> bytes:
        """The request as it is forwarded."""
        head = to_json({"jsonrpc": "2.0", "id": self.id, "method": self.method})
        return head[:-1] + b',"params":' + self.form + b"}"

    def at_page(self, token: str) -> "A2aRequest":
        """Return the same request for another page of a list."""
        return replace(self, form=to_json({**self.plain, "pageToken": token}))

    def to_count(self, token: str = "") -> "A2aRequest":
        """Return a request for a page of the same list, for counting its tasks: with the largest page size, and as
        little about each task as possible."""
        little = {"pageToken": token, "pageSize": 100, "historyLength": 0, "includeArtifacts": False}
        return replace(self, form=to_json({**self.plain, **little}))


def read_request(body: bytes, versions: Sequence[bytes]) -> Steps[A2aRequest]:
    """Return the request in a body. `versions` are the values of `A2A-Version`. Raises `RequestError`, with the
    request's id if that could be read."""
    try:
        check_amount(body)
        check_text(body)
        yield
        found = unambiguous_members(body, _FRAME)
    except JsonError as error:
        raise RequestError(PARSE_ERROR, f"Parse error: {error.detail}", status=200) from None
    except FrameError as error:
        raise RequestError(INVALID_REQUEST, f"Invalid Request: {error.detail}", status=200) from None
    id = _id(found.get("id"))
    try:
        method = _method(found, id)
        if [value.strip() for value in versions] != [VERSION.encode()]:
            raise RequestError(UNKNOWN_VERSION, "", status=200)
        return (yield from _read_params(id, method, found.get("params", Raw(b"{}"))))
    except RequestError as error:
        error.id = id
        raise


def _id(raw: Raw | None) -> MessageId:
    text = as_string(raw)
    id = text if text is not None else as_integer(raw)
    if id is None:
        raise RequestError(INVALID_REQUEST, 'Invalid Request: "id" is not a string or an integer', status=200)
    return id


def _method(found: dict[str, Raw], id: MessageId) -> str:
    method = as_string(found.get("method"))
    unknown = sorted(found.keys() - _FRAME.defined)
    if as_string(found.get("jsonrpc")) != "2.0" or method is None or unknown:
        why = f"an unknown member: {excerpt(unknown[0])}" if unknown else "not a request of JSON-RPC 2.0"
        raise RequestError(INVALID_REQUEST, f"Invalid Request: {why}", status=200)
    if isinstance(id, str) and len(id) > MAX_AGENT_ID_CHARS:
        raise RequestError(INVALID_REQUEST, f'"id" has more than {MAX_AGENT_ID_CHARS} characters', status=200)
    if method not in METHODS:
        raise RequestError(METHOD_NOT_FOUND, "Method not found", status=200)
    return method


def _read_params(id: MessageId, method: str, raw: Raw) -> Steps[A2aRequest]:
    does = METHODS[method]
    try:
        if not is_object(raw):
            raise FrameError("params are not an object")
        if has_wide_integer(bytes(raw)):
            raise FrameError("an integer beyond 2^53-1")
        check_no_duplicates(bytes(raw))
        yield
        yield from check_same_names_in_steps(raw)
        params = msgspec.json.decode(raw, type=does.params)
        if isinstance(params, shapes.SendParams):
            _check_message(params)
        yield
        plain = cast("dict[str, object]", msgspec.json.decode(raw))
        skill, proof = _take_metadata(plain)
        yield
        form = yield from canonical_in_steps(plain)
    except FrameError as error:
        raise RequestError(INVALID_PARAMS, f"Invalid params: {error.detail}", status=200) from None
    except msgspec.ValidationError as error:
        raise RequestError(INVALID_PARAMS, f"Invalid params: {excerpt(str(error), 200)}", status=200) from None
    except (*_UNREADABLE, ValueError):
        raise RequestError(INVALID_PARAMS, "Invalid params: they have no canonical form", status=200) from None
    if params.tenant:
        raise unknown_task()
    target = skill if method in AGENT_MESSAGES else cast("str", getattr(params, does.task)) if does.task else ""
    return A2aRequest(
        id=id,
        method=method,
        params=params,
        plain=plain,
        form=form,
        digest=sha256(form).digest(),
        target=target,
        proof=proof,
    )


def _check_message(params: shapes.SendParams) -> None:
    """Check what the types of a message don't say ([members]). Raises `FrameError`."""
    message = params.message
    for part in message.parts:
        contents = [part.text, part.raw, part.url]
        if sum(isinstance(each, str) for each in contents) + (len(part.data) > 0) != 1:
            raise FrameError("a part has none or several of text, raw, url and data")
    free = [params.metadata, message.metadata, *(part.metadata for part in message.parts)]
    if any(len(each) > 0 and not is_object(each) for each in free):
        raise FrameError('"metadata" is not an object')
    if any(len(each) > 0 and AGENT_SKILL in members(each) for each in free[1:]):
        raise FrameError(f'"{AGENT_SKILL}" is not in the metadata of params')


def _take_metadata(plain: dict[str, object]) -> tuple[str, bytes | None]:
    """Take the proof out of params. Return the skill that they name, and the proof. Raises `FrameError`."""
    metadata = plain.get("metadata")
    if metadata is None:
        return "", None
    if not isinstance(metadata, dict):
        raise FrameError('"metadata" is not an object')
    free = cast("dict[str, object]", metadata)
    skill, proof = free.get(AGENT_SKILL, ""), free.pop(PROOF_MEMBER, None)
    if not isinstance(skill, str) or (AGENT_SKILL in free and not skill):
        raise FrameError(f'"{AGENT_SKILL}" is not the id of a skill')
    if proof is None:
        return skill, None
    if not free:
        del plain["metadata"]
    return skill, proof.encode("utf-8", "replace") if isinstance(proof, str) else b""
