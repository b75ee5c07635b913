"""Queues a request for a title with the end of a conversation's first answer, if a model writes titles.

Each process of runners knows whether one does. While none does, nothing is added to the end of an answer.
"""

from __future__ import annotations

from datetime import datetime
from typing import cast

from django.utils import timezone

from chat.core.prepared import fetch
from chat.events import Result
from chat.runs.outcomes import EndingRows

# This topic wakes the task that sends the requests.
TITLES = "titles"

_is_on = False


def look() -> bool:
    """Reads whether a model writes titles, for the answers that end in this process from now on. Returns
    whether there are requests to send or to give up."""
    global _is_on
    ((is_on, has_requests),) = fetch(_LOOK, [])
    _is_on = bool(is_on)
    return bool(has_requests)


_LOOK = """
    SELECT
        EXISTS (
            SELECT 1 FROM chat_titlesetting AS setting
            JOIN chat_upstream AS server ON server.id = setting.upstream_id
            WHERE server.is_enabled
        ),
        EXISTS (SELECT 1 FROM chat_titlerequest WHERE status IN ('queued', 'running'))
"""


def _prepare(result: Result) -> datetime | None:
    """When the request was queued, if there may be one after this result."""
    return timezone.now() if _is_on and result.ext.status == "completed" else None


# The row is added only after an answer to the first message, while the title is the automatic one; of several models that
# are compared, after the first one's.
_ROW = """
    INSERT INTO chat_titlerequest (
        run_id, status, model, queued_at, title, reason, error_kind, error_message
    )
    SELECT ended.id, 'queued', '', %s, '', '', '', ''
    FROM ended
    JOIN chat_conversation AS room
        ON room.id = ended.conversation_id AND room.has_automatic_title
    JOIN chat_message AS answer ON answer.id = ended.message_id
    JOIN chat_message AS question ON question.id = answer.parent_id AND question.parent_id IS NULL
    LEFT JOIN chat_comparedanswer AS compared ON compared.answer_id = answer.id
    WHERE COALESCE(compared.position, 0) = 0
"""
_STORE = f"""
    WITH ended AS (SELECT id, conversation_id, message_id FROM chat_run WHERE id = %s) {_ROW}
"""  # noqa: S608


def _store(run_pk: int, prepared: object) -> None:
    fetch(_STORE, [run_pk, cast(datetime, prepared)])


QUEUE_TITLE = EndingRows(
    name="title",
    prepare=_prepare,
    clause=_ROW,
    values=lambda prepared: [prepared],
    store=_store,
    topic=TITLES,
)
