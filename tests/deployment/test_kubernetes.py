"""The manifests for Kubernetes agree with its published schemas, with the program and each other."""

from __future__ import annotations

import copy
import re
import subprocess
import uuid
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from django.core.management import get_commands
from django.db import connection

from chat.management.commands.serve import DRAIN_MARGIN_SECONDS
from chat.models import Conversation, Message, Role, Run, RunStatus, Upstream
from project import settings as defaults
from project.server.server import ConnectionLimits
from tests.deployment.dockerfile import ROOT, read

Manifest = dict[str, Any]
FOLDER = ROOT / "deploy" / "kubernetes"
# The oldest version that knows everything the manifests use, and the newest with a schema.
VERSIONS = ("1.29", kubernetes_validate.latest_version())
MANIFESTS: list[Manifest] = [
    manifest
    for path in sorted(FOLDER.glob("*.yaml"))
    for manifest in yaml.safe_load_all(path.read_text())
]
WORKLOADS = [one for one in MANIFESTS if one["kind"] in ("Deployment", "Job")]
DEPLOYMENTS = {one["metadata"]["name"]: one for one in WORKLOADS if one["kind"] == "Deployment"}


def of_kind(kind: str) -> list[Manifest]:
    return [one for one in MANIFESTS if one["kind"] == kind]


def pod_of(workload: Manifest) -> Manifest:
    return dict(workload["spec"]["template"]["spec"])


def container_of(workload: Manifest) -> Manifest:
    (container,) = pod_of(workload)["containers"]
    return dict(container)


def settings_of(workload: Manifest) -> dict[str, str]:
    (shared,) = of_kind("ConfigMap")
    own = {one["name"]: one["value"] for one in container_of(workload).get("env", [])}
    return {**shared["data"], **own}


def test_manifests_fit_the_published_schemas(subtests: pytest.Subtests) -> None:
    assert {"Deployment", "Job", "PodDisruptionBudget", "HorizontalPodAutoscaler"} <= {
        one["kind"] for one in MANIFESTS
    }
    for version in VERSIONS:
        for manifest in MANIFESTS:
            with subtests.test(msg=f"{manifest['kind']} {manifest['metadata']['name']} {version}"):
                kubernetes_validate.validate(manifest, version, strict=True)


def test_schema_names_a_field_that_does_not_exist() -> None:
    manifest = copy.deepcopy(DEPLOYMENTS["tributary-web"])
    manifest["spec"]["template"]["spec"]["containers"][0]["readinesProbe"] = {}

    with pytest.raises(kubernetes_validate.ValidationError, match="readinesProbe"):
        kubernetes_validate.validate(manifest, VERSIONS[-1], strict=True)


def test_containers_run_the_image_with_existing_commands() -> None:
    images = {container_of(workload)["image"] for workload in WORKLOADS}
    commands = {container_of(workload)["args"][0] for workload in WORKLOADS}

    (image,) = images
    assert image.endswith(f":{defaults.VERSION}")
    assert commands == {"serve", "runner", "migrate"}
    assert commands <= get_commands().keys()


def test_containers_have_few_rights(subtests: pytest.Subtests) -> None:
    user, _, group = read()[-1].one("USER").text.partition(":")
    for workload in WORKLOADS:
        with subtests.test(msg=workload["metadata"]["name"]):
            pod, container = pod_of(workload), container_of(workload)
            assert pod["automountServiceAccountToken"] is False
            assert pod["securityContext"]["runAsNonRoot"] is True
            assert pod["securityContext"]["runAsUser"] == int(user)
            assert pod["securityContext"]["fsGroup"] == int(group)
            assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            mounted = {one["mountPath"]: one["name"] for one in container["volumeMounts"]}
            assert mounted.keys() == {"/run/secrets/tributary", "/data", "/tmp"}
            assert set(mounted.values()) == {volume["name"] for volume in pod["volumes"]}


def test_settings_exist_and_secrets_are_only_named(tmp_path: Path) -> None:
    known = (ROOT / "project" / "settings.py").read_text()
    command = [str(ROOT / "deploy" / "make-secrets"), str(tmp_path)]
    subprocess.run(command, check=True, stdout=subprocess.PIPE)

    assert of_kind("Secret") == []
    for workload in WORKLOADS:
        for name, value in settings_of(workload).items():
            assert f'"{name.removesuffix("_FILE")}"' in known
            if name.endswith("_FILE"):
                assert value == f"/run/secrets/tributary/{Path(value).name}"
                assert (tmp_path / Path(value).name).exists()
        assert not {"SECRET_KEY", "ENCRYPTION_KEYS", "DATABASE_URL"} & settings_of(workload).keys()
    page = (ROOT / "docs" / "deploy-kubernetes.md").read_text()
    files = re.findall(r"--from-file=(\w+)=", page)
    assert {
        Path(value).name for name, value in settings_of(WORKLOADS[0]).items() if "_FILE" in name
    } == set(files)


@pytest.mark.parametrize("name", sorted(DEPLOYMENTS))
def test_probes_ask_what_the_process_serves(name: str) -> None:
    container = container_of(DEPLOYMENTS[name])
    (port,) = container["ports"]
    settings = settings_of(DEPLOYMENTS[name])
    image = read()[-1].environment

    served = settings.get("RUNNER_PORT") or image["PORT"]
    assert port["containerPort"] == int(served)
    assert (settings.get("RUNNER_HOST") or image["HOST"]) == "0.0.0.0"
    for probe, path in (("startup", "healthz"), ("liveness", "healthz"), ("readiness", "readyz")):
        assert container[f"{probe}Probe"]["httpGet"] == {"path": f"/{path}", "port": port["name"]}


@pytest.mark.parametrize("name", sorted(DEPLOYMENTS))
def test_pods_have_time_to_drain(name: str) -> None:
    workload = DEPLOYMENTS[name]
    drain = float(settings_of(workload).get("DRAIN_SECONDS", defaults.DRAIN_SECONDS))
    before = container_of(workload).get("lifecycle", {}).get("preStop", {}).get("exec", {})
    sleep = int(before.get("command", ["sleep", "0"])[1])

    needed = sleep + drain + DRAIN_MARGIN_SECONDS + ConnectionLimits().close_seconds
    assert pod_of(workload)["terminationGracePeriodSeconds"] >= needed


def test_selectors_and_references_find_their_objects() -> None:
    labels = {
        name: one["spec"]["template"]["metadata"]["labels"] for name, one in DEPLOYMENTS.items()
    }
    names = {(one["kind"], one["metadata"]["name"]) for one in MANIFESTS}
    (service,) = of_kind("Service")
    (ingress,) = of_kind("Ingress")
    (scaler,) = of_kind("HorizontalPodAutoscaler")
    (rule,) = ingress["spec"]["rules"]

    for name, one in DEPLOYMENTS.items():
        assert one["spec"]["selector"]["matchLabels"] == labels[name]
    budgets = {
        one["metadata"]["name"]: one["spec"]["selector"]["matchLabels"]
        for one in of_kind("PodDisruptionBudget")
    }
    assert budgets == labels
    assert service["spec"]["selector"] == labels["tributary-web"]
    assert rule["http"]["paths"][0]["backend"]["service"]["name"] == service["metadata"]["name"]
    assert ("Deployment", scaler["spec"]["scaleTargetRef"]["name"]) in names
    assert "replicas" not in DEPLOYMENTS["tributary-runner"]["spec"]
    (shared,) = of_kind("ConfigMap")
    for workload in WORKLOADS:
        (source,) = container_of(workload)["envFrom"]
        assert source["configMapRef"]["name"] == shared["metadata"]["name"]


@pytest.mark.databases(only="postgresql")
def test_query_for_the_autoscaler_counts_what_runners_could_execute(
    db: None, conversation: Conversation, upstream: Upstream
) -> None:
    page = yaml.safe_load_all(_blocks("ScaledObject"))
    query = next(page)["spec"]["triggers"][0]["metadata"]["query"]
    paused = Upstream.objects.create(name="Paused", dialect="openai_chat", is_draining=True)
    Upstream.objects.filter(pk=upstream.pk).update(concurrency_limit=3)
    for server, running, queued in ((upstream, 2, 5), (paused, 1, 4)):
        for status in [RunStatus.RUNNING] * running + [RunStatus.QUEUED] * queued:
            answer = Message.objects.create(conversation=conversation, role=Role.ASSISTANT)
            Run.objects.create(
                conversation=conversation,
                message=answer,
                upstream=server,
                status=status,
                idempotency_key=uuid.uuid4(),
            )

    with connection.cursor() as cursor:
        cursor.execute(query)
        (found,) = cursor.fetchone()

    # Three of the first server, as many as it may have; of the paused one what is in progress.
    assert found == 3 + 1


def _blocks(kind: str) -> str:
    """The block of the page that has an object of this kind."""
    page = (ROOT / "docs" / "deploy-kubernetes.md").read_text()
    return next(
        block
        for block in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
        if f"kind: {kind}" in block
    )


def test_page_explains_the_metric_of_the_autoscaler() -> None:
    (scaler,) = of_kind("HorizontalPodAutoscaler")
    (metric,) = scaler["spec"]["metrics"]
    page = (ROOT / "docs" / "deploy-kubernetes.md").read_text()

    assert metric["external"]["metric"]["name"] in page
    assert int(metric["external"]["target"]["averageValue"]) < defaults.RUNNER_CAPACITY
