"""The export of feedback as JSON lines: who may make it, what is in it, and how it is written.

Nobody is named in it: people and conversations are numbers that hold for one export. Texts are only in exports with
conversations, and only of those that whole teams read (`docs/decisions/0037-feedback.md`).
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from functools import partial

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, QuerySet
from django.utils.translation import gettext

from chat import access
from chat.access_reasons.actions import tell_of_export
from chat.conversations.answer_text import source_of
from chat.core.errors import ActionRefused
from chat.core.threads import DatabaseThreads
from chat.events import Json, JsonObject
from chat.feedback.figures import Scope
from chat.models import AuditEvent, Feedback, Message, Role, Run, User

# Ratings that are read at once. Conversations are read one by one.
BATCH_ROWS = 50
# Characters of the messages of a line. What was said before is left out of longer conversations, which bounds the
# memory that a line takes.
LINE_CHARACTERS = 2_000_000
# Slow downloads wait between their pieces, so that one thread is enough.
_threads = DatabaseThreads("feedback-export", size=1)


def may_export(*, with_conversations: bool = False) -> bool:
    """Decides by the setting `FEEDBACK_EXPORT`, which only the operator of the installation changes."""
    allowed = ("conversations",) if with_conversations else ("ratings", "conversations")
    return settings.FEEDBACK_EXPORT in allowed


@dataclass(kw_only=True)
class FeedbackExport:
    """An export that was begun: its lines are read while they are sent."""

    administrator: User
    scope: Scope
    with_conversations: bool
    # Numbers of people and conversations, by their keys.
    people: dict[int, int] = field(default_factory=dict)
    rooms: dict[int, int] = field(default_factory=dict)

    def rows(self) -> QuerySet[Feedback]:
        """The rights are part of the query, so they count for each batch."""
        administrators = User.objects.filter(
            pk=self.administrator.pk, is_staff=True, is_active=True
        )
        rows = self.scope.rows().filter(Exists(administrators))
        if self.with_conversations:
            rows = rows.filter(answer__conversation__in=access.conversations_of_whole_teams())
        return rows

    async def __aiter__(self) -> AsyncIterator[bytes]:
        after = 0
        while keys := await _threads.call(partial(self._keys_after, after)):
            for after in keys:
                # One at a time: each may be megabytes, and others use the thread in between.
                if line := await _threads.call(partial(self.line, after)):
                    yield line

    def _keys_after(self, after: int) -> list[int]:
        rows = self.rows().filter(pk__gt=after).order_by("pk")
        return list(rows.values_list("pk", flat=True)[:BATCH_ROWS])

    def line(self, key: int) -> bytes:
        """The line of a rating; nothing if it was withdrawn meanwhile, or may no longer be exported."""
        rows = self.rows().select_related("answer__conversation")
        row = rows.filter(pk=key).first()
        return b"" if row is None else encode(self._record(row))

    def _record(self, row: Feedback) -> JsonObject:
        runs = Run.objects.filter(message=row.answer_id, position=0).defer("result")
        run = runs.select_related("upstream", "preset_version__preset").first()
        record: JsonObject = {
            "kind": row.kind,
            "value": row.value,
            "reasons": row.reasons,
            "rated_at": row.updated_at.isoformat(),
            "person": self.people.setdefault(row.person_id, len(self.people) + 1),
            "conversation": self.rooms.setdefault(row.answer.conversation_id, len(self.rooms) + 1),
            "model": run.model if run else "",
            "server": run.upstream.name if run and run.upstream else None,
            "preset": _preset_of(run),
        }
        if self.with_conversations:
            messages, left_out = _messages_to(row.answer)
            record |= {
                "note": row.note,
                "messages": [*_instructions(row.answer, run), *messages],
                "left_out": left_out,
                "answer": source_of(row.answer),
            }
        return record


def start_export(
    administrator: User, scope: Scope, *, reason: str, with_conversations: bool
) -> FeedbackExport:
    """Records an export with its reason. One with conversations is told to the people whose conversations it may contain.
    Raises ``ActionRefused`` if the setting doesn't allow it, or if there is nothing to export."""
    if not may_export(with_conversations=with_conversations):
        raise ActionRefused(gettext("This installation doesn’t allow this export."))
    export = FeedbackExport(
        administrator=administrator, scope=scope, with_conversations=with_conversations
    )
    with transaction.atomic():
        count = export.rows().count()
        if not count:
            raise ActionRefused(gettext("There is no feedback to export."))
        if with_conversations:
            tell_of_export(administrator, reason, team=scope.team)
        AuditEvent.objects.record(
            administrator,
            "feedback.exported_with_conversations" if with_conversations else "feedback.exported",
            target=scope.team.name if scope.team else "",
            count=count,
            reason=reason,
        )
    return export


def _preset_of(run: Run | None) -> Json:
    """The name of the preset; personal ones are not named."""
    preset = run.preset_version.preset if run and run.preset_version else None
    return preset.name if preset and preset.owner_id is None else None


def _instructions(answer: Message, run: Run | None) -> Iterator[JsonObject]:
    """The system prompt, where readers of the conversation are shown it."""
    if run is not None and run.system_prompt and answer.conversation.shows_settings:
        yield {"role": "system", "content": run.system_prompt}


def _messages_to(answer: Message) -> tuple[list[Json], int]:
    """The messages before this answer in their order, and how many earlier ones are left out."""
    rows = Message.objects.filter(conversation=answer.conversation_id)
    parents = dict(rows.values_list("pk", "parent"))
    path = []
    above = parents.get(answer.pk)
    while above is not None:
        path.append(above)
        above = parents.get(above)
    messages: list[Json] = []
    room = LINE_CHARACTERS
    for number, key in enumerate(path):
        message = rows.get(pk=key)
        is_person = message.role == Role.USER
        text = message.text if is_person else source_of(message)
        room -= len(text)
        if room < 0:
            return messages[::-1], len(path) - number
        messages.append({"role": "user" if is_person else "assistant", "content": text})
    return messages[::-1], 0


def encode(record: JsonObject) -> bytes:
    """One line in ASCII: no character in it ends a line for any reader, moves a cursor or turns the direction of text."""
    line = json.dumps(record, ensure_ascii=True, separators=(",", ":"))
    return line.replace("\x7f", "\\u007f").encode() + b"\n"
