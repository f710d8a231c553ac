"""The servers of the matrix: how each is started, what it finds on its disk, and the steps that show all of it.

I/O: `prepare` writes files; the commands run elsewhere.
"""

import hashlib
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct
from tests.interop.environments import NODE, OWN, ROOT, Environments
from tests.interop.steps import LISTS, Step, call, cancel, complete, hearing, loosely, prompt, read, step

SCOPE = "@modelcontextprotocol"
NOTE = "first line\nsecond line\n"
COMMIT_DATE = "2026-01-01T00:00:00Z"
LONG_SECONDS = 3600
"""How long a call takes that is given up: it ends by nothing else."""

Command = Callable[[Environments, Path], list[str]]


class Server(Struct, frozen=True):
    """A server. `stdio` and `http` give its commands for a folder of its own; the latter listens on `$PORT`.

    `packages` are those of its environment that it is made of.
    `recover` is the step that works as long as the server does. `left_out`: tools that no step calls, with the reason.
    `left` reads what its tools have done to its folder.
    """

    name: str
    stdio: Command
    steps: Callable[[Path], list[Step]]
    recover: str
    environment: str
    packages: tuple[str, ...]
    prepare: Callable[[Path], None] = lambda _: None
    left: Callable[[Path], Any] = lambda _: None
    http: Command | None = None
    left_out: dict[str, str] = {}


def _everything(_: Path) -> list[Step]:
    dynamic = "demo://resource/dynamic/text"
    return [
        *LISTS,
        call("echo", message="héllo \U0001f600"),
        call("get-sum", a=2, b=3.5),
        call("get-annotated-message", messageType="error", includeImage=True),
        loosely(call("get-env")),
        call("get-resource-links", count=3),
        call("get-resource-reference", resourceType="Text", resourceId=2),
        call("get-structured-content", location="Chicago"),
        call("get-tiny-image"),
        call("gzip-file-as-resource", name="a.gz", data="data:text/plain,hello", outputType="resource"),
        loosely(hearing(call("trigger-long-running-operation", duration=1, steps=4), progress=3)),
        cancel("trigger-long-running-operation", duration=LONG_SECONDS, steps=1),
        hearing(call("trigger-elicitation-request"), elicitation=1),
        hearing(call("trigger-url-elicitation", url="https://example.org/x", elicitationId="e1"), elicitation=1),
        hearing(call("trigger-sampling-request", prompt="capital of France?", maxTokens=5), sampling=1),
        call("get-roots-list"),
        call("simulate-research-query", topic="bees"),
        step("task", "task simulate-research-query", tool="simulate-research-query", arguments={"topic": "bees"}),
        call("echo", titled="call with wrong arguments", message=7),
        call("nobody", titled="call of no tool"),
        read("demo://resource/static/document/features.md"),
        read(f"{dynamic}/3"),
        loosely(read("demo://resource/dynamic/blob/3")),
        read("demo://nowhere"),
        prompt("simple-prompt"),
        prompt("args-prompt", city="Paris"),
        prompt("resource-prompt", resourceType="Text", resourceId="1"),
        prompt("nobody"),
        complete({"type": "ref/prompt", "name": "completable-prompt"}, "department", "E"),
        complete({"type": "ref/resource", "uri": dynamic + "/{resourceId}"}, "resourceId", "1"),
        step("log_level", level="debug"),
        step("subscribe", uri=f"{dynamic}/1"),
        hearing(call("toggle-subscriber-updates"), 15, updated=1),
        call("toggle-subscriber-updates", titled="call toggle-subscriber-updates again"),
        step("unsubscribe", uri=f"{dynamic}/1"),
        loosely(hearing(call("toggle-simulated-logging"), 15, log=1)),
        call("toggle-simulated-logging", titled="call toggle-simulated-logging again"),
    ]


def _files(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "note.txt").write_text(NOTE, "utf-8")
    (folder / "image.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4096)


def _written(folder: Path) -> dict[str, str]:
    files = sorted(each for each in folder.rglob("*") if each.is_file())
    return {str(each.relative_to(folder)): hashlib.sha256(each.read_bytes()).hexdigest() for each in files}


def _filesystem(folder: Path) -> list[Step]:
    note, other = f"{folder}/note.txt", f"{folder}/other.txt"
    return [
        *LISTS,
        call("list_allowed_directories"),
        call("read_file", path=note),
        call("read_text_file", path=note, head=1),
        call("read_media_file", path=f"{folder}/image.png"),
        call("read_multiple_files", paths=[note, f"{folder}/nothing"]),
        call("write_file", path=other, content="a\nb\n"),
        call("edit_file", path=other, edits=[{"oldText": "b", "newText": "c"}]),
        call("create_directory", path=f"{folder}/sub/deep"),
        call("list_directory", path=str(folder)),
        call("list_directory_with_sizes", path=str(folder), sortBy="size"),
        call("directory_tree", path=str(folder)),
        call("move_file", source=other, destination=f"{folder}/sub/moved.txt"),
        call("search_files", path=str(folder), pattern="*.txt"),
        call("get_file_info", path=note),
        call("read_text_file", titled="call beyond the folder", path="/etc/hostname"),
    ]


def _memory(_: Path) -> list[Step]:
    entity = {"name": "Ada", "entityType": "person", "observations": ["wrote a program"]}
    engine = {"name": "Engine", "entityType": "machine", "observations": []}
    relation = {"from": "Ada", "to": "Engine", "relationType": "programs"}
    return [
        *LISTS,
        step("subscribe", uri="memory://knowledge-graph"),
        hearing(call("create_entities", entities=[entity, engine]), updated=1),
        call("create_relations", relations=[relation]),
        call("add_observations", observations=[{"entityName": "Ada", "contents": ["counts"]}]),
        call("read_graph"),
        read("memory://knowledge-graph"),
        call("search_nodes", query="program"),
        call("open_nodes", names=["Ada"]),
        call("delete_observations", deletions=[{"entityName": "Ada", "observations": ["counts"]}]),
        call("delete_relations", relations=[relation]),
        call("delete_entities", entityNames=["Engine"]),
        call("add_observations", titled="call for nobody", observations=[{"entityName": "Eve", "contents": ["x"]}]),
    ]


def _by_roots(folder: Path) -> list[Step]:
    note, other = f"{folder}/note.txt", f"{folder}/other.txt"
    return [
        *LISTS,
        call("list_allowed_directories"),
        call("read_text_file", path=note, head=1),
        call("write_file", path=other, content="a\nb\n"),
        call("read_text_file", titled="call beyond the folder", path="/etc/hostname"),
    ]


def _remembered(folder: Path) -> list[Any]:
    memory = folder / "memory.jsonl"
    return [json.loads(line) for line in memory.read_text("utf-8").splitlines()] if memory.exists() else []


def _repository(folder: Path) -> None:
    person = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER")
              for what, value in (("NAME", "Ada"), ("EMAIL", "ada@example.org"), ("DATE", COMMIT_DATE))}  # fmt: skip

    def git(*arguments: str) -> None:
        subprocess.run(["git", *arguments], cwd=folder, env={**os.environ, **person}, check=True, capture_output=True)

    git("init", "-q", "-b", "main")
    git("config", "user.name", "Ada")
    git("config", "user.email", "ada@example.org")
    (folder / "note.txt").write_text(NOTE, "utf-8")
    git("add", "note.txt")
    git("commit", "-qm", "first")
    (folder / "note.txt").write_text(NOTE + "third line\n", "utf-8")


def _committed(folder: Path) -> str:
    log = ["git", "log", "--all", "--format=%D: %s %T"]
    return subprocess.run(log, cwd=folder, check=True, capture_output=True, text=True).stdout


def _git(folder: Path) -> list[Step]:
    at = {"repo_path": str(folder)}
    return [
        *LISTS,
        call("git_status", **at),
        call("git_diff_unstaged", **at),
        call("git_add", **at, files=["note.txt"]),
        call("git_diff_staged", **at),
        call("git_diff", **at, target="main"),
        call("git_reset", **at),
        call("git_add", titled="call git_add again", **at, files=["note.txt"]),
        call("git_commit", **at, message="second"),
        call("git_log", **at, max_count=2),
        call("git_show", **at, revision="HEAD~1"),
        call("git_create_branch", **at, branch_name="side"),
        call("git_branch", **at, branch_type="local"),
        call("git_checkout", **at, branch_name="side"),
        call("git_status", titled="call where nothing is", repo_path="/nowhere"),
    ]


def _time(_: Path) -> list[Step]:
    noon = {"source_timezone": "Europe/Berlin", "time": "12:00", "target_timezone": "Asia/Tokyo"}
    return [
        *LISTS,
        loosely(call("get_current_time", timezone="UTC")),
        call("convert_time", **noon),
        call("convert_time", titled="call with no time", **{**noon, "time": "noon"}),
    ]


def _common(_: Path) -> list[Step]:
    """What our own small servers of each SDK have in common (`programs/*_server.*`)."""
    return [
        *LISTS,
        call("add", a=2, b=3),
        call("add", titled="call with wrong arguments", a="x"),
        call("nobody", titled="call of no tool"),
        call("fail"),
        call("big_image"),
        hearing(call("count", to=3), progress=3),
        cancel("wait", seconds=LONG_SECONDS),
        # meanwhile the gateway sees that the cancelled one is gone: a log message is for nobody while two are open
        call("wait", seconds=0.1),
        hearing(call("say"), log=1),
        hearing(call("ask_user"), elicitation=1),
        hearing(call("ask_model"), sampling=1),
        read("note://fixed"),
        read("note://by-id/7"),
        read("note://nowhere/at/all"),
        prompt("greet", name="Ada"),
        complete({"type": "ref/prompt", "name": "greet"}, "name", "A"),
    ]


def _conformance(_: Path) -> list[Step]:
    """The server of the official conformance suite: Python SDK 2.x, low level, both eras."""
    asks = "elicitation sampling list_roots request_state tampered_state multiple_inputs multi_round capabilities"
    return [
        *LISTS,
        *[call(f"test_{name}") for name in ("simple_text", "image_content", "audio_content", "embedded_resource",
                                            "multiple_content_types", "error_handling", "missing_capability")],
        hearing(call("test_tool_with_logging"), log=3),
        hearing(call("test_logging_tool"), log=1),
        hearing(call("test_tool_with_progress"), progress=3),
        hearing(call("test_sampling", prompt="capital of France?"), sampling=1),
        hearing(call("test_elicitation", message="who?"), elicitation=1),
        hearing(call("test_elicitation_sep1034_defaults"), elicitation=1),
        hearing(call("test_elicitation_sep1330_enums"), elicitation=1),
        call("test_reconnection"),
        call("json_schema_2020_12_tool", titled="call json_schema_2020_12_tool", phone="1"),
        call("test_header_parameter", region="eu"),
        call("test_streaming_elicitation"),
        *[call(f"test_input_required_result_{name}") for name in asks.split()],
        call("test_trigger_tool_change"),
        call("test_trigger_prompt_change"),
        read("test://static-text"),
        read("test://static-binary"),
        read("test://template/7/data"),
        read("test://nowhere"),
        prompt("test_simple_prompt"),
        prompt("test_prompt_with_arguments", arg1="a", arg2="b"),
        prompt("test_prompt_with_image"),
        prompt("test_input_required_result_prompt"),
        complete({"type": "ref/prompt", "name": "test_prompt_with_arguments"}, "arg1", "p"),
        step("log_level", level="info"),
        step("subscribe", uri="test://watched-resource"),
        step("unsubscribe", uri="test://watched-resource"),
    ]  # fmt: skip


def _package(name: str, *arguments: str) -> Command:
    return lambda environments, folder: [
        *environments.node(f"node_modules/{SCOPE}/{name}/dist/index.js"),
        *(argument.replace("$FOLDER", str(folder)) for argument in arguments),
    ]


def _program(environment: str, program: str, *arguments: str) -> Command:
    return lambda environments, _: [*environments.python(environment, program), *arguments]


def _suite_server(*arguments: str) -> Command:
    program = str(ROOT / "tests" / "conformance" / "everything_server.py")
    return lambda environments, _: [*environments.script(OWN, "python"), program, *arguments]


SERVERS = {
    server.name: server
    for server in (
        Server("everything", _package("server-everything", "stdio"), _everything, "call get-sum",
               NODE, (f"{SCOPE}/server-everything", f"{SCOPE}/sdk"),
               http=_package("server-everything", "streamableHttp")),
        Server("filesystem", _package("server-filesystem", "$FOLDER"), _filesystem, "call list_allowed_directories",
               NODE, (f"{SCOPE}/server-filesystem", f"{SCOPE}/sdk"), prepare=_files, left=_written),
        Server("memory", lambda environments, folder: [
            "/usr/bin/env", f"MEMORY_FILE_PATH={folder}/memory.jsonl",
            *environments.node(f"node_modules/{SCOPE}/server-memory/dist/index.js")], _memory, "call read_graph",
               NODE, (f"{SCOPE}/server-memory", f"{SCOPE}/sdk"), left=_remembered),
        Server("git", lambda environments, _: environments.script("servers", "mcp-server-git"), _git,
               "call git_branch", "servers", ("mcp-server-git", "mcp"), prepare=_repository, left=_committed),
        Server("time", lambda environments, _: [*environments.script("servers", "mcp-server-time"),
                                                "--local-timezone", "UTC"], _time,
               "call get_current_time", "servers", ("mcp-server-time", "mcp")),
        Server("fastmcp", _program(OWN, "fastmcp_4_server.py", "stdio"), _common, "call add", OWN, ("fastmcp", "mcp"),
               http=_program(OWN, "fastmcp_4_server.py", "http")),
        Server("python-sdk-1", _program("python-1", "python_1_server.py", "stdio"), _common, "call add",
               "python-1", ("mcp",), http=_program("python-1", "python_1_server.py", "http")),
        Server("python-sdk-2", _suite_server("--stdio"), _conformance, "call test_simple_text", OWN, ("mcp",),
               http=_suite_server("--port", "$PORT")),
        Server("typescript-sdk-2", lambda environments, _: [*environments.node("typescript_2_server.mjs"), "stdio"],
               _common, "call add", NODE, (f"{SCOPE}/server",),
               http=lambda environments, _: [*environments.node("typescript_2_server.mjs"), "http"]),
    )
}  # fmt: skip

BY_ROOTS = Server("filesystem-by-roots", _package("server-filesystem"), _by_roots, "call list_allowed_directories",
                  NODE, SERVERS["filesystem"].packages, prepare=_files, left=_written)  # fmt: skip
"""The file server that may go where its client's roots are, and nowhere without: what it asks each client decides."""
