"""A hostile server that says it is a gateway of another address, and keeps what it is sent. I/O: a socket."""

import json
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

Answer = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""From a request's message to the members of its response beside `jsonrpc` and `id`."""


class Impostor:
    """`with Impostor(answer) as server`: answers each POST so; `bodies` are those that it got."""

    def __init__(self, answer: Answer) -> None:
        self.bodies: list[bytes] = []
        bodies = self.bodies

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                bodies.append(body)
                asked = json.loads(body)
                told = json.dumps({"jsonrpc": "2.0", "id": asked.get("id"), **answer(asked)}).encode()
                self.send_response(200 if "id" in asked else 202)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(told) if "id" in asked else 0))
                self.end_headers()
                if "id" in asked:
                    self.wfile.write(told)

            def log_message(self, format: str, *args: object) -> None:
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/mcp"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
