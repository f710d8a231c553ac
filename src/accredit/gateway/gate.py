"""The gate: what of a client's message goes on to the upstream, and in which form. Asks the ports; logs.

Every message of a client comes through `admit`, whatever its transport:

1. what carries a token is taken off (`bearer`), so that proofs are bound to what goes on;
2. each request is decided (`policy.decide`); one that is refused does not go on, and has its answer from here;
3. a state that it brings back is opened (`sealing`), or it is refused;
4. credentials are taken out and the word of who authorized the call is put in (`policy.passing`);
5. on its way back, an answer that lists tools is edited (`policy.lists`), and one that asks for input has its state
   sealed (`sealing`).

The members of a batch are decided one by one. Where proofs are off nothing is refused but for want of a token, and what
the client says of its own authorization is still removed. Who sent a message was found out before: each comes with its
`Caller`.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat

from accredit.errors import (
    AccreditError,
    ConfigurationError,
    KeysUnavailable,
    MessageId,
    ProofRefused,
    RequestError,
    TokenError,
)
from accredit.gateway.bearer import Bearer, Caller
from accredit.gateway.logs import log_event
from accredit.gateway.replies import refusal
from accredit.gateway.sealing import Seals, brings_state, principal_of
from accredit.gateway.settings import GatewaySettings, ProofSettings
from accredit.gateway.tally import Tally
from accredit.jsonrpc.encode import INVALID_REQUEST
from accredit.jsonrpc.frames import Frame, Notification, Request, Success
from accredit.jsonrpc.requests import Batch
from accredit.jsonrpc.responses import Edit
from accredit.policy import Authority, Catalog, Decision, asked_of, decide, drive, looks_guarded
from accredit.policy.lists import ToolView, holds_tools, listed
from accredit.policy.passing import passed_on
from accredit.ports import ProofStore, Revocations
from accredit.ratify.needs import clock
from accredit.tokens import VerifiedToken

_log = logging.getLogger("accredit.gateway.gate")


@dataclass(frozen=True, slots=True)
class Passage:
    """What goes on (None: nothing does), and the responses that requests which do not have from here.

    `edits` are what becomes of the upstream's responses, by the request's id.
    """

    message: Frame | Batch | None
    replies: tuple[bytes, ...] = ()
    edits: Mapping[MessageId, Edit] = field(default_factory=dict[MessageId, Edit])
    batch: bool = False

    @property
    def answer(self) -> bytes:
        """The replies as one JSON-RPC message."""
        return b"[" + b",".join(self.replies) + b"]" if self.batch else self.replies[0]


class Gate:
    """One per gateway. Raises `ConfigurationError` where proofs are to be judged and there is no one to ask."""

    def __init__(
        self,
        settings: GatewaySettings,
        tally: Tally,
        store: ProofStore | None,
        revocations: Revocations | None,
        bearer: Bearer | None = None,
    ) -> None:
        self._proofs = settings.proofs
        self._bearer = bearer
        self._seals = Seals(settings.rounds)
        self._tally = tally
        self._ports = (store, revocations) if store is not None and revocations is not None else None
        if self._judging is not None and self._ports is None:
            raise ConfigurationError("proofs are required, and there is no store", "give create_app a store")

    async def admit(
        self, message: Frame | Batch, session_id: str = "", callers: Sequence[Caller] | None = None
    ) -> Passage:
        """Decides a message. Raises `RequestError` for one that can't be decided.

        `session_id` is the MCP session's, as the client knows it; `callers` are one for each message of a batch.
        """
        if isinstance(message, Batch):
            return await self._batch(message, session_id, callers)
        if self._bearer is not None:
            message = self._bearer.without(message)
        if isinstance(message, Notification):
            return Passage(self._notification(message))
        if not isinstance(message, Request):
            return Passage(message)
        try:
            request, edit = await self._request(message, session_id, callers[0] if callers else None)
        except (ProofRefused, TokenError, KeysUnavailable, RequestError) as error:
            if isinstance(error, RequestError) and error.status != 200:
                raise
            return Passage(None, (self._refused(message, error),))
        return Passage(request, edits={} if edit is None else {request.id: edit})

    def _notification(self, notification: Notification) -> Notification:
        judging = self._judging is not None or self._bearer is not None
        if brings_state(notification) or (judging and looks_guarded(notification.method)):
            # A server might do what it asks for, though nobody waits for an answer.
            raise RequestError(INVALID_REQUEST, "Invalid Request: a call needs an id")
        return passed_on(notification, judged=self._judging is not None)

    def otherwise(self, token: VerifiedToken | None = None) -> Edit | None:
        """What becomes of a response whose request is not known: the stream was resumed, by whose token this is."""
        edit = self._listed(None, token)
        if edit is None:
            return None
        return lambda response: edit(response) if holds_tools(response) else response.text

    async def _batch(self, batch: Batch, session_id: str, callers: Sequence[Caller] | None) -> Passage:
        kept: list[Frame] = []
        replies: list[bytes] = []
        edits: dict[MessageId, Edit] = {}
        for frame, caller in zip(batch.frames, callers or repeat(None), strict=False):
            try:
                passage = await self.admit(frame, session_id, (caller,))
            except RequestError as error:
                self._tally.refused(error)
                replies.append(refusal(error).frame())
                continue
            replies += passage.replies
            edits |= passage.edits
            if passage.message is not None and not isinstance(passage.message, Batch):
                kept.append(passage.message)
        if not replies and all(before is after for before, after in zip(batch.frames, kept, strict=True)):
            return Passage(batch, edits=edits, batch=True)
        rest = Batch(tuple(kept), b"[" + b",".join(frame.text for frame in kept) + b"]") if kept else None
        return Passage(rest, tuple(replies), edits, batch=True)

    async def _request(self, request: Request, session_id: str, caller: Caller) -> tuple[Request, Edit | None]:
        """What goes on of a request, and what becomes of its response.

        Raises `ProofRefused`, `RequestError`, and what its caller is, if that is an error.
        """
        if isinstance(caller, Exception):
            raise caller
        authority = None
        if self._judging is not None:
            authority = await self._decide(request, self._judging, session_id, caller)
        subject = (caller.issuer, caller.subject) if caller is not None else None
        leg = self._seals.leg(request, principal_of(authority, subject))
        edit = self._listed(authority, caller) if request.method == "tools/list" else leg.edit
        return passed_on(leg.request, judged=self._judging is not None, authority=authority, token=caller), edit

    async def _decide(
        self, request: Request, proofs: ProofSettings, session_id: str, token: VerifiedToken | None
    ) -> Authority | None:
        asked = asked_of(request, session_id)
        if asked is None or self._ports is None:
            return None
        now = clock()
        decision = await drive(decide(asked, proofs.policy, now, token), *self._ports, now)
        if decision.fault is not None:
            _report(decision, decision.fault)
        if decision.refusal is not None:
            raise decision.refusal
        return decision.authority

    def _refused(self, request: Request, error: AccreditError) -> bytes:
        self._tally.refused(error, method=request.method)
        return refusal(error).frame(request.id)

    @property
    def _judging(self) -> ProofSettings | None:
        return self._proofs if self._proofs is not None and self._proofs.required else None

    def _listed(self, authority: Authority | None, token: VerifiedToken | None) -> Edit | None:
        """What becomes of a list of tools: what is told and shown of them, and what is learned from it."""
        view = self._view(authority, token)
        bearer = self._bearer
        if bearer is None and not view.edits:
            return None

        def edit(response: Success) -> bytes:
            if bearer is not None:
                bearer.learn(response.result)
            return listed(response, view) if view.edits else response.text

        return edit

    def _view(self, authority: Authority | None, token: VerifiedToken | None) -> ToolView:
        proofs = self._proofs
        if proofs is None:
            return ToolView(catalog=Catalog(), token=token)
        return ToolView(
            catalog=proofs.policy.catalog,
            verifier_id=proofs.policy.verifier_id if proofs.required else "",
            binding=proofs.policy.binding if proofs.required else "",
            granted=authority.granted_scope if authority is not None and proofs.filter_tools else None,
            token=token,
        )


def _report(decision: Decision, fault: Exception) -> None:
    log_event(_log, logging.ERROR, "decision_failed", method=decision.asked.method, detail=f"{fault!r}"[:500])
