"""The clients of the matrix: each is a program of its own environment. No I/O."""

from collections.abc import Callable

from msgspec import Struct
from tests.interop.environments import OWN, Environments


class Client(Struct, frozen=True):
    """A client, and the command that plays a plan with it."""

    name: str
    command: Callable[[Environments], list[str]]


def _python(environment: str, program: str) -> Callable[[Environments], list[str]]:
    return lambda environments: environments.python(environment, program)


def _node(program: str) -> Callable[[Environments], list[str]]:
    return lambda environments: environments.node(program)


def _inspector(environments: Environments) -> list[str]:
    launcher = environments.node("node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js")
    return [*environments.python(OWN, "inspector.py"), *launcher]


CLIENTS = {
    client.name: client
    for client in (
        Client("python-sdk-1", _python("python-1", "python_1.py")),
        Client("python-sdk-2", _python(OWN, "python_2.py")),
        Client("typescript-sdk-1", _node("typescript_1.mjs")),
        Client("typescript-sdk-2", _node("typescript_2.mjs")),
        Client("fastmcp", _python(OWN, "fastmcp_4.py")),
        Client("inspector", _inspector),
        Client("langchain", _python("langchain", "langchain_client.py")),
        Client("openai-agents", _python("openai-agents", "openai_agents.py")),
        Client("pydantic-ai", _python("pydantic-ai", "pydantic_ai_client.py")),
    )
}
