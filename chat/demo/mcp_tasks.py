"""Tasks of the demo's MCP server: work that goes on after the call was answered."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic
from typing import Any

JsonObject = dict[str, Any]

EXTENSION = "io.modelcontextprotocol/tasks"
# The oldest task is forgotten when there are more.
MOST_TASKS = 100
POLL_MILLISECONDS = 1000
_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"


class UnknownTask(Exception):
    """There is no task of this id, or it was forgotten."""


@dataclass(slots=True, kw_only=True)
class _Task:
    steps: Sequence[str]
    result: JsonObject
    created_at: str
    began: float
    is_canceled: bool = False


class DemoTasks:
    """Each task has one step after the other, each of the same time divided by ``speed``; with 0 it is over at once."""

    methods = ("tasks/get", "tasks/update", "tasks/cancel")

    def __init__(self, step_seconds: float, *, speed: float) -> None:
        self._seconds = step_seconds / speed if speed else 0.0
        self._tasks: dict[str, _Task] = {}

    def begin_task(self, steps: Sequence[str], result: JsonObject) -> JsonObject:
        name = secrets.token_urlsafe(24)
        now = datetime.now(UTC).isoformat()
        self._tasks[name] = _Task(steps=steps, result=result, created_at=now, began=monotonic())
        while len(self._tasks) > MOST_TASKS:
            del self._tasks[next(iter(self._tasks))]
        return {**self._state(name, self._tasks[name]), "resultType": "task", "status": "working"}

    def answer(self, method: str, name: object) -> JsonObject:
        """Raises ``UnknownTask``."""
        task = self._tasks.get(name) if isinstance(name, str) else None
        if task is None:
            raise UnknownTask
        if method == "tasks/get":
            return {"resultType": "complete", **self._state(str(name), task)}
        if method == "tasks/cancel":
            task.is_canceled = True
        # No task asks for anything.
        return {"resultType": "complete"}

    def _state(self, name: str, task: _Task) -> JsonObject:
        done = int((monotonic() - task.began) / self._seconds) if self._seconds else len(task.steps)
        state: JsonObject = {
            "taskId": name,
            "createdAt": task.created_at,
            "lastUpdatedAt": datetime.now(UTC).isoformat(),
            "ttlMs": None,
            "pollIntervalMs": POLL_MILLISECONDS,
        }
        if task.is_canceled:
            return {**state, "status": "cancelled"}
        if done >= len(task.steps):
            return {**state, "status": "completed", "result": task.result}
        return {**state, "status": "working", "statusMessage": task.steps[done]}


def declares_tasks(params: JsonObject) -> bool:
    """Returns whether the client has said that it can follow a task."""
    capabilities = (params.get("_meta") or {}).get(_CAPABILITIES) or {}
    return EXTENSION in (capabilities.get("extensions") or {})
