"""The list of conversations in the sidebar: pinned, by project, then one's own and those shared in
teams, grouped by day."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from typing import Any, NamedTuple
from uuid import UUID

from django.conf import settings
from django.db.models import (
    BooleanField,
    DateTimeField,
    Exists,
    ExpressionWrapper,
    F,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Value,
)
from django.db.models.functions import Coalesce, Greatest
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.formats import date_format
from django.utils.translation import gettext

from chat import access
from chat.conversations.list_version import read_list_version
from chat.conversations.project_lines import (
    MOST_PROJECTS,
    NO_FOLDS,
    Folds,
    ProjectGroup,
    project_groups,
    project_query,
)
from chat.core.prepared import IsOneOf, Prepared
from chat.models import (
    Conversation,
    Membership,
    Participant,
    Pin,
    User,
)
from chat.models.team import WRITING_ROLES
from chat.runs.tool_calls import has_live_answer, waits_for_person
from chat.unread.marks import is_unread

# Conversations per page of the list; about one and a half screens.
PAGE_LINES = 50
# A page that shows older lines gets as many again when the list changes, up to this limit.
MOST_LINES = 500
# The id of no conversation.
NOBODY = UUID(int=0)


class ConversationLine(NamedTuple):
    """A conversation in the list. A tuple, because fifty are read for each list."""

    public_id: UUID
    title: str
    visibility: str
    updated_at: datetime
    revision: int
    owner_pk: int
    owner_name: str
    owner_email: str
    is_running: bool = False
    is_waiting: bool = False
    # Set for temporary conversations.
    expires_at: datetime | None = None
    pk: int = 0
    has_participants: bool = False
    is_unread: bool = False

    @property
    def owner(self) -> str:
        """The owner's name, as in ``User``."""
        return self.owner_name or self.owner_email


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    label: str
    conversations: list[ConversationLine] = field(default_factory=list)


def listing_context(
    user: User,
    current: Conversation | None = None,
    before: str = "",
    count: int = PAGE_LINES,
    folds: Folds = NO_FOLDS,
) -> dict[str, Any]:
    """The first page, or that ``before`` a moment. ``count``: how many lines it has at most, up to
    `MOST_LINES`, without those that are pinned and those of projects."""
    version = "" if before else read_list_version(user.pk)
    count = max(PAGE_LINES, min(count, MOST_LINES))
    pinned = [] if before else [ConversationLine._make(row) for row in _pinned.all(person=user.pk)]
    shown_room = current.public_id if current else None
    found = [] if before else _projects.all(person=user.pk, shown=shown_room or NOBODY)
    projects = _groups(user, found[:MOST_PROJECTS], shown_room, folds)
    lines = _lines(user, before, count)
    shown = lines[:count]
    return {
        "list_version": version,
        "pinned": pinned,
        "projects": projects,
        "has_more_projects": len(found) > len(projects),
        "may_create_project": not before and _may_create_project(user, projects),
        "days": by_day(shown, after=_moment(before)),
        "current": current,
        "older_than": shown[-1].updated_at.isoformat() if len(lines) > count else "",
        "is_first_page": not before,
    }


def _may_create_project(user: User, projects: Iterable[ProjectGroup]) -> bool:
    """Returns whether they may write in a team; everybody who may write in a project is in such a team."""
    if any(group.project.may_write for group in projects):
        return True
    return _team_written_in.first(person=user.pk) is not None


def _groups(
    user: User, rows: Sequence[Any], shown: UUID | None, folds: Folds
) -> list[ProjectGroup]:
    def read_lines(keys: Sequence[int]) -> list[ConversationLine]:
        return [ConversationLine._make(row) for row in _chosen.all(person=user.pk, keys=keys)]

    return project_groups(rows, read_lines, shown=shown, folds=folds)


def _lines(user: User, before: str, count: int) -> list[ConversationLine]:
    """The lines of a page, and one more if there is another page."""
    moment = _moment(before)
    if moment is None and count == PAGE_LINES:
        rows = _newest.all(person=user.pk)
    else:
        rows = list(_recent(user, count + 1, before=moment))
    return [ConversationLine._make(row) for row in rows]


def _listed(user: Any) -> QuerySet[Conversation]:
    return access.visible_conversations(user).filter(archived_at__isnull=True)


def _unpinned(user: Any) -> QuerySet[Conversation]:
    return _listed(user).filter(~Exists(Pin.objects.filter(user=user, conversation=OuterRef("pk"))))


def _lines_of(user: Any, rows: QuerySet[Conversation], *more: str) -> QuerySet[Any]:
    """``more``: further columns."""
    return rows.annotate(
        has_participants=Exists(Participant.objects.filter(conversation=OuterRef("pk"))),
        is_running=ExpressionWrapper(has_live_answer(OuterRef("pk")), BooleanField()),
        is_waiting=waits_for_person(OuterRef("pk")),
        is_unread=is_unread(user),
    ).values_list(*COLUMNS, *more)


def _recent(user: Any, count: int, *, before: datetime | None = None) -> QuerySet[Any]:
    """The newest lines, without pinned ones and those below a project, but with one's own in a
    project that one has left."""
    readable = access.visible_projects(user).filter(pk=OuterRef("project"))
    rows = _unpinned(user).filter(Q(project__isnull=True) | ~Exists(readable))
    if before is not None:
        rows = rows.filter(updated_at__lt=before)
    rows = rows.filter(updated_at__gte=_since(user, rows, count))
    if settings.IS_SQLITE:
        # The join makes SQLite begin with the person's teams, and not with all people.
        rows = rows.filter(team__memberships__user=user)
    return _lines_of(user, rows).order_by("-updated_at", "-pk")[:count]


def _since(user: Any, rows: QuerySet[Conversation], count: int) -> Greatest:
    """A time since which at least so many of the rows have changed, if there are so many: the newest
    at which one's own, or what is shared in one team, would suffice.

    Each of these comes from an index. Conversations that are one's own or shared in several teams
    have no index in the order of time, so without a limit all that somebody may read would be read
    and sorted.
    """

    def last(some: QuerySet[Any]) -> Subquery:
        times = some.order_by("-updated_at").values("updated_at")
        return Subquery(times[count - 1 : count])

    in_team = rows.filter(access.IS_SHARED_WITH_TEAM, team=OuterRef("team"))
    teams = Membership.objects.filter(user=user).annotate(last=last(in_team))
    of_teams = Subquery(teams.order_by(F("last").desc(nulls_last=True)).values("last")[:1])
    times = (last(rows.filter(owner=user)), of_teams)
    return Greatest(*(Coalesce(time, LONG_AGO) for time in times))


COLUMNS = (
    *("public_id", "title", "visibility", "updated_at", "revision"),
    *("owner_id", "owner__name", "owner__email", "is_running", "is_waiting"),
    *("expires_at", "pk", "has_participants", "is_unread"),
)
LONG_AGO = Value(datetime.min.replace(tzinfo=UTC), output_field=DateTimeField())
_newest: Prepared[Any] = Prepared(lambda person: _recent(person, PAGE_LINES + 1))
_projects = project_query(lambda person: _unpinned(person).order_by("-updated_at", "-pk"))
_chosen: Prepared[Any] = Prepared(
    lambda person, keys: _lines_of(
        person, access.visible_conversations(person).filter(IsOneOf("pk", keys))
    ).order_by("-updated_at", "-pk")
)
_team_written_in: Prepared[Any] = Prepared(
    lambda person: Membership.objects.filter(user=person, role__in=WRITING_ROLES).values_list(
        "pk", flat=True
    )[:1]
)
# The readable ones of some conversations, the oldest change first, with the places of their lines.
_some: Prepared[Any] = Prepared(
    lambda person, keys: _lines_of(
        person,
        access.visible_conversations(person)
        .filter(IsOneOf("pk", keys))
        .annotate(
            has_pinned=Exists(Pin.objects.filter(user=person, conversation=OuterRef("pk"))),
            below=Subquery(
                access.visible_projects(person)
                .filter(pk=OuterRef("project"))
                .values("public_id")[:1]
            ),
        ),
        *("has_pinned", "below", "archived_at"),
    ).order_by("updated_at", "pk")
)
_pinned: Prepared[Any] = Prepared(
    lambda person: _lines_of(person, _listed(person).filter(pins__user=person)).order_by(
        "pins__position", "pins__pk"
    )
)


class PlacedLine(NamedTuple):
    """A line and its place in the list: "pinned", "recent", a project's id, or, in the archive,
    empty."""

    line: ConversationLine
    place: str


def lines_of_some(person_pk: int, keys: Sequence[int]) -> list[PlacedLine]:
    """The lines of those of these conversations that the person may see, the oldest change first."""
    width = len(ConversationLine._fields)
    return [
        PlacedLine(ConversationLine._make(row[:width]), _place(*row[width:]))
        for row in _some.all(person=person_pk, keys=keys)
    ]


def _place(has_pinned: bool, project: UUID | None, archived_at: datetime | None) -> str:
    if archived_at is not None:
        return ""
    if has_pinned:
        return "pinned"
    return "recent" if project is None else project.hex


def day_of(moment: datetime) -> str:
    """The heading above conversations that changed at this moment."""
    return _label(moment, timezone.localdate())


def _moment(text: str) -> datetime | None:
    try:
        moment = parse_datetime(text)
        if moment is None or timezone.is_naive(moment):
            return None
        # In UTC, which overflows at the ends of the calendar.
        return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def by_day(
    conversations: Iterable[ConversationLine], *, after: datetime | None = None
) -> list[Day]:
    """The conversations under headings. Rows that continue the page that ended ``after`` a moment
    have no heading of their own."""
    today = timezone.localdate()
    continued = _label(after, today) if after else None
    return [
        Day(label="" if label == continued else label, conversations=list(lines))
        for label, lines in groupby(conversations, lambda line: _label(line.updated_at, today))
    ]


def _label(moment: datetime, today: date) -> str:
    day = timezone.localtime(moment).date()
    if day >= today:
        return gettext("Today")
    if day == today - timedelta(days=1):
        return gettext("Yesterday")
    if day > today - timedelta(days=7):
        return gettext("Previous 7 days")
    if day > today - timedelta(days=30):
        return gettext("Previous 30 days")
    return date_format(day, "YEAR_MONTH_FORMAT")
