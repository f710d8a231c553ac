"""The steps that clients are asked to take, as data. `programs/player.py` says what comes of them. No I/O."""

from typing import Any

Step = dict[str, Any]


def step(do: str, name: str = "", /, **how: Any) -> Step:
    """A step, and what it is taken with."""
    return {"name": name or do, "do": do, "with": how, "hears": {}, "patience": 0, "loosely": False}


def hearing(taken: Step, seconds: float = 0, /, **counts: int) -> Step:
    """The step while which the server sends so much of each kind, within some seconds more than usual."""
    return {**taken, "hears": counts, "patience": seconds}


def loosely(taken: Step) -> Step:
    """The step of which only the shape of the outcome is compared, not what differs from run to run."""
    return {**taken, "loosely": True}


def call(tool: str, /, *, titled: str = "", **arguments: Any) -> Step:
    """A call of a tool."""
    return step("call", titled or f"call {tool}", tool=tool, arguments=arguments)


def read(uri: str) -> Step:
    return step("read", f"read {uri}", uri=uri)


def prompt(name: str, /, **arguments: str) -> Step:
    return step("prompt", f"prompt {name}", prompt=name, arguments=arguments)


def complete(ref: dict[str, str], name: str, value: str) -> Step:
    shown = ref.get("name") or ref["uri"]
    return step("complete", f"complete {shown}", ref=ref, name=name, value=value)


def cancel(tool: str, /, **arguments: Any) -> Step:
    return step("cancel", f"cancel {tool}", tool=tool, arguments=arguments)


LISTS = [step("server"), step("tools"), step("resources"), step("templates"), step("prompts"), step("ping")]


def restarts(what: str, works: Step) -> list[Step]:
    """Something is restarted, and the same client goes on: a call works again before long."""
    again = {**works, "name": f"works after a restart of the {what}", "do": "recover"}
    return [step("restart", f"restart {what}", what=what), again]
