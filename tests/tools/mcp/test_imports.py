"""The library of the MCP client is imported in runners only, and not before the first use."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
LIBRARY = {"mcp", "mcp_types", "httpx2", "pydantic"}
CLIENT = ROOT / "chat" / "tools" / "mcp"
# Of `chat.tools.mcp`, these are imported by others.
LIGHT = {"__init__.py", "listing.py"}

# Everything that a process of web pages imports, and what the embedded runner does at its start.
PROGRAM = """
import os, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "project.settings"
import django; django.setup()
import project.asgi, project.urls, chat.runs.runner, chat.runs.standalone_runner
from django.urls import get_resolver
get_resolver().url_patterns
print(sorted(set(sys.modules) & {"mcp", "mcp_types", "httpx2", "pydantic", "starlette"}))
"""


def test_only_the_modules_of_the_client_import_the_library() -> None:
    heavy = {f"chat.tools.mcp.{path.stem}" for path in CLIENT.iterdir() if path.name not in LIGHT}
    for path in (ROOT / "chat").rglob("*.py"):
        if path.parent == CLIENT and path.name not in LIGHT:
            continue
        text = path.read_text()
        if any(name in text for name in LIBRARY):
            found = _imports(path)
            assert not {name.partition(".")[0] for name in found} & LIBRARY, path
            assert not set(found) & heavy, path


def _imports(path: Path) -> list[str]:
    """Of the module itself: what a function imports is loaded when it is called."""
    names: list[str] = []
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.append(node.module or "")
    return names


@pytest.mark.slow
def test_web_process_and_starting_runner_do_not_load_it(tmp_path: Path) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            cwd=ROOT,
            env={"RUNNER": runner, "DATA_DIR": str(tmp_path / runner), "PATH": "/usr/bin"},
            stdout=subprocess.PIPE,
            text=True,
        )
        for runner in ("external", "embedded")
    ]

    assert [process.communicate()[0].strip() for process in processes] == ["[]", "[]"]
