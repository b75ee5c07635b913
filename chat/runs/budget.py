"""Limits the bytes that were read and are not committed yet: those of one run, and of all runs.

Over a limit reading pauses, so that upstreams wait instead of memory growing. For use on one event
loop.
"""

from __future__ import annotations

from weakref import WeakSet

from chat.core import metrics
from chat.core.waiting import Signal

# Half a minute of a fast answer, and little enough for fifty servers at full speed.
RUN_WAITING_BYTES = 512 * 1024


class Budget:
    """The uncommitted bytes of all runs of a process."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0
        self.room = Signal()
        self.room.set()
        _budgets.add(self)

    def change(self, by_bytes: int) -> None:
        self.held_bytes += by_bytes
        if self.held_bytes < self.limit_bytes:
            self.room.set()
        else:
            self.room.clear()


class RunBudget:
    """The uncommitted bytes of one run, which the budget of all runs includes."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._held_bytes = 0
        self._room = Signal()
        self._room.set()

    def hold(self, waiting_bytes: int, writing_bytes: int = 0) -> None:
        """Sets how many bytes wait for a commit, and how many the commit under way has."""
        held_bytes = waiting_bytes + writing_bytes
        self._budget.change(held_bytes - self._held_bytes)
        self._held_bytes = held_bytes
        if waiting_bytes > RUN_WAITING_BYTES:
            self._room.clear()
        else:
            self._room.set()

    @property
    def has_room(self) -> bool:
        return self._room.is_set() and self._budget.room.is_set()

    async def wait_for_room(self) -> None:
        while not self.has_room:
            await (self._budget.room if self._room.is_set() else self._room).wait()


_budgets: WeakSet[Budget] = WeakSet()
metrics.PENDING_BYTES.read_from(lambda: {"": sum(budget.held_bytes for budget in _budgets)})
