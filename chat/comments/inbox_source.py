"""Comments as entries of the inbox of those whom they concern."""

from django.utils.translation import gettext_lazy

from chat.web.inbox_sources import InboxSource, newest_since

# The newest comments for a person among which these are.
MOST_COMMENTS = 100


def _rows() -> str:
    """A thread that is resolved waits for nobody."""
    recent = newest_since("chat_commentnotice", "person_id", "created_at", count=MOST_COMMENTS)
    return f"""
        SELECT recent.person, comment.public_id AS key, comment.conversation_id, comment.message_id,
            comment.author_id AS actor_id, notice.created_at AS at,
            CAST(NULL AS bigint) AS revision, SUBSTR(comment.text, 1, 300) AS detail
        FROM {recent} recent
        JOIN chat_commentnotice notice
            ON notice.person_id = recent.person AND notice.created_at >= recent.since
        JOIN chat_comment comment ON comment.id = notice.comment_id AND comment.text <> ''
        JOIN chat_comment thread ON thread.id = COALESCE(comment.thread_id, comment.id)
        WHERE thread.resolved_at IS NULL
    """  # noqa: S608


COMMENTS = InboxSource(
    kind="comment",
    icon="message-square-plus",
    label=gettext_lazy("Comments"),
    line=gettext_lazy("%(person)s commented"),
    notice=gettext_lazy("New comment"),
    rows=_rows,
    is_read_by_visit=True,
    anchor="comment-{key}",
)
