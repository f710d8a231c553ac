"""The differences that are known, each with its reason. `docs/reference/interoperability.md` is written from this."""

from tests.interop.compare import Difference

LISTS = ("tools", "resources", "templates", "prompts")

DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        name="what a call needs",
        reason="with proofs, each listed item says in its `_meta` which scope it needs, and for whom to make a proof",
        ways=("connect*",),
        steps=LISTS,
        members=("ratify_scope", "ratify_sensitive", "ratify_binding", "ratify_verifier"),
    ),
    Difference(
        name="a list of one's own",
        reason="with proofs, a list is not the same for everybody: its `cacheScope` is `private`",
        ways=("connect*",),
        steps=LISTS[1:],
        members=("cacheScope",),
    ),
    Difference(
        name="several servers that speak as one",
        reason="the merged endpoint describes itself by what all servers say: their capabilities and instructions "
        "together, the oldest revision, and the gateway's name",
        ways=("connect to all as one",),
        steps=("server",),
        direct='"result"',
        through='"result"',
    ),
    Difference(
        name="the revision that all speak",
        reason="some of these servers speak only the older revisions, so all as one do. A client of both eras has a "
        "session here, without what only 2026-07-28 has",
        ways=("connect to all as one",),
        clients=("python-sdk-2", "typescript-sdk-2"),
        members=("io.modelcontextprotocol/serverInfo", "ttlMs", "cacheScope", "resultType"),
    ),
    Difference(
        name="methods of older revisions",
        reason="as above: 2026-07-28 does not have these methods; a session has them",
        ways=("connect to all as one",),
        clients=("python-sdk-2", "typescript-sdk-2"),
        steps=("ping", "log_level", "subscribe", "unsubscribe"),
        direct='"code": -32601|"error"',
        through='"result"',
    ),
    Difference(
        name="servers that ask in a session",
        reason="as above: these servers can ask the client for something during a call, but only if there is a session",
        ways=("connect to all as one",),
        clients=("python-sdk-2", "typescript-sdk-2"),
        steps=("call ask_*", "call test_sampling", "call test_elicitation*"),
        direct='"isError": true|"error"',
        through='"isError": false',
    ),
    Difference(
        name="servers that can ask nowhere",
        reason="as above: this server keeps no sessions for older clients over HTTP. So it can't ask them for "
        "anything, and says so in other words, or waits in vain",
        ways=("connect to all as one",),
        clients=("python-sdk-2", "typescript-sdk-2"),
        servers=("typescript-sdk-2",),
        steps=("call ask_*",),
        direct="not available on protocol revision 2026-07-28",
        through="does not support form elicitation|[Tt]ime",
    ),
    Difference(
        name="rounds in a session",
        reason="as above: only 2026-07-28 has results that ask for input. In a session the server's library refuses "
        "them",
        ways=("connect to all as one",),
        clients=("python-sdk-2", "typescript-sdk-2"),
        servers=("python-sdk-2",),
        steps=("call test_input_required_*", "prompt test_input_required_*", "call test_streaming_elicitation"),
        through="Handler returned an invalid result",
    ),
    Difference(
        name="log messages in a session",
        reason="as above: in a session they come unasked. Elsewhere each request has to ask for them, and this "
        "client's requests do not",
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
        reason="one client prints a line if a server does not advertise a list. The merged endpoint advertises "
        "every list that any server has",
        ways=("connect to all as one",),
        clients=("typescript-sdk-2",),
        steps=("a line that is none of the program's",),
        direct="does not advertise",
        through="^null$",
    ),
    Difference(
        name="a server that is down meanwhile",
        reason="an answer from all servers names those that do not answer. Some are restarted while a client is there",
        ways=("connect to all as one",),
        steps=("ping", "log_level"),
        direct='"result": {}',
        through='"result": {"_meta": {"dev.accredit/unavailable"',
        sometimes=True,
    ),
    Difference(
        name="a logger's server",
        reason="if several servers log on one stream, the logger begins with the server's name",
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
        reason="the gateway itself refuses a tool that its catalog does not have; where proofs are required, no such"
        " call reaches the server",
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
        reason="a server that the gateway starts has the gateway's environment. A server that a client starts has "
        "what the client gives it; with `wrap` it has that, and two variables that the gateway's own start "
        "adds",
        ways=("serve -- COMMAND", "wrap"),
        steps=("call get-env",),
        direct='"PATH"',
        through='"PATH"',
    ),
    Difference(
        name="an event that is too long for its client",
        reason="some clients refuse an answer of more than a megabyte in a stream over HTTP. `connect` passes it "
        "over stdio",
        ways=("connect*",),
        steps=("call big_image",),
        direct="Server-sent event exceeded",
        through='"result"',
    ),
    Difference(
        name="a server that dies under an open call",
        reason="if a server dies, its open call is answered with 502. Clients on the Python SDK 1.x then think "
        "that the connection has ended. Without the gateway they go on, but have lost their session as well",
        ways=("serve -- COMMAND",),
        clients=("python-sdk-1", "langchain"),
        steps=("end", "works after a restart of the server"),
        direct='"recovered": false|"result": {}|BrokenResourceError',
        through="502 Bad Gateway|^null$",
    ),
    Difference(
        name="a session that ends with its server's process",
        reason="over HTTP this server keeps no sessions for older clients. Behind `serve -- COMMAND` each session "
        "has a process of its own. When that process ends, the session is answered with 404. These clients then "
        "do not initialize again, though the specification demands it",
        ways=("serve -- COMMAND",),
        servers=("typescript-sdk-2",),
        steps=("works after a restart of *",),
        direct='"recovered": true',
        through='"recovered": false|^null$',
    ),
    Difference(
        name="a session that is not known",
        reason="this server answers 400 for an unknown session, which ends clients on the Python SDK 1.x. For its "
        "own sessions the gateway answers 404, as the specification says. Then these clients go on, but do "
        "not initialize anew",
        ways=("serve -- COMMAND",),
        clients=("python-sdk-1",),
        servers=("everything",),
        steps=("works after a restart of *",),
        direct="^null$",
        through='"recovered": false',
        sometimes=True,  # where the server is not there again in time, these clients end by a 502 here, too
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
        reason="as above, with `connect` as the server over stdio: messages that come while such a client closes "
        "still pass",
        ways=("connect*",),
        clients=("python-sdk-1", "langchain"),
        steps=("end",),
        through="BrokenResourceError",
        sometimes=True,
    ),
    Difference(
        name="a client that does not survive what connect does",
        reason="some clients end when their server over HTTP is restarted, and all end when one over stdio is. "
        "`connect` begins a new session for them",
        ways=("connect*",),
        steps=("works after a restart of *", "restart *", "end"),
        direct='^null$|"recovered": false|"error"',
        through='"recovered": true|"result"',
        sometimes=True,  # whether a client ends with an error as well depends on what was on its way
    ),
)
