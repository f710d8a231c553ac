"""The gate: what of a client's message goes on to the upstream, and in which form. Asks the ports; logs.

Every message of a client comes through `admit`, whatever its transport:

1. each request is decided (`policy.decide`); one that is refused does not go on, and has its answer from here;
2. credentials are taken out and the word of who authorized the call is put in (`policy.passing`);
3. an answer that lists tools is edited on its way back (`policy.lists`).

Where calls are recorded, the decision on a guarded call is in the log before anything else happens to it (`recording`).

The members of a batch are decided one by one. Where proofs are off no call is refused, and what the client says of
its own authorization is still removed.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from accredit.errors import ConfigurationError, MessageId, ProofRefused, RequestError
from accredit.gateway.logs import log_event
from accredit.gateway.recording import Client, OpenCall, OpenCalls, Recorder
from accredit.gateway.replies import refusal
from accredit.gateway.settings import GatewaySettings, ProofSettings
from accredit.gateway.stdio.ledger import member_id
from accredit.gateway.tally import Tally
from accredit.jsonrpc.encode import INVALID_REQUEST
from accredit.jsonrpc.frames import Frame, Notification, Request, Success
from accredit.jsonrpc.requests import Batch
from accredit.jsonrpc.responses import Edit
from accredit.policy import Authority, Decision, asked_of, decide, drive, is_guarded, looks_guarded
from accredit.policy.lists import ToolView, holds_tools, listed
from accredit.policy.passing import passed_on
from accredit.ports import ProofStore, Revocations
from accredit.ratify.needs import clock

_log = logging.getLogger("accredit.gateway.gate")


@dataclass(frozen=True, slots=True)
class Passage:
    """What goes on (None: nothing does), and the responses that requests which do not have from here.

    `edits` are what becomes of the upstream's responses, by the request's id; `calls` are to be settled.
    """

    message: Frame | Batch | None
    replies: tuple[bytes, ...] = ()
    edits: Mapping[MessageId, Edit] = field(default_factory=dict[MessageId, Edit])
    batch: bool = False
    calls: OpenCalls = field(default_factory=OpenCalls)

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
        recorder: Recorder | None = None,
    ) -> None:
        self._proofs = settings.proofs
        self._tally = tally
        self._recorder = recorder
        self._ports = (store, revocations) if store is not None and revocations is not None else None
        if self._judging is not None and self._ports is None:
            raise ConfigurationError("proofs are required, and there is no store", "give create_app a store")
        self.otherwise = self._resumed if self._proofs is not None and self._listed(None) is not None else None
        """What becomes of a response whose request is not known: the stream was resumed."""

    async def admit(self, message: Frame | Batch, client: Client) -> Passage:
        """Decides a message. Raises `RequestError` for one that can't be decided."""
        if isinstance(message, Batch):
            return await self._batch(message, client)
        if isinstance(message, Notification):
            return Passage(self._notification(message, client))
        if not isinstance(message, Request):
            return Passage(message)
        try:
            request, edit, call = await self._request(message, client)
        except ProofRefused as error:
            return Passage(None, (self._refused(message, error),))
        calls = OpenCalls() if call is None else OpenCalls([call])
        return Passage(request, edits={} if edit is None else {request.id: edit}, calls=calls)

    def _notification(self, notification: Notification, client: Client) -> Notification:
        if self._recorder is not None and notification.method == "notifications/cancelled":
            self._recorder.taken_back(client.session_id, member_id(notification, "requestId"))
        if self._guards and looks_guarded(notification.method):
            # A server might do what it asks for, though nobody waits for an answer.
            raise RequestError(INVALID_REQUEST, "Invalid Request: a call needs an id")
        return passed_on(notification, judged=self._judging is not None)

    async def _batch(self, batch: Batch, client: Client) -> Passage:
        kept: list[Frame] = []
        replies: list[bytes] = []
        edits: dict[MessageId, Edit] = {}
        calls = OpenCalls()
        for frame in batch.frames:
            try:
                passage = await self.admit(frame, client)
            except RequestError as error:
                self._tally.refused(error)
                replies.append(refusal(error).frame())
                continue
            replies += passage.replies
            edits |= passage.edits
            calls.add_all(passage.calls)
            if passage.message is not None and not isinstance(passage.message, Batch):
                kept.append(passage.message)
        if not replies and all(before is after for before, after in zip(batch.frames, kept, strict=True)):
            return Passage(batch, edits=edits, batch=True, calls=calls)
        rest = Batch(tuple(kept), b"[" + b",".join(frame.text for frame in kept) + b"]") if kept else None
        return Passage(rest, tuple(replies), edits, batch=True, calls=calls)

    async def _request(self, request: Request, client: Client) -> tuple[Request, Edit | None, OpenCall | None]:
        """What goes on of a request, what becomes of its response, and the call that is to be settled.

        Raises `ProofRefused` and `RequestError`.
        """
        decision, call = None, None
        if self._judging is not None:
            decision = await self._decide(request, self._judging, client.session_id)
        if self._recorder is not None and is_guarded(request):
            call = await self._recorder.begin(request, decision, client)  # 8
        if decision is not None and decision.refusal is not None:
            raise decision.refusal
        authority = decision.authority if decision is not None else None
        edit = self._listed(authority) if request.method == "tools/list" else None
        return passed_on(request, judged=self._judging is not None, authority=authority), edit, call

    async def _decide(self, request: Request, proofs: ProofSettings, session_id: str) -> Decision | None:
        asked = asked_of(request, session_id)
        if asked is None or self._ports is None:
            return None
        now = clock()
        decision = await drive(decide(asked, proofs.policy, now), *self._ports, now)
        if decision.fault is not None:
            _report(decision, decision.fault)
        return decision

    def _refused(self, request: Request, error: ProofRefused) -> bytes:
        self._tally.refused(error, method=request.method)
        return refusal(error).frame(request.id)

    @property
    def _guards(self) -> bool:
        """Whether no call may come around the gate."""
        return self._judging is not None or self._recorder is not None

    @property
    def _judging(self) -> ProofSettings | None:
        return self._proofs if self._proofs is not None and self._proofs.required else None

    def _listed(self, authority: Authority | None) -> Edit | None:
        proofs = self._proofs
        if proofs is None or not (proofs.required or proofs.policy.catalog.tools or proofs.policy.catalog.default_tool):
            return None
        view = ToolView(
            catalog=proofs.policy.catalog,
            verifier_id=proofs.policy.verifier_id if proofs.required else "",
            binding=proofs.policy.binding if proofs.required else "",
            granted=authority.granted_scope if authority is not None and proofs.filter_tools else None,
        )
        return partial(listed, view=view)

    def _resumed(self, response: Success) -> bytes:
        edit = self._listed(None)
        return edit(response) if edit is not None and holds_tools(response) else response.text


def _report(decision: Decision, fault: Exception) -> None:
    log_event(_log, logging.ERROR, "decision_failed", method=decision.asked.method, detail=f"{fault!r}"[:500])
