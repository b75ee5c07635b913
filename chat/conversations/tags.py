"""Template tags for turns, the list of conversations, and the files of a conversation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any
from uuid import UUID

from django import template
from django.template import Context
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import get_language

from chat.conversations.listing import ConversationLine, listing_context
from chat.conversations.project_lines import folds_of
from chat.files import actions as file_actions
from chat.files.chips import Chip, chips_by_message, shared_chips, unsent_chips
from chat.files.file_counts import count_files, files_by_answer, once
from chat.mentions.marks import mark_mentions
from chat.mentions.records import names_by_message
from chat.models import Conversation, Message, StoredFile, User, Visibility
from chat.rendering.components import safe
from chat.rendering.markdown import plain, render

register = template.Library()


@register.simple_tag
def files_of(conversation: Conversation, answer: Message) -> int:
    # The heading has counted them, and most conversations have no files.
    if not files_in(conversation):
        return 0
    return once(conversation, files_by_answer).get(answer.pk, 0)


@register.simple_tag
def attachments_of(conversation: Conversation, message: Message) -> list[Chip]:
    if not files_in(conversation):
        return []
    return once(conversation, chips_by_message).get(message.pk, [])


@register.simple_tag(takes_context=True)
def unsent_files(context: Context, place: str) -> list[Chip]:
    return unsent_chips(context["user"], place)


@register.simple_tag
def shared_files(files: Iterable[StoredFile]) -> list[Chip]:
    return shared_chips(files)


@register.simple_tag
def files_in(conversation: Conversation) -> int:
    return once(conversation, count_files)


@register.simple_tag
def upload_limits() -> Mapping[str, Any]:
    return file_actions.upload_limits()


@register.inclusion_tag("conversations/_sidebar_list.html", takes_context=True)
def sidebar_list(context: Context) -> dict[str, Any]:
    """The search field and the list of conversations, with the one that the page shows marked."""
    user = context["user"]
    folds = folds_of(context["request"].COOKIES)
    return {
        **listing_context(user, context.get("conversation"), folds=folds),
        "user": user,
        "sidebar_page": context.get("sidebar_page", ""),
    }


# Cached lines of the list, less than a kilobyte each. A list has fifty, most of them unchanged since the last time.
LINES_KEPT = 4000


@register.simple_tag
def conversation_line(
    line: ConversationLine,
    current: Conversation | None,
    user: User,
    *,
    has_menu: bool = True,
    in_project: bool = False,
) -> SafeString:
    is_current = current is not None and current.public_id == line.public_id
    return line_html(line, user.pk, is_current=is_current, has_menu=has_menu, in_project=in_project)


def line_html(
    line: ConversationLine,
    person_pk: int,
    *,
    is_current: bool = False,
    has_menu: bool = True,
    in_project: bool = False,
) -> SafeString:
    """The line as this person sees it. The same one is rendered once for all who see it alike."""
    updated = int(line.updated_at.timestamp() * 1000)
    mark, owner = _mark_of(line, person_pk, in_project=in_project)
    state = (updated, line.revision)
    flags = (is_current, has_menu, bool(line.is_unread))
    return _rendered(line.public_id, line.title, state, mark, owner, flags)


_MARKS: Mapping[str, str] = {
    Visibility.PRIVATE: "",
    Visibility.TEAM: "shared",
    Visibility.PROJECT: "project",
}
# The mark of a private conversation that was shared with people or groups.
_SHARED_MARK = "people"
_MARKS_IN_PROJECT: Mapping[str, str] = {Visibility.PRIVATE: "private", Visibility.PROJECT: ""}


def _mark_of(line: ConversationLine, person_pk: int, *, in_project: bool) -> tuple[str, str]:
    """The mark beside the title, and the owner's name if it is shown. Under its project a line says
    only if it is not shared."""
    if line.is_running:
        return "running", ""
    if line.is_waiting:
        return "waiting", ""
    if line.expires_at is not None:
        return "temporary", ""
    if in_project:
        mark = _MARKS_IN_PROJECT[line.visibility]
        return (_SHARED_MARK if mark and line.has_participants else mark), ""
    mark = _MARKS[line.visibility] or (_SHARED_MARK if line.has_participants else "")
    return mark, line.owner if mark and line.owner_pk != person_pk else ""


@lru_cache(maxsize=LINES_KEPT)
def _rendered(
    public_id: UUID,
    title: str,
    state: tuple[int, int],
    mark: str,
    owner: str,
    flags: tuple[bool, bool, bool],
) -> SafeString:
    updated, revision = state
    is_current, has_menu, is_unread = flags
    context = {
        "public_id": public_id,
        "title": title,
        "updated": updated,
        "revision": revision,
        "mark": mark,
        "owner": owner,
        "is_current": is_current,
        "has_menu": has_menu,
        "is_unread": is_unread,
    }
    return render_to_string("conversations/_conversation_line.html", context)


NOBODY = UUID(int=0)

# A person's message longer than this is folded; the beginning stays visible.
FOLDED_FROM = 2400
# A message longer than this is shown as it was typed, so that nobody waits for its rendering.
RENDERED_TO = 64_000
# Rendered messages of people; most pages show the same few again and again.
WORDS_KEPT = 256


@dataclass(frozen=True, slots=True)
class Words:
    """The text of a person's message as HTML."""

    html: SafeString
    is_long: bool


@register.simple_tag
def words_of(message: Message, conversation: Conversation | None = None) -> Words:
    """With the conversation, mentions are marked."""
    names: tuple[str, ...] = ()
    if conversation is not None and "@" in message.text:
        names = once(conversation, names_by_message).get(message.pk, ())
    return _words(message.text, f"n{message.public_id.hex}", get_language(), names)


@lru_cache(maxsize=WORDS_KEPT)
def _words(text: str, prefix: str, language: str | None, names: tuple[str, ...]) -> Words:
    """``prefix`` begins the ids of its notes. ``language`` is that of the labels on blocks of code, and ``names``
    are those that the text mentions."""
    html = render(text, prefix) if len(text) <= RENDERED_TO else plain(text)
    return Words(html=safe(mark_mentions(html, names)), is_long=len(text) > FOLDED_FROM)


@register.simple_tag
def address_of(route: str, public_id: UUID) -> str:
    """The address of a route whose only argument is an id, faster than ``reverse``: the rest is known."""
    before, after = _around(route)
    return f"{before}{public_id}{after}"


@cache
def _around(route: str) -> tuple[str, str]:
    before, _, after = reverse(route, args=[NOBODY]).partition(str(NOBODY))
    return before, after


@register.simple_tag
def for_id(name: str, public_id: UUID, may_write: bool) -> SafeString:
    """As ``include``, for a template whose only values are these: it is rendered once for each
    language, and then only the id in it is replaced."""
    html = _for_nobody(name, may_write, get_language())
    return safe(html.replace(str(NOBODY), str(public_id)).replace(NOBODY.hex, public_id.hex))


@cache
def _for_nobody(name: str, may_write: bool, language: str | None) -> str:
    return render_to_string(name, {"public_id": NOBODY, "may_write": may_write})
