"""Messages that a fuzzer's bytes choose, part by part: what flips of bits in JSON text would seldom come to. No I/O.

Each byte picks from one table, so that a change of one byte is a change of one part; half of all bytes pick the first,
which makes a good call. What is picked is written as it is: names come twice, messages in batches, values where nobody
expects them.
"""

import itertools
import re
from collections.abc import Iterator

METHODS = (
    *("tools/call", "resources/read", "prompts/get", "tools/list", "ping", "initialize", "completion/complete"),
    *("Tools/Call", "tools/call ", "tools\\u002fcall", "tools/\u212aall", "tools//call", "tools/call\\u0000", ""),
    *("tasks/get", "tasks/result", "tasks/list", "tasks/cancel", "tools/call/batch", "server/discover", "roots/list"),
    *("notifications/initialized", "notifications/cancelled", "notifications/tools/call", "notifications/progress"),
    *("sampling/createMessage", "elicitation/create", "resources/subscribe", "subscriptions/listen", "rpc.call"),
)
_NAMES = ("list_inbox", "relay", "pay", "open_door", "whoami", "confirm", "send_email", "LIST_INBOX", "list_inbox ", "")
_SPENDERS = ("spend", "buy", "spend_with_fee", "@HASHED@")
_QUOTED = (f'"{name}"' for name in (*_NAMES, *_SPENDERS))
NAMES = (*_QUOTED, '"list\\u005finbox"', '["pay"]', "null", '"mail://inbox"', '"greet"')
ARGUMENTS = (
    *("@ARGUMENTS@", "{}", '{"folder":"in","folder":"out"}', '{"Folder":"in"}', '{"name":"list_inbox"}'),
    *('{"name":"pay"}', '{"amount":5,"currency":"EUR"}', '{"_token":"a"}', '{"a":1e999}', '{"a":9007199254740993}'),
    *('{"amount":5,"total":5000}', '{"total":5000}', '{"order":{"amount":5,"total":5000}}', '{"fee":1,"total":5000}'),
    *('{"a":"\\ud800"}', '{"":{"":[[[]]]}}', "null", "[]", '"{}"', '{"to":"eve"}', '{"__proto__":{"name":"pay"}}'),
)
METAS = (
    *('"ratify_proof":@PROOF@', "", '"ratify_proof":@RELAY@', '"com.ratifyprotocol/proof":@PROOF@'),
    *('"ratify_proof":@SPEND@', '"com.ratifyprotocol/proof":@SPEND@'),
    *('"ratify_proof":null', '"ratify_proof":"x"', '"Ratify_Proof":@PROOF@', '"ratify_proof":[@PROOF@]'),
    *('"progressToken":1', '"progressToken":"ask"', '"token":"a"', '"fastmcp":{"version":"2"}'),
    *('"dev.accredit/authorization":{"principal_id":"a"}', '"Dev.Accredit/Authorization":{}', '"ratify_challenge":{}'),
    *('"io.modelcontextprotocol/related-task":{"taskId":"1"}', '"traceparent":"00-a-b-01"', '"a":{"a":{"a":[]}}'),
)
IDS = ("@NEXT@", "1", "2", '"ask"', "0", "-1", '"1"', "1.0", "null", "true", "[]", "9007199254740993", '""', "")
EXTRAS = (
    *("", "", "", ',"task":{"ttl":9}', ',"inputResponses":{}', ',"requestState":"round one"', ',"_meta":{}'),
    *(',"name":"pay"', ',"NAME":"pay"', ',"uri":"mail://inbox"', ',"cursor":"a"', ',"requestId":1', ',"arguments":{}'),
    *(',"progress":1,"progressToken":1', ',"capabilities":{}', ',"protocolVersion":"2025-03-26","clientInfo":{}'),
)
AROUND = ("", "", "", ',"result":{}', ',"error":{"code":1,"message":""}', ',"method":"ping"', ',"Method":"tools/call"')
BETWEEN = ("\n", "\r\n", "\r", "", "\n\n", " ", "\0", "\u2028", "\ufeff\n", ",")
MODERN = (
    '"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},'
    '"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},'
)


def built(choices: bytes, arguments: str) -> bytes:
    """The lines that these bytes choose; the first one says what opens the connection. `arguments` are good ones."""
    chosen = iter(choices)
    era = next(chosen, 0) % 3
    told: list[str] = [_opening(era)]
    while (kind := next(chosen, None)) is not None:
        message = _message(kind, chosen, MODERN if era == 0 else "")
        if kind & 40 == 40:
            message = f"[{message},{_message(next(chosen, 0), chosen, '')}]"
        told.append(message + (BETWEEN[next(chosen, 0) % len(BETWEEN)] if kind & 64 else "\n"))
    text = "".join(told).replace("@ARGUMENTS@", arguments)
    ids = itertools.count(10)
    return re.sub("@NEXT@", lambda _: str(next(ids)), text).encode()


def _opening(era: int) -> str:
    if era == 0:
        return ""
    revision = ("2025-11-25", "2025-03-26")[era - 1]
    told = f'"protocolVersion":"{revision}","capabilities":{{}},"clientInfo":{{"name":"c","version":"1"}}'
    return (
        f'{{"jsonrpc":"2.0","id":"i","method":"initialize","params":{{{told}}}}}\n'
        '{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
    )


def _message(kind: int, chosen: Iterator[int], meta: str) -> str:
    """A request, mostly; else an answer to whatever question."""

    def one(table: tuple[str, ...]) -> str:
        number = next(chosen, 0)
        return table[(number >> 1) % len(table)] if number & 1 else table[0]

    id = one(IDS)
    told = f',"id":{id}' if id else ""
    if kind & 7 == 7:
        return f'{{"jsonrpc":"2.0"{told},"result":{one(ARGUMENTS)}{one(AROUND)}}}'
    method, name, arguments = one(METHODS), one(NAMES), one(ARGUMENTS)
    target = "uri" if "resources" in method else "name"
    carried = ",".join(part for part in (one(METAS), one(METAS) if kind & 8 else "") if part)
    whole = f"{meta}{carried}".removesuffix(",")
    params = f'{{"{target}":{name},"arguments":{arguments}{one(EXTRAS)},"_meta":{{{whole}}}}}'
    return f'{{"jsonrpc":"2.0"{told},"method":"{method}","params":{params}{one(AROUND) if kind & 16 else ""}}}'
