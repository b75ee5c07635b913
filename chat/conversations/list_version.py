"""The version of a person's list of conversations, which changes with everything the list shows, and
recent changes in the teams of the people who have a list open.

It is read once a second for everybody who has a page open, so it reads no list. Each part of it is
the first entry of an index: the newest change among what is shared in a team, in each project that
the person sees, among what one takes part in, and among what is one's own. Removals don't change the newest entry, so
each team also counts them. Pins, the archive and the trash belong to no conversation's time: each person counts
them for what only they see, and each team for what is shared.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

from django.db import connection

from chat.access import rule
from chat.core.prepared import array_of_keys, fetch
from chat.models import Conversation, Membership, Project

_OWN, _MEMBER, _TEAM, _TEAM_PROJECT, _PROJECT_MEMBER = range(5)
_CHANGED, _CHANGED_PRIVATE, _SNAPSHOT, _REARRANGED, _TAKES_PART, _GUEST = range(5, 11)
_GROUP, _GROUP_MEMBER = range(11, 13)
# Pages ask for their lists if there are more changes in a few seconds, as during an import.
MOST_CHANGES = 2000
# For people who don't need the changes.
_NEVER = datetime.max.replace(tzinfo=UTC)
# Reads each team, its projects and its groups once, however many of their people are asked about.
_ROWS = """
    WITH asked AS ({asked}), teams AS (
        SELECT DISTINCT member.team_id AS id
        FROM asked JOIN chat_membership member ON member.user_id = asked.person_id
    ), read AS (
        SELECT 0 AS kind, asked.person_id AS id,
            (SELECT pin_changes FROM chat_user WHERE id = asked.person_id) AS other,
            (SELECT updated_at FROM chat_conversation
                WHERE owner_id = asked.person_id ORDER BY updated_at DESC LIMIT 1) AS newest
        FROM asked
        UNION ALL
        SELECT CASE WHEN {is_of_guest} THEN 10 ELSE 1 END, user_id, team_id, NULL
        FROM asked JOIN chat_membership ON user_id = asked.person_id
        UNION ALL
        SELECT 2, team.id, team.withdrawals,
            (SELECT updated_at FROM chat_conversation
                WHERE team_id = team.id AND {is_shared_with_team}
                ORDER BY updated_at DESC LIMIT 1)
        FROM chat_team team JOIN teams ON teams.id = team.id
        UNION ALL
        SELECT 8, team.id, team.rearrangements, NULL
        FROM chat_team team JOIN teams ON teams.id = team.id
        UNION ALL
        SELECT 3, chat_project.team_id, chat_project.id, {newest_of_project}
        FROM chat_project JOIN teams ON teams.id = chat_project.team_id
        WHERE {is_for_team}
        UNION ALL
        SELECT 4, asked.person_id, chat_project.id, {newest_of_project}
        FROM asked
        JOIN chat_projectmember selected ON selected.user_id = asked.person_id
        JOIN chat_project ON chat_project.id = selected.project_id
        WHERE NOT {is_for_team} AND {reads_project}
        UNION ALL
        SELECT 9, asked.person_id, CAST(SUM(participant.id) AS bigint), MAX(room.updated_at)
        FROM asked
        JOIN chat_participant participant ON participant.person_id = asked.person_id
        JOIN chat_conversation room ON room.id = participant.conversation_id
        GROUP BY asked.person_id
        UNION ALL
        SELECT 11, participant.group_id, CAST(SUM(participant.id) AS bigint), MAX(room.updated_at)
        FROM chat_participant participant
        JOIN chat_conversation room ON room.id = participant.conversation_id
        WHERE participant.group_id IN (
            SELECT member.group_id
            FROM asked JOIN chat_groupmember member ON member.user_id = asked.person_id
        )
        GROUP BY participant.group_id
        UNION ALL
        SELECT 12, asked.person_id, member.group_id, NULL
        FROM asked JOIN chat_groupmember member ON member.user_id = asked.person_id
        UNION ALL
        SELECT kind, id, owner_id, updated_at FROM (
            SELECT CASE WHEN {is_private} THEN 6 ELSE 5 END AS kind, id, owner_id, updated_at
            FROM chat_conversation
            WHERE team_id IN (SELECT id FROM teams) AND updated_at > %s
            ORDER BY updated_at DESC LIMIT {most_changes}
        ) AS changed
        UNION ALL
        {snapshot}
    )
    SELECT kind, id, other, {newest} FROM read
"""
# The number of this statement's own transaction is behind those of all that began to write before it. The
# end of the snapshot is not: it follows the transactions that have ended.
_SNAPSHOT_ROW = """SELECT 7, pg_snapshot_xmin(pg_current_snapshot())::text::bigint,
    pg_current_xact_id()::text::bigint, NULL
"""
_NO_ROW = "SELECT 7, 0, 0, NULL WHERE 1 = 0"


@cache
def _statement(vendor: str, *, with_snapshot: bool) -> str:
    is_postgres = vendor == "postgresql"
    shared_with_project = rule.text_of(Conversation, rule.IS_SHARED_WITH_PROJECT)
    return _ROWS.format(
        asked="SELECT unnest(%s::bigint[]) AS person_id"
        if is_postgres
        else "SELECT value AS person_id FROM json_each(%s)",
        # The times are only compared, and making datetimes of them takes longer than all the rest.
        newest="newest::text" if is_postgres else "newest",
        snapshot=_SNAPSHOT_ROW if is_postgres and with_snapshot else _NO_ROW,
        most_changes=MOST_CHANGES,
        newest_of_project=f"""(
            SELECT updated_at FROM chat_conversation
            WHERE project_id = chat_project.id AND {shared_with_project}
            ORDER BY updated_at DESC LIMIT 1
        )""",  # noqa: S608
        is_private=rule.text_of(Conversation, rule.IS_PRIVATE),
        is_shared_with_team=rule.text_of(Conversation, rule.IS_SHARED_WITH_TEAM),
        is_of_guest=rule.text_of(Membership, rule.IS_OF_GUEST),
        is_for_team=rule.text_of(Project, rule.IS_FOR_TEAM),
        reads_project=rule.text_of(Project, rule.READS_PROJECT, person="asked.person_id"),
    )


# The project's key, and the time of the newest change of a conversation in it.
_Project = tuple[int, object]
# The sum of the keys of participants, and the time of the newest change.
_Taken = tuple[int, object]


class ChangedRow(NamedTuple):
    """A recently changed conversation, in a team of one of the people."""

    conversation_pk: int
    owner_pk: int
    updated_at: object
    is_private: bool


class Snapshot(NamedTuple):
    """The transactions of PostgreSQL that a query sees: all before ``oldest`` had ended, and none from
    ``next`` on had begun to write."""

    oldest: int
    next: int


# SQLite has one writer at a time, so each query sees all transactions before it.
_ALL_ENDED = Snapshot(0, 0)


class Lists(NamedTuple):
    """The versions for people (primary keys), and what has changed in their teams since a moment."""

    versions: dict[int, str]
    changed: list[ChangedRow]
    snapshot: Snapshot


def read_list_versions(people: Collection[int]) -> dict[int, str]:
    return read_lists(people, _NEVER).versions


def read_lists(people: Collection[int], since: datetime) -> Lists:
    """The lists, with at most `MOST_CHANGES` changes. One query, so all is of the same moment; none
    without people."""
    if not people:
        return Lists({}, [], _ALL_ENDED)
    keys = array_of_keys(people) if connection.vendor == "postgresql" else json.dumps(list(people))
    rows = fetch(_statement(connection.vendor, with_snapshot=since is not _NEVER), [keys, since])
    changed = [
        ChangedRow(key, owner, updated_at, kind == _CHANGED_PRIVATE)
        for kind, key, owner, updated_at in rows
        if kind in (_CHANGED, _CHANGED_PRIVATE)
    ]
    snapshots = (
        Snapshot(oldest, following) for kind, oldest, following, _ in rows if kind == _SNAPSHOT
    )
    return Lists(_versions(rows), changed, next(snapshots, _ALL_ENDED))


def _versions(rows: Collection[tuple[Any, ...]]) -> dict[int, str]:
    read = _Read()
    keys = {_MEMBER: read.teams_of, _GUEST: read.guest_of, _GROUP_MEMBER: read.groups_of}
    entries = {
        _TEAM_PROJECT: read.projects_of_team,
        _PROJECT_MEMBER: read.projects_of,
        _TAKES_PART: read.taken,
        _GROUP: read.groups,
    }
    for kind, key, second, newest in rows:
        if kind in keys:
            keys[kind][key].append(second)
        elif kind in entries:
            entries[kind][key].append((second, newest))
        elif kind == _OWN:
            read.people.append((key, second, newest))
        elif kind == _TEAM:
            read.teams[key] = (second, newest)
        elif kind == _REARRANGED:
            read.rearranged[key] = second
    return {person: _version(read, person, pins=pins, own=own) for person, pins, own in read.people}


@dataclass(slots=True)
class _Read:
    """The rows by kind. ``taken`` and ``groups`` have the sum of the keys of what makes a person or a group a
    participant, which changes with each that is added or removed, and the newest change there. ``shared`` are the digests of what people see who are in the same teams, and in
    no project of their own."""

    people: list[tuple[int, int, object]] = field(default_factory=list)
    teams: dict[int, tuple[int, object]] = field(default_factory=dict)
    rearranged: dict[int, int] = field(default_factory=dict)
    teams_of: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    guest_of: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    taken: dict[int, list[_Taken]] = field(default_factory=lambda: defaultdict(list))
    groups: dict[int, list[_Taken]] = field(default_factory=lambda: defaultdict(list))
    groups_of: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    projects_of_team: dict[int, list[_Project]] = field(default_factory=lambda: defaultdict(list))
    projects_of: dict[int, list[_Project]] = field(default_factory=lambda: defaultdict(list))
    shared: dict[tuple[int, ...], tuple[str, str]] = field(default_factory=dict)


def _version(read: _Read, person: int, *, pins: int, own: object) -> str:
    teams = tuple(sorted(read.teams_of[person]))
    projects = read.projects_of[person]
    seen = None if projects else read.shared.get(teams)
    if seen is None:
        seen = _digests(read, teams, projects)
        if not projects:
            read.shared[teams] = seen
    access, newest = seen
    guest_of, taken = read.guest_of.get(person, []), _taken_by(read, person)
    if guest_of or taken:
        # A guest gets to know of what is removed from the team's lists, and of no other change in it.
        losses = [(team, read.teams[team][0]) for team in sorted(guest_of)]
        keys = [each[:2] for each in taken]
        access = _digest((access, losses, keys))
        newest = _digest((newest, [changed for *_, changed in taken]))
    # The counts only grow, so their sum changes with any of them.
    order = pins + sum(read.rearranged[team] for team in (*teams, *guest_of))
    return f"{access}-{_digest((own, newest))}-{order}"


def _taken_by(read: _Read, person: int) -> list[tuple[int, int, object]]:
    """The conversations that a person takes part in, themselves and by each group: its key, or 0, and its
    sum and time."""
    groups = sorted(read.groups_of.get(person, ()))
    own = [(0, *taken) for taken in read.taken.get(person, ())]
    return [*own, *((group, *taken) for group in groups for taken in read.groups.get(group, ()))]


def _digests(read: _Read, teams: Iterable[int], projects: Iterable[_Project]) -> tuple[str, str]:
    """Digests of the visible entries of these teams and projects, and of their age."""
    known = [(team, *read.teams[team]) for team in teams]
    all_projects = chain(projects, *(read.projects_of_team[team] for team in teams))
    in_order = sorted(all_projects, key=itemgetter(0))
    return (
        _digest([[known_team[:2] for known_team in known], [key for key, _ in in_order]]),
        _digest([[newest for *_, newest in known], [newest for _, newest in in_order]]),
    )


def read_list_version(person: int) -> str:
    """Read before the list: a list that is newer than its version is fetched once more."""
    return read_list_versions([person])[person]


def access_part(version: str) -> str:
    """The part that changes when a conversation or a whole team is removed."""
    return version.partition("-")[0]


def order_part(version: str) -> str:
    """The part that changes with places: pinned, archived, restored, or in another order."""
    return version.rpartition("-")[2]


def _digest(value: object) -> str:
    return hashlib.blake2b(repr(value).encode(), digest_size=6).hexdigest()
