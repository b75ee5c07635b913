"""Answers that somebody asked for and has not seen the end of, as entries of the inbox."""

from django.utils.translation import gettext_lazy

from chat.models import RunStatus
from chat.web.inbox_sources import InboxSource, newest_since

# The newest runs of a person among which these are.
MOST_RUNS = 30


def _rows() -> str:
    """Runs of programs, which their person does not watch, and imported ones are left out."""
    recent = newest_since("chat_run", "requested_by_id", "queued_at", count=MOST_RUNS)
    return f"""
        SELECT recent.person, run.public_id AS key, run.conversation_id, run.message_id,
            CAST(NULL AS bigint) AS actor_id, run.finished_at AS at,
            CAST(NULL AS bigint) AS revision, run.status AS detail
        FROM {recent} recent
        JOIN chat_run run
            ON run.requested_by_id = recent.person AND run.queued_at >= recent.since
        WHERE run.status NOT IN ('queued', 'running', 'waiting') AND run.finished_at IS NOT NULL
            AND run.request_digest IS NULL AND run.upstream_id IS NOT NULL
            AND NOT EXISTS (
                SELECT 1 FROM chat_run later
                WHERE later.message_id = run.message_id AND later.position > run.position
            )
    """  # noqa: S608


def _words(status: str) -> str:
    return "" if status == RunStatus.COMPLETED else str(RunStatus(status).label)


ANSWERS = InboxSource(
    kind="answer",
    icon="message-square",
    label=gettext_lazy("Finished answers"),
    line=gettext_lazy("An answer that you asked for has ended"),
    notice=gettext_lazy("Your answer has ended"),
    rows=_rows,
    words=_words,
)
