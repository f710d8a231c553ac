"""The chart makes the manifests of `deploy/kubernetes`, which are tried as pods elsewhere (`test_deployment`)."""

import json
import os
import re
import shutil
import subprocess
import sys
from operator import itemgetter
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml
from tests.world.deployed import DEPLOY, ROOT, kustomized
from tests.world.raw_server import PATIENCE

from accredit import __version__

pytestmark = pytest.mark.slow

CHART = DEPLOY / "helm"
SDK = Path(sys.prefix) / "helm/bin/python"
RENDER = """
import helm_python, json, sys
with helm_python.Chart.load(sys.argv[1]) as chart:
    print(*chart.render(json.load(sys.stdin), name="accredit", namespace="mcp").values(), sep="\\n---\\n")
"""
CONFIGURATION = (DEPLOY / "kubernetes/base/accredit.toml").read_text("utf-8")
WITH_FILE: dict[str, Any] = {
    "configuration": (DEPLOY / "kubernetes/sqlite/accredit.toml").read_text("utf-8"),
    "volume": {"size": "10Gi"},
    "keys": {"files": ["gateway.key", "owner.key.pub", "rounds.keys"]},
}


def render(values: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """What `helm template` prints; by Helm's own library where there is no `helm`."""
    if helm := shutil.which("helm"):
        command = [helm, "template", "accredit", str(CHART), "--namespace", "mcp", "--values", "-"]
    elif SDK.exists():
        command = [str(SDK), "-c", RENDER, str(CHART)]
    else:
        assert not os.environ.get("CI"), "continuous integration has Helm"
        pytest.skip("Helm is not installed (make .venv/helm/.pip)")
    return subprocess.run(
        command, input=json.dumps(values), capture_output=True, text=True, timeout=PATIENCE, check=False
    )


def rendered(values: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The manifests that the chart makes, by kind."""
    done = render(values)
    assert done.returncode == 0, done.stderr
    return {each["kind"]: each for each in yaml.safe_load_all(done.stdout)}


def without_digests(manifests: dict[str, dict[str, Any]]) -> Any:
    """The same, without what names the configuration's content: kustomize does it by the map's name."""
    text = re.sub(r"accredit-[a-z0-9]{10}\b(?=\")", "accredit", json.dumps(manifests, sort_keys=True))
    found = json.loads(text)
    found["Deployment"]["spec"]["template"]["metadata"].pop("annotations", None)
    for volume in found["Deployment"]["spec"]["template"]["spec"]["volumes"]:
        volume.get("projected", {}).pop("defaultMode", None)  # 0440 is octal to one reader, and 440 to another
    return found


@pytest.mark.parametrize(
    ("overlay", "values"), [("base", {"configuration": CONFIGURATION}), ("sqlite", WITH_FILE)], ids=["base", "sqlite"]
)
def test_the_chart_makes_the_manifests(overlay: str, values: dict[str, Any]) -> None:
    found = rendered(values)
    for manifest in found.values():
        kubernetes_validate.validate(manifest, "1.37", strict=True)
    expected, found = without_digests(kustomized(overlay)), without_digests(found)
    for each in (expected, found):
        each["Deployment"]["spec"]["template"]["spec"]["volumes"].sort(key=itemgetter("name"))
        each["Deployment"]["spec"]["template"]["spec"]["containers"][0]["volumeMounts"].sort(key=itemgetter("name"))
    assert found == expected


def test_a_change_of_the_configuration_or_the_lock_makes_new_pods() -> None:
    def pod(**values: str) -> str:
        return json.dumps(rendered({"configuration": CONFIGURATION, **values})["Deployment"]["spec"]["template"])

    assert pod() == pod()
    assert len({pod(), pod(configuration=f"{CONFIGURATION}\n"), pod(lock="tools = {}")}) == 3


def test_each_value_that_a_person_gives_is_in_the_manifests() -> None:
    found = rendered({
        "configuration": 'a = "{{ .Values.keys }}"\n# it\'s ---\n', "lock": "locked", "image": "images.example.org/a",
        "tag": "9", "replicas": 5, "host": "mcp.example.org", "stopSeconds": 90, "keys": {"secret": "k"},
        "tls": {"secret": "t"}, "resources": {"limits": {"cpu": "2"}}, "egress": [{"ports": [{"port": 443}]}],
    })  # fmt: skip
    for manifest in found.values():
        kubernetes_validate.validate(manifest, "1.37", strict=True)
    assert found["ConfigMap"]["data"] == {
        "accredit.toml": 'a = "{{ .Values.keys }}"\n# it\'s ---\n', "accredit.lock": "locked"
    }  # fmt: skip
    deployment = found["Deployment"]["spec"]
    pod = deployment["template"]["spec"]
    (container,) = pod["containers"]
    assert (deployment["replicas"], pod["terminationGracePeriodSeconds"]) == (5, 90)
    assert container["image"] == "images.example.org/a:9"
    assert container["resources"]["limits"] == {"cpu": "2", "memory": "1Gi"}
    probes = [container[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")]
    assert {each["httpHeaders"][0]["value"] for each in probes} == {"mcp.example.org"}
    (volume,) = pod["volumes"]
    assert [each["secret"]["name"] for each in volume["projected"]["sources"][1:]] == ["k", "t"]
    assert found["NetworkPolicy"]["spec"]["egress"][-1] == {"ports": [{"port": 443}]}


def test_without_a_configuration_it_says_how_to_give_one() -> None:
    done = render({})
    assert done.returncode != 0
    assert "configuration is missing: --set-file configuration=accredit.toml" in done.stderr


def test_the_chart_is_of_this_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


def names(values: dict[str, Any], under: str = "") -> list[str]:
    """The dotted names of values; what is inside `resources` is Kubernetes's."""
    nested = {name: each for name, each in values.items() if isinstance(each, dict) and name != "resources"}
    inner = [found for name, each in nested.items() for found in names(each, f"{name}.")]
    return [*(f"{under}{name}" for name in values.keys() - nested.keys()), *inner]


def test_each_value_is_explained_on_the_page__with_its_default() -> None:
    page = (ROOT / "docs/how-to/helm.md").read_text("utf-8")
    values = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    assert sorted(re.findall(r"^\| `([\w.]+)` \|", page, re.MULTILINE)) == sorted(names(values))
    assert f"| `replicas` | `{values['replicas']}` |" in page
    assert f"| `stopSeconds` | `{values['stopSeconds']}` |" in page
    assert f"| `keys.files` | {', '.join(f'`{each}`' for each in values['keys']['files'])} |" in page


def test_the_schema_knows_the_chart_s_values__and_refuses_others() -> None:
    """Helm judges values by it, as does this test by the same validator that judges manifests."""
    schema = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    values = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    jsonschema.Draft7Validator.check_schema(schema)
    judge = jsonschema.Draft7Validator(schema)
    judge.validate(values)
    judge.validate({**values, **WITH_FILE, "keys": {**values["keys"], **WITH_FILE["keys"]}})
    assert {*values} == {*schema["properties"]} - {"global"}
    wrong: list[dict[str, Any]] = [
        {"replica": 2}, {"replicas": "two"}, {"replicas": 0}, {"keys": {"secret": "keys", "files": []}},
        {"volume": {"size": "big"}}, {"volume": {"sise": "10Gi"}}, {"stopSeconds": 0}, {"image": ""}, {"egress": {}},
    ]  # fmt: skip
    assert [each for each in wrong if judge.is_valid({**values, **each})] == []


@pytest.mark.parametrize("values", [{"replica": 2}, {"replicas": "two"}, {"volume": {"size": "big"}}])
def test_a_value_that_the_schema_does_not_know_makes_no_manifest(values: dict[str, Any]) -> None:
    done = render({"configuration": CONFIGURATION, **values})
    assert done.returncode != 0
    assert next(iter(values)) in done.stderr
