"""The gateway's own tools, by which `accredit drill` tests which calls get through. No I/O.

- [scope] There are two: `accredit.drill`, and `accredit.drill.sensitive` for calls that need a challenge issued here.
  Both need the same scope, which no other target may require (`catalog.scope_fault`). So a grant of it allows only
  these calls.
- [no-server] Their calls are decided, refused and recorded like any others. One that passes is answered here, and never
  sent to a server: not even to one that has a tool of that name. Where no proofs are judged these tools do not exist,
  and their calls are refused as well. So a server's own tool of such a name is never listed, and can't be called, not
  even under its merged name at the endpoint of several servers.
- [no-list] No list shows these tools, no quota counts their calls, and no server is asked for their definitions.
- [routes] An HTTP API has two routes of the same kind, `POST /accredit.drill` and `POST /accredit.drill.sensitive`.
  They never reach the API: the gateway answers a request that passes with 204. If a proxy asks about it, the answer is
  403, so that the proxy does not send it on.
- [skills] An agent has two skills with the tools' names, which no card shows. A message (`SendMessage`) for one of them
  is answered by the gateway with a message, makes no task, and takes no conversation.
- [answer] The answer (`drill_answers`) reveals nothing about the call, the caller or the gateway. If the call has an
  argument `asks` that is true, its first leg (in the modern era) is answered with a `requestState` that the client has
  to return. So `accredit drill` can try forged states.
"""

DRILL = "accredit.drill"
SENSITIVE_DRILL = "accredit.drill.sensitive"
DRILLS = frozenset({DRILL, SENSITIVE_DRILL})
DRILL_SCOPE = "custom:accredit.drill"
DRILL_PATHS = {b"/" + name.encode(): f"POST /{name}" for name in (DRILL, SENSITIVE_DRILL)}
"""The routes by the one spelling of their paths."""
DRILL_ROUTE, SENSITIVE_DRILL_ROUTE = DRILL_PATHS.values()
DRILL_PASSED = "drill_passed"
"""The error word that a proxy gets for an allowed request for one of these routes."""


def is_drill(method: str, target: str | None) -> bool:
    """Return whether a request calls one of these tools, has one of these routes, or is a message for one of these
    skills."""
    if method == "POST":
        return target in (DRILL_ROUTE, SENSITIVE_DRILL_ROUTE)
    return target in DRILLS and method in ("tools/call", "SendMessage")
