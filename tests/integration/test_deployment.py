"""What stands in `deploy/` is what it says to the tools of each format, and a gateway runs in it: as the user, with the
files and with the rights that the manifests give it."""

import base64
import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import kubernetes_validate
import pytest
import yaml
from tests.integration.test_tutorial import running, surroundings
from tests.world.certificates import write_certificate
from tests.world.command import Serving, accredit, wait_until, with_nobody_to_ask
from tests.world.deployed import DEPLOY, ROOT, USER, command, environment, kustomized, secret_files, state_folder
from tests.world.image import Image, built_image
from tests.world.postgres import a_user, cluster
from tests.world.raw_server import PATIENCE

from accredit import __version__

pytestmark = pytest.mark.slow

PROGRAMS = Path(sys.executable).parent
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
HOW_TO = ROOT / "docs/how-to"
METRICS = "mcp_server_operation_duration_seconds"
UNIT = DEPLOY / "systemd/accredit.service"


def need(program: str, package: str) -> str:
    """Where a program is; skips the test without it, and fails it in continuous integration."""
    found = shutil.which(program, path=f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}")
    if found is None:
        assert not os.environ.get("CI"), f"continuous integration has {program}"
        pytest.skip(f"{program} is not installed ({package})")
    return found


def test_the_image_is_built_as_its_linter_wants_it() -> None:
    done = subprocess.run(
        [need("hadolint", "requirements/dev.txt"), DEPLOY / "Containerfile"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_the_image_has_no_address_and_no_root() -> None:
    text = (DEPLOY / "Containerfile").read_text("utf-8")
    assert re.findall(r"^FROM (\S+)", text, re.MULTILINE) == ["${PYTHON}", "${PYTHON}"]
    assert re.search(r"^ARG PYTHON=python:[\w.-]+$", text, re.MULTILINE)
    assert re.findall(r"^USER (.+)", text, re.MULTILINE) == ["65532:65532"]
    assert "--require-hashes" in text


@pytest.mark.parametrize("overlay", ["base", "sqlite"])
def test_each_manifest_is_what_kubernetes_takes__and_a_pod_has_no_right_that_it_does_not_use(overlay: str) -> None:
    found = kustomized(overlay)
    for manifest in found.values():
        kubernetes_validate.validate(manifest, "1.37", strict=True)
    deployment = found["Deployment"]
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    # the "restricted" profile of Pod Security Standards, and a root that can't be written
    assert pod["securityContext"].items() >= {"runAsNonRoot": True, "runAsUser": 65532}.items()
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}
    }  # fmt: skip
    assert pod["automountServiceAccountToken"] is False
    assert container["image"] == f"accredit:{__version__}"
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    for kind, selector in (
        ("Service", "selector"),
        ("NetworkPolicy", "podSelector"),
        ("PodDisruptionBudget", "selector"),
    ):
        if kind in found:
            chosen = found[kind]["spec"][selector]
            assert (chosen if kind == "Service" else chosen["matchLabels"]).items() <= labels.items(), kind
    gateway = tomllib.loads(found["ConfigMap"]["data"]["accredit.toml"])["gateway"]
    ending = gateway.get("drain_seconds", 0) + gateway.get("grace_seconds", 10) + 2
    assert pod["terminationGracePeriodSeconds"] > ending, "Kubernetes would kill a gateway whose calls go on"
    assert deployment["spec"]["replicas"] >= 2 or found.keys().isdisjoint({"PodDisruptionBudget"})


def test_the_unit_is_what_systemd_takes__and_leaves_the_gateway_little_to_harm(tmp_path: Path) -> None:
    analyze = need("systemd-analyze", "apt-get install systemd")
    installed = tmp_path / UNIT.name
    installed.write_text(
        UNIT.read_text("utf-8").replace("/opt/accredit/bin/accredit", shutil.which("true") or ""), "utf-8"
    )
    verified = subprocess.run([analyze, "verify", installed], capture_output=True, text=True, check=False)
    assert (verified.returncode, verified.stderr) == (0, "")
    looked = subprocess.run(
        [analyze, "security", "--offline=true", "--threshold=20", UNIT], capture_output=True, text=True, check=False
    )
    assert looked.returncode == 0, looked.stdout
    assert "less than 2 of 10" in (HOW_TO / "systemd.md").read_text("utf-8")


@pytest.fixture
def mail(free_port: Callable[[], int]) -> Generator[str]:
    port = free_port()
    with running(f"python examples/mail_server.py --port {port}", "Uvicorn running"):
        yield f"http://127.0.0.1:{port}/mcp"


def page(name: str) -> list[tuple[str, str]]:
    """The kinds and bodies of a page's fenced blocks."""
    return BLOCK.findall((HOW_TO / name).read_text("utf-8"))


def typed(command: str, folder: Path) -> str:
    """What a shell prints of a command."""
    done = subprocess.run(
        ["sh", "-ec", with_nobody_to_ask(command)],
        cwd=folder,
        env=surroundings(),
        capture_output=True,
        text=True,
        timeout=4 * PATIENCE,
        check=False,
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture
def root() -> Generator[Path]:
    """A folder that other users can reach, as they can reach no other of a test's."""
    with tempfile.TemporaryDirectory(prefix="accredit-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def reachable_database() -> str:
    """The address of a database with our tables, as a gateway of another user has it."""
    servers = cluster()
    servers.folder.chmod(0o711)
    database = servers.fresh().database
    return f"postgresql://{a_user('IN ROLE accredit_gateway')}@/{database}?host={servers.folder}"


def pod_of(overlay: str, mail: str, root: Path, tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    """Where the how-to's commands were given, and the pod that they make; its configuration is `root`/etc."""
    shutil.copytree(DEPLOY / "kubernetes", tmp_path / "kubernetes")
    mine = tmp_path / "kubernetes/mine"
    commands, secrets, sections, kustomization = kubernetes_page(overlay)
    typed(commands.replace("http://mail-server:9000/mcp", mail), tmp_path / "kubernetes")
    written = (mine / "accredit.toml").read_text("utf-8")
    kept = re.sub(r"(?ms)^\[(gateway|store)\]\n.*?(?=^\[|\Z)", "", written)
    (mine / "accredit.toml").write_text(f"{sections}\n{kept}", "utf-8")
    (mine / "kustomization.yaml").write_text(kustomization, "utf-8")
    write_certificate(mine)
    shutil.copy(mine / "cert.pem", mine / "tls.crt")
    shutil.copy(mine / "key.pem", mine / "tls.key")
    built = kustomized(str(mine))
    pod = built["Deployment"]["spec"]["template"]["spec"]
    volumes = {built["ConfigMap"]["metadata"]["name"]: {k: v.encode() for k, v in built["ConfigMap"]["data"].items()}}
    for line in secrets.splitlines():
        made = yaml.safe_load(typed(f"{line} --dry-run=client -o yaml", mine))
        volumes[made["metadata"]["name"]] = {k: base64.b64decode(v) for k, v in made["data"].items()}

    (root / "etc").mkdir()
    secret_files(root / "etc", mounted(pod, volumes))
    return mine, pod


@pytest.mark.parametrize("overlay", ["base", "sqlite"])
def test_the_how_to_for_kubernetes_gives_a_gateway_that_runs_as_its_pod_may(
    overlay: str, mail: str, root: Path, tmp_path: Path, free_port: Callable[[], int]
) -> None:
    mine, pod = pod_of(overlay, mail, root, tmp_path)
    store = f"sqlite:///{state_folder(root / 'state')}/store.db" if overlay == "sqlite" else reachable_database()
    (container,) = pod["containers"]
    admin = free_port()
    here = {"ACCREDIT_STORE__URL": store, **listening(admin)}
    with served(root / "etc/accredit.toml", tmp_path, here) as serving:
        check_served(serving, container, admin, mine)


@pytest.mark.parametrize("overlay", ["base", "sqlite"])
def test_the_how_to_for_kubernetes_puts_the_key_of_identity_tokens_into_the_pods(overlay: str, tmp_path: Path) -> None:
    shutil.copytree(DEPLOY / "kubernetes", tmp_path / "kubernetes")
    (mine := tmp_path / "kubernetes/mine").mkdir()
    for name in ("accredit.toml", "accredit.lock"):
        (mine / name).touch()
    kustomization, patch = [body for kind, body in page("kubernetes.md") if kind == "yaml"]
    (mine / "kustomization.yaml").write_text((kustomization + patch).replace("../base", f"../{overlay}"), "utf-8")
    volume, *_ = kustomized(str(mine))["Deployment"]["spec"]["template"]["spec"]["volumes"]
    keys = next(source["secret"] for source in volume["projected"]["sources"] if "secret" in source)
    assert keys["name"] == "accredit-keys"
    assert keys["items"][-1] == {"key": "identity.key", "path": "identity.key"}


def test_the_how_to_for_systemd_gives_a_gateway_that_runs_as_its_unit_may(
    mail: str, root: Path, tmp_path: Path
) -> None:
    (etc := root / "etc").mkdir()
    files, *_ = [body for kind, body in page("systemd.md") if kind == "console"]
    *typed_here, installed = (
        files.replace("/etc/accredit", str(etc)).replace("http://127.0.0.1:9000/mcp", mail).splitlines()
    )
    assert installed == "install -m 0644 deploy/systemd/accredit.service /etc/systemd/system/accredit.service"
    typed("\n".join(typed_here), tmp_path)
    unit = UNIT.read_text("utf-8")
    secrets = dict(re.findall(r"^LoadCredential=([^:]+):/etc/accredit/(.+)$", unit, re.MULTILINE))
    (credentials := root / "credentials").mkdir()
    secret_files(credentials, {name: (etc / file).read_bytes() for name, file in secrets.items()})
    etc.chmod(0o555)
    state = state_folder(root / "state")
    told = re.findall(r"^Environment=(\w+)=(.+)$", unit, re.MULTILINE)
    own = {name: value.replace("%d", str(credentials)).replace("%S/accredit", str(state)) for name, value in told}
    assert not any("%" in value for value in own.values())
    with served(etc / "accredit.toml", tmp_path, own) as serving:
        check_calls(serving, tmp_path)
        os.kill(serving.process.pid, signal.SIGHUP)  # as ExecReload does
        wait_until(lambda: "the configuration was read again" in serving.stderr)
        asked = ("doctor", "--production", "--json", "--config", str(etc / "accredit.toml"))
        port = {**own, "ACCREDIT_GATEWAY__PORT": str(serving.port), "HOME": str(state)}
        looked = subprocess.run(
            [*command(), *asked], env=environment(port), capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        checks = json.loads(looked.stdout)["checks"]
        here = "production.clock"  # as this machine has it
        amiss = {each["id"] for each in checks if each["state"] != "ok" and each["id"] != here}
        ours = re.search(r"until you have set.*?:(.*?)\n\n", (HOW_TO / "systemd.md").read_text("utf-8"), re.DOTALL)
        assert ours
        assert amiss == set(re.findall(r"`(production\.[a-z]+)`", ours[1])), looked.stdout
        serving.stop()
        assert serving.wait() == 0
    assert (state / "store.db").exists()


@pytest.fixture(scope="module")
def image() -> Generator[Image]:
    programs = need("buildah", "apt-get install buildah"), need("debootstrap", "apt-get install debootstrap")
    if os.geteuid() != 0:
        pytest.skip("only root can make a base image, and mount")
    with built_image(*programs) as image:
        yield image


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_the_image_has_what_is_pinned_and_nothing_to_build_with__and_its_user_can_change_none_of_it(
    image: Image,
) -> None:
    assert image.settings["User"] == f"{USER}:{USER}"
    assert image.settings["Cmd"] == ["serve", "--config", "/etc/accredit/accredit.toml"]
    home = image.files / "opt/accredit"
    said = subprocess.run(
        ["chroot", image.files, *image.settings["Entrypoint"], "--version"], capture_output=True, text=True, check=True
    )
    assert said.stdout.startswith(f"accredit {__version__}")
    assert not [*home.glob("bin/pip*"), *home.glob("lib/*/site-packages/pip")]
    assert not any((image.files / name).exists() for name in ("build", "usr/bin/cc", "usr/bin/make", "usr/bin/git"))
    pinned = dict(re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "requirements/gateway.txt").read_text(), re.MULTILINE))
    installed = [
        each.name.removesuffix(".dist-info").rpartition("-") for each in home.glob("lib/*/site-packages/*.dist-info")
    ]
    found = {name.replace("_", "-"): version for name, _, version in installed}
    assert found["accredit"] == __version__
    assert found.items() <= {**pinned, "accredit": __version__}.items()
    theirs = [
        each
        for each in home.rglob("*")
        if not each.is_symlink() and (each.stat().st_mode & 0o022 or each.owner() != "root")
    ]
    assert theirs == []


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_a_gateway_runs_in_the_image_as_its_pod_may(
    image: Image, mail: str, root: Path, tmp_path: Path, free_port: Callable[[], int]
) -> None:
    mine, pod = pod_of("sqlite", mail, root, tmp_path)
    inside = image.command(root / "etc", state_folder(root / "state"))
    admin = free_port()
    (container,) = pod["containers"]
    with served(Path("/etc/accredit/accredit.toml"), tmp_path, listening(admin), inside) as serving:
        check_served(serving, container, admin, mine)
    assert (root / "state/store.db").exists()


def kubernetes_page(overlay: str) -> tuple[str, str, str, str]:
    """The page's commands before the secrets, those that make them, the sections, and the overlay; as it says for
    `sqlite`, too."""
    blocks = page("kubernetes.md")
    _, ours, secrets, *_ = [body for kind, body in blocks if kind == "console"]
    (sections,), (kustomization, _) = ([body for kind, body in blocks if kind == wanted] for wanted in ("toml", "yaml"))
    if overlay == "sqlite":
        ours, secrets = ours.replace("cluster.keys", "rounds.keys"), secrets.replace("cluster.keys", "rounds.keys")
        secrets = secrets.replace(" --from-file=db.password", "")
        store = re.search(r'`(url = "sqlite:[^`]+)`', (HOW_TO / "kubernetes.md").read_text("utf-8"))
        assert store
        sections = sections[: sections.index("[store]")]
        sections += f'[store]\n{store[1]}\n\n[rounds]\nkeys_file = "rounds.keys"\n'
        kustomization = kustomization.replace("../base", "../sqlite")
    return ours, secrets, sections, kustomization


def mounted(pod: dict[str, Any], have: Mapping[str, dict[str, bytes]]) -> dict[str, bytes]:
    """The files of the configuration's volume, from maps and secrets: one that is missing keeps a pod from starting."""
    files: dict[str, bytes] = {}
    (volume,) = [each for each in pod["volumes"] if each["name"] == "configuration"]
    for source in volume["projected"]["sources"]:
        (taken,) = source.values()
        data = have[taken["name"]]
        files |= {item["path"]: data[item["key"]] for item in taken["items"]} if "items" in taken else data
    return files


def served(
    configuration: Path, folder: Path, own: Mapping[str, str], gateway: Sequence[str | Path] | None = None
) -> Serving:
    """The gateway (`gateway` is its command), as the user of the manifests."""
    here = {"ACCREDIT_GATEWAY__HOST": "127.0.0.1", "ACCREDIT_GATEWAY__ALLOWED_HOSTS": '["127.0.0.1", "accredit"]'}
    env = environment({**here, **own})
    return Serving(
        "--config", str(configuration), folder=folder, env=env, command=[*map(str, gateway)] if gateway else command()
    )


def told(url: str, headers: Mapping[str, str]) -> bytes:
    """What the kubelet, or who reads metrics, gets (200); neither verifies a certificate that is for a name."""
    unverified = ssl.create_default_context()
    unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
    with urlopen(Request(url, headers=dict(headers)), context=unverified, timeout=PATIENCE) as answer:
        return answer.read()


def listening(admin: int) -> dict[str, str]:
    """What is here other than in a pod."""
    return {"ACCREDIT_ADMIN__HOST": "127.0.0.1", "ACCREDIT_ADMIN__PORT": str(admin)}


def check_served(serving: Serving, container: dict[str, Any], admin: int, folder: Path) -> None:
    """The probes find it, it does its work, it can be watched, and it ends when it is told to."""
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        get = container[probe]["httpGet"]
        headers = {each["name"]: each["value"] for each in get["httpHeaders"]}
        told(f"https://127.0.0.1:{serving.port}{get['path']}", headers)
    check_calls(serving, folder)
    assert METRICS in told(f"http://127.0.0.1:{admin}/metrics", {}).decode()
    serving.stop()
    assert serving.wait() == 0
    assert "Traceback" not in serving.stderr


def check_calls(serving: Serving, folder: Path) -> None:
    """A call with the owner's word passes, and one without does not."""
    typed("accredit keys new agent.key --kind agent --name Agent", folder)
    grant = "accredit grant --issuer owner.key --agent agent.key.pub --scope mcp:tool --expires 7d"
    typed(f"{grant} --out delegation.json", folder)
    call = ("call", "list_inbox", "--url", serving.url)
    trusting = {"SSL_CERT_FILE": str(folder / "cert.pem")} if serving.url.startswith("https") else {}
    passed = accredit(*call, "--key", "agent.key", "--delegation", "delegation.json", folder=folder, env=trusting)
    assert "ada@example.org" in passed.stdout, passed.stderr + serving.stderr
    refused = accredit(*call, folder=folder, env=trusting)
    assert (refused.returncode, "proof" in refused.stderr) == (1, True), refused.stderr
