"""An API of orders, and an agent that summarizes: what the tutorial of three hops puts behind the gateway.

python examples/office.py --port 9001       the API at http://127.0.0.1:9001, the agent (A2A 1.0) at .../helper

Both are in one program, so that you need one terminal less.
"""

import argparse
import json

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

ORDERS = {"7": {"id": "7", "from": "ada@example.org", "item": "an engine", "state": "paid"}}


async def read_order(request: Request) -> Response:
    """One order."""
    order = ORDERS.get(request.path_params["id"])
    return JSONResponse(order) if order is not None else Response(status_code=404)


async def cancel_order(request: Request) -> Response:
    """Cancels an order, for good."""
    ORDERS.pop(request.path_params["id"], None)
    return Response(status_code=204)


async def describe_api(request: Request) -> Response:
    """The API's OpenAPI document."""
    id = {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
    said = {"description": "done"}
    paths = {
        "/orders/{id}": {
            "parameters": [id],
            "get": {"operationId": "readOrder", "summary": "One order.", "responses": {"200": said}},
            "delete": {"operationId": "cancelOrder", "summary": "Cancels an order.", "responses": {"204": said}},
        }
    }
    servers = [{"url": str(request.base_url).rstrip("/")}]
    return JSONResponse(
        {"openapi": "3.1.0", "info": {"title": "Orders", "version": "1"}, "servers": servers, "paths": paths}
    )


async def describe_agent(request: Request) -> Response:
    """The agent's card."""
    at = {"url": f"{request.base_url}helper", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    skills = [
        {
            "id": "summarize",
            "name": "Summarize",
            "description": "Says what a text says, in fewer words.",
            "tags": ["text"],
        },
        {"id": "publish", "name": "Publish", "description": "Publishes a text, for all to read.", "tags": ["text"]},
    ]
    card = {"name": "Helper", "description": "Helps with texts.", "version": "1", "skills": skills}
    kinds = {
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "capabilities": {"streaming": False},
    }
    return JSONResponse({**card, **kinds, "supportedInterfaces": [at]})


async def take_message(request: Request) -> Response:
    """The agent: does with a message's text what the skill is, and says so in a message."""
    asked = json.loads(await request.body())
    text = asked["params"]["message"]["parts"][0]["text"]
    skill = asked["params"].get("metadata", {}).get("dev.accredit/skill")
    said = text.split(": ")[-1] if skill == "summarize" else f"all may read: {text}"
    message = {"messageId": "1", "role": "ROLE_AGENT", "parts": [{"text": said}]}
    return JSONResponse({"jsonrpc": "2.0", "id": asked["id"], "result": {"message": message}})


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=9001)
    routes = [
        Route("/openapi.json", describe_api),
        Route("/orders/{id}", read_order),
        Route("/orders/{id}", cancel_order, methods=["DELETE"]),
        Route("/helper/.well-known/agent-card.json", describe_agent),
        Route("/helper", take_message, methods=["POST"]),
    ]
    uvicorn.run(Starlette(routes=routes), host="127.0.0.1", port=parser.parse_args().port)
