"""`AccreditedClient`: the official SDK's client, with proofs and with rounds. Opens what the SDK opens.

Every leg of a call (one request with its answer) carries its own fresh proof (`streams`). A gateway's challenge is
answered without the caller noticing. A refusal raises `ProofRefused`. A call whose rounds can't continue raises a
subclass of `RoundsError`, a late one `RequestTimeout`. Every other error is the SDK's own (`MCPError`). Errors are
never wrapped in groups.
"""

from collections.abc import Awaitable, Generator, Iterable, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal, Self, TypeVar, Unpack, overload

from mcp import Client, MCPError, StdioServerParameters
from mcp.server import Server
from mcp.server.mcpserver import MCPServer
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ErrorData,
    GetPromptRequestParams,
    GetPromptResult,
    InputRequiredResult,
    InputResponseRequestParams,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    ReadResourceRequestParams,
    ReadResourceResult,
)

from accredit.base.text import excerpt
from accredit.client.apart import OwnTask
from accredit.client.asking import Asking, Say, asking_at_desk
from accredit.client.budgets import Budgets
from accredit.client.gateways import GatewayAddress, to_gateway
from accredit.client.http import HOW_TO_START, NOT_REACHED, NOT_THERE
from accredit.client.legs import Legs, RoundsCall, legacy_callback, one_at_a_time, read_result
from accredit.client.pins import check_name
from accredit.client.presenter import ProofPresenter
from accredit.client.proving import Prover, Uncovered
from accredit.client.refusals import Caller, explain_refusal, mark_uncovered, refusal_of
from accredit.client.rounds import InputHandler, run_leg, run_rounds, within
from accredit.client.sdk import Transport, in_memory, replace_revision_error
from accredit.client.stdio import over_stdio
from accredit.client.streams import ProvingTransport
from accredit.errors import ProofRefused, RequestTimeout, UnsupportedResultType
from accredit.jsonrpc.encode import UPSTREAM_ERROR
from accredit.jsonrpc.methods import TARGET_MEMBER
from accredit.limits import LEG_SECONDS, MAX_TOLD_REASON_CHARS
from accredit.rounds import LegOptions, RoundsOptions, with_retry_params

_Result = TypeVar("_Result")

_Local = StdioServerParameters | Server[Any] | MCPServer | Transport
Target = str | _Local


class AccreditedClient:
    """An async context manager. `target` is a URL, a stdio server's command, a server in this process, or a transport.

    A target without a URL may lead anywhere. So nothing is signed there unless the presenter names the `gateway_id`, or
    the server has a name in place of a URL, `known_as`: the first id that is claimed under that name is remembered.

    Over HTTP `token` is sent in `Authorization`, otherwise in `_meta.token`. `headers` are sent with every HTTP
    request. `timeout` is how many seconds the server may be silent during one. It is also the limit for connecting as a
    whole, on any transport, and for listing a page, unless that call has its own `timeout`. The default of these two
    limits is a minute.

    Each handler is `async def handler(context, params)`, where `context` is an `InputContext`, and returns its kind's
    result. Handlers answer in both eras, and a server is told which kinds there are. `mode` is the SDK's: "auto",
    "legacy", or a modern revision.

    With `hold`, a person is asked at the desk of this user about a call that is refused (`client.asking`). The call
    waits for at most so many seconds, which don't count towards its own timeouts, and is made once more if the person
    allows it. Lists then also have the items that no delegation covers, marked. The presenter needs `may_ask`.
    """

    def __init__(
        self,
        target: Target,
        *,
        presenter: ProofPresenter | None = None,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        elicitation: InputHandler | None = None,
        sampling: InputHandler | None = None,
        roots: InputHandler | None = None,
        rounds: RoundsOptions | None = None,
        mode: str = "auto",
        known_as: str = "",
        hold: float = 0,
    ) -> None:
        """Raise `ConfigurationError` if the file of known gateways can't be read, a URL or a name is invalid, or nobody
        could prove what a person allows."""
        given = {"elicitation/create": elicitation, "sampling/createMessage": sampling, "roots/list": roots}
        self._handlers = {method: handler for method, handler in given.items() if handler is not None}
        self._caller = Caller(presenter, target if isinstance(target, str) else known_as, "")
        self._seconds = LEG_SECONDS if timeout is None else timeout
        self._rounds = rounds or RoundsOptions()
        self._budgets = Budgets(self._rounds.max_rounds)
        if known_as:
            check_name(target if isinstance(target, str) else known_as)
        uncovered = mark_uncovered if hold > 0 else None
        self._client = Client(
            to_gateway(
                GatewayAddress(url=target, token=token or "", headers=headers or {}, timeout=timeout),
                presenter,
                uncovered=uncovered,
                heard=self._budgets.heard,
            )
            if isinstance(target, str)
            else _transport(target, presenter, token or "", known_as, self._budgets, uncovered),
            elicitation_callback=legacy_callback(elicitation, "elicitation/create", self._budgets),
            sampling_callback=legacy_callback(sampling, "sampling/createMessage", self._budgets),
            list_roots_callback=legacy_callback(roots, "roots/list", self._budgets),
            mode=mode,
        )
        self._connection = OwnTask(self._client)
        self._legs: Legs | None = None
        self._asking = asking_at_desk(presenter, self._caller.url, hold)

    async def __aenter__(self) -> Self:
        """Connect. Raises `MCPError` if no server answers, `ProofRefused` if a token is missing, and `RequestTimeout`
        if the server is late. Raises `UnsupportedRevision` if it has no revision of MCP that is spoken here, and
        `UnsupportedResultType` if its own description is a result of an unknown kind."""
        late = partial(RequestTimeout, self._seconds)
        with self._refusals():
            await within(self._seconds, read_result(replace_revision_error(self._connection.enter())), late)
        try:
            self._legs = Legs(self._client)
        except UnsupportedResultType:
            await self._connection.leave()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """Disconnect. Errors raised inside pass unchanged."""
        self._legs = None
        await self._connection.leave()

    async def _list_page(self, listing: Awaitable[_Result], timeout: float | None) -> _Result:
        seconds = self._seconds if timeout is None else timeout
        with self._refusals():
            return await within(seconds, read_result(listing), partial(RequestTimeout, seconds))

    @contextmanager
    def _refusals(self, method: str = "", params: object = None) -> Generator[None]:
        """Raise a gateway's refusal as `ProofRefused`, and add the known details to an error of ours."""
        try:
            yield
        except MCPError as error:
            refusal = refusal_of(error.error)
            if refusal is None:
                _put_into_words(error, connecting=not method)
                raise
            if method:
                target = getattr(params, TARGET_MEMBER.get(method, ""), None)
                refusal.add_note(explain_refusal(refusal, self._caller, method, target))
            raise refusal from None

    def _entered(self, options: Iterable[str]) -> Legs:
        """Return what sends the legs of a call. Raises `RuntimeError` outside of `async with`, and `TypeError` for an
        option that no call has: a misspelt timeout would be none."""
        unknown = set(options) - RoundsCall.__annotations__.keys()
        if unknown:
            raise TypeError(f"a call has no option {min(unknown)!r}")
        if self._legs is None:
            raise RuntimeError("the client is used outside of `async with`")
        return self._legs

    @property
    def protocol_version(self) -> str:
        """The MCP revision that was agreed on with the server."""
        return self._client.protocol_version

    async def list_tools(self, *, cursor: str | None = None, timeout: float | None = None) -> ListToolsResult:
        """Return one page of the tools that the delegations cover. `timeout` is for the whole operation, in seconds.
        Raises `MCPError` and `RequestTimeout`, as the other list methods do."""
        page = await self._list_page(self._client.list_tools(cursor=cursor), timeout)
        if self._asking is not None:
            self._asking.learn("tools/list", page.model_dump(by_alias=True, mode="json", exclude_none=True))
        return page

    @overload
    async def call_tool(
        self,
        name: str,
        arguments: dict[str, Any] | None = ...,
        *,
        allow_input_required: Literal[False] = ...,
        **options: Unpack[RoundsCall],
    ) -> CallToolResult: ...
    @overload
    async def call_tool(
        self,
        name: str,
        arguments: dict[str, Any] | None = ...,
        *,
        allow_input_required: bool,
        **options: Unpack[RoundsCall],
    ) -> CallToolResult | InputRequiredResult: ...
    async def call_tool(
        self,
        name: str,
        arguments: dict[str, Any] | None = None,
        *,
        allow_input_required: bool = False,
        **options: Unpack[RoundsCall],
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool, answer the server's requests for input, and return the result. With `allow_input_required`, call
        it only once; a request for input is then returned to the caller.

        See `RoundsCall` for the options. Raises `ProofRefused`, `RequestTimeout` and everything under `RoundsError`.
        """
        params = CallToolRequestParams(name=name, arguments=arguments)
        return await self._run(params, "tools/call", allow_input_required, options)

    async def list_resources(self, *, cursor: str | None = None, timeout: float | None = None) -> ListResourcesResult:
        """Return one page of the resources."""
        return await self._list_page(self._client.list_resources(cursor=cursor), timeout)

    async def list_resource_templates(
        self, *, cursor: str | None = None, timeout: float | None = None
    ) -> ListResourceTemplatesResult:
        """Return one page of the resource templates."""
        return await self._list_page(self._client.list_resource_templates(cursor=cursor), timeout)

    @overload
    async def read_resource(
        self, uri: str, *, allow_input_required: Literal[False] = ..., **options: Unpack[RoundsCall]
    ) -> ReadResourceResult: ...
    @overload
    async def read_resource(
        self, uri: str, *, allow_input_required: bool, **options: Unpack[RoundsCall]
    ) -> ReadResourceResult | InputRequiredResult: ...
    async def read_resource(
        self, uri: str, *, allow_input_required: bool = False, **options: Unpack[RoundsCall]
    ) -> ReadResourceResult | InputRequiredResult:
        """Read a resource, as `call_tool` calls a tool."""
        params = ReadResourceRequestParams(uri=uri)
        return await self._run(params, "resources/read", allow_input_required, options)

    async def list_prompts(self, *, cursor: str | None = None, timeout: float | None = None) -> ListPromptsResult:
        """Return one page of the prompts."""
        return await self._list_page(self._client.list_prompts(cursor=cursor), timeout)

    @overload
    async def get_prompt(
        self,
        name: str,
        arguments: dict[str, str] | None = ...,
        *,
        allow_input_required: Literal[False] = ...,
        **options: Unpack[RoundsCall],
    ) -> GetPromptResult: ...
    @overload
    async def get_prompt(
        self,
        name: str,
        arguments: dict[str, str] | None = ...,
        *,
        allow_input_required: bool,
        **options: Unpack[RoundsCall],
    ) -> GetPromptResult | InputRequiredResult: ...
    async def get_prompt(
        self,
        name: str,
        arguments: dict[str, str] | None = None,
        *,
        allow_input_required: bool = False,
        **options: Unpack[RoundsCall],
    ) -> GetPromptResult | InputRequiredResult:
        """Get a prompt, as `call_tool` calls a tool."""
        params = GetPromptRequestParams(name=name, arguments=arguments)
        return await self._run(params, "prompts/get", allow_input_required, options)

    async def _run(self, params: InputResponseRequestParams, method: str, by_hand: bool, options: RoundsCall) -> Any:
        legs = self._entered(options)
        progress = options.get("progress")
        begun = with_retry_params(
            params, input_responses=options.get("input_responses"), request_state=options.get("request_state")
        )
        of_server = None if progress is None else one_at_a_time(progress)
        timeout, total = options.get("timeout"), options.get("max_total_timeout")

        async def send_leg(leg: InputResponseRequestParams, _: LegOptions) -> Any:
            return await legs.send(leg, of_server)

        async def run() -> Any:
            with self._refusals(method, params), self._budgets.call():
                if by_hand:
                    return await run_leg(send_leg, begun, method, timeout=timeout, max_total_timeout=total)
                return await run_rounds(
                    send_leg,
                    self._handlers,
                    begun,
                    method,
                    self._rounds,
                    timeout=timeout,
                    max_total_timeout=total,
                    progress=progress,
                )

        try:
            return await run()
        except ProofRefused as refusal:
            if self._asking is None or not await _is_allowed(self._asking, method, params, refusal, progress):
                raise
        return await run()


async def _is_allowed(
    asking: Asking, method: str, params: InputResponseRequestParams, refusal: ProofRefused, say: Say | None
) -> bool:
    """Ask a person about a refused call, and return whether they allow it. If they do not, the refusal says why."""
    sent = params.model_dump(by_alias=True, mode="json", exclude_none=True)
    ask = asking.ask_for(method, sent, refusal)
    return await asking.is_allowed(ask, refusal, say)


def _transport(
    target: _Local,
    presenter: ProofPresenter | None,
    token: str,
    name: str,
    budgets: Budgets,
    uncovered: Uncovered | None,
) -> Transport:
    prover = Prover(presenter, name, uncovered=uncovered) if presenter is not None else None
    if isinstance(target, StdioServerParameters):
        inner: Transport = over_stdio(target)
    elif isinstance(target, Server | MCPServer):
        inner = in_memory(target)
    else:
        inner = target
    return ProvingTransport(inner, prover, token=token, heard=budgets.heard).open()


def _put_into_words(error: MCPError, *, connecting: bool) -> None:
    """Add details to the message of an error of ours: the reason, and how to start a gateway that can't be reached. The
    exception object stays the same, since a new one would keep the old one and its data in memory."""
    why = error.error.data
    if connecting and error.error.message.startswith("Not found: "):
        message = f"{error.error.message}: {NOT_THERE}"
        error.error = ErrorData(code=error.error.code, message=message, data=NOT_THERE)
        error.args = (error.error.code, message, NOT_THERE)
        return
    if error.error.code != UPSTREAM_ERROR or not isinstance(why, str):
        return
    message = error.error.message
    if not message.endswith(why):  # of ours it is there
        message = f"{message}: {excerpt(why, MAX_TOLD_REASON_CHARS)}"
    if why.endswith(NOT_REACHED):
        message = f"{message} If it is not, {HOW_TO_START}"
    error.error = ErrorData(code=error.error.code, message=message, data=why)
    error.args = (error.error.code, message, why)
