"""Questions before a change of who reads a project: who gains and who loses access, and to what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from chat import access
from chat.models import Conversation, Project, User
from chat.projects.effects import AccessEffect, shared_conversations

# People and conversations shown by name; of more the rest is counted.
NAMES_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """People whom a change gives or takes access."""

    shown: Sequence[User] = ()
    more: int = 0

    @classmethod
    def of(cls, people: Sequence[User]) -> Names:
        return cls(shown=people[:NAMES_SHOWN], more=max(len(people) - NAMES_SHOWN, 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessQuestion:
    """The question of `projects/_access_question.html`. The answer is sent with the form ``form_id`` of the
    page, or with one that has the ``fields`` and goes to ``action``; it ``confirms`` what was asked."""

    title: str
    go: str
    gaining: Names
    losing: Names
    conversations: Sequence[Conversation]
    count: int
    # If false, neither the titles nor the number of the conversations is shown.
    is_reader: bool
    confirms: str = "1"
    form_id: str = ""
    action: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)

    @property
    def more(self) -> int:
        return self.count - len(self.conversations)


def question_of(
    user: User,
    project: Project,
    effect: AccessEffect,
    *,
    title: str,
    go: str,
    confirms: str = "1",
    form_id: str = "",
    action: str = "",
    fields: Mapping[str, str] | None = None,
) -> AccessQuestion | None:
    """``None`` if nobody loses access, and nobody gets any to a conversation: in a new project
    people are added without a question."""
    is_reader = access.may_read_project(user, project)
    inside = shared_conversations(user, project)
    count = inside.count()
    if not effect.losing and (not effect.gaining or (is_reader and count == 0)):
        return None
    return AccessQuestion(
        title=title,
        go=go,
        gaining=Names.of(effect.gaining),
        losing=Names.of(effect.losing),
        conversations=list(inside[:NAMES_SHOWN]),
        count=count,
        is_reader=is_reader,
        confirms=confirms,
        form_id=form_id,
        action=action,
        fields=fields or {},
    )
