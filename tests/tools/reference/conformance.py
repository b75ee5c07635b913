"""The conformance runner of MCP's own project: it serves a scenario, starts a client, and checks what the client does.

Its servers listen at a free port of all interfaces, for the seconds of a scenario, and know nothing of ours.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.tools.reference.programs import HERE, NODE

# The runner's own limit for the client, on a machine that has other things to do.
CLIENT_SECONDS = 120

# Takes the address of the server of a scenario, and what the runner tells beside it. An exception is the client's error.
Use = Callable[[str, Mapping[str, Any]], Awaitable[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The runner's verdict. ``complaints`` are the checks that failed or gave a warning, ``successes`` counts the others;
    ``words`` is all that the runner wrote, and ``error`` that of our client."""

    passed: bool
    successes: int
    complaints: list[str]
    words: str
    error: str


async def run_scenario(packages: Path, name: str, version: str, folder: Path, use: Use) -> Report:
    """Runs a scenario, in the version of the protocol (empty: the one of the scenario), with ``use`` as its client."""
    errors: list[str] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = json.loads(await reader.readline())
        try:
            await use(task["url"], task["context"])
        except Exception as error:
            errors.append(str(error) or repr(error))
            writer.write(errors[-1].encode())
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(take, "127.0.0.1") as server:
        port = server.sockets[0].getsockname()[1]
        process = await asyncio.create_subprocess_exec(
            NODE,
            str(packages / "conformance/dist/index.js"),
            *("client", "--scenario", name, "--timeout", str(CLIENT_SECONDS * 1000)),
            *("--command", f"{sys.executable} -S {HERE / 'forward.py'} {port}"),
            *("--output-dir", str(folder)),
            *(("--spec-version", version) if version else ()),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        words, _ = await process.communicate()
    found = [json.loads(path.read_text()) for path in folder.rglob("checks.json")]
    results = [(check["id"], check["status"]) for checks in found for check in checks]
    complaints = [check for check, status in results if status in ("FAILURE", "WARNING")]
    return Report(
        passed=process.returncode == 0 and len(found) == 1,
        successes=sum(status == "SUCCESS" for _, status in results),
        complaints=list(dict.fromkeys(complaints)),
        words=words.decode(errors="replace"),
        error="".join(errors),
    )


async def listed_scenarios(packages: Path) -> dict[str, list[str]]:
    """The scenarios for clients, each with its versions of the protocol."""
    command = [NODE, str(packages / "conformance/dist/index.js"), "list", "--client"]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    words, _ = await process.communicate()
    lines = [line.strip() for line in words.decode().splitlines()]
    pairs = [line.removeprefix("- ").split(" ") for line in lines if line.startswith("- ")]
    return {name: versions.strip("[]").split(",") for name, versions in pairs}
