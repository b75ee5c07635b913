"""Finds what a person may read: the query, with access as a part of it, and its hits."""

from __future__ import annotations

import re
from bisect import bisect
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from functools import reduce
from operator import and_
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from chat import access
from chat.models import (
    AnswerFile,
    Attachment,
    Conversation,
    Message,
    Pin,
    Run,
    RunStatus,
    SearchKind,
    SearchRow,
    User,
)
from chat.search.index import are_few, by_relevance, is_slow, matching, newest_first, rows_with
from chat.search.sources import KINDS
from chat.search.tokens import Phrase, Query, Token, folded, located_tokens, name_key, words_in

PAGE_HITS = 20
# Counting ends here. Hits of more frequent words are sorted by time: a word that is in nearly
# everything says nothing about relevance, and weighing all hits takes seconds.
MOST_COUNTED = 1_000
# Sorting by time reads at most this many rows, the latest stored first.
MOST_SORTED = 1_500
# Hits that are counted and weighed if each costs much more (`is_slow`), unless a later page is asked
# for.
MOST_SLOW = 20
SNIPPET_CHARACTERS = 200
# Before the first word that was found.
LEAD_CHARACTERS = 50
# In longer texts words are marked up to here.
MOST_READ = 100_000
# Kinds that are Markdown, and the marks that a snippet leaves out: of lines, emphasis, code.
PROSE = frozenset({SearchKind.MESSAGE, SearchKind.ANSWER, SearchKind.REASONING})
_MARKUP = re.compile(
    r"^[ \t]*(?:#{1,6} |> |[-*+] |```.*$)|^[-|: ]+$|\*\*|(?<!\w)\*(?=\w)|(?<=\w)\*(?!\w)|`",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Mark:
    """A piece of a snippet. Pieces that were searched for are highlighted."""

    text: str
    is_match: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    kind: str
    conversation: UUID
    title: str
    # The project or the team that reads it as well; empty if it is private.
    room: str
    # The turn; ``None`` for a title.
    message: UUID | None
    author: str
    model: str
    created_at: datetime
    snippet: Sequence[Mark]

    @property
    def label(self) -> str:
        return str(SearchKind(self.kind).label)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hits:
    """One page. ``count`` goes up to `MOST_COUNTED`; ``has_more_than_counted`` says if it is more.
    More than can be weighed are in the order of time."""

    hits: Sequence[Hit]
    count: int
    has_more_than_counted: bool = False
    is_weighed: bool = False
    has_next: bool = False


NOTHING = Hits(hits=(), count=0)


def find(
    user: User,
    query: Query,
    *,
    page: int = 1,
    by_date: bool = False,
    within: Conversation | None = None,
    kinds: Iterable[str] = (),
    limit: int = PAGE_HITS,
) -> Hits:
    """Hits for a query, best or newest first; only those ``within`` a conversation and of these
    ``kinds``, if they are given.

    Rows that the user may not read affect no count, order or snippet.
    """
    if query.is_empty or not user.is_active:
        return NOTHING
    few = are_few(_searched_by(user, within))
    rows = found(user, query, within=within, are_few=few)
    if kinds:
        rows = rows.filter(kind__in=kinds)
    start = (page - 1) * limit
    weighed = MOST_SLOW if is_slow(query, are_few=few) else MOST_COUNTED
    counted = min(max(weighed, start + limit), MOST_COUNTED)
    keys = newest_first(
        rows,
        query,
        are_few=few,
        before=_start_of(query.before) if query.before else None,
        sorted_rows=MOST_SORTED,
        limit=counted + 1,
    )
    is_weighed = bool(query.wanted) and len(keys) <= weighed
    if is_weighed and not by_date:
        keys = by_relevance(keys, query)
    return Hits(
        hits=_hits(user, keys[start : start + limit], query),
        count=min(len(keys), counted),
        has_more_than_counted=len(keys) > counted,
        is_weighed=is_weighed,
        has_next=len(keys) > start + limit,
    )


def found(
    user: User, query: Query, *, are_few: bool, within: Conversation | None = None
) -> QuerySet[SearchRow]:
    """All rows that a query finds for a person, everywhere or in one conversation. ``are_few``: the
    conversations in which it searches."""
    rows = matching(query, _searched_by(user, within), are_few=are_few)
    return rows.filter(*_conditions(user, query))


def _searched_by(user: User, within: Conversation | None) -> QuerySet[Conversation]:
    """The conversations that a person may read, without temporary ones except the one that is searched."""
    readable = access.visible_conversations(user)
    if within is not None:
        return readable.filter(pk=within.pk)
    return readable.filter(expires_at__isnull=True)


def _conditions(user: User, query: Query) -> Iterable[Q]:
    if query.person:
        yield Q(author__in=_called(query.person))
    if query.project:
        yield Q(conversation__project__in=_projects_called(user, query.project))
    if query.model:
        yield Q(model__icontains=query.model)
    if query.server:
        yield Q(upstream__name__icontains=query.server)
    if query.before:
        yield Q(created_at__lt=_start_of(query.before))
    if query.after:
        yield Q(created_at__gte=_start_of(query.after))
    for name in query.states:
        yield _STATES[name](user)
    for name in query.has:
        yield _HAS[name]()


def with_words(text: str) -> Q:
    """The conversations for the administration, also deleted and temporary ones, in which every
    word begins a word of a text or of the title, or stands in the name or at the start of the
    address of somebody who takes part. Other characters are ignored."""
    return reduce(and_, map(_with_word, words_in(text)), Q())


def _with_word(word: Phrase) -> Q:
    people = _called(word.text)
    wrote = Message.objects.filter(conversation=OuterRef("pk"), author__in=people)
    return Q(pk__in=rows_with(word).values("conversation")) | Q(owner__in=people) | Q(Exists(wrote))


def _projects_called(user: User, name: str) -> list[int]:
    """Compared here, because SQLite knows the case of ASCII letters only. A person sees few."""
    projects = access.visible_projects(user).order_by().values_list("pk", "name")
    return [pk for pk, each in projects if name_key(each) == name_key(name)]


def _called(name: str) -> list[int]:
    """The people whose name contains this, or whose address begins with it. Compared here, because
    databases may ignore the case of ASCII letters only, depending on their locale."""
    wanted = folded(name)
    people = User.objects.values_list("pk", "name", "email")
    return [
        pk
        for pk, known, email in people
        if wanted in folded(known) or folded(email).startswith(wanted)
    ]


def _start_of(day: date) -> datetime:
    return timezone.make_aware(datetime.combine(day, time.min))


_STATES: dict[str, Callable[[User], Q]] = {
    "pinned": lambda user: Q(
        Exists(Pin.objects.filter(user=user, conversation=OuterRef("conversation")))
    ),
    "archived": lambda user: Q(conversation__archived_at__isnull=False),
    "shared": lambda user: access.is_shared("conversation"),
}


def _row_of(*kinds: str) -> Q:
    return Q(
        Exists(SearchRow.objects.filter(message=OuterRef("message"), kind__in=kinds)),
    )


def _has_image() -> Q:
    made = AnswerFile.objects.filter(
        run__message=OuterRef("message"), file__media_type__startswith="image/"
    )
    attached = Attachment.objects.filter(message=OuterRef("message"))
    return Q(Exists(made)) | Q(Exists(attached))


def _has_tool() -> Q:
    return Q(
        Exists(
            Run.objects.filter(message=OuterRef("message"), result__contains='"type":"tool_call"')
        )
    )


_HAS: dict[str, Callable[[], Q]] = {
    "file": lambda: _row_of(SearchKind.FILE),
    "artifact": lambda: _row_of(SearchKind.ARTIFACT),
    "question": lambda: _row_of(SearchKind.QUESTION),
    "image": _has_image,
    "tool": _has_tool,
    "error": lambda: Q(
        Exists(Run.objects.filter(message=OuterRef("message"), status=RunStatus.FAILED))
    ),
}


# --- hits ---------------------------------------------------------------------------------------


def _hits(user: User, keys: Sequence[int], query: Query) -> list[Hit]:
    rows = SearchRow.objects.select_related(
        "conversation__team", "conversation__project", "message", "author"
    ).in_bulk(keys)
    texts = _texts(rows.values())
    projects = _known_projects(user, rows.values())
    return [
        Hit(
            kind=row.kind,
            conversation=row.conversation.public_id,
            title=row.conversation.title,
            room=_room_of(row.conversation, projects),
            message=row.message.public_id if row.message else None,
            author=str(row.author) if row.author else "",
            model=row.model,
            created_at=row.created_at,
            snippet=snippet(_shown(row.kind, texts.get((row.kind, row.source), "")), query.wanted),
        )
        for row in (rows[key] for key in keys if key in rows)
    ]


def _known_projects(user: User, rows: Iterable[SearchRow]) -> frozenset[int]:
    """The projects of these conversations that the user reads; a participant may not."""
    found = (row.conversation.project_id for row in rows)
    keys = {key for key in found if key is not None}
    if not keys:
        return frozenset()
    return frozenset(access.visible_projects(user).filter(pk__in=keys).values_list("pk", flat=True))


def _room_of(conversation: Conversation, projects: Collection[int]) -> str:
    if not conversation.is_shared:
        return ""
    if conversation.project is None:
        return str(conversation.team)
    return str(conversation.project) if conversation.project_id in projects else ""


def _texts(rows: Iterable[SearchRow]) -> Mapping[tuple[str, int], str]:
    sources: dict[str, list[int]] = defaultdict(list)
    for row in rows:
        sources[row.kind].append(row.source)
    return {
        (kind, pk): KINDS[kind].text(record)
        for kind, pks in sources.items()
        for pk, record in KINDS[kind].records().in_bulk(pks).items()
    }


def _shown(kind: str, text: str) -> str:
    text = text[:MOST_READ]
    return _MARKUP.sub("", text) if kind in PROSE else text


Place = tuple[int, int]


def snippet(text: str, phrases: Sequence[Phrase]) -> list[Mark]:
    """The place with the most matches of the query, with the words marked."""
    places = _places(text, phrases)
    start = _start_of_snippet(text, places)
    end = start + SNIPPET_CHARACTERS
    marks = [Mark("…", is_match=False)] if start else []
    at = start
    for first, last in places:
        if first >= at and last <= end:
            marks += [Mark(text[at:first], is_match=False), Mark(text[first:last], is_match=True)]
            at = last
    rest = text[at:end] + ("…" if len(text) > end else "")
    return [mark for mark in [*marks, Mark(rest, is_match=False)] if mark.text]


def _places(text: str, phrases: Sequence[Phrase]) -> list[Place]:
    tokens = list(located_tokens(text)) if phrases else []
    return sorted(
        (tokens[at].start, tokens[at + len(phrase.tokens) - 1].end)
        for phrase in phrases
        for at in range(len(tokens) - len(phrase.tokens) + 1)
        if _stands_at(tokens, at, phrase)
    )


def _stands_at(tokens: Sequence[Token], at: int, phrase: Phrase) -> bool:
    *firsts, last = phrase.tokens
    found = tokens[at + len(firsts)].token
    if not (found.startswith(last) if phrase.is_prefix else found == last):
        return False
    return all(tokens[at + n].token == token for n, token in enumerate(firsts))


def _start_of_snippet(text: str, places: Sequence[Place]) -> int:
    """The beginning of a word, with some text before the first of the places that fit best."""
    ends = [first + SNIPPET_CHARACTERS - LEAD_CHARACTERS for first, _ in places]
    counts = [bisect(places, (end,)) - at for at, end in enumerate(ends)]
    if not counts:
        return 0
    first = places[counts.index(max(counts))][0]
    if first <= LEAD_CHARACTERS:
        return 0
    start = first - LEAD_CHARACTERS
    space = re.search(r"\s", text[start:first])
    return start + space.end() if space else start
