"""A plain command line means the same without typer; whatever typer would refuse, ask back or convert is not plain."""

import inspect
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.main import get_command

from accredit.cli import app, plain
from accredit.cli.actions import connect as connecting
from accredit.cli.actions import serve as actions
from accredit.cli.dashes import command_of
from accredit.limits import MAX_WORKERS

pytestmark = pytest.mark.holds("cli/commands/serve")

COMMANDS: Any = get_command(app)

PLAIN = [
    "serve http://127.0.0.1:1/mcp",
    "serve http://127.0.0.1:1/mcp --port 0",
    "serve --port 8000 --host localhost --workers 4 --insecure -- python server.py --config other -x",
    "serve --config a.toml --log-level debug --log-format text --timeout 1.5",
    "serve --timeout 5 --",
    "serve -- -- a",
    "serve",
    "wrap --config a/b.toml -- python server.py",
    "wrap --timeout 0 --log-level error --log-format json",
    "completion zsh",
    "completion bash -- serve --config",
    "completion fish -- ",
    "connect http://127.0.0.1:1/mcp",
    "connect --key a.key --delegation d.json --delegation e.json https://h/mcp --header A=b --header C=d --timeout 2.5",
    "connect http://h/mcp --server mail --token-env T --gateway-id g --ask auto --hold 20 --modern --show-uncovered",
]
OTHERS = [
    *("", "--help", "--version", "check http://h/", "serve --help", "wrap --help", "serve -h", "serve --port"),
    *("serve --port=1", "serve --port x", "serve --port -1", "serve --port 1 --port 2", "serve --port +1"),
    *("serve --port 1_0", "serve --port 01", "serve --port 1.0", f"serve --workers {MAX_WORKERS + 1}"),
    *("serve --workers 0", "serve --timeout 1e3", "serve --timeout nan", "serve --timeout -1", "serve --log-level A"),
    *("serve python server.py", "serve server", "serve http://h/ http://i/", "serve http://h/ x", "serve --conf a"),
    *("serve --config --insecure", "serve --insecure=1", "wrap http://h/", "wrap --port 1", "wrap x y"),
    *("serve --config /dev/stdin", "connect", "connect h/mcp", "connect http://h/ -- a", "connect http://h/ http://i/"),
    *("completion", "completion csh", "completion bash zsh", "completion -- bash", "completion bash x"),
    *("connect http://h/ --ask", "connect http://h/ --ask on", "connect http://h/ --key a --key b", "connect --help"),
    *("connect http://h/ --key -", "connect http://h/ --delegation /dev/stdin", "connect http://h/ --hold 1e3"),
]  # fmt: skip
VALUES = {
    "--ask": "off",
    "--hold": "3",
    "--port": "1",
    "--workers": "2",
    "--timeout": "2.5",
    "--log-level": "error",
    "--log-format": "text",
}


def passed(context: Any) -> dict[str, Any]:
    """What a command's function gets: for an option that may be repeated, and is not there, None."""
    return {name: None if value == () else value for name, value in context.params.items()}


def check(words: Sequence[str]) -> bool:
    """Whether a command line is plain; if it is, typer reads the same, and has nothing to refuse."""
    found = plain.read(words)
    if found is None:
        return False
    context = COMMANDS.commands[words[0]].make_context(words[0], list(words[1:]))
    params = passed(context)
    defaults = {param.name: param.default for param in COMMANDS.commands[words[0]].params if param.name in params}
    assert {**defaults, **found.values} == params
    assert {name: type(params[name]) for name in found.values} == {
        name: type(value) for name, value in found.values.items()
    }
    assert command_of(context) == found.command
    return True


@pytest.mark.parametrize("line", PLAIN)
def test_what_is_plain_means_the_same_to_typer(line: str) -> None:
    assert check(line.split())


@pytest.mark.parametrize("line", OTHERS)
def test_help_and_whatever_may_be_a_mistake_is_typers_to_answer(line: str) -> None:
    assert plain.read(line.split()) is None


@pytest.mark.parametrize("name", [*plain.OPTIONS])
def test_every_option_is_known__one_that_is_not_would_load_typer_for_nothing(name: str) -> None:
    options = {each for param in COMMANDS.commands[name].params for each in param.opts if each.startswith("--")}
    assert {*plain.OPTIONS[name], *plain.FLAGS[name]} == options - {"--help"}
    for option in plain.OPTIONS[name]:
        assert check([name, option, VALUES.get(option, "x"), *(["http://h/"] if name == "connect" else [])])


@pytest.mark.parametrize(
    ("name", "start"),
    [("serve", actions.start_server), ("wrap", actions.start_wrap), ("connect", connecting.start_connect)],
)
def test_what_a_plain_command_line_leaves_out_is_what_typer_would_have_said(
    name: str, start: Callable[..., int]
) -> None:
    """A plain command line passes on only what it says: the rest are the action's own defaults."""
    parameters = inspect.signature(start).parameters
    defaults = {each.name: each.default for each in parameters.values() if each.name != "command"}
    context = COMMANDS.commands[name].make_context(name, ["http://h/"] if name == "connect" else [])
    said = {"ctx"} | ({"url"} if name == "connect" else set())
    assert {key: value for key, value in defaults.items() if key not in said} == {
        key: value for key, value in passed(context).items() if key not in said
    }


WORDS = st.sampled_from(
    [
        *plain.OPTIONS["serve"],
        *plain.OPTIONS["connect"],
        "--insecure",
        "--modern",
        "--",
        "http://h/",
        "x",
        "1",
        "0",
        "70000",
        "",
        "-",
        "-x",
        "--help",
        "info",
        "auto",
        "/dev/stdin",
    ]
)
NEARLY = st.from_regex(r"\A[-+ 0]{0,2}[0-9_]{0,10}(\.[0-9]{0,3})?([eE][0-9])?\Z") | st.from_regex(
    r"\A-{0,2}[a-z]{0,6}(://|=)[a-z:/@-]{0,6}\Z"
)
"""What is almost a number, a URL or an option."""


@settings(max_examples=400, deadline=None)
@given(st.sampled_from([*plain.OPTIONS]), st.lists(WORDS | NEARLY | st.text(max_size=4), max_size=5))
def test_any_words_are_plain_only_if_typer_takes_them_so(name: str, words: list[str]) -> None:
    check([name, *words])


def test_a_plain_command_line_is_run_without_typer__and_says_what_is_wrong_as_ever() -> None:
    code = "import sys; from accredit.cli import main; code = main(); print(*sys.modules); sys.exit(code)"
    words = ["serve", "--config", "/nowhere/accredit.toml"]
    done = subprocess.run([sys.executable, "-c", code, *words], check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr == (
        "error: can't read /nowhere/accredit.toml: No such file or directory\n"
        "help: name a readable file with --config or ACCREDIT_CONFIG\n"
    )
    loaded = done.stdout.split()
    assert "accredit.gateway" in loaded
    assert not {"typer", "pydantic", "cryptography", "jwt", "mcp_types"} & {*loaded}
