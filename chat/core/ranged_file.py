"""A file of which any range can be read, as a binary file object."""

from __future__ import annotations

import io


class RangedFile(io.RawIOBase):
    """Read only. Subclasses say how to read a range; wrap it in ``io.BufferedReader``."""

    def __init__(self, size_bytes: int) -> None:
        self._size_bytes = size_bytes
        self._position = 0

    def read_range(self, offset: int, length: int) -> bytes:
        """At least one byte, and at most ``length`` bytes, from a place before the end."""
        raise NotImplementedError

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size_bytes}
        self._position = max(0, start[whence] + offset)
        return self._position

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # a writable buffer
        length = min(len(buffer), self._size_bytes - self._position)
        if length <= 0:
            return 0
        part = self.read_range(self._position, length)
        buffer[: len(part)] = part
        self._position += len(part)
        return len(part)
