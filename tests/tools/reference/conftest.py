"""The reference programs of MCP's own project, which `make mcp-reference` installs, and a team that uses a server."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from django.core.cache import cache
from pytest_django import Settings

from chat.models import Team, User
from chat.runs import runner as runners
from chat.tools.runner import RUN_CALLS
from chat.tools.server_tests import TEST_SERVERS
from chat.tools.sign_in import found
from tests.support.browser.site import free_port
from tests.support.run_fixtures import MakeRun, StartRunner
from tests.support.upstream.fake import FakeUpstream
from tests.tools.reference.product import Product
from tests.tools.reference.programs import ENVIRONMENT, HERE, NODE, PACKAGES


@pytest.fixture(scope="session")
def packages() -> Path:
    """The folder of the packages."""
    if not (ENVIRONMENT / ".installed").exists():
        pytest.skip(
            f"MCP REFERENCE PROGRAMS NOT INSTALLED: nothing in {ENVIRONMENT.name}; "
            "`make mcp-reference` installs them (docs/mcp.md)"
        )
    return PACKAGES


@pytest.fixture(scope="module")
def everything(packages: Path) -> Iterator[str]:
    """The address of the reference server, which has a tool of each sort."""
    port = free_port()
    program = str(packages / "server-everything/dist/index.js")
    command = [NODE, "--require", str(HERE / "loopback.cjs"), program, "streamableHttp"]
    # One of its tools tells its environment.
    process = subprocess.Popen(
        command,
        env={"PORT": str(port)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        assert "listening" in process.stderr.readline()
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.communicate()


@pytest.fixture
async def product(
    alice: User,
    team: Team,
    fake: FakeUpstream,
    make_run: MakeRun,
    start_runner: StartRunner,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> Product:
    """With a runner that looks for work all the time."""
    settings.TEAM_TOOL_SERVERS = True
    settings.UPSTREAM_PRIVATE_NETWORKS = "any"
    # It counts the sign-ins of a minute.
    cache.clear()
    # Ports are used again.
    found.forget()
    for task in (RUN_CALLS, TEST_SERVERS):
        name = next(name for name, each in runners.periodic_tasks().items() if each is task)
        monkeypatch.setitem(runners._periodic_tasks, name, replace(task, seconds=0.02))
    await start_runner()
    return Product(alice=alice, team=team, fake=fake, make_run=make_run)
