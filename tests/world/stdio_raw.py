"""A raw stdio server that can misbehave: a script of its own, standard library only, run with `python -I -S`.

It answers `initialize` and, to `tools/call`, does what the tool's name says. `read` gives every line that it has
read so far, so that a test can see what reached it. Arguments `--NAME` make it do something before it reads.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

READ: list[str] = []
LISTENING: list[Any] = []
Id = Any
Arguments = dict[str, Any]


def write(text: str, encoding: str = "utf-8") -> None:
    sys.stdout.buffer.write(text.encode(encoding))
    sys.stdout.buffer.flush()


def say(**message: Any) -> None:
    write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")


def answer(id: Id, value: Any = "sound") -> None:
    text = value if isinstance(value, str) else json.dumps(value)
    say(id=id, result={"content": [{"type": "text", "text": text}]})


def line(template: str, encoding: str = "utf-8") -> Callable[[Id, Arguments], None]:
    """Writes text in which ID stands for the request's id."""
    return lambda id, _: write(template.replace("ID", json.dumps(id)), encoding)


def ask(id: Id, arguments: Arguments) -> None:
    """Asks the client first, and answers with what it said."""
    for asked in arguments.get("ids", ["q1"]):
        say(id=asked, method="elicitation/create", params={"message": "name?"})
    while READ:
        read_line()
        got = json.loads(READ[-1])
        if "method" not in got:
            answer(id, got)
            return


def hang(_: Id, __: Arguments) -> None:
    while True:
        time.sleep(60)


def mute(_: Id, __: Arguments) -> None:
    pass


def read(id: Id, _: Arguments) -> None:
    answer(id, READ)


def echo(id: Id, arguments: Arguments) -> None:
    answer(id, {name: value for name, value in arguments.items() if name != "_meta"})


def die(_: Id, arguments: Arguments) -> None:
    if arguments.get("signal"):
        os.kill(os.getpid(), arguments["signal"])
    os._exit(arguments.get("code", 3))


def endless(id: Id, arguments: Arguments) -> None:
    """A line of so many MiB; `end` says how it ends."""
    for _ in range(arguments["mib"]):
        write("x" * (1 << 20))
    write(arguments.get("end", "\n"))
    if arguments.get("answer", True):
        answer(id)


def long_ask(id: Id, arguments: Arguments) -> None:
    """A request of so many bytes, and what comes of it."""
    say(method="elicitation/create", params={"message": "z" * arguments["bytes"]}, id="q1")
    read_line()
    answer(id, json.loads(READ[-1]))


def huge_last(id: Id, arguments: Arguments) -> None:
    """As some libraries write it: the id comes last."""
    say(result={"content": [{"type": "text", "text": "y" * arguments["bytes"]}]}, id=id)


def huge(id: Id, arguments: Arguments) -> None:
    answer(id, "y" * arguments["bytes"])


def halves(id: Id, arguments: Arguments) -> None:
    """An answer of so many bytes of which all but the end comes, and its end after the next message; says so between
    the two on stderr."""
    write(f'{{"jsonrpc":"2.0","id":{json.dumps(id)},"result":{{"content":[{{"type":"text","text":"')
    write("y" * arguments["bytes"])
    print("half", file=sys.stderr, flush=True)
    read_line()
    write('"}]}}\n')


def floods_stderr(id: Id, arguments: Arguments) -> None:
    for number in range(arguments["lines"]):
        sys.stderr.write(f"line {number} \x1b[31m" + "e" * 2_000 + "\n")
    sys.stderr.flush()
    answer(id)


def ignore_everything(_: int, __: object) -> None:
    pass


def stubborn(id: Id, _: Arguments) -> None:
    """Survives the end of its stdin and SIGTERM."""
    signal.signal(signal.SIGTERM, ignore_everything)
    answer(id, str(os.getpid()))
    while True:
        time.sleep(60)


def forks(id: Id, arguments: Arguments) -> None:
    """Grandchildren that hold its pipes: one that ends when asked, one that does not."""
    commands = ["exec sleep 300", "trap '' TERM; while :; do sleep 300; done"][: arguments.get("count", 2)]
    pids = [subprocess.Popen(["/bin/sh", "-c", command]).pid for command in commands]
    answer(id, [os.getpid(), *pids])
    if arguments.get("leave"):
        sys.stdout.flush()
        os._exit(0)


def closes_stdout(_: Id, __: Arguments) -> None:
    os.close(1)
    while True:
        time.sleep(60)


def notes(id: Id, arguments: Arguments) -> None:
    """So many notifications first: progress where there is a token, else log messages."""
    token = arguments["_meta"].get("progressToken")
    for number in range(arguments["count"]):
        if token is not None:
            say(method="notifications/progress", params={"progressToken": token, "progress": number})
        else:
            data = "n" * arguments.get("bytes", 1)
            say(method="notifications/message", params={"level": "info", "data": data})
    answer(id)


def tell(id: Id, arguments: Arguments) -> None:
    """Writes these messages, with the request's id where they say ID; answers between them, or not at all."""
    write(json.dumps(arguments["message"]).replace('"ID"', json.dumps(id)) + "\n")
    if arguments.get("answer", True):
        answer(id)
    if "after" in arguments:
        write(json.dumps(arguments["after"]) + "\n")


def stamped(id: Id) -> dict[str, Any]:
    return {"_meta": {"io.modelcontextprotocol/subscriptionId": id}}


def change(id: Id, arguments: Arguments) -> None:
    """Tells every subscription of a `task`, if there is one, and that the tools have changed."""
    for listening in LISTENING:
        if "task" in arguments:
            told = {"taskId": arguments["task"], "status": "working", **stamped(listening)}
            say(method="notifications/tasks", params=told)
        say(method="notifications/tools/list_changed", params=stamped(listening))
    answer(id)


def close(id: Id, arguments: Arguments) -> None:
    """Ends every subscription, with its response or, as stdio servers may, by cancelling it."""
    for listening in LISTENING:
        if arguments.get("cancel"):
            say(method="notifications/cancelled", params={"requestId": listening})
        else:
            say(id=listening, result=stamped(listening))
    LISTENING.clear()
    answer(id)


def fail(id: Id, arguments: Arguments) -> None:
    say(id=id, error={"code": arguments["code"], "message": "no", "data": {"a": 1}})


def environment(id: Id, _: Arguments) -> None:
    answer(id, dict(os.environ))


TOOLS: dict[str, Callable[[Id, Arguments], None]] = {
    "ask": ask,
    "change": change,
    "close": close,
    "closes_stdout": closes_stdout,
    "die": die,
    "echo": echo,
    "endless": endless,
    "environment": environment,
    "fail": fail,
    "floods_stderr": floods_stderr,
    "forks": forks,
    "halves": halves,
    "hang": hang,
    "huge": huge,
    "huge_last": huge_last,
    "long_ask": long_ask,
    "mute": mute,
    "notes": notes,
    "read": read,
    "stubborn": stubborn,
    "tell": tell,
    # lines that are no valid answers
    "both": line('{"jsonrpc":"2.0","id":ID,"result":{},"error":{"code":1,"message":"x"}}\n'),
    "bom": line('\ufeff{"jsonrpc":"2.0","id":ID,"result":{}}\n'),
    "deep": line('{"jsonrpc":"2.0","id":ID,"result":' + "[" * 200 + "]" * 200 + "}\n"),
    "duplicate": line('{"jsonrpc":"2.0","id":ID,"result":{},"result":{"a":1}}\n'),
    "error_code": line('{"jsonrpc":"2.0","id":ID,"error":{"code":"1","message":"x"}}\n'),
    "neither": line('{"jsonrpc":"2.0","id":ID}\n'),
    "not_a_number": line('{"jsonrpc":"2.0","id":ID,"result":{"n":NaN}}\n'),
    "other_type": line('{"jsonrpc":"2.0","id":"ID","result":{}}\n'),
    "old_version": line('{"jsonrpc":"1.0","id":ID,"result":{}}\n'),
    "trailing": line('{"jsonrpc":"2.0","id":ID,"result":{}}}\n'),
    "two_on_a_line": line('{"jsonrpc":"2.0","id":ID,"result":{}}{"jsonrpc":"2.0","id":ID,"result":{}}\n'),
    # lines that are nobody's, and a sound answer after them
    "chatter": line('Server started!\nD\'oh\n[1]\n"x"\n{"jsonrpc":"2.0","id":ID,"result":{"sound":true}}\n'),
    "double": line('{"jsonrpc":"2.0","id":ID,"result":{"sound":true}}\n{"jsonrpc":"2.0","id":ID,"result":{"no":1}}\n'),
    "other_id": line('{"jsonrpc":"2.0","id":999,"result":{}}\n{"jsonrpc":"2.0","id":ID,"result":{"sound":true}}\n'),
    "latin": line('{"x":"\xff"}\n{"jsonrpc":"2.0","id":ID,"result":{"sound":true}}\n', "latin-1"),
    # a sound beginning, and a bad end
    "news_then_bad": line(
        '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}\n'
        '{"jsonrpc":"1.0","id":ID,"result":{}}\n'
    ),
    # an error without an id: it can only be for the one request that is open
    "nameless": line('{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"lost"}}\n'),
}

INITIALIZE: dict[str, Callable[[Id, Arguments], None]] = {
    "sound": lambda id, params: say(
        id=id,
        result={"protocolVersion": params["protocolVersion"], "capabilities": {}, "serverInfo": {"name": "raw"}},
    ),
    "refuses": lambda id, _: say(id=id, error={"code": -32602, "message": "unsupported"}),
    "null": lambda id, _: say(id=id, result=None),
    "malformed": line('{"jsonrpc":"2.0","id":ID,"result":{"protocolVersion":"2025-11-25"}}}\n'),
    "mute": mute,
    "dies": die,
}


def read_line() -> None:
    """Reads a line; at the end of stdin the server ends, as it should."""
    got = sys.stdin.readline()
    if not got:
        sys.exit(0)
    READ.append(got.rstrip("\n"))


def serve(initialize: str) -> None:
    while True:
        read_line()
        message = json.loads(READ[-1])
        for request in message if isinstance(message, list) else [message]:
            handle(request, initialize)


def handle(request: dict[str, Any], initialize: str) -> None:
    params = request.get("params", {})
    match request.get("method"):
        case "initialize":
            INITIALIZE[initialize](request["id"], params)
        case "tools/call":
            arguments = {**params.get("arguments", {}), "_meta": params.get("_meta", {})}
            TOOLS[params["name"]](request["id"], arguments)
        case "ping" | "tools/list":
            say(id=request["id"], result={"tools": [], "resultType": "complete"})
        case "subscriptions/listen":
            LISTENING.append(request["id"])
            say(method="notifications/subscriptions/acknowledged", params=stamped(request["id"]))
        case "notifications/poke":
            say(**params["message"])
        case _:
            pass


def main() -> None:
    options = {name: value for name, _, value in (option[2:].partition("=") for option in sys.argv[1:])}
    if "pids" in options:
        with open(options["pids"], "a", encoding="ascii") as pids:
            child = subprocess.Popen(["/bin/sh", "-c", "trap '' TERM; while :; do sleep 300; done"])
            pids.write(f"{os.getpid()}\n{child.pid}\n")
    if "deaf" in options:
        hang(None, {})
    if "dies" in options:
        sys.exit(7)
    serve(options.get("initialize", "sound"))


if __name__ == "__main__":
    main()
