"""`AccreditedClient`: the official SDK's client, with proofs. Opens what the SDK opens.

Every call carries its own fresh proof (`streams`), and a gateway's challenge is answered without the caller seeing it.
A refusal is raised as `ProofRefused`; every other error is the SDK's own (`MCPError`).
"""

from collections.abc import Generator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, cast

from mcp import Client, MCPError, StdioServerParameters
from mcp.client import Transport
from mcp.client._memory import InMemoryTransport
from mcp.client.session import ElicitationFnT, ListRootsFnT, SamplingFnT
from mcp.client.stdio import stdio_client
from mcp.server import Server
from mcp.server.mcpserver import MCPServer
from mcp.shared.dispatcher import ProgressFnT
from mcp_types import (
    CallToolResult,
    GetPromptResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    ReadResourceResult,
)

from accredit.client.http import GatewayHttp, over_http
from accredit.client.presenter import ProofPresenter
from accredit.client.proving import Prover
from accredit.client.refusals import refusal_of
from accredit.client.streams import ProvingTransport

Target = str | StdioServerParameters | Server[Any] | MCPServer | Transport


class AccreditedClient:
    """An async context manager. `target` is a URL, a stdio server's command, or a server in this process.

    `token` travels in `Authorization` over HTTP, and in `_meta.token` otherwise. The handlers are the official SDK's:
    `async def on_elicit(context, params)`. `mode` is the SDK's too: "auto", "legacy", or a modern revision.
    """

    def __init__(
        self,
        target: Target,
        *,
        presenter: ProofPresenter | None = None,
        token: str | None = None,
        elicitation: ElicitationFnT | None = None,
        sampling: SamplingFnT | None = None,
        roots: ListRootsFnT | None = None,
        mode: str = "auto",
    ) -> None:
        """Raises `ConfigurationError` where the file of known gateways can't be read."""
        self._client = Client(
            _transport(target, presenter, token or ""),
            elicitation_callback=elicitation,
            sampling_callback=sampling,
            list_roots_callback=roots,
            mode=mode,
        )

    async def __aenter__(self) -> Self:
        """Connects. Raises `MCPError` where there is no server that answers, and `ProofRefused` for want of a token."""
        with _refusals():
            try:
                await self._client.__aenter__()
            except ExceptionGroup as group:
                raise _only(group) from None
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Disconnects. What was raised inside stays what it is: the tasks below would wrap it in groups."""
        await self._client.__aexit__(None, None, None)

    @property
    def protocol_version(self) -> str:
        """The MCP revision that was agreed on."""
        return self._client.protocol_version

    async def list_tools(self, *, cursor: str | None = None) -> ListToolsResult:
        """One page of the tools that the delegations cover."""
        with _refusals():
            return await self._client.list_tools(cursor=cursor)

    async def call_tool(
        self,
        name: str,
        arguments: dict[str, Any] | None = None,
        *,
        timeout: float | None = None,
        progress: ProgressFnT | None = None,
    ) -> CallToolResult:
        """Calls a tool. `timeout` is in seconds; `progress` gets (progress, total, message). Raises `ProofRefused`."""
        with _refusals():
            return await self._client.call_tool(
                name, arguments, read_timeout_seconds=timeout, progress_callback=progress
            )

    async def list_resources(self, *, cursor: str | None = None) -> ListResourcesResult:
        """One page of the resources."""
        with _refusals():
            return await self._client.list_resources(cursor=cursor)

    async def list_resource_templates(self, *, cursor: str | None = None) -> ListResourceTemplatesResult:
        """One page of the templates of resources."""
        with _refusals():
            return await self._client.list_resource_templates(cursor=cursor)

    async def read_resource(self, uri: str) -> ReadResourceResult:
        """Reads a resource. Raises `ProofRefused`."""
        with _refusals():
            return await self._client.read_resource(uri)

    async def list_prompts(self, *, cursor: str | None = None) -> ListPromptsResult:
        """One page of the prompts."""
        with _refusals():
            return await self._client.list_prompts(cursor=cursor)

    async def get_prompt(self, name: str, arguments: dict[str, str] | None = None) -> GetPromptResult:
        """Gets a prompt. Raises `ProofRefused`."""
        with _refusals():
            return await self._client.get_prompt(name, arguments)


def _transport(target: Target, presenter: ProofPresenter | None, token: str) -> Transport:
    if isinstance(target, str):
        http = GatewayHttp(token)
        prover = Prover(presenter, target, lambda: http.session_id) if presenter is not None else None
        return ProvingTransport(over_http(target, http), prover)
    prover = Prover(presenter) if presenter is not None else None
    if isinstance(target, StdioServerParameters):
        inner: Transport = stdio_client(target)
    elif isinstance(target, Server | MCPServer):
        inner = InMemoryTransport(target)
    else:
        inner = target
    return ProvingTransport(inner, prover, token=token)


def _only(group: ExceptionGroup[Exception]) -> Exception:
    error, *others = group.exceptions
    if others:
        return group
    return _only(cast("ExceptionGroup[Exception]", error)) if isinstance(error, ExceptionGroup) else error


@contextmanager
def _refusals() -> Generator[None]:
    try:
        yield
    except MCPError as error:
        refusal = refusal_of(error.error)
        if refusal is None:
            raise
        raise refusal from None
