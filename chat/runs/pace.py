"""When the next commit comes, and how many runs it takes."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from itertools import chain

# 50 ms: below what a reader notices. Under light load the pause is shorter, ten times what the last
# commit has cost, so that committing takes a tenth of the time at most. Beside its own time it
# costs about so much for each run: to be read and woken here, and to be shown by a web process.
FLUSH_SECONDS = 0.05
COMMIT_SHARE = 10
RUN_SECONDS = 0.0005
# Many runs are committed by turns, each still once in a pause: of two hundred at once every word
# would wait until those of all are parsed, committed, sent and shown. A turn costs a commit: with a
# third one half of the words come 5 ms earlier, for no more of the processors' time than can be seen.
TURNS = 3
TURN_RUNS = 25


class Pace:
    """Tells a writer how to go on. Runs are their keys; times are the loop's, in seconds."""

    def __init__(self) -> None:
        # When a commit was begun, and which runs it took; those of the last pause.
        self._recent: deque[tuple[float, Collection[int]]] = deque()
        self._turns = 1

    def share(self, waiting: Iterable[int], now: float) -> int:
        """How many of the runs that are ``waiting`` go into the commit that begins ``now``."""
        while self._recent and self._recent[0][0] <= now - FLUSH_SECONDS:
            self._recent.popleft()
        # Whoever was in the last turn may be waiting again.
        busy = len({*waiting, *chain.from_iterable(runs for _, runs in self._recent)})
        self._turns = max(1, min(TURNS, busy // TURN_RUNS))
        return -(-busy // self._turns)

    def pause(self, runs: Collection[int], began: float, spent: float) -> float:
        """How long to wait behind a commit of these runs that ``began`` then and has ``spent`` so
        much."""
        self._recent.append((began, runs))
        cost = spent + len(runs) * RUN_SECONDS
        return max(0.0, min(FLUSH_SECONDS, cost * COMMIT_SHARE) / self._turns - spent)
