"""The differences that are known, each with its reason. `docs/reference/interoperability.md` is written from this."""

from tests.interop.compare import Difference

LISTS = ("tools", "resources", "templates", "prompts")

DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        name="what a call needs",
        reason="with proofs, what is listed says in its `_meta` which scope it needs, and for whom a proof is made out",
        ways=("connect*",),
        steps=LISTS,
        members=("ratify_scope", "ratify_sensitive", "ratify_binding", "ratify_verifier"),
    ),
    Difference(
        name="a list of one's own",
        reason="with proofs, what is listed is not the same for everybody: its `cacheScope` is `private`",
        ways=("connect*",),
        steps=LISTS[1:],
        members=("cacheScope",),
    ),
    Difference(
        name="several servers that speak as one",
        reason="what the merged endpoint says of itself is made of what all servers say: their capabilities and "
        "instructions together, the oldest revision, the gateway's name",
        ways=("connect to all as one",),
        steps=("server",),
        direct='"result"',
        through='"result"',
    ),
    Difference(
        name="the revision that all speak",
        reason="some of these servers speak none but the older revisions, so all as one do: a client that speaks both "
        "eras with a server directly has a session here, without what only 2026-07-28 has",
        ways=("connect to all as one",),
        clients=("python-sdk-2", "typescript-sdk-2"),
        members=("io.modelcontextprotocol/serverInfo", "ttlMs", "cacheScope", "resultType"),
    ),
    Difference(
        name="methods of older revisions",
        reason="as above: these methods are none of 2026-07-28, and in a session they are",
        ways=("connect to all as one",),
        clients=("python-sdk-2", "typescript-sdk-2"),
        steps=("ping", "log_level", "subscribe", "unsubscribe"),
        direct='"code": -32601|"error"',
        through='"result"',
    ),
    Difference(
        name="servers that ask in a session",
        reason="as above: what these servers ask their clients for while a call is open they ask in sessions alone",
        ways=("connect to all as one",),
        clients=("python-sdk-2", "typescript-sdk-2"),
        steps=("call ask_*", "call test_sampling", "call test_elicitation*"),
        direct='"isError": true|"error"',
        through='"isError": false',
    ),
    Difference(
        name="servers that can ask nowhere",
        reason="as above, of a server that keeps no sessions for older clients over HTTP: it can ask them for nothing "
        "either, and says so in other words, or waits in vain",
        ways=("connect to all as one",),
        clients=("python-sdk-2", "typescript-sdk-2"),
        servers=("typescript-sdk-2",),
        steps=("call ask_*",),
        direct="not available on protocol revision 2026-07-28",
        through="does not support form elicitation|[Tt]ime",
    ),
    Difference(
        name="rounds in a session",
        reason="as above: a result that asks for input is of 2026-07-28; in a session the server's library refuses it",
        ways=("connect to all as one",),
        clients=("python-sdk-2", "typescript-sdk-2"),
        servers=("python-sdk-2",),
        steps=("call test_input_required_*", "prompt test_input_required_*", "call test_streaming_elicitation"),
        through="Handler returned an invalid result",
    ),
    Difference(
        name="log messages in a session",
        reason="as above: in a session they come unasked; elsewhere each request has to ask, and this client's do not",
        ways=("connect to all as one",),
        clients=("typescript-sdk-2",),
        steps=("call say", "call test_tool_with_logging", "call test_logging_tool"),
        direct=r'"log": \[\]',
        through='"logger"',
    ),
    Difference(
        name="a list that others have",
        reason="a server without such a list adds nothing to that of all",
        ways=("connect to all as one",),
        steps=LISTS[1:],
        direct='"code": -32601',
        through='"result": (\\[\\]|\\{)',
    ),
    Difference(
        name="a client that says what its server has not",
        reason="one client prints a line where a server does not advertise a list; as one they advertise what any has",
        ways=("connect to all as one",),
        clients=("typescript-sdk-2",),
        steps=("a line that is none of the program's",),
        direct="does not advertise",
        through="^null$",
    ),
    Difference(
        name="a server that is down meanwhile",
        reason="what goes to all servers names those that do not answer; some are restarted while a client is there",
        ways=("connect to all as one",),
        steps=("ping", "log_level"),
        direct='"result": {}',
        through='"result": {"_meta": {"dev.accredit/unavailable"',
        sometimes=True,
    ),
    Difference(
        name="a logger's server",
        reason="where several servers log on one stream, the logger begins with the server's name",
        ways=("connect to all as one",),
        members=("logger",),
    ),
    Difference(
        name="an input that the client can't give",
        reason="a server must not ask for an input that the client did not declare (SEP-2322); the gateway refuses "
        "such an answer before the client does",
        clients=("openai-agents",),
        servers=("python-sdk-2",),
        steps=("call test_streaming_elicitation", "call test_input_required_*", "prompt test_input_required_*"),
        direct="Server returned InputRequiredResult",
        through="an input request that the client did not declare",
    ),
    Difference(
        name="unknown tool",
        reason="the gateway answers for a tool that is not in its catalog: with proofs, none reaches the server",
        ways=("connect*",),
        steps=("call of no tool",),
        direct="nobody",
        through="not in the catalog",
    ),
    Difference(
        name="unknown method",
        reason="with proofs, a method that the revision does not have is not forwarded; the gateway says so itself",
        ways=("connect*",),
        steps=("ping", "log_level", "subscribe", "unsubscribe"),
        direct='"code": -32601',
        through='"code": -32601',
    ),
    Difference(
        name="the environment of a command",
        reason="a server that the gateway starts has the gateway's environment; one that a client starts, what that "
        "client chooses to give (with `wrap` that, and two variables that the gateway's own start adds)",
        ways=("serve -- COMMAND", "wrap"),
        steps=("call get-env",),
        direct='"PATH"',
        through='"PATH"',
    ),
    Difference(
        name="an event that is too long for its client",
        reason="some clients refuse an answer of more than a megabyte in a stream over HTTP; "
        "`connect` brings it by stdio",
        ways=("connect*",),
        steps=("call big_image",),
        direct="Server-sent event exceeded",
        through='"result"',
    ),
    Difference(
        name="a server that dies under an open call",
        reason="a call that is open when its server dies is answered with 502, and clients on the Python SDK 1.x take "
        "any such answer for the end of everything; directly they go on, but have lost their session as well",
        ways=("serve -- COMMAND",),
        clients=("python-sdk-1", "langchain"),
        steps=("end", "works after a restart of the server"),
        direct='"recovered": false|"result": {}|BrokenResourceError',
        through="502 Bad Gateway|^null$",
    ),
    Difference(
        name="a session that ends with its server's process",
        reason="over HTTP this server keeps no sessions for older clients; behind `serve -- COMMAND` each has a "
        "process, whose end is a 404, and these clients do not initialize anew then, as the specification demands",
        ways=("serve -- COMMAND",),
        servers=("typescript-sdk-2",),
        steps=("works after a restart of *",),
        direct='"recovered": true',
        through='"recovered": false|^null$',
    ),
    Difference(
        name="a session that is not known",
        reason="this server answers for a session that it does not know with 400, which ends clients on the Python SDK "
        "1.x; the gateway's own sessions are answered for with 404, as the specification says: these go on, but do "
        "not initialize anew",
        ways=("serve -- COMMAND",),
        clients=("python-sdk-1",),
        servers=("everything",),
        steps=("works after a restart of *",),
        direct="^null$",
        through='"recovered": false',
    ),
    Difference(
        name="a server's last word",
        reason="clients on the Python SDK 1.x end with an error where a server by stdio still answers a call that was "
        "given up while they close; over HTTP they hear nothing of that",
        ways=("serve -- COMMAND",),
        clients=("python-sdk-1", "langchain"),
        steps=("end",),
        direct="BrokenResourceError",
        through='"result": {}',
        sometimes=True,
    ),
    Difference(
        name="a word too late for its client",
        reason="as above, where `connect` is the server by stdio: what is said while such a client closes goes on",
        ways=("connect*",),
        clients=("python-sdk-1", "langchain"),
        steps=("end",),
        through="BrokenResourceError",
        sometimes=True,
    ),
    Difference(
        name="a client that does not survive what connect does",
        reason="some clients end when their server over HTTP is restarted, and none goes on when one over stdio is; "
        "`connect` begins a new session for them",
        ways=("connect*",),
        steps=("works after a restart of *", "restart *", "end"),
        direct='^null$|"recovered": false|"error"',
        through='"recovered": true|"result"',
    ),
)
