"""Template tags for turns, the list of conversations, and the files of a conversation."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Any
from uuid import UUID

from django import template
from django.conf import settings
from django.template import Context
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext

from chat.conversations.listing import ConversationLine, listing_context
from chat.conversations.transcript import Newer, ShownRun, Turn
from chat.files.file_counts import (
    FileCounts,
    attachments_by_message,
    count_files,
    files_by_answer,
    once,
)
from chat.models import Attachment, Conversation, Message, Role, User, Visibility
from chat.models.tree import Place
from chat.web.tags import avatar, icon, when

register = template.Library()


@register.simple_tag
def kept_by(conversation: Conversation, answer: Message) -> FileCounts | None:
    # The heading has counted them, and most conversations have no files.
    if not files_in(conversation):
        return None
    return once(conversation, files_by_answer).get(answer.pk)


@register.simple_tag
def attachments_of(conversation: Conversation, message: Message) -> list[Attachment]:
    if not files_in(conversation):
        return []
    return once(conversation, attachments_by_message).get(message.pk, [])


@register.simple_tag
def files_in(conversation: Conversation) -> int:
    return once(conversation, count_files)


@register.simple_tag
def picture_limits() -> dict[str, int]:
    """The upload limits of a message; part of the body is reserved for the text."""
    return {
        "count": settings.PICTURES_PER_MESSAGE,
        "bytes": settings.PICTURE_BYTES,
        "total": settings.MAX_UPLOAD_BYTES - settings.MAX_BODY_BYTES,
    }


@register.inclusion_tag("conversations/_sidebar_list.html", takes_context=True)
def sidebar_list(context: Context) -> dict[str, Any]:
    """The search field and the list of conversations, with the one that the page shows marked."""
    user = context["user"]
    return {
        **listing_context(user, context.get("conversation")),
        "user": user,
        "is_inbox": context.get("is_inbox", False),
    }


# Cached lines of the list, less than a kilobyte each. A list has fifty, most of them unchanged since the last time.
LINES_KEPT = 4000


@register.simple_tag
def conversation_line(
    line: ConversationLine, current: Conversation | None, user: User
) -> SafeString:
    is_current = current is not None and current.public_id == line.public_id
    updated = int(line.updated_at.timestamp() * 1000)
    mark, owner = _mark_of(line, user)
    state = (updated, line.revision)
    return _rendered(line.public_id, line.title, state, mark, owner, is_current=is_current)


def _mark_of(line: ConversationLine, user: User) -> tuple[str, str]:
    """The mark beside the title, and the owner's name if it is shown."""
    if line.is_running:
        return "running", ""
    if line.is_waiting:
        return "waiting", ""
    if line.visibility != Visibility.TEAM:
        return "", ""
    return "shared", "" if line.owner_pk == user.pk else line.owner


@lru_cache(maxsize=LINES_KEPT)
def _rendered(
    public_id: UUID, title: str, state: tuple[int, int], mark: str, owner: str, *, is_current: bool
) -> SafeString:
    updated, revision = state
    context = {
        "public_id": public_id,
        "title": title,
        "updated": updated,
        "revision": revision,
        "mark": mark,
        "owner": owner,
        "is_current": is_current,
    }
    return render_to_string("conversations/_conversation_line.html", context)


# Turns are built with `format_html`, because everybody who sends a message waits for two of them and
# templates take several times as long. Parts that few turns have are templates.

# Longer messages of people are folded; the beginning stays visible.
FOLDED_FROM = 2400
FOLDED_TO = 1200
NOBODY = UUID(int=0)


@register.simple_tag(takes_context=True)
def turn_article(context: Context, turn: Turn) -> SafeString:
    """The context has ``conversation``, ``may_write`` and whatever cards of questions need."""
    if turn.is_person:
        kind, place, body = "person", BODY, turn_words(context, turn.message)
    else:
        kind, place, body = "answer", RUNS, _joined(run_article(context, run) for run in turn.runs)
    # For text that comes later, static/live/live.js sets the same attribute.
    words = " data-worded" if any(run.answer and run.answer.has_words for run in turn.runs) else ""
    return format_html(
        '\n<article id="m{hex}" class="turn {kind}-turn" data-turn="{hex}" data-state="{state}"'
        f"{words}"
        ' aria-labelledby="n{hex}">\n'
        '  <header class="turn-head">{mark}\n'
        '    <h2 id="n{hex}" class="turn-name">{name}</h2>\n'
        "    {when}\n"
        "  </header>\n"
        f"  {place}\n"
        "  {footer}\n"
        "</article>",
        hex=turn.message.public_id.hex,
        kind=kind,
        state=turn.state,
        mark=_mark(turn),
        name=_name(turn),
        when=when(turn.message.created_at),
        body=body,
        footer=turn_footer(context, turn),
    )


BODY = '<div id="b{hex}" class="turn-body">{body}</div>'
RUNS = '<div id="runs-{hex}" class="runs">{body}</div>'


@register.simple_tag(takes_context=True)
def turn_words(context: Context, message: Message) -> SafeString:
    """The text of a person's message, and its pictures."""
    pictures = (
        _included(context, "files/_pictures.html", message=message)
        if attachments_of(context["conversation"], message)
        else ""
    )
    text = message.text
    whole = format_html('<div class="words" dir="auto">{}</div>', text)
    if len(text) <= FOLDED_FROM:
        return format_html("{}{}", pictures, whole)
    return format_html(
        '{}<details class="words-fold"><summary><div class="words" dir="auto">{}…</div>'
        '<span class="words-more">{}{}</span></summary>{}</details>',
        *(pictures, text[:FOLDED_TO], icon("chevron-down"), gettext("Show more"), whole),
    )


@register.simple_tag(takes_context=True)
def run_article(context: Context, shown: ShownRun) -> SafeString:
    """One run of an answer, and its questions to people."""
    answer = shown.answer
    assert answer is not None
    live = ' data-live aria-busy="true"' if answer.is_live else ""
    return format_html(
        '<div id="r{run}" class="answer" data-run="{run}" data-seq="{seq}" data-check="{check}"'
        f"{live} hx-ignore>{{html}}</div>"
        '<div id="asks-{hex}" class="asks">{asks}</div>',
        run=answer.run_id,
        seq=answer.seq,
        check=answer.check,
        html=answer.html,
        hex=shown.hex,
        asks=_asks(context, shown),
    )


@register.simple_tag(takes_context=True)
def turn_footer(context: Context, turn: Turn) -> SafeString:
    """The actions of a turn."""
    message = turn.message
    parts = [
        *([_siblings(context, turn.place)] if turn.place.count > 1 else []),
        *([_newer(context, turn.newer)] if turn.newer else []),
        *_kept(context, turn),
        format_html(
            '<button type="button" class="action" data-copy-source="{}">{}<span>{}</span></button>',
            *(address_of("message_source", message.public_id), icon("copy"), gettext("Copy")),
        ),
        *(_changing(context, turn) if context.get("may_write") else []),
    ]
    if turn.last:
        details = address_of("run_details", turn.last.run.public_id)
        parts.append(
            format_html(
                '<a class="action" data-panel data-details href="{}">{}<span>{}</span></a>',
                details,
                icon("gauge"),
                gettext("Details"),
            )
        )
    return format_html(
        f'<footer id="a{{}}" class="turn-actions"{" data-open" if turn.is_open else ""}>{{}}</footer>',
        *(message.public_id.hex, format_html_join("\n", "{}", ((part,) for part in parts))),
    )


# --- parts of it --------------------------------------------------------------------------------


def _mark(turn: Turn) -> SafeString:
    if turn.is_person:
        return avatar(turn.message.author, True)
    return format_html('<span class="turn-mark">{}</span>', icon("tributary"))


def _name(turn: Turn) -> SafeString:
    if turn.is_person:
        return format_html(
            gettext('<span class="visually-hidden">Message {number} by </span>{author}'),
            number=turn.number,
            author=turn.message.author or gettext("Deleted user"),
        )
    label = turn.last.model_label if turn.last else ""
    return format_html(
        gettext('<span class="visually-hidden">Answer {number} by </span>{model}'),
        number=turn.number,
        model=format_html(
            '<bdi title="{}">{}</bdi>', _full_model_name(turn), label or gettext("no model")
        ),
    )


def _full_model_name(turn: Turn) -> str:
    run = turn.last.run if turn.last else None
    if run is None or run.upstream is None:
        return run.model if run else ""
    return gettext("%(model)s on %(server)s") % {"model": run.model, "server": run.upstream.name}


def _asks(context: Context, shown: ShownRun) -> SafeString:
    if shown.asked or shown.may_go_on:
        return _included(context, "questions/_asks.html", shown=shown)
    return format_html(
        '<div id="rest-{hex}" class="asks-rest"></div>'
        '<div id="rest-note-{hex}" class="note" role="alert"></div>',
        hex=shown.hex,
    )


def _kept(context: Context, turn: Turn) -> list[SafeString]:
    if turn.is_person or not kept_by(context["conversation"], turn.message):
        return []
    return [_included(context, "files/_answer_links.html", message=turn.message)]


def _changing(context: Context, turn: Turn) -> list[SafeString]:
    """Actions for people who may write in the conversation."""
    message = turn.message
    if turn.is_person:
        return [
            format_html(
                '<a class="action" href="{address}" hx-get="{address}" hx-target="#b{hex}"'
                ' hx-swap="innerHTML">{icon}<span>{word}</span></a>',
                address=address_of("message_edit", message.public_id),
                hex=message.public_id.hex,
                icon=icon("pencil"),
                word=gettext("Edit"),
            )
        ]
    if turn.is_live:
        return []
    content = format_html(
        '<input type="hidden" name="key" value="{}">'
        '<button class="action">{}<span>{}</span></button>',
        *(turn.retry_key, icon("rotate-ccw"), gettext("Try again")),
    )
    return [_form(context, "message_retry", message, content, ' hx-include="#choice" data-asks')]


def _siblings(context: Context, place: Place) -> SafeString:
    number, count = place.number, place.count
    return format_html(
        '<span class="siblings" role="group" aria-label="{}">\n{}\n'
        '<span class="figure">{}</span>\n{}\n</span>',
        gettext("Versions of this message"),
        _sibling(context, place.previous, number - 1, count, "chevron-left"),
        format_html(
            gettext(
                '<span class="visually-hidden">Version </span>{number}<span aria-hidden="true">/'
                '</span><span class="visually-hidden"> of </span>{count}'
            ),
            number=number,
            count=count,
        ),
        _sibling(context, place.next, number + 1, count, "chevron-right"),
    )


def _newer(context: Context, newer: Newer) -> SafeString:
    words = (
        gettext("%(person)s edited this message")
        if newer.message.role == Role.USER
        else gettext("%(person)s asked for another answer")
    )
    button = format_html('<button class="action action-kept">{}</button>', gettext("Show"))
    return format_html(
        '<span class="newer">{} {}</span>',
        words % {"person": newer.author or gettext("Deleted user")},
        _form(context, "message_show", newer.message, button),
    )


def _sibling(
    context: Context, message: Message | None, number: int, count: int, arrow: str
) -> SafeString:
    if message is None:
        return format_html('<span class="action" aria-hidden="true">{}</span>', icon(arrow))
    button = format_html(
        '<button class="action" aria-label="{}">{}</button>',
        gettext("Version %(number)d of %(count)d") % {"number": number, "count": count},
        icon(arrow),
    )
    return _form(context, "message_show", message, button)


def _form(
    context: Context, route: str, message: Message, content: SafeString, attributes: str = ""
) -> SafeString:
    """A form that posts to an address of this message. ``attributes`` must be trusted."""
    return format_html(
        '<form method="post" action="{address}" hx-post="{address}" hx-swap="none"'
        f'{attributes} hx-sync="#turns:queue all">'
        '<input type="hidden" name="csrfmiddlewaretoken" value="{token}">{content}</form>',
        address=address_of(route, message.public_id),
        token=context.get("csrf_token", ""),
        content=content,
    )


def _included(context: Context, name: str, **more: object) -> SafeString:
    """As ``{% include %}``."""
    engine = context.template.engine
    with context.push(**more):
        return engine.get_template(name).render(context)


def _joined(parts: Iterable[SafeString]) -> SafeString:
    return format_html_join("", "{}", ((part,) for part in parts))


@register.simple_tag
def address_of(route: str, public_id: UUID) -> str:
    """As ``reverse``, for a route whose only argument is an id: what is around it is known."""
    before, after = _around(route)
    return f"{before}{public_id}{after}"


@cache
def _around(route: str) -> tuple[str, str]:
    before, _, after = reverse(route, args=[NOBODY]).partition(str(NOBODY))
    return before, after
