"""One process at a time: a lock on a file that the operating system drops with its holder."""

import fcntl
import os
from pathlib import Path


class HeldElsewhere(Exception):
    """Another process holds the lock; ``pid`` says which, where that could be read."""

    def __init__(self, pid: str) -> None:
        super().__init__(pid)
        self.pid = pid


class FileLock:
    """Held from ``acquire`` until ``release`` or the end of the process, however that comes.

    The file stays: removing it would let a third process lock a new file of the same name while
    the second still holds the old one.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Takes the lock or raises ``HeldElsewhere``, without waiting."""
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.read(descriptor, 32).decode("ascii", "replace").strip()
            os.close(descriptor)
            raise HeldElsewhere(pid or "unknown") from None
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        self._descriptor = descriptor

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
