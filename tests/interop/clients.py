"""The clients of the matrix: each is a program of its own environment. No I/O."""

from collections.abc import Callable

from msgspec import Struct
from tests.interop.environments import NODE, OWN, Environments

SCOPE = "@modelcontextprotocol"


class Client(Struct, frozen=True):
    """A client, the command that plays a plan with it, and the packages of its environment that it is made of."""

    name: str
    command: Callable[[Environments], list[str]]
    environment: str
    packages: tuple[str, ...]


def _python(name: str, environment: str, program: str, *packages: str) -> Client:
    return Client(name, lambda environments: environments.python(environment, program), environment, packages)


def _node(name: str, program: str, *packages: str) -> Client:
    return Client(name, lambda environments: environments.node(program), NODE, packages)


def _inspector(environments: Environments) -> list[str]:
    launcher = environments.node(f"node_modules/{SCOPE}/inspector/clients/launcher/build/index.js")
    return [*environments.python(OWN, "inspector.py"), *launcher]


CLIENTS = {
    client.name: client
    for client in (
        _python("python-sdk-1", "python-1", "python_1.py", "mcp"),
        _python("python-sdk-2", OWN, "python_2.py", "mcp"),
        _node("typescript-sdk-1", "typescript_1.mjs", f"{SCOPE}/sdk"),
        _node("typescript-sdk-2", "typescript_2.mjs", f"{SCOPE}/client"),
        _python("fastmcp", OWN, "fastmcp_4.py", "fastmcp", "mcp"),
        Client("inspector", _inspector, NODE, (f"{SCOPE}/inspector",)),
        _python("langchain", "langchain", "langchain_client.py", "langchain-mcp-adapters", "mcp"),
        _python("openai-agents", "openai-agents", "openai_agents.py", "openai-agents", "mcp"),
        _python("pydantic-ai", "pydantic-ai", "pydantic_ai_client.py", "pydantic-ai-slim", "fastmcp-slim", "mcp"),
    )
}
