"""The image, the bundle, the action and the hooks do what they say: each one's own steps are run here without a
network, from what `make dist` makes or from a copy of the project."""

import asyncio
import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from packaging.markers import default_environment
from tests.integration.test_tutorial import running
from tests.world.built import ROOT, run
from tests.world.command import Serving, accredit, environment
from tests.world.warm import path
from tests.world.wheels import pin_again

from accredit import __version__

pytestmark = pytest.mark.slow


def offline(wheels: Path) -> dict[str, str]:
    """Where installers find what they need."""
    return {"PIP_FIND_LINKS": str(wheels), "UV_FIND_LINKS": str(wheels), "UV_NO_INDEX": "1", "UV_OFFLINE": "1"}


def test_the_image_s_steps_make_a_gateway_from_the_folder_of_make_dist_alone(built: Path, tmp_path: Path) -> None:
    dist, context, wheels, home = built / "one/dist", tmp_path / "context", tmp_path / "wheels", tmp_path / "opt"
    wheels.mkdir()
    context.mkdir()
    recipe = (dist / "Containerfile").read_text("utf-8").replace("\\\n", "")
    for pattern in re.findall(r"^COPY (\S+) \./$", recipe, re.MULTILINE):
        for each in dist.glob(pattern):
            shutil.copy(each, context)
    pinned = context / "gateway.txt"
    pinned.write_text(pin_again(pinned.read_text("utf-8"), wheels), "utf-8")
    for step in re.findall(r"^RUN (.+)$", recipe, re.MULTILINE):
        words = ("sh", "-ec", step.replace("/opt/accredit", str(home)).replace("python3 ", f"{sys.executable} "))
        run(*words, folder=context, env=offline(wheels))
    (entry,) = re.findall(r"^ENTRYPOINT (.+)$", recipe, re.MULTILINE)
    command = [each.replace("/opt/accredit", str(home)) for each in json.loads(entry)]
    assert run(*command, "--version", folder=tmp_path).stdout.startswith(f"accredit {__version__}")
    assert not [*home.glob("bin/pip*")]
    (tmp_path / "accredit.toml").write_text('[upstream]\nurl = "http://127.0.0.1:9/mcp"\n', "utf-8")
    with Serving("--config", "accredit.toml", folder=tmp_path, command=command) as gateway:
        gateway.stop()
        assert gateway.wait() == 0


TEXT = {"type": "string"}
FACTS = {
    "type": "object",
    "required": ["manifest_version", "name", "version", "description", "author", "server"],
    "additionalProperties": False,
    "properties": {
        **dict.fromkeys(("name", "display_name", "version", "description", "documentation", "license"), TEXT),
        "manifest_version": {"const": "0.4"},
        "author": {"type": "object", "required": ["name"], "properties": {"name": TEXT}, "additionalProperties": False},
        "keywords": {"type": "array", "items": TEXT},
        "tools_generated": {"type": "boolean"},
        "prompts_generated": {"type": "boolean"},
        "server": {
            "type": "object",
            "required": ["type", "entry_point"],
            "additionalProperties": False,
            "properties": {
                "type": {"const": "uv"},
                "entry_point": TEXT,
                "mcp_config": {
                    "type": "object",
                    "required": ["command"],
                    "additionalProperties": False,
                    "properties": {"command": TEXT, "args": {"type": "array", "items": TEXT}},
                },
            },
        },
        "compatibility": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "platforms": {"type": "array", "items": {"enum": ["darwin", "linux", "win32"]}},
                "runtimes": {"type": "object", "properties": {"python": TEXT}, "additionalProperties": False},
            },
        },
        "user_config": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "required": ["type", "title", "description"],
                "additionalProperties": False,
                "properties": {
                    **dict.fromkeys(("title", "description"), TEXT),
                    "type": {"enum": ["string", "number", "boolean", "directory", "file"]},
                    "default": TEXT,
                    "required": {"type": "boolean"},
                },
            },
        },
    },
}
"""What MCPB's schema of version 0.4 allows, of what the manifest uses: it takes no member that it does not know."""


@pytest.fixture
def bundle(built: Path, tmp_path: Path) -> Path:
    """The bundle, unpacked as a host does it."""
    with zipfile.ZipFile(built / "one/dist" / f"accredit-connect-{__version__}.mcpb") as packed:
        packed.extractall(tmp_path / "bundle")
    return tmp_path / "bundle"


def test_the_bundle_is_one_that_a_host_takes__with_all_its_files_and_no_secret(bundle: Path) -> None:
    manifest = json.loads((bundle / "manifest.json").read_text("utf-8"))
    jsonschema.validate(manifest, FACTS)
    assert manifest["version"] == __version__
    assert (bundle / manifest["server"]["entry_point"]).is_file()
    # a server of type `uv` has a pyproject.toml and brings no libraries
    project = tomllib.loads((bundle / "pyproject.toml").read_text("utf-8"))
    wheel = project["tool"]["uv"]["sources"]["accredit"]["path"]
    assert {each.name for each in bundle.iterdir()} == {"manifest.json", "pyproject.toml", "server.py", wheel}
    named = set(re.findall(r"\$\{user_config\.(\w+)\}", json.dumps(manifest["server"])))
    assert named == set(manifest["user_config"])
    assert len(project["tool"]["uv"]["constraint-dependencies"]) > 30


def test_a_host_that_fills_in_the_bundle_s_words_gets_the_tools_that_its_agent_may_use(
    bundle: Path, built: Path, tmp_path: Path, free_port: Callable[[], int]
) -> None:
    server = json.loads((bundle / "manifest.json").read_text("utf-8"))["server"]["mcp_config"]
    values = {"__dirname": str(bundle), "user_config.key": "agent.key", "user_config.delegation": "delegation.json"}
    only_here(bundle / "pyproject.toml")
    work = tmp_path / "work"
    work.mkdir()
    port = free_port()
    for words in (
        ("keys", "new", "owner.key", "--kind", "human", "--name", "Owner", "--no-passphrase"),
        ("keys", "new", "agent.key", "--kind", "agent", "--name", "Agent"),
        ("grant", "--issuer", "owner.key", "--agent", "agent.key.pub", "--scope", "mcp:tool", "--expires", "7d",
         "--out", "delegation.json"),
    ):  # fmt: skip
        assert accredit(*words, folder=work).returncode == 0
    with running(f"python examples/mail_server.py --port {port}", "Uvicorn running"):
        assert accredit("init", f"http://127.0.0.1:{port}/mcp", "--dir", "made", folder=work).returncode == 0
        shutil.copy(work / "owner.key.pub", work / "made")
        with Serving("--config", "made/accredit.toml", folder=work) as gateway:
            values["user_config.url"] = gateway.url
            words = [re.sub(r"\$\{([\w.]+)\}", lambda found: values[found[1]], each) for each in server["args"]]
            uv = Path(sys.executable).with_name(server["command"])
            own = {**offline(built / "wheels"), "UV_PYTHON": sys.executable, "UV_CACHE_DIR": str(tmp_path / "cache")}
            process = StdioServerParameters(command=str(uv), args=words, env=environment(own), cwd=work)
            assert asyncio.run(names_of_tools(process)) == ["list_inbox", "search"]


def only_here(project: Path) -> None:
    """Has uv look for this machine and this Python alone: the test has wheels of no other."""
    major, minor, *_ = sys.version_info
    names = ("sys_platform", "platform_machine", "platform_python_implementation", "implementation_name")
    here = " and ".join(f"{name} == '{default_environment()[name]}'" for name in names)
    text = project.read_text("utf-8").replace('">=3.11"', f'"=={major}.{minor}.*"')
    text, found = re.subn(r"^environments = .*$", f'environments = ["{here}"]', text, flags=re.MULTILINE)
    assert found == 1
    project.write_text(text, "utf-8")


async def names_of_tools(process: StdioServerParameters) -> list[str]:
    """What a host is told that it may call."""
    async with Client(stdio_client(process)) as client:
        return sorted(tool.name for tool in (await client.list_tools()).tools)


ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
INSTALL, RUN = ACTION["runs"]["steps"]
HOOKS: list[dict[str, Any]] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))


def step(
    which: Mapping[str, Any], inputs: Mapping[str, str], folder: Path, env: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Runs a step of the action as a runner does."""
    given = {name: str(each.get("default", "")) for name, each in ACTION["inputs"].items()} | dict(inputs)
    own = {
        name: re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda found: given[found[1]], value)
        for name, value in which["env"].items()
    }
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", which["run"]],
        cwd=folder, env=environment({**own, **env}), capture_output=True, text=True, timeout=170, check=False,
    )  # fmt: skip


def test_no_input_of_the_action_is_put_into_a_script__whoever_may_set_one_could_run_commands() -> None:
    assert ACTION["runs"]["using"] == "composite"
    assert [each for each in (INSTALL, RUN) if "${{" in each["run"] or each["shell"] != "bash"] == []


def test_the_action_installs_its_own_commit_with_pinned_libraries(built: Path, tmp_path: Path) -> None:
    project, wheels = tmp_path / "action", tmp_path / "wheels"
    shutil.copytree(built / "one", project, ignore=shutil.ignore_patterns("dist"))
    wheels.mkdir()
    for name in ("gateway.txt", "demo.txt"):
        file = project / "requirements" / name
        file.write_text(pin_again(file.read_text("utf-8"), wheels), "utf-8")
    env = {**offline(wheels), "PIP_NO_INDEX": "1", "RUNNER_TEMP": str(tmp_path), "GITHUB_ACTION_PATH": str(project)}
    done = step(INSTALL, {"python": sys.executable}, tmp_path, env)
    assert done.returncode == 0, done.stderr
    done = step(RUN, {"command": "check", "config": "none.toml"}, tmp_path, env)
    assert (done.returncode, "none.toml" in done.stderr) == (2, True), done.stderr


@pytest.fixture
def runner(tmp_path: Path) -> dict[str, str]:
    """The environment of a runner on which the first step has been done."""
    (tmp_path / "accredit/bin").mkdir(parents=True)
    found = shutil.which("accredit", path=path())
    assert found is not None
    (tmp_path / "accredit/bin/accredit").symlink_to(found)
    return {"RUNNER_TEMP": str(tmp_path), "PATH": path()}


def with_server(folder: Path, port: int) -> None:
    """Writes a configuration and keys for the sample server."""
    for words in (
        ("init", f"http://127.0.0.1:{port}/mcp", "--dir", "."),
        ("keys", "new", "owner.key", "--kind", "human", "--name", "Owner", "--no-passphrase"),
    ):
        done = accredit(*words, folder=folder)
        assert done.returncode == 0, done.stderr


Way = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(params=["action", "hook"])
def way(request: pytest.FixtureRequest, runner: dict[str, str]) -> Way:
    """Both ways to run a command, with more arguments."""

    def by_action(command: str, *more: str, folder: Path) -> subprocess.CompletedProcess[str]:
        return step(RUN, {"command": command, "arguments": "\n".join(more)}, folder, runner)

    def by_hook(command: str, *more: str, folder: Path) -> subprocess.CompletedProcess[str]:
        (hook,) = [each for each in HOOKS if each["id"] == f"accredit-{command}"]
        words = [*shlex.split(hook["entry"]), *hook["args"], *more]
        return subprocess.run(
            words, cwd=folder, env=environment(runner), capture_output=True, text=True, timeout=60, check=False
        )

    return by_action if request.param == "action" else by_hook


def test_check_and_drill_and_replay_pass__and_what_they_find_stops_the_pipeline(
    way: Way, tmp_path: Path, free_port: Callable[[], int]
) -> None:
    folder = tmp_path / "a folder"
    folder.mkdir()
    port = free_port()
    with running(f"python examples/mail_server.py --port {port}", "Uvicorn running"):
        with_server(folder, port)
        assert way("check", folder=folder).returncode == 0
        with Serving("--config", "accredit.toml", folder=folder) as gateway:
            drilled = way("drill", "--issuer", "owner.key", "--url", gateway.url, folder=folder)
            assert (drilled.returncode, "each as it must be" in drilled.stdout) == (0, True), drilled.stderr
            assert (
                way("drill", "--issuer", "owner.key", "--url", "http://127.0.0.1:9/mcp", folder=folder).returncode == 2
            )
            accredit("call", "list_inbox", "--url", gateway.url, folder=folder)
        assert way("replay", folder=folder).returncode == 0
        text = (folder / "accredit.toml").read_text("utf-8")
        (folder / "accredit.toml").write_text(re.sub(r"(?ms)^\[tools\.send_email\].*?(?=^\[|\Z)", "", text), "utf-8")
        found = way("check", folder=folder)
        assert (found.returncode, "send_email" in found.stdout + found.stderr) == (1, True), found.stdout + found.stderr


def test_the_action_runs_no_other_command(tmp_path: Path, runner: dict[str, str]) -> None:
    refused = step(RUN, {"command": "keys", "arguments": "new\nsome.key"}, tmp_path, runner)
    assert (refused.returncode, "::error::command is check, drill or replay" in refused.stdout) == (2, True)
    assert not (tmp_path / "some.key").exists()


def test_the_page_names_every_input_and_every_hook() -> None:
    page = (ROOT / "docs/how-to/continuous-integration.md").read_text("utf-8")
    assert [name for name in ACTION["inputs"] if f"| `{name}` |" not in page] == []
    assert [hook["id"] for hook in HOOKS if f"| `{hook['id']}` |" not in page] == []
    used = [yaml.safe_load(each) for each in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)]
    steps = [each for part in used if isinstance(part, dict) for each in part.get("steps", ())]
    given = [each.get("with", {}) for each in steps if each.get("uses", "").startswith("accredit-dev/")]
    assert given
    assert [names for names in given if not names.keys() <= ACTION["inputs"].keys()] == []
