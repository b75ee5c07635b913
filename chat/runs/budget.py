"""What all runs of a runner may hold in memory together while the database is away."""

from __future__ import annotations

import asyncio


class Budget:
    """Counts bytes that were read and are not committed. Beyond the limit nobody reads on until
    some are: the upstreams wait, instead of our memory growing. Used on one event loop."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0
        self.room = asyncio.Event()
        self.room.set()

    @property
    def has_room(self) -> bool:
        return self.held_bytes < self.limit_bytes

    def change(self, by_bytes: int) -> None:
        self.held_bytes += by_bytes
        if self.has_room:
            self.room.set()
        else:
            self.room.clear()
