"""An answer as a page shows it, with the cursor from which the live connection continues."""

from __future__ import annotations

import sys
import threading
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.conf import settings
from django.utils.safestring import SafeString

from chat import events as canonical
from chat.core import metrics
from chat.models import Run
from chat.rendering.markdown import picture_addresses
from chat.rendering.patches import Answer
from chat.runs.event_buffer import LogEntry
from chat.runs.segments import read_entries, read_logs


def replay_id(run: Run) -> str:
    """The answer's element is ``r`` and this, its phase ``p`` and this."""
    return f"{run.public_id.hex}-replay"


def check_of(entries: Iterable[LogEntry], start: int = 0) -> int:
    """The checksum of a log, carried on from ``start`` over further entries.

    Two logs that agree up to a number have the same checksum there; a restored backup, or
    another run under an old number, does not.
    """
    check = start
    for entry in entries:
        check = zlib.crc32(entry.body, check)
    return check


# An answer on a page, with the cursor from which the live connection continues.

# The run, the number of its last event, and when that was.
Ending = tuple[UUID, int, datetime | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedAnswer:
    """The snapshot of a run at ``seq``. ``check`` is the checksum of its log up to there."""

    run_id: str
    html: SafeString
    phase_html: SafeString
    seq: int
    check: str
    state: str
    is_live: bool
    has_words: bool


class _Cache:
    """The most recently used ended answers, by run, within a limit of bytes. They never change, so
    their HTML may be kept; it is never the truth."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._size_bytes = 0
        self._entries: OrderedDict[Ending, RenderedAnswer] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Ending) -> RenderedAnswer | None:
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
            return self._entries.get(key)

    def put(self, key: Ending, answer: RenderedAnswer) -> None:
        with self._lock:
            if key in self._entries:
                return
            self._entries[key] = answer
            self._size_bytes += sys.getsizeof(answer.html)
            while self._size_bytes > self._limit_bytes and self._entries:
                _, dropped = self._entries.popitem(last=False)
                self._size_bytes -= sys.getsizeof(dropped.html)


_ended = _Cache(int(settings.ANSWER_CACHE_MB * 1024 * 1024))


def render_answer(run: Run) -> RenderedAnswer:
    """Renders what is committed. Text and cursor come from one read of the log."""
    return _kept(run) or _render(run, read_entries(run.pk))


def render_answers(runs: Sequence[Run]) -> dict[int, RenderedAnswer]:
    """The same for the runs of a page, by key: one read of all the logs that are not kept."""
    rendered = {run.pk: _kept(run) for run in runs}
    unread = [run.pk for run in runs if rendered[run.pk] is None and not run.is_queued]
    logs = read_logs(unread) if unread else {}
    return {run.pk: rendered[run.pk] or _render(run, logs.get(run.pk, [])) for run in runs}


def render_unfolded(run: Run, entries: Iterable[LogEntry]) -> SafeString:
    """The answer with all that is in its folds, for pages and files that cannot load content later.
    Empty if the log is no longer stored."""
    answer = _answer_of(run.public_id.hex, entries)
    if not answer.seq:
        return SafeString("")
    answer.unfold()
    return answer.snapshot()


def render_part(run: Run, part_id: str) -> SafeString | None:
    """The content of a fold of the answer or of its replay, or the next slice of a long text, from the
    committed events: parts that a replay leaves out are complete. ``None`` if there is no such part."""
    replay = replay_id(run)
    is_replay = part_id.startswith(f"r{replay}-")
    return _committed(run, replay if is_replay else run.public_id.hex).part(part_id)


def pictures_in(run: Run) -> list[str]:
    """The addresses of remote pictures in the committed part of an answer, as in its HTML, with
    folds."""
    answer = _committed(run, run.public_id.hex)
    answer.unfold()
    return picture_addresses("".join([answer.snapshot(), *answer.slices()]))


def _committed(run: Run, answer_id: str) -> Answer:
    return _answer_of(answer_id, read_entries(run.pk))


def _answer_of(answer_id: str, entries: Iterable[LogEntry]) -> Answer:
    answer = Answer(answer_id)
    for entry in entries:
        answer.apply(canonical.decode(entry.body))
    return answer


def _kept(run: Run) -> RenderedAnswer | None:
    kept = None if run.is_live else _ended.get(_ending_of(run))
    if kept is not None:
        metrics.SNAPSHOTS.labels("kept").inc()
    return kept


def _ending_of(run: Run) -> Ending:
    """The end that identifies a cached answer: after a restore the same run may have another
    one."""
    return run.public_id, run.last_seq, run.finished_at


def _render(run: Run, entries: list[LogEntry]) -> RenderedAnswer:
    metrics.SNAPSHOTS.labels("rendered").inc()
    answer = _answer_of(run.public_id.hex, entries)
    has_ended = bool(entries) and entries[-1].is_end
    rendered = RenderedAnswer(
        run_id=run.public_id.hex,
        html=answer.snapshot(),
        phase_html=answer.phase(),
        seq=answer.seq,
        check=format_check(check_of(entries)),
        state=answer.state,
        is_live=not has_ended,
        has_words=answer.has_words,
    )
    if has_ended and not run.is_live:
        _ended.put(_ending_of(run), rendered)
    return rendered


def format_check(check: int) -> str:
    return f"{check:08x}"
