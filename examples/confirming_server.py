"""A server on the official SDK whose tools ask a person before they act (revision 2026-07-28).

python examples/confirming_server.py --port 9000      streamable HTTP on http://127.0.0.1:9000/mcp
python examples/confirming_server.py                  stdio

A tool that needs something *returns* what it asks; the client calls it again with the answers. So each begins by
looking at what came back, and nothing is kept between two calls but the state that travels with them.
"""

import argparse
from datetime import date

from mcp.server.mcpserver import Context, MCPServer
from mcp.types import InputRequiredResult
from pydantic import BaseModel

from accredit.rounds import accepted_content, elicit, elicit_url, input_required, input_response

server = MCPServer("office", version="1.0.0")


class Confirmation(BaseModel):
    """What a person is asked before anything is deleted."""

    sure: bool


class Day(BaseModel):
    """When to travel."""

    day: date


class Seats(BaseModel):
    """How many of them."""

    seats: int


def refused(context: Context, key: str) -> bool:
    """Whether the person was asked and did not want to answer."""
    answer = input_response(context.input_responses, key)
    return answer.kind == "elicit" and answer.action != "accept"


@server.tool()
async def delete(path: str, context: Context) -> str | InputRequiredResult:
    """Deletes a file, if a person is sure."""
    if refused(context, "confirm"):
        return f"kept {path}"
    confirmed = accepted_content(context.input_responses, "confirm", Confirmation)
    if confirmed is None:
        return input_required(input_requests={"confirm": elicit(f"Delete {path}?", Confirmation)})
    return f"deleted {path}" if confirmed.sure else f"kept {path}"


@server.tool()
async def book(city: str, context: Context) -> str | InputRequiredResult:
    """Books seats: asks for the day, then for how many."""
    if refused(context, "day") or refused(context, "seats"):
        return "nothing is booked"
    seats = accepted_content(context.input_responses, "seats", Seats)
    if seats is not None and context.request_state is not None:
        return f"booked {seats.seats} to {city} on {context.request_state}"
    day = accepted_content(context.input_responses, "day", Day)
    if day is None:
        return input_required(input_requests={"day": elicit(f"When to {city}?", Day)})
    return input_required(input_requests={"seats": elicit("How many seats?", Seats)}, request_state=day.day.isoformat())


@server.tool()
async def pay(amount: int, context: Context) -> str | InputRequiredResult:
    """Has a person pay on a page, so that no card's number passes through the client."""
    answer = input_response(context.input_responses, "page")
    if answer.kind != "elicit":
        page = elicit_url(f"Pay {amount} here.", f"https://pay.example/{amount}")
        return input_required(input_requests={"page": page})
    # "accept" says that they went there. Whether they have paid is for the page to tell.
    return "waiting for the payment" if answer.action == "accept" else "not paid"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, help="serve streamable HTTP on this port, not stdio")
    port = parser.parse_args().port
    if port is None:
        server.run("stdio")
    else:
        server.run("streamable-http", port=port)
