"""A disk of a few megabytes, in memory, which a test can fill. Only root may mount one."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

MEGABYTE = 1024 * 1024
_BALLAST = "ballast"


@contextmanager
def small_disk(folder: Path, *, megabytes: int) -> Iterator[SmallDisk]:
    """Skips the test where it can't be mounted."""
    folder.mkdir(exist_ok=True)
    options = ["-t", "tmpfs", "-o", f"size={megabytes}m,mode=755", "tmpfs", str(folder)]
    try:
        subprocess.run(["mount", *options], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("a disk can't be mounted here")
    try:
        yield SmallDisk(folder)
    finally:
        # Lazily: a process that was killed may still have files open.
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


class SmallDisk:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def fill(self, *, left_bytes: int) -> None:
        """Leaves so much room, whatever else writes meanwhile."""
        with (self.folder / _BALLAST).open("ab") as ballast:
            while (room := self._room()) > left_bytes:
                ballast.write(bytes(min(room - left_bytes, MEGABYTE)))
                ballast.flush()

    def free(self) -> None:
        (self.folder / _BALLAST).unlink()

    def _room(self) -> int:
        found = os.statvfs(self.folder)
        return found.f_bavail * found.f_frsize
