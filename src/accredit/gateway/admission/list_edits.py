"""Edits the lists in answers to a client by the rules of `policy.lists`. Remembers what tools declare. No I/O."""

from collections.abc import Callable, Sequence

from accredit.base.steps import Steps
from accredit.gateway.admission.tool_directory import ToolDirectory
from accredit.gateway.settings import GatewaySettings
from accredit.jsonrpc.frames import Success
from accredit.jsonrpc.responses import Edit
from accredit.policy.catalog import Catalog
from accredit.policy.decision import Authority
from accredit.policy.lists import KINDS, Kind, ListView, kinds_in, rewrite_list
from accredit.tokens.claims import VerifiedToken

_TOOLS = KINDS["tools/list"]


def _nothing() -> None: ...


class ListEdits:
    """Makes the edits of one gateway."""

    def __init__(self, settings: GatewaySettings, tools: ToolDirectory) -> None:
        self._proofs = settings.proofs
        self._pins = settings.pins
        self._may_ask = settings.oauth is not None and settings.oauth.consent == "desk"
        self._most = settings.max_response_bytes
        self._tools = tools

    def of(
        self,
        method: str,
        authority: Authority | None,
        token: VerifiedToken | None,
        on_other: Callable[[], object] = _nothing,
    ) -> Edit | None:
        """Return the edit for the answer to a list request, or None if it needs none. `on_other` is called for each
        tool whose definition is not the pinned one."""
        view, kind = self._view(authority, token, on_other), KINDS[method]
        if kind is not _TOOLS and not view.edits(kind):
            return None
        return lambda response: self._edited(response, view, (kind,))

    def of_unknown(self, token: VerifiedToken | None) -> Edit:
        """Return the edit for a response to an unknown request: it filters whichever lists the response contains.

        `token` is that of the stream's owner.
        """
        view = self._view(None, token, _nothing)

        def edit(response: Success) -> Steps[bytes]:
            return (yield from self._edited(response, view, kinds_in(response)))

        return edit

    def _edited(self, response: Success, view: ListView, kinds: Sequence[Kind]) -> Steps[bytes]:
        yield
        if _TOOLS in kinds:
            yield from self._tools.learn(response.result)
        edited = [kind for kind in kinds if view.edits(kind)]
        return (yield from rewrite_list(response, view, *edited)) if edited else response.text

    def _view(
        self, authority: Authority | None, token: VerifiedToken | None, on_other: Callable[[], object]
    ) -> ListView:
        proofs = self._proofs
        if proofs is None:
            return ListView(catalog=Catalog(), token=token, pins=self._pins, on_other=on_other, most=self._most)
        can_ask = self._may_ask and token is not None and token.client is not None
        filters = proofs.filter_tools and not can_ask
        return ListView(
            catalog=proofs.policy.catalog,
            verifier_id=proofs.policy.verifier_id if proofs.judged else "",
            binding=proofs.policy.binding if proofs.judged else "",
            # A person can be asked for what is not covered: so a guest at a desk's gateway sees it.
            granted=authority.granted_scope if authority is not None and filters else None,
            observed=proofs.policy.observes,
            token=token,
            pins=self._pins,
            on_other=on_other,
            most=self._most,
        )
