"""The memory of a process."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.processes.site import Process


def peak_bytes(process: Process) -> int:
    """The most that it has used so far."""
    status = Path(f"/proc/{process.process.pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024
