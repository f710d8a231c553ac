"""Asks and answers made by the real code, for tests of what reads them. No I/O."""

import hashlib
import secrets
from typing import Any

from tests.world.delegations import NOW, World

from accredit.consent.answers import Answer
from accredit.consent.asks import Ask, AskedGateway, AskedRefusal, Asker
from accredit.consent.call import CallTerms
from accredit.consent.held import AskedTool, AskingClient, ClientAsk
from accredit.ratify import DelegationCert
from accredit.ratify.constraints import Constraint, MaxRate

WORLD = World()
GATEWAY = "9f0c2d11"
SCOPE = "comms:email:send"
PARAMS: dict[str, Any] = {"name": "send_email", "arguments": {"to": "ada@example.org", "subject": "Hello"}}


def an_ask(params: dict[str, Any] = PARAMS, **changes: Any) -> Ask:
    """A signed ask of the agent of `WORLD`."""
    members: dict[str, Any] = {
        "accredit_ask": 1,
        "id": secrets.token_hex(16),
        "asked_at": NOW,
        "expires_at": NOW + 600,
        "agent": Asker("Assistant", WORLD.agent.public_key),
        "gateway": AskedGateway(GATEWAY, "http://127.0.0.1:8484/mcp"),
        "principals": (WORLD.owner.id,),
        "method": "tools/call",
        "target": str(params.get("name")),
        "params": params,
        "refusal": AskedRefusal("ratify_scope_denied", SCOPE, ("mcp:tool",)),
    }
    return Ask(**members | changes).signed(WORLD.agent.signer())


def request_params(target: str = "/api/mail/messages/7/send", body: bytes = b'{"to":"ada"}') -> dict[str, Any]:
    """The params of an ask about a request to an HTTP API."""
    params: dict[str, Any] = {"target": target, "body_sha256": hashlib.sha256(body).hexdigest()}
    try:
        return {**params, "body": body.decode()}
    except UnicodeDecodeError:
        return {**params, "body_size": len(body)}


def a_request(target: str = "/api/mail/messages/7/send", body: bytes = b'{"to":"ada"}', **changes: Any) -> Ask:
    """A signed ask about a request to an HTTP API."""
    members = {"method": "POST", "target": "POST /messages/{id}/send", **changes}
    return an_ask(request_params(target, body), **members)


def a_message(skill: str = "", **more: Any) -> Ask:
    """A signed ask about a message to an agent, which needs several scopes."""
    metadata = {"metadata": {"dev.accredit/skill": skill}} if skill else {}
    params = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}, **metadata}
    refusal = AskedRefusal("ratify_scope_denied", "custom:ask", required_scopes=("custom:ask", SCOPE))
    return an_ask(params, **{"method": "SendMessage", "target": skill, "refusal": refusal, **more})


def once(ask: Ask, **changes: Any) -> tuple[Constraint, ...]:
    """The constraints of a delegation for the very call that is asked for."""
    terms: dict[str, Any] = {
        "gateway": ask.gateway.id,
        "method": ask.method,
        "target": (ask.target,),
        "params_sha256": ask.params_sha256,
    }
    return (MaxRate(1, 600), CallTerms(**terms | changes).constraint())


def allowed(ask: Ask, *certificates: DelegationCert, **changes: Any) -> Answer:
    """The answer that allows a call by these certificates; by default by one for the very call."""
    chain = certificates or (WORLD.grant(SCOPE, constraints=once(ask), ends=NOW + 599),)
    members: dict[str, Any] = {"ask": ask.digest.hex(), "decision": "allow", "certificates": chain}
    return Answer(**members | changes)


URL = "https://mcp.example.com"
TOOLS = ("send_email", "list_inbox")


def a_client_ask(**changes: Any) -> ClientAsk:
    """An ask of a client that speaks only OAuth, for the key of `WORLD`'s agent."""
    members: dict[str, Any] = {
        "accredit_client_ask": 1,
        "id": secrets.token_hex(16),
        "asked_at": NOW,
        "expires_at": NOW + 600,
        "agent": Asker("Claude", WORLD.agent.public_key),
        "gateway": AskedGateway(GATEWAY, URL),
        "client": AskingClient("https://claude.ai/oauth/client", "Claude", "https://claude.ai/api/callback"),
        "endpoint": f"{URL}/mcp",
        "tools": tuple(AskedTool(each, each.replace("_", " ")) for each in TOOLS),
        "scopes": (SCOPE,),
        "until": NOW + 86_400,
    }
    return ClientAsk(**members | changes)


def standing(ask: ClientAsk, **changes: Any) -> tuple[Constraint, ...]:
    """The constraints of a delegation to a client: these tools at this gateway."""
    terms: dict[str, Any] = {"gateway": ask.gateway.id, "method": "tools/call", "target": TOOLS}
    return (CallTerms(**terms | changes).constraint(),)


def let_in(ask: ClientAsk, *certificates: DelegationCert, **changes: Any) -> Answer:
    """The answer that lets a client in."""
    chain = certificates or (WORLD.grant(*ask.scopes, constraints=standing(ask), ends=ask.until),)
    members: dict[str, Any] = {"ask": ask.digest.hex(), "decision": "allow", "certificates": chain}
    return Answer(**members | changes)
