"""A server that answers badly, in a different way for each tool: what the gateway is for. Standard library only.

python examples/hostile_server.py --port 9001
"""

import argparse
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SOUND = '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"sound"}],"resultType":"complete"}}'

ANSWERS: dict[str, tuple[str, str]] = {
    "html": ("text/html", "<html>502 Bad Gateway</html>"),
    "cut": ("application/json", '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"te'),
    "garbage": ("application/json", SOUND + "}"),
    "foreign_id": ("application/json", '{"jsonrpc":"2.0","id":"somebody else\'s","result":{}}'),
    "two_results": ("application/json", '{"jsonrpc":"2.0","id":%s,"result":{},"r\\u0065sult":{"content":[]}}'),
    "infinity": ("application/json", '{"jsonrpc":"2.0","id":%s,"result":{"content":[],"score":1e999}}'),
    "deep": ("application/json", '{"jsonrpc":"2.0","id":%s,"result":' + "[" * 100_000 + "]" * 100_000 + "}"),
    "bad_event": ("text/event-stream", "data: {not json}\n\n"),
    "no_answer": ("text/event-stream", ": thinking\n\n"),
    "sound": ("application/json", SOUND),
}


class Handler(BaseHTTPRequestHandler):
    """Answers `tools/call` with what the called tool's name stands for."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Reads one message and answers it as badly as it was asked to."""
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        content_type, text = ANSWERS[message["params"]["name"]]
        body = (text.replace("%s", json.dumps(message["id"]))).encode()
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Set-Cookie", "leak=1")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Stays silent."""


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, required=True, help="0: any free port")
    with ThreadingHTTPServer(("127.0.0.1", parser.parse_args().port), Handler) as server:
        print(f"listening on http://127.0.0.1:{server.server_port}/mcp", file=sys.stderr, flush=True)
        server.serve_forever()
