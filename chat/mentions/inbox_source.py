"""Mentions as entries of the inbox."""

from django.utils.translation import gettext_lazy

from chat.web.inbox_sources import InboxSource, newest_since

# The newest mentions of a person among which these are.
MOST_MENTIONS = 100


def _rows() -> str:
    """A message that its author has edited since is left out: the new version has its own mentions."""
    recent = newest_since("chat_mention", "person_id", "created_at", count=MOST_MENTIONS)
    return f"""
        SELECT recent.person, message.public_id AS key, message.conversation_id,
            message.id AS message_id, message.author_id AS actor_id, message.created_at AS at,
            message.revision, SUBSTR(message.text, 1, 300) AS detail
        FROM {recent} recent
        JOIN chat_mention mention
            ON mention.person_id = recent.person AND mention.created_at >= recent.since
        JOIN chat_message message ON message.id = mention.message_id
        WHERE NOT EXISTS (
            SELECT 1 FROM chat_message later
            WHERE later.conversation_id = message.conversation_id AND later.id > message.id
                AND later.author_id = message.author_id
                AND (
                    later.parent_id = message.parent_id
                    OR later.parent_id IS NULL AND message.parent_id IS NULL
                )
        )
    """  # noqa: S608


MENTIONS = InboxSource(
    kind="mention",
    icon="at-sign",
    label=gettext_lazy("Mentions"),
    line=gettext_lazy("%(person)s mentioned you"),
    notice=gettext_lazy("You were mentioned"),
    rows=_rows,
)
