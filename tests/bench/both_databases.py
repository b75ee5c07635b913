"""Runs a benchmark in one process for each database, since the settings are read once."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.servers import PostgreSQL


def measured_on_both(module: str) -> Iterator[tuple[str, Any]]:
    """The database's name, and what ``python -m MODULE`` printed as JSON about an empty one."""
    with tempfile.TemporaryDirectory(prefix="tributary-bench-") as folder:
        yield "SQLite", _measured(module, {"DATA_DIR": folder})
    with PostgreSQL() as server:
        server.create("bench")
        yield "PostgreSQL", _measured(module, {"DATABASE_URL": server.url("bench")})


def _measured(module: str, environment: dict[str, str]) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", module],
        cwd=Path(__file__).parents[2],
        env={**os.environ, **environment},
        check=True,
        stdout=subprocess.PIPE,
    )
    return json.loads(done.stdout)
