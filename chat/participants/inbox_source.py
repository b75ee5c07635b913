"""Conversations that somebody has shared with a person or a group of theirs, as entries of the inbox."""

from django.utils.translation import gettext_lazy

from chat.web.inbox_sources import InboxSource


def _rows() -> str:
    return """
        SELECT asked.person, participant.public_id AS key, participant.conversation_id,
            CAST(NULL AS bigint) AS message_id, participant.added_by_id AS actor_id,
            participant.added_at AS at, CAST(NULL AS bigint) AS revision, '' AS detail
        FROM asked
        JOIN chat_participant participant
            ON participant.person_id = asked.person OR participant.group_id IN (
                SELECT member.group_id FROM chat_groupmember member
                WHERE member.user_id = asked.person
            )
        JOIN chat_conversation room
            ON room.id = participant.conversation_id AND room.owner_id <> asked.person
        WHERE participant.added_by_id <> asked.person
    """


SHARES = InboxSource(
    kind="share",
    icon="share-2",
    label=gettext_lazy("Shared conversations"),
    line=gettext_lazy("%(person)s shared a conversation with you"),
    rows=_rows,
    is_read_by_visit=True,
)
