"""A stdio server of the legacy era that lists whatever a file says. I/O: stdin, stdout, that file.

python listing_server.py PAGES.json      PAGES: an array of results of `tools/list`; a cursor is the next one's number;
                                         or an object from a path of the client's capabilities, such as
                                         "elicitation.url" ("" for all), to an object from methods to results for it
python listing_server.py --mute          writes its process id into `asked` in place of an answer to `tools/list`
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

SERVER = "tricky\n[server]"


def can(capabilities: Any, path: str) -> bool:
    """Whether a client has declared what is at a path."""
    for step in filter(None, path.split(".")):
        if not isinstance(capabilities, dict) or step not in capabilities:
            return False
        capabilities = capabilities[step]
    return True


def listed(message: dict[str, Any], lists: dict[str, Any], declared: dict[str, Any]) -> object:
    """What a request is answered with by a server that has other lists for other clients: the lists put together."""
    found = {path: results for path, results in lists.items() if can(declared, path)}
    if message["method"] == "initialize":
        kinds = {method.partition("/")[0]: {} for results in found.values() for method in results}
        return {**result_of(message, []), "capabilities": kinds}
    joined: dict[str, list[Any]] = {}
    for results in found.values():
        for member, items in results.get(message["method"], {}).items():
            joined.setdefault(member, []).extend(items)
    return joined or None


def result_of(message: dict[str, Any], pages: list[Any] | None) -> Any:
    """What a request is answered with; None: nothing."""
    params = message.get("params") or {}
    match message["method"]:
        case "initialize":
            return {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": SERVER, "version": "1"},
            }
        case "tools/list" if pages is not None:
            return pages[int(params.get("cursor") or 0)]
        case "ping":
            return {}
        case _:
            return None


def main() -> None:
    pages = None if sys.argv[1] == "--mute" else json.loads(Path(sys.argv[1]).read_text("utf-8"))
    declared: dict[str, Any] = {}
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("method") == "initialize":
            declared = message["params"]["capabilities"]
        if "id" not in message:
            continue
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        result = listed(message, pages, declared) if isinstance(pages, dict) else result_of(message, pages)
        if result is not None:
            print(json.dumps({**answer, "result": result}), flush=True)
        elif message["method"] == "tools/list" and not isinstance(pages, dict):
            Path("asked").write_text(str(os.getpid()), "ascii")
        else:
            print(json.dumps({**answer, "error": {"code": -32601, "message": "no such method"}}), flush=True)


if __name__ == "__main__":
    main()
