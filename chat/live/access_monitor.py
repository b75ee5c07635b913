"""Access monitor: checks once a second whether viewers may still read, and what has changed.

One query serves all connections of the process. It does not depend on notifications, so changes
made anywhere (the administration, another process, a removed row) end access, too.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple, Protocol
from uuid import UUID
from weakref import WeakSet

from django.conf import settings
from django.db import connection as database
from django.utils import timezone

from chat.core import metrics
from chat.core.database_identity import read_database_identity
from chat.core.notify import ROOMS, ChangeNotifier, Subscription, change_notifier, rooms_of
from chat.core.prepared import array_of_keys, fetch
from chat.core.threads import DatabaseThreads
from chat.core.waiting import wait_at_most
from chat.live.broadcaster import broadcasters
from chat.live.list_updates import CheckedList, RecentChanges
from chat.live.list_version import read_lists
from chat.models import AccessToken
from chat.models.conversation import is_read_by, is_written_by
from chat.runs.queue import QueuePositions, read_queue

logger = logging.getLogger(__name__)

CHECK_SECONDS = 1.0
# Without a database no access can be checked. After this time all connections are closed.
FAIL_CLOSED_SECONDS = 15.0
# Limit for one check, so that a hanging database does not block the monitor.
ANSWER_SECONDS = 5.0
# Notifications come in bursts, and from conversations without viewers in this process.
PAUSE_SECONDS = 0.1
# The most lists of conversations that pages of this process fetch in a second after changes. In a busy
# team there is always a change, and a list costs 10 to 30 ms; with more pages each one is notified
# less often.
LISTS_PER_SECOND = 10

GONE_SIGNED_OUT = "signed-out"
GONE_ACCESS = "access"
GONE_DELETED = "deleted"
# Temporary, and its time is over.
GONE_EXPIRED = "expired"
# Unknown: the viewer may connect again.
GONE_UNSURE = "unsure"
# The database is not the one that the page was rendered from.
GONE_RESTORED = "restored"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The person and session of a viewer. ``password`` is the stored hash: a change ends the session.

    A program uses an access token (``token_pk``), independent of the password, and sees one team
    (``team_pk``).
    """

    user_pk: int
    session_key: str = ""
    password: str = ""
    token_pk: int | None = None
    team_pk: int | None = None


class Room(NamedTuple):
    """A conversation at the time of the check, and whether this viewer may write in it."""

    conversation_id: UUID
    revision: int
    may_write: bool


class MonitoredConnection(Protocol):
    """A live connection. Its methods are called on the event loop and must not block."""

    identity: Identity
    # The conversation that is shown, and those of the followed runs.
    rooms: set[UUID]
    # For the log and the metrics.
    viewer_id: str
    transport: str

    @property
    def is_behind(self) -> bool: ...

    @property
    def shows_list(self) -> bool:
        """Whether the page shows the person's list of conversations."""
        ...

    def on_room(self, room: Room) -> None: ...

    def on_queue(self, line: QueuePositions) -> None: ...

    def on_list(self, checked: CheckedList) -> None: ...

    def on_gone(self, reason: str) -> None: ...


class AccessMonitor:
    """Checks the live connections of this process together."""

    def __init__(self, notifier: ChangeNotifier = change_notifier) -> None:
        self._notifier = notifier
        self._connections: set[MonitoredConnection] = set()
        self._threads = DatabaseThreads("access-monitor", size=1)
        self._task: asyncio.Task[None] | None = None
        self._wanted = Subscription()
        # Connections that have not been checked since they said what they show.
        self._new: set[MonitoredConnection] = set()
        self._epoch = ""
        self._recent = RecentChanges()
        _monitors.add(self)

    @property
    def connections(self) -> frozenset[MonitoredConnection]:
        return frozenset(self._connections)

    def has_room_for(self, user_pk: int) -> bool:
        """Whether this person may open one more connection in this process."""
        theirs = sum(one.identity.user_pk == user_pk for one in self._connections)
        if theirs < settings.CONNECTIONS_PER_PERSON:
            return True
        metrics.VIEWERS_ENDED.labels("busy").inc()
        logger.info("viewer.refused user=%d connections=%d", user_pk, theirs)
        return False

    def add(self, connection: MonitoredConnection) -> None:
        self._connections.add(connection)
        logger.log(
            _level_of(connection),
            "viewer.opened viewer=%s user=%d transport=%s",
            connection.viewer_id,
            connection.identity.user_pk,
            connection.transport,
        )
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._check_forever(), name="access-monitor")

    def remove(self, connection: MonitoredConnection) -> None:
        if connection in self._connections:
            self._connections.discard(connection)
            self._new.discard(connection)
            logger.log(_level_of(connection), "viewer.closed viewer=%s", connection.viewer_id)

    def check_now(self, connection: MonitoredConnection) -> None:
        """Checks this connection soon, because what it shows may have changed since its page was made."""
        self._new.add(connection)
        self._wanted.set()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        await self._threads.close()

    async def _check_forever(self) -> None:
        self._wanted = self._notifier.subscribe(ROOMS)
        try:
            await self._check_while_watched()
        finally:
            self._notifier.unsubscribe(ROOMS, self._wanted)

    async def _check_while_watched(self) -> None:
        loop = asyncio.get_running_loop()
        last_success = loop.time()
        due_at = 0.0
        while self._connections:
            topics = self._wanted.take()
            closes_at = last_success + FAIL_CLOSED_SECONDS
            began = loop.time()
            is_everybody = began >= due_at or ROOMS in topics
            if is_everybody:
                due_at = began + CHECK_SECONDS
            try:
                async with asyncio.timeout_at(max(closes_at, began + ANSWER_SECONDS)):
                    if is_everybody:
                        await self._check_all()
                    else:
                        await self._check_rooms(self._due(topics))
                metrics.CHECK_SECONDS.observe(loop.time() - began)
                if is_everybody:
                    last_success = loop.time()
            except Exception as error:
                logger.warning("access_monitor.failed error=%s", type(error).__name__)
                if loop.time() >= closes_at:
                    self._end_all(GONE_UNSURE)
            await asyncio.sleep(min(PAUSE_SECONDS, CHECK_SECONDS))
            await wait_at_most(self._wanted, max(0.0, due_at - loop.time()))

    def _due(self, topics: set[str]) -> list[MonitoredConnection]:
        """The connections to the conversations that have changed, and those that are new."""
        rooms = rooms_of(topics)
        return [
            one for one in self._connections if one in self._new or not rooms.isdisjoint(one.rooms)
        ]

    def _end_all(self, reason: str) -> None:
        for connection in list(self._connections):
            self._end(connection, reason)

    @staticmethod
    def _end(connection: MonitoredConnection, reason: str) -> None:
        metrics.VIEWERS_ENDED.labels(reason).inc()
        logger.info("viewer.ended viewer=%s reason=%s", connection.viewer_id, reason)
        connection.on_gone(reason)

    async def _check_all(self) -> None:
        connections = list(self._connections)
        people = {one.identity.user_pk for one in connections if one.shows_list}
        self._new.clear()
        epoch, answers, line, lists = await self._threads.call(
            look, _questions(connections), people, self._recent
        )
        if self._epoch not in ("", epoch):
            logger.warning("database.replaced connections=%d", len(self._connections))
            broadcasters.reset()
            self._end_all(GONE_RESTORED)
            self._epoch = epoch
            return
        self._epoch = epoch
        pause_seconds = max(CHECK_SECONDS, len(self._connections) / LISTS_PER_SECOND)
        for connection in self._tell_rooms(connections, answers):
            connection.on_queue(line)
            version = lists.get(connection.identity.user_pk)
            if version is not None and connection.shows_list:
                recent = self._recent
                connection.on_list(
                    CheckedList(
                        version, recent.number, recent.oldest, recent.changes, pause_seconds
                    )
                )

    async def _check_rooms(self, connections: Sequence[MonitoredConnection]) -> None:
        """Only access and revisions. What all connections share is read once a second, however often
        conversations change."""
        self._new.clear()
        if connections:
            answers = await self._threads.call(check, _questions(connections))
            self._tell_rooms(connections, answers)

    def _tell_rooms(
        self, connections: Sequence[MonitoredConnection], answers: Answers
    ) -> list[MonitoredConnection]:
        """Returns the connections that stay."""
        kept = []
        for connection, verdict in zip(connections, answers.verdicts, strict=True):
            if connection not in self._connections:
                continue
            if isinstance(verdict, str):
                self._end(connection, verdict)
                continue
            for room in verdict:
                connection.on_room(room)
            kept.append(connection)
        return kept


def _questions(connections: Iterable[MonitoredConnection]) -> list[Question]:
    return [(one.identity, frozenset(one.rooms)) for one in connections]


# --- in the monitor's database thread --------------------------------------------------


Question = tuple[Identity, frozenset[UUID]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """For each connection its conversations, or the reason to close it."""

    verdicts: list[list[Room] | str]
    has_queue: bool
    is_draining: bool


def look(
    questions: Sequence[Question], people: Collection[int], recent: RecentChanges
) -> tuple[str, Answers, QueuePositions, dict[int, str]]:
    """Everything that a check of all connections reads, in one call of the thread. ``people``: whose lists of conversations
    are checked; ``recent`` is told what has changed in them."""
    epoch = read_database_identity()
    answers = check(questions)
    line = read_queue(has_queue=answers.has_queue, is_draining=answers.is_draining)
    began = timezone.now()
    lists = read_lists(people, recent.since())
    if people:
        recent.note(lists.changed, began, lists.snapshot)
    return epoch, answers, line, lists.versions


def check(questions: Iterable[Question]) -> Answers:
    """One query for all viewers, and one more if there are access tokens. All rows are of one moment, so
    that a viewer whose conversation was deleted gets that reason and not a missing membership.
    """
    asked = list(questions)
    rows = _read([(identity, key) for identity, keys in asked for key in keys or (None,)])
    tokens = _valid_tokens({identity.token_pk for identity, _ in asked} - {None})
    found = iter(rows)
    verdicts = [
        _verdict(identity, keys, [next(found) for _ in keys or (None,)], tokens)
        for identity, keys in asked
    ]
    return Answers(
        verdicts=verdicts,
        has_queue=any(row.has_queue for row in rows[:1]),
        is_draining=any(row.is_draining for row in rows[:1]),
    )


class _Row(NamedTuple):
    """One viewer and one conversation (the columns of ``_ROWS``)."""

    place: int
    has_session: bool
    # Of an active person.
    password: str | None
    team_pk: int | None
    owner_pk: int | None
    visibility: str | None
    revision: int | None
    is_deleted: bool
    is_expired: bool
    role: str | None
    # As in `is_read_by`.
    project_role: str | None
    has_queue: bool
    is_draining: bool


# The text does not depend on the number of viewers: see `chat.core.prepared`.
_ROWS = """
    SELECT asked.place, session.session_key IS NOT NULL, person.password,
        room.team_id, room.owner_id, room.visibility, room.revision,
        room.deleted_at IS NOT NULL AND (room.expires_at IS NULL OR room.deleted_at < room.expires_at),
        room.expires_at <= %s,
        member.role, CASE WHEN project.access = 'team' THEN 'writer' ELSE selected.role END,
        EXISTS (SELECT 1 FROM chat_run WHERE status = 'queued'),
        EXISTS (SELECT 1 FROM chat_upstream WHERE is_draining)
    FROM {asked}
    LEFT JOIN django_session session
        ON session.session_key = asked.session_key AND session.expire_date > %s
    LEFT JOIN chat_user person ON person.id = asked.person_id AND person.is_active
    LEFT JOIN chat_conversation room ON room.public_id = asked.room
    LEFT JOIN chat_membership member
        ON member.user_id = asked.person_id AND member.team_id = room.team_id
    LEFT JOIN chat_project project
        ON project.id = room.project_id AND project.team_id = room.team_id
    LEFT JOIN chat_projectmember selected
        ON selected.user_id = asked.person_id AND selected.project_id = project.id
    ORDER BY asked.place
"""
_ROWS_IN_POSTGRES = _ROWS.format(
    asked="unnest(%s::bigint[], %s::text[], %s::uuid[]) WITH ORDINALITY"
    " AS asked (person_id, session_key, room, place)"
)
_ROWS_IN_SQLITE = _ROWS.format(
    asked="""(
        SELECT json_extract(value, '$[0]') AS place, json_extract(value, '$[1]') AS person_id,
            json_extract(value, '$[2]') AS session_key, json_extract(value, '$[3]') AS room
        FROM json_each(%s)
    ) AS asked"""
)


def _read(pairs: Sequence[tuple[Identity, UUID | None]]) -> list[_Row]:
    now = timezone.now()
    if database.vendor == "postgresql":
        people = array_of_keys([identity.user_pk for identity, _ in pairs])
        sessions = array_of_keys([identity.session_key for identity, _ in pairs])
        rooms = array_of_keys([room and room.hex for _, room in pairs])
        values = [now, people, sessions, rooms, now]
        return [_Row._make(row) for row in fetch(_ROWS_IN_POSTGRES, values)]
    asked = [
        (place, identity.user_pk, identity.session_key, room and room.hex)
        for place, (identity, room) in enumerate(pairs)
    ]
    at = database.ops.adapt_datetimefield_value(now)
    return [_Row._make(row) for row in fetch(_ROWS_IN_SQLITE, [at, json.dumps(asked), at])]


def _verdict(
    identity: Identity, keys: frozenset[UUID], rows: Sequence[_Row], tokens: set[int]
) -> list[Room] | str:
    """``rows``: one for each conversation, or one if none is shown."""
    if not _is_signed_in(identity, rows[0], tokens):
        return GONE_SIGNED_OUT
    seen: list[Room] = []
    for key, row in zip(keys, rows, strict=False):
        if row.revision is None or row.is_deleted:
            return GONE_DELETED
        if row.is_expired:
            return GONE_EXPIRED
        is_elsewhere = identity.team_pk not in (None, row.team_pk)
        if row.role is None or is_elsewhere or not _is_read(identity, row):
            return GONE_ACCESS
        may_write = _is_written(identity, row)
        seen.append(Room(conversation_id=key, revision=row.revision, may_write=may_write))
    return seen


def _is_read(identity: Identity, row: _Row) -> bool:
    return is_read_by(
        identity.user_pk,
        owner=row.owner_pk,
        visibility=row.visibility,
        project_role=row.project_role,
    )


def _is_written(identity: Identity, row: _Row) -> bool:
    return is_written_by(
        identity.user_pk,
        owner=row.owner_pk,
        visibility=row.visibility,
        role=row.role,
        project_role=row.project_role,
    )


def _is_signed_in(identity: Identity, row: _Row, tokens: set[int]) -> bool:
    if identity.token_pk is not None:
        return identity.token_pk in tokens
    return bool(row.has_session) and row.password == identity.password


def _valid_tokens(keys: set[int | None]) -> set[int]:
    known = keys - {None}
    if not known:
        return set()
    return set(AccessToken.objects.usable().filter(pk__in=list(known)).values_list("pk", flat=True))


# --- metrics ----------------------------------------------------------------------------

_monitors: WeakSet[AccessMonitor] = WeakSet()


def _level_of(connection: MonitoredConnection) -> int:
    """Long polls connect often and would fill the log."""
    return logging.DEBUG if connection.transport == "poll" else logging.INFO


def _count() -> metrics.Values:
    return Counter(
        one.transport for access_monitor in _monitors for one in access_monitor.connections
    )


def _count_behind() -> metrics.Values:
    return {
        "": sum(one.is_behind for access_monitor in _monitors for one in access_monitor.connections)
    }


metrics.VIEWERS.read_from(_count)
metrics.VIEWERS_BEHIND.read_from(_count_behind)


access_monitor = AccessMonitor()
