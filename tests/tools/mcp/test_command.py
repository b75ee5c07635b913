"""Servers that are commands of the installation."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured
from pytest_django import Settings

from chat.core.errors import ActionRefused
from chat.models import Team, User
from chat.tools.command_lines import CommandLine
from chat.tools.mcp import call_mcp
from chat.tools.servers import add_server, change_server
from project import env
from tests.support.processes.site import soon
from tests.tools.mcp.conftest import Caller

PROGRAM = Path(__file__).with_name("command_server.py")
SECRET = "sk-canary-0123456789abcdef"
Harbor = Callable[[str], str]


@pytest.fixture
def marks(tmp_path: Path) -> Path:
    """The process ids of what was started."""
    return tmp_path / "marks"


@pytest.fixture
def harbor(settings: Settings, marks: Path) -> Harbor:
    """Sets the command, and gives its address."""

    def harbor(how: str = "") -> str:
        arguments = (sys.executable, str(PROGRAM), how, str(marks))
        line = CommandLine(arguments, {"HARBOR_KEY": SECRET})
        settings.TOOL_COMMANDS = {"harbor": line}
        return "command:harbor"

    return harbor


def until_ended(marks: Path) -> int:
    """Waits for the end of all that was started, and returns their number: a killed process goes in a moment."""
    started = [int(line) for line in marks.read_text().split()]
    soon(lambda: not any(map(is_running, started)))
    return len(started)


def is_running(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


async def test_command_is_listed_and_called(caller: Caller, settings: Settings) -> None:
    root = str(Path(__file__).resolve().parents[3])
    arguments = (sys.executable, "-m", "tests.tools.mcp.own_command")
    line = CommandLine(arguments, {"PYTHONPATH": root})
    settings.TOOL_COMMANDS = {"harbor": line}

    listing = await caller.list("command:harbor")
    output = await caller.call("command:harbor", "level", {"station": "Basel"})

    assert "level" in [tool.name for tool in listing.tools]
    assert [state for _, state, _ in caller.steps] == ["running", "ok", "ok", "running"]
    assert (output.text, output.is_error) == ("2.31 m at Basel", False)
    assert caller.sent == 1
    assert caller.progress == [{"progress": 1, "total": 2, "message": "measuring"}]
    assert output.request_bytes > 0 < output.response_bytes


async def test_messages_of_a_command_are_kept_without_its_keys(
    caller: Caller, harbor: Harbor
) -> None:
    await caller.call(harbor("environment"), "any", {"pier": "north"})

    [recording] = caller.recordings
    assert '"pier":"north"' in recording.sent
    assert "HARBOR_KEY" in recording.received
    assert SECRET not in recording.received


@dataclass(frozen=True)
class Fault:
    sentence: str
    may_have_run: bool = False
    calls: int = 1


FAULTS = {
    "dies at once": Fault("ended before it answered", calls=0),
    "dies": Fault("ended before it answered", True),
    "floods": Fault("result is larger"),
    "floods values": Fault("result is larger"),
    "refuses": Fault("The server says: No such gate"),
}


@pytest.mark.parametrize("how", FAULTS)
async def test_each_fault_has_its_sentence(
    caller: Caller, harbor: Harbor, marks: Path, how: str
) -> None:
    fault = FAULTS[how]

    failed = await asyncio.wait_for(caller.failure(harbor(how)), 60)

    assert fault.sentence in str(failed)
    assert failed.may_have_run is fault.may_have_run
    assert caller.sent == fault.calls
    assert until_ended(marks) == 1


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (None, "no longer has the command"),
        (CommandLine(("/no/such/program",), {}), "couldn’t be started"),
        (CommandLine((str(PROGRAM.parent),), {}), "couldn’t be started"),
    ],
)
async def test_command_that_cannot_be_started(
    caller: Caller, settings: Settings, line: CommandLine | None, sentence: str
) -> None:
    settings.TOOL_COMMANDS = {"harbor": line} if line else {}

    failed = await caller.failure("command:harbor")

    assert sentence in str(failed)
    assert not failed.may_have_run
    assert sentence in await caller.list_failure("command:harbor")


async def test_stopped_call_ends_the_whole_group(
    caller: Caller, harbor: Harbor, marks: Path
) -> None:
    address = harbor("stays")
    output = await caller.call(address, "any", {"gate": 7})
    assert output.text == "{'gate': 7}"
    assert until_ended(marks) == 2

    call = asyncio.ensure_future(call_mcp(caller.request(harbor("never answers"), "any")))
    while caller.sent < 2:
        await asyncio.sleep(0.01)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call

    assert until_ended(marks) == 3


async def test_lines_that_are_no_messages_are_passed_over(caller: Caller, harbor: Harbor) -> None:
    output = await caller.call(harbor("says no JSON"), "any")

    assert output.text == "after it"


async def test_command_gets_its_own_environment_and_no_key_comes_back(
    caller: Caller, harbor: Harbor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_KEY", "ours")

    output = await caller.call(harbor("environment"), "any")
    folder = await caller.call(harbor("folder"), "any")

    environment = json.loads(output.text)
    assert environment["PATH"] == os.environ["PATH"]
    assert "HARBOR_KEY" in environment
    assert SECRET not in output.text
    assert "SECRET_KEY" not in environment
    assert "DATABASE_URL" not in environment
    assert os.path.realpath(folder.text) == os.path.realpath(tempfile.gettempdir())


@pytest.mark.django_db
def test_only_administrators_use_commands(
    harbor: Harbor, settings: Settings, administrator: User, team: Team, alice: User
) -> None:
    settings.TEAM_TOOL_SERVERS = True
    address = harbor()

    with pytest.raises(ActionRefused, match="Only administrators"):
        add_server(alice, team, name="Harbor", address=address, headers={})
    with pytest.raises(ActionRefused, match="no command named nowhere"):
        add_server(administrator, team, name="Harbor", address="command:nowhere", headers={})
    with pytest.raises(ActionRefused, match="no headers and no sign-in"):
        add_server(administrator, team, name="Harbor", address=address, headers={"A": "b"})
    server = add_server(administrator, team, name="Harbor", address=address, headers={})
    # Its other settings are as with all servers.
    change_server(alice, server, name="Port", address=address, headers=None)

    server.refresh_from_db()
    assert (server.name, server.address) == ("Port", address)


def test_command_lines_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    value = '{"files": {"command": "npx", "args": ["-y", "server"], "env": {"KEY": "a"}}, "git": {"command": "git"}}'
    monkeypatch.setenv("TOOL_COMMANDS", value)

    assert env.command_lines("TOOL_COMMANDS") == {
        "files": (("npx", "-y", "server"), {"KEY": "a"}),
        "git": (("git",), {}),
    }


@pytest.mark.parametrize(
    "value",
    [
        "[]",
        "{",
        '{"a b": {"command": "x"}}',
        '{"a": {}}',
        '{"a": {"command": "x", "args": "y"}}',
        '{"a": {"command": "x", "cwd": "/"}}',
        f'{{"a": {{"command": "x", "env": {{"KEY": ["{SECRET}"]}}}}}}',
    ],
)
def test_wrong_command_lines_are_refused_without_quoting_them(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("TOOL_COMMANDS", value)

    with pytest.raises(ImproperlyConfigured, match="TOOL_COMMANDS must be") as caught:
        env.command_lines("TOOL_COMMANDS")

    assert SECRET not in str(caught.value)
