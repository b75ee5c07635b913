"""Runs a management command with one change: ``python -m tests.support.processes.serve CHANGE serve …``.

Most of them stop it at one place in the code, to be killed there: the thread that reaches the place
writes a file in ``DATA_DIR`` and goes no further, while everything else in the process goes on.
"""

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

REACHED = "reached"
# While this file is in DATA_DIR, the process pauses at its place.
PAUSE = "pause"
SEND_BUFFER_BYTES = 64 * 1024


def stop_here() -> None:
    Path(os.environ["DATA_DIR"], REACHED).touch()
    threading.Event().wait()


def freeze_here() -> None:
    """Stops all threads of the process: others go on with what was committed."""
    Path(os.environ["DATA_DIR"], REACHED).touch()
    os.kill(os.getpid(), signal.SIGSTOP)


def pause_here() -> None:
    """Goes on when the test removes `PAUSE`."""
    Path(os.environ["DATA_DIR"], REACHED).touch()
    while must_pause():
        time.sleep(0.02)


def must_pause() -> bool:
    return Path(os.environ["DATA_DIR"], PAUSE).exists()


def before_request() -> None:
    """Claimed; the prompt is about to be read, and nothing was sent."""
    from chat.runs import execution

    execution.prepare = lambda *_, **more: stop_here()


def before_going_on() -> None:
    """What was given to an answer that waited is in its log, and nothing was sent."""
    from chat.models import Run
    from chat.runs import execution

    begin_attempt = execution.begin_attempt

    def stopping(run_pk: int, runner: UUID, dialect: str) -> int:
        if Run.objects.get(pk=run_pk).position:
            stop_here()
        return begin_attempt(run_pk, runner, dialect)

    execution.begin_attempt = stopping


def before_last_commit() -> None:
    """The whole answer was read; its end is not in the database."""
    _around_end(before=stop_here)


def after_last_commit() -> None:
    """The end is in the database, and nobody has been told."""
    _around_end(after=stop_here)


def frozen_after_last_commit() -> None:
    """The end is in the database, and no thread of the process does anything about it."""
    _around_end(after=freeze_here)


def _around_end(
    *, before: Callable[[], None] = lambda: None, after: Callable[[], None] = lambda: None
) -> None:
    from chat.runs import segments
    from chat.runs.pg_writer import AsyncSegmentWriter

    commit, on_loop = segments.commit, AsyncSegmentWriter.first_column

    def stopping(writes: Any) -> Any:
        is_end = any(write.is_end for write in writes)
        if is_end:
            before()
        outcomes = commit(writes)
        if is_end:
            after()
        return outcomes

    async def stopping_on_loop(writer: Any, text: str, values: Any) -> Any:
        """The whole process goes no further here."""
        is_end = "WITH ended" in text
        if is_end:
            before()
        kept = await on_loop(writer, text, values)
        if is_end:
            after()
        return kept

    segments.commit = stopping
    AsyncSegmentWriter.first_column = stopping_on_loop  # type: ignore[method-assign]


def inside_last_commit() -> None:
    """Status, result and last segment are written, in a transaction that is still open."""
    from chat.runs import segments

    end = segments._end

    def stopping(write: segments.SegmentWrite) -> bool:
        end(write)
        stop_here()
        return True

    # As where several answers end together: of one alone PostgreSQL makes one statement.
    segments._is_one_statement = lambda writes: False
    segments.is_plain_end = lambda write: False
    segments._end = stopping


def after_enqueue() -> None:
    """A message is in the queue, and its page has no answer."""
    from chat.message_queue import actions

    actions._send_due = lambda _: stop_here()


def before_queued_message() -> None:
    """The answer has ended; the message behind it is about to be sent."""
    from chat.message_queue import sending

    sending._send = lambda *_: stop_here()


def inside_queued_message() -> None:
    """The message is a turn and no longer queued, in a transaction that is still open."""
    from chat.message_queue import sending

    send = sending._send

    def stopping(*args: Any) -> None:
        send(*args)
        stop_here()

    sending._send = stopping


def after_queued_message() -> None:
    """It is committed that the message was sent, and nobody has been told."""
    from chat.message_queue import sending

    advance = sending.advance

    def stopping(room: int) -> bool:
        if has_changed := advance(room):
            stop_here()
        return has_changed

    sending.advance = stopping


def during_reading() -> None:
    """A job that reads a document is claimed, and nothing is read yet."""
    from chat.jobs import actions
    from chat.models import JobKind

    claim = actions.claim

    def stopping(*args: Any) -> Any:
        job = claim(*args)
        if job is not None and job.kind == JobKind.READ:
            stop_here()
        return job

    actions.claim = stopping


def before_tool_claim() -> None:
    """The calls of an answer are queued."""
    from chat.tools import claims

    claims.claim_due = lambda *_: stop_here()


def before_tool_mark() -> None:
    """The calls are claimed, and nothing says that they were sent."""
    from chat.tools import claims

    claims.mark_sent = lambda *_: stop_here()


def before_tool_request() -> None:
    """It is stored that a call may have run, and nothing was sent."""
    from chat.tools import claims

    mark = claims.mark_sent

    def stopping(*args: Any) -> bool:
        is_marked = mark(*args)
        stop_here()
        return is_marked

    claims.mark_sent = stopping


def before_tool_result() -> None:
    """A server has answered a call, and its result is not in the database."""
    from chat.tools import endings

    endings.end_call = lambda *_: stop_here()


def inside_tool_result() -> None:
    """A result is written, in a transaction that is still open."""
    from chat.questions import actions

    settle = actions.settle_running

    def stopping(*args: Any) -> bool:
        is_settled = settle(*args)
        stop_here()
        return is_settled

    actions.settle_running = stopping


def after_tool_result() -> None:
    """The results of three calls are in the database, with the run that continues."""
    from chat.tools import endings

    end, ended = endings.end_call, 0

    def stopping(*args: Any) -> bool:
        nonlocal ended
        is_ended = end(*args)
        ended += 1
        if ended == 3:
            stop_here()
        return is_ended

    endings.end_call = stopping


def before_answered_claim() -> None:
    """People have answered what a tool asks, and no runner has the call yet."""
    from chat.tools import claims

    claim_due = claims.claim_due

    def stopping(*args: Any) -> Any:
        if _has_answered_call():
            stop_here()
        return claim_due(*args)

    claims.claim_due = stopping


def before_answered_request() -> None:
    """It is stored that the call is made again with the answer, and nothing was sent."""
    from chat.tools import claims

    mark = claims.mark_sent

    def stopping(*args: Any) -> bool:
        is_marked = mark(*args)
        if _has_answered_call():
            stop_here()
        return is_marked

    claims.mark_sent = stopping


def before_answered_result() -> None:
    """The server has answered the call that was made again, and its result is not in the database."""
    from chat.tools import endings

    end = endings.end_call

    def stopping(*args: Any) -> bool:
        if _has_answered_call():
            stop_here()
        return end(*args)

    endings.end_call = stopping


def _has_answered_call() -> bool:
    from chat.models import ToolCall

    return ToolCall.objects.filter(answered_round__gt=0).exists()


def before_task_stored() -> None:
    """A server has begun a task, and its id is not in the database."""
    from chat.tools import left_tasks

    left_tasks.store_task = lambda *_: stop_here()


def after_task_stored() -> None:
    """The id of a task is in the database, and nobody has asked about it."""
    from chat.tools import left_tasks

    store = left_tasks.store_task

    def stopping(*args: Any) -> bool:
        is_stored = store(*args)
        stop_here()
        return is_stored

    left_tasks.store_task = stopping


def during_export() -> None:
    """Two conversations are in the archive, and a piece of it is in the database."""
    from chat.exports import zip_job

    add, added = zip_job._add, 0

    def stopping(*args: Any) -> str:
        nonlocal added
        reason = add(*args)
        added += 1
        if added == 2:
            stop_here()
        return reason

    zip_job._add = stopping


def during_import() -> None:
    """Two conversations were imported."""
    from chat.imports import actions

    write, written = actions._written, 0

    def stopping(*args: Any) -> bool:
        nonlocal written
        is_written = write(*args)
        written += 1
        if written == 2:
            stop_here()
        return is_written

    actions._written = stopping


def pausing_in_export() -> None:
    """Two conversations are in the archive."""
    from chat.exports import zip_job

    zip_job._add = _pausing_after(2, zip_job._add)


def pausing_in_import() -> None:
    """Two conversations were imported."""
    from chat.imports import actions

    actions._written = _pausing_after(2, actions._written)


def pausing_inside_import() -> None:
    """The third conversation is written, in a transaction that is still open."""
    from chat.imports import actions

    actions._write = _pausing_after(3, actions._write)


def _pausing_after(calls: int, function: Callable[..., Any]) -> Callable[..., Any]:
    count = 0

    def pausing(*args: Any) -> Any:
        nonlocal count
        result = function(*args)
        count = count + 1 if must_pause() else 0
        if count == calls:
            # Counted anew at the next pause, although no call may come before that.
            count = 0
            pause_here()
        return result

    return pausing


# --- other changes ------------------------------------------------------------------------


def small_send_buffers() -> None:
    """The kernel takes little for clients that do not read, instead of megabytes for each."""
    from twisted.internet import tcp

    create = tcp.Port.createInternetSocket

    def create_smaller(port: tcp.Port) -> socket.socket:
        created = create(port)
        # Accepted connections inherit it.
        created.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        return created

    tcp.Port.createInternetSocket = create_smaller


CHANGES = {
    change.__name__: change
    for change in (
        before_request,
        before_going_on,
        before_last_commit,
        inside_last_commit,
        after_last_commit,
        frozen_after_last_commit,
        after_enqueue,
        before_queued_message,
        inside_queued_message,
        after_queued_message,
        during_reading,
        before_tool_claim,
        before_tool_mark,
        before_tool_request,
        before_tool_result,
        inside_tool_result,
        after_tool_result,
        before_answered_claim,
        before_answered_request,
        before_answered_result,
        before_task_stored,
        after_task_stored,
        during_export,
        during_import,
        pausing_in_export,
        pausing_in_import,
        pausing_inside_import,
        small_send_buffers,
    )
}


def main(change: str, *arguments: str) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    import django

    django.setup()
    from django.core.management import call_command

    CHANGES[change]()
    call_command(*arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])
