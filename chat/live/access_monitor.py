"""Access monitor: checks viewers' access and looks for changes once a second.

One query serves all connections of the process. It does not depend on notifications, so changes
made anywhere (the administration, another process, a removed row) end access, too.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, Protocol
from uuid import UUID
from weakref import WeakSet

from django.conf import settings
from django.db import connection as database
from django.utils import timezone

from chat import access
from chat.access import rule
from chat.core import metrics
from chat.core.database_identity import read_database_identity
from chat.core.errors import is_database_unavailable
from chat.core.notify import ROOMS, ChangeNotifier, Subscription, change_notifier, rooms_of
from chat.core.prepared import array_of_keys, fetch
from chat.core.threads import DatabaseThreads
from chat.core.waiting import wait_at_most
from chat.live.broadcaster import broadcasters
from chat.live.channels import Look, Subscriptions, asked_of, make_look
from chat.models import Conversation

logger = logging.getLogger(__name__)

CHECK_SECONDS = 1.0
# Without a database no access can be checked. After this time all connections are closed.
FAIL_CLOSED_SECONDS = 15.0
# Limit for one check, so that a hanging database does not block the monitor.
ANSWER_SECONDS = 5.0
# Notifications come in bursts, and from conversations without viewers in this process.
PAUSE_SECONDS = 0.1

GONE_SIGNED_OUT = "signed-out"
GONE_ACCESS = "access"
GONE_DELETED = "deleted"
# A temporary conversation has expired.
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
    """A live connection. `on_gone` is called on the event loop and must not block."""

    identity: Identity
    # The conversation that is shown, and those of the followed runs.
    rooms: set[UUID]
    # The connection's id in the log and the metrics.
    viewer_id: str
    transport: str
    channels: Subscriptions

    @property
    def is_behind(self) -> bool: ...

    def on_gone(self, reason: str) -> None: ...


class AccessMonitor:
    """Checks the live connections of this process together."""

    def __init__(self, notifier: ChangeNotifier = change_notifier) -> None:
        self._notifier = notifier
        self._connections: set[MonitoredConnection] = set()
        self._threads = DatabaseThreads("access-monitor", size=1)
        self._task: asyncio.Task[None] | None = None
        self._wanted = Subscription()
        # Connections whose current page has not been checked yet.
        self._new: set[MonitoredConnection] = set()
        self._epoch = ""
        self._looks: dict[str, Look | None] = {}
        _monitors.add(self)

    @property
    def connections(self) -> frozenset[MonitoredConnection]:
        return frozenset(self._connections)

    def has_room_for(self, user_pk: int) -> bool:
        """Returns whether this person may open one more connection in this process."""
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
        """Checks this connection soon, because its page may be out of date."""
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
            topics = self._wanted.take_topics()
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
        self._new.clear()
        looks = self._looks_for(connections, is_everything=True)
        epoch, answers, found = await self._threads.call(
            look_at_all, _questions(connections), looks
        )
        if self._epoch not in ("", epoch):
            logger.warning("database.replaced connections=%d", len(self._connections))
            broadcasters.reset()
            self._end_all(GONE_RESTORED)
            self._epoch = epoch
            return
        self._epoch = epoch
        self._tell(connections, answers, found)

    async def _check_rooms(self, connections: Sequence[MonitoredConnection]) -> None:
        """Checks access, revisions and the channels that are prompt. Data that all connections share is read
        once a second, however often conversations change."""
        self._new.clear()
        if connections:
            looks = self._looks_for(connections, is_everything=False)
            answers, found = await self._threads.call(look_at, _questions(connections), looks)
            self._tell(connections, answers, found)

    def _looks_for(
        self, connections: Sequence[MonitoredConnection], *, is_everything: bool
    ) -> list[AskedLook]:
        looks: list[AskedLook] = []
        asked = asked_of([one.channels for one in connections], is_everything=is_everything)
        for name, asks in asked.items():
            if (look := self.look_of(name)) is not None:
                looks.append((name, look, asks))
        return looks

    def look_of(self, name: str) -> Look | None:
        """The look of a channel, for all connections of this monitor."""
        if name not in self._looks:
            self._looks[name] = make_look(name)
        return self._looks[name]

    def _tell(
        self, connections: Sequence[MonitoredConnection], answers: Answers, found: Found
    ) -> None:
        for connection, verdict in zip(connections, answers.verdicts, strict=True):
            if connection not in self._connections:
                continue
            if isinstance(verdict, str):
                self._end(connection, verdict)
                continue
            connection.channels.check(verdict, found)


def _questions(connections: Iterable[MonitoredConnection]) -> list[Question]:
    return [(one.identity, frozenset(one.rooms)) for one in connections]


# --- in the monitor's database thread --------------------------------------------------


Question = tuple[Identity, frozenset[UUID]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """The conversations of each connection, or the reason to close it."""

    verdicts: list[list[Room] | str]


# A channel's name, its look, and what the tabs ask for.
AskedLook = tuple[str, Look, Sequence[Hashable]]
# Results by the channel's name and by what its tabs ask for.
Found = Mapping[str, Mapping[Hashable, Any]]


def look_at_all(
    questions: Sequence[Question], looks: Sequence[AskedLook]
) -> tuple[str, Answers, Found]:
    """Everything that a check of all connections reads, in one call of the thread."""
    return read_database_identity(), *look_at(questions, looks)


def look_at(questions: Sequence[Question], looks: Sequence[AskedLook]) -> tuple[Answers, Found]:
    """Access, and the data of the channels. Without a database nothing is found; a channel with
    another error is left out, so that it ends no connection."""
    answers = check(questions)
    found: dict[str, Mapping[Hashable, Any]] = {}
    for name, look, asked in looks:
        try:
            found[name] = look.read(asked)
        except Exception as error:
            if is_database_unavailable(error):
                raise
            logger.exception("channel.failed channel=%s", name)
    return answers, found


def check(questions: Iterable[Question]) -> Answers:
    """One query for all viewers, and one more if there are access tokens. All rows are of one
    moment, so that a deleted conversation is never reported as a missing membership.
    """
    asked = list(questions)
    rows = _read([(identity, key) for identity, keys in asked for key in keys or (None,)])
    tokens = _valid_tokens({identity.token_pk for identity, _ in asked} - {None})
    found = iter(rows)
    verdicts = [
        _verdict(identity, keys, [next(found) for _ in keys or (None,)], tokens)
        for identity, keys in asked
    ]
    return Answers(verdicts=verdicts)


class _Row(NamedTuple):
    """One viewer and one conversation (the columns of ``_ROWS``)."""

    place: int
    has_session: bool
    # None if the person is disabled, or lacks the second factor that they need.
    password: str | None
    team_pk: int | None
    revision: int | None
    is_deleted: bool
    is_expired: bool
    # ``None`` without the right to read.
    may_write: bool | None


_ROWS = """
    SELECT asked.place, session.session_key IS NOT NULL, person.password,
        chat_conversation.team_id, chat_conversation.revision,
        chat_conversation.deleted_at IS NOT NULL AND (
            chat_conversation.expires_at IS NULL
            OR chat_conversation.deleted_at < chat_conversation.expires_at
        ),
        {has_expired}, CASE WHEN {writes} THEN TRUE WHEN {reads} THEN FALSE END
    FROM {asked}
    LEFT JOIN django_session session
        ON session.session_key = asked.session_key AND session.expire_date > %s
    LEFT JOIN chat_user person ON person.id = asked.person_id AND person.is_active AND ({has_factor})
    LEFT JOIN chat_conversation ON chat_conversation.public_id = asked.room
    ORDER BY asked.place
"""
_ASKED_IN_POSTGRES = """
    unnest(%s::bigint[], %s::text[], %s::uuid[]) WITH ORDINALITY
    AS asked (person_id, session_key, room, place)
"""
_ASKED_IN_SQLITE = """(
    SELECT json_extract(value, '$[0]') AS place, json_extract(value, '$[1]') AS person_id,
        json_extract(value, '$[2]') AS session_key, json_extract(value, '$[3]') AS room
    FROM json_each(%s)
) AS asked"""


# `chat.access.fulfills_policy` as text.
_FACTOR_CONDITIONS = {
    "off": "TRUE",
    "administrators": "person.has_second_factor OR NOT (person.is_staff OR person.is_superuser)",
    "all": "person.has_second_factor",
}


@cache
def _statement(vendor: str, policy: str) -> str:
    """The text does not depend on the number of viewers: see `chat.core.prepared`."""
    person = "asked.person_id"
    return _ROWS.format(
        asked=_ASKED_IN_POSTGRES if vendor == "postgresql" else _ASKED_IN_SQLITE,
        has_factor=_FACTOR_CONDITIONS[policy],
        has_expired=rule.text_of(Conversation, ~rule.HAS_NOT_EXPIRED),
        writes=rule.text_of(Conversation, rule.WRITES, person=person),
        reads=rule.text_of(Conversation, rule.READS, person=person),
    )


def _read(pairs: Sequence[tuple[Identity, UUID | None]]) -> list[_Row]:
    rooms = [room and room.hex for _, room in pairs]
    if database.vendor == "postgresql":
        asked = [
            array_of_keys([identity.user_pk for identity, _ in pairs]),
            array_of_keys([identity.session_key for identity, _ in pairs]),
            array_of_keys(rooms),
        ]
    else:
        people = [(identity.user_pk, identity.session_key) for identity, _ in pairs]
        asked = [json.dumps([(at, *people[at], room) for at, room in enumerate(rooms)])]
    found = fetch(_statement(database.vendor, settings.SECOND_FACTOR), [*asked, timezone.now()])
    return [_Row._make(row) for row in found]


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
        if row.may_write is None or is_elsewhere:
            return GONE_ACCESS
        seen.append(Room(key, row.revision, may_write=bool(row.may_write)))
    return seen


def _is_signed_in(identity: Identity, row: _Row, tokens: set[int]) -> bool:
    if identity.token_pk is not None:
        return identity.token_pk in tokens
    return bool(row.has_session) and row.password == identity.password


def _valid_tokens(keys: set[int | None]) -> set[int]:
    known = keys - {None}
    if not known:
        return set()
    return set(access.usable_tokens().filter(pk__in=list(known)).values_list("pk", flat=True))


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
