"""A stdio server of the legacy era that lists whatever tools a file says. I/O: stdin, stdout, that file.

python listing_server.py PAGES.json      PAGES: an array of results of `tools/list`; a cursor is the next one's number
python listing_server.py --mute          writes its process id into `asked` in place of an answer to `tools/list`
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

SERVER = "tricky\n[server]"


def result_of(message: dict[str, Any], pages: list[Any] | None) -> object:
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
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        result = result_of(message, pages)
        if result is not None:
            print(json.dumps({**answer, "result": result}), flush=True)
        elif message["method"] == "tools/list":
            Path("asked").write_text(str(os.getpid()), "ascii")
        else:
            print(json.dumps({**answer, "error": {"code": -32601, "message": "no such method"}}), flush=True)


if __name__ == "__main__":
    main()
