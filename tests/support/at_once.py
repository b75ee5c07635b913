"""Actions that begin at the same moment."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from django.db import connection

from chat.core.errors import ActionRefused


def at_once(*actions: Callable[[], object]) -> list[object]:
    """What each returns or raises; all begin together, each with a connection of its own."""
    together = threading.Barrier(len(actions))

    def act(action: Callable[[], object]) -> object:
        together.wait(60)
        try:
            return action()
        except ActionRefused as refusal:
            return refusal
        finally:
            connection.close()

    with ThreadPoolExecutor(len(actions)) as pool:
        return list(pool.map(act, actions))
