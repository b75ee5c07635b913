"""The files of a deployment agree with the program and with each other."""

from __future__ import annotations

import re
import stat
import subprocess
from pathlib import Path

import pytest
from cryptography.fernet import Fernet
from django.core.management import get_commands

from chat.management.commands.serve import DRAIN_MARGIN_SECONDS
from project import settings as defaults
from project.server.server import ConnectionLimits
from tests.deployment.dockerfile import ROOT, Stage, Step, copied, read

COMPOSE = (ROOT / "compose.yaml").read_text()
UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))


@pytest.fixture(scope="module")
def stages() -> list[Stage]:
    return read()


def test_copied_files_exist_and_are_not_ignored(stages: list[Stage]) -> None:
    not_ignored = (ROOT / ".dockerignore").read_text().splitlines()
    for step in (step for stage in stages for step in stage.all("COPY")):
        sources, _, stage = copied(step)
        for source in () if stage else sources:
            assert (ROOT / source).exists()
            assert f"!{source}" in not_ignored
    assert not_ignored[1] == "*"


def test_base_image_is_pinned_to_a_version(stages: list[Stage]) -> None:
    for stage in stages:
        assert re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+", stage.base)


def test_image_has_no_root_user_and_no_build_tools(stages: list[Stage]) -> None:
    last = stages[-1]

    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", last.one("USER").text)
    assert "pip uninstall" in last.all("RUN")[0].text
    assert "--without-pip" in stages[0].all("RUN")[0].text
    assert not re.search("gcc|build-essential|-dev ", (ROOT / "Dockerfile").read_text())


def test_image_holds_no_secret(stages: list[Stage]) -> None:
    for stage in stages:
        assert not {"SECRET_KEY", "ENCRYPTION_KEYS", "DATABASE_URL"} & stage.environment.keys()


def test_started_commands_exist(stages: list[Stage]) -> None:
    started = [stages[-1].one("CMD").list[0], *re.findall(r'command: \["(\w+)"\]', COMPOSE)]

    assert set(started) == {"serve", "runner", "migrate"}
    assert set(started) <= get_commands().keys()


def test_health_check_module_exists(stages: list[Stage]) -> None:
    _, _, check = stages[-1].one("HEALTHCHECK").text.partition(" CMD ")

    assert Step("CMD", check).list == ["python", "-m", "project.probe"]
    assert (ROOT / "project" / "probe.py").exists()


def test_containers_have_time_to_drain() -> None:
    (drain,) = re.findall(r"DRAIN_SECONDS: \$\{DRAIN_SECONDS:-(\d+)\}", COMPOSE)
    (grace,) = re.findall(r"stop_grace_period: (\d+)s\n +ulimits", COMPOSE)[:1]

    assert int(grace) >= int(drain) + DRAIN_MARGIN_SECONDS + ConnectionLimits().close_seconds


def test_one_service_builds_the_image_of_all() -> None:
    # With Docker's present image store the second of two builds of one name fails.
    assert len(re.findall(r"^ *build:", COMPOSE, re.MULTILINE)) == 1


def test_settings_of_the_deployment_exist() -> None:
    known = (ROOT / "project" / "settings.py").read_text()
    named = re.findall(r"^ +([A-Z_]+): ", COMPOSE, re.MULTILINE)

    for name in named:
        setting = name.removesuffix("_FILE")
        assert f'"{setting}"' in known or setting.startswith("POSTGRES_")


def test_one_command_makes_the_secrets_once(tmp_path: Path) -> None:
    command = [str(ROOT / "deploy" / "make-secrets"), str(tmp_path / "secrets")]
    subprocess.run(command, check=True, stdout=subprocess.PIPE)
    made = {path.name: path.read_text() for path in (tmp_path / "secrets").iterdir()}

    again = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout

    Fernet(made["encryption_keys"].strip())
    assert made["postgres_password"].strip() in made["database_url"]
    assert stat.S_IMODE((tmp_path / "secrets").stat().st_mode) == 0o700
    assert "created" not in again
    assert {path.name: path.read_text() for path in (tmp_path / "secrets").iterdir()} == made
    for name in re.findall(r"file: \./deploy/secrets/([\w.]+)", COMPOSE):
        assert name in made


def test_proxies_accept_the_largest_upload() -> None:
    limits = [
        re.search(r"client_max_body_size (\d+)m;", (ROOT / "deploy" / "nginx.conf").read_text()),
        re.search(r"max_size (\d+)MiB", (ROOT / "deploy" / "Caddyfile").read_text()),
    ]

    for limit in limits:
        assert limit is not None
        assert int(limit[1]) * 1024 * 1024 > defaults.MAX_UPLOAD_BYTES


@pytest.mark.needs("systemd-analyze")
@pytest.mark.parametrize("unit", UNITS, ids=[unit.name for unit in UNITS])
def test_systemd_accepts_the_unit(unit: Path, tmp_path: Path) -> None:
    # Systemd looks for the program, and ours is not installed here.
    for each in unit.parent.iterdir():
        text = each.read_text().replace("/opt/tributary/venv/bin/python", "/bin/true")
        (tmp_path / each.name).write_text(text)
    name = unit.name.replace("@.", "@1.")
    if name != unit.name:
        (tmp_path / name).symlink_to(tmp_path / unit.name)

    verified = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / name)],
        stderr=subprocess.PIPE,
        text=True,
        env={"SYSTEMD_UNIT_PATH": f"{tmp_path}:/lib/systemd/system", "PATH": "/usr/bin:/bin"},
    )

    complaints = [line for line in verified.stderr.splitlines() if "tributary" in line]
    assert complaints == []
