"""The tools of the everything server: each is named for the scenario of the suite that calls it.

No transport and no clock of its own: a tool gets a `Call` and answers with a result, or (modern era) with the
inputs that it needs first. Names, texts and schemas are those that the suite looks for.
"""

import base64
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus, PromptsListChanged, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

STEP_SECONDS = 0.05
"""Between two notifications of one call, so that they do not arrive as one piece."""
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
"""One red pixel."""
WAV = base64.b64encode(
    b"RIFF\x26\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x40\x1f\0\0\x80\x3e\0\0\2\0\x10\0data\2\0\0\0\0\0"
).decode()
"""One silent sample."""
JSON_SCHEMA_2020_12: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}

Context = ServerRequestContext[Any]
Reply = types.CallToolResult | types.InputRequiredResult
Content = types.TextContent | types.ImageContent | types.AudioContent | types.EmbeddedResource


@dataclass(frozen=True)
class Call:
    """One `tools/call`: where it came from, its arguments, and what a retry of a multi-round call carries."""

    context: Context
    arguments: dict[str, Any]
    answers: dict[str, Any]
    state: str | None


ToolHandler = Callable[[Call], Awaitable[Reply]]
TOOLS: dict[str, tuple[types.Tool, ToolHandler]] = {}
BUS = InMemorySubscriptionBus()


def tool(description: str, schema: dict[str, Any] | None = None) -> Callable[[ToolHandler], ToolHandler]:
    """Registers a tool under its function's name; without a schema it takes no arguments."""

    def register(run: ToolHandler) -> ToolHandler:
        name = run.__name__
        listed = types.Tool(name=name, description=description, input_schema=schema or {"type": "object"})
        TOOLS[name] = (listed, run)
        return run

    return register


def strings(*names: str) -> dict[str, Any]:
    """The schema of an object whose properties are required strings."""
    properties = {name: {"type": "string"} for name in names}
    return {"type": "object", "properties": properties, "required": list(names)}


def text(value: str) -> types.TextContent:
    return types.TextContent(type="text", text=value)


def done(*content: Content) -> types.CallToolResult:
    return types.CallToolResult(content=list(content))


def embedded(uri: str, mime_type: str, value: str) -> types.EmbeddedResource:
    resource = types.TextResourceContents(uri=uri, mime_type=mime_type, text=value)
    return types.EmbeddedResource(type="resource", resource=resource)


def image() -> types.ImageContent:
    return types.ImageContent(type="image", data=PNG, mime_type="image/png")


def elicitation(message: str, schema: dict[str, Any]) -> types.ElicitRequest:
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


def sampling(prompt: str, max_tokens: int = 100) -> types.CreateMessageRequest:
    messages = [types.SamplingMessage(role="user", content=text(prompt))]
    return types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=messages, max_tokens=max_tokens))


def ask(requests: dict[str, types.InputRequest], state: str | None = None) -> types.InputRequiredResult:
    """The interim result of a multi-round call; the SDK's boundary seals `state` on its way out."""
    return types.InputRequiredResult(input_requests=requests, request_state=state)


def capabilities(call: Call) -> types.ClientCapabilities:
    return call.context.session.client_capabilities or types.ClientCapabilities()


def related(call: Call) -> ServerMessageMetadata:
    """Ties what the server sends to the call's own stream (over stdio there is only one)."""
    return ServerMessageMetadata(related_request_id=call.context.request_id)


async def log(call: Call, message: str) -> None:
    """A log notification; in the modern era only where this very request asked for logs."""
    wanted = types.LOG_LEVEL_META_KEY in (call.context.meta or {})
    if call.context.protocol_version in MODERN_PROTOCOL_VERSIONS and not wanted:
        return
    params = types.LoggingMessageNotificationParams(level="info", data=message)
    notification = types.LoggingMessageNotification(params=params)
    await call.context.session.send_notification(notification, related_request_id=call.context.request_id)


@tool("Answers with one text")
async def test_simple_text(call: Call) -> Reply:
    return done(text("This is a simple text response for testing."))


@tool("Answers with one image")
async def test_image_content(call: Call) -> Reply:
    return done(image())


@tool("Answers with one sound")
async def test_audio_content(call: Call) -> Reply:
    return done(types.AudioContent(type="audio", data=WAV, mime_type="audio/wav"))


@tool("Answers with a resource inside the result")
async def test_embedded_resource(call: Call) -> Reply:
    return done(embedded("test://embedded-resource", "text/plain", "This is an embedded resource content."))


@tool("Answers with a text, an image and a resource")
async def test_multiple_content_types(call: Call) -> Reply:
    resource = embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')
    return done(text("Multiple content types test:"), image(), resource)


@tool("Always fails, as a tool does")
async def test_error_handling(call: Call) -> Reply:
    return types.CallToolResult(content=[text("This tool intentionally returns an error for testing")], is_error=True)


@tool("Logs three times while it works")
async def test_tool_with_logging(call: Call) -> Reply:
    for message in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await log(call, message)
        await anyio.sleep(STEP_SECONDS)
    return done(text("Logged three times."))


@tool("Logs once where it may")
async def test_logging_tool(call: Call) -> Reply:
    await log(call, "A log that the request asked for")
    return done(text("Logged where it was asked for."))


@tool("Reports its progress three times")
async def test_tool_with_progress(call: Call) -> Reply:
    for progress in (0, 50, 100):
        await call.context.session.report_progress(progress, 100)
        await anyio.sleep(STEP_SECONDS)
    return done(text("Reached 100 of 100."))


@tool("Asks the client's model (legacy era)", strings("prompt"))
async def test_sampling(call: Call) -> Reply:
    result = await call.context.session.send_request(
        sampling(call.arguments["prompt"]), types.CreateMessageResult, metadata=related(call)
    )
    said = result.content.text if isinstance(result.content, types.TextContent) else result.content.type
    return done(text(f"LLM response: {said}"))


async def elicit(call: Call, message: str, schema: dict[str, Any]) -> Reply:
    """Asks the user with a request of the server's own (legacy era) and tells what came back."""
    result = await call.context.session.send_request(
        elicitation(message, schema), types.ElicitResult, metadata=related(call)
    )
    return done(text(f"User response: action={result.action}, content={result.content}"))


@tool("Asks the user for a name and an address (legacy era)", strings("message"))
async def test_elicitation(call: Call) -> Reply:
    return await elicit(call, call.arguments["message"], strings("username", "email"))


@tool("Asks the user with a default for every primitive type (legacy era)")
async def test_elicitation_sep1034_defaults(call: Call) -> Reply:
    properties: dict[str, Any] = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    return await elicit(call, "Please review these defaults", {"type": "object", "properties": properties})


@tool("Asks the user to choose, in the five ways an enum can be written (legacy era)")
async def test_elicitation_sep1330_enums(call: Call) -> Reply:
    plain = ["option1", "option2", "option3"]
    titled = [{"const": f"value{n}", "title": f"{nth} choice"} for n, nth in enumerate(("First", "Second"), 1)]
    names = ["Option One", "Option Two", "Option Three"]
    properties: dict[str, Any] = {
        "untitledSingle": {"type": "string", "enum": plain},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": names},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    return await elicit(call, "Please choose", {"type": "object", "properties": properties})


@tool("Closes its stream before it answers; the client resumes it (legacy era, HTTP)")
async def test_reconnection(call: Call) -> Reply:
    if call.context.close_sse_stream is not None:
        await call.context.close_sse_stream()
    await anyio.sleep(STEP_SECONDS)
    return done(text("The stream was resumed."))


@tool("Has a schema with the keywords of JSON Schema 2020-12", JSON_SCHEMA_2020_12)
async def json_schema_2020_12_tool(call: Call) -> Reply:
    return done(text("Accepted."))


@tool(
    "Mirrors an argument in a header (modern era)",
    {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}},
)
async def test_header_parameter(call: Call) -> Reply:
    return done(text(f"region={call.arguments.get('region')}"))


@tool("Cannot work without the client's sampling (modern era)")
async def test_missing_capability(call: Call) -> Reply:
    if capabilities(call).sampling is None:
        raise MCPError(
            types.MISSING_REQUIRED_CLIENT_CAPABILITY,
            "This tool needs the client capability sampling",
            {"requiredCapabilities": {"sampling": {}}},
        )
    return done(text("The client can sample."))


@tool("Needs the user, and must not ask on its stream (modern era)")
async def test_streaming_elicitation(call: Call) -> Reply:
    return ask({"confirm": elicitation("Please confirm", strings())})


@tool("Tells subscribers that the list of tools changed")
async def test_trigger_tool_change(call: Call) -> Reply:
    await BUS.publish(ToolsListChanged())
    return done(text("Told."))


@tool("Tells subscribers that the list of prompts changed")
async def test_trigger_prompt_change(call: Call) -> Reply:
    await BUS.publish(PromptsListChanged())
    return done(text("Told."))


@tool("Needs the user's name (modern era)")
async def test_input_required_result_elicitation(call: Call) -> Reply:
    answer = call.answers.get("user_name")
    if not isinstance(answer, types.ElicitResult) or not answer.content:
        return ask({"user_name": elicitation("What is your name?", strings("name"))})
    return done(text(f"Hello, {answer.content.get('name')}!"))


@tool("Needs the client's model (modern era)")
async def test_input_required_result_sampling(call: Call) -> Reply:
    if "capital_question" not in call.answers:
        return ask({"capital_question": sampling("What is the capital of France?")})
    return done(text("The model answered."))


@tool("Needs the client's roots (modern era)")
async def test_input_required_result_list_roots(call: Call) -> Reply:
    answer = call.answers.get("client_roots")
    if not isinstance(answer, types.ListRootsResult):
        return ask({"client_roots": types.ListRootsRequest()})
    return done(text(", ".join(str(root.uri) for root in answer.roots)))


@tool("Keeps state between two rounds (modern era)")
async def test_input_required_result_request_state(call: Call) -> Reply:
    if call.state != "confirming":
        confirm = elicitation(
            "Please confirm",
            {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]},
        )
        return ask({"confirm": confirm}, "confirming")
    return done(text("state-ok"))


@tool("Refuses state that was tampered with (modern era)")
async def test_input_required_result_tampered_state(call: Call) -> Reply:
    return await test_input_required_result_request_state(call)


@tool("Needs three inputs at once (modern era)")
async def test_input_required_result_multiple_inputs(call: Call) -> Reply:
    wanted: dict[str, types.InputRequest] = {
        "user_name": elicitation("What is your name?", strings("name")),
        "greeting": sampling("Generate a greeting", 50),
        "client_roots": types.ListRootsRequest(),
    }
    return ask(wanted, "waiting") if wanted.keys() - call.answers.keys() else done(text("All answered."))


@tool("Asks twice, one question after the other (modern era)")
async def test_input_required_result_multi_round(call: Call) -> Reply:
    if call.state == "step2" and "step2" in call.answers:
        return done(text("Both steps are done."))
    if call.state == "step1" and "step1" in call.answers:
        return ask({"step2": elicitation("Step 2: What is your favorite color?", strings("color"))}, "step2")
    return ask({"step1": elicitation("Step 1: What is your name?", strings("name"))}, "step1")


@tool("Asks only for what the client can do (modern era)")
async def test_input_required_result_capabilities(call: Call) -> Reply:
    wanted: dict[str, types.InputRequest] = {}
    if capabilities(call).sampling is not None:
        wanted["question"] = sampling("What is the capital of France?")
    if capabilities(call).elicitation is not None:
        wanted["user_name"] = elicitation("What is your name?", strings("name"))
    return ask(wanted) if wanted else done(text("The client can be asked nothing."))
