"""Questions, approvals and calls of tools that wait for a person, as entries of the inbox."""

from functools import partial

from django.utils.translation import gettext_lazy

from chat import access
from chat.core.prepared import Column, query_text
from chat.web.inbox_sources import InboxSource


def _rows(*, of_calls: bool) -> str:
    """Begins with the open questions, which are few, and asks the one rule about those that may be for one of
    the people. ``of_calls``: only of calls that Tributary would run, else all others, and what tools ask."""
    person = Column("asked.person")
    theirs = access.questions_for(person).filter(access.addressed_to(person))
    is_theirs = query_text(theirs.filter(pk=Column("question.id")).order_by().values("pk"))
    # A call that waits for input is answered as a question is.
    is_kind = (
        "call.id IS NOT NULL AND call.status <> 'input'"
        if of_calls
        else "(call.id IS NULL OR call.status = 'input')"
    )
    return f"""
        SELECT asked.person, question.public_id AS key, question.conversation_id, run.message_id,
            CAST(NULL AS bigint) AS actor_id, question.created_at AS at,
            CAST(NULL AS bigint) AS revision, question.kind AS detail
        FROM chat_question question
        JOIN chat_run run ON run.id = question.run_id
        JOIN chat_conversation room ON room.id = question.conversation_id
        LEFT JOIN chat_toolcall call ON call.question_id = question.id
        JOIN asked ON asked.person
            IN (run.requested_by_id, room.owner_id, question.claimed_by_id, call.executor_id)
        WHERE question.status IN ('open', 'claimed') AND {is_kind} AND EXISTS {is_theirs}
    """  # noqa: S608


QUESTIONS = InboxSource(
    kind="question",
    icon="hand",
    label=gettext_lazy("Questions and approvals"),
    line=gettext_lazy("Needs your answer"),
    notice=gettext_lazy("Waiting for your answer"),
    rows=partial(_rows, of_calls=False),
    is_read_by_reading=False,
    anchor="ask-{key}",
)

# A call that waits for an approval, or that may have run. One that runs asks nobody.
CALLS = InboxSource(
    kind="call",
    icon="shield-check",
    label=gettext_lazy("Tools that need approval"),
    line=gettext_lazy("Needs your approval"),
    notice=gettext_lazy("A tool is waiting for your approval"),
    rows=partial(_rows, of_calls=True),
    is_read_by_reading=False,
    anchor="ask-{key}",
)
