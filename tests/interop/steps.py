"""The steps that clients are asked to take, as data. `programs/player.py` says what comes of them. No I/O."""

import json
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


def merged(steps: list[Step], server: str) -> list[Step]:
    """The same steps, with the names that tools, prompts and resources have where this server is one of several."""
    return [{**each, "with": _merged(each["with"], server)} for each in steps]


def _merged(how: dict[str, Any], server: str) -> dict[str, Any]:
    changed = dict(how)
    for member, prefix in (("tool", f"{server}__"), ("prompt", f"{server}__"), ("uri", f"accredit+{server}:")):
        if member in how:
            changed[member] = prefix + how[member]
    if "ref" in how:
        of = how["ref"]
        changed["ref"] = {**of, **({"name": f"{server}__{of['name']}"} if "name" in of else {}),
                          **({"uri": f"accredit+{server}:{of['uri']}"} if "uri" in of else {})}  # fmt: skip
    return changed


def unmerged(line: dict[str, Any], server: str) -> dict[str, Any]:
    """What came of a merged step, as it would be by itself: lists without the others, names without the server's."""
    beginnings = (f"{server}__", f"accredit+{server}:")
    if line["step"] in _LISTED:
        line = {**line, "result": _own_only(line.get("result"), beginnings)} if "result" in line else line
    text = json.dumps(line)
    for beginning in beginnings:
        text = text.replace(beginning, "")
    return json.loads(text)


_LISTED = ("tools", "resources", "templates", "prompts")
_KEYS = ("name", "uri", "uriTemplate")


def _own_only(value: Any, beginnings: tuple[str, str]) -> Any:
    """A list's items that are this server's, wherever the list is in the outcome."""
    if isinstance(value, dict):
        return {name: _own_only(each, beginnings) for name, each in value.items()}
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        return value
    return [each for each in value if any(str(each.get(key)).startswith(beginnings) for key in _KEYS)]
